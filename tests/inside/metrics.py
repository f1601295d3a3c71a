"""Private names of ipseval.metrics that tests reach for."""

from __future__ import annotations

from ipseval.metrics import _ideal_list
from ipseval.metrics._additive import Dcg, Recall
from ipseval.metrics._ideal_list import Ndcg, Precision, Rbp, _expected_without_each, largest_first
from ipseval.metrics._pairwise import Auc, _subset_sums
from ipseval.metrics._ties import (
    Prefix,
    gauss_sum,
    mean_products,
    mean_reciprocal,
    mean_reciprocals,
    miss_probability,
    order_statistic,
)
from ipseval.metrics.base import buckets, mean_rank
from ipseval.metrics.rating_metrics import RATING_METRICS, RatedPairs, rating_metric
from ipseval.metrics.sampled import _expected as _laws
from ipseval.metrics.sampled import _tables
from ipseval.metrics.sampled._correct import _between, _knots, prior_kind
from ipseval.metrics.sampled._data import with_best_and_worst
from ipseval.metrics.sampled._tables import (
    _groups,
    _shown,
    _sums,
    correction_table,
    fit_rank_distribution,
    mean_over_ties,
    ratio,
    refitted,
)
