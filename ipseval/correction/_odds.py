"""Odds of a pair as held-out positive, or as interaction of the log, against a uniformly drawn pair."""

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
from ipseval.utils.ids import is_member, unique_keys
from ipseval.utils.types import BoolArray, FloatArray, IntArray

# Uniform pairs that are drawn for each user, and for all users together.
N_UNIFORM = 20
MAX_UNIFORM = 50_000

RIDGE = 1e-3
POPULARITY = slice(0, 2)  # features of a pair that are its log popularity and the square of it

# A feature whose relative standard deviation is below this number is constant up to rounding.
CONSTANT = 1e-9

Pairs = tuple[IntArray, IntArray]  # users and items
OddsAt = Callable[[Pairs], FloatArray]
FeatureOdds = Callable[[FloatArray], FloatArray]


def list_non_positive_keys(
    interactions: Interactions | None, split: Split, positive_keys: IntArray
) -> IntArray | None:
    """Return the keys of the pairs of the log that are neither positive nor in training."""
    if interactions is None:
        return None
    check_interactions(interactions, "interactions")
    for side in ("user", "item"):
        if not np.array_equal(getattr(interactions, f"{side}_ids"), getattr(split, f"{side}_ids")):
            raise InputError(f"interactions and split must have the same {side} ids, in one order.")
    keys = unique_keys(interactions.pair_key)
    is_excluded = is_member(keys, split.excluded_pairs.pair_key)
    is_positive = is_member(keys, positive_keys)
    non_positive_keys = keys[~(is_excluded | is_positive)]
    if not non_positive_keys.size:
        raise InputError(
            "interactions must hold at least one pair that is not positive; got none. Pass every pair of the "
            "log, positive or not."
        )
    return non_positive_keys


def fit_odds(
    split: Split, positive: Pairs, non_positive_keys: IntArray | None, rng: np.random.Generator
) -> tuple[dict[str, FloatArray], OddsAt]:
    """Fit the odds of held-out positives against uniform pairs of their users.

    Returns the log odds of the positives for each basis, up to a constant, and a function that computes the
    log odds by pairs of any pair. The basis of interactions is fitted where `non_positive_keys` are passed.
    """
    uniform = _draw_uniform_pairs(split, positive[0], rng)
    positive_pairs, uniform_pairs = _compute_features(split.train, [positive, uniform])
    odds_by_pairs = _fit_feature_odds(positive_pairs, uniform_pairs)
    positive_popularity = positive_pairs.select_features(POPULARITY)
    odds_by_items = _fit_feature_odds(positive_popularity, uniform_pairs.select_features(POPULARITY))

    log_odds = {
        PAIRS: odds_by_pairs(positive_pairs.x),
        ITEMS: odds_by_items(positive_popularity.x),
    }
    log_odds[PROFILES] = log_odds[PAIRS] - log_odds[ITEMS]
    if non_positive_keys is not None:
        log_odds[INTERACTIONS] = _fit_interaction_odds(split, positive, non_positive_keys, uniform, rng)

    def compute_odds(pairs: Pairs) -> FloatArray:
        """Return the log odds by pairs, up to a constant."""
        return odds_by_pairs(profile_features(split.train, *pairs))

    return log_odds, compute_odds


def fit_test_odds(split: Split) -> OddsAt:
    """Return a function that computes the log odds of pairs as test positives, up to a constant."""
    _, compute_odds = fit_odds(split, (split.test.user, split.test.item), None, np.random.default_rng(0))
    return compute_odds


def _fit_interaction_odds(
    split: Split,
    positive: Pairs,
    non_positive_keys: IntArray,
    uniform: Pairs,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the log odds of the positives as interactions of the log, up to a constant.

    Popularity and profiles are computed from training and from half of the non-positive pairs. The second
    half is part of the regression, where each of its pairs counts twice, in addition to the positives.
    """
    is_profile = rng.random(non_positive_keys.size) < 0.5
    profile_keys = non_positive_keys[is_profile]
    keys = np.concatenate([split.train.distinct.pair_key, profile_keys])
    user, item = np.divmod(keys, split.n_items)
    profile_log = Interactions(user, item, split.user_ids, split.item_ids)

    uniform_user, uniform_item = uniform
    is_candidate = ~is_member(uniform_user * np.int64(split.n_items) + uniform_item, profile_keys)
    non_positive = np.divmod(non_positive_keys[~is_profile], split.n_items)
    candidates = (uniform_user[is_candidate], uniform_item[is_candidate])
    positive_pairs, non_positive_pairs, uniform_pairs = _compute_features(
        profile_log, [positive, non_positive, candidates]
    )
    interaction_pairs = _PairFeatures(
        np.concatenate([positive_pairs.user, non_positive_pairs.user, non_positive_pairs.user]),
        np.concatenate([positive_pairs.x, non_positive_pairs.x, non_positive_pairs.x]),
    )
    return _fit_feature_odds(interaction_pairs, uniform_pairs)(positive_pairs.x)


def _draw_uniform_pairs(split: Split, user: IntArray, rng: np.random.Generator) -> Pairs:
    """Return candidates of these users, drawn uniformly."""
    users = unique_keys(user)
    n_draws = max(1, min(N_UNIFORM, MAX_UNIFORM // users.size))
    drawn_users = np.repeat(users, n_draws)
    drawn_items = rng.integers(split.n_items, size=drawn_users.size)
    keys = drawn_users * np.int64(split.n_items) + drawn_items
    is_candidate = ~is_member(keys, split.excluded_pairs.pair_key)
    return drawn_users[is_candidate], drawn_items[is_candidate]


@dataclass(frozen=True, eq=False)
class _PairFeatures:
    """Users and features of pairs, (n_pairs,) and (n_pairs, n_features)."""

    user: IntArray
    x: FloatArray

    def select_features(self, features: slice) -> _PairFeatures:
        """Return the pairs with a part of their features."""
        return _PairFeatures(self.user, self.x[:, features])


def _compute_features(train: Interactions, pair_sets: list[Pairs]) -> list[_PairFeatures]:
    """Return the features of several sets of pairs, with one pass over the profiles of the users."""
    users = [user for user, _ in pair_sets]
    items = [item for _, item in pair_sets]
    x = profile_features(train, np.concatenate(users), np.concatenate(items))
    features = []
    start = 0
    for user in users:
        end = start + len(user)
        features.append(_PairFeatures(user, x[start:end]))
        start = end
    return features


def _fit_feature_odds(seen: _PairFeatures, uniform: _PairFeatures) -> FeatureOdds:
    """Return the log odds as a function of features, by a logistic regression of seen and uniform pairs."""
    if not uniform.user.size:  # nearly all candidates are positive, so that the odds are equal
        return lambda x: np.zeros(len(x))
    x = np.concatenate([seen.x, uniform.x])
    mean = x.mean(axis=0)
    sd = x.std(axis=0)
    # Division by infinity removes a feature that is constant up to rounding.
    sd = np.where(sd > CONSTANT * np.abs(x).max(axis=0), sd, np.inf)
    design = np.vstack([np.ones(len(x)), ((x - mean) / sd).T]).T
    weight = np.concatenate([_weight_users_equally(seen.user), _weight_users_equally(uniform.user)])
    weight = weight * len(x) / 2
    is_seen = np.arange(len(x)) < seen.user.size
    if x.shape[1] == POPULARITY.stop:
        design, is_seen, weight = _merge_equal_rows(x[:, 0], design, is_seen, weight)
    slope = logistic(design, is_seen, weight)[1:] / sd
    return lambda x: np.asarray(x @ slope)


def _merge_equal_rows(
    popularity: FloatArray, design: FloatArray, is_seen: BoolArray, weight: FloatArray
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Return design, outcome and weight with two rows, seen and uniform, for each distinct popularity."""
    _, first_row, group = np.unique(popularity, return_index=True, return_inverse=True)
    n_groups = first_row.size
    group_weight = np.bincount(2 * group + is_seen, weight, 2 * n_groups)
    return np.repeat(design[first_row], 2, axis=0), np.tile([False, True], n_groups), group_weight


def logistic(design: FloatArray, y: BoolArray, weight: FloatArray) -> FloatArray:
    """Return the coefficients of a logistic regression with a small ridge."""
    ridge = np.full(design.shape[1], RIDGE)
    return fit_logistic(design, y, weight, np.zeros(ridge.size), ridge)


def _weight_users_equally(user: IntArray) -> FloatArray:
    """Return weights of pairs that sum to 1 and give every user the same total weight."""
    weight = 1 / np.bincount(user)[user]
    return np.asarray(weight / weight.sum())
