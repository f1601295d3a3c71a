"""Private names of ipseval.estimators that tests reach for."""

from __future__ import annotations

from ipseval.estimators import _sample
from ipseval.estimators._average import Average
from ipseval.estimators._card import ESTIMATORS_SHOWN
from ipseval.estimators._estimate import FITTED, estimate
from ipseval.estimators._extent import Extent
from ipseval.estimators._ips import Ips
from ipseval.estimators._labels import AOA_POOLED, SNIPS_POOLED, resolve_estimator
from ipseval.estimators._moments import Moments
from ipseval.estimators._sample import weighted_sample
from ipseval.estimators._shrunk import ShrunkSnips
