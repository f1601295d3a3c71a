"""What `evaluate` needs: few wings when it runs, and nothing of the doors that stand beside it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import ipseval
from tests.sources import PACKAGE, modules

SPINE = {
    *("_base", "data", "propensity", "ranking", "metrics", "estimators", "inference", "evaluation", "report")
}
BESIDE = ("evaluation.beyond", "evaluation.slates", "evaluation._windows", "policies", "clusters")


def evaluated_and_printed() -> str:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.argwhere(rng.random((80, 30)) < 0.3), columns=["user", "item"])
    split = ipseval.split_random(ipseval.Interactions.from_frame(frame), rng=0)
    models = {"one": rng.random((80, 30)), "other": rng.random((80, 30))}
    options = {"propensity": ipseval.PowerLawPropensity(gamma=1.0), "on_low_ess": "ignore"}
    return repr(ipseval.evaluate(models, split, **options))


def test_evaluating_and_printing_enters_nine_wings_at_most():
    evaluated_and_printed()  # what is imported on first use is there
    entered = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE) and len(path.relative_to(PACKAGE).parts) > 1:
            entered.add(path.relative_to(PACKAGE).parts[0])

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        evaluated_and_printed()
    finally:
        sys.setprofile(before)
    assert entered <= SPINE
    assert len(entered) <= 9


def imported(path: Path) -> set[Path]:
    """Return the files of the library that a file imports, wherever it does."""
    found = set()
    for node in ast.walk(modules()[path]):
        names = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{one.name}" for one in node.names)]
        for name in names:
            top, *rest = name.split(".")
            place = PACKAGE.joinpath(*rest)
            if top == "ipseval":
                found |= {place.with_suffix(".py"), place / "__init__.py"} & set(modules())
    return found


def test_evaluate_imports_nothing_of_the_doors_beside_it():
    seen, left = set(), [PACKAGE / "evaluation" / "_evaluate.py"]
    while left:
        path = left.pop()
        if path not in seen and path != PACKAGE / "__init__.py":
            seen.add(path)
            left += imported(path)
    names = {".".join(one.relative_to(PACKAGE).with_suffix("").parts) for one in seen}
    assert "inference._comparisons" in names
    assert [name for name in sorted(names) if name.startswith(BESIDE)] == []
