"""The order of the rows and columns of arrays without labels, which the ids of the data do not determine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ipseval.data.sparse import is_sparse_matrix
from ipseval.data.splits import Split
from ipseval.errors import DataWarning
from ipseval.utils.checks import format_examples, warn_user
from ipseval.utils.types import AnyArray, IntArray

MOST_DIGITS = 18  # of numbers that fit into 64 bits


def warn_about_order(models: Mapping[str, object], split: Split, *, has_users: bool, has_items: bool) -> None:
    """Warn that rows and columns of arrays are matched to sorted ids, where another order is as usual.

    Ids that are the numbers 0, 1, 2, … are positions, and ids that occur in sorted order leave no choice.
    `has_users` and `has_items` tell whether the caller has named the ids in order.
    """
    names = []
    for name, model in models.items():
        if is_unlabelled(model):
            names.append(repr(name))

    if not names:
        return
    axes = []
    if not has_users and _is_order_open(split.user_ids, split.train.user):
        axes.append(f"rows are the users {format_examples(split.user_ids)}")
    if not has_items and _is_order_open(split.item_ids, split.train.item):
        axes.append(f"columns are the items {format_examples(split.item_ids)}")
    if not axes:
        return
    warn_user(
        f"arrays without labels ({', '.join(names)}) are matched to sorted ids: {', and '.join(axes)}.",
        DataWarning,
        advice="Pass users= and items=, the ids in the order of the rows and columns, if theirs is another",
    )


def is_unlabelled(model: object) -> bool:
    """Return whether a model is an array, a matrix, or factors, without ids of its rows."""
    if isinstance(model, tuple):
        return bool(model) and all(part is None or is_unlabelled(part) for part in model)
    return isinstance(model, np.ndarray) or is_sparse_matrix(model)


def _is_order_open(ids: AnyArray, codes: IntArray) -> bool:
    """Return whether ids are not their positions, and occur first in another order than the sorted one."""
    if np.array_equal(ids, np.arange(ids.size)):
        return False
    first_codes = pd.unique(codes)
    return bool((np.diff(first_codes) < 0).any())


def find_positions_by_number(ids: AnyArray) -> IntArray | None:
    """Return the positions of sorted ids in the order of the numbers at their ends.

    None if the ids are no text of one prefix and a number, or if both orders are the same.

    Examples
    --------
    >>> find_positions_by_number(np.array(["i1", "i10", "i2"], dtype=object)).tolist()
    [0, 2, 1]
    """
    if ids.size < 2 or not (isinstance(ids[0], str) and isinstance(ids[-1], str)):
        return None
    prefix = ids[0].rstrip("0123456789")
    if not ids[-1].startswith(prefix):
        return None
    # All ids are between the first and the last one, and therefore begin with the prefix.
    endings = [text[len(prefix) :] for text in ids.tolist()]
    if not all(ending.isdecimal() and len(ending) <= MOST_DIGITS for ending in endings):
        return None
    numbers = np.fromiter(map(int, endings), dtype=np.int64, count=ids.size)
    positions = np.empty(ids.size, dtype=np.int64)
    positions[np.argsort(numbers, kind="stable")] = np.arange(ids.size)
    if (np.diff(positions) > 0).all():
        return None
    return positions
