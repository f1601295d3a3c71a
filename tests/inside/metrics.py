"""Private names of ipseval.metrics that tests reach for."""

from __future__ import annotations

from ipseval.metrics import _ideal_list, _order_statistics
from ipseval.metrics._auc import Auc
from ipseval.metrics._average_precision import _compute_subset_sums
from ipseval.metrics._first_relevant import compute_mean_products, compute_miss_probability
from ipseval.metrics._ideal_list import Ndcg, Precision, Rbp, _leave_one_out_expectations, sort_descending
from ipseval.metrics._order_statistics import (
    compute_gauss_rule,
    compute_mean_reciprocal,
    compute_order_statistic,
    interpolate_mean_reciprocals,
)
from ipseval.metrics._ties import PrefixSums, compute_mean_rank
from ipseval.metrics._user_buckets import build_user_buckets
from ipseval.metrics.additive import Dcg, Recall
from ipseval.metrics.base import cache_last, describe_plug_in
from ipseval.metrics.rating_metrics import RATING_METRICS, RatedPairs, resolve_rating_metric
from ipseval.metrics.sampled import (
    _correction_table,
    _expectation,
    _rank_distribution,
    _rank_law,
)
from ipseval.metrics.sampled._correction import _interpolate_tables, _select_knots, classify_prior
from ipseval.metrics.sampled._correction_table import (
    _accumulate_normal_equations,
    _format_condition,
    average_tied_values,
    compute_correction_table,
)
from ipseval.metrics.sampled._rank_distribution import (
    build_refit,
    compute_fitted_correction,
    divide_or_zero,
    fit_rank_distribution,
    group_by_size,
)
from ipseval.metrics.sampled._sampled_ranks import add_extreme_users, read_sampled_ranks
