"""Inference: intervals, comparisons and weight diagnostics, from per-user sums only."""

from __future__ import annotations

from ipseval.inference._intervals import normal_interval
from ipseval.inference._weights import WeightDiagnostics, effective_sample_size, weight_diagnostics

__all__ = ["WeightDiagnostics", "effective_sample_size", "normal_interval", "weight_diagnostics"]
