"""Sampling: the record of how the competitors of sampled ranks were drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ipseval._types import BoolArray, FloatArray, IntArray, readonly

Pool = Literal["candidates", "unobserved", "unobserved+positives"]


@dataclass(frozen=True, eq=False)
class Sampling:
    """How sampled ranks came about, with what a correction needs.

    Attributes
    ----------
    n_sampled : int
        m, the number of drawn competitors of each positive.
    n_candidates : (n_pos,) int array
        n, the size of the set that was drawn from, the positive included.
    replacement : bool
        Whether competitors were drawn with replacement.
    uniform : bool
        Whether all candidates had the same probability.
    pool : {"candidates", "unobserved", "unobserved+positives"}
        What was drawn from; only the first does not depend on what was observed.
    above_estimate, tied_estimate : (n_pos,) float arrays or None
        Unbiased estimates of the number of all candidates scored above, and tied with, the positive: drawn
        competitors weighted by the inverse of their known probability. None for uniform draws, where the
        sampled rank itself says as much.
    """

    n_sampled: int
    n_candidates: IntArray
    replacement: bool
    uniform: bool
    pool: Pool = "candidates"
    above_estimate: FloatArray | None = None
    tied_estimate: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("n_candidates", "above_estimate", "tied_estimate"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, readonly(array))

    def __repr__(self) -> str:
        law = f"{'uniform' if self.uniform else 'weighted'}, {'with' if self.replacement else 'without'}"
        size = f"{self.n_sampled:,} competitors of each of {self.n_candidates.size:,} positives"
        return f"Sampling({size}, {law} replacement, from {self.pool!r})"

    @property
    def rank_estimate(self) -> FloatArray | None:
        """1 + above + tied/2, unbiased for the exact mean rank, (n_pos,); None for uniform draws."""
        if self.above_estimate is None or self.tied_estimate is None:
            return None
        return 1 + self.above_estimate + self.tied_estimate / 2

    def select(self, keep: BoolArray | slice) -> Sampling:
        """Return the record of the chosen positives."""
        return replace(
            self,
            n_candidates=self.n_candidates[keep],
            above_estimate=None if self.above_estimate is None else self.above_estimate[keep],
            tied_estimate=None if self.tied_estimate is None else self.tied_estimate[keep],
        )
