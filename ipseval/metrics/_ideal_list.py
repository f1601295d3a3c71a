"""Metrics that compare a list with its ideal order: ndcg, precision and rbp.

Their numerators are sums of a function of the rank, to which `average_over_ties` in `_ties.py` applies the
tie rule. The ideal list has the positives at ranks 1, 2, …, so that it has no ties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np

from ipseval.errors import InputError
from ipseval.metrics._ties import average_over_ties
from ipseval.metrics._user_buckets import build_user_buckets, count_preceding_rows
from ipseval.metrics.additive import compute_log_discount
from ipseval.metrics.base import (
    MAX_QUADRATIC_SIZE,
    Definition,
    Metric,
    Parameter,
    build_choice_parser,
    cache_last,
)
from ipseval.metrics.gains import GAIN, Gain, compute_gains
from ipseval.ranking import RankedPositives
from ipseval.utils.types import FloatArray, IntArray, TieChoice, TieRule, as_readonly


@dataclass(frozen=True, repr=False)
class IdealListMetric(Metric):
    """A sum Σ w_i g_i c(r_i) over its value for the ideal list: w_i g_i in descending order at ranks 1, …, s.

    The ratio is at most 1, except under the tie rule "mean": positives that share a mean rank above a cut-off
    can all count as hits. A metric that is not relative is the ratio times Σ_{j≤s} c(j), so that equal
    weights give Σ c(r_i). The function c, which is `_value_at_rank`, must not increase with the rank.

    Attributes
    ----------
    is_relative : bool
        Whether the value is the ratio itself.
    gain : {"binary", "linear", "exponential"}
        The gains g_i of the relevant items; 1 for "binary".
    """

    kind = "list"
    is_relative: ClassVar[bool] = False

    @property
    def adds_up(self) -> bool:
        """Whether the value for a known S is a sum over S, which a relative metric is not."""
        return not self.is_relative

    def rank_contributions(
        self, positives: RankedPositives, *, ties: TieChoice = "default"
    ) -> FloatArray | None:
        """Return c(r) of each row, (n_rows,); None for a relative metric."""
        if not self.adds_up:
            return None
        return self._compute_discounts(positives, self._resolve_tie_rule(positives, ties))

    def weighted_contributions(
        self, positives: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return c (n_pos,) with the value Σwc/Σw: the gain of a positive over the gain of the ideal list."""
        discount = self._compute_discounts(positives, self._resolve_tie_rule(positives, ties))
        w = weights
        if w is None:
            w = np.ones(len(positives))
        gain = self._compute_weighted_gains(positives, weights)
        if gain is None:
            gain = w
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = positives.sum_by_user(w) / self._compute_ideal_value(positives, gain)
        if not self.is_relative:
            scale = scale * self._sum_ideal_discounts(positives.counts)
        scale_of_positive = np.where(np.isfinite(scale), scale, np.nan)[positives.segment]
        return scale_of_positive * (gain / w) * discount

    def _user_values(
        self, positives: RankedPositives, weights: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        discount = self._compute_discounts(positives, rule)
        gain = self._compute_weighted_gains(positives, weights)
        if gain is None:
            total = positives.sum_by_user(discount)
            if self.is_relative:
                return total / self._sum_ideal_discounts(positives.counts)
            return total
        with np.errstate(invalid="ignore", divide="ignore"):
            share = positives.sum_by_user(gain * discount) / self._compute_ideal_value(positives, gain)
        if self.is_relative:
            return share
        return share * self._sum_ideal_discounts(positives.counts)

    def _compute_discounts(self, positives: RankedPositives, rule: TieRule) -> FloatArray:
        """Return c of each positive under the tie rule, without its gain, (n_pos,)."""
        return cache_last(
            positives,
            (self, rule),
            lambda: average_over_ties(self.value_at_rank, positives, rule, self.cutoff),
        )

    def _compute_weighted_gains(
        self, positives: RankedPositives, weights: FloatArray | None
    ) -> FloatArray | None:
        """Return w_i g_i of each positive, (n_pos,); None where all are 1."""
        gain_kind = getattr(self, "gain", "binary")
        if gain_kind == "binary":
            return weights
        gain = compute_gains(positives, gain_kind, self.label)
        if weights is None:
            return gain
        return weights * gain

    def _compute_ideal_value(self, positives: RankedPositives, gain: FloatArray) -> FloatArray:
        """Return Σ g c of the ideal list of each user, for weighted gains g (n_pos,)."""
        discount = self._compute_first_discounts(int(positives.counts.max(initial=0)))
        return positives.sum_by_user(
            sort_descending(positives, gain) * discount[count_preceding_rows(positives)]
        )

    def _sum_ideal_discounts(self, counts: IntArray) -> FloatArray:
        """Return Σ_{j≤s} c(j) for each number s of relevant items."""
        return self._accumulate_discounts(int(counts.max(initial=0)))[counts]

    def _accumulate_discounts(self, max_count: int) -> FloatArray:
        """Return Σ_{j≤s} c(j) for s = 0 … `max_count`."""
        return np.concatenate([[0.0], np.cumsum(self._compute_first_discounts(max_count))])

    def _compute_first_discounts(self, max_rank: int) -> FloatArray:
        """Return c(1) … c(max_rank)."""
        return self.value_at_rank(np.arange(1.0, max_rank + 1), np.nan)


def sort_descending(positives: RankedPositives, values: FloatArray) -> FloatArray:
    """Return values of the positives (n_pos,), sorted within each user from the largest to the smallest."""
    if not values.size or values.min() == values.max():
        return values
    # The weights of a sample are read-only, and every metric of an evaluation sorts the same array.
    is_cacheable = not values.flags.writeable
    if is_cacheable and positives.cache.get("largest first", (None,))[0] is values:
        cached_values: FloatArray = positives.cache["largest first"][1]
        return cached_values
    users_by_count = np.argsort(positives.counts, kind="stable")
    distinct_counts, first_users = np.unique(positives.counts[users_by_count], return_index=True)
    user_groups = np.split(users_by_count, first_users[1:])
    sorted_values = np.empty_like(values)
    for count, users in zip(distinct_counts, user_groups, strict=True):
        rows = positives.starts[users, None] + np.arange(count)
        sorted_values[rows] = np.sort(values[rows], axis=1)[:, ::-1]
    if is_cacheable:
        positives.cache["largest first"] = (values, as_readonly(sorted_values))
    return sorted_values


MAX_CELLS = 8_000_000  # entries of the array of suffixes that is computed at once


@dataclass(frozen=True, repr=False)
class Ndcg(IdealListMetric):
    """Normalised discounted cumulative gain: dcg@k / ideal dcg@k.

    The ideal list has min(s, k) relevant items, or the largest gains. NaN for a user whose gains are all 0.
    Unbiased form for binary relevance (observations independent): Σ_i ŷ_i d(r_i) H_i, where H_i is the
    multilinear extension of 1/IDCG(1 + number of other relevant items).
    """

    gain: Gain = "binary"

    name = "ndcg"
    summary = "dcg over the best possible dcg"
    is_relative = True
    needs_independence = True
    parameters = MappingProxyType({"gain": GAIN})
    definition = Definition(
        formula="dcg@k / idcg@k",
        denominator="idcg@k = Σ_{r≤min(s,k)} 1/log2(1 + r); graded: gains sorted, largest first",
        discount="1/log2(1 + r)",
        undefined="users without positives, and users whose gains are all 0",
        plug_in="Σwd over Σwd with weights in descending order at ranks 1, 2, …; graded: weights times gains",
    )

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return compute_log_discount(rank)

    def _unbiased(
        self, positives: RankedPositives, inverse: FloatArray, n_relevant: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        if self.gain != "binary":
            raise InputError(f"{self.label} has no unbiased form for graded gains; ask for aoa or snips.")
        value = inverse * self._compute_discounts(positives, rule)
        result = np.empty(positives.starts.size)
        for bucket in build_user_buckets(positives):
            width = bucket.rows.shape[1]
            inverse_ideal = 1 / self._accumulate_discounts(self._max_ideal_size(width))[1:]
            step = max(1, MAX_CELLS // (inverse_ideal.size * (width + 1)))
            bucket_inverse = bucket.gather(inverse)
            bucket_value = bucket.gather(value)
            for start in range(0, bucket.users.size, step):
                part = slice(start, start + step)
                inverse_ideal_means = _leave_one_out_expectations(bucket_inverse[part], inverse_ideal)
                result[bucket.users[part]] = (bucket_value[part] * inverse_ideal_means).sum(axis=1)
        return result

    def _max_ideal_size(self, n_positives: int) -> int:
        """Return the largest number of relevant items in an ideal list of users with so many positives."""
        # The ideal list is full from k relevant items on.
        size = n_positives
        if self.cutoff is not None:
            size = min(n_positives, self.cutoff)
        if size > MAX_QUADRATIC_SIZE:
            raise InputError(
                f"the unbiased {self.label} of a user with {n_positives:,} positives takes memory and time "
                f"of the square of that; ask for a cutoff of at most {MAX_QUADRATIC_SIZE:,}, or for mean_dcg."
            )
        return size


def _leave_one_out_expectations(y: FloatArray, h: FloatArray) -> FloatArray:
    """Return f_{−i} = Σ_t h(t) [x^t] Π_{j≠i} (1 − y_j + y_j x) of every entry of each row, as y.

    If y were probabilities, this is the mean of h(number of the other relevant items). The identity is
    multilinear, so that with y = O/P it is unbiased for h at the true number. h(t) is constant from the last
    entry of `h` on.
    """
    # Products of the factors before i, times functionals of the factors after i: nothing is divided out.
    n, width = y.shape
    n_levels = h.size
    suffix = np.empty((width + 1, n, n_levels))
    suffix[width] = h
    for i in range(width - 1, -1, -1):
        suffix[i, :, :-1] = (1 - y[:, [i]]) * suffix[i + 1, :, :-1] + y[:, [i]] * suffix[i + 1, :, 1:]
        suffix[i, :, -1] = h[-1]
    prefix = np.zeros((n, n_levels))
    prefix[:, 0] = 1.0
    result = np.empty_like(y)
    for i in range(width):
        result[:, i] = (prefix * suffix[i + 1]).sum(axis=1)
        next_prefix = prefix * (1 - y[:, [i]])
        next_prefix[:, 1:] += prefix[:, :-1] * y[:, [i]]
        next_prefix[:, -1] += prefix[:, -1] * y[:, i]
        prefix = next_prefix
    return result


DENOMINATOR = Parameter(
    "k", build_choice_parser("k", "min"), "k, or min(k, s): a perfect list then scores 1 for everyone"
)


@dataclass(frozen=True, repr=False)
class Precision(IdealListMetric):
    """Precision: Σ 1{r_i ≤ k} / k, or Σ 1{r_i ≤ k} / min(k, s) with denominator "min"."""

    denominator: Literal["k", "min"] = "k"

    name = "precision"
    aliases = ("p",)
    summary = "share of the first k that is relevant"
    takes_cutoff = "required"
    parameters = MappingProxyType({"denominator": DENOMINATOR})

    @property
    def is_relative(self) -> bool:  # type: ignore[override]  # follows from the denominator
        """Whether the value is divided by the precision of the ideal list, min(k, s)/k."""
        return self.denominator == "min"

    @property
    def needs_n_relevant(self) -> bool:  # type: ignore[override]
        """Whether the unbiased form divides by min(k, s)."""
        return self.denominator == "min"

    @property
    def definition(self) -> Definition:  # type: ignore[override]
        """Formula and conventions of the metric, which depend on the denominator."""
        weighted = "Σ_{r_i≤k} w_i over the sum of the min(k, m) largest weights, m = |S*_u|"
        if self.denominator == "min":
            return Definition("Σ_{i∈S} 1{r_i ≤ k} / min(k, s)", "min(k, s)", plug_in=weighted)
        return Definition(
            "Σ_{i∈S} 1{r_i ≤ k} / k", "k, also for shorter lists", plug_in=f"{weighted}, times min(k, m)/k"
        )

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        if self.is_relative:
            return np.ones_like(rank)
        assert self.cutoff is not None
        return np.full_like(rank, 1 / self.cutoff)

    def _unbiased(
        self, positives: RankedPositives, inverse: FloatArray, n_relevant: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        total = positives.sum_by_user(inverse * self._compute_discounts(positives, rule))
        if not self.is_relative:
            return total
        assert self.cutoff is not None
        assert n_relevant is not None
        return np.asarray(total / np.minimum(n_relevant, self.cutoff))


@dataclass(frozen=True, repr=False)
class AdjustedRecall(Precision):
    """Adjusted recall: Σ 1{r_i ≤ k} / min(k, s), so that a perfect list scores 1; precision over its maximum."""

    denominator: Literal["k", "min"] = field(default="min", init=False)

    name = "adjusted_recall"
    aliases = ("calibrated_recall",)
    summary = "share of the possible hits in the first k"
    parameters = MappingProxyType({})


def _parse_probability(text: str) -> float:
    """Return the number in (0, 1) that a label names."""
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{text!r} is not a number") from None
    if not 0 < value < 1:
        raise InputError(f"{text} is not in (0, 1)")
    return value


@dataclass(frozen=True, repr=False)
class Rbp(IdealListMetric):
    """Rank-biased precision: (1 − p) Σ p^(r_i − 1) (Moffat & Zobel 2008, doi 10.1145/1416950.1416952)."""

    p: float = 0.8

    name = "rbp"
    summary = "rank-biased precision"
    parameters = MappingProxyType(
        {"p": Parameter(0.8, _parse_probability, "chance to go on to the next item", is_always_printed=True)}
    )
    definition = Definition(
        "(1 − p) Σ_{i∈S} p^(r_i − 1)",
        "none",
        "(1 − p) p^(r − 1)",
        plug_in="Σwc over Σwc with weights in descending order at ranks 1 … m, times Σ_{r≤m} c(r)",
    )

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return np.asarray((1 - self.p) * self.p ** (rank - 1))

    def _unbiased(
        self, positives: RankedPositives, inverse: FloatArray, n_relevant: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        return positives.sum_by_user(inverse * self._compute_discounts(positives, rule))
