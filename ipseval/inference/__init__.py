"""Inference: intervals, comparisons, diagnostics and sensitivity, from per-user sums only."""

from __future__ import annotations

from ipseval._border import guard
from ipseval.inference._attach import Interval, bootstrap_intervals, normal_intervals, refit_intervals
from ipseval.inference._bootstrap import INTERVAL_METHODS, Bootstrap, IntervalMethod, bootstrap
from ipseval.inference._bounds import bounds, ratio_bounds
from ipseval.inference._comparisons import (
    Correction,
    Family,
    compare,
    minimum_detectable_difference,
    users_needed,
)
from ipseval.inference._factors import required_factor, tipping_factors
from ipseval.inference._intervals import bca_interval, normal_interval, percentile_interval
from ipseval.inference._pareto import pareto_k
from ipseval.inference._popularity import popularity_weights
from ipseval.inference._refit import PowerLawRefit, Refit, bootstrap_refit
from ipseval.inference._sensitivity import Sensitivity, sensitivity
from ipseval.inference._weights import (
    WeightDiagnostics,
    diagnostics_by_estimator,
    effective_sample_size,
    weight_diagnostics,
)

__all__ = [
    "INTERVAL_METHODS",
    "Bootstrap",
    "Correction",
    "Family",
    "Interval",
    "IntervalMethod",
    "PowerLawRefit",
    "Refit",
    "Sensitivity",
    "WeightDiagnostics",
    "bca_interval",
    "bootstrap",
    "bootstrap_intervals",
    "bootstrap_refit",
    "bounds",
    "compare",
    "diagnostics_by_estimator",
    "effective_sample_size",
    "minimum_detectable_difference",
    "normal_interval",
    "normal_intervals",
    "pareto_k",
    "percentile_interval",
    "popularity_weights",
    "ratio_bounds",
    "refit_intervals",
    "required_factor",
    "sensitivity",
    "tipping_factors",
    "users_needed",
    "weight_diagnostics",
]

guard(__name__)
