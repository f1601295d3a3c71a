# ruff: noqa: E501
"""A fuzzer of the public border, built from the signatures: each function × argument × wrong value.

Everything public is called with right arguments, of which one is replaced by a wrong one. What comes must be a
result or an `IpsevalError`; anything else is foreign. Names that appear later are fuzzed without a further line,
unless they need an argument that `values.right` does not know: then `targets` fails.
"""

from __future__ import annotations

import importlib
import inspect
import io
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ipseval
from tests.contracts.api import public_modules
from tests.fuzz.values import right, wrong

# Only the library makes these; what is passed to them has been checked where it came in.
RESULTS = {
    *("AdditiveMetric", "BeyondAccuracy", "Blocks", "Calibration", "Claim"),
    *("Correction", "CorrectionPath", "DataCard", "Decomposition", "Definition", "DensityRatioFit"),
    *("Estimate", "Evaluation", "ExaminationCurve", "Explanation", "ExposureCurve"),
    *(
        "FittedRewards",
        "GammaFit",
        "Gate",
        "GenerationsEvaluation",
        "Groups",
        "Inversion",
        "LinearForm",
        "ListOverlap",
        "Measure",
    ),
    *("MetricGates", "ModelScores"),
    *("Note", "OnlineAgreement", "OrderAgreement", "Parameter", "Parts"),
    *("PolicyEvaluation", "PopularityExponent", "ProtocolComparison", "ProtocolStudy", "Sample"),
    *(
        "SampledEstimate",
        "SampledMetric",
        "Segments",
        "Sensitivity",
        "ShownData",
        "SlidingSplits",
        "Statement",
    ),
    *("Tables", "TrainingCounts", "UserSums", "Validation"),
}
LEFT_OUT = {
    *("evaluate_spark", "evaluate_dask", "evaluate_duckdb"),  # they need a cluster, or files
    *("lenskit_metric", "recbole_metric", "rectools_metric"),  # they need these libraries
    *("PropensityModel", "Reward", "RewardModel"),  # protocols, of which nothing is made
    "UnknownNameError",  # it is raised, not called
    "register",  # what it is given stays in the process: tests/contracts/test_own_members.py
    "read_ids",  # it takes nothing but any number of sources: tests/data/reading/test_sources.py
    # What the library calls with its own values: no user has any of them.
    *(
        "Decomposition.from_samples",
        "FitError.from_influence",
        "FittedRewards.from_models",
        "Moments.from_user_sums",
        "Note.create",
    ),
    *(
        "Moments.from_columns",
        "RankedPositives.from_validated",
        "TrainingCounts.from_interactions",
        "UserSums.from_values",
    ),
}
OBJECTS = (  # methods
    *(
        "correction",
        "evaluation",
        "log",
        "split",
        "exposure",
        "propensity",
        "ranked",
        "world",
        "study",
        "slates",
    ),
)
ELSEWHERE = {"ipseval.cli", "ipseval.pytest_plugin"}  # tests/cli and tests/testing
SECONDS = 20
# A request for that much work is what it says.
SIZES = {"n_resamples", "n_repeats", "n_users", "n_items", "n_factors", "n_lists", "cross_fit", "n_splits",
         "n_iterations", "n_draws", "n_candidates", "n_sampled", "n_uniform", "length", "n_per_user", "n_threads", "depth", "digits", "n_folds", "block_size"}  # fmt: skip
# What a function or object of the user raises is the user's.
FUNCTIONS = {"model", "method", "refit", "features", "function", "models", "recommendations", "handle"}  # fmt: skip
HUGE = {"10**30", "1e300", "2**63", "2**53", "huge", "large"}


@dataclass(frozen=True)
class Target:
    """Something public that is called, with the names of its arguments."""

    name: str
    call: Callable[..., Any]
    arguments: dict[str, Any]
    optional: tuple[str, ...]


@dataclass(frozen=True)
class Foreign:
    """A case that ended in something else than a result or an error of the library.

    `from_caller`: the wrong value is itself a function, such as report=int, and the error is its own. It reaches the
    caller unchanged, as the error of any callback does: the library cannot word what a function of the caller means.
    Such cases are counted, but they are no fault.
    """

    target: str
    argument: str
    value: str
    error: str
    from_caller: bool = False

    def __str__(self) -> str:
        return f"{self.target}({self.argument}={self.value}): {self.error}"


def public() -> Iterator[tuple[str, Any]]:
    """Yield (name, object) of every public function and class."""
    seen = set()
    for module in map(importlib.import_module, sorted({*public_modules()} - ELSEWHERE)):
        for name in module.__all__:
            member = getattr(module, name)
            ours = getattr(member, "__module__", "").startswith("ipseval")
            if callable(member) and ours and id(member) not in seen and not inspect.isabstract(member):
                seen.add(id(member))
                yield name, member


def targets(folder: Path) -> list[Target]:
    """Return what is fuzzed: functions, classes that users make, their constructors and methods."""
    known = right(folder)
    found, missing = [], []
    calls: list[tuple[str, Callable[..., Any]]] = []
    for name, member in public():
        if name in LEFT_OUT or (isinstance(member, type) and issubclass(member, (Exception, Warning))):
            continue
        if not isinstance(member, type):
            calls.append((name, member))
            continue
        if name not in RESULTS:
            calls.append((name, member))
        calls += [
            (f"{name}.{method}", getattr(member, method))
            for method, made in vars(member).items()
            if f"{name}.{method}" not in LEFT_OUT
            and isinstance(made, classmethod)
            and not method.startswith("_")
        ]
    for value in OBJECTS:
        kind = type(known[value])
        calls += [
            (f"{kind.__name__}.{method}", getattr(known[value], method))
            for method in dir(kind)
            if not method.startswith("_") and inspect.isfunction(getattr(kind, method, None))
        ]
    for name, call in calls:
        if name in LEFT_OUT:
            continue
        try:
            parameters = inspect.signature(call).parameters.values()
        except ValueError:
            continue
        given, optional = {}, []
        for member in parameters:
            if member.kind in (member.VAR_KEYWORD, member.VAR_POSITIONAL):
                continue
            for key in (f"{name}.{member.name}", member.name):
                if key in known and (
                    member.default is member.empty or key != member.name or member.name == "rng"
                ):
                    given[member.name] = known[key]
                    break
            else:
                if member.default is member.empty:
                    missing.append(f"{name}.{member.name}")
            if member.name not in given:
                optional.append(member.name)
        found.append(Target(name, call, given, tuple(optional)))
    if missing:
        keys = ", ".join(f'"{name}"' for name in missing)
        raise AssertionError(f"Add {keys} to right() in tests/fuzz/values.py.")
    return found


def cases(
    folder: Path, found: list[Target] | None = None
) -> list[tuple[Target, str, str, Callable[[], Any]]]:
    """Return every target × argument × wrong value."""
    values = wrong(folder)
    return [
        (target, argument, name, make)
        for target in found or targets(folder)
        for argument in (*target.arguments, *target.optional)
        for name, make in values.items()
        if not (argument in SIZES and name in HUGE)
        and not (argument in FUNCTIONS and name in {"function", "builtin", "class", "module"})
    ]


def attempt(target: Target, argument: str, name: str, make: Callable[[], Any]) -> Foreign | None:
    """Return what is foreign in one case, or None."""
    try:
        run(target, argument, make)
    except ipseval.IpsevalError as error:
        text = str(error)
        return None if text else Foreign(target.name, argument, name, "an error without a text")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        where = error.__traceback__
        while (
            where is not None
            and where.tb_next is not None
            and "ipseval" in where.tb_next.tb_frame.f_code.co_filename
        ):
            where = where.tb_next
        place = f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where else ""
        text = f"{type(error).__name__} at {place}: {error!s:.120}"
        return Foreign(target.name, argument, name, text, raises_itself(target, argument, make))
    return None


def run(target: Target, argument: str, make: Callable[[], Any]) -> None:
    """Call a target with a value, and print what it returns."""
    with quiet(), limit(SECONDS):
        result = target.call(**{**target.arguments, argument: make()})
        if inspect.isgenerator(result):
            next(result, None)
        repr(result)


def raises_itself(target: Target, argument: str, make: Callable[[], Any]) -> bool:
    """Return whether a value is a function whose own error ends the call, by a second call that records its errors."""
    with quiet():
        value = make()
    if not callable(value):
        return False
    own_errors = []

    def record(*arguments: object, **options: object) -> object:
        try:
            return value(*arguments, **options)
        except BaseException as error:
            own_errors.append(error)
            raise

    try:
        run(target, argument, lambda: record)
    except BaseException as error:
        return any(error is own_error for own_error in own_errors)
    return False


@contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings and prints away."""
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in a call that takes longer."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no answer in {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
