"""Every block of the page on adapters runs, and its model gets an estimate of every metric."""

from __future__ import annotations

import re
import shutil
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from ipseval.evaluation import evaluate
from ipseval.ranking.adapters import adapt
from tests.inside.ranking import ADAPTERS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "adapters.md").read_text(encoding="utf-8")
NAMES = {"scikit-surprise": "surprise", "lightfm-next": "lightfm", "spark": "pyspark"}
SECTIONS = dict(re.findall(r"^### (\w+)$(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))
SETUP = PAGE[PAGE.index("## An example for each") : PAGE.index("### ")]


def module_name(heading: str) -> str:
    return NAMES.get(heading.lower(), heading.lower())


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def read_lines(text: str) -> list[str]:
    """Return the lines of the last block, without imports and comments."""
    return [
        line for line in blocks(text)[-1].splitlines() if line and not line.startswith(("import ", "from "))
    ]


def test_every_adapter_has_a_section_and_a_row_of_versions():
    assert {module_name(heading) for heading in SECTIONS} == set(ADAPTERS)
    rows = re.findall(r"^\| ([\w-]+) \| ", PAGE[PAGE.index("## Versions") :], re.MULTILINE)
    assert {module_name(row) for row in rows} - {"library", "mlflow"} == set(ADAPTERS)


@pytest.mark.parametrize("heading", SECTIONS)
def test_an_example_is_three_lines(heading):
    # What a library wants prepared stands in a block of its own; torch has no training loop to call.
    assert len(read_lines(SECTIONS[heading])) == (1 if heading == "torch" else 3)


@pytest.mark.filterwarnings("ignore")  # the libraries' own, and the count of items without training pairs
@pytest.mark.parametrize("heading", SECTIONS)
def test_the_example_of_a_library_runs_and_evaluates_its_model_as_dense_scores(heading, folder):
    root = module_name(heading)
    pytest.importorskip(root, reason=f"{heading} is not installed")
    if heading == "Spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install openjdk-17-jre-headless")
    arguments = {}
    names = {}

    def evaluate_and_record(models, split, **options):
        arguments.update(models=models, split=split, options=options)
        return evaluate(models, split, **options)

    try:
        with patch("ipseval.evaluate", evaluate_and_record), patch.dict(np.__dict__):
            for block in [*blocks(SETUP), *blocks(SECTIONS[heading])]:
                exec(block, names)
        split = arguments["split"]
        ((name, model),) = arguments["models"].items()
        scorer = adapt(model, split)
        if isinstance(scorer, tuple):
            user, item, *bias = (np.asarray(part, dtype=float) for part in scorer)
            dense = user @ item.T + (bias[0] if bias else 0.0)
        else:
            dense = scorer(np.arange(split.n_users))
    finally:
        if heading == "Spark":
            import_module("pyspark.sql").SparkSession.builder.getOrCreate().stop()
    frame = names["evaluation"].frame
    assert np.isfinite(frame["estimate"]).all()
    assert len(frame) == 4  # two metrics by two estimators
    expected = evaluate({name: dense}, split, **arguments["options"]).frame
    pd.testing.assert_frame_equal(frame, expected, check_exact=True)
