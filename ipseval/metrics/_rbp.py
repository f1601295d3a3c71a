"""RBP: rank-biased precision (Moffat & Zobel 2008), the gain of a reader who goes on with probability p."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ipseval._base.types import FloatArray, TieRule
from ipseval.errors import InputError
from ipseval.metrics._base import Definition, Parameter
from ipseval.metrics._ideal_list import ArrangedMetric
from ipseval.ranking import RankedPositives


def _unit(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{text!r} is not a number") from None
    if not 0 < value < 1:
        raise InputError(f"{text} is not in (0, 1)")
    return value


@dataclass(frozen=True, repr=False)
class Rbp(ArrangedMetric):
    """(1 − p) Σ p^(r_i − 1)."""

    p: float = 0.8

    name = "rbp"
    summary = "rank-biased precision"
    parameters = MappingProxyType(
        {"p": Parameter(0.8, _unit, "chance to go on to the next item", shown=True)}
    )
    definition = Definition(
        "(1 − p) Σ_{i∈S} p^(r_i − 1)",
        "none",
        "(1 − p) p^(r − 1)",
        plug_in="Σwc over Σwc with weights in descending order at ranks 1 … m, times Σ_{r≤m} c(r)",
    )

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return np.asarray((1 - self.p) * self.p ** (rank - 1))

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        return ranked.sum_by_user(inverse * self._plain_contributions(ranked, rule))
