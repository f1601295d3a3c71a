"""Precision with the denominator min(k, s): the share of what could be hit that was hit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ipseval._types import FloatArray, TieChoice, TieRule
from ipseval.metrics._additive import AdditiveMetric
from ipseval.metrics._base import Definition, Kind
from ipseval.metrics._card import Labelled
from ipseval.ranking import RankedPositives


@dataclass(frozen=True, repr=False)
class TruncatedPrecision(Labelled):
    """Σ_{i∈S} 1{r_i ≤ k} / min(k, s), so that a perfect list scores 1 for every user."""

    label: str
    cutoff: int

    kind: Kind = field(default="list", init=False)
    default_ties: TieRule = field(default="expected", init=False)
    needs_n_relevant: bool = field(default=True, init=False)
    needs_independence: bool = field(default=False, init=False)
    definition: Definition = field(
        default=Definition(
            formula="Σ_{i∈S} 1{r_i ≤ k} / min(k, s)",
            denominator="min(k, s)",
            plug_in="m (Σw1{r≤k}/Σw) / min(k, m), m = |S*_u|",
        ),
        init=False,
        repr=False,
    )

    def user_values(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return hits over min(k, |S*_u|) of each user with positives."""
        return self._hits.user_values(ranked, weights, ties=ties) / np.minimum(ranked.counts, self.cutoff)

    def unbiased(
        self,
        ranked: RankedPositives,
        inverse: FloatArray,
        n_relevant: FloatArray | None,
        *,
        ties: TieChoice = "default",
    ) -> FloatArray:
        """Return Σ ŷ 1{r ≤ k} / min(k, s_u)."""
        assert n_relevant is not None
        return self._hits.unbiased(ranked, inverse, None, ties=ties) / np.minimum(n_relevant, self.cutoff)

    @property
    def _hits(self) -> AdditiveMetric:
        return AdditiveMetric(self.label, "sum", np.ones_like, self.definition, self.cutoff)
