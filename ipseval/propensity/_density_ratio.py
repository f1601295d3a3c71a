"""User × item weights: how much likelier a positive is under random exposure than in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ipseval._checks import as_generator, check_choice, check_fraction, check_positive_int
from ipseval._types import RngLike
from ipseval.errors import InputError
from ipseval.propensity._base import Propensity
from ipseval.propensity._exposure import Exposure
from ipseval.propensity._ratio import Features, Sample, check_limit, fit_ratio
from ipseval.splits import Split


@dataclass(frozen=True, eq=False)
class DensityRatioPropensity:
    """P_ui ∝ 1/odds that a positive comes from random exposure rather than from the log.

    A logistic regression tells random-exposure positives (1) from held-out positives of the log (0), every
    user having the same weight on either side. Its odds estimate p_random(i | u)/p_log(i | u): the weight
    that turns the log's positives into a random sample of the relevant ones, popularity and personal
    selection together. It is known up to a factor, and covers the pairs of `split.test`.

    Users whose data fit a model are not weighted by it: users with exposure are split into `cross_fit`
    folds, each weighted by the model of the other folds; users without exposure by the model of all of them.

    Parameters
    ----------
    features : callable, optional
        (train, user codes (n,), item codes (n,)) -> (n, n_features), from training data only. Default:
        `profile_features`: popularity, its square, similarity to the user's profile, and so on.
    cross_fit : int
        Number of folds of users, >= 2.
    biased_users : {"exposed", "all"}
        Whose held-out positives stand for the log: those of users with exposure, or of all users; then
        all users are in folds. "all" helps where the users with exposure are few and drawn at random.
    limit : float or None
        Odds are not extrapolated beyond this quantile, in (0, 1], of the odds of the random positives that
        the model was fitted to; how many pairs that concerns is in the fit. None: no limit.
    rng : int, Generator or None
        Assigns users to folds.
    """

    features: Features | None = None
    cross_fit: int = 2
    biased_users: Literal["exposed", "all"] = "exposed"
    limit: float | None = 0.99
    rng: RngLike = 0

    def __post_init__(self) -> None:
        check_positive_int("cross_fit", self.cross_fit, minimum=2)
        check_choice("biased_users", self.biased_users, ("exposed", "all"))
        check_limit(self.limit)
        if self.features is not None and not callable(self.features):
            raise InputError("features must be a callable (train, user, item) -> (n, n_features) array.")

    def fit(self, split: Split, exposure: Exposure) -> Propensity:
        """Return the propensity of every pair of `split.test`, up to a factor.

        Raises
        ------
        InputError
            When the id spaces differ, or a fold has no random or no biased positive to learn from.

        Warns
        -----
        PositivityWarning
            Weights carried by few positives, or random positives that the log does not cover.
        DataWarning
            The samples are separable, so that a ridge penalty was needed.
        """
        exposure.check_ids(split, "split")
        clean = exposure.without(split.train)
        if split.validation is not None:
            clean = clean.without(split.validation)
        random = clean.select(clean.positive)
        in_sample = np.ones(split.n_users, dtype=bool)
        if self.biased_users == "exposed":
            in_sample = np.zeros(split.n_users, dtype=bool)
            in_sample[exposure.user] = True
        chosen = in_sample[split.test.user]
        sample = Sample(
            user=np.concatenate([random.user, split.test.user[chosen]]),
            item=np.concatenate([random.item, split.test.item[chosen]]),
            is_random=np.arange(len(random) + int(chosen.sum())) < len(random),
        )
        return fit_ratio(
            split,
            sample,
            in_sample,
            self.features,
            self.cross_fit,
            self.rng,
            limit=self.limit,
            n_dropped=clean.n_dropped,
        )


@dataclass(frozen=True, eq=False)
class TemperedDensityRatioPropensity:
    """EXPERIMENTAL: P_ui ∝ odds^(−power) of uniformly drawn items against held-out positives.

    Without random exposure the odds tell what people are shown *and like* from all items. The power, between
    0 (AOA) and 1, stands for the share of that difference that is selection. Nothing in a log identifies it:
    .5 to .6 came out best on two data sets where the truth is known. Use it to see how far results depend on
    personal selection, not to report a number.

    Parameters
    ----------
    power : float
        In (0, 1].
    n_uniform : int
        Items drawn per user, at random from those it has no training interaction with.
    features, cross_fit, limit, rng
        As in `DensityRatioPropensity`.
    """

    power: float = 0.55
    n_uniform: int = 20
    features: Features | None = None
    cross_fit: int = 2
    limit: float | None = 0.99
    rng: RngLike = 0

    def __post_init__(self) -> None:
        check_fraction("power", self.power, high_open=False)
        check_limit(self.limit)
        check_positive_int("n_uniform", self.n_uniform)
        check_positive_int("cross_fit", self.cross_fit, minimum=2)

    def fit(self, split: Split) -> Propensity:
        """Return the propensity of every pair of `split.test`, up to a factor."""
        generator = as_generator(self.rng)
        users = np.unique(split.test.user)
        user = np.repeat(users, self.n_uniform)
        item = generator.integers(split.n_items, size=user.size)
        keep = ~np.isin(user * np.int64(split.n_items) + item, split.train.pair_key)
        user, item = user[keep], item[keep]
        sample = Sample(
            user=np.concatenate([user, split.test.user]),
            item=np.concatenate([item, split.test.item]),
            is_random=np.arange(user.size + len(split.test)) < user.size,
        )
        everyone = np.ones(split.n_users, dtype=bool)
        return fit_ratio(
            split,
            sample,
            everyone,
            self.features,
            self.cross_fit,
            generator,
            limit=self.limit,
            power=self.power,
        )
