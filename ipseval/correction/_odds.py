"""Odds of a pair to be a held-out positive, or any interaction, rather than drawn uniformly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ipseval.correction._prior import INTERACTIONS, ITEMS, PAIRS, PROFILES
from ipseval.data.interactions import Interactions, check_interactions
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.propensity import profile_features
from ipseval.propensity.cross_fitted_odds import fit_logistic
from ipseval.utils.ids import among, distinct
from ipseval.utils.types import BoolArray, FloatArray, IntArray

N_UNIFORM, MAX_UNIFORM = 20, 50_000
RIDGE = 1e-3
POPULARITY = slice(0, 2)  # of the features of a pair: log popularity and its square
Pairs = tuple[IntArray, IntArray]
OddsAt = Callable[[Pairs], FloatArray]


def other_pairs(interactions: Interactions | None, split: Split, positive: IntArray) -> IntArray | None:
    """Return the keys of the pairs of the log that are neither positive nor in training."""
    if interactions is None:
        return None
    check_interactions(interactions, "interactions")
    for side in ("user", "item"):
        if not np.array_equal(getattr(interactions, f"{side}_ids"), getattr(split, f"{side}_ids")):
            raise InputError(f"interactions and split must have the same {side} ids, in one order.")
    every = distinct(interactions.pair_key)
    key = every[~(among(every, split.excluded.pair_key) | among(every, positive))]
    if not key.size:
        raise InputError(
            "interactions hold no pair beside the positives; pass every pair of the log, liked or not."
        )
    return key


def fit_odds(
    split: Split, positive: Pairs, others: IntArray | None, rng: np.random.Generator
) -> tuple[dict[str, FloatArray], OddsAt]:
    """Return the log odds of held-out positives against uniform pairs of their users, up to a constant.

    By each basis, and, by pairs, of any other pairs.
    """
    drawn = _uniform(split, positive[0], rng)
    own, uniform = _Pairs.of(split.train, *positive, *drawn)
    of_pairs = _fitted(own, uniform)
    only = own.only(POPULARITY)
    found = {PAIRS: of_pairs(own.x), ITEMS: _fitted(only, uniform.only(POPULARITY))(only.x)}
    found[PROFILES] = found[PAIRS] - found[ITEMS]
    if others is not None:
        found[INTERACTIONS] = _odds_of_all(split, positive, others, drawn, rng)
    return found, lambda pairs: of_pairs(profile_features(split.train, *pairs))


def odds_at(split: Split) -> OddsAt:
    """Return the log odds of pairs to be held-out positives rather than uniform, up to a constant."""
    return fit_odds(split, (split.test.user, split.test.item), None, np.random.default_rng(0))[1]


def _odds_of_all(
    split: Split, positive: Pairs, others: IntArray, uniform: Pairs, rng: np.random.Generator
) -> FloatArray:
    """Return the log odds of the positives by the exposure that all interactions show, up to a constant.

    Popularity and profiles are of training and of half of the others; the rest counts twice beside positives.
    """
    known = rng.random(others.size) < 0.5
    key = np.concatenate([split.train.distinct.pair_key, others[known]])
    seen = Interactions(*np.divmod(key, split.n_items), split.user_ids, split.item_ids)
    new = ~among(uniform[0] * np.int64(split.n_items) + uniform[1], others[known])
    drawn = (one[new] for one in uniform)
    own, rest, free = _Pairs.of(seen, *positive, *np.divmod(others[~known], split.n_items), *drawn)
    user, x = (np.concatenate([a, b, b]) for a, b in ((own.user, rest.user), (own.x, rest.x)))
    return _fitted(_Pairs(user, x), free)(own.x)


def _uniform(split: Split, user: IntArray, rng: np.random.Generator) -> Pairs:
    """Return candidates of these users, drawn uniformly."""
    users = distinct(user)
    drawn = np.repeat(users, max(1, min(N_UNIFORM, MAX_UNIFORM // users.size)))
    at = rng.integers(split.n_items, size=drawn.size)
    keep = ~among(drawn * np.int64(split.n_items) + at, split.excluded.pair_key)
    return drawn[keep], at[keep]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs by their users and features, (n_pairs, n_features)."""

    user: IntArray
    x: FloatArray

    @classmethod
    def of(cls, train: Interactions, *pairs: IntArray) -> list[_Pairs]:
        """Return the pairs of users and items that come in turn, with the profile of each user read once."""
        users, items = pairs[::2], pairs[1::2]
        x = profile_features(train, np.concatenate(users), np.concatenate(items))
        ends = np.cumsum([len(one) for one in users])
        return [cls(user, x[end - len(user) : end]) for user, end in zip(users, ends, strict=True)]

    def only(self, features: slice) -> _Pairs:
        return _Pairs(self.user, self.x[:, features])


def _fitted(seen: _Pairs, uniform: _Pairs) -> Callable[[FloatArray], FloatArray]:
    """Return the log odds of features, by a logistic regression of seen against uniform pairs."""
    if not uniform.user.size:  # hardly any candidate beside the positives: the odds are equal
        return lambda x: np.zeros(len(x))
    x = np.concatenate([seen.x, uniform.x])
    mean, spread = x.mean(axis=0), x.std(axis=0)
    spread = np.where(spread > 1e-9 * np.abs(x).max(axis=0), spread, np.inf)  # constant but for rounding
    design = np.vstack([np.ones(len(x)), ((x - mean) / spread).T]).T
    weight = np.concatenate([_equal_users(one.user) for one in (seen, uniform)]) * len(x) / 2
    y = np.arange(len(x)) < seen.user.size
    if x.shape[1] == POPULARITY.stop:  # rows of equal popularity are one row with all their weight
        first, alike = np.unique(x[:, 0], return_index=True, return_inverse=True)[1:]
        weight = np.bincount(2 * alike + y, weight, 2 * first.size)
        design, y = np.repeat(design[first], 2, axis=0), np.tile([False, True], first.size)
    slope = logistic(design, y, weight)[1:] / spread
    return lambda x: np.asarray(x @ slope)


def logistic(design: FloatArray, y: BoolArray, weight: FloatArray) -> FloatArray:
    """Return the coefficients of a logistic regression with a small ridge."""
    ridge = np.full(design.shape[1], RIDGE)
    return fit_logistic(design, y, weight, np.zeros(ridge.size), ridge)


def _equal_users(user: IntArray) -> FloatArray:
    """Return weights with which every user counts alike, and all sum to 1."""
    weight = 1 / np.bincount(user)[user]
    return np.asarray(weight / weight.sum())
