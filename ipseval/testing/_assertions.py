"""What a test calls: not worse than before, and the same number as before."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ipseval.errors import InputError
from ipseval.testing._compare import Rule, compare_results
from ipseval.testing._result import StoredResult, write_baseline

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation


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
        Written by `write_baseline`.
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
    """
    if update:
        write_baseline(evaluation, baseline)
        return
    found = compare_results(
        StoredResult.of(evaluation),
        StoredResult.read(baseline),
        metric=metric,
        estimator=estimator,
        models=models,
        margin=margin,
        rule=rule,
        confidence_level=confidence_level,
    )
    if not all(one.passed for one in found):
        raise AssertionError("\n".join([f"worse than {baseline}:", *(f"  {one}" for one in found)]))


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
    if not (np.isfinite(tolerance) and tolerance >= 0):
        raise InputError(f"tolerance must be a finite number >= 0; got {tolerance!r}.")
    if update:
        write_baseline(evaluation, baseline)
        return
    found = compare_results(
        StoredResult.of(evaluation),
        StoredResult.read(baseline),
        metric=metric,
        estimator=estimator,
        models=models,
    )
    moved = [one for one in found if not abs(one.difference) <= tolerance]
    if moved:
        lines = [
            f"  {' '.join(one.key)}: {one.old!r} -> {one.new!r} ({one.difference:+.3g})" for one in moved
        ]
        raise AssertionError("\n".join([f"not the numbers of {baseline} (within {tolerance:g}):", *lines]))
