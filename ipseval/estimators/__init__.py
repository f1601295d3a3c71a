"""Estimators: how values of users are weighted and averaged, and what is claimed of the result."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.estimators._base import Estimator, LinearForm, Parts
from ipseval.estimators._claims import Claim
from ipseval.estimators._estimate import Estimate, card, claim
from ipseval.estimators._labels import ESTIMATORS
from ipseval.estimators._sample import Sample
from ipseval.estimators._sums import UserSums

__all__ = [
    "ESTIMATORS",
    "Claim",
    "Estimate",
    "Estimator",
    "LinearForm",
    "Parts",
    "Sample",
    "UserSums",
    "card",
    "claim",
]

guard(__name__)
