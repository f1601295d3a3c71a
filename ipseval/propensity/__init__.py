"""Propensity models, which estimate the probability that a relevant item is observed."""

from __future__ import annotations

from ipseval.propensity._base import Propensity, PropensityModel
from ipseval.propensity._counted import CountedPropensity
from ipseval.propensity._density_ratio import DensityRatioFit, DensityRatioPropensity
from ipseval.propensity._examination import ExaminationCurve, ExaminationModel
from ipseval.propensity._exposure import DirectPropensity, StratifiedPropensity, fit_gamma_from_exposure
from ipseval.propensity._gamma import GammaFit, fit_gamma
from ipseval.propensity._jain import JainPropensity
from ipseval.propensity._known import KnownPropensity
from ipseval.propensity._pair_features import profile_features
from ipseval.propensity._popularity import PopularityExponent, fit_popularity_exponent
from ipseval.propensity._power_law import PowerLawPropensity
from ipseval.propensity._recommendations import count_recommendations
from ipseval.propensity.fit_error import FitError
from ipseval.propensity.impression_propensities import (
    ImpressionPropensity,
    LoggedPropensity,
    check_logged,
)
from ipseval.propensity.labels import PROPENSITIES, parse_propensity
from ipseval.utils.public import explain_missing_names

__all__ = [
    "PROPENSITIES",
    "CountedPropensity",
    "DensityRatioFit",
    "DensityRatioPropensity",
    "DirectPropensity",
    "ExaminationCurve",
    "ExaminationModel",
    "FitError",
    "GammaFit",
    "ImpressionPropensity",
    "JainPropensity",
    "KnownPropensity",
    "LoggedPropensity",
    "PopularityExponent",
    "PowerLawPropensity",
    "Propensity",
    "PropensityModel",
    "StratifiedPropensity",
    "check_logged",
    "count_recommendations",
    "fit_gamma",
    "fit_gamma_from_exposure",
    "fit_popularity_exponent",
    "parse_propensity",
    "profile_features",
]

__getattr__ = explain_missing_names(__name__)
