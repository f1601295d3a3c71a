"""ipseval: offline evaluation of recommenders from biased implicit feedback.

Logged clicks and purchases are missing not at random; a plain average over observed positives (AOA)
favours recommenders of popular items. ipseval weights each positive by its inverse propensity (IPS, SNIPS),
states the uncertainty of every number, and says what is claimed of it.

Names are loaded from their modules when they are first used, so that importing the package takes no time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipseval.adapters import rank_positives as rank_positives
    from ipseval.agreement import order_agreement as order_agreement
    from ipseval.errors import DataWarning as DataWarning
    from ipseval.errors import IdentificationWarning as IdentificationWarning
    from ipseval.errors import InputError as InputError
    from ipseval.errors import IpsevalError as IpsevalError
    from ipseval.errors import PositivityWarning as PositivityWarning
    from ipseval.errors import PropensityError as PropensityError
    from ipseval.errors import UnknownNameError as UnknownNameError
    from ipseval.evaluation import Evaluation as Evaluation
    from ipseval.evaluation import evaluate as evaluate
    from ipseval.evaluation import evaluate_ranks as evaluate_ranks
    from ipseval.interactions import Interactions as Interactions
    from ipseval.metrics import metric as metric
    from ipseval.propensity import DensityRatioPropensity as DensityRatioPropensity
    from ipseval.propensity import DirectPropensity as DirectPropensity
    from ipseval.propensity import Exposure as Exposure
    from ipseval.propensity import GammaFit as GammaFit
    from ipseval.propensity import KnownPropensity as KnownPropensity
    from ipseval.propensity import PowerLawPropensity as PowerLawPropensity
    from ipseval.propensity import Propensity as Propensity
    from ipseval.propensity import StratifiedPropensity as StratifiedPropensity
    from ipseval.propensity import count_recommendations as count_recommendations
    from ipseval.propensity import fit_gamma as fit_gamma
    from ipseval.propensity import fit_gamma_from_exposure as fit_gamma_from_exposure
    from ipseval.propensity import fit_popularity_exponent as fit_popularity_exponent
    from ipseval.ranking import RankedPositives as RankedPositives
    from ipseval.ranking import SampledCandidates as SampledCandidates
    from ipseval.ratings import evaluate_ratings as evaluate_ratings
    from ipseval.sampled_metrics import correct_sampled as correct_sampled
    from ipseval.sampled_metrics import corrected_metric as corrected_metric
    from ipseval.sampled_metrics import equivalent_cutoff as equivalent_cutoff
    from ipseval.sampled_metrics import expected_sampled as expected_sampled
    from ipseval.splits import Split as Split
    from ipseval.splits import k_core as k_core
    from ipseval.splits import repeated_splits as repeated_splits
    from ipseval.splits import split_global_time as split_global_time
    from ipseval.splits import split_leave_one_out as split_leave_one_out
    from ipseval.splits import split_random as split_random
    from ipseval.splits import split_temporal as split_temporal
    from ipseval.validation import validate as validate

__version__ = "0.1.0"

# Where each public name lives.
_HOME = {
    "rank_positives": "adapters",
    "order_agreement": "agreement",
    "DataWarning": "errors",
    "IdentificationWarning": "errors",
    "InputError": "errors",
    "IpsevalError": "errors",
    "PositivityWarning": "errors",
    "PropensityError": "errors",
    "UnknownNameError": "errors",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "evaluate_ranks": "evaluation",
    "Interactions": "interactions",
    "metric": "metrics",
    "DensityRatioPropensity": "propensity",
    "DirectPropensity": "propensity",
    "Exposure": "propensity",
    "GammaFit": "propensity",
    "KnownPropensity": "propensity",
    "PowerLawPropensity": "propensity",
    "Propensity": "propensity",
    "StratifiedPropensity": "propensity",
    "count_recommendations": "propensity",
    "fit_gamma": "propensity",
    "fit_gamma_from_exposure": "propensity",
    "fit_popularity_exponent": "propensity",
    "RankedPositives": "ranking",
    "SampledCandidates": "ranking",
    "evaluate_ratings": "ratings",
    "correct_sampled": "sampled_metrics",
    "corrected_metric": "sampled_metrics",
    "equivalent_cutoff": "sampled_metrics",
    "expected_sampled": "sampled_metrics",
    "Split": "splits",
    "k_core": "splits",
    "repeated_splits": "splits",
    "split_global_time": "splits",
    "split_leave_one_out": "splits",
    "split_random": "splits",
    "split_temporal": "splits",
    "validate": "validation",
}
_MODULES = (
    "adapters",
    "agreement",
    "baselines",
    "datasets",
    "distributed",
    "errors",
    "estimators",
    "inference",
    "metrics",
    "plots",
    "propensity",
    "protocols",
    "sampled_metrics",
    "simulation",
    "testing",
    "validation",
)

__all__ = [*_HOME, *_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    """Return a public name, loading the module it lives in."""
    if name in _HOME:
        value = getattr(importlib.import_module(f"ipseval.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"ipseval.{name}")
    else:
        raise AttributeError(f"module 'ipseval' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
