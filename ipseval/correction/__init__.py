"""Bias-corrected estimates: unknown propensities, random exposure, and values from an experiment."""

from __future__ import annotations

from ipseval.correction._correct import (
    correct,
    correct_path,
    correct_ranks,
    rank_with_exposure,
)
from ipseval.correction._names import CORRECTED, PPI, RANDOM_SAMPLE
from ipseval.correction._path import CorrectionPath, correction_path
from ipseval.correction._plan import plan_exposure
from ipseval.correction._prior import CorrectionPrior
from ipseval.correction._result import Correction

__all__ = [
    "CORRECTED",
    "PPI",
    "RANDOM_SAMPLE",
    "Correction",
    "CorrectionPath",
    "CorrectionPrior",
    "correct",
    "correct_path",
    "correct_ranks",
    "correction_path",
    "plan_exposure",
    "rank_with_exposure",
]
