"""Private names of ipseval.validation that tests reach for."""

from __future__ import annotations

from ipseval.validation._calibration import Calibration, resolve_propensity, seeded
from ipseval.validation._collected import _noise
from ipseval.validation._criteria import CRITERIA, Estimates, criteria, resampled, user_weights
from ipseval.validation._curve import DENSITY_RATIO, POWER_LAW, SCORES, WITH_INTERACTIONS, _scores
from ipseval.validation._population import Compared, shown_outside
from ipseval.validation._result import _verdict as validation_verdict
from ipseval.validation.datasets import _files
from ipseval.validation.simulation._sampling import draw_distinct, uniform_hash
from ipseval.validation.simulation._world import truth
from ipseval.validation.validation_study import _pure_svd
