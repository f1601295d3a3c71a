"""Estimators: how values of users are weighted and averaged, and what is claimed of the result."""

from __future__ import annotations

from ipseval._border import guard
from ipseval.estimators._average import Average
from ipseval.estimators._base import Estimator, Target
from ipseval.estimators._card import ESTIMATORS_SHOWN, card, claim
from ipseval.estimators._claims import Claim, NRelevant
from ipseval.estimators._dm import DirectMethod
from ipseval.estimators._dr import DoublyRobust
from ipseval.estimators._estimate import Estimate, estimate, estimate_of, independent_sums
from ipseval.estimators._extent import Extent
from ipseval.estimators._ips import Ips
from ipseval.estimators._labels import (
    AOA,
    AOA_POOLED,
    DM,
    DR,
    ESTIMATORS,
    IPS,
    SNIPS,
    SNIPS_GLOBAL,
    SNIPS_POOLED,
    default_estimators,
    plain_estimator,
    resolve_estimator,
)
from ipseval.estimators._linear import LinearForm
from ipseval.estimators._moments import MergedSums, Moments
from ipseval.estimators._parts import Parts
from ipseval.estimators._rewarded import Rewarded, RewardedMetric
from ipseval.estimators._sample import NRelevantLike, Sample, weighted_sample
from ipseval.estimators._shrunk import ShrunkSnips
from ipseval.estimators._snips_shown import SnipsShown
from ipseval.estimators._sums import UserSums

__all__ = [
    "AOA",
    "AOA_POOLED",
    "DM",
    "DR",
    "ESTIMATORS",
    "ESTIMATORS_SHOWN",
    "IPS",
    "SNIPS",
    "SNIPS_GLOBAL",
    "SNIPS_POOLED",
    "Average",
    "Claim",
    "DirectMethod",
    "DoublyRobust",
    "Estimate",
    "Estimator",
    "Extent",
    "Ips",
    "LinearForm",
    "MergedSums",
    "Moments",
    "NRelevant",
    "NRelevantLike",
    "Parts",
    "Rewarded",
    "RewardedMetric",
    "Sample",
    "ShrunkSnips",
    "SnipsShown",
    "Target",
    "UserSums",
    "card",
    "claim",
    "default_estimators",
    "estimate",
    "estimate_of",
    "independent_sums",
    "plain_estimator",
    "resolve_estimator",
    "weighted_sample",
]

guard(__name__)
