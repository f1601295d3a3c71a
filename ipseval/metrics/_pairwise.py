"""Average precision: a sum over pairs of positives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ipseval._types import FloatArray, IntArray, TieChoice, TieRule
from ipseval.metrics._base import (
    Definition,
    Kind,
    buckets,
    check_depth,
    check_unbiased_ties,
    scaled_weights,
    tie_rule,
)
from ipseval.metrics._card import Labelled
from ipseval.metrics._ties import Prefix, Table, before, by_bucket, harmonic, places, table
from ipseval.ranking import RankedPositives


@dataclass(frozen=True, repr=False)
class AveragePrecision(Labelled):
    """Σ_{i∈S, r_i≤k} prec(r_i) / min(s, k), prec(r) the share of relevant items among the first r.

    As a sum over pairs: prec(r_i) = (1 + #{j ∈ S above i}) / r_i. The unbiased form gives the item itself one
    factor ŷ_i and each pair ŷ_i ŷ_j: Σ_i (ŷ_i/r_i)(1 + Σ_{j above i} ŷ_j) / min(s, k).
    """

    label: str = "ap"
    cutoff: int | None = None

    kind: Kind = field(default="pairwise", init=False)
    default_ties: TieRule = field(default="expected", init=False)
    needs_n_relevant: bool = field(default=True, init=False)
    needs_independence: bool = field(default=True, init=False)
    definition: Definition = field(
        default=Definition(
            formula="Σ_{i∈S, r_i≤k} prec(r_i) / min(s, k)",
            denominator="min(s, k); s without a cutoff",
            plug_in="Σ_i (w̃_i/r_i)(1 + Σ_{j above i} w̃_j) / min(m, k), Σw̃ = m = |S*_u|",
        ),
        init=False,
        repr=False,
    )

    def user_values(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return the AP of each user with positives, weights taking the place of relevance."""
        return self._pairs(ranked, scaled_weights(ranked, weights), ties) / self._ideal(ranked.counts)

    def unbiased(
        self,
        ranked: RankedPositives,
        inverse: FloatArray,
        n_relevant: FloatArray | None,
        *,
        ties: TieChoice = "default",
    ) -> FloatArray:
        """Return Σ_i (ŷ_i/r_i)(1 + Σ_{j above i} ŷ_j) / min(s_u, k)."""
        check_unbiased_ties(self, ranked, ties)
        assert n_relevant is not None
        return self._pairs(ranked, inverse, ties) / self._ideal(n_relevant)

    def _ideal(self, n_relevant: FloatArray | IntArray) -> FloatArray:
        bound = np.inf if self.cutoff is None else self.cutoff
        return np.minimum(np.asarray(n_relevant, dtype=np.float64), bound)

    def _pairs(self, ranked: RankedPositives, relevance: FloatArray, ties: TieChoice) -> FloatArray:
        """Return Σ_i y_i [A_i (1 + Σ_{j above i} y_j) + B_i Σ_{j tied with i} y_j] of each user.

        A_i = E[1{r_i≤k}/r_i] and B_i = E[1{r_i≤k, r_j<r_i}/r_i] for a j in the same tie group.
        """
        check_depth(self, ranked)
        rule = tie_rule(self, ties)
        above, size = places(ranked, rule)
        depth = int((above + size).max(initial=1))
        h = harmonic(depth if self.cutoff is None else min(depth, self.cutoff))
        result = np.empty(ranked.starts.size)
        for members, rows in buckets(ranked):
            ties_here = table(above, size, rows)
            y = by_bucket(relevance, rows)
            single, pair = (self._mean_terms if rule == "mean" else self._expected_terms)(ties_here, h)
            over = before(y, ties_here.first)
            tied = before(y, ties_here.last + 1) - over - y
            terms = y * (single * (1 + over) + pair * np.where(ties_here.group_count > 1, tied, 0.0))
            result[members] = terms.sum(axis=1)
        return result

    def _expected_terms(self, ties: Table, h: Prefix) -> tuple[FloatArray, FloatArray]:
        depth = h.high.size - 1
        low, high = np.minimum(ties.above, depth), np.minimum(ties.above + ties.size, depth)
        span = h.between(low, high)
        single = span / ties.size
        # Σ_p (p − 1)/(above + p) over the places p inside the cutoff = count − (above + 1) Σ_p 1/(above + p).
        count = (high - low).astype(np.float64)
        pairs_of_places = np.maximum(ties.size * (ties.size - 1), 1)
        pair = np.where(ties.size > 1, (count - (low + 1) * span) / pairs_of_places, 0.0)
        return single, pair

    def _mean_terms(self, ties: Table, h: Prefix) -> tuple[FloatArray, FloatArray]:
        rank = ties.above + (ties.size + 1) / 2
        inside = ties.is_real if self.cutoff is None else ties.is_real & (rank <= self.cutoff)
        single = np.where(inside, 1 / rank, 0.0)
        return single, single / 2
