"""Beyond accuracy: coverage, exposure, popularity, novelty, diversity and calibration of the same lists."""

from __future__ import annotations

from ipseval.evaluation.beyond._measures import MEASURES, Measure, measure
from ipseval.evaluation.beyond._providers import exposure_by_provider
from ipseval.evaluation.beyond._result import BeyondAccuracy, beyond_accuracy

__all__ = ["MEASURES", "BeyondAccuracy", "Measure", "beyond_accuracy", "exposure_by_provider", "measure"]
