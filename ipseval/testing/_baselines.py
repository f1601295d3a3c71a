"""Assertions for tests of recommenders, against a stored evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ipseval.errors import DataWarning, InputError
from ipseval.evaluation import Evaluation
from ipseval.testing._gate import check_gate_options, find_comparable_estimators, gate
from ipseval.utils.checks import check_real, warn_user
from ipseval.utils.public import public_function

ADVICE = "Write it: evaluation.save(path, ranks=False), ipseval evaluate --out, or pytest --ipseval-update."


@public_function
def assert_not_worse(
    evaluation: Evaluation, baseline: str | Path, *, update: bool = False, **options: Any
) -> None:
    """Raise an `AssertionError` unless the gate passes an evaluation compared with a stored one.

    Parameters
    ----------
    evaluation : Evaluation
        Evaluation of the candidate.
    baseline : str or Path
        File written by `evaluation.save(path, ranks=False)`, or with `update`.
    update : bool, default False
        Write the baseline instead of comparing with it.
    **options
        Options of `gate`. They are checked with `update` as well.

    Raises
    ------
    UnknownNameError
        For an option that `gate` does not have.
    AssertionError
        When the gate does not pass: the candidate is worse, suspiciously better, or, unless `strict=False`,
        the gate cannot tell.
    InputError
        When the results are not comparable: other data, options or metric definition.

    Warns
    -----
    DataWarning
        When the gate cannot tell and `strict=False`.

    See Also
    --------
    assert_metric : Require the same numbers.
    gate : The decision as a value.
    """
    check_gate_options(options)
    stored_evaluation = _load_or_update(evaluation, baseline, update)
    if stored_evaluation is None:
        return
    decision = gate(evaluation, stored_evaluation, **options)
    conclusion = f"{decision.verdict}, compared with {baseline}"
    if not decision.has_passed:
        raise AssertionError("\n".join([conclusion, *decision.tables().summary]))
    if decision.outcome == "cannot tell":
        warn_user(conclusion, DataWarning)


@public_function
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
    """Raise an `AssertionError` unless every estimate equals the stored one within `tolerance`.

    Use it for a pipeline whose numbers must not change at all, whether for better or for worse.

    Parameters
    ----------
    evaluation : Evaluation
        Evaluation of the recommenders to check.
    baseline : str or Path
        File, as in `assert_not_worse`.
    metric : str
        Label of the metric.
    estimator : str, optional
        Label of the estimator. Default: every estimator that both evaluations contain.
    models : str, iterable of str, or {name here: name in the baseline}, optional
        Default: all recommenders of the evaluation.
    tolerance : float, default 1e-9
        Largest absolute difference of two estimates.
    update : bool, default False
        Write the baseline instead of comparing with it.

    Raises
    ------
    AssertionError
        When |new − old| exceeds `tolerance`, or one of the estimates is undefined.
    InputError
        When the results are not comparable, or `tolerance` is negative.

    See Also
    --------
    assert_not_worse : Allow for changes that the gate accepts.
    """
    tolerance = check_real("tolerance", tolerance, low=0.0, low_open=False)
    stored_evaluation = _load_or_update(evaluation, baseline, update)
    if stored_evaluation is None:
        return
    changes = []
    for label in find_comparable_estimators(evaluation, stored_evaluation, metric, estimator):
        for name, stored_name in _pair_names(evaluation, models).items():
            new = evaluation.estimate(name, metric, label)
            old = stored_evaluation.estimate(stored_name, metric, label)
            difference = new.value - old.value
            if not abs(difference) <= tolerance:
                change = f"{old.value!r} -> {new.value!r} ({difference:+.3g})"
                changes.append(f"  {name} {new.metric} {label}: {change}")
    if changes:
        raise AssertionError("\n".join([f"not the numbers of {baseline} (within {tolerance:g}):", *changes]))


def _pair_names(evaluation: Evaluation, models: str | Iterable[str] | None) -> dict[str, str]:
    """Return the name in the baseline of each recommender to check."""
    if models is None:
        models = evaluation.models
    if isinstance(models, str):
        models = [models]
    if isinstance(models, dict):
        return dict(models)
    return {name: name for name in models}


def _load_or_update(evaluation: Evaluation, baseline: str | Path, update: bool) -> Evaluation | None:
    """Return the stored evaluation, or, with `update`, write it and return None."""
    if update:
        evaluation.save(baseline, ranks=False)
        return None
    if not Path(baseline).exists():
        raise InputError(f"there is no stored result {baseline}. {ADVICE}")
    return Evaluation.load(baseline)
