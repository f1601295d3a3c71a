"""AUC: the Mann–Whitney probability that a relevant item is ranked above a non-relevant one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipseval._base.types import FloatArray, TieChoice, TieRule
from ipseval.metrics._base import Definition, Metric, cached, simple_rank
from ipseval.metrics._ties import positives_above
from ipseval.ranking import RankedPositives


@dataclass(frozen=True, repr=False)
class Auc(Metric):
    """Σ_{i∈S} #{j ∈ C∖S ranked below i} / (s (n − s)), ties between them counted half.

    The mean over positives of the share of non-positives below; with weights, the weighted mean. Unbiased
    form: every pair inside S is counted once in the ranks of S, so with z = r − 1 the numerator is
    Σ_{i∈S} (n − 1 − z_i) − s(s − 1)/2, affine in the mean rank. NaN for a user all of whose candidates are
    positives.
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
        above, tied = positives_above(ranked)
        others = ranked.n_candidates - np.repeat(ranked.counts, ranked.counts)
        tied_part = {"min": 0.0, "max": 1.0}.get(rule, 0.5)
        lost = ranked.n_above - above
        if ranked.has_ties:
            lost = lost + tied_part * (ranked.n_tied - tied)
        if others.min(initial=1) > 0:
            return np.asarray(1 - lost / others)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(others > 0, 1 - lost / others, np.nan)

    def _user_values(self, ranked: RankedPositives, weights: FloatArray | None, rule: TieRule) -> FloatArray:
        return ranked.mean_by_user(self.contributions(ranked, ties=rule), weights)

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        n = n_candidates
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(n > 1, (n - rank) / (n - 1), np.nan)

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        """Return [Σ ŷ (n − 1 − z) − s(s − 1)/2] / (s(n − s)): exactly unbiased given s, no independence."""
        n, s = ranked.n_candidates[ranked.starts], n_relevant
        pairs = ranked.sum_by_user(inverse * (ranked.n_candidates - simple_rank(ranked, "mean")))
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
        below = ranked.n_candidates - simple_rank(ranked, "mean")
        return (
            ranked.sum_by_user(inverse * below) - e2,
            (ranked.n_candidates[ranked.starts] - 1) * total - 2 * e2,
        )
