"""plan_exposure(): how much random exposure tells what apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval._base.checks import check_fraction, check_positive_int, warn_user
from ipseval._base.types import FloatArray
from ipseval.correction._posterior import BORROWED, posterior
from ipseval.correction._result import Correction
from ipseval.errors import DataWarning

SHARE = 0.05  # of pairs shown at random that are liked, where nothing says it
ASSURED, N_DRAWS = 0.9, 20_000


def plan_exposure(
    correction: Correction,
    *,
    n_users: Sequence[int] = (25, 50, 100, 200, 500, 1000),
    n_items: Sequence[int] = (10, 20, 50),
    positive_share: float | None = None,
    power: float = 0.8,
) -> pd.DataFrame:
    """Return what random exposure of so many users and items each would tell.

    The exposure would give h = users × items × share positives, whose mean has covariance Σ(h). With V the
    covariance of the recommenders' values before it, by prior, log and known values, the best linear
    estimate has covariance V − V(V + Σ)⁺V.

    Parameters
    ----------
    correction : Correction
        Of the log alone, or with a pilot: then the variance of the pilot's contributions is used.
    n_users, n_items : sequences of int
        Users, and items shown to each.
    positive_share : float, optional
        Share of uniformly shown pairs that are positive, in (0, 1]. Default: the pilot's, or .05 with a
        `DataWarning` where there is none.
    power : float
        Chance to detect the smallest difference.

    Returns
    -------
    DataFrame
        n_users, n_items, n_positives (expected), metric; half_width of the interval of a level, by the
        correction and by the random sample alone (half_width_random), mean over recommenders;
        smallest_difference, the median over pairs of the difference that would be detected; loss: what
        the recommender with the highest estimate by then loses to the best one, at most, with probability .9.

    Raises
    ------
    InputError
        When a number or a share is out of range.
    """
    share = _share(correction) if positive_share is None else positive_share
    check_fraction("positive_share", share, high_open=False)
    check_fraction("power", power)
    path, models = correction.path, len(correction.path.models)
    # The pilot is part of the exposure to come, so V is what prior, log and known values say.
    before = posterior(path, correction.prior, None, correction.observations).total_covariance
    now, mean = correction.posterior.total_covariance, correction.posterior.total_mean
    drawn = np.random.default_rng(0).standard_normal((2, N_DRAWS, models))
    reach = float(ndtri((1 + correction.confidence_level) / 2))
    first, second = np.array([*combinations(range(models), 2)], dtype=np.int64).reshape(-1, 2).T
    rows = []
    for users in (check_positive_int("n_users", one) for one in n_users):
        for items in (check_positive_int("n_items", one) for one in n_items):
            hits = users * items * share
            noise = _noise(correction, hits, items * share)
            # Recommenders with equal ranks make it singular.
            after = before - before @ np.linalg.pinv(before + noise, hermitian=True) @ before
            for number, metric in enumerate(path.metrics):
                cells = slice(number * models, (number + 1) * models)
                own, alone = after[cells, cells], np.diag(noise)[cells]
                gap = np.diag(own)[first] + np.diag(own)[second] - 2 * own[first, second]
                smallest = float(np.median(np.sqrt(np.maximum(gap, 0)))) if gap.size else float("nan")
                level = float(np.sqrt(np.diag(own)).mean())
                rows.append(
                    (
                        *(users, items, hits, metric.label, reach * level),
                        reach * float(np.sqrt(alone).mean()),
                        (reach + float(ndtri(power))) * smallest,
                        _loss(mean[cells], now[cells, cells], own, drawn),
                    )
                )
    names = "n_users n_items n_positives metric half_width half_width_random smallest_difference loss"
    return pd.DataFrame(rows, columns=names.split())


def _loss(mean: FloatArray, now: FloatArray, after: FloatArray, drawn: FloatArray) -> float:
    """Return the .9 quantile of max θ − θ of the choice, where E[θ | exposure] varies by now − after."""
    found = mean + drawn[0] @ _root(now - after)
    truth = found + drawn[1] @ _root(after)
    chosen = np.take_along_axis(truth, found.argmax(axis=1)[:, None], axis=1)[:, 0]
    return float(np.quantile(truth.max(axis=1) - chosen, ASSURED))


def _root(covariance: FloatArray) -> FloatArray:
    """Return the symmetric root of a covariance; what rounding or a larger pilot leaves below 0 is 0."""
    size, axes = np.linalg.eigh(covariance)
    return np.asarray(axes * np.sqrt(np.maximum(size, 0)) @ axes.T)


def _share(correction: Correction) -> float:
    shown = correction.random_exposure
    if shown is None or not shown.positive.any():
        warn_user(
            f"{SHARE:.0%} of pairs shown at random are assumed to be liked, as no pilot says so; "
            "pass positive_share.",
            DataWarning,
        )
        return SHARE
    return float(shown.positive.mean())


def _noise(correction: Correction, hits: float, per_user: float) -> FloatArray:
    """Return the covariance of the mean of so many random positives, `per_user` of each user on average."""
    path, sample = correction.path, correction.sample
    root = np.sqrt(1 + path.within * per_user)
    noise = np.tensordot(correction.posterior.grid_mass, path.spread, 1) * np.outer(root, root) / hits
    if sample is not None:
        known = sample.size / (sample.size + BORROWED)
        noise = (1 - known) * noise + known * sample.own * (sample.size / hits)
    return np.asarray(noise + path.half_hit(hits))
