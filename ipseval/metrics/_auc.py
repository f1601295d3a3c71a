"""AUC: the share of pairs of a relevant and another candidate in which the relevant one ranks higher."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval.metrics._ties import compute_mean_rank, count_better_positives
from ipseval.metrics.additive import compute_share_below
from ipseval.metrics.base import Definition, Metric, cache_last
from ipseval.ranking import RankedPositives
from ipseval.utils.types import FloatArray, IntArray, TieChoice, TieRule

# The part of a tie between a positive and another candidate that counts as lost.
LOST_SHARE_OF_TIES = {"min": 0.0, "max": 1.0, "mean": 0.5, "expected": 0.5}


@dataclass(frozen=True, repr=False)
class Auc(Metric):
    """Area under the ROC curve: Σ_{i∈S} #{j ∈ C∖S ranked below i} / (s (n − s)), ties counted half.

    It is the mean over positives of the share of non-positives below; with weights, the weighted mean.
    Unbiased form: every pair inside S is counted once in the ranks of S, so with z = r − 1 the numerator is
    Σ_{i∈S} (n − 1 − z_i) − s(s − 1)/2, affine in the mean rank. NaN for a user all of whose candidates are
    positives.

    With sampled candidates it is the share of the drawn non-positives, whatever the pool. That is unbiased
    for the share of all non-positives if draws are uniform, and NaN if none was drawn.
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

    def contributions(self, positives: RankedPositives, *, ties: TieChoice = "default") -> FloatArray:
        """Return the share of non-positive candidates below each positive, (n_pos,); NaN without any."""
        rule = self._resolve_tie_rule(positives, ties)
        return cache_last(positives, (self, rule), lambda: self._compute_shares_below(positives, rule))

    def _compute_shares_below(self, positives: RankedPositives, rule: TieRule) -> FloatArray:
        positives = positives.in_one_list  # with sampled candidates, which can contain the other positives
        positives_above, positives_tied = count_better_positives(positives)
        n_negatives = positives.n_candidates - np.repeat(positives.counts, positives.counts)
        negatives_above = positives.n_above - positives_above
        negatives_tied = positives.n_tied - positives_tied
        lost_pairs = negatives_above + LOST_SHARE_OF_TIES[rule] * negatives_tied
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(n_negatives > 0, 1 - lost_pairs / n_negatives, np.nan)

    def _user_values(
        self, positives: RankedPositives, weights: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        return positives.mean_by_user(self.contributions(positives, ties=rule), weights)

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return compute_share_below(rank, n_candidates)

    def _unbiased(
        self, positives: RankedPositives, inverse: FloatArray, n_relevant: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        """Return [Σ ŷ (n − 1 − z) − s(s − 1)/2] / (s(n − s)): exactly unbiased given s, no independence."""
        assert n_relevant is not None
        s = n_relevant
        n_below, n = self._count_below(positives)
        won_pairs = positives.sum_by_user(inverse * n_below)
        return np.where(n > s, (won_pairs - s * (s - 1) / 2) / (s * (n - s)), np.nan)

    def unobserved(self, n_candidates: FloatArray, n_relevant: FloatArray) -> FloatArray:
        """Return the unbiased value of users without observed positives, −(s − 1)/(2(n − s)), not 0.

        The term s(s − 1)/2 does not depend on the observations, so it stays when there are none.
        """
        n = n_candidates
        s = n_relevant
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(n > s, -(s - 1) / (2 * (n - s)), np.nan)

    def pair_sums(
        self, positives: RankedPositives, inverse: FloatArray, *, ties: TieChoice = "default"
    ) -> tuple[FloatArray, FloatArray]:
        """Return unbiased estimates of the won pairs and of all pairs of each user, which need no s_u.

        They are Σ ŷ (n − 1 − z) − e₂(ŷ) and (n − 1) e₁(ŷ) − 2 e₂(ŷ), with e₁ = Σŷ and e₂ = ½[(Σŷ)² − Σŷ²].
        They are unbiased if the observations are independent; the ratio of their sums over users is
        consistent.
        """
        self._resolve_unbiased_tie_rule(positives, ties)  # raises for a rule without unbiased form
        e1 = positives.sum_by_user(inverse)
        e2 = 0.5 * (e1**2 - positives.sum_by_user(inverse**2))
        n_below, n = self._count_below(positives)
        won_pairs = positives.sum_by_user(inverse * n_below) - e2
        return won_pairs, (n - 1) * e1 - 2 * e2

    def _count_below(self, positives: RankedPositives) -> tuple[FloatArray, IntArray]:
        """Return n − r of each positive, (n_pos,), and n of each user; estimates with sampled candidates."""
        sampling = positives.sampling
        if sampling is None:
            return positives.n_candidates - compute_mean_rank(positives), positives.n_candidates[
                positives.starts
            ]
        positives_above, positives_tied = count_better_positives(positives)
        s = np.repeat(positives.counts, positives.counts)
        n = sampling.n_candidates
        if sampling.pool != "candidates":  # its size does not contain the other positives
            n = n + s - 1
        negatives_below = np.where(n > s, self.contributions(positives, ties="mean") * (n - s), 0.0)
        n_below = negatives_below + s - 1 - positives_above - positives_tied / 2
        return n_below, n[positives.starts]
