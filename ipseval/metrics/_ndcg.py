"""NDCG: discounted gain divided by that of the best possible list."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ipseval._base.types import FloatArray, TieRule
from ipseval.errors import InputError
from ipseval.metrics._additive import GAIN, Gain, log_discount
from ipseval.metrics._base import Definition, buckets
from ipseval.metrics._ideal_list import ArrangedMetric
from ipseval.metrics._ties import by_bucket
from ipseval.ranking import RankedPositives

CELLS = 8_000_000
MOST_LEVELS = 4_000


@dataclass(frozen=True, repr=False)
class Ndcg(ArrangedMetric):
    """dcg@k / ideal dcg@k, the ideal list holding min(s, k) relevant items (or the largest gains).

    NaN for a user whose gains are all 0. Unbiased form for binary relevance (observations independent):
    Σ_i ŷ_i d(r_i) H_i, where H_i is the multilinear extension of 1/IDCG(1 + number of other relevant items).
    """

    gain: Gain = "binary"

    name = "ndcg"
    summary = "dcg over the best possible dcg"
    relative = True
    needs_independence = True
    parameters = MappingProxyType({"gain": GAIN})
    definition = Definition(
        formula="dcg@k / idcg@k",
        denominator="idcg@k = Σ_{r≤min(s,k)} 1/log2(1 + r); graded: gains sorted, largest first",
        discount="1/log2(1 + r)",
        undefined="users without positives, and users whose gains are all 0",
        plug_in="Σwd over Σwd with weights in descending order at ranks 1, 2, …; graded: weights times gains",
    )

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return log_discount(rank)

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        if self.gain != "binary":
            raise InputError(f"{self.label} has no unbiased form for graded gains; ask for aoa or snips.")
        value = inverse * self._plain_contributions(ranked, rule)
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
            inverse_ideal = 1 / self._best_table(levels)[1:]
            step = max(1, CELLS // (levels * (width + 1)))
            for start in range(0, members.size, step):
                part = slice(start, start + step)
                others = _expected_without_each(by_bucket(inverse, rows[part]), inverse_ideal)
                result[members[part]] = (by_bucket(value, rows[part]) * others).sum(axis=1)
        return result


def _expected_without_each(y: FloatArray, h: FloatArray) -> FloatArray:
    """Return f_{−i} = Σ_t h(t) [x^t] Π_{j≠i} (1 − y_j + y_j x) of every entry of each row, as y."""
    # It is E h(number of the other relevant items) if y were chances. The identity is multilinear, so with y
    # = O/P it is unbiased for h at the true number. Prefix products times suffix functionals: nothing is
    # divided out.
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
