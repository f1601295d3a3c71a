"""Private names of ipseval.propensity that tests use."""

from __future__ import annotations

from ipseval.propensity._base import weakest_basis
from ipseval.propensity._count_models import refit_levels
from ipseval.propensity._density_ratio import _compute_calibration_gap, compute_weighted_auc
from ipseval.propensity._exposure import compute_noise_share
from ipseval.propensity._gamma import warn_about_fit
from ipseval.propensity._pair_features import compute_mean_similarity
from ipseval.propensity._slope_influence import compute_slope_influence
from ipseval.propensity.cross_fitted_odds import (
    BIASED,
    RANDOM,
    RIDGES,
    UNIFORM,
    CrossFittedOdds,
    PairSample,
    RatioRegression,
    compute_ridge_weights,
    compute_user_weights,
    fit_logistic,
    fit_odds_slopes,
    fit_slopes,
)
from ipseval.propensity.labels import DATA_OPTIONS
