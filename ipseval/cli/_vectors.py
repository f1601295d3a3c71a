"""Vectors of items for the diversity of lists: an array, or a table with a row per item."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

from ipseval._base.checks import counted, examples
from ipseval.cli._files import spec_of, table_of
from ipseval.errors import InputError

if TYPE_CHECKING:
    from ipseval.data.splits import Split


def vectors_of(options: argparse.Namespace, split: Split, measures: list[str] | None) -> Any:
    """Return the vectors of --item-vectors in the order of the items; None without it.

    Raises
    ------
    InputError
        When no measure reads them; for a table without a column of items or with other columns than numbers,
        for items that repeat, that have no vector, or that are not in the catalogue.
    """
    from ipseval._base.array_files import ARRAYS, read_array
    from ipseval.evaluation.beyond import measure

    entry = options.item_vectors
    needed = any(measure(one).name == "ild" for one in measures or ())
    if entry is None:
        if needed:
            raise InputError("ild@k reads vectors of the items; pass --item-vectors FILE.")
        return None
    if not needed:
        raise InputError("--item-vectors is read by ild@k alone; name it in --beyond.")
    if spec_of(entry, ("item",)).path.lower().endswith(ARRAYS):
        return _in_order(read_array(entry), split, entry)
    return _matched(table_of(entry, {"item": options.item}), split, entry, drop=options.unknown == "drop")


def _in_order(array: Any, split: Split, entry: str) -> Any:
    if array.ndim != 2 or array.shape[0] != split.n_items:
        raise InputError(
            f"{entry} must have a row for each of {split.n_items:,} items, in the order of the sorted ids or "
            f"of --items; got shape {array.shape}. A table with a column item is matched by ids."
        )
    return array


def _matched(table: Any, split: Split, entry: str, *, drop: bool) -> Any:
    from ipseval._base.ids import places, to_id_array

    if "item" not in table.columns:
        raise InputError(
            f"{entry} has no column 'item'; it has {', '.join(map(str, table.columns[:12]))}. Name it as in "
            f"{entry}:item=COLUMN."
        )
    what = f"column 'item' of {entry}"
    ids, numbers = to_id_array(table["item"].to_numpy(), what), _numbers(table.drop(columns="item"), entry)
    where = places(ids, split.item_ids, what)
    unknown = where < 0
    if unknown.any() and not drop:
        raise InputError(
            f"{entry} has vectors of {counted(int(unknown.sum()), 'item')} outside the catalogue "
            f"({examples(ids[unknown])}). Pass --unknown drop to leave them out."
        )
    vectors = np.full((split.n_items, numbers.shape[1]), np.nan)
    vectors[where[~unknown]] = numbers[~unknown]
    lacking = np.ones(split.n_items, dtype=bool)
    lacking[where[~unknown]] = False
    if lacking.any():
        raise InputError(
            f"{entry} has no vector for {int(lacking.sum()):,} of {split.n_items:,} items "
            f"({examples(split.item_ids[lacking])}); every item needs one."
        )
    return vectors


def _numbers(table: Any, entry: str) -> Any:
    """Return the coordinates: a column for each, or one column of arrays of one length."""
    if table.shape[1] == 1 and table.dtypes.iloc[0].kind == "O":
        rows = [np.asarray(one) for one in table.iloc[:, 0]]
        sizes = {one.shape for one in rows}
        if len(sizes) != 1 or len(next(iter(sizes))) != 1 or any(one.dtype.kind not in "iuf" for one in rows):
            raise InputError(f"{entry}: the vectors in column {table.columns[0]!r} must be of one length.")
        return np.stack(rows).astype(np.float64)
    words = [str(name) for name, kind in table.dtypes.items() if kind.kind not in "iufb"]
    if words or not table.shape[1]:
        found = f"columns {', '.join(words)} are not" if words else "there is none"
        raise InputError(f"{entry}: beside item, every column is a coordinate, a number; {found}.")
    return table.to_numpy(dtype=np.float64)
