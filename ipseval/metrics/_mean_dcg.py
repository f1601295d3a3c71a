"""Mean DCG: the "DCG" of Yang et al. (2018), a mean over relevant items."""

from __future__ import annotations

from dataclasses import dataclass

from ipseval._base.types import FloatArray
from ipseval.metrics._additive import AdditiveMetric, log_discount
from ipseval.metrics._base import Definition


@dataclass(frozen=True, repr=False)
class MeanDcg(AdditiveMetric):
    """dcg@k / s."""

    name = "mean_dcg"
    summary = "mean discount over relevant items (Yang et al.)"
    kind = "mean"
    definition = Definition("Σ_{i∈S} 1{r_i ≤ k} / log2(1 + r_i) / s", "s", "1/log2(1 + r)")

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return log_discount(rank)
