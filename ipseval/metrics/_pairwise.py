"""Metrics that are sums over pairs: AUC and average precision."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from ipseval.metrics._additive import share_below
from ipseval.metrics._ideal_list import largest_first
from ipseval.metrics._ties import (
    MANY,
    Prefix,
    Table,
    before,
    harmonic,
    mean_reciprocal,
    mean_reciprocals,
    of_lists,
    places,
    positives_above,
)
from ipseval.metrics.base import Definition, Metric, cached, mean_rank, place_in_user
from ipseval.ranking import RankedPositives
from ipseval.utils.types import FloatArray, IntArray, TieChoice, TieRule


@dataclass(frozen=True, repr=False)
class Auc(Metric):
    """Σ_{i∈S} #{j ∈ C∖S ranked below i} / (s (n − s)), ties between them counted half.

    The mean over positives of the share of non-positives below; with weights, the weighted mean. Unbiased
    form: every pair inside S is counted once in the ranks of S, so with z = r − 1 the numerator is
    Σ_{i∈S} (n − 1 − z_i) − s(s − 1)/2, affine in the mean rank. NaN for a user all of whose candidates are
    positives.

    Of sampled candidates it is the share of the drawn non-positives, whatever the pool: unbiased for that of
    all where draws are uniform, NaN where none was drawn.
    """

    name = "auc"
    aliases = ("roc_auc",)
    summary = "relevant above non-relevant, Mann–Whitney"
    kind = "pairwise"
    takes_cutoff = "none"
    default_ties = "mean"
    linear_in_rank = True
    needs_n_relevant = True
    has_pairs = True
    counts_unobserved = True
    definition = Definition(
        formula="Σ_{i∈S} #{j ∈ C∖S ranked below i} / (s(n − s))",
        denominator="pairs of a relevant and a non-relevant candidate, s(n − s)",
        undefined="users without positives, and users without another candidate",
        plug_in="Σwc/Σw, c the share of non-positives below",
    )

    def contributions(self, ranked: RankedPositives, *, ties: TieChoice = "default") -> FloatArray:
        """Return the share of non-positive candidates below each positive, (n_pos,); NaN where none is."""
        rule = self._rule(ranked, ties)
        return cached(ranked, (self, rule), lambda: self._shares(ranked, rule))

    def _shares(self, ranked: RankedPositives, rule: TieRule) -> FloatArray:
        ranked = ranked.in_one_list  # with sampled candidates, which may hold any of the other positives
        above, tied = positives_above(ranked)
        others = ranked.n_candidates - np.repeat(ranked.counts, ranked.counts)
        tied_part = {"min": 0.0, "max": 1.0}.get(rule, 0.5)
        lost = ranked.n_above - above + tied_part * (ranked.n_tied - tied)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(others > 0, 1 - lost / others, np.nan)

    def _user_values(self, ranked: RankedPositives, weights: FloatArray | None, rule: TieRule) -> FloatArray:
        return ranked.mean_by_user(self.contributions(ranked, ties=rule), weights)

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return share_below(rank, n_candidates)

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        """Return [Σ ŷ (n − 1 − z) − s(s − 1)/2] / (s(n − s)): exactly unbiased given s, no independence."""
        below, n = self._below(ranked)
        s, pairs = n_relevant, ranked.sum_by_user(inverse * below)
        return np.where(n > s, (pairs - s * (s - 1) / 2) / (s * (n - s)), np.nan)

    def unobserved(self, n_candidates: FloatArray, n_relevant: FloatArray) -> FloatArray:
        """Return the unbiased value of users without observed positives, −(s − 1)/(2(n − s)), not 0.

        The term s(s − 1)/2 does not depend on the observations, so it stays when there are none.
        """
        n, s = n_candidates, n_relevant
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(n > s, -(s - 1) / (2 * (n - s)), np.nan)

    def pair_sums(
        self, ranked: RankedPositives, inverse: FloatArray, *, ties: TieChoice = "default"
    ) -> tuple[FloatArray, FloatArray]:
        """Return unbiased estimates of each user's won pairs and of its pairs, needing no s_u.

        Σ ŷ (n − 1 − z) − e₂(ŷ) and (n − 1) e₁(ŷ) − 2 e₂(ŷ), with e₁ = Σŷ and e₂ = ½[(Σŷ)² − Σŷ²], which are
        unbiased when the observations are independent; the ratio of their sums over users is consistent.
        """
        self._unbiased_rule(ranked, ties)
        total = ranked.sum_by_user(inverse)
        e2 = 0.5 * (total**2 - ranked.sum_by_user(inverse**2))
        below, n = self._below(ranked)
        return ranked.sum_by_user(inverse * below) - e2, (n - 1) * total - 2 * e2

    def _below(self, ranked: RankedPositives) -> tuple[FloatArray, IntArray]:
        """Return n − r of each positive, (n_pos,), and n of each user; of sampled candidates an estimate."""
        sampling = ranked.sampling
        if sampling is None:
            return ranked.n_candidates - mean_rank(ranked), ranked.n_candidates[ranked.starts]
        above, tied = positives_above(ranked)
        s = np.repeat(ranked.counts, ranked.counts)
        n = sampling.n_candidates + (s - 1 if sampling.pool != "candidates" else 0)
        others = np.where(n > s, self.contributions(ranked, ties="mean") * (n - s), 0.0)
        return others + s - 1 - above - tied / 2, n[ranked.starts]


MOST_LISTED = 6  # tied positives of a user whose 2^g choices are all listed


@dataclass(frozen=True, repr=False)
class AveragePrecision(Metric):
    """Σ_{i∈S, r_i≤k} prec(r_i) / min(s, k), prec(r) the share of relevant items among the first r.

    As a sum over pairs: prec(r_i) = (1 + #{j ∈ S above i}) / r_i. The unbiased form gives the item itself one
    factor ŷ_i and each pair ŷ_i ŷ_j: Σ_i (ŷ_i/r_i)(1 + Σ_{j above i} ŷ_j) / min(s, k).

    With weights: Σ_{r_i≤k} w_i prec_w(r_i) over the sum of the min(k, s) largest weights, where prec_w(r) =
    W(r)/(W(r) + w̄ neg(r)), W(r) the weight of the positives at ranks ≤ r, neg(r) the number of non-positives
    there and w̄ the user's mean weight. A perfect ranker has 1 in any order of its positives. Ties, under
    "expected": the places of the tied positives have their exact law. Which of them stand above enters by the
    mean, variance and skewness of their total weight. Up to six tied positives, and equal weights, are exact.
    """

    name = "ap"
    aliases = ("map", "average_precision")
    summary = "average precision (its mean is MAP)"
    kind = "pairwise"
    needs_n_relevant = True
    needs_independence = True
    definition = Definition(
        formula="Σ_{i∈S, r_i≤k} prec(r_i) / min(s, k)",
        denominator="min(s, k); s without a cutoff",
        plug_in="Σ_{r_i≤k} w_i W(r_i)/(W(r_i) + w̄ neg(r_i)) over the sum of the min(k, m) largest w",
    )

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return 1 / rank

    def _user_values(self, ranked: RankedPositives, weights: FloatArray | None, rule: TieRule) -> FloatArray:
        if weights is None:
            return self._pairs(ranked, np.ones(len(ranked)), rule) / self._most(ranked.counts)
        largest = largest_first(ranked, weights)
        if self.cutoff is not None:
            largest = np.where(place_in_user(ranked) < self.cutoff, largest, 0.0)
        mean = ranked.mean_by_user(weights)
        return (
            self._weighted(ranked, weights / mean[ranked.segment], rule) * mean / ranked.sum_by_user(largest)
        )

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        return self._pairs(ranked, inverse, rule) / self._most(n_relevant)

    def _most(self, n_relevant: FloatArray | IntArray) -> FloatArray:
        return np.minimum(n_relevant, np.inf if self.cutoff is None else float(self.cutoff))

    def _weighted(self, ranked: RankedPositives, weights: FloatArray, rule: TieRule) -> FloatArray:
        """Return Σ w_i E[1{r_i≤k} prec_w(r_i)] of each user, from weights with mean 1."""

        def in_lists(ties: Table, w: FloatArray) -> FloatArray:
            over = before(w, ties.first)
            together = before(w, ties.last + 1) - over
            negatives = (ties.above - ties.first).astype(np.float64)
            if rule == "mean":
                over = over + (together - w) / 2
                rank: FloatArray = ties.above + (ties.size + 1) / 2
                negatives = rank - 1 - ties.first - (ties.group_count - 1) / 2
            else:
                rank = ties.above + 1.0
            counted = ties.is_real if self.cutoff is None else ties.is_real & (rank <= self.cutoff)
            value = np.where(
                counted, w * (over + w) / (over + w + np.where(ties.is_real, negatives, 0.0)), 0.0
            )
            if rule != "mean":
                value[ties.size > 1] = 0.0
                opens = ties.is_real & (ties.first == np.arange(w.shape[1]))
                user, start = np.nonzero(opens & (ties.size > 1))
                if user.size:
                    value[user, start] = self._tied(ties, w, over, user, start)
            return np.asarray(value.sum(axis=1))

        return of_lists(ranked, places(ranked, rule), weights, in_lists)

    def _tied(
        self, ties: Table, w: FloatArray, over: FloatArray, user: IntArray, start: IntArray
    ) -> FloatArray:
        """Return Σ_l E[(S_l/l) 1{r ≤ k} W/(W + neg)] of each tie group, (n_groups,)."""
        # S_l is the weight of the first l positives of the group, the last of which is any of them. W is the
        # weight above the group plus S_l, and neg follows from the place of the l-th.
        count = ties.group_count[user, start]
        column = start[:, None] + np.arange(int(count.max()))
        members = w[user[:, None], np.minimum(column, w.shape[1] - 1)]
        above, size = ties.above[user, start], ties.size[user, start]
        deepest = size if self.cutoff is None else np.clip(self.cutoff - above, 0, size)
        total = np.zeros(user.size)
        for g in np.unique(count):
            rows = np.flatnonzero(count == g)
            level, weight, chance = _subset_sums(members[rows, :g])
            reached = over[user, start][rows, None, None] + weight
            offset = reached + ((above - start)[rows, None] - level)[:, :, None]
            place = np.stack([
                mean_reciprocals(one, int(size[row]), int(deepest[row]), level)
                for one, row in zip(offset, rows, strict=True)
            ]) if g > MANY else mean_reciprocal(
                offset.reshape(rows.size * g, -1),
                np.repeat(size[rows], g),
                np.repeat(count[rows], g),
                np.tile(level, rows.size),
                np.repeat(deepest[rows], g),
            ).reshape(offset.shape)  # fmt: skip
            gain = chance * weight / level[:, None] * reached * place
            total[rows] = gain.sum(axis=(1, 2))
        return total

    def _pairs(self, ranked: RankedPositives, relevance: FloatArray, rule: TieRule) -> FloatArray:
        """Return Σ_i y_i [A_i (1 + Σ_{j above i} y_j) + B_i Σ_{j tied with i} y_j] of each user."""
        # A_i = E[1{r_i≤k}/r_i] and B_i = E[1{r_i≤k, r_j<r_i}/r_i] for a j in the same tie group.
        above, size = places(ranked, rule)
        depth = int((above + size).max(initial=1))
        h = harmonic(depth if self.cutoff is None else min(depth, self.cutoff))

        def in_lists(ties: Table, y: FloatArray) -> FloatArray:
            single, pair = (self._mean_terms if rule == "mean" else self._expected_terms)(ties, h)
            over = before(y, ties.first)
            tied = before(y, ties.last + 1) - over - y
            terms = y * (single * (1 + over) + pair * np.where(ties.group_count > 1, tied, 0.0))
            return np.asarray(terms.sum(axis=1))

        return of_lists(ranked, (above, size), relevance, in_lists)

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


def _subset_sums(members: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return l = 1 … g, values (n_groups, g, k) of S_l, the sum of a random l of g members, and chances."""
    # Every choice for small groups, else two values with the mean, variance and skewness of S_l. Chances sum
    # to 1 for each l, and are 0 in the padding.
    g = members.shape[1]
    level = np.arange(1, g + 1)
    if g <= MOST_LISTED:
        value = np.repeat((members.mean(axis=1, keepdims=True) * level)[:, :, None], comb(g, g // 2), axis=2)
        chance = np.zeros(value.shape)
        for size in level.tolist():
            chosen = list(combinations(range(g), size))
            value[:, size - 1, : len(chosen)] = members[:, chosen].sum(axis=2)
            chance[:, size - 1, : len(chosen)] = 1 / len(chosen)
        return level, value, chance
    mean = members.mean(axis=1, keepdims=True)
    variance = members.var(axis=1, keepdims=True) * level * (g - level) / (g - 1)
    third = ((members - mean) ** 3).mean(axis=1, keepdims=True)
    skewed = third * level * (g - level) * (g - 2 * level) / ((g - 1) * (g - 2))
    spread = variance > 1e-24 * (level * mean) ** 2
    shift = np.where(spread, skewed / (2 * np.where(spread, variance, 1.0)), 0.0)
    half = np.sqrt(np.where(spread, variance, 0.0) + shift**2)
    lean = np.where(spread, shift / np.where(spread, half, 1.0), 0.0)
    middle = level * mean + shift
    return level, np.stack([middle + half, middle - half], axis=2), np.stack([1 - lean, 1 + lean], axis=2) / 2
