"""Validation: bias of estimates measured against random exposure."""

from __future__ import annotations

from ipseval._border import guard
from ipseval.validation._bandit import validate_bandit
from ipseval.validation._calibration import Calibration
from ipseval.validation._harness import validate
from ipseval.validation._result import Validation
from ipseval.validation._run import default_models, default_propensities, run_validation

__all__ = [
    "Calibration",
    "Validation",
    "default_models",
    "default_propensities",
    "run_validation",
    "validate",
    "validate_bandit",
]

guard(__name__)
