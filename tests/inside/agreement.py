"""Private names of ipseval.studies.agreement that tests reach for."""

from __future__ import annotations

from ipseval.studies.agreement._orders import add_intervals
from ipseval.studies.agreement._true_values import (
    CORRELATIONS,
    TrueValueModel,
    build_priors,
    compute_log_likelihood,
    compute_noise_covariance,
)
