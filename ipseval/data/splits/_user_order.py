"""Order of the interactions of each user, found by one sort of numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval.data.interactions import Interactions
from ipseval.utils.types import AnyArray, BoolArray, IntArray

_WORD_BITS = 64


@dataclass(frozen=True, eq=False)
class UserOrder:
    """Select the first interactions of each user in the order of a key.

    Attributes
    ----------
    log : Interactions
    key : (n,) uint array
        Key of each row as an unsigned number; a smaller number is earlier in the order.
    code : (n,) uint array
        User of the row in the highest bits, and as many bits of the key as fit below.
    sorted_code : (n,) uint array
        The codes in ascending order, in which the rows of a user are adjacent.
    latest_first : bool
        Whether rows with a larger original key come first.
    """

    # A row is among the first n rows of its user if its code is below the code of the row after them in the
    # sorted codes. Only rows that share this code are ordered one by one.

    log: Interactions
    key: AnyArray
    code: AnyArray
    sorted_code: AnyArray
    latest_first: bool

    @classmethod
    def from_key(cls, log: Interactions, key: AnyArray, *, latest_first: bool = False) -> UserOrder:
        """Return the order by a key of the rows that contains no NaN."""
        unsigned = _to_unsigned(key)
        lowest = unsigned.min()
        highest = unsigned.max()
        relative = highest - unsigned if latest_first else unsigned - lowest
        n_key_bits = int(highest - lowest).bit_length()
        n_user_bits = log.n_users.bit_length()  # bits for one user more, which bounds the last one
        n_kept_bits = min(n_key_bits, _WORD_BITS - n_user_bits)
        n_dropped_bits = n_key_bits - n_kept_bits
        user_part = log.user.view(np.uint64) << np.uint64(n_kept_bits)
        key_part = relative >> np.uint64(n_dropped_bits)
        code = user_part | key_part
        return cls(log=log, key=relative, code=code, sorted_code=np.sort(code), latest_first=latest_first)

    def select_first(self, n_rows: IntArray) -> tuple[BoolArray, BoolArray]:
        """Return the first `n_rows[u]` rows of each user u, and the users with a tie at the cut.

        Parameters
        ----------
        n_rows : (n_users,) int array
            Number of rows of each user, at most the activity of the user.

        Returns
        -------
        is_selected : (n,) bool array
        is_tied : (n_users,) bool array
            Users with rows of the same key on both sides of the cut.
        """
        activity = self.log.activity
        user_start = np.cumsum(activity) - activity
        cut_users = np.flatnonzero((n_rows > 0) & (n_rows < activity))  # other users give no row or all rows
        cut = user_start[cut_users] + n_rows[cut_users]

        limit = np.zeros(n_rows.size, dtype=np.uint64)  # no code is below 0
        limit[n_rows >= activity] = np.iinfo(np.uint64).max  # every code is below the largest number
        limit[cut_users] = self.sorted_code[cut]
        is_selected = self.code < limit[self.log.user]

        is_tied = np.zeros(n_rows.size, dtype=bool)
        shares_code = self.sorted_code[cut - 1] == limit[cut_users]
        users_to_order = cut_users[shares_code]
        if users_to_order.size:
            n_selected = np.searchsorted(self.sorted_code, limit[users_to_order]) - user_start[users_to_order]
            n_remaining = np.zeros(n_rows.size, dtype=np.int64)
            n_remaining[users_to_order] = n_rows[users_to_order] - n_selected
            is_shared_row = (self.code == limit[self.log.user]) & (n_remaining > 0)[self.log.user]
            rows, is_tied[users_to_order] = self._select_first_of(
                np.flatnonzero(is_shared_row), n_remaining[users_to_order]
            )
            is_selected[rows] = True
        return is_selected, is_tied

    def _select_first_of(self, rows: IntArray, n_rows: IntArray) -> tuple[IntArray, BoolArray]:
        """Return the first `n_rows` of the given rows of each user, and the users with a tie at the cut."""
        user = self.log.user[rows]
        key = self.key[rows]
        row_order = -rows if self.latest_first else rows
        order = np.lexsort((row_order, key, user))
        user_start = np.flatnonzero(np.diff(user[order], prepend=-1))
        activity = np.diff(np.append(user_start, rows.size))
        position = np.arange(rows.size) - np.repeat(user_start, activity)
        sorted_key = key[order]
        cut = user_start + n_rows
        is_tied = sorted_key[cut - 1] == sorted_key[cut]
        is_first = position < np.repeat(n_rows, activity)
        return rows[order[is_first]], is_tied


def _to_unsigned(key: AnyArray) -> AnyArray:
    """Return int64 or float64 numbers as uint64 in the same order; equal numbers stay equal."""
    sign_bit = np.uint64(1 << (_WORD_BITS - 1))
    if key.dtype.kind == "f":
        bits = (key.astype(np.float64) + 0.0).view(np.int64)  # + 0.0 turns −0.0 into 0.0
        return np.where(bits < 0, ~bits.view(np.uint64), bits.view(np.uint64) | sign_bit)
    return key.astype(np.int64).view(np.uint64) ^ sign_bit
