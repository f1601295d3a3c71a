"""Evaluation over windows that slide through time."""

from __future__ import annotations

from ipseval._border import guard
from ipseval.windows._evaluate import WindowEvaluation, evaluate_windows

__all__ = ["WindowEvaluation", "evaluate_windows"]

guard(__name__)
