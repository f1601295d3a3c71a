"""What `evaluate` needs: few wings when it runs, and nothing of the doors that stand beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.sources import PACKAGE
from tests.test_architecture import below_package, own_imports

SPINE = {
    *("utils", "data", "propensity", "ranking", "metrics", "estimators", "inference"),
    *("evaluation", "reporting"),
}
BESIDE = ("evaluation.beyond", "evaluation.slates", "policies", "distributed")


def evaluated_and_printed() -> str:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.argwhere(rng.random((80, 30)) < 0.3), columns=["user", "item"])
    split = ipseval.split_random(ipseval.Interactions.from_frame(frame), rng=0)
    models = {"one": rng.random((80, 30)), "other": rng.random((80, 30))}
    options = {"propensity": ipseval.PowerLawPropensity(gamma=1.0), "low_ess": "ignore"}
    return repr(ipseval.evaluate(models, split, **options))


def test_evaluating_and_printing_enters_the_wings_of_the_spine_alone():
    evaluated_and_printed()  # what is imported on first use is there
    files = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        evaluated_and_printed()
    finally:
        sys.setprofile(before)
    inside = [Path(path).relative_to(PACKAGE).parts for path in files if Path(path).is_relative_to(PACKAGE)]
    assert {"evaluation"} < {parts[0] for parts in inside if len(parts) > 1} <= SPINE


def test_evaluate_imports_nothing_of_the_doors_beside_it():
    of: dict[str, set[str]] = {}
    for imported in own_imports():
        of.setdefault(imported.source, set()).add(below_package(imported))
    seen, left = {""}, ["evaluation._evaluate"]
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += of.get(name, ())
    assert "inference.comparisons" in seen
    assert [name for name in sorted(seen) if name.startswith(BESIDE)] == []


# Files of the library that a warm call enters. The numbers may only shrink; the goals were 30 and 45.
MOST_FILES = 30
MOST_FILES_WITH_PRINT = 43


def count_entered_files(call: Callable[[], object]) -> set[str]:
    """Return the files of the library that a call enters."""
    files = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return files


@pytest.mark.filterwarnings("ignore")
def test_evaluating_one_metric_by_one_estimator_enters_few_files():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.argwhere(rng.random((80, 30)) < 0.3), columns=["user", "item"])
    split = ipseval.split_random(ipseval.Interactions.from_frame(frame), rng=0)
    compute = ipseval.ComputeOptions(engine="numpy", n_threads=1, progress=False)
    propensity = ipseval.PowerLawPropensity(gamma=0.0)
    evaluate_models = ipseval.evaluate  # an old lazy_loader enters a file at every access

    def evaluate() -> ipseval.Evaluation:
        return evaluate_models(
            {"model": rng.random((80, 30))},
            split,
            propensity=propensity,
            metrics=["recall@10"],
            estimators=["snips"],
            compute=compute,
        )

    repr(evaluate())  # the first call imports
    evaluation = evaluate()
    files = count_entered_files(evaluate)
    with_print = files | count_entered_files(lambda: repr(evaluation))
    assert len(files) <= MOST_FILES, "\n".join(sorted(files))
    assert len(with_print) <= MOST_FILES_WITH_PRINT, sorted(with_print)
