"""Private names of ipseval.studies.agreement that tests reach for."""

from __future__ import annotations

from ipseval.studies.agreement._true_values import (
    CORRELATIONS,
    TrueValueModel,
    _build_prior,
    _fit_true_values,
    compute_noise_covariance,
)
