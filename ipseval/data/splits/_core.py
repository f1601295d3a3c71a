"""The k-core of a log: every user and every item keeps at least k interactions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._base.checks import check_positive_int
from ipseval._base.counts import Count, some
from ipseval._base.ids import distinct, union
from ipseval._base.types import BoolArray, IntArray
from ipseval.data._interactions import Interactions
from ipseval.data.splits._rows import LogLike, as_log, stable_order
from ipseval.errors import InputError


def k_core(log: LogLike, k: int = 5) -> Interactions:
    """Return the largest part of a log in which every user and every item has at least k interactions.

    Users and items with fewer are removed, with their interactions, until none is left: the result is
    stable and does not depend on the order of removal. Removed ids leave the universe, so they are no
    candidates either; `n_users_removed`, `n_items_removed` and `n_pairs_removed` of the result count what
    went. Rows keep their order.

    Parameters
    ----------
    log : Interactions, ExposureLog or data frame
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
    sides = [_Side.of(log.user, log.activity), _Side.of(log.item, log.popularity)]
    row_alive = np.ones(len(log), dtype=bool)
    frontier = [side.below(np.arange(side.degree.size), k) for side in sides]
    while frontier[0].size or frontier[1].size:
        for this, other in ((0, 1), (1, 0)):
            rows = sides[this].rows(frontier[this])
            sides[this].alive[frontier[this]] = False
            frontier[this] = frontier[this][:0]
            rows = rows[row_alive[rows]]
            row_alive[rows] = False
            touched = sides[other].codes[rows]
            np.subtract.at(sides[other].degree, touched, 1)
            frontier[other] = union(frontier[other], sides[other].below(touched, k))
    if not row_alive.any():
        raise InputError(f"the {k}-core of {log!r} is empty; use a smaller k.")
    return _compact(log, row_alive, sides[0].alive, sides[1].alive)


@dataclass(frozen=True, eq=False)
class _Side:
    """Users or items while the core is peeled: who is left, with how many interactions, in which rows."""

    codes: IntArray
    degree: IntArray
    alive: BoolArray
    sorted_rows: IntArray
    start: IntArray

    @classmethod
    def of(cls, codes: IntArray, counts: IntArray) -> _Side:
        start = np.concatenate([[0], np.cumsum(counts)])
        return cls(codes, counts.copy(), np.ones(counts.size, dtype=bool), stable_order(codes), start)

    def below(self, members: IntArray, k: int) -> IntArray:
        """Return those of `members` that are left with fewer than k interactions, each once."""
        return distinct(members[self.alive[members] & (self.degree[members] < k)])

    def rows(self, members: IntArray) -> IntArray:
        """Return the rows of `members`, removed rows included."""
        first, size = self.start[members], self.start[members + 1] - self.start[members]
        within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        return np.asarray(self.sorted_rows[np.repeat(first, size) + within], dtype=np.int64)


def _compact(log: Interactions, rows: BoolArray, users: BoolArray, items: BoolArray) -> Interactions:
    """Return the chosen rows over the universe of the chosen users and items, with what was removed."""
    part = log.select(rows)
    removed = some(
        *(
            Count(f"{what} removed by a k-core", int((~kept).sum()), kept.size)
            for what, kept in (("users", users), ("items", items), ("pairs", rows))
        )
    )
    return part._with(
        counted=log.counted + removed,
        user=(np.cumsum(users) - 1)[part.user],
        item=(np.cumsum(items) - 1)[part.item],
        user_ids=log.user_ids[users],
        item_ids=log.item_ids[items],
        n_users_removed=log.n_users_removed + int((~users).sum()),
        n_items_removed=log.n_items_removed + int((~items).sum()),
        n_pairs_removed=log.n_pairs_removed + int((~rows).sum()),
    )
