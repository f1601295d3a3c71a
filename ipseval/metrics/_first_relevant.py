"""Metrics of the best relevant item: hit rate and reciprocal rank."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ipseval.metrics._ties import (
    Table,
    before,
    mean_products,
    mean_reciprocal,
    miss_probability,
    of_lists,
    places,
)
from ipseval.metrics.base import Definition, Metric
from ipseval.ranking import RankedPositives
from ipseval.utils.types import FloatArray, IntArray, TieRule


@dataclass(frozen=True, repr=False)
class FirstRelevant(Metric):
    """A multilinear function of relevance, which is unbiased with 1/P in the place of relevance."""

    kind = "list"
    needs_independence = True

    def _user_values(self, ranked: RankedPositives, weights: FloatArray | None, rule: TieRule) -> FloatArray:
        return self._unbiased(ranked, np.ones(len(ranked)), None, rule)  # as if every P were 1

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        return of_lists(ranked, places(ranked, rule), inverse, partial(self._in_lists, rule))

    @abstractmethod
    def _in_lists(self, rule: TieRule, ties: Table, y: FloatArray) -> FloatArray:
        """Return the value of each user of a bucket from the relevance y of its positives."""


@dataclass(frozen=True, repr=False)
class Hit(FirstRelevant):
    """1{min r ≤ k}: whether any relevant item is among the first k.

    Weights act between users only. Unbiased form (multilinear in the relevance, observations independent):
    1 − Π_{r_i≤k} (1 − ŷ_i).
    """

    name = "hit"
    aliases = ("hit_rate", "hr", "success")
    summary = "whether any relevant item is in the first k"
    takes_cutoff = "required"
    definition = Definition("1{min_{i∈S} r_i ≤ k}", "none", plug_in="the value without weights")

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return np.ones_like(rank)

    def _in_lists(self, rule: TieRule, ties: Table, y: FloatArray) -> FloatArray:
        assert self.cutoff is not None
        miss, above, size = 1 - y, ties.above, ties.size
        if rule == "mean":
            above, size = above + size // 2, np.ones_like(size)  # the mean rank, rounded up
        surely = above + size <= self.cutoff
        missed = np.where(surely, miss, 1.0).prod(axis=1)
        partly = ~surely & (above < self.cutoff)
        users = np.flatnonzero(partly.any(axis=1))
        if users.size:
            column = partly[users].argmax(axis=1)[:, None]
            start = np.take_along_axis(above[users], column, axis=1)[:, 0]
            total = np.take_along_axis(size[users], column, axis=1)[:, 0]
            missed[users] *= miss_probability(miss[users], partly[users], self.cutoff - start, total)
        return np.asarray(1 - missed)


@dataclass(frozen=True, repr=False)
class ReciprocalRank(FirstRelevant):
    """1/min r, 0 beyond k.

    Weights act between users only. Unbiased form (observations independent): Σ_i (ŷ_i/r_i) Π_{j above i}
    (1 − ŷ_j).
    """

    name = "rr"
    aliases = ("mrr", "reciprocal_rank")
    summary = "reciprocal rank of the best relevant item"
    definition = Definition("1/min_{i∈S} r_i; 0 beyond k", "none", "1/r", plug_in="the value without weights")

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return 1 / rank

    def _in_lists(self, rule: TieRule, ties: Table, y: FloatArray) -> FloatArray:
        miss, column = 1 - y, np.arange(y.shape[1])
        if rule == "mean":
            # One shared rank per tie group: the order inside it does not matter for the product form.
            reach = before(miss, np.broadcast_to(column, y.shape), product=True)
            value = np.where(ties.is_real, self.at_rank(ties.above + (ties.size + 1) / 2, np.nan), 0.0)
            return np.asarray((reach * y * value).sum(axis=1))
        reach = before(miss, ties.first, product=True)
        opens = ties.is_real & (ties.first == column)
        gained = np.zeros(y.shape)
        alone = opens & (ties.size == 1)
        gained[alone] = (y * self.at_rank(ties.above + 1.0, np.nan))[alone]
        user, start = np.nonzero(opens & (ties.size > 1))
        if user.size:
            gained[user, start] = self._tied_gain(ties, miss, user, start)
        return np.asarray((reach * gained).sum(axis=1))

    def _tied_gain(self, group: Table, miss: FloatArray, user: IntArray, start: IntArray) -> FloatArray:
        """Return Σ_l μ_l (D_{l−1} − D_l) of each tie group, μ_l = E[c(l-th place)] of a random g-subset."""
        # D_l is the mean of Π (1 − y) over l of the positives: which positive takes which place is
        # independent.
        count = group.last[user, start] - start + 1
        column = start[:, None] + np.arange(int(count.max()))
        is_member = np.arange(column.shape[1]) < count[:, None]
        miss_here = miss[user[:, None], np.minimum(column, miss.shape[1] - 1)]
        above, size = group.above[user, start], group.size[user, start]
        deepest = size if self.cutoff is None else np.clip(self.cutoff - above, 0, size)
        most = min(column.shape[1], int(deepest.max()))  # the l-th place is l or later
        means = mean_products(miss_here, is_member, most)
        drop = np.where(is_member[:, :most], means[:, :-1] - means[:, 1:], 0.0)
        row, level = np.nonzero(drop)
        offset = above[row, None].astype(np.float64)
        place = mean_reciprocal(offset, size[row], count[row], level + 1, deepest[row])[:, 0]
        return np.asarray(np.bincount(row, drop[row, level] * place, minlength=user.size), dtype=np.float64)
