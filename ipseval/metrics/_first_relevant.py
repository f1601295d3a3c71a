"""Metrics of the best relevant item: hit rate and reciprocal rank."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial

import numpy as np

from ipseval.errors import InputError
from ipseval.metrics._order_statistics import compute_mean_reciprocal
from ipseval.metrics._ties import (
    TieGroups,
    compute_by_user,
    find_rank_ranges,
    multiply_previous,
)
from ipseval.metrics.base import MAX_QUADRATIC_SIZE, Definition, Metric
from ipseval.ranking import RankedPositives
from ipseval.utils.types import BoolArray, FloatArray, IntArray, TieRule


@dataclass(frozen=True, repr=False)
class FirstRelevantMetric(Metric):
    """A multilinear function of relevance, which is unbiased with ŷ = 1/P in place of the relevance y."""

    kind = "list"
    needs_independence = True
    is_weighted_within_users = False

    def _user_values(
        self, positives: RankedPositives, weights: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        # The weights are not used: the value is that of the unbiased form where every P is 1.
        return self._unbiased(positives, np.ones(len(positives)), None, rule)

    def _unbiased(
        self, positives: RankedPositives, inverse: FloatArray, n_relevant: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        ranges = find_rank_ranges(positives, rule)
        return compute_by_user(positives, ranges, inverse, partial(self._compute_bucket, rule))

    @abstractmethod
    def _compute_bucket(self, rule: TieRule, groups: TieGroups, relevance: FloatArray) -> FloatArray:
        """Return the value of each user of a bucket from the relevance y of its positives."""


@dataclass(frozen=True, repr=False)
class Hit(FirstRelevantMetric):
    """Hit rate: whether any relevant item is among the first k, 1{min r ≤ k}.

    Weights act between users only. Unbiased form (multilinear in the relevance, observations independent):
    1 − Π_{r_i≤k} (1 − ŷ_i).
    """

    name = "hit"
    aliases = ("hit_rate", "hr", "success")
    summary = "whether any relevant item is in the first k"
    takes_cutoff = "required"
    definition = Definition("1{min_{i∈S} r_i ≤ k}", "none", plug_in="the value without weights")

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return np.ones_like(rank)

    def _compute_bucket(self, rule: TieRule, groups: TieGroups, relevance: FloatArray) -> FloatArray:
        assert self.cutoff is not None
        miss = 1 - relevance
        n_above = groups.n_above
        n_ranks = groups.n_ranks
        if rule == "mean":
            n_above = n_above + n_ranks // 2  # the mean rank, rounded up
            n_ranks = np.ones_like(n_ranks)
        is_inside = n_above + n_ranks <= self.cutoff
        no_hit = np.where(is_inside, miss, 1.0).prod(axis=1)

        # At most one tie group of a user extends over the cutoff.
        is_split = ~is_inside & (n_above < self.cutoff)
        users = np.flatnonzero(is_split.any(axis=1))
        if users.size:
            column = is_split[users].argmax(axis=1)[:, None]
            group_n_above = np.take_along_axis(n_above[users], column, axis=1)[:, 0]
            group_n_ranks = np.take_along_axis(n_ranks[users], column, axis=1)[:, 0]
            no_hit[users] *= compute_miss_probability(
                miss[users], is_split[users], self.cutoff - group_n_above, group_n_ranks
            )
        return np.asarray(1 - no_hit)


@dataclass(frozen=True, repr=False)
class ReciprocalRank(FirstRelevantMetric):
    """Reciprocal rank of the best relevant item: 1/min r, and 0 beyond k.

    Weights act between users only. Unbiased form (observations independent): Σ_i (ŷ_i/r_i) Π_{j above i}
    (1 − ŷ_j).
    """

    name = "rr"
    aliases = ("mrr", "reciprocal_rank")
    summary = "reciprocal rank of the best relevant item"
    definition = Definition("1/min_{i∈S} r_i; 0 beyond k", "none", "1/r", plug_in="the value without weights")

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return 1 / rank

    def _compute_bucket(self, rule: TieRule, groups: TieGroups, relevance: FloatArray) -> FloatArray:
        miss = 1 - relevance
        if rule == "mean":
            # The positives of a tie group have one rank, so that their order does not affect the sum.
            column = np.broadcast_to(np.arange(miss.shape[1]), miss.shape)
            none_above = multiply_previous(miss, column)
            rank = groups.n_above + (groups.n_ranks + 1) / 2
            value = np.where(groups.is_positive, self.value_at_rank(rank, np.nan), 0.0)
            return np.asarray((none_above * relevance * value).sum(axis=1))

        none_above = multiply_previous(miss, groups.first_column)
        is_start = groups.is_group_start
        group_gain = np.zeros(miss.shape)
        is_untied = is_start & (groups.n_ranks == 1)
        untied_gain = relevance * self.value_at_rank(groups.n_above + 1.0, np.nan)
        group_gain[is_untied] = untied_gain[is_untied]
        user, start = np.nonzero(is_start & (groups.n_ranks > 1))
        if user.size:
            group_gain[user, start] = self._compute_tied_gain(groups, miss, user, start)
        return np.asarray((none_above * group_gain).sum(axis=1))

    def _compute_tied_gain(
        self, groups: TieGroups, miss: FloatArray, user: IntArray, start: IntArray
    ) -> FloatArray:
        """Return Σ_l μ_l (D_{l−1} − D_l) of the tie groups that start at the given entries, (n_groups,)."""
        # μ_l is the mean of c at the l-th rank of a random g-subset of the group's ranks, and D_l is the mean
        # of Π (1 − y) over l of its positives: the ranks that are taken and their order are independent.
        n_positives = groups.last_column[user, start] - start + 1
        column = start[:, None] + np.arange(int(n_positives.max()))
        is_member = np.arange(column.shape[1]) < n_positives[:, None]
        member_miss = miss[user[:, None], np.minimum(column, miss.shape[1] - 1)]
        n_above = groups.n_above[user, start]
        n_ranks = groups.n_ranks[user, start]
        last_position = n_ranks
        if self.cutoff is not None:
            last_position = np.clip(self.cutoff - n_above, 0, n_ranks)
        # The l-th positive has position l or later, so that orders beyond the last position add nothing.
        max_order = min(column.shape[1], int(last_position.max()))
        means = compute_mean_products(member_miss, is_member, max_order)
        drop = np.where(is_member[:, :max_order], means[:, :-1] - means[:, 1:], 0.0)
        row, order = np.nonzero(drop)
        offset = n_above[row, None].astype(np.float64)
        mean_values = compute_mean_reciprocal(
            offset, n_ranks[row], n_positives[row], order + 1, last_position[row]
        )
        gain = np.bincount(row, drop[row, order] * mean_values[:, 0], minlength=user.size)
        return np.asarray(gain, dtype=np.float64)


def compute_miss_probability(
    miss: FloatArray, is_member: BoolArray, n_slots: IntArray, n_ranks: IntArray
) -> FloatArray:
    """Return E[Π miss over the members of a tie group in its first `n_slots` ranks], (n,).

    The members, (n, width), take a random choice of the `n_ranks` ranks of the group; miss = 1 − y.
    """
    # If j of the first i members are in the slots, the next one is too with probability
    # (n_slots − j)/(n_ranks − i). No term cancels for y in [0, 1].
    if not miss[is_member].any():
        return _compute_empty_probability(is_member, n_slots, n_ranks)
    n, width = miss.shape
    max_in_slots = min(width, int(n_slots.max()))
    j = np.arange(max_in_slots + 1)
    state = np.zeros((n, max_in_slots + 1))  # column j: E[Π miss, j members in the slots]
    state[:, 0] = 1.0
    n_placed = np.zeros(n, dtype=np.int64)
    for column in range(width):
        is_active = is_member[:, column]
        n_free = np.maximum(n_ranks - n_placed, 1)[:, None]
        inside = (n_slots[:, None] - j) / n_free
        next_state = state * (1 - inside)
        next_state[:, 1:] += (state * inside)[:, :-1] * miss[:, [column]]
        state = np.where(is_active[:, None], next_state, state)
        n_placed += is_active
    return np.asarray(state.sum(axis=1), dtype=np.float64)


def _compute_empty_probability(is_member: BoolArray, n_slots: IntArray, n_ranks: IntArray) -> FloatArray:
    """Return the probability that no member has one of the first `n_slots` ranks of its group, (n,)."""
    n_placed: IntArray = np.cumsum(is_member, axis=1) - is_member
    outside = 1 - n_slots[:, None] / np.maximum(n_ranks[:, None] - n_placed, 1)
    return np.asarray(np.where(is_member, outside, 1.0).cumprod(axis=1)[:, -1])


def compute_mean_products(miss: FloatArray, is_member: BoolArray, max_order: int) -> FloatArray:
    """Return D_l, the mean of Π miss over all l-subsets of the members, (n, max_order + 1), with D_0 = 1."""
    n, width = miss.shape
    means = np.zeros((n, max_order + 1))
    means[:, 0] = 1.0
    if not miss[is_member].any():
        return means
    if max_order > MAX_QUADRATIC_SIZE:
        raise InputError(
            f"the unbiased value of {width:,} tied positives of a user takes time of the square of that; ask "
            f"for a cutoff of at most {MAX_QUADRATIC_SIZE:,}, or for a self-normalised estimator."
        )
    order = np.arange(max_order + 1)
    n_members = np.zeros(n, dtype=np.int64)
    for column in range(width):
        is_active = is_member[:, column]
        n_members += is_active
        share = order / np.maximum(n_members, 1)[:, None]
        next_means = means * np.maximum(1 - share, 0)
        next_means[:, 1:] += means[:, :-1] * miss[:, [column]] * share[:, 1:]
        means = np.where(is_active[:, None], next_means, means)
    return means
