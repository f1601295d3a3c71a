"""Private names of ipseval.ranking that tests use."""

from __future__ import annotations

from ipseval.ranking import (
    _duplicate_items,
    _factor_topk,
    _factors,
    _parquet,
    _rank_counts,
    exact_ranks,
    top_lists,
)
from ipseval.ranking._duplicate_items import DuplicateItems, group_equal_rows
from ipseval.ranking._factors import STEP_PART, Factors, common_step
from ipseval.ranking._rank_counts import SMALL_WORK, Work, select_kernels, to_comparable
from ipseval.ranking._sampled_candidates import Drawer, positions_to_items
from ipseval.ranking._sampling import Sampling, count_ranked_above
from ipseval.ranking._scorers import CallableScorer, DenseScorer, SparseScorer, as_scorer, is_score_array
from ipseval.ranking.adapters._model_scores import align
from ipseval.ranking.adapters.registry import ADAPTERS
from ipseval.ranking.candidates import (
    CandidateLists,
    HeldOutPositives,
    as_candidates,
    keep_candidates,
    restrict_items,
    restrict_lists,
)
from ipseval.ranking.lists import convert_lists, is_list_frame, rank_lists, resolve_lists
from ipseval.ranking.top_lists import TopKCollector, TopListBuilder, TopLists, entries_above_bound
