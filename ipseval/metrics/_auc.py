"""AUC: the Mann–Whitney probability that a relevant item is ranked above a non-relevant one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ipseval._types import FloatArray, TieChoice, TieRule
from ipseval.metrics._base import (
    Definition,
    Kind,
    check_depth,
    check_unbiased_ties,
    kept,
    simple_rank,
    tie_rule,
)
from ipseval.metrics._card import Labelled
from ipseval.metrics._ties import tie_group_sizes
from ipseval.ranking import RankedPositives


@dataclass(frozen=True, repr=False)
class Auc(Labelled):
    """Σ_{i∈S} #{j ∈ C∖S ranked below i} / (s (n − s)), ties between them counted half.

    Every pair inside S is counted once in the ranks of S, so with z = r − 1 the numerator is
    Σ_{i∈S} (n − 1 − z_i) − s(s − 1)/2: affine in the mean rank. NaN for a user all of whose candidates are
    positives.
    """

    has_pairs: ClassVar[bool] = True

    label: str = "auc"
    kind: Kind = field(default="pairwise", init=False)
    cutoff: int | None = field(default=None, init=False)
    default_ties: TieRule = field(default="mean", init=False)
    needs_n_relevant: bool = field(default=True, init=False)
    needs_independence: bool = field(default=False, init=False)
    definition: Definition = field(
        default=Definition(
            formula="Σ_{i∈S} #{j ∈ C∖S ranked below i} / (s(n − s))",
            denominator="pairs of a relevant and a non-relevant candidate, s(n − s)",
            undefined="users without positives, and users without another candidate",
            plug_in="1 − (z̄_w − (m − 1)/2)/(n − m), z̄_w the weighted mean of r − 1, m = |S*_u|",
        ),
        init=False,
        repr=False,
    )

    def user_values(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return the AUC of S*_u against the other candidates, its mean rank weighted where asked."""
        check_depth(self, ranked)
        rule = _affine_rule(self, ties)
        z = ranked.mean_by_user(kept(ranked, (self, rule), lambda: simple_rank(ranked, rule)), weights) - 1
        others = _by_user(ranked) - ranked.counts
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(others > 0, 1 - (z - _mean_rank_inside(ranked, rule)) / others, np.nan)

    def contributions(self, ranked: RankedPositives, *, ties: TieChoice = "default") -> FloatArray:
        """Return c_i = 1 − (z_i − z̄_inside)/(n − m), (n_pos,), whose mean over a user's positives is the AUC.

        z̄_inside is the mean 0-based rank of the m positives among themselves. NaN where n = m.
        """
        check_depth(self, ranked)
        rule = _affine_rule(self, ties)
        z = simple_rank(ranked, rule) - 1
        inside = _mean_rank_inside(ranked, rule)[ranked.segment]
        others = (_by_user(ranked) - ranked.counts)[ranked.segment]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(others > 0, 1 - (z - inside) / others, np.nan)

    def unbiased(
        self,
        ranked: RankedPositives,
        inverse: FloatArray,
        n_relevant: FloatArray | None,
        *,
        ties: TieChoice = "default",
    ) -> FloatArray:
        """Return [Σ ŷ (n − 1 − z) − s(s − 1)/2] / (s(n − s)): exactly unbiased given s, no independence."""
        assert n_relevant is not None
        n, s = _by_user(ranked), n_relevant
        pairs = ranked.sum_by_user(inverse * _below(self, ranked, ties))
        with np.errstate(invalid="ignore", divide="ignore"):
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
        total = ranked.sum_by_user(inverse)
        e2 = 0.5 * (total**2 - ranked.sum_by_user(inverse**2))
        won = ranked.sum_by_user(inverse * _below(self, ranked, ties)) - e2
        return won, (_by_user(ranked) - 1) * total - 2 * e2


def _affine_rule(metric: Auc, ties: TieChoice) -> TieRule:
    rule = tie_rule(metric, ties)
    return "mean" if rule == "expected" else rule


def _below(metric: Auc, ranked: RankedPositives, ties: TieChoice) -> FloatArray:
    """Return n − 1 − z of each positive; refuses rules that would need the ties inside the unknown S."""
    check_depth(metric, ranked)
    check_unbiased_ties(metric, ranked, ties)
    return ranked.n_candidates - simple_rank(ranked, "mean")


def _by_user(ranked: RankedPositives) -> FloatArray:
    return ranked.n_candidates[ranked.starts].astype(np.float64)


def _mean_rank_inside(ranked: RankedPositives, rule: TieRule) -> FloatArray:
    """Return the mean of the positives' 0-based ranks among themselves: (m − 1)/2 under mean ties."""
    half = (ranked.counts - 1) / 2
    if rule == "mean":
        return half
    tied_pairs_per_positive = (tie_group_sizes(ranked) - 1) / 2
    # Under mean ties a tied pair adds ½ + ½ to the ranks; under "min" it adds 0, under "max" 1 + 1.
    shift = ranked.sum_by_user(tied_pairs_per_positive) / ranked.counts
    return half - shift if rule == "min" else half + shift
