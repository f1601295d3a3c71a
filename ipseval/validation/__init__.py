"""Validation: bias of estimates measured against random exposure."""

from __future__ import annotations

import lazy_loader

from ipseval.validation._calibration import Calibration
from ipseval.validation._curve import ExposureCurve, exposure_curve
from ipseval.validation._result import Validation
from ipseval.validation.validation_study import (
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
__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["datasets", "simulation"])
