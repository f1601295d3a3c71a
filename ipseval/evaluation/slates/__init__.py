"""Slates and queries: every query has its own candidates, exactly the items that are listed for it.

Impressions, search results, and the scored lists of link prediction are the same: rows of query, item, score
and label. All metrics are computed within the query. The queries of one user are not independent: errors are
those of sums over a user's queries.
"""

from __future__ import annotations

from ipseval.evaluation.slates._evaluate import evaluate_slates
from ipseval.evaluation.slates._rank import rank_slates
from ipseval.evaluation.slates._read import read_mind, read_trec
from ipseval.evaluation.slates._slates import Slates
from ipseval.utils.border import guard

__all__ = ["Slates", "evaluate_slates", "rank_slates", "read_mind", "read_trec"]

guard(__name__)
