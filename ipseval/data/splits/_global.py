"""A split at one point in time for all users."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval._base.checks import check_fraction, counted
from ipseval._base.types import AnyArray
from ipseval.data._interactions import Interactions
from ipseval.data.splits._base import Seen, Split
from ipseval.data.splits._order import share_of, timestamps
from ipseval.data.splits._parts import split_rows
from ipseval.data.splits._time import as_duration, as_time, said
from ipseval.errors import InputError


def split_global_time(
    log: Interactions,
    *,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    test_start: Any | None = None,
    validation_start: Any | None = None,
    purge: Any = 0,
    seen: Seen = "exclude",
) -> Split:
    """Return a split at one time for all users: what came later is held out, so nothing leaks back.

    Interactions at the same time stay together, on the later side: of n interactions at least
    ⌊n·test_fraction + ½⌋ go to test. Users and items that occur only in test are cold; the result counts them
    (`n_cold_users`, `n_cold_items`, `n_cold_positives`).

    Parameters
    ----------
    test_fraction, validation_fraction : float
        Shares of all interactions, in (0, 1) and [0, 1); their sum must stay below 1.
    test_start, validation_start : number or date, optional
        First time of the test and of the validation part, instead of shares: a number in the unit of the
        timestamps, or a date where the timestamps were dates.
    purge : number or length of time, optional
        Gap between what is trained on and what is held out: rows of the last `purge` before the validation
        part (or the test part) are in no part, and counted as `n_purged`. A length such as "7D" is for
        timestamps that were dates.
    seen : {"exclude", "include"}
        "include": training items compete, and may be test positives again; see `Split`.

    Raises
    ------
    InputError
        When the log has no timestamps, a share is out of range, or a part that was asked for is empty.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 2], "time": [1, 2, 3, 3]})
    >>> split = split_global_time(Interactions.from_frame(frame, timestamp="time"), test_fraction=0.25)
    >>> len(split.train), len(split.test), split.n_cold_users, split.n_cold_items
    (2, 2, 1, 1)
    """
    time = timestamps(log, "a split at a global time")
    check_fraction("test_fraction", test_fraction)
    check_fraction("validation_fraction", validation_fraction, low_open=False)
    check_fraction("test_fraction + validation_fraction", test_fraction + validation_fraction)
    start = _start_of_share(time, test_fraction) if test_start is None else as_time(test_start, "test_start")
    in_test = time >= start
    in_validation = np.zeros(len(log), dtype=bool)
    with_validation = bool(validation_fraction) or validation_start is not None
    if with_validation:
        if validation_start is not None:
            middle = as_time(validation_start, "validation_start")
        else:
            share = validation_fraction + float(in_test.mean())
            middle = _start_of_share(time, min(share, 1.0))
        in_validation = ~in_test & (time >= middle)
    gap = as_duration(purge, "purge", time, low_open=False)
    held_out = in_test | in_validation
    first = min(start, middle) if with_validation else start
    purged = ~held_out & (time >= first - gap)
    parts = {"training": ~(held_out | purged), "test": in_test}
    if with_validation:
        parts["validation"] = in_validation
    for name, rows in parts.items():
        if not rows.any():
            raise InputError(
                f"the {name} part is empty: the {len(log):,} timestamps run from {said(time.min())} to "
                f"{said(time.max())} with {_n_distinct(time):,} distinct values, and the test part starts "
                f"at {said(start)}. Choose other shares, or start times in the unit of the timestamps "
                "(dates are nanoseconds since 1970)."
            )
    description = f"global time, test from {said(start)}" + (
        f", validation from {said(middle)}" if with_validation else ""
    )
    if gap:
        description += f", {counted(int(purged.sum()), 'row')} before it in a gap of {purge}"
    return split_rows(
        log,
        parts["training"],
        in_test,
        in_validation if with_validation else None,
        seen=seen,
        description=description,
        n_purged=int(purged.sum()),
    )


def _start_of_share(time: AnyArray, share: float) -> Any:
    """Return the time from which on at least ⌊n·share + ½⌋ interactions come."""
    n_later = int(share_of(np.array(time.size), share))
    place = time.size - max(n_later, 1)
    return np.partition(time, place)[place]


def _n_distinct(time: AnyArray) -> int:
    return int((np.diff(np.sort(time)) != 0).sum()) + 1
