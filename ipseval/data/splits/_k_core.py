"""The k-core of a log, in which every user and every item has at least k interactions."""

from __future__ import annotations

import numpy as np

from ipseval.data.interactions import Interactions
from ipseval.data.splits._inputs import LogLike, to_interactions
from ipseval.errors import InputError
from ipseval.utils.checks import check_positive_int
from ipseval.utils.notes import Count, drop_zero_counts
from ipseval.utils.public import public_function
from ipseval.utils.types import BoolArray


@public_function
def k_core(log: LogLike, k: int = 5) -> Interactions:
    """Return the largest part of a log in which every user and every item has at least k interactions.

    Users and items with fewer interactions are removed, with their interactions, until all have at least k.
    The result does not depend on the order of removal. Removed ids leave the universe, so that they are not
    candidates either. Rows keep their order.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        The log. The clicked pairs of an impression log are used; a frame is read by `ipseval.read`.
    k : int
        Smallest number of interactions, at least 1. Default: 5.

    Returns
    -------
    Interactions
        The core; its `n_users_removed`, `n_items_removed` and `n_pairs_removed` count the removals.

    Raises
    ------
    InputError
        If no interaction is left.

    See Also
    --------
    ipseval.split_random : Split the remaining interactions at random.
    ipseval.split_global_time : Split them at a point in time.

    Examples
    --------
    User 2 has one interaction and is removed; then item 2 has one left and is removed too.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1, 1, 2], "item": [0, 1, 0, 1, 2, 2]})
    >>> core = k_core(Interactions.from_frame(frame), 2)
    >>> core, (core.n_users_removed, core.n_items_removed, core.n_pairs_removed)
    (Interactions(4 pairs, 2 users, 2 items), (1, 1, 2))
    """
    interactions = to_interactions(log)
    k = check_positive_int("k", k)
    in_core = _find_core_rows(interactions, k)
    if not in_core.any():
        raise InputError(f"the {k}-core of {interactions!r} is empty; use a smaller k.")
    core = interactions.select(in_core)
    keeps_user = core.activity > 0
    keeps_item = core.popularity > 0
    n_users_removed = int((~keeps_user).sum())
    n_items_removed = int((~keeps_item).sum())
    n_pairs_removed = int((~in_core).sum())
    counts = drop_zero_counts(
        Count("users removed by a k-core", n_users_removed, keeps_user.size, code="exclusion"),
        Count("items removed by a k-core", n_items_removed, keeps_item.size, code="exclusion"),
        Count("pairs removed by a k-core", n_pairs_removed, in_core.size, code="exclusion"),
    )
    new_user_codes = np.cumsum(keeps_user) - 1
    new_item_codes = np.cumsum(keeps_item) - 1
    return core._replace_unchecked(
        row_counts=interactions.row_counts + counts,
        user=new_user_codes[core.user],
        item=new_item_codes[core.item],
        user_ids=interactions.user_ids[keeps_user],
        item_ids=interactions.item_ids[keeps_item],
        n_users_removed=interactions.n_users_removed + n_users_removed,
        n_items_removed=interactions.n_items_removed + n_items_removed,
        n_pairs_removed=interactions.n_pairs_removed + n_pairs_removed,
    )


def _find_core_rows(log: Interactions, k: int) -> BoolArray:
    """Return the rows of a log that are in its k-core as a mask, (n,)."""
    rows = np.arange(len(log))
    while True:
        user = log.user[rows]
        item = log.item[rows]
        has_few_interactions = (np.bincount(user) < k)[user] | (np.bincount(item) < k)[item]
        if not has_few_interactions.any():
            break
        rows = rows[~has_few_interactions]
    in_core = np.zeros(len(log), dtype=bool)
    in_core[rows] = True
    return in_core
