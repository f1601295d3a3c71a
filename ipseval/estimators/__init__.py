"""Estimators of a metric from observed positives, and their statistical guarantees."""

from __future__ import annotations

from ipseval.estimators._linear_form import LinearForm, Parts
from ipseval.estimators.aoa import Aoa
from ipseval.estimators.base import Estimator
from ipseval.estimators.estimate import Estimate, card, claim
from ipseval.estimators.guarantees import Claim
from ipseval.estimators.ips import Ips
from ipseval.estimators.labels import ESTIMATORS
from ipseval.estimators.sample import Sample
from ipseval.estimators.snips import ShrunkSnips, Snips
from ipseval.estimators.user_sums import UserSums
from ipseval.utils.notes import Note

__all__ = [
    "ESTIMATORS",
    "Aoa",
    "Claim",
    "Estimate",
    "Estimator",
    "Ips",
    "LinearForm",
    "Note",
    "Parts",
    "Sample",
    "ShrunkSnips",
    "Snips",
    "UserSums",
    "card",
    "claim",
]
