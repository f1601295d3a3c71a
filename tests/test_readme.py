"""The README shows what its commands print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README, flags=re.DOTALL)


def printed(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def test_the_example_prints_what_stands_below_it():
    assert printed("-c", blocks("python")[0]) == blocks("text")[0].rstrip()


@pytest.mark.usefixtures("shared_data")
def test_the_table_on_coat_is_what_its_command_prints(shared_data):
    data = shared_data("coat").parent
    output = printed("reproductions/first_results.py", "--data", str(data), "--only", "coat")
    assert blocks("text")[1].rstrip() in output


def test_the_sample_log_is_what_its_script_writes():
    script = (
        "import runpy; clicks = runpy.run_path('data/samples/generate.py')['clicks']; "
        "print(clicks().to_csv(index=False), end='')"
    )
    assert printed("-c", script) == (ROOT / "data/samples/clicks.csv").read_text().rstrip()
