"""The k-core of a log: every user and every item keeps at least k interactions."""

from __future__ import annotations

import numpy as np

from ipseval.data.interactions import Interactions
from ipseval.data.splits._rows import LogLike, as_log
from ipseval.errors import InputError
from ipseval.utils.checks import check_positive_int
from ipseval.utils.counts import Count, some


def k_core(log: LogLike, k: int = 5) -> Interactions:
    """Return the largest part of a log in which every user and every item has at least k interactions.

    Users and items with fewer are removed, with their interactions, until none is left: the result is
    stable and does not depend on the order of removal. Removed ids leave the universe, so they are no
    candidates either; `n_users_removed`, `n_items_removed` and `n_pairs_removed` of the result count what
    went. Rows keep their order.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        Of an exposure log the clicked pairs are split; a frame is read by `ipseval.read`.
    k : int
        Smallest number of interactions, at least 1.

    Raises
    ------
    InputError
        When nothing is left.

    Examples
    --------
    User 2 has one interaction and goes; then item 2 has one left and goes too.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1, 1, 2], "item": [0, 1, 0, 1, 2, 2]})
    >>> core = k_core(Interactions.from_frame(frame), 2)
    >>> core, (core.n_users_removed, core.n_items_removed, core.n_pairs_removed)
    (Interactions(4 pairs, 2 users, 2 items), (1, 1, 2))
    """
    log = as_log(log)
    k = check_positive_int("k", k)
    rows, short = np.arange(len(log)), np.ones(1, dtype=bool)
    while short.any():
        user, item = log.user[rows], log.item[rows]
        short = (np.bincount(user) < k)[user] | (np.bincount(item) < k)[item]
        rows = rows[~short]
    if not rows.size:
        raise InputError(f"the {k}-core of {log!r} is empty; use a smaller k.")
    kept = np.zeros(len(log), dtype=bool)
    kept[rows] = True
    part = log.select(kept)
    users, items = part.activity > 0, part.popularity > 0
    left = {"users": users, "items": items, "pairs": kept}
    gone = {what: int((~one).sum()) for what, one in left.items()}
    removed = (Count(f"{what} removed by a k-core", n, left[what].size) for what, n in gone.items())
    return part._with(
        counted=log.counted + some(*removed),
        user=(np.cumsum(users) - 1)[part.user],
        item=(np.cumsum(items) - 1)[part.item],
        user_ids=log.user_ids[users],
        item_ids=log.item_ids[items],
        n_users_removed=log.n_users_removed + gone["users"],
        n_items_removed=log.n_items_removed + gone["items"],
        n_pairs_removed=log.n_pairs_removed + gone["pairs"],
    )
