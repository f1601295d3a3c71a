"""Average precision, the metric behind MAP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb
from types import MappingProxyType
from typing import Literal

import numpy as np

from ipseval.metrics._ideal_list import sort_descending
from ipseval.metrics._order_statistics import (
    MIN_INTERPOLATED,
    compute_mean_reciprocal,
    interpolate_mean_reciprocals,
)
from ipseval.metrics._ties import (
    PrefixSums,
    TieGroups,
    compute_by_user,
    find_rank_ranges,
    sum_previous,
)
from ipseval.metrics._user_buckets import count_preceding_rows
from ipseval.metrics.base import Definition, Metric, Parameter, build_choice_parser
from ipseval.ranking import RankedPositives
from ipseval.utils.types import BoolArray, FloatArray, IntArray, TieRule

MAX_LISTED_POSITIVES = 6  # tied positives of a user whose 2^g subsets are all listed
DENOMINATOR = Parameter(
    "min",
    build_choice_parser("min", "s"),
    "min(s, k): a list of k relevant items scores 1; or s, as in trec_eval, ranx and RecTools",
)


@dataclass(frozen=True, repr=False)
class AveragePrecision(Metric):
    """Average precision: Σ_{i∈S, r_i≤k} prec(r_i) / min(s, k), or / s with denominator "s".

    prec(r) is the share of relevant items among the first r. The denominator "s" is that of map_cut_k of
    trec_eval; without a cutoff, both are s. As a sum over pairs: prec(r_i) = (1 + #{j ∈ S above i}) / r_i. The
    unbiased form gives the item itself one factor ŷ_i and each pair ŷ_i ŷ_j: Σ_i (ŷ_i/r_i)(1 + Σ_{j above i}
    ŷ_j) over the denominator.

    With weights: Σ_{r_i≤k} w_i prec_w(r_i) over the sum of the min(k, s) largest weights, where prec_w(r) =
    W(r)/(W(r) + w̄ neg(r)), W(r) the weight of the positives at ranks ≤ r, neg(r) the number of non-positives
    there and w̄ the user's mean weight. A perfect ranker has 1 in any order of its positives. With the
    denominator "s", the sum is divided by Σw, as in every mean over the relevant items.

    Ties with weights under "expected": the ranks of the tied positives have their exact distribution. The
    choice of the positives above enters by the mean, variance and skewness of their total weight; it is exact
    for up to six tied positives, and for equal weights.
    """

    denominator: Literal["min", "s"] = "min"

    name = "ap"
    aliases = ("map", "average_precision")
    summary = "average precision (its mean is MAP)"
    kind = "pairwise"
    needs_n_relevant = True
    needs_independence = True
    parameters = MappingProxyType({"denominator": DENOMINATOR})

    @property
    def definition(self) -> Definition:  # type: ignore[override]
        """Formula and conventions of the metric, which depend on the denominator."""
        weighted = "Σ_{r_i≤k} w_i W(r_i)/(W(r_i) + w̄ neg(r_i))"
        if self.denominator == "s":
            return Definition(
                "Σ_{i∈S, r_i≤k} prec(r_i) / s",
                "s, also for s > k",
                plug_in=f"{weighted} over Σw",
            )
        return Definition(
            "Σ_{i∈S, r_i≤k} prec(r_i) / min(s, k)",
            "min(s, k); s without a cutoff",
            plug_in=f"{weighted} over the sum of the min(k, m) largest w",
        )

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return 1 / rank

    def _user_values(
        self, positives: RankedPositives, weights: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        if weights is None:
            ones = np.ones(len(positives))
            return self._compute_pair_sum(positives, ones, rule) / self._compute_denominator(positives.counts)
        mean = positives.mean_by_user(weights)
        scaled_weights = weights / mean[positives.segment]
        ranges = find_rank_ranges(positives, rule)
        total = compute_by_user(positives, ranges, scaled_weights, partial(self._compute_weighted_sums, rule))
        return total * mean / self._compute_weight_sum(positives, weights)

    def _unbiased(
        self, positives: RankedPositives, inverse: FloatArray, n_relevant: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        assert n_relevant is not None
        return self._compute_pair_sum(positives, inverse, rule) / self._compute_denominator(n_relevant)

    def _compute_denominator(self, n_relevant: FloatArray | IntArray) -> FloatArray:
        """Return min(s, k), or s, as floats; s without a cutoff."""
        cutoff = np.inf
        if self.denominator == "min" and self.cutoff is not None:
            cutoff = float(self.cutoff)
        return np.minimum(n_relevant, cutoff)

    def _compute_weight_sum(self, positives: RankedPositives, weights: FloatArray) -> FloatArray:
        """Return the sum of the min(k, s) largest weights of each user, or of all its weights."""
        largest = sort_descending(positives, weights)
        if self.denominator == "min" and self.cutoff is not None:
            largest = np.where(count_preceding_rows(positives) < self.cutoff, largest, 0.0)
        return positives.sum_by_user(largest)

    def _is_inside(self, groups: TieGroups, rank: FloatArray) -> BoolArray:
        """Return which entries are positives at a rank up to the cutoff."""
        if self.cutoff is None:
            return groups.is_positive
        return np.asarray(groups.is_positive & (rank <= self.cutoff))

    # The weighted form.

    def _compute_weighted_sums(self, rule: TieRule, groups: TieGroups, w: FloatArray) -> FloatArray:
        """Return Σ w_i E[1{r_i≤k} prec_w(r_i)] of each user of a bucket, from weights with mean 1."""
        weight_above = sum_previous(w, groups.first_column)
        group_weight = sum_previous(w, groups.last_column + 1) - weight_above
        negatives = (groups.n_above - groups.first_column).astype(np.float64)
        rank = groups.n_above + 1.0
        if rule == "mean":
            rank = groups.n_above + (groups.n_ranks + 1) / 2
            weight_above = weight_above + (group_weight - w) / 2
            negatives = rank - 1 - groups.first_column - (groups.n_positives - 1) / 2
        negatives = np.where(groups.is_positive, negatives, 0.0)
        weighted_precision = w * (weight_above + w) / (weight_above + w + negatives)
        value = np.where(self._is_inside(groups, rank), weighted_precision, 0.0)
        if rule != "mean":
            value[groups.n_ranks > 1] = 0.0
            user, start = np.nonzero(groups.is_group_start & (groups.n_ranks > 1))
            if user.size:
                value[user, start] = self._compute_tied_gain(groups, w, weight_above, user, start)
        return np.asarray(value.sum(axis=1))

    def _compute_tied_gain(
        self, groups: TieGroups, w: FloatArray, weight_above: FloatArray, user: IntArray, start: IntArray
    ) -> FloatArray:
        """Return Σ_l E[(S_l/l) 1{r ≤ k} W/(W + neg)] of the tie groups that start at the given entries."""
        # S_l is the weight of the first l positives of the group, the last of which can be any of them. W is
        # the weight above the group plus S_l, and neg follows from the rank of the l-th positive.
        n_positives = groups.n_positives[user, start]
        column = start[:, None] + np.arange(int(n_positives.max()))
        member_weights = w[user[:, None], np.minimum(column, w.shape[1] - 1)]
        n_above = groups.n_above[user, start]
        n_ranks = groups.n_ranks[user, start]
        last_position = n_ranks
        if self.cutoff is not None:
            last_position = np.clip(self.cutoff - n_above, 0, n_ranks)
        gain = np.zeros(user.size)
        for g in np.unique(n_positives):
            rows = np.flatnonzero(n_positives == g)
            order, subset_weight, probability = _compute_subset_sums(member_weights[rows, :g])
            total_weight = weight_above[user, start][rows, None, None] + subset_weight
            offset = total_weight + ((n_above - start)[rows, None] - order)[:, :, None]
            reciprocal = _compute_mean_reciprocals(offset, n_ranks[rows], last_position[rows], order)
            terms = probability * subset_weight / order[:, None] * total_weight * reciprocal
            gain[rows] = terms.sum(axis=(1, 2))
        return gain

    # The sum over pairs.

    def _compute_pair_sum(
        self, positives: RankedPositives, relevance: FloatArray, rule: TieRule
    ) -> FloatArray:
        """Return Σ_i y_i [A_i (1 + Σ_{j above i} y_j) + B_i Σ_{j tied with i} y_j] of each user."""
        # A_i = E[1{r_i≤k}/r_i] and B_i = E[1{r_i≤k, r_j<r_i}/r_i] for a j in the same tie group.
        ranges = find_rank_ranges(positives, rule)
        depth = int((ranges.n_above + ranges.n_ranks).max(initial=1))
        if self.cutoff is not None:
            depth = min(depth, self.cutoff)
        harmonic_sums = PrefixSums.from_values(1.0 / np.arange(1.0, depth + 1))

        def compute_bucket(groups: TieGroups, y: FloatArray) -> FloatArray:
            if rule == "mean":
                single, pair = self._compute_mean_rank_terms(groups)
            else:
                single, pair = _compute_expected_terms(groups, harmonic_sums)
            relevance_above = sum_previous(y, groups.first_column)
            relevance_tied = sum_previous(y, groups.last_column + 1) - relevance_above - y
            relevance_tied = np.where(groups.n_positives > 1, relevance_tied, 0.0)
            terms = y * (single * (1 + relevance_above) + pair * relevance_tied)
            return np.asarray(terms.sum(axis=1))

        return compute_by_user(positives, ranges, relevance, compute_bucket)

    def _compute_mean_rank_terms(self, groups: TieGroups) -> tuple[FloatArray, FloatArray]:
        """Return A_i and B_i of each entry where the items of a tie group have its mean rank."""
        rank = groups.n_above + (groups.n_ranks + 1) / 2
        single = np.where(self._is_inside(groups, rank), 1 / rank, 0.0)
        return single, single / 2


def _compute_expected_terms(groups: TieGroups, harmonic_sums: PrefixSums) -> tuple[FloatArray, FloatArray]:
    """Return A_i and B_i of each entry under random tie breaking, from H_0 … H_depth with the cutoff."""
    depth = harmonic_sums.high.size - 1
    first = np.minimum(groups.n_above, depth)
    last = np.minimum(groups.n_above + groups.n_ranks, depth)
    reciprocal_sum = harmonic_sums.sum_range(first, last)
    single = reciprocal_sum / groups.n_ranks
    # Σ_p (p − 1)/(above + p) over the positions p inside the cutoff is their number − (above + 1) Σ_p
    # 1/(above + p).
    n_inside = (last - first).astype(np.float64)
    position_pairs = np.maximum(groups.n_ranks * (groups.n_ranks - 1), 1)
    pair = (n_inside - (first + 1) * reciprocal_sum) / position_pairs
    return single, np.where(groups.n_ranks > 1, pair, 0.0)


def _compute_mean_reciprocals(
    offset: FloatArray, n_ranks: IntArray, last_position: IntArray, order: IntArray
) -> FloatArray:
    """Return E[1{p ≤ last_position} / (offset + p)] of groups of g positives, in the shape (n, g, k)."""
    n_groups = n_ranks.size
    g = order.size
    if g > MIN_INTERPOLATED:
        means: FloatArray = np.empty(offset.shape)
        for row in range(n_groups):
            means[row] = interpolate_mean_reciprocals(
                offset[row], int(n_ranks[row]), int(last_position[row]), order
            )
        return means
    flat_means = compute_mean_reciprocal(
        offset.reshape(n_groups * g, -1),
        n_positions=np.repeat(n_ranks, g),
        n_positives=np.full(n_groups * g, g),
        order=np.tile(order, n_groups),
        last_position=np.repeat(last_position, g),
    )
    return flat_means.reshape(offset.shape)


def _compute_subset_sums(members: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return l = 1 … g, values of S_l and their probabilities, (n_groups, g, k) each.

    S_l is the sum of l random entries of the g `members` of a group, (n_groups, g). Probabilities sum to 1
    for each l, and are 0 in the padding.
    """
    if members.shape[1] <= MAX_LISTED_POSITIVES:
        return _list_subset_sums(members)
    return _approximate_subset_sums(members)


def _list_subset_sums(members: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return `_compute_subset_sums` with the sum of every subset."""
    g = members.shape[1]
    order = np.arange(1, g + 1)
    mean_sums = members.mean(axis=1, keepdims=True) * order
    value = np.repeat(mean_sums[:, :, None], comb(g, g // 2), axis=2)
    probability = np.zeros(value.shape)
    for size in order.tolist():
        subsets = list(combinations(range(g), size))
        value[:, size - 1, : len(subsets)] = members[:, subsets].sum(axis=2)
        probability[:, size - 1, : len(subsets)] = 1 / len(subsets)
    return order, value, probability


def _approximate_subset_sums(members: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return `_compute_subset_sums` with two values that have the mean, variance and skewness of S_l."""
    g = members.shape[1]
    order = np.arange(1, g + 1)
    mean = members.mean(axis=1, keepdims=True)
    variance = members.var(axis=1, keepdims=True) * order * (g - order) / (g - 1)
    member_third_moment = ((members - mean) ** 3).mean(axis=1, keepdims=True)
    third_moment = member_third_moment * order * (g - order) * (g - 2 * order) / ((g - 1) * (g - 2))
    varies = variance > 1e-24 * (order * mean) ** 2
    shift = np.where(varies, third_moment / (2 * np.where(varies, variance, 1.0)), 0.0)
    half_distance = np.sqrt(np.where(varies, variance, 0.0) + shift**2)
    asymmetry = np.where(varies, shift / np.where(varies, half_distance, 1.0), 0.0)
    centre = order * mean + shift
    value = np.stack([centre + half_distance, centre - half_distance], axis=2)
    probability = np.stack([1 - asymmetry, 1 + asymmetry], axis=2) / 2
    return order, value, probability
