"""Hit rate: whether any relevant item is in the first k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipseval._base.types import FloatArray, TieRule
from ipseval.metrics._additive import inside
from ipseval.metrics._base import Definition, Metric, buckets
from ipseval.metrics._ties import by_bucket, miss_probability, places, table
from ipseval.ranking import RankedPositives


@dataclass(frozen=True, repr=False)
class Hit(Metric):
    """1{min r ≤ k}: whether any relevant item is among the first k.

    Weights act between users only. Unbiased form (multilinear in the relevance, observations independent):
    1 − Π_{r_i≤k} (1 − ŷ_i).
    """

    name = "hit"
    aliases = ("hit_rate", "hr", "success")
    summary = "whether any relevant item is in the first k"
    kind = "list"
    takes_cutoff = "required"
    needs_independence = True
    definition = Definition("1{min_{i∈S} r_i ≤ k}", "none", plug_in="the value without weights")

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return inside(rank)

    def _user_values(self, ranked: RankedPositives, weights: FloatArray | None, rule: TieRule) -> FloatArray:
        return self._hits(ranked, np.ones(len(ranked)), rule)

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        return self._hits(ranked, inverse, rule)

    def _hits(self, ranked: RankedPositives, relevance: FloatArray, rule: TieRule) -> FloatArray:
        assert self.cutoff is not None
        above, size = places(ranked, rule)
        if rule == "mean":
            above, size = above + (size - 1) // 2 + (size - 1) % 2, np.ones_like(size)
        result = np.empty(ranked.starts.size)
        for members, rows in buckets(ranked):
            group = table(above, size, rows)
            miss = np.where(group.is_real, 1 - by_bucket(relevance, rows), 1.0)
            surely = group.above + group.size <= self.cutoff
            missed = np.where(surely, miss, 1.0).prod(axis=1)
            partly = ~surely & (group.above < self.cutoff)
            users = np.flatnonzero(partly.any(axis=1))
            if users.size:
                column = partly[users].argmax(axis=1)[:, None]
                start = np.take_along_axis(group.above[users], column, axis=1)[:, 0]
                total = np.take_along_axis(group.size[users], column, axis=1)[:, 0]
                missed[users] *= miss_probability(miss[users], partly[users], self.cutoff - start, total)
            result[members] = 1 - missed
        return result
