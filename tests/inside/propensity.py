"""Private names of ipseval.propensity that tests reach for."""

from __future__ import annotations

from ipseval.propensity._base import weakest_basis
from ipseval.propensity._count_models import refit_levels
from ipseval.propensity._density_ratio import _calibration_gap, slope_influence, weighted_auc
from ipseval.propensity._exposure import compute_noise_share
from ipseval.propensity._gamma import warn_about_fit
from ipseval.propensity._pair_features import mean_similarity
from ipseval.propensity.cross_fitted_odds import (
    BIASED,
    RANDOM,
    RIDGES,
    UNIFORM,
    CrossFitted,
    Sample,
    TwoSamples,
    fit_logistic,
    fit_slopes,
    odds_slopes,
    ridge_weights,
    user_weights,
)
