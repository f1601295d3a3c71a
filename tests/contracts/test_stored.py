"""Names in files: each stands for one class, and every class that a result can hold has one."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from dataclasses import fields, is_dataclass
from typing import Any

import ipseval
from ipseval.estimators import Estimator
from ipseval.metrics import Metric
from tests.inside.reporting import Result
from tests.inside.utils import CLASSES, STORED_CLASSES, add_members

# Bases of others, and a metric of validation alone.
NOT_STORED = {"AdditiveMetric", "IdealListMetric", "RatingMetric", "_ItemMean"}
# Those from `DensityRatioFit` on stand behind Any and callables of a propensity.
ROOTS = (
    *(
        "RankedPositives",
        "DensityRatioFit",
        "GammaFit",
        "PopularityExponent",
        "ExaminationCurve",
        "PairCounts",
        "FitError",
    ),
    "ProjectedDerivative",
    "CrossFittedOdds",
    "RatioProblem",
    "_PropensityDerivative",
    "_TransformedFunction",
    "_TransformedDerivative",
    "_ExposureProbability",
)


def test_every_name_in_files_stands_for_one_class():
    add_members()
    for name, place in CLASSES.items():
        module, _, kind = place.partition(":")
        found = getattr(importlib.import_module(module), kind)
        assert is_dataclass(found), name
        assert (found.__module__, found.__name__) == (module, kind), "write where it is defined"
        assert re.fullmatch("[a-z]+(-[a-z]+)*", name)
    assert len({place.partition(":")[2] for place in CLASSES.values()}) == len(CLASSES)
    assert list(STORED_CLASSES) == sorted(STORED_CLASSES)


def dataclasses_of_the_library() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for info in pkgutil.walk_packages(ipseval.__path__, "ipseval."):
        if info.name.endswith(("__main__", "_torch", "_numba", "pytest_plugin")):
            continue
        for name, one in vars(importlib.import_module(info.name)).items():
            if isinstance(one, type) and is_dataclass(one) and one.__module__ == info.name:
                found.setdefault(name, []).append(one)
    return found


def test_every_class_that_a_result_can_hold_has_a_name_in_files():
    add_members()
    known = dataclasses_of_the_library()
    members = [one for kinds in known.values() for one in kinds]
    seen: set[Any] = set()
    todo = [*(kind for root in ROOTS for kind in known[root]), Result, Metric, Estimator]
    while todo:
        cls = todo.pop()
        if cls in seen:
            continue
        seen.add(cls)
        todo += [one for one in members if cls in one.__mro__]
        if is_dataclass(cls):
            said = [str(one.type) for one in fields(cls) if one.init and not one.name.startswith("_")]
            here = vars(sys.modules[cls.__module__])  # where a name is an alias, it is no class
            for name in re.findall(r"\w+", " ".join(said)):
                todo += [one for one in known.get(name, []) if here.get(name, one) is one]
    wanted = {
        f"{one.__module__}:{one.__name__}"
        for one in seen
        if is_dataclass(one) and not getattr(one, "__abstractmethods__", None)
    }
    missing = {one for one in wanted - set(CLASSES.values()) if one.partition(":")[2] not in NOT_STORED}
    assert not missing, f"give these a name in ipseval.utils.stored_classes: {sorted(missing)}"
