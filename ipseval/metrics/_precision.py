"""Precision: the share of the first k that is relevant."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from ipseval._base.types import FloatArray, TieRule
from ipseval.metrics._base import Definition, Parameter, one_of
from ipseval.metrics._ideal_list import ArrangedMetric
from ipseval.ranking import RankedPositives

DENOMINATOR = Parameter("k", one_of("k", "min"), "k, or min(k, s): a perfect list then scores 1 for everyone")


@dataclass(frozen=True, repr=False)
class Precision(ArrangedMetric):
    """Σ 1{r_i ≤ k} / k; with denominator "min", Σ 1{r_i ≤ k} / min(k, s)."""

    denominator: Literal["k", "min"] = "k"

    name = "precision"
    aliases = ("p",)
    summary = "share of the first k that is relevant"
    takes_cutoff = "required"
    parameters = MappingProxyType({"denominator": DENOMINATOR})

    @property
    def relative(self) -> bool:  # type: ignore[override]  # follows from the denominator
        """Whether the value is divided by the best one, min(k, s)/k."""
        return self.denominator == "min"

    @property
    def needs_n_relevant(self) -> bool:  # type: ignore[override]
        """Only min(k, s) needs s."""
        return self.denominator == "min"

    @property
    def definition(self) -> Definition:  # type: ignore[override]
        """The words of the card."""
        weighted = "Σ_{r_i≤k} w_i over the sum of the min(k, m) largest weights, m = |S*_u|"
        if self.denominator == "min":
            return Definition("Σ_{i∈S} 1{r_i ≤ k} / min(k, s)", "min(k, s)", plug_in=weighted)
        return Definition(
            "Σ_{i∈S} 1{r_i ≤ k} / k", "k, also for shorter lists", plug_in=f"{weighted}, times min(k, m)/k"
        )

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        assert self.cutoff is not None
        return np.full_like(rank, 1.0 if self.relative else 1 / self.cutoff)

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        assert self.cutoff is not None
        hits = ranked.sum_by_user(inverse * self._plain_contributions(ranked, rule))
        return hits / np.minimum(n_relevant, self.cutoff) if self.relative else hits
