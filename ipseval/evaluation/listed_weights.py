"""Check propensities from impressions by the weights of the items that a recommender lists.

With right propensities, the weights 1/P of the listed items that were shown sum to about the number of listed items.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Interactions
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.evaluation.request import Request
from ipseval.evaluation.sanity import SanityWarning
from ipseval.propensity import ImpressionPropensity, LoggedPropensity, Propensity
from ipseval.propensity.impression_propensities import PairCounts
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.ranking.candidates import is_catalogue
from ipseval.ranking.top_lists import TopLists
from ipseval.utils.compute import ComputeOptions
from ipseval.utils.types import FloatArray, IntArray

DEFAULT_LENGTH = 10  # of the lists, without a cutoff
MOST_USERS = 5000  # further users add little to the power of the check
FEWEST_USERS = 50  # the standard error is computed from sums of users
# Five recommenders in each of 96 simulated logs. With a policy that does not depend on the user, and estimated
# propensities, the ratio was between 0.62 and 1.31, and at most 2.5 standard errors from 1. With logged propensities of
# a personalised policy, it was at most 3.1 standard errors above 1.
HIGHEST_RATIO = 1.5
LOWEST_RATIO = 0.67
FAR_FROM_ONE = 4.0  # standard errors


@dataclass(frozen=True, kw_only=True)
class ListedWeights:
    """The weights of the listed items of a recommender that were shown.

    Attributes
    ----------
    ratio : float
        Sum of these weights, over the number of listed items.
    relative_ratio : float
        `ratio` over the same ratio of all pairs, of which SNIPS depends alone.
    std_error : float
        Standard error of `relative_ratio`, clustered by users.
    n_listed : int
        Number of listed items.
    n_users : int
        Number of users with a list.
    has_all_pairs : bool
        Whether pairs that were not shown have a propensity. Otherwise a low ratio may be due to chance, because large
        weights are missing in most samples.
    """

    ratio: float
    relative_ratio: float
    std_error: float
    n_listed: int
    n_users: int
    has_all_pairs: bool


def check_listed_weights(
    models: Mapping[str, object],
    split: Split,
    model: ImpressionPropensity | LoggedPropensity,
    request: Request,
    *,
    candidates: object,
    compute: ComputeOptions,
) -> tuple[SanityWarning, ...]:
    """Return warnings of listed items that were shown more often, or less, than the propensities state.

    Parameters
    ----------
    models : mapping
        Name -> scorer, with lists in the id space of the split. Functions are not called again, and ranks have no
        lists, so both are not checked.
    split : Split
        Its test impressions are those of the propensity, and no training impressions. Otherwise nothing is checked.
    model : ImpressionPropensity or LoggedPropensity
        The model of the propensity. Propensities that are known by design are not checked.
    request : Request
        With the fitted propensity. The largest cutoff of its metrics is the length of the lists; 10 without a cutoff.
    candidates : object
        Only the whole catalogue is checked.
    compute : ComputeOptions
        Threads and memory of the ranking.

    Returns
    -------
    tuple of SanityWarning
    """
    is_weighted = any(estimator.weighted for estimator in request.estimators)
    if not is_weighted or not is_catalogue(candidates) or not _reads_test_impressions(model, split):
        return ()
    checked_models = {name: scorer for name, scorer in models.items() if _has_cheap_lists(scorer)}
    if not checked_models:
        return ()
    assert request.propensity is not None  # a weighted estimator needs one
    shown_pairs = ShownPairs.from_model(model, request.propensity)
    if shown_pairs.users.size < FEWEST_USERS:
        return ()
    split_of_users = _make_split_of_users(split, shown_pairs.users)
    length = max((metric.cutoff for metric in request.metrics if metric.cutoff), default=DEFAULT_LENGTH)
    warnings: list[SanityWarning] = []
    for name, scorer in checked_models.items():
        top = _list_items(scorer, split_of_users, name, length, compute)
        if top is not None:
            warnings += _find_misfit(name, shown_pairs.compare(top), length)
    return tuple(warnings)


def _reads_test_impressions(model: ImpressionPropensity | LoggedPropensity, split: Split) -> bool:
    """Return whether propensities come from impressions that no recommender was trained on."""
    if model.log is None:
        return False
    if isinstance(model, LoggedPropensity) and model.basis == "design":
        return False
    return model.log is split.test.impressions and model.log is not split.train.impressions


def _has_cheap_lists(model: object) -> bool:
    """Return whether lists cost no further call of a function, and do not change from call to call."""
    return not isinstance(model, RankedPositives) and not callable(model)


def _make_split_of_users(split: Split, users: IntArray) -> Split:
    """Return a split that tests one candidate of each user, so that a ranking costs little besides the lists."""
    excluded_keys = np.unique(split.excluded_pairs.pair_key)
    starts = np.searchsorted(excluded_keys, users * np.int64(split.n_items))
    stops = np.searchsorted(excluded_keys, (users + 1) * np.int64(split.n_items))
    first_candidates = np.zeros(users.size, dtype=np.int64)
    for row, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        excluded_items = excluded_keys[start:stop] % split.n_items
        is_gap = np.append(excluded_items, -1) != np.arange(excluded_items.size + 1)
        first_candidates[row] = np.argmax(is_gap)
    has_candidate = first_candidates < split.n_items
    test = Interactions(
        user=users[has_candidate],
        item=first_candidates[has_candidate],
        user_ids=split.user_ids,
        item_ids=split.item_ids,
    )
    return Split(split.train, test, seen=split.seen)


def _list_items(
    model: object, split: Split, name: str, length: int, compute: ComputeOptions
) -> TopLists | None:
    """Return the first items of each user; None for scores that only users with test positives have."""
    try:
        ranked = rank_positives(model, split, name=name, compute=compute, top_k=length)
    except InputError:
        return None
    return ranked.top


def _find_misfit(name: str, weights: ListedWeights | None, length: int) -> list[SanityWarning]:
    """Return a warning of weights that do not sum to the number of listed items, else nothing."""
    if weights is None or weights.n_users < FEWEST_USERS:
        return []
    figures = {
        "ratio": weights.ratio,
        "relative_ratio": weights.relative_ratio,
        "std_error": weights.std_error,
        "n_listed": float(weights.n_listed),
        "length": float(length),
    }
    # A ratio that is above 1 for all pairs cancels in SNIPS, so both ratios must be far from 1.
    lower_ratio = min(weights.ratio, weights.relative_ratio)
    upper_ratio = max(weights.ratio, weights.relative_ratio)
    distance = FAR_FROM_ONE * weights.std_error
    if lower_ratio > HIGHEST_RATIO and lower_ratio - 1 > distance:
        return [SanityWarning(code="weights-too-large", model=name, figures=figures)]
    if weights.has_all_pairs and upper_ratio < LOWEST_RATIO and 1 - upper_ratio > distance:
        return [SanityWarning(code="weights-too-small", model=name, figures=figures)]
    return []


@dataclass(frozen=True, eq=False, kw_only=True)
class ShownPairs:
    """The pairs of some users that were shown, with their weights.

    Attributes
    ----------
    users : (n,) array
        Codes of the users, ascending.
    n_users : int
        Number of all users.
    n_items : int
        Number of all items.
    n_possible_items : int
        Number of items with a propensity for users to whom they were not shown.
    pair_key : (n_pairs,) array
        user * n_items + item of each pair, ascending.
    weight : (n_pairs,) array
        Probability that the pair was examined, given its impressions, over its propensity.
    propensity : Propensity
        Propensities of all pairs, or of the pairs that were shown alone.
    has_all_pairs : bool
        Whether pairs that were not shown have a propensity.
    """

    users: IntArray
    n_users: int
    n_items: int
    n_possible_items: int
    pair_key: IntArray
    weight: FloatArray
    propensity: Propensity
    has_all_pairs: bool

    @classmethod
    def from_model(cls, model: ImpressionPropensity | LoggedPropensity, propensity: Propensity) -> ShownPairs:
        """Return the pairs of at most `MOST_USERS` users, spread evenly over the ids, of the log of a model."""
        assert model.log is not None
        log: ImpressionLog = model.log
        active_users = np.unique(log.user)
        positions = np.linspace(0, active_users.size - 1, min(active_users.size, MOST_USERS)).astype(np.int64)
        users = active_users[positions]
        is_chosen = np.zeros(log.n_users, dtype=bool)
        is_chosen[users] = True
        counts = PairCounts.from_log(log.select(is_chosen[log.user]), model.examination)
        pair_user, pair_item = np.divmod(counts.pair_key, log.n_items)
        pair_propensity = propensity.for_pairs(pair_user, pair_item)
        weight = np.where(np.isnan(pair_propensity), 0.0, counts.examination / pair_propensity)
        has_all_pairs = isinstance(model, ImpressionPropensity)
        n_possible_items = log.n_items
        if has_all_pairs:
            n_possible_items = np.unique(log.item).size
        return cls(
            users=users,
            n_users=log.n_users,
            n_items=log.n_items,
            n_possible_items=n_possible_items,
            pair_key=counts.pair_key,
            weight=weight,
            propensity=propensity,
            has_all_pairs=has_all_pairs,
        )

    def compare(self, top: TopLists) -> ListedWeights | None:
        """Return the weights of listed items in comparison with their number; None without any.

        With w = 1/P where an item was shown, and w = 0 elsewhere, E[w] = 1 for every pair with P > 0. It holds for all
        users with impressions. It does not hold for users with clicks alone, to whom liked items were shown more often.
        """
        user = np.repeat(top.users, top.depth)
        item = top.item.ravel()
        is_counted = item >= 0
        inverse = np.zeros(0)
        if self.has_all_pairs:
            propensity = np.full(item.size, np.nan)
            propensity[is_counted] = self.propensity.for_pairs(user[is_counted], item[is_counted])
            is_counted &= ~np.isnan(propensity)
            inverse = 1 / propensity[is_counted]
        user = user[is_counted]
        if not user.size:
            return None
        weight = self._find_weights(user * np.int64(self.n_items) + item[is_counted])

        listed_sums = np.bincount(user, weight, minlength=self.n_users)
        n_listed = np.bincount(user, minlength=self.n_users)
        ratio = float(listed_sums.sum() / n_listed.sum())
        all_sums = np.bincount(self.pair_key // self.n_items, self.weight, minlength=self.n_users)
        n_all = np.zeros(self.n_users)
        n_all[self.users] = self.n_possible_items
        ratio_of_all = float(all_sums.sum() / n_all.sum())
        relative_ratio = ratio / ratio_of_all

        # Delta method for the ratio of two ratios.
        effect = (listed_sums - ratio * n_listed) / n_listed.sum()
        effect_of_all = (all_sums - ratio_of_all * n_all) / n_all.sum()
        variance = float(np.square(effect - relative_ratio * effect_of_all).sum())
        if self.has_all_pairs:
            # Where few listed items were shown, the sums of users vary less than with right propensities.
            variance = max(variance, float((inverse - 1).sum()) / float(n_listed.sum()) ** 2)
        return ListedWeights(
            ratio=ratio,
            relative_ratio=relative_ratio,
            std_error=math.sqrt(variance) / ratio_of_all,
            n_listed=int(n_listed.sum()),
            n_users=int((n_listed > 0).sum()),
            has_all_pairs=self.has_all_pairs,
        )

    def _find_weights(self, keys: IntArray) -> FloatArray:
        """Return the weight of each pair, 0 for a pair that was not shown."""
        positions = np.minimum(np.searchsorted(self.pair_key, keys), self.pair_key.size - 1)
        return np.where(self.pair_key[positions] == keys, self.weight[positions], 0.0)
