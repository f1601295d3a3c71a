"""Private names of the ground that tests reach for."""

from __future__ import annotations

from ipseval.utils import artefacts, checks, codec, columns, compute, ids, registry
from ipseval.utils.annotations import fits_annotation
from ipseval.utils.codec import CLASSES, PLACES
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.counts import Count, added, counts_frame, some
from ipseval.utils.ids import (
    among,
    by_row,
    distinct,
    grouped_order,
    ranks_within_group,
    repeated,
    same_ids,
    to_id_array,
    union,
)
from ipseval.utils.public import missing_attribute, public_function
from ipseval.utils.types import FloatArray, freeze, owned, readonly, unchecked
