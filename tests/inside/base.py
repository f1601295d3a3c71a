"""Private names of the ground that tests reach for."""

from __future__ import annotations

from ipseval._base import artefacts, border, checks, codec, columns, compute, ids, registry
from ipseval._base.border import _guarded, fits
from ipseval._base.codec import CLASSES, PLACES
from ipseval._base.compute import one_blas_thread
from ipseval._base.counts import Count, added, counts_frame, some
from ipseval._base.ids import (
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
from ipseval._base.types import FloatArray, freeze, owned, readonly, unchecked
