"""`plan_exposure`: expected precision by size of the random-exposure experiment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval.correction._posterior import BORROWED, posterior
from ipseval.correction._result import Correction
from ipseval.errors import DataWarning
from ipseval.utils.checks import check_fraction, check_positive_int, warn_user
from ipseval.utils.types import FloatArray

DEFAULT_SHARE = 0.05  # of randomly shown pairs that are positive, where there is no pilot
REGRET_LEVEL = 0.9
N_DRAWS = 20_000
PLAN_COLUMNS = (
    "metric",
    "n_users",
    "n_items",
    "n_positives",
    "half_width",
    "half_width_random",
    "smallest_difference",
    "regret_90",
)


def plan_exposure(
    correction: Correction,
    *,
    n_users: Sequence[int] = (25, 100, 400),
    n_items: Sequence[int] = (10, 20, 50),
    positive_share: float | None = None,
    power: float = 0.8,
) -> pd.DataFrame:
    """Compute the expected precision of `correct` by size of the random-exposure experiment.

    Parameters
    ----------
    correction : Correction
        Of the log alone, or with a pilot: then the variance of the pilot's contributions is used.
    n_users, n_items : sequences of int
        Numbers of users, and of items shown at random to each; every combination is a row.
    positive_share : float, optional
        Share of randomly shown pairs that are positive, in (0, 1]. Default: that of the pilot, or 0.05 with a
        `DataWarning` where there is none.
    power : float
        Probability to detect the smallest difference.

    Returns
    -------
    DataFrame
        One row per metric, n_users and n_items, with

        * n_positives: expected number of random-exposure positives;
        * half_width: half the width of the interval of the bias-corrected estimate, mean over recommenders;
        * half_width_random: the same for the random sample alone;
        * smallest_difference: difference of two recommenders that is detected with this power, median over
          pairs;
        * regret_90: 90th percentile of the regret of choosing the recommender with the highest estimate.

    Raises
    ------
    InputError
        When a number or a share is out of range.

    See Also
    --------
    correct : Bias-corrected estimates, with random exposure where there is some.

    Notes
    -----
    The experiment has h = users × items × share positives, whose mean has covariance Σ(h). With V the
    covariance of the recommenders' values before it, by prior, log and reference values, the best linear
    estimate has covariance V − V(V + Σ)⁺V.
    """
    share = _positive_share(correction) if positive_share is None else positive_share
    check_fraction("positive_share", share, high_open=False)
    check_fraction("power", power)
    sizes = [
        (check_positive_int("n_users", users), check_positive_int("n_items", items))
        for users, items in product(n_users, n_items)
    ]
    # The pilot is part of the planned exposure, so V is what prior, log and reference values say.
    before = posterior(correction.path, correction.prior, None, correction.observations).total_covariance
    n_models = len(correction.models)
    now = correction.posterior.total_covariance
    mean = correction.posterior.total_mean
    draws = np.random.default_rng(0).standard_normal((2, N_DRAWS, n_models))
    reach = float(ndtri((1 + correction.confidence_level) / 2))
    detectable = reach + float(ndtri(power))
    rows: dict[str, list[tuple[object, ...]]] = {metric.label: [] for metric in correction.path.metrics}
    for users, items in sizes:
        n_positives = users * items * share
        noise = _noise(correction, n_positives, items * share)
        # Recommenders with equal ranks make it singular.
        after = before - before @ np.linalg.pinv(before + noise, hermitian=True) @ before
        for number, label in enumerate(rows):
            cells = slice(number * n_models, (number + 1) * n_models)
            variance = after[cells, cells]
            half_width = reach * float(np.sqrt(np.diag(variance)).mean())
            half_width_random = reach * float(np.sqrt(np.diag(noise)[cells]).mean())
            smallest_difference = detectable * _median_error_of_differences(variance)
            regret = _regret_percentile(mean[cells], now[cells, cells], variance, draws)
            precision = (half_width, half_width_random, smallest_difference, regret)
            rows[label].append((label, users, items, n_positives, *precision))
    return pd.DataFrame([row for part in rows.values() for row in part], columns=list(PLAN_COLUMNS))


def _median_error_of_differences(covariance: FloatArray) -> float:
    """Return the median standard error of the differences of two recommenders; NaN for a single one."""
    variance = np.diag(covariance)
    first, second = np.triu_indices(len(variance), 1)
    if not first.size:
        return float("nan")
    differences = variance[first] + variance[second] - 2 * covariance[first, second]
    return float(np.median(np.sqrt(np.maximum(differences, 0))))


def _regret_percentile(mean: FloatArray, now: FloatArray, after: FloatArray, draws: FloatArray) -> float:
    """Return the 90th percentile of max θ − θ of the choice, where E[θ | exposure] varies by now − after."""
    estimate = mean + draws[0] @ _root(now - after)
    truth = estimate + draws[1] @ _root(after)
    chosen = np.take_along_axis(truth, estimate.argmax(axis=1)[:, None], axis=1)[:, 0]
    return float(np.quantile(truth.max(axis=1) - chosen, REGRET_LEVEL))


def _root(covariance: FloatArray) -> FloatArray:
    """Return the symmetric root of a covariance; what rounding or a larger pilot leaves below 0 is 0."""
    size, axes = np.linalg.eigh(covariance)
    return np.asarray(axes * np.sqrt(np.maximum(size, 0)) @ axes.T)


def _positive_share(correction: Correction) -> float:
    """Return the share of the pilot's pairs that are positive, or the default with a warning."""
    exposure = correction.random_exposure
    if exposure is None or not exposure.positive.any():
        warn_user(
            "positive_share was not given, and there is no pilot with a positive, so "
            f"{DEFAULT_SHARE:.0%} of the randomly shown pairs are assumed to be positive. The plan depends "
            "on this share. Pass positive_share.",
            DataWarning,
        )
        return DEFAULT_SHARE
    return float(exposure.positive.mean())


def _noise(correction: Correction, hits: float, per_user: float) -> FloatArray:
    """Return the covariance of the mean of so many random positives, `per_user` of each user on average."""
    path, sample = correction.path, correction.sample
    root = np.sqrt(1 + path.within * per_user)
    noise = np.tensordot(correction.posterior.grid_mass, path.spread, 1) * np.outer(root, root) / hits
    if sample is not None:
        known = sample.size / (sample.size + BORROWED)
        noise = (1 - known) * noise + known * sample.own * (sample.size / hits)
    return np.asarray(noise + path.half_hit(hits))
