"""The documentation of metrics lists all registered metrics, and its examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ipseval.metrics import METRICS
from tests.inside.metrics import RATING_METRICS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_every_metric_is_on_the_page():
    for name in (*METRICS, *RATING_METRICS):
        assert re.search(rf"`{name}[`@(]", PAGE), name


@pytest.mark.filterwarnings("ignore::ipseval.errors.PositivityWarning")  # two positives make a short example
def test_the_examples_print_the_output_in_their_comments(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    # The page registers it: gone again after the test.
    monkeypatch.setitem(METRICS, "f1", None)
    del METRICS["f1"]
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
        printed = capsys.readouterr().out
        for comment in re.findall(r"^print\(.*?\)\s+# (.*)$", block, re.MULTILINE):
            assert comment in printed


@pytest.mark.slow
def test_the_table_of_rating_errors_is_the_output_of_its_command(shared_data):
    data = shared_data("coat").parent
    command = [sys.executable, "-W", "ignore", "reproductions/ratings_coat.py", "--data", str(data)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for line in done.stdout.strip().splitlines():
        assert line in PAGE
