"""Additive metrics: a sum or mean over positives of a contribution c(r) of the rank alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np

from ipseval.errors import InputError
from ipseval.metrics._ties import Prefix, places
from ipseval.metrics.base import Definition, Metric, cached, mean_rank
from ipseval.metrics.gains import GAIN, Gain, compute_gains
from ipseval.ranking import RankedPositives
from ipseval.utils.types import FloatArray, IntArray, TieChoice, TieRule

TOTAL = "|S*_u| Σwc/Σw per user; one normaliser for all users in the global and pooled forms"


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
    if rule == "mean" or not ranked.has_ties:
        return at_rank(mean_rank(ranked), n)
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


def log_discount(rank: FloatArray) -> FloatArray:
    """Return 1/log2(1 + r)."""
    return 1 / np.log2(1 + rank)


def share_below(rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
    """Return (n − r)/(n − 1), the share of the other candidates below; NaN where there is none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n_candidates > 1, (n_candidates - rank) / (n_candidates - 1), np.nan)


@dataclass(frozen=True, repr=False)
class Recall(AdditiveMetric):
    """Σ 1{r_i ≤ k} / s."""

    name = "recall"
    aliases: ClassVar[tuple[str, ...]] = ("r",)
    summary = "share of relevant items in the first k"
    kind = "mean"
    takes_cutoff = "required"
    definition = Definition("Σ_{i∈S} 1{r_i ≤ k} / s", "s, never min(s, k)")

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return np.ones_like(rank)


@dataclass(frozen=True, repr=False)
class Hits(Recall):
    """Σ 1{r_i ≤ k} / s of queries with one target each: recall@k of link prediction, pooled over targets."""

    name = "hits"
    aliases = ()
    summary = "recall@k of queries with one target (link prediction)"
    definition = Definition("Σ_{i∈S} 1{r_i ≤ k} / s (queries with one target)", "s")


@dataclass(frozen=True, repr=False)
class Cg(AdditiveMetric):
    """Σ gain_i over the relevant items in the first k; the number of them where gains are binary."""

    gain: Gain = "binary"

    name = "cg"
    summary = "cumulative gain"
    kind = "sum"
    takes_cutoff: ClassVar[Literal["required", "optional", "none"]] = "required"
    parameters = MappingProxyType({"gain": GAIN})
    needs_n_relevant = False
    value_range = (0.0, float("inf"))
    definition = Definition("Σ_{i∈S} gain_i 1{r_i ≤ k}", "none", plug_in=TOTAL)

    def at_rank(self, rank: FloatArray, n_candidates: FloatArray | IntArray | float) -> FloatArray:
        """Return the value for one relevant item at rank r; graded gains do not tell its grade: refused."""
        if self.gain != "binary":
            raise InputError(f"{self.label} depends on the grade of the relevant item; use gain='binary'.")
        return super().at_rank(rank, n_candidates)

    def _contributions(self, ranked: RankedPositives, rule: TieRule) -> FloatArray:
        value = over_ties(super().at_rank, ranked, rule, self.cutoff)
        return value if self.gain == "binary" else value * compute_gains(ranked, self.gain, self.label)

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return np.ones_like(rank)


@dataclass(frozen=True, repr=False)
class Dcg(Cg):
    """Σ gain_i / log2(1 + r_i) over the relevant items in the first k."""

    name = "dcg"
    summary = "discounted cumulative gain"
    takes_cutoff = "optional"
    definition = Definition(
        "Σ_{i∈S} gain_i 1{r_i ≤ k} / log2(1 + r_i)", "none", "1/log2(1 + r)", plug_in=TOTAL
    )

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return log_discount(rank)


@dataclass(frozen=True, repr=False)
class MeanDcg(AdditiveMetric):
    """dcg@k / s."""

    name = "mean_dcg"
    summary = "mean discount over relevant items (Yang et al.)"
    kind = "mean"
    definition = Definition("Σ_{i∈S} 1{r_i ≤ k} / log2(1 + r_i) / s", "s", "1/log2(1 + r)")

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return log_discount(rank)


@dataclass(frozen=True, repr=False)
class Atop(AdditiveMetric):
    """Mean of (n − r)/(n − 1) over positives: the share of other candidates ranked below a positive.

    Affine in the rank, so every tie rule but "min" and "max" gives the same value. NaN for a user with a
    single candidate.
    """

    name = "atop"
    aliases = ("mean_percentile",)
    summary = "mean share of items below a relevant one"
    kind = "mean"
    takes_cutoff = "none"
    default_ties = "mean"
    linear_in_rank = True
    definition = Definition(
        formula="(1/s) Σ_{i∈S} (n − r_i)/(n − 1)",
        denominator="s, the number of relevant items; n, the number of candidates",
        undefined="users without positives, and users with one candidate",
    )

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return share_below(rank, n_candidates)

    def _contributions(self, ranked: RankedPositives, rule: TieRule) -> FloatArray:
        above, size = places(ranked, rule)
        return self.at_rank(above + (size + 1) / 2, ranked.n_candidates)
