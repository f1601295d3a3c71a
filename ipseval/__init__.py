"""ipseval: unbiased offline evaluation of recommenders from implicit feedback.

Logged clicks and purchases are missing not at random; a plain average over observed positives (AOA)
favours recommenders of popular items. ipseval weights each positive by its inverse propensity (IPS, SNIPS),
states the uncertainty of every number, and says what is claimed of it.

Names are loaded from their modules when they are first used, so that importing the package takes no time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from ipseval.propensity import KnownPropensity as KnownPropensity
    from ipseval.propensity import PowerLawPropensity as PowerLawPropensity
    from ipseval.propensity import Propensity as Propensity
    from ipseval.ranking import RankedPositives as RankedPositives
    from ipseval.ranking import rank_positives as rank_positives
    from ipseval.splits import Split as Split
    from ipseval.splits import split_random as split_random

__version__ = "0.1.0"

# Where each public name lives.
_HOME = {
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
    "KnownPropensity": "propensity",
    "PowerLawPropensity": "propensity",
    "Propensity": "propensity",
    "RankedPositives": "ranking",
    "rank_positives": "ranking",
    "Split": "splits",
    "split_random": "splits",
}
_MODULES = ("baselines", "datasets", "errors", "metrics", "simulation")

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
