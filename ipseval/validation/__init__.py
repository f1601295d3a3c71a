"""Validation: bias of estimates measured against random exposure."""

from __future__ import annotations

from ipseval._base import lazy
from ipseval._base.border import guard
from ipseval.validation._calibration import Calibration
from ipseval.validation._curve import ExposureCurve, exposure_curve
from ipseval.validation._result import Validation
from ipseval.validation._validate import (
    default_models,
    default_propensities,
    validate,
)

__all__ = [
    "Calibration",
    "ExposureCurve",
    "Validation",
    "default_models",
    "default_propensities",
    "exposure_curve",
    "validate",
]
__getattr__ = lazy(__name__, dict.fromkeys(("datasets", "simulation"), ""))

guard(__name__)
