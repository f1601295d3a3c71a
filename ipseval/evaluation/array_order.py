"""The order of the rows and columns of arrays without labels, which the ids of the data do not determine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ipseval.data.splits import Split
from ipseval.errors import DataWarning
from ipseval.evaluation.sanity import is_unlabelled
from ipseval.utils.checks import format_examples, warn_user
from ipseval.utils.types import AnyArray, IntArray


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


def _is_order_open(ids: AnyArray, codes: IntArray) -> bool:
    """Return whether ids are not their positions, and occur first in another order than the sorted one."""
    if np.array_equal(ids, np.arange(ids.size)):
        return False
    first_codes = pd.unique(codes)
    return bool((np.diff(first_codes) < 0).any())
