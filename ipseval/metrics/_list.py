"""List metrics: NDCG, reciprocal rank and hit rate read a user's positives together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ipseval._types import FloatArray, IntArray, TieChoice, TieRule
from ipseval.metrics._base import (
    Definition,
    Kind,
    buckets,
    check_depth,
    check_representable,
    check_unbiased_ties,
    scaled_weights,
    tie_rule,
)
from ipseval.metrics._card import Labelled
from ipseval.metrics._places import reciprocal_places
from ipseval.metrics._ties import (
    Table,
    before,
    by_bucket,
    mean_products,
    miss_probability,
    places,
    table,
)
from ipseval.ranking import RankedPositives


@dataclass(frozen=True, repr=False)
class Hit(Labelled):
    """1{min r ≤ k}: whether any relevant item is among the first k.

    Unbiased form (multilinear in the relevance, observations independent): 1 − Π_{r_i≤k} (1 − ŷ_i).
    """

    label: str
    cutoff: int

    kind: Kind = field(default="list", init=False)
    default_ties: TieRule = field(default="expected", init=False)
    needs_n_relevant: bool = field(default=False, init=False)
    needs_independence: bool = field(default=True, init=False)
    definition: Definition = field(
        default=Definition(
            formula="1{min_{i∈S} r_i ≤ k}",
            denominator="none",
            plug_in="1 − Π_{r_i≤k} (1 − min(w̃_i, 1)), Σw̃ = |S*_u|",
        ),
        init=False,
        repr=False,
    )

    def user_values(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return whether each user has a hit; weights, cut at 1, act as chances of relevance."""
        return self._hits(ranked, np.minimum(scaled_weights(ranked, weights), 1.0), ties)

    def unbiased(
        self,
        ranked: RankedPositives,
        inverse: FloatArray,
        n_relevant: FloatArray | None,
        *,
        ties: TieChoice = "default",
    ) -> FloatArray:
        """Return 1 − Π_{r_i≤k} (1 − ŷ_i); `n_relevant` is not used."""
        check_unbiased_ties(self, ranked, ties)
        with np.errstate(over="ignore", invalid="ignore"):
            return check_representable(self, self._hits(ranked, inverse, ties))

    def _hits(self, ranked: RankedPositives, relevance: FloatArray, ties: TieChoice) -> FloatArray:
        check_depth(self, ranked)
        rule = tie_rule(self, ties)
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


@dataclass(frozen=True, repr=False)
class ReciprocalRank(Labelled):
    """1/min r: the reciprocal rank of the best relevant item (its mean over users is MRR).

    Unbiased form (observations independent): Σ_i (ŷ_i/r_i) Π_{j above i} (1 − ŷ_j).
    """

    label: str = "rr"
    cutoff: int | None = None

    kind: Kind = field(default="list", init=False)
    default_ties: TieRule = field(default="expected", init=False)
    needs_n_relevant: bool = field(default=False, init=False)
    needs_independence: bool = field(default=True, init=False)
    definition: Definition = field(
        default=Definition(
            formula="1/min_{i∈S} r_i; 0 beyond k",
            denominator="none",
            discount="1/r",
            plug_in="Σ_i (y_i/r_i) Π_{j above i} (1 − y_j), y = min(w̃, 1), Σw̃ = |S*_u|",
        ),
        init=False,
        repr=False,
    )

    def user_values(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return the reciprocal rank of each user; weights, cut at 1, act as chances of relevance."""
        return self._reciprocal(ranked, np.minimum(scaled_weights(ranked, weights), 1.0), ties)

    def unbiased(
        self,
        ranked: RankedPositives,
        inverse: FloatArray,
        n_relevant: FloatArray | None,
        *,
        ties: TieChoice = "default",
    ) -> FloatArray:
        """Return Σ_i (ŷ_i/r_i) Π_{j above i} (1 − ŷ_j); `n_relevant` is not used."""
        check_unbiased_ties(self, ranked, ties)
        with np.errstate(over="ignore", invalid="ignore"):
            return check_representable(self, self._reciprocal(ranked, inverse, ties))

    def _at_rank(self, rank: FloatArray) -> FloatArray:
        inside = np.isfinite(rank) if self.cutoff is None else rank <= self.cutoff
        return np.where(inside, 1 / rank, 0.0)

    def _reciprocal(self, ranked: RankedPositives, relevance: FloatArray, ties: TieChoice) -> FloatArray:
        check_depth(self, ranked)
        rule = tie_rule(self, ties)
        above, size = places(ranked, rule)
        result = np.empty(ranked.starts.size)
        for members, rows in buckets(ranked):
            group = table(above, size, rows)
            y = by_bucket(relevance, rows)
            miss = 1 - y
            column = np.arange(rows.shape[1])
            if rule == "mean":
                # One shared rank per tie group: the order inside it does not matter for the product form.
                reach = before(miss, np.broadcast_to(column, rows.shape), product=True)
                value = self._at_rank(np.where(group.is_real, group.above + (group.size + 1) / 2, np.inf))
                result[members] = (reach * y * value).sum(axis=1)
                continue
            reach = before(miss, group.first, product=True)
            opens = group.is_real & (group.first == column)
            gained = np.zeros(rows.shape)
            alone = opens & (group.size == 1)
            gained[alone] = (y * self._at_rank(group.above + 1.0))[alone]
            user, start = np.nonzero(opens & (group.size > 1))
            if user.size:
                gained[user, start] = self._tied_gain(group, miss, user, start)
            result[members] = (reach * gained).sum(axis=1)
        return result

    def _tied_gain(self, group: Table, miss: FloatArray, user: IntArray, start: IntArray) -> FloatArray:
        """Return Σ_l μ_l (D_{l−1} − D_l) of each tie group.

        The places of the g positives are a random g-subset of the group's places, independent of which
        positive takes which: μ_l = E[c(l-th place)], D_l the mean of Π (1 − y) over l of the positives.
        """
        count = group.last[user, start] - start + 1
        column = start[:, None] + np.arange(int(count.max()))
        is_member = np.arange(column.shape[1]) < count[:, None]
        miss_here = miss[user[:, None], np.minimum(column, miss.shape[1] - 1)]
        means = mean_products(miss_here, is_member)
        drop = np.where(is_member, means[:, :-1] - means[:, 1:], 0.0)
        above, size = group.above[user, start], group.size[user, start]
        deepest = size if self.cutoff is None else np.clip(self.cutoff - above, 0, size)
        return np.asarray((drop * reciprocal_places(above, size, count, deepest)).sum(axis=1))
