"""The tie rules: which ranks tied positives can take, and the mean of a metric over these ranks.

A positive has `n_above` candidates with a higher score and `n_tied` other candidates with the same score. The
items of a tie group share the ranks n_above + 1 … n_above + n_tied + 1, and a tie rule assigns them:

==========  ==========================================================================================
"mean"      Every item of the group has the mean rank of the group, n_above + n_tied/2 + 1.
"expected"  Ties are broken at random, and the metric is its exact expectation over random orders.
"min"       The positives of the group come first, in random order.
"max"       The positives of the group come last, in random order.
==========  ==========================================================================================

`average_over_ties` applies a rule to a function of one rank. Metrics that are a sum or mean of such a function
use it alone, and so do the numerators of metrics that compare a list with an ideal list, such as ndcg. (The ideal
list has no ties.) `TieGroups` describes the groups of a user for metrics that read several ranks of the user, such
as hit, rr and ap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ipseval.metrics._user_buckets import build_user_buckets, count_preceding_rows
from ipseval.ranking import RankedPositives
from ipseval.utils.ids import ranks_within_group
from ipseval.utils.types import BoolArray, FloatArray, IntArray, TieRule


@dataclass(frozen=True)
class PrefixSums:
    """Prefix sums as unevaluated sums of two floats, so that their differences keep all digits."""

    # A difference of ordinary prefix sums at rank 100,000 has the rounding error of a sum of 6,000 in a value
    # of 0.06, and average precision multiplies it by the rank.

    high: FloatArray
    low: FloatArray

    @classmethod
    def from_values(cls, values: FloatArray) -> PrefixSums:
        """Return the prefix sums of `values`, which begin with the empty sum."""
        high = np.concatenate([[0.0], np.cumsum(values)])
        # Knuth's two-sum gives the rounding error of each addition.
        previous = high[:-1]
        total = high[1:]
        increment = total - previous
        error = (previous - (total - increment)) + (values - increment)
        return cls(high, np.concatenate([[0.0], np.cumsum(error)]))

    def sum_range(self, start: IntArray, stop: IntArray) -> FloatArray:
        """Return Σ values[start:stop]; a position beyond the end counts as the end."""
        last = self.high.size - 1
        start = np.minimum(start, last)
        stop = np.minimum(stop, last)
        return np.asarray((self.high[stop] - self.high[start]) + (self.low[stop] - self.low[start]))


@dataclass(frozen=True)
class RankRanges:
    """The ranks that each positive can take under a tie rule: n_above + 1 … n_above + n_ranks.

    The positives of one tie group take a uniformly random choice of their common ranks.
    """

    n_above: IntArray  # (n_pos,)
    n_ranks: IntArray  # (n_pos,)


@dataclass(frozen=True)
class TieGroups:
    """The tie groups of one bucket: rows are users, columns are their positives from best to worst, padded.

    Attributes
    ----------
    n_above, n_ranks : (n_users, width) int arrays
        The positives of the group take a uniformly random choice of the ranks n_above + 1 … n_above +
        n_ranks.
    first_column, last_column : (n_users, width) int arrays
        Columns of the first and the last positive in the tie group of each entry.
    is_positive : (n_users, width) bool array
        False in the padding.
    """

    n_above: IntArray
    n_ranks: IntArray
    first_column: IntArray
    last_column: IntArray
    is_positive: BoolArray

    @property
    def n_positives(self) -> IntArray:
        """Number of positives in the tie group of each entry."""
        return self.last_column - self.first_column + 1

    @property
    def is_group_start(self) -> BoolArray:
        """Whether an entry is the first positive of its tie group."""
        columns = np.arange(self.first_column.shape[1])
        return np.asarray(self.is_positive & (self.first_column == columns))


def compute_mean_rank(positives: RankedPositives) -> FloatArray:
    """Return the 1-based rank of each positive, which is the mean rank of its tie group, (n_pos,)."""
    return positives.n_above + 0.5 * positives.n_tied + 1.0


def average_over_ties(
    value_at_rank: Callable[[FloatArray, IntArray], FloatArray],
    positives: RankedPositives,
    rule: TieRule,
    cutoff: int | None,
    *,
    reads_n: bool = False,
) -> FloatArray:
    """Return a function of the rank for each positive under a tie rule, (n_pos,).

    Under "mean" it is the function at the mean rank, under the other rules its mean over the possible ranks.
    `value_at_rank(rank, n_candidates)` is 0 beyond `cutoff`; `reads_n` says whether it depends on `n_candidates`.
    """
    n = positives.n_candidates
    if rule == "mean" or not positives.has_ties:
        return value_at_rank(compute_mean_rank(positives), n)
    ranges = find_rank_ranges(positives, rule)
    value = np.asarray(value_at_rank(ranges.n_above + 1.0, n), dtype=np.float64)
    is_tied = ranges.n_ranks > 1
    row_groups = [np.flatnonzero(is_tied)]
    if reads_n:
        row_groups = [np.flatnonzero(is_tied & (n == size)) for size in np.unique(n[is_tied])]
    for rows in row_groups:
        if not rows.size:
            continue
        # The mean over the possible ranks is a difference of prefix sums.
        n_above = ranges.n_above[rows]
        n_ranks = ranges.n_ranks[rows]
        depth = int((n_above + n_ranks).max())
        if cutoff is not None:
            depth = min(depth, cutoff)
        rank = np.arange(1.0, depth + 1)
        prefix_sums = PrefixSums.from_values(value_at_rank(rank, np.full(rank.size, n[rows[0]])))
        value[rows] = prefix_sums.sum_range(n_above, n_above + n_ranks) / n_ranks
    return value


def find_rank_ranges(positives: RankedPositives, rule: TieRule) -> RankRanges:
    """Return the ranks that each positive can take under the tie rule."""
    n_ranks = positives.n_tied + 1
    if rule not in ("min", "max") or not positives.has_ties:
        return RankRanges(positives.n_above, n_ranks)
    # Under "min" and "max" a group has as many ranks as positives. The order of the positives stays random,
    # so that no two of them share a rank.
    n_positives = count_tied_positives(positives)
    if rule == "min":
        return RankRanges(positives.n_above, n_positives)
    return RankRanges(positives.n_above + n_ranks - n_positives, n_positives)


def count_tied_positives(positives: RankedPositives) -> IntArray:
    """Return the number of positives in the tie group of each positive, itself included, (n_pos,)."""
    order = positives.by_rank
    sizes = np.diff(np.flatnonzero(_starts_tie_group(positives)), append=order.size)
    result = np.empty(order.size, dtype=np.int64)
    result[order] = np.repeat(sizes, sizes)
    # Positives beyond the end of top-K lists share a rank (stored as K + 1) without being tied.
    return np.minimum(result, positives.n_tied + 1)


def _starts_tie_group(positives: RankedPositives) -> BoolArray:
    """Return whether the rank of a positive differs from that before it, in the order `by_rank`, (n_pos,)."""
    has_new_rank = np.diff(positives.n_above[positives.by_rank], prepend=-1) != 0
    is_first_of_user = count_preceding_rows(positives) == 0
    return np.asarray(has_new_rank | is_first_of_user)


def count_better_positives(positives: RankedPositives) -> tuple[IntArray, IntArray]:
    """Return the numbers of the user's positives above and tied with each positive, (n_pos,) each.

    The ranking must be complete: positives beyond the end of a list have an arbitrary order.
    """
    if positives.sampling is not None and positives.sampling.order is not None:
        # Each positive has its own draw of candidates, so that `n_above` is not comparable between them.
        return ranks_within_group(positives.user, -positives.sampling.order)
    order = positives.by_rank
    position = count_preceding_rows(positives)  # equal in both orders, as both are sorted by user
    n_above = np.empty_like(position)
    if not positives.has_ties:
        n_above[order] = position
        return n_above, np.zeros_like(position)
    group_start = np.maximum.accumulate(np.where(_starts_tie_group(positives), np.arange(order.size), 0))
    n_above[order] = position[group_start]
    return n_above, count_tied_positives(positives) - 1


def compute_by_user(
    positives: RankedPositives,
    ranges: RankRanges,
    values: FloatArray,
    compute: Callable[[TieGroups, FloatArray], FloatArray],
) -> FloatArray:
    """Return the result of each user, (n_users,), by calling `compute` for each bucket of users.

    `compute` gets the tie groups of the bucket and the values of its positives, (n_bucket, width), with 0 in
    the padding, and returns one number per user.
    """
    result = np.empty(positives.starts.size)
    for bucket in build_user_buckets(positives):
        result[bucket.users] = compute(find_tie_groups(ranges, bucket.rows), bucket.gather(values))
    return result


def find_tie_groups(ranges: RankRanges, rows: IntArray) -> TieGroups:
    """Return the tie groups of one bucket, from its `UserBucket.rows`."""
    is_positive = rows >= 0
    beyond_all_ranks = np.iinfo(np.int64).max // 4
    n_above = np.where(is_positive, ranges.n_above[rows], beyond_all_ranks)
    n_ranks = np.where(is_positive, ranges.n_ranks[rows], 1)
    column = np.broadcast_to(np.arange(rows.shape[1]), rows.shape)
    first_column = column
    last_column = column
    if (n_ranks > 1).any():
        starts = np.diff(n_above, axis=1, prepend=-1) != 0
        ends = np.ones_like(starts)
        ends[:, :-1] = starts[:, 1:]
        first_column = np.maximum.accumulate(np.where(starts, column, 0), axis=1)
        reversed_ends = np.where(ends, column, rows.shape[1])[:, ::-1]
        last_column = np.minimum.accumulate(reversed_ends, axis=1)[:, ::-1]
    return TieGroups(
        n_above=n_above,
        n_ranks=n_ranks,
        first_column=first_column,
        last_column=last_column,
        is_positive=is_positive,
    )


def sum_previous(values: FloatArray, column: IntArray) -> FloatArray:
    """Return the sum of the entries of each row before the given columns, in the shape of `column`."""
    return _take_previous(np.cumsum(values, axis=1), 0.0, column)


def multiply_previous(values: FloatArray, column: IntArray) -> FloatArray:
    """Return the product of the entries of each row before the given columns, in the shape of `column`."""
    return _take_previous(np.cumprod(values, axis=1), 1.0, column)


def _take_previous(cumulative: FloatArray, initial: float, column: IntArray) -> FloatArray:
    start = np.full((cumulative.shape[0], 1), initial)
    return np.take_along_axis(np.concatenate([start, cumulative], axis=1), column, axis=1)
