"""Assertions for regression tests of recommenders: against a stored result, with uncertainty.

A baseline is a saved evaluation (`evaluation.save(path, ranks=False)`) that is kept under version control. It
states its data, options and metric definitions; results that differ in these are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np

from ipseval._base.border import guard
from ipseval._base.checks import check_choice, check_real, warn_user
from ipseval.errors import InputError, PositivityWarning
from ipseval.evaluation import Evaluation
from ipseval.evaluation._questions import estimator_label, metric_label
from ipseval.inference._intervals import Key, normal_interval
from ipseval.report._words import listed

__all__ = ["BaselineCheck", "assert_metric", "assert_not_worse", "compare_results"]

Rule: TypeAlias = Literal["no-evidence", "non-inferior"]
POWER = 0.8
ADVICE = "Write it: evaluation.save(path, ranks=False), ipseval evaluate --out, or pytest --ipseval-update."


@dataclass(frozen=True)
class BaselineCheck:
    """A recommender's estimate against the stored one: Δ = new − old, with an interval.

    Attributes
    ----------
    key, old_key : (model, metric, estimator)
    old, new : float
    std_error : float
        Of the difference, from the differences of the users.
    low, high : float
        Bounds of its interval at `confidence_level`.
    margin : float
        Loss that is tolerated, >= 0, in the unit of the metric.
    rule : {"no-evidence", "non-inferior"}
    flag : str
        Why one of the estimates should not be trusted; "" where nothing is wrong.
    """

    key: Key
    old_key: Key
    old: float
    new: float
    std_error: float
    low: float
    high: float
    margin: float
    rule: Rule
    flag: str = ""

    @property
    def difference(self) -> float:
        """Return new − old."""
        return self.new - self.old

    @property
    def passed(self) -> bool:
        """Whether the new estimate is not worse under `rule`, as `assert_not_worse` says."""
        if self.rule == "no-evidence":
            return self.high >= -self.margin
        return self.low >= -self.margin

    @property
    def detectable(self) -> float:
        """The smallest loss that "no-evidence" finds with 80 % power, in the unit of the metric."""
        half_width = (self.high - self.low) / 2  # of a normal interval
        return self.margin + half_width + NormalDist().inv_cdf(POWER) * self.std_error

    def __str__(self) -> str:
        model, metric, estimator = self.key
        name = model if self.old_key[0] == model else f"{model} (was {self.old_key[0]})"
        failed = "WORSE" if self.rule == "no-evidence" else "NOT SHOWN NON-INFERIOR"
        verdict = ("ok" if self.passed else failed) + (", UNRELIABLE" if self.flag else "")
        return (
            f"{verdict}: {name}  {metric}  {estimator}: {self.old:.6g} -> {self.new:.6g}, "
            f"difference {self.difference:+.6g} [{self.low:+.6g}, {self.high:+.6g}], margin {self.margin:g}"
            f"{f'; {self.flag}' if self.flag else ''}"
        )


def concluded(found: list[BaselineCheck]) -> str:
    """Return what comparisons say together; where nothing is found, which loss would have been."""
    worse = [one for one in found if not one.passed]
    if worse:
        named = dict.fromkeys(f"{one.key[0]} by {one.key[1]} ({one.key[2]})" for one in worse)
        verb = "is worse" if worse[0].rule == "no-evidence" else "is not shown to be non-inferior"
        return f"Verdict: {listed(list(named))} {verb}."
    blind = max(found, key=lambda one: one.detectable)
    if all(one.difference == one.std_error == 0 for one in found):
        return "Verdict: nothing changed."
    if blind.rule == "non-inferior":
        return "Verdict: no loss beyond the margin."
    return (
        "Verdict: not shown to be worse. With 80 % power a loss of "
        f"{blind.detectable:.2g} of {blind.key[1]} would have been found ({blind.key[0]}, {blind.key[2]})."
    )


def compare_results(
    new: Evaluation,
    old: Evaluation,
    *,
    metric: str,
    estimator: str | None = None,
    models: Iterable[str] | dict[str, str] | None = None,
    margin: float = 0.0,
    rule: Rule = "no-evidence",
    confidence_level: float = 0.95,
) -> list[BaselineCheck]:
    """Return one comparison for each model and estimator that is asked for.

    Parameters
    ----------
    new, old : Evaluation
        As it is, or loaded from a file.
    metric, estimator : str
        Labels. Without an estimator, every estimator that both results hold.
    models : names, or {name in new: name in old}, optional
        Default: every model of `new`; each must be in `old`.

    Raises
    ------
    InputError
        When data, options or the definition of the metric differ, or an estimate is missing or undefined.
    """
    check_choice("rule", rule, ("no-evidence", "non-inferior"))
    margin = check_real("margin, the loss that is tolerated,", margin, low=0.0, low_open=False)
    pairs = _pairs(new.models if models is None else models)
    metric = metric_label(metric, new.estimates)
    estimator = None if estimator is None else estimator_label(estimator, new.estimates)
    estimators = [estimator] if estimator is not None else _shared_estimators(new, old, metric)
    found = []
    for label in estimators:
        _check_comparable(new, old, metric, label)
        for one, other in pairs.items():
            keys = (one, metric, label), (other, metric, label)
            first, second = new.estimate(*keys[0]), old.estimate(*keys[1])
            for name, key, each in (("new", keys[0], first), ("old", keys[1], second)):
                if not np.isfinite([each.value, each.standard_error]).all():
                    raise InputError(f"{key} of the {name} result is undefined, or has no standard error.")
            error, _, _ = first.user_sums.paired_error(second.user_sums)
            gap = first.value - second.value
            interval = normal_interval(gap, error, confidence_level=confidence_level)
            numbers = (second.value, first.value, error, *interval)
            found.append(BaselineCheck(*keys, *numbers, margin, rule, first.flag or second.flag))
    return found


def _pairs(models: Iterable[str] | dict[str, str]) -> dict[str, str]:
    names = [models] if isinstance(models, str) else list(models)
    pairs = models if isinstance(models, dict) else dict(zip(names, names, strict=True))
    if not pairs or not all(isinstance(one, str) for pair in pairs.items() for one in pair):
        raise InputError(
            f"models must be names of recommenders, or {{name in new: name in old}}; got {models!r:.80}."
        )
    return pairs


def assert_not_worse(
    evaluation: Evaluation,
    baseline: str | Path,
    *,
    metric: str,
    estimator: str | None = None,
    models: Iterable[str] | dict[str, str] | None = None,
    margin: float = 0.0,
    rule: Rule = "no-evidence",
    confidence_level: float = 0.95,
    update: bool = False,
) -> None:
    """Return None unless a recommender is worse than in the stored result by more than `margin`.

    Δ = new − old with a normal interval, paired by user. Each comparison stands for itself: with many, one
    in (1 − confidence_level)/2 fails by chance.

    Parameters
    ----------
    baseline : path
        Written by `evaluation.save(path, ranks=False)`, or with `update`.
    metric, estimator : str
        Labels; without an estimator, every one that both hold.
    models : names, or {name here: name in the baseline}, optional
        Default: all models of the evaluation.
    margin : float
        Loss that is tolerated, >= 0, in the unit of the metric.
    rule : {"no-evidence", "non-inferior"}
        "no-evidence": fails when the whole interval lies below −margin; an equal recommender passes with
        probability 1 − (1 − confidence_level)/2. "non-inferior": passes only when the whole interval lies at
        or above −margin, so the test needs a margin of about two standard errors.
    update : bool
        Write the baseline instead of comparing.

    Raises
    ------
    AssertionError
        When a recommender is worse; the text lists all comparisons.
    InputError
        When the results are not comparable: other data, options or metric definition.

    Warns
    -----
    PositivityWarning
        When estimates that pass are unreliable: that they are not worse says little then.
    """
    options: dict[str, Any] = {"metric": metric, "estimator": estimator, "models": models, "margin": margin}
    found = _checks(evaluation, baseline, update, **options, rule=rule, confidence_level=confidence_level)
    if not all(one.passed for one in found):
        raise AssertionError("\n".join([f"worse than {baseline}:", *(f"  {one}" for one in found)]))
    flagged = [f"  {one}" for one in found if one.flag]
    if flagged:
        warn_user(
            "\n".join([f"not worse than {baseline}, by unreliable estimates:", *flagged]), PositivityWarning
        )


def assert_metric(
    evaluation: Evaluation,
    baseline: str | Path,
    *,
    metric: str,
    estimator: str | None = None,
    models: Iterable[str] | dict[str, str] | None = None,
    tolerance: float = 1e-9,
    update: bool = False,
) -> None:
    """Return None when every estimate is the stored one within `tolerance`: the same numbers, not as good.

    For a pipeline that must not change at all; parameters as in `assert_not_worse`.

    Raises
    ------
    AssertionError
        When |new − old| exceeds `tolerance`, or one of them is undefined.
    InputError
        When the results are not comparable, or `tolerance` is negative.
    """
    tolerance = check_real("tolerance", tolerance, low=0.0, low_open=False)
    found = _checks(evaluation, baseline, update, metric=metric, estimator=estimator, models=models)
    moved = [one for one in found if not abs(one.difference) <= tolerance]
    if moved:
        lines = [
            f"  {' '.join(one.key)}: {one.old!r} -> {one.new!r} ({one.difference:+.3g})" for one in moved
        ]
        raise AssertionError("\n".join([f"not the numbers of {baseline} (within {tolerance:g}):", *lines]))


def _checks(
    evaluation: Evaluation, baseline: str | Path, update: bool, **options: Any
) -> list[BaselineCheck]:
    """Return the comparisons with the baseline; none where it is written instead."""
    if update:
        evaluation.save(baseline, ranks=False)
        return []
    if not Path(baseline).exists():
        raise InputError(f"there is no stored result {baseline}. {ADVICE}")
    return compare_results(evaluation, Evaluation.load(baseline), **options)


def _shared_estimators(new: Evaluation, old: Evaluation, metric: str) -> list[str]:
    held = {key[2] for key in old.estimates if key[1] == metric}
    shared = dict.fromkeys(key[2] for key in new.estimates if key[1] == metric and key[2] in held)
    if not shared:
        has = [f"{', '.join(one.metrics)} by {', '.join(one.estimators)}" for one in (new, old)]
        raise InputError(
            f"the results share no estimator of {metric}; the new one has {has[0]}, the old one {has[1]}."
        )
    return list(shared)


def _check_comparable(new: Evaluation, old: Evaluation, metric: str, estimator: str) -> None:
    """Raise `InputError`, naming what differs, when the numbers are not of the same quantity."""
    known = [one.weights[estimator].weighted for one in (new, old) if estimator in one.weights]
    weighted = any(known) or not known  # without weights, all that could matter has to be the same
    before, after = _basis(old, metric), _basis(new, metric)
    differing = [
        f"{name} {_shown(before.get(name))} -> {_shown(after.get(name))}"
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name) and (weighted or not name.startswith("propensity"))
    ]
    if differing:
        raise InputError(
            f"the results cannot be compared: {'; '.join(differing)}. If the change is meant, store the "
            "result anew (evaluation.save, or pytest --ipseval-update)."
        )


def _basis(one: Evaluation, metric: str) -> dict[str, Any]:
    """Return what one metric of an evaluation is of, by name."""
    definition = one.basis["metrics"].get(metric) or {}
    defined = {f"definition of {metric}: {name}": value for name, value in definition.items()}
    return {**one.basis["data"], **one.basis["options"], **defined}


def _shown(value: Any) -> str:
    is_hash = isinstance(value, str) and len(value) == 64
    return f"{value[:12]}…" if is_hash else repr(value)


guard(__name__)
