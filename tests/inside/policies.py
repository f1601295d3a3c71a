"""Private names of ipseval.policies that tests use."""

from __future__ import annotations

from ipseval.policies._click_rates import (
    STRENGTHS,
    count_interval,
    cross_fit_click_rates,
    difference_interval,
    estimate_click_rates,
    shrink_factors,
)
from ipseval.policies._evaluate_rewards import compute_pair_weights, sum_candidates
from ipseval.policies._result import estimate_ratio
from ipseval.policies.rewards._models import ShownData, _compute_truncated_svd
