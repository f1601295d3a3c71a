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
        for name, class_ in vars(importlib.import_module(info.name)).items():
            if isinstance(class_, type) and is_dataclass(class_) and class_.__module__ == info.name:
                found.setdefault(name, []).append(class_)
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
        todo += [member for member in members if cls in member.__mro__]
        if is_dataclass(cls):
            said = [str(field.type) for field in fields(cls) if field.init and not field.name.startswith("_")]
            here = vars(sys.modules[cls.__module__])  # where a name is an alias, it is no class
            for name in re.findall(r"\w+", " ".join(said)):
                todo += [class_ for class_ in known.get(name, []) if here.get(name, class_) is class_]
    wanted = {
        f"{class_.__module__}:{class_.__name__}"
        for class_ in seen
        if is_dataclass(class_) and not getattr(class_, "__abstractmethods__", None)
    }
    missing = {
        class_ for class_ in wanted - set(CLASSES.values()) if class_.partition(":")[2] not in NOT_STORED
    }
    assert not missing, f"give these a name in ipseval.utils.stored_classes: {sorted(missing)}"
