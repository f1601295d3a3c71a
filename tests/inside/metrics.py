"""Private names of ipseval.metrics that tests reach for."""

from __future__ import annotations

from ipseval.metrics import _ndcg
from ipseval.metrics._auc import Auc
from ipseval.metrics._average_precision import _subset_sums
from ipseval.metrics._base import buckets, simple_rank
from ipseval.metrics._dcg import Dcg
from ipseval.metrics._ideal_list import largest_first
from ipseval.metrics._ndcg import Ndcg, _expected_without_each
from ipseval.metrics._precision import Precision
from ipseval.metrics._quadrature import gauss_sum
from ipseval.metrics._ratings import RATING_METRICS, rating_metric
from ipseval.metrics._rbp import Rbp
from ipseval.metrics._tied_places import mean_reciprocal, mean_reciprocals, order_statistic
from ipseval.metrics._ties import Prefix, mean_products, miss_probability
from ipseval.metrics.sampled import _laws
from ipseval.metrics.sampled._fitted import refitted
from ipseval.metrics.sampled._tables import _sums
