"""The ids of all partitions: items in the order of the catalogue, and what is counted of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.types import AnyArray, IntArray
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


def count_rows(frame: pd.DataFrame, column: str, number: int) -> pd.DataFrame:
    """Return the ids in a column, each once, with their rows as `trained` (number 0) or `tested` (1)."""
    counts = frame[column].value_counts(sort=False).astype(np.int64)
    return pd.DataFrame({"trained": counts * (number == 0), "tested": counts * (number == 1)})


def add_rows(counts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the sums of such counts, id by id."""
    return pd.concat(counts).groupby(level=0, sort=False).sum()


def catalogue(counts: pd.DataFrame, items: Any | None) -> tuple[AnyArray, IntArray]:
    """Return the ids of all items, and the training rows of each, from counts of rows."""
    ids = universe(counts.index.to_numpy()) if items is None else np.asarray(items)
    counted = counts[counts["trained"] > 0]
    return ids, popularity_of(ids, counted.index.to_numpy(), counted["trained"].to_numpy())
