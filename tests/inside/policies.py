"""Private names of ipseval.policies that tests reach for."""

from __future__ import annotations

from ipseval.policies._candidate_sums import shown_weights, sum_candidates
from ipseval.policies._rates import difference_interval, weighted_rate_interval
from ipseval.policies._rewards import STRENGTHS, click_rates, shrunk_factors
