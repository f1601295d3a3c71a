"""The order of each user's interactions, in linear time and with a stated rule for ties."""

from __future__ import annotations

import numpy as np

from ipseval._types import AnyArray, IntArray
from ipseval.errors import InputError
from ipseval.interactions import Interactions, check_interactions

_RADIX_BITS = 16


def position_within_user(log: Interactions, key: AnyArray) -> IntArray:
    """Return the 0-based position of each row among its user's rows in the order of `key`, (n,).

    Rows of one user with the same key keep their row order: the earlier row comes first.
    """
    return positions(log, order_within_user(log, key))


def order_within_user(log: Interactions, key: AnyArray) -> IntArray:
    """Return row numbers sorted by user, then `key`, then row number, (n,)."""
    by_key = np.argsort(key, kind="stable")
    return np.asarray(by_key[stable_order(log.user[by_key])], dtype=np.int64)


def positions(log: Interactions, order: IntArray) -> IntArray:
    """Return the 0-based position within its user of each row, given rows sorted by user, (n,)."""
    start = np.cumsum(log.activity) - log.activity
    position = np.empty(len(log), dtype=np.int64)
    position[order] = np.arange(len(log)) - np.repeat(start, log.activity)
    return position


def stable_order(codes: IntArray) -> IntArray:
    """Return the stable ascending order of non-negative codes, (n,), in linear time.

    NumPy sorts 16-bit integers by radix; wider codes are sorted 16 bits at a time, the lowest first.
    """
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    highest = int(codes.max(initial=0))
    shift = _RADIX_BITS
    while highest >> shift:
        order = order[np.argsort((codes >> shift).astype(np.uint16)[order], kind="stable")]
        shift += _RADIX_BITS
    return np.asarray(order, dtype=np.int64)


def share_of(counts: IntArray, fraction: float) -> IntArray:
    """Return ⌊counts·fraction + ½⌋.

    Examples
    --------
    >>> share_of(np.array([1, 90]), 0.35)  # 31.5, of which binary floating point makes 31.499…
    array([ 0, 32])
    """
    return np.asarray(np.floor(np.round(counts * fraction, 6) + 0.5), dtype=np.int64)


def timestamps(log: Interactions, purpose: str) -> AnyArray:
    """Return the timestamps of a log, or raise `InputError` when it has none."""
    check_interactions(log, "log")
    if log.timestamp is None:
        raise InputError(
            f"{purpose} needs the time of each interaction, and this log has none; "
            "read it with Interactions.from_frame(..., timestamp='<column>')."
        )
    return log.timestamp
