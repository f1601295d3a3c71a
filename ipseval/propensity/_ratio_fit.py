"""What a density ratio was fitted to, how well it fits, and how it is fitted again to resampled users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ipseval._types import BoolArray, FloatArray, IntArray, readonly
from ipseval.errors import PositivityWarning
from ipseval.propensity._base import Propensity
from ipseval.propensity._common import warn_user
from ipseval.propensity._ratio import (
    BIASED,
    RANDOM,
    RIDGES,
    UNIFORM,
    CrossFitted,
    RatioProblem,
    Slopes,
    user_weights,
)

N_BINS = 10
LOW_ESS = 0.1
UNCOVERED = 0.1


@dataclass(frozen=True, eq=False)
class DensityRatioFit:
    """What a density ratio was fitted to, and how well it fits users it has not seen.

    Attributes
    ----------
    strength : float
        α: how much of the odds (log : uniform) is taken for selection; mean over the models.
    ridge : float
        Penalty of the deviation of each slope from the tempered direction; geometric mean.
    slope : (n_features,) float array
        Of the log odds, on standardised features; mean over the models.
    feature_names : tuple of str
    n_random, n_biased : int
        Positives of the two samples.
    n_users, n_random_users : int
        Users with positives of the log, and with random positives.
    n_dropped : int
        Random-exposure pairs left out because they are pairs of the training log.
    n_limited : int
        Positives of the log whose odds were held at the limit.
    calibration_gap : float
        Mean |observed − predicted| share of random positives, over tenths of the odds; predictions by models
        that have not seen the user.
    auc : float
        How well the two samples can be told apart, 0.5 … 1; near 1 there is little overlap.
    ess_share : float
        Kish effective sample size of the weights over the log's positives, as a share of it without weights.
    uncovered : float
        Share of the random positives whose odds exceed those of 99 % of the log's positives.
    problem : RatioProblem
        What is fitted; `refit` fits it to resampled users.
    """

    strength: float
    ridge: float
    slope: FloatArray
    feature_names: tuple[str, ...]
    n_random: int
    n_biased: int
    n_users: int
    n_random_users: int
    n_dropped: int
    n_limited: int
    calibration_gap: float
    auc: float
    ess_share: float
    uncovered: float
    problem: RatioProblem

    def __repr__(self) -> str:
        lines = [
            f"DensityRatioFit: {self.n_random:,} random positives of {self.n_random_users:,} users, "
            f"{self.n_biased:,} of the log of {self.n_users:,}",
            f"  strength {self.strength:.2f}, ridge {self.ridge:.3g}; out of fold: AUC {self.auc:.3f}, "
            f"calibration gap {self.calibration_gap:.3f}, effective share of the weights "
            f"{self.ess_share:.0%}, not covered {self.uncovered:.1%}",
        ]
        if self.n_limited:
            lines.append(f"  {self.n_limited:,} positives of the log held at the limit of the odds")
        if self.n_dropped:
            lines.append(f"  {self.n_dropped:,} exposures left out: also in the log")
        return "\n".join(lines)

    def propensity(self, odds: CrossFitted) -> Propensity:
        """Return P ∝ 1/odds."""
        train = self.problem.features.train
        return Propensity(
            None,
            False,
            "density ratio, cross-fitted",
            train.n_items,
            function=odds,
            fit=self,
            item_ids=train.item_ids,
            user_ids=train.user_ids,
        )

    def refit(self, counts: IntArray) -> Propensity:
        """Return the propensity fitted to a sample in which user u occurs `counts[u]` times, (n_users,).

        For `evaluation.with_intervals(refit=propensity.fit.refit)`: the error of the weights reaches the
        interval. Training log, features, folds and ridge stay.
        """
        odds, _ = self.problem.solve(np.asarray(counts, dtype=np.float64))
        return self.propensity(odds)


def describe(
    problem: RatioProblem, odds: CrossFitted, slopes: list[Slopes], names: tuple[str, ...], n_dropped: int
) -> DensityRatioFit:
    """Return the fit with its calibration and overlap, judged on the weights that are handed out."""
    sample = problem.sample
    positive = sample.kind != UNIFORM
    user, item, kind = sample.user[positive], sample.item[positive], sample.kind[positive]
    log_odds, held = odds.log_odds(user, problem.x[positive])
    random, biased = kind == RANDOM, kind == BIASED
    weight = user_weights(user, kind)
    for rows in (random, biased):
        weight[rows] *= user.size / 2 / max(weight[rows].sum(), 1e-300)

    def n_pairs(rows: BoolArray) -> int:  # several set-asides may hold one pair
        return int(np.unique(user[rows] * np.int64(problem.features.train.n_items) + item[rows]).size)

    effective = weight[biased] * np.exp(log_odds[biased])
    flat = weight[biased].sum() ** 2 / (weight[biased] ** 2).sum()
    beyond = log_odds[random] > np.quantile(log_odds[biased], 0.99)
    return DensityRatioFit(
        strength=float(np.mean([one.strength for one in slopes])),
        ridge=float(np.exp(problem.ridge @ np.log(RIDGES))),
        slope=readonly(np.mean([one.slope for one in slopes], axis=0)),
        feature_names=names,
        n_random=n_pairs(random),
        n_biased=n_pairs(biased),
        n_users=sample.users(BIASED).size,
        n_random_users=sample.users(RANDOM).size,
        n_dropped=n_dropped,
        n_limited=n_pairs(biased & held),
        calibration_gap=_calibration_gap(log_odds, random, weight),
        auc=weighted_auc(log_odds, random, weight),
        ess_share=float(effective.sum() ** 2 / (effective**2).sum() / flat),
        uncovered=float(weight[random] @ beyond / weight[random].sum()),
        problem=problem,
    )


def _calibration_gap(log_odds: FloatArray, random: BoolArray, weight: FloatArray) -> float:
    order = np.argsort(log_odds, kind="stable")
    place = np.minimum((np.cumsum(weight[order]) / weight.sum() * N_BINS).astype(np.int64), N_BINS - 1)
    excess = np.bincount(place, (weight * (random - expit(log_odds)))[order], N_BINS)
    return float(np.abs(excess).sum() / weight.sum())


def weighted_auc(score: FloatArray, positive: BoolArray, weight: FloatArray) -> float:
    """Return the probability that a positive scores above a negative, ties counting half; NaN without one."""
    _, place = np.unique(score, return_inverse=True)
    up = np.bincount(place, weight * positive)
    down = np.bincount(place, weight * ~positive)
    below = np.cumsum(down) - down
    with np.errstate(invalid="ignore"):
        return float(np.divide((up * (below + down / 2)).sum(), up.sum() * down.sum()))


def warn_of_overlap(fit: DensityRatioFit) -> None:
    """Warn where the weights leave little of the sample, or the log does not reach the random positives."""
    if fit.ess_share < LOW_ESS or fit.uncovered > UNCOVERED:
        warn_user(
            f"the log covers the random positives poorly: the weights leave {fit.ess_share:.0%} of the "
            f"effective sample, and {fit.uncovered:.0%} of the random positives have odds beyond 99 % of the "
            "log's. Clip the propensity, or use fewer features.",
            PositivityWarning,
        )
