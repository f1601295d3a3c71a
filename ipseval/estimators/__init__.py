"""Estimators: how values of users are weighted and averaged, and what is claimed of the result."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.estimators._base import Estimator
from ipseval.estimators._claims import Claim
from ipseval.estimators._estimate import Estimate, card, claim
from ipseval.estimators._ips import Ips
from ipseval.estimators._labels import ESTIMATORS
from ipseval.estimators._linear_form import LinearForm, Parts
from ipseval.estimators._sample import Sample
from ipseval.estimators._sums import UserSums
from ipseval.estimators.aoa import Aoa
from ipseval.estimators.snips import ShrunkSnips, Snips

__all__ = [
    "ESTIMATORS",
    "Aoa",
    "Claim",
    "Estimate",
    "Estimator",
    "Ips",
    "LinearForm",
    "Parts",
    "Sample",
    "ShrunkSnips",
    "Snips",
    "UserSums",
    "card",
    "claim",
]

guard(__name__)
