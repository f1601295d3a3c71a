"""Hits@k of link prediction: recall@k of queries with one target, pooled over targets."""

from __future__ import annotations

from dataclasses import dataclass

from ipseval._base.types import FloatArray
from ipseval.metrics._additive import AdditiveMetric, inside
from ipseval.metrics._base import Definition


@dataclass(frozen=True, repr=False)
class Hits(AdditiveMetric):
    """Σ 1{r_i ≤ k} / s of queries with one target each."""

    name = "hits"
    summary = "recall@k of queries with one target (link prediction)"
    kind = "mean"
    takes_cutoff = "required"
    definition = Definition("Σ_{i∈S} 1{r_i ≤ k} / s (queries with one target)", "s")

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return inside(rank)
