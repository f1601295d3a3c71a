"""Private names of the ground that tests reach for."""

from __future__ import annotations

from ipseval.utils import artefacts, checks, codec, columns, compute, ids, registry
from ipseval.utils.annotations import fits_annotation
from ipseval.utils.codec import CLASSES, add_members
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.ids import (
    align_rows,
    grouped_order,
    is_member,
    mark_repeats,
    ranks_within_group,
    same_ids,
    to_id_array,
    union_keys,
    unique_keys,
)
from ipseval.utils.notes import Count, SourceCount, counts_frame, drop_zero_counts, merge_counts
from ipseval.utils.public import missing_attribute, public_function
from ipseval.utils.stored_classes import STORED_CLASSES
from ipseval.utils.types import FloatArray, as_readonly, build_unchecked, copy_if_writable, freeze
