"""What `evaluate` needs: few wings when it runs, and nothing of the doors that stand beside it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

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
    inside = [Path(one).relative_to(PACKAGE).parts for one in files if Path(one).is_relative_to(PACKAGE)]
    assert {"evaluation"} < {parts[0] for parts in inside if len(parts) > 1} <= SPINE


def test_evaluate_imports_nothing_of_the_doors_beside_it():
    of: dict[str, set[str]] = {}
    for one in own_imports():
        of.setdefault(one.source, set()).add(below_package(one))
    seen, left = {""}, ["evaluation.pipeline"]
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += of.get(name, ())
    assert "inference.comparisons" in seen
    assert [name for name in sorted(seen) if name.startswith(BESIDE)] == []
