"""Private names of ipseval.metrics that tests reach for."""

from __future__ import annotations

from ipseval.metrics import _ideal_list
from ipseval.metrics._auc import Auc
from ipseval.metrics._average_precision import _subset_sums
from ipseval.metrics._first_relevant import mean_products, miss_probability
from ipseval.metrics._ideal_list import Ndcg, Precision, Rbp, _expected_without_each, sort_descending
from ipseval.metrics._order_statistics import (
    gauss_sum,
    mean_reciprocal,
    mean_reciprocals,
    order_statistic,
)
from ipseval.metrics._ties import PrefixSums, mean_rank
from ipseval.metrics._user_buckets import user_buckets
from ipseval.metrics.additive import Dcg, Recall
from ipseval.metrics.rating_metrics import RATING_METRICS, RatedPairs, rating_metric
from ipseval.metrics.sampled import (
    _correction_table,
    _expectation,
    _rank_distribution,
    _rank_law,
)
from ipseval.metrics.sampled._correction import _interpolate_tables, _select_knots, prior_kind
from ipseval.metrics.sampled._correction_table import (
    _format_condition,
    _normal_equations,
    correction_table,
    mean_over_ties,
)
from ipseval.metrics.sampled._rank_distribution import (
    build_refit,
    divide_or_zero,
    fit_rank_distribution,
    group_by_size,
)
from ipseval.metrics.sampled._sampled_ranks import add_extreme_users
