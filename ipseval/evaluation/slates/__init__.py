"""Evaluation of slates and queries, in which every query has its own candidates: the items listed for it.

Impressions, search results and the scored lists of link prediction have this form: rows of query, item, score
and label. All metrics are computed within the query. The queries of one user are not independent, so standard
errors are computed from sums over the queries of a user.
"""

from __future__ import annotations

from ipseval.evaluation.slates._evaluate import evaluate_slates
from ipseval.evaluation.slates._rank import rank_slates
from ipseval.evaluation.slates._read import read_mind, read_trec
from ipseval.evaluation.slates._slates import Slates

__all__ = ["Slates", "evaluate_slates", "rank_slates", "read_mind", "read_trec"]
