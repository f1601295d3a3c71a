"""Propensity-scored precision and nDCG of extreme classification (Jain, Prabhu and Varma 2016)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ipseval.metrics._ideal_list import IdealListMetric
from ipseval.metrics.additive import compute_log_discount
from ipseval.metrics.base import Definition
from ipseval.ranking import RankedPositives
from ipseval.utils.types import FloatArray, IntArray, TieChoice


@dataclass(frozen=True, repr=False)
class PropensityScoredMetric(IdealListMetric):
    """A sum over users of Σ w_i c(r_i) / g, over the same sum for the best list of each user.

    The best list has the positives with the largest w = 1/P first. g depends on the number of positives of
    the user alone. The value of a single user is the ratio of its two sums, in which g cancels.
    """

    is_relative: ClassVar[bool] = True
    takes_cutoff: ClassVar[Literal["required", "optional", "none"]] = "required"
    is_ratio_of_sums: ClassVar[bool] = True

    def ratio_sums(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> tuple[FloatArray, FloatArray]:
        """Return Σ w c / g of the list and of the best list of each user, (n_users_with_positives,) each."""
        discount = self._compute_discounts(ranked, self._resolve_tie_rule(ranked, ties))
        gain = weights
        if gain is None:
            gain = np.ones(len(ranked))
        divisor = self._compute_divisor(ranked.counts)
        list_value = ranked.sum_by_user(gain * discount) / divisor
        best_value = self._compute_ideal_value(ranked, gain) / divisor
        return list_value, best_value

    @abstractmethod
    def _compute_divisor(self, counts: IntArray) -> FloatArray:
        """Return g of each user from its number of positives."""


@dataclass(frozen=True, repr=False)
class PropensityScoredPrecision(PropensityScoredMetric):
    """Propensity-scored precision: Σ_u Σ_{r_i ≤ k} w_i / Σ_u (sum of the min(k, s) largest w)."""

    name = "psp"
    aliases = ("psprecision",)
    summary = "propensity-scored precision (extreme classification)"
    definition = Definition(
        formula="Σ_u Σ_{i∈S_u} 1{r_i ≤ k} w_i / Σ_u Σ_{j ≤ min(k,s_u)} w_(j), w = 1/P, largest first",
        denominator="the same sum over users for lists with the largest w first",
        plug_in="w of the estimator: 1 in AOA, 1/P in every form of SNIPS",
    )

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return np.ones_like(rank)

    def _compute_divisor(self, counts: IntArray) -> FloatArray:
        return np.ones(counts.size)


@dataclass(frozen=True, repr=False)
class PropensityScoredNdcg(PropensityScoredMetric):
    """Propensity-scored nDCG: the sum over users of Σ w_i / log2(1 + r_i) / idcg@k, over that of the best lists."""

    name = "psndcg"
    summary = "propensity-scored nDCG (extreme classification)"
    definition = Definition(
        formula="Σ_u Σ_{i∈S_u} 1{r_i ≤ k} w_i / (log2(1 + r_i) idcg_u@k), over the same for the best lists",
        denominator="the same sum over users for lists with the largest w = 1/P first",
        discount="1/log2(1 + r)",
        plug_in="w of the estimator: 1 in AOA, 1/P in every form of SNIPS",
    )

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return compute_log_discount(rank)

    def _compute_divisor(self, counts: IntArray) -> FloatArray:
        return self._sum_ideal_discounts(counts)
