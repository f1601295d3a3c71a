"""Evaluators that read random exposure: of 100 users, or of all users whom evaluators see."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from ipseval import DensityRatioPropensity, PowerLawPropensity, fit_gamma_from_exposure
from ipseval.data import RandomExposure
from ipseval.metrics import metric
from ipseval.propensity import DirectPropensity, Propensity, StratifiedPropensity
from reproductions.evaluators.context import SMALL_SAMPLE, Context
from reproductions.evaluators.log_evaluators import (
    IPSEVAL,
    SCHNABEL,
    YANG,
    add_snips,
    take_correction,
)
from reproductions.evaluators.registry import Needs, add_evaluator

BICKEL = "Bickel, Brückner and Scheffer, JMLR 10, 2009"
JADIDINEJAD = "strata as in Jadidinejad et al., TOIS 2021, doi 10.1145/3458509"
MARLIN = "Marlin and Zemel, RecSys 2009, doi 10.1145/1639714.1639717"
ANGELOPOULOS = "Angelopoulos et al., Science 2023, doi 10.1126/science.adi6000"
Z = 1.959963984540054
# Number of exposed users (None: all) -> the words of the tables.
SAMPLES: dict[int | None, Needs] = {SMALL_SAMPLE: "100 users", None: "half of the users"}


def take_exposure(context: Context, n_users: int | None) -> RandomExposure:
    """Return the random exposure of some users, or of all."""
    if n_users is None:
        return context.exposure
    return context.draw_users(n_users)


def fit_exposure_gamma(context: Context, n_users: int | None) -> Propensity:
    """Return the power law with γ fitted to random exposure."""
    exposure = take_exposure(context, n_users)
    train = context.split.train
    gamma = fit_gamma_from_exposure(train.popularity, exposure.n_exposed, exposure.n_positive).gamma
    return PowerLawPropensity(gamma=gamma, unseen="smooth").fit(train)


def fit_direct(context: Context, n_users: int | None) -> Propensity:
    """Return the propensity of each item, measured on random exposure."""
    return DirectPropensity(take_exposure(context, n_users)).fit(context.split.train)


def fit_strata(context: Context) -> Propensity:
    """Return one propensity for each of ten strata of popularity, measured on random exposure."""
    return StratifiedPropensity(context.exposure).fit(context.split.train)


def fit_density_ratio(context: Context, n_users: int | None) -> Propensity:
    """Return the density ratio of random and held-out positives, cross-fitted over users."""
    exposure = take_exposure(context, n_users)
    model = DensityRatioPropensity(exposure, biased=context.split.test, rng=context.seed)
    return model.fit(context.split.train)


for n_exposed, sample in SAMPLES.items():
    forms: tuple[str, ...] = ("snips-pooled",) if n_exposed is not None else ()
    suffix = f" ({sample})"
    add_snips(
        f"γ of exposure{suffix}",
        YANG,
        partial(fit_exposure_gamma, n_users=n_exposed),
        needs=sample,
        estimators=forms,
    )
    add_snips(
        f"measured per item{suffix}",
        SCHNABEL,
        partial(fit_direct, n_users=n_exposed),
        needs=sample,
        estimators=forms,
    )
    add_snips(
        f"density ratio{suffix}",
        BICKEL,
        partial(fit_density_ratio, n_users=n_exposed),
        needs=sample,
        estimators=forms,
    )
    add_evaluator(f"random sample{suffix}", MARLIN, needs=sample)(
        partial(take_correction, n_users=n_exposed, uses_interactions=False, row="random-sample")
    )
    add_evaluator(f"ppi{suffix}", ANGELOPOULOS, needs=sample)(
        partial(take_correction, n_users=n_exposed, uses_interactions=False, row="ppi")
    )
    add_evaluator(f"correct{suffix}", IPSEVAL, needs=sample)(
        partial(take_correction, n_users=n_exposed, uses_interactions=False)
    )
    add_evaluator(f"correct with interactions{suffix}", IPSEVAL, needs=sample)(
        partial(take_correction, n_users=n_exposed, uses_interactions=True)
    )

add_snips(
    "measured per stratum (half of the users)",
    JADIDINEJAD,
    fit_strata,
    needs="half of the users",
    estimators=("snips-pooled",),
)


@add_evaluator("IPS, measured per item (half of the users)", SCHNABEL, needs="half of the users")
def compute_ips(context: Context) -> pd.DataFrame:
    """Σ c/P over held-out interactions, divided by the number of relevant pairs outside training.

    That number is the share of liked pairs among randomly shown ones, times the number of pairs. The standard
    error is linear in the sums of users and accounts for both.
    """
    exposure = context.exposure
    users = np.unique(exposure.user)
    position = np.full(context.split.n_users, -1)
    position[users] = np.arange(users.size)
    n_shown = np.bincount(position[exposure.user], minlength=users.size)
    n_liked = np.bincount(position[exposure.user], exposure.positive, minlength=users.size)
    n_pairs = (context.split.n_items - context.split.train.activity[users]).sum()
    rate = n_liked.sum() / n_shown.sum()
    n_relevant = rate * n_pairs
    rate_deviation = (n_liked - rate * n_shown) / n_liked.sum()
    propensity = to_held_out(fit_direct(context, None), context.test_fraction)

    rows = []
    for name, ranked in context.ranks.items():
        chance = propensity.for_pairs(ranked.user, ranked.item)
        weights = np.where(np.isnan(chance), 0.0, 1 / chance)
        for label in context.metrics:
            contribution = np.nan_to_num(compute_contributions(context, name, label))
            total = np.bincount(position[ranked.user], weights * contribution, minlength=users.size)
            estimate = total.sum() / n_relevant
            deviation = (total - total.mean()) / n_relevant - estimate * rate_deviation
            standard_error = np.sqrt(users.size / (users.size - 1) * (deviation**2).sum())
            low = estimate - Z * standard_error
            high = estimate + Z * standard_error
            rows.append({"model": name, "metric": label, "estimate": estimate, "low": low, "high": high})
    return pd.DataFrame(rows)


def to_held_out(direct: Propensity, test_fraction: float) -> Propensity:
    """Return P(held out | not in training) from propensities of being in training.

    A propensity of training is (1 − ρ)P of the log, so it is at most 1 − ρ.
    """
    assert direct.item is not None
    item = np.minimum(direct.item, 1 - test_fraction)
    training = Propensity(item=item, is_probability=True, model=direct.model, n_items=direct.n_items)
    return training.held_out(test_fraction=test_fraction)


def compute_contributions(context: Context, name: str, label: str) -> np.ndarray:
    """Return the contribution of each held-out interaction to a metric, (n_positives,)."""
    ranked = context.ranks[name]
    return np.asarray(metric(label).contributions(ranked))
