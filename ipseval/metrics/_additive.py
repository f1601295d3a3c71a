"""Additive metrics: a sum or mean over positives of a contribution c(r) of the rank alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ipseval._base.types import FloatArray, IntArray, TieChoice, TieRule
from ipseval.errors import InputError
from ipseval.metrics._base import Metric, Parameter, cached, one_of, simple_rank
from ipseval.metrics._ties import Prefix, places
from ipseval.ranking import RankedPositives

Gain = Literal["binary", "linear", "exponential"]
TABLE = 4  # positives per rank from which on values are read off a table
GAIN = Parameter("binary", one_of("binary", "linear", "exponential"), "1, relevance, or 2^relevance − 1")


@dataclass(frozen=True, repr=False)
class AdditiveMetric(Metric):
    """(1/s) Σ c(r_i) for kind "mean", Σ c(r_i) for kind "sum", over the positives of a user.

    A subclass sets `name`, `kind` and `definition`, and defines the contribution c as
    `_curve(rank, n_candidates)`, or `_contributions` when c is no function of the rank. `needs_n_relevant` is
    True for means. Values outside [0, 1] need their `value_range`.

    Attributes
    ----------
    reads_n : bool
        Whether c(r) depends on the number of candidates, so that ties are averaged for each number apart.
    """

    needs_n_relevant: ClassVar[bool] = True
    reads_n: ClassVar[bool] = False

    def contributions(self, ranked: RankedPositives, *, ties: TieChoice = "default") -> FloatArray:
        """Return the contribution of each positive under the tie rule, (n_pos,)."""
        rule = self._rule(ranked, ties)
        return cached(ranked, (self, rule), lambda: self._contributions(ranked, rule))

    def _contributions(self, ranked: RankedPositives, rule: TieRule) -> FloatArray:
        return over_ties(self.at_rank, ranked, rule, self.cutoff, reads_n=self.reads_n)

    def _user_values(self, ranked: RankedPositives, weights: FloatArray | None, rule: TieRule) -> FloatArray:
        mean = ranked.mean_by_user(self.contributions(ranked, ties=rule), weights)
        return mean if self.kind == "mean" else mean * ranked.counts

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        total = ranked.sum_by_user(self.contributions(ranked, ties=rule) * inverse)
        return total / n_relevant if self.kind == "mean" else total


def over_ties(
    at_rank: Callable[[FloatArray, IntArray], FloatArray],
    ranked: RankedPositives,
    rule: TieRule,
    cutoff: int | None,
    *,
    reads_n: bool = False,
) -> FloatArray:
    """Return c of each positive under a tie rule, (n_pos,): at the mean rank, or the mean over its places."""
    n = ranked.n_candidates
    if not ranked.has_ties:
        known = _by_table(at_rank, ranked, cutoff)
        return at_rank(simple_rank(ranked, "mean"), n) if known is None else known
    if rule == "mean":
        return at_rank(simple_rank(ranked, "mean"), n)
    above, size = places(ranked, rule)
    value = np.asarray(at_rank(above + 1.0, n), dtype=np.float64)
    tied = size > 1
    # The expectation over random tie breaking: a difference of prefix sums of c.
    for length in np.unique(n[tied]) if reads_n else n[tied][:1]:
        rows = np.flatnonzero(tied & (n == length) if reads_n else tied)
        last = int((above[rows] + size[rows]).max())
        depth = np.arange(1.0, (last if cutoff is None else min(last, cutoff)) + 1)
        prefix = Prefix.of(at_rank(depth, np.full(depth.size, length)))
        value[rows] = prefix.between(above[rows], above[rows] + size[rows]) / size[rows]
    return value


def _by_table(
    at_rank: Callable[[FloatArray, IntArray], FloatArray], ranked: RankedPositives, cutoff: int | None
) -> FloatArray | None:
    """Return c of positives without ties from a table by rank; None: it reads n, or would be long."""
    if "extremes" not in ranked.derived:
        n = ranked.n_candidates
        ranked.derived["extremes"] = (
            int(ranked.n_above.max(initial=-1)) + 1,
            n.min(initial=1),
            n.max(initial=1),
        )
    most, *sizes = ranked.derived["extremes"]
    most = most if cutoff is None else min(most, cutoff + 1)
    if TABLE * most > len(ranked):
        return None
    rank = np.arange(1.0, most + 1)
    few, many = (at_rank(rank, np.full(most, size)) for size in sizes)
    if not np.array_equal(few, many, equal_nan=True):
        return None
    return np.asarray(many.take(ranked.n_above, mode="clip"), dtype=np.float64)


def log_discount(rank: FloatArray, n_candidates: FloatArray | None = None) -> FloatArray:
    """Return 1/log2(1 + r)."""
    return 1 / np.log2(1 + rank)


def inside(rank: FloatArray) -> FloatArray:
    """Return 1 for every rank: what a positive inside the cutoff counts."""
    return np.ones_like(rank)


def ungraded(metric: Metric, gain: str, value: FloatArray) -> FloatArray:
    """Return `value`, that of one relevant item; graded gains do not tell its grade and are refused."""
    if gain != "binary":
        raise InputError(f"{metric.label} depends on the grade of the relevant item; use gain='binary'.")
    return value


def gains(ranked: RankedPositives, gain: str, label: str) -> FloatArray:
    """Return the gain of each positive, (n_pos,): its graded relevance, or 2^relevance − 1."""
    if ranked.gain is None:
        raise InputError(
            f"{label} needs graded relevance, but the test interactions have no value; "
            "name the column with value= when the split is made."
        )
    return ranked.gain if gain == "linear" else np.exp2(ranked.gain) - 1
