"""Private names of ipseval.ranking that tests reach for."""

from __future__ import annotations

from ipseval.ranking import (
    _exact,
    _exact_topk,
    _factors,
    _parquet,
    _passes,
    _threads,
    top_lists,
)
from ipseval.ranking._exact_topk import DuplicateItems, twins
from ipseval.ranking._factors import STEP_PART, Factors, common_step
from ipseval.ranking._passes import comparable
from ipseval.ranking._sampled import Drawer, _skip
from ipseval.ranking._sampling import Sampling, counted_above
from ipseval.ranking._scorers import CallableScorer, DenseScorer, SparseScorer, as_scorer
from ipseval.ranking._threads import Resources, kernels_for
from ipseval.ranking.adapters._base import align
from ipseval.ranking.adapters.registry import ADAPTERS
from ipseval.ranking.candidates import (
    CandidateLists,
    Targets,
    as_candidates,
    restrict_items,
    restrict_lists,
    without,
)
from ipseval.ranking.lists import is_list_frame, rank_lists, resolve_lists
from ipseval.ranking.top_lists import TopK, TopLists, reaching
