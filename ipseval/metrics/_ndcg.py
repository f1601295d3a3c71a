"""NDCG: discounted gain divided by that of the best possible list."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ipseval._types import FloatArray, IntArray, TieChoice, TieRule
from ipseval.errors import InputError
from ipseval.metrics._additive import Gain, gains, over_ties
from ipseval.metrics._base import (
    Definition,
    Kind,
    buckets,
    check_depth,
    check_representable,
    check_unbiased_ties,
    kept,
    tie_rule,
)
from ipseval.metrics._card import Labelled
from ipseval.metrics._ties import by_bucket
from ipseval.ranking import RankedPositives

CELLS = 8_000_000
MOST_LEVELS = 4_000


@dataclass(frozen=True, repr=False)
class Ndcg(Labelled):
    """dcg@k / ideal dcg@k, the ideal list holding min(s, k) relevant items (or the largest gains).

    NaN for a user whose gains are all 0. Unbiased form for binary relevance (observations independent):
    Σ_i ŷ_i d(r_i) H_i, where H_i is the multilinear extension of 1/IDCG(1 + number of other relevant items).
    """

    label: str = "ndcg"
    cutoff: int | None = None
    gain: Gain = "binary"

    kind: Kind = field(default="list", init=False)
    default_ties: TieRule = field(default="expected", init=False)
    needs_n_relevant: bool = field(default=False, init=False)
    needs_independence: bool = field(default=True, init=False)
    definition: Definition = field(
        default=Definition(
            formula="dcg@k / idcg@k",
            denominator="idcg@k = Σ_{r≤min(s,k)} 1/log2(1 + r); graded: gains sorted, largest first",
            discount="1/log2(1 + r)",
            undefined="users without positives, and users whose gains are all 0",
            plug_in="m (Σwd/Σw) / idcg@k(m), m = |S*_u|: weights scaled to the observed number",
        ),
        init=False,
        repr=False,
    )

    def user_values(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return the NDCG of each user with positives, weights taking the place of relevance."""
        value = kept(ranked, (self, ties), lambda: self._discounts(ranked, ties))
        if self.gain != "binary":
            value = value * gains(ranked, self.gain, self.label)
        if weights is None:
            total = ranked.sum_by_user(value)
        else:
            total = ranked.sum_by_user(value * weights) / ranked.sum_by_user(weights) * ranked.counts
        ideal = self._ideal(ranked)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(ideal > 0, total / ideal, np.nan)

    def unbiased(
        self,
        ranked: RankedPositives,
        inverse: FloatArray,
        n_relevant: FloatArray | None,
        *,
        ties: TieChoice = "default",
    ) -> FloatArray:
        """Return Σ_i ŷ_i d(r_i) H_i of each user; `n_relevant` is not used."""
        if self.gain != "binary":
            raise InputError(f"{self.label} has no unbiased form for graded gains; ask for aoa or snips.")
        check_unbiased_ties(self, ranked, ties)
        value = inverse * self._discounts(ranked, ties)
        result = np.empty(ranked.starts.size)
        for members, rows in buckets(ranked):
            width = rows.shape[1]
            # The ideal list is full from k relevant items on, so that no larger number need be told apart.
            levels = width if self.cutoff is None else min(width, self.cutoff)
            if levels > MOST_LEVELS:
                raise InputError(
                    f"the unbiased {self.label} of a user with {width:,} positives takes memory and time of "
                    f"the square of that; ask for a cutoff of at most {MOST_LEVELS:,}, or for mean_dcg."
                )
            inverse_ideal = 1 / self._ideal_table(levels)[1:]
            step = max(1, CELLS // (levels * (width + 1)))
            for start in range(0, members.size, step):
                part = slice(start, start + step)
                with np.errstate(over="ignore", invalid="ignore"):
                    others = _expected_without_each(by_bucket(inverse, rows[part]), inverse_ideal)
                    result[members[part]] = (by_bucket(value, rows[part]) * others).sum(axis=1)
        return check_representable(self, result)

    def _at_rank(self, rank: FloatArray) -> FloatArray:
        value = 1 / np.log2(1 + rank)
        return value if self.cutoff is None else np.where(rank <= self.cutoff, value, 0.0)

    def _discounts(self, ranked: RankedPositives, ties: TieChoice) -> FloatArray:
        check_depth(self, ranked)
        return over_ties(self._at_rank, ranked, tie_rule(self, ties), self.cutoff)

    def _ideal_table(self, most: int) -> FloatArray:
        """Return IDCG for 0 … `most` relevant items."""
        return np.concatenate([[0.0], np.cumsum(self._at_rank(np.arange(1.0, most + 1)))])

    def _ideal(self, ranked: RankedPositives) -> FloatArray:
        counts: IntArray = ranked.counts
        if self.gain == "binary":
            return self._ideal_table(int(counts.max(initial=0)))[counts]
        gain = gains(ranked, self.gain, self.label)
        order = np.lexsort((-gain, ranked.user))
        position = np.arange(len(ranked)) - ranked.starts[ranked.segment] + 1.0
        return ranked.sum_by_user(gain[order] * self._at_rank(position))


def _expected_without_each(y: FloatArray, h: FloatArray) -> FloatArray:
    """Return f_{−i} = Σ_t h(t) [x^t] Π_{j≠i} (1 − y_j + y_j x) for every entry of each row, same shape as y.

    That is E h(number of the other relevant items) if y were chances; by multilinearity the identity holds
    for any y, and with y = O/P it is unbiased for h at the true number. Prefix products times suffix
    functionals, so that nothing is divided out; the last level stands for "that many or more".
    """
    n, width = y.shape
    levels = h.size  # h(t) = h(levels − 1) beyond
    suffix = np.empty((width + 1, n, levels))
    suffix[width] = h
    for i in range(width - 1, -1, -1):
        suffix[i, :, :-1] = (1 - y[:, [i]]) * suffix[i + 1, :, :-1] + y[:, [i]] * suffix[i + 1, :, 1:]
        suffix[i, :, -1] = h[-1]
    prefix = np.zeros((n, levels))
    prefix[:, 0] = 1.0
    result = np.empty_like(y)
    for i in range(width):
        result[:, i] = (prefix * suffix[i + 1]).sum(axis=1)
        moved = prefix * (1 - y[:, [i]])
        moved[:, 1:] += prefix[:, :-1] * y[:, [i]]
        moved[:, -1] += prefix[:, -1] * y[:, i]
        prefix = moved
    return result
