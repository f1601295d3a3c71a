"""Assertions for tests of recommenders, against a stored evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ipseval.errors import DataWarning, InputError
from ipseval.evaluation import Evaluation
from ipseval.testing._gate import check_gate_options, gate, same_quantity
from ipseval.utils.checks import check_real, warn_user

ADVICE = "Write it: evaluation.save(path, ranks=False), ipseval evaluate --out, or pytest --ipseval-update."


def assert_not_worse(
    evaluation: Evaluation, baseline: str | Path, *, update: bool = False, **options: Any
) -> None:
    """Return None where the gate passes the candidate of an evaluation beside a stored one.

    Parameters
    ----------
    baseline : path
        Written by `evaluation.save(path, ranks=False)`, or with `update`.
    update : bool
        Write the baseline instead of comparing.
    **options
        Of `gate`. They are checked with `update` as well.

    Raises
    ------
    UnknownNameError
        For an option that `gate` does not have.
    AssertionError
        When it does not pass: worse, suspiciously better, or, unless `strict=False`, it cannot tell.
    InputError
        When the results are not comparable: other data, options or metric definition.

    Warns
    -----
    DataWarning
        When it cannot tell, with `strict=False`.
    """
    check_gate_options(options)
    old = _stored(evaluation, baseline, update)
    if old is None:
        return
    found = gate(evaluation, old, **options)
    if not found.passed:
        raise AssertionError("\n".join([f"{found.verdict}, beside {baseline}", *found.tables().summary]))
    if found.outcome == "cannot tell":
        warn_user(f"{found.verdict}, beside {baseline}", DataWarning)


def assert_metric(
    evaluation: Evaluation,
    baseline: str | Path,
    *,
    metric: str,
    estimator: str | None = None,
    models: str | Iterable[str] | None = None,
    tolerance: float = 1e-9,
    update: bool = False,
) -> None:
    """Return None when every estimate is the stored one within `tolerance`: the same numbers, not as good.

    For a pipeline that must not change at all.

    Parameters
    ----------
    baseline : path
        As in `assert_not_worse`.
    metric, estimator : str
        Labels; without an estimator, every one that both hold.
    models : names, or {name here: name in the baseline}, optional
        Default: all recommenders of the evaluation.
    tolerance : float
    update : bool
        As in `assert_not_worse`.

    Raises
    ------
    AssertionError
        When |new − old| exceeds `tolerance`, or one of them is undefined.
    InputError
        When the results are not comparable, or `tolerance` is negative.
    """
    tolerance = check_real("tolerance", tolerance, low=0.0, low_open=False)
    old = _stored(evaluation, baseline, update)
    if old is None:
        return
    names = evaluation.models if models is None else [models] if isinstance(models, str) else models
    pairs = dict(names) if isinstance(names, dict) else {name: name for name in names}
    moved = []
    for label in same_quantity(evaluation, old, metric, estimator):
        for name, other in pairs.items():
            after, before = evaluation.estimate(name, metric, label), old.estimate(other, metric, label)
            if not abs(after.value - before.value) <= tolerance:
                change = f"{before.value!r} -> {after.value!r} ({after.value - before.value:+.3g})"
                moved.append(f"  {name} {after.metric} {label}: {change}")
    if moved:
        raise AssertionError("\n".join([f"not the numbers of {baseline} (within {tolerance:g}):", *moved]))


def _stored(evaluation: Evaluation, baseline: str | Path, update: bool) -> Evaluation | None:
    """Return the stored evaluation; None where it is written instead."""
    if update:
        evaluation.save(baseline, ranks=False)
        return None
    if not Path(baseline).exists():
        raise InputError(f"there is no stored result {baseline}. {ADVICE}")
    return Evaluation.load(baseline)
