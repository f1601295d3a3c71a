"""Propensities: how likely a relevant item was to be observed."""

from __future__ import annotations

from ipseval.propensity._base import Propensity
from ipseval.propensity._exposure import Exposure, fit_gamma_from_exposure
from ipseval.propensity._gamma import fit_gamma
from ipseval.propensity._gamma_fit import GammaFit
from ipseval.propensity._known import KnownPropensity
from ipseval.propensity._power_law import PowerLawPropensity
from ipseval.propensity._recommendations import RecommendationCounts, count_recommendations

__all__ = [
    "Exposure",
    "GammaFit",
    "KnownPropensity",
    "PowerLawPropensity",
    "Propensity",
    "RecommendationCounts",
    "count_recommendations",
    "fit_gamma",
    "fit_gamma_from_exposure",
]
