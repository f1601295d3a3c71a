"""ipseval: unbiased offline evaluation of recommenders from implicit feedback.

Logged clicks and purchases are missing not at random; a plain average over observed positives (AOA)
favours recommenders of popular items. ipseval weights each positive by its inverse propensity (IPS, SNIPS),
states the uncertainty of every number, and says what is claimed of it.
"""

from __future__ import annotations

from ipseval.errors import (
    DataWarning,
    IdentificationWarning,
    InputError,
    IpsevalError,
    PositivityWarning,
    PropensityError,
    UnknownNameError,
)
from ipseval.evaluation import Evaluation, evaluate, evaluate_ranks
from ipseval.interactions import Interactions
from ipseval.metrics import metric
from ipseval.propensity import KnownPropensity, PowerLawPropensity, Propensity
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.splits import Split, split_random

__version__ = "0.1.0"

__all__ = [
    "DataWarning",
    "Evaluation",
    "IdentificationWarning",
    "InputError",
    "Interactions",
    "IpsevalError",
    "KnownPropensity",
    "PositivityWarning",
    "PowerLawPropensity",
    "Propensity",
    "PropensityError",
    "RankedPositives",
    "Split",
    "UnknownNameError",
    "__version__",
    "evaluate",
    "evaluate_ranks",
    "metric",
    "rank_positives",
    "split_random",
]
