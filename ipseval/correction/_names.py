"""Names of the estimators of a correction, and of their estimand."""

from __future__ import annotations

from typing import Final

CORRECTED: Final = "corrected"
RANDOM_SAMPLE: Final = "random-sample"
PPI: Final = "ppi"
ESTIMAND: Final = "mean over relevant interactions"
