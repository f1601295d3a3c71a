"""Recall: the share of relevant items in the first k."""

from __future__ import annotations

from dataclasses import dataclass

from ipseval._base.types import FloatArray
from ipseval.metrics._additive import AdditiveMetric, inside
from ipseval.metrics._base import Definition


@dataclass(frozen=True, repr=False)
class Recall(AdditiveMetric):
    """Σ 1{r_i ≤ k} / s."""

    name = "recall"
    aliases = ("r",)
    summary = "share of relevant items in the first k"
    kind = "mean"
    takes_cutoff = "required"
    definition = Definition("Σ_{i∈S} 1{r_i ≤ k} / s", "s, never min(s, k)")

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return inside(rank)
