"""The ids of all partitions: items in the order of the catalogue, and what is counted of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ipseval._types import AnyArray, IntArray
from ipseval.errors import InputError


def universe(ids: Any) -> AnyArray:
    """Return distinct ids, sorted, as `Split.from_frames` orders them."""
    array = np.asarray(ids)
    return np.sort(array.astype(object) if array.dtype.kind in "US" else array)


def popularity_of(items: AnyArray, counted: AnyArray, counts: AnyArray) -> IntArray:
    """Return the counts in the order of `items`, 0 for an item that was not counted."""
    place = pd.Index(items).get_indexer(pd.Index(counted))
    if (place < 0).any():
        raise InputError(f"{int((place < 0).sum())} items of the training data are not in the given items.")
    popularity = np.zeros(len(items), dtype=np.int64)
    popularity[place] = counts
    return popularity
