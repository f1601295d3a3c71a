"""Inference: intervals, comparisons, diagnostics and sensitivity, from per-user sums only."""

from __future__ import annotations

from ipseval.inference.comparisons import compare
from ipseval.inference.gamma_sensitivity import Sensitivity
from ipseval.inference.weight_bounds import bounds

__all__ = ["Sensitivity", "bounds", "compare"]
