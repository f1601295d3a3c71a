"""An interval that takes an estimated γ as known is too short; fitting γ again in every resample repairs it.

World: item i is relevant to a user with probability q_i, and observed with P_i ∝ q_i (so n*_i ∝ q_i² and
P ∝ √n*, γ = 0). γ is calibrated on random exposure of a few items per user: Poisson regression of the
positives on ln n* with slope b, γ = 1 − 2b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.propensity import fit_gamma_from_exposure
from tests.inference.worlds import ranked

N_USERS, N_ITEMS, EXPOSED = 500, 20, 2
Q = np.linspace(0.2, 0.6, N_ITEMS)
P = 0.9 * Q / Q.max()
# Items that the recommender puts on top for everyone: the popular ones.
ABOVE = np.arange(N_ITEMS)[::-1]
HIT = ABOVE < 8
TRUTH = float(Q[HIT].sum() / Q.sum())


def slope_of(popularity: np.ndarray, exposed: np.ndarray, positive: np.ndarray) -> float:
    """Poisson slope of ln(positives/exposed) on ln n* by Newton's method."""
    x = np.log(popularity)
    x = x - x.mean()
    intercept, slope = np.log(positive.sum() / exposed.sum()), 0.0
    for _ in range(25):
        mu = exposed * np.exp(intercept + slope * x)
        gap = positive - mu
        a, b, c = mu.sum(), (mu * x).sum(), (mu * x * x).sum()
        g, h = gap.sum(), (gap * x).sum()
        det = a * c - b * b
        step = (a * h - b * g) / det
        intercept, slope = intercept + (c * g - b * h) / det, slope + step
        if abs(step) < 1e-10:
            break
    return float(slope)


@dataclass(frozen=True)
class Exposed:
    """γ from the random exposure of resampled users: the rule that `PowerLawPropensity.refit` takes."""

    user: np.ndarray
    item: np.ndarray
    positive: np.ndarray

    def counts(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weight = times[self.user].astype(float)
        shown = np.bincount(self.item, weights=weight, minlength=N_ITEMS)
        return shown, np.bincount(self.item, weights=weight * self.positive, minlength=N_ITEMS)

    def __call__(self, popularity: np.ndarray, times: np.ndarray) -> float:
        return 1 - 2 * slope_of(popularity, *self.counts(times))


def data_set(rng: np.random.Generator) -> tuple[ipseval.Interactions, ipseval.RankedPositives, Exposed]:
    shape = (N_USERS, N_ITEMS)
    relevant = rng.random(shape) < Q
    train = np.argwhere(relevant & (rng.random(shape) < P))
    user, item = np.nonzero(relevant & (rng.random(shape) < 0.3 * P))
    log = ipseval.Interactions.from_frame(
        pd.DataFrame(train, columns=["user", "item"]), users=range(N_USERS), items=range(N_ITEMS)
    )
    positives = ranked(user, item, ABOVE[item], n_users=N_USERS, n_items=N_ITEMS)
    shown = np.argsort(rng.random(shape), axis=1)[:, :EXPOSED]
    exposed_user = np.repeat(np.arange(N_USERS), EXPOSED)
    liked = relevant[exposed_user, shown.ravel()]
    return log, positives, Exposed(exposed_user, shown.ravel(), liked)


def intervals(rng: np.random.Generator, n_resamples: int) -> tuple[pd.Series, pd.Series]:
    """The row of the frame with γ taken as known, and with γ fitted again."""
    log, positives, exposure = data_set(rng)
    rule = ipseval.PowerLawPropensity(gamma=0, unseen="drop").refit(log, exposure)
    evaluation = ipseval.evaluate_ranks(
        {"popular": positives},
        propensity=rule(np.ones(N_USERS, dtype=int)),
        metrics=("recall@8",),
        estimators=("snips-pooled",),
        low_ess="ignore",
    )
    again = evaluation.with_intervals("normal", refit=rule, n_resamples=n_resamples, rng=rng)
    return evaluation.frame.iloc[0], again.frame.iloc[0]


def coverage(n_sets: int, n_resamples: int, seed: int) -> tuple[float, float, float]:
    """Coverage with γ taken as known, with γ fitted again, and the mean ratio of the standard errors."""
    rng = np.random.default_rng(seed)
    known = refitted = 0
    wider = 0.0
    for _ in range(n_sets):
        fixed, again = intervals(rng, n_resamples)
        known += fixed["ci_low"] <= TRUTH <= fixed["ci_high"]
        refitted += again["ci_low"] <= TRUTH <= again["ci_high"]
        wider += again["std_error"] / fixed["std_error"] / n_sets
    return known / n_sets, refitted / n_sets, wider


def test_the_slope_of_this_test_is_that_of_the_library():
    log, _, exposure = data_set(np.random.default_rng(0))
    ones = np.ones(N_USERS, dtype=int)
    fit = fit_gamma_from_exposure(log.popularity, *exposure.counts(ones))
    assert exposure(log.popularity.astype(float), ones) == pytest.approx(fit.gamma, abs=1e-6)


def test_fitting_gamma_again_widens_the_interval():
    _, _, wider = coverage(2, 100, seed=1)
    assert wider > 1.2


@pytest.mark.slow
def test_ignoring_that_gamma_was_fitted_covers_too_rarely_and_fitting_it_again_repairs_it():
    known, refitted, _ = coverage(2000, 200, seed=2)
    assert known < 0.90
    assert refitted >= 0.93
