"""DCG: the discounted gain of the relevant items in the list."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from ipseval._base.types import FloatArray, TieRule
from ipseval.metrics._additive import GAIN, AdditiveMetric, Gain, gains, log_discount, over_ties, ungraded
from ipseval.metrics._base import Definition
from ipseval.ranking import RankedPositives


@dataclass(frozen=True, repr=False)
class Dcg(AdditiveMetric):
    """Σ gain_i / log2(1 + r_i) over the relevant items in the first k."""

    gain: Gain = "binary"

    name = "dcg"
    summary = "discounted cumulative gain"
    kind = "sum"
    parameters = MappingProxyType({"gain": GAIN})
    needs_n_relevant = False
    value_range = (0.0, float("inf"))
    definition = Definition(
        "Σ_{i∈S} gain_i 1{r_i ≤ k} / log2(1 + r_i)",
        "none",
        "1/log2(1 + r)",
        plug_in="|S*_u| Σwc/Σw per user; one normaliser for all users in the global and pooled forms",
    )

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return ungraded(self, self.gain, log_discount(rank))

    def _contributions(self, ranked: RankedPositives, rule: TieRule) -> FloatArray:
        value = over_ties(Dcg(self.cutoff).at_rank, ranked, rule, self.cutoff)
        return value if self.gain == "binary" else value * gains(ranked, self.gain, self.label)
