"""Private names of ipseval.policies that tests reach for."""

from __future__ import annotations

from ipseval.policies._click_rates import (
    STRENGTHS,
    click_rates,
    count_interval,
    cross_fitted,
    difference_interval,
    shrunk_factors,
)
from ipseval.policies._evaluate_rewards import shown_weights, sum_candidates
from ipseval.policies._result import mean_of
from ipseval.policies.rewards._models import ShownData, _truncated_svd
