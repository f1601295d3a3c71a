"""Private names of ipseval.validation that tests reach for."""

from __future__ import annotations

from ipseval.validation._accumulator import _mean_absolute_noise
from ipseval.validation._calibration import Calibration, resolve_propensity, with_seeds
from ipseval.validation._criteria import (
    CRITERIA,
    Estimates,
    compute_criteria,
    draw_user_weights,
    resample_estimates,
)
from ipseval.validation._curve import (
    DENSITY_RATIO,
    POWER_LAW,
    SCORES,
    WITH_INTERACTIONS,
    _score_estimates,
)
from ipseval.validation._population import PairedPositives, exposure_outside_training
from ipseval.validation._result import describe_verdict
from ipseval.validation.datasets import _files
from ipseval.validation.datasets._kuairand_logs import _check_published_rows as check_published_rows
from ipseval.validation.simulation._sampling import ItemTable, Taste, draw_distinct, uniform_hash
from ipseval.validation.simulation._world import compute_truth as truth
from ipseval.validation.validation_study import _train_pure_svd
