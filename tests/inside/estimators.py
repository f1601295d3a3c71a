"""Private names of ipseval.estimators that tests reach for."""

from __future__ import annotations

from ipseval.estimators.estimate import build_estimate, estimate
from ipseval.estimators.labels import (
    AOA_POOLED,
    ESTIMATOR_CLASSES,
    ESTIMATORS_SHOWN,
    SNIPS_POOLED,
    resolve_estimator,
)
from ipseval.estimators.sample import SampleSize, build_sample, check_sampled_lists
from ipseval.estimators.snips import sum_weighted_contributions
from ipseval.estimators.user_sums import Moments
