"""Private names of ipseval.distributed that tests reach for."""

from __future__ import annotations

from ipseval.distributed import _duckdb, partition, plan, sorted_pairs
from ipseval.distributed._blocks import pack_blocks, unpack_blocks
from ipseval.distributed.partition import add_rows, build_catalogue, count_rows, reduce_partition
from ipseval.distributed.plan import _fit_propensity, finish_evaluation, make_plan, split_models
from ipseval.distributed.sorted_pairs import Catalogue, ListArrays, Pairs
