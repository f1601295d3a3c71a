"""Inference: intervals, comparisons, diagnostics and sensitivity, from per-user sums only."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.inference._bounds import bounds
from ipseval.inference._comparisons import compare
from ipseval.inference._sensitivity import Sensitivity

__all__ = ["Sensitivity", "bounds", "compare"]

guard(__name__)
