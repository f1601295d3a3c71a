"""Private names of ipseval.estimators that tests reach for."""

from __future__ import annotations

from ipseval.estimators.estimate import FITTED, build_estimate, estimate
from ipseval.estimators.labels import (
    AOA_POOLED,
    ESTIMATORS_SHOWN,
    SNIPS_POOLED,
    can_exceed_range,
    resolve_estimator,
)
from ipseval.estimators.sample import Extent, check_sampled_lists, weighted_sample
from ipseval.estimators.snips import normalized_user_values
from ipseval.estimators.user_sums import Moments
