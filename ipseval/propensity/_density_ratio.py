"""User × item weights: how much likelier a positive is under random exposure than in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ipseval._checks import as_generator, check_choice, check_fraction, check_positive_int
from ipseval._types import IntArray, RngLike
from ipseval.errors import InputError
from ipseval.interactions import Interactions, check_interactions
from ipseval.propensity import _pair_features
from ipseval.propensity._base import Propensity
from ipseval.propensity._exposure import Exposure, check_exposure
from ipseval.propensity._ratio import (
    BIASED,
    CROSS_VALIDATION_FOLDS,
    CROSS_VALIDATIONS,
    RANDOM,
    UNIFORM,
    Features,
    PairFeatures,
    RatioProblem,
    Sample,
    assign_folds,
    ridge_weights,
)
from ipseval.propensity._ratio_fit import describe, warn_of_overlap
from ipseval.splits import split_random

# Part of the training positives that stands for the log where no held-out positives are given, and how often
# such a part is drawn.
SET_ASIDE, N_SET_ASIDE = 0.2, 5
MAX_UNIFORM = 50_000


@dataclass(frozen=True, eq=False)
class DensityRatioPropensity:
    """P_ui ∝ 1/odds that a positive comes from random exposure rather than from the log.

    The odds estimate p_random(i | u)/p_log(i | u): the weight that turns the log's positives into a random
    sample of the relevant ones, popularity and personal selection together. Every user has the same weight
    on either side. P is known up to a factor, for every pair.

    Two logistic regressions on standardised features of pairs give the odds. The first tells the log's
    positives from uniform pairs: slopes o. The second tells random positives from the log's: slopes −α·o + δ.
    α has a normal prior, N(.4, .3²), and δ a ridge penalty: slopes are averaged over seven penalties, by
    how well they predict users left out. So a few users with random exposure fit one number, and many fit
    every slope.

    Users are dealt into `cross_fit` folds, `n_assignments` times. A user is weighted by models of the other
    folds, whose odds have mean 1 over the log's positives; the median over the assignments is taken. Only the
    weights of the seven penalties and that mean read all users.

    Parameters
    ----------
    exposure : Exposure
        Random-exposure sample in the id space of the training log; `validate` gives its own.
    biased : Interactions, optional
        Held-out positives of the log that are weighted: `split.test`, which fits best. Default: a random
        fifth of each user's training positives, with features from the rest, five times.
    features : callable, optional
        (train, user codes (n,), item codes (n,)) -> (n, n_features), from training data only. Default:
        `profile_features`: popularity, its square, similarity to the user's profile, and so on.
    cross_fit : int
        Number of folds of users, >= 2.
    n_assignments : int
        How often users are dealt into folds, >= 1.
    biased_users : {"all", "exposed"}
        Whose positives stand for the log: those of all users, or of users with exposure.
    limit : float or None
        Odds are not extrapolated beyond this quantile, in (0, 1], of the odds of the log's positives; how
        many that concerns is in the fit. None: no limit.
    n_uniform : int
        Uniform pairs per user, at random from those without a training interaction.
    rng : int, Generator or None
        Assigns users to folds, and draws pairs.
    """

    exposure: Exposure | None = None
    biased: Interactions | None = None
    features: Features | None = None
    cross_fit: int = 2
    n_assignments: int = 11
    biased_users: Literal["all", "exposed"] = "all"
    limit: float | None = 0.99
    n_uniform: int = 20
    rng: RngLike = 0

    def __post_init__(self) -> None:
        check_choice("biased_users", self.biased_users, ("all", "exposed"))
        _check_options(self)
        if self.exposure is not None:
            check_exposure(self.exposure)

    def fit(self, train: Interactions) -> Propensity:
        """Return the propensity of every pair, up to a factor.

        Raises
        ------
        InputError
            When the id spaces differ, or there is no random positive or no positive of the log.

        Warns
        -----
        PositivityWarning
            Weights carried by few positives, or random positives that the log does not cover.
        """
        if self.exposure is None:
            raise InputError(
                "DensityRatioPropensity needs random exposure: exposure=Exposure.from_frame(frame, split)."
            )
        check_interactions(train, "train", "split.train")
        self.exposure.check_ids(train, "training log")
        clean = self.exposure.without(train)
        only = self.exposure.user if self.biased_users == "exposed" else None
        return _fit(self, train, clean, only)


def _check_options(model: Any) -> None:
    check_positive_int("cross_fit", model.cross_fit, minimum=2)
    check_positive_int("n_assignments", model.n_assignments)
    check_positive_int("n_uniform", model.n_uniform)
    if model.limit is not None:
        check_fraction("limit", model.limit, high_open=False)
    if model.features is not None and not callable(model.features):
        raise InputError("features must be a callable (train, user, item) -> (n, n_features) array.")
    if model.biased is not None:
        check_interactions(model.biased, "biased", "split.test")


def _fit(
    model: Any,
    train: Interactions,
    exposure: Exposure,
    only_users: IntArray | None,
) -> Propensity:
    """Return the cross-fitted propensity."""
    rng = as_generator(model.rng)
    if model.biased is None:
        repeated = (split_random(train, test_fraction=SET_ASIDE, rng=rng) for _ in range(N_SET_ASIDE))
        parts = [(one.train, one.test) for one in repeated]
    else:
        parts = [(train, model.biased)]
        if not all(
            np.array_equal(getattr(model.biased, name), getattr(train, name))
            for name in ("user_ids", "item_ids")
        ):
            raise InputError("biased is in another id space than the training log; pass split.test as it is.")
    # Looked up when used: the public border replaces the function, and a pickle finds only what is there.
    make, samples, rows = model.features or _pair_features.profile_features, [], []
    for log, biased in parts:
        if only_users is not None:
            biased = biased.select(np.isin(biased.user, only_users))
        samples.append(_sample(log, biased, exposure, -(-model.n_uniform // len(parts)), rng))
        rows.append(PairFeatures.of(log, make, samples[-1])(samples[-1].user, samples[-1].item))
    sample = Sample(
        *(np.concatenate([getattr(one, name) for one in samples]) for name in ("user", "item", "kind"))
    )
    x, features = np.concatenate(rows), PairFeatures.of(train, make, samples[0])
    folds = assign_folds(sample, train.n_users, CROSS_VALIDATION_FOLDS, CROSS_VALIDATIONS, rng)
    problem = RatioProblem(
        features=features,
        sample=sample,
        x=x,
        fold=assign_folds(sample, train.n_users, model.cross_fit, model.n_assignments, rng),
        ridge=ridge_weights(x, sample, folds),
        limit=model.limit,
    )
    names = (
        _pair_features.FEATURE_NAMES
        if model.features is None
        else tuple(f"x{j + 1}" for j in range(x.shape[1]))
    )
    odds, slopes = problem.solve()
    fit = describe(problem, odds, slopes, names, exposure.n_dropped)
    warn_of_overlap(fit)
    return fit.propensity(odds)


def _sample(
    train: Interactions,
    biased: Interactions,
    exposure: Exposure,
    n_uniform: int,
    rng: np.random.Generator,
) -> Sample:
    """Return the positives of the log, random positives, and uniform pairs of the users of the log."""
    random = exposure.select(exposure.positive)
    if len(biased) == 0 or len(random) == 0:
        raise InputError(
            f"there are {len(random)} random-exposure positives outside the training log and {len(biased)} "
            "held-out positives to learn from; both are needed."
        )
    users = np.unique(biased.user)
    user = np.repeat(users, max(1, min(n_uniform, MAX_UNIFORM // users.size)))
    item = rng.integers(train.n_items, size=user.size)
    keep = ~np.isin(user * np.int64(train.n_items) + item, train.pair_key)
    parts = [
        (biased.user, biased.item, BIASED),
        (random.user, random.item, RANDOM),
        (user[keep], item[keep], UNIFORM),
    ]
    users_of, items_of, kinds = zip(*parts, strict=True)
    return Sample(
        np.concatenate(users_of),
        np.concatenate(items_of),
        np.repeat(kinds, [one.size for one in users_of]),
    )
