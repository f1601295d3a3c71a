"""Rows of a log: their order within users, in linear time, and splits that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from narwhals.typing import IntoDataFrame

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Interactions, check_interactions
from ipseval.data.reading import read
from ipseval.data.sparse import is_sparse_matrix
from ipseval.data.splits.split import NO_POSITIVE, SEEN, Seen, Split
from ipseval.errors import DataWarning, InputError, ProblemsError
from ipseval.utils.checks import check_choice, check_fraction, warn_user
from ipseval.utils.ids import among
from ipseval.utils.types import AnyArray, BoolArray, IntArray, unchecked


class SparseMatrix(Protocol):
    """A sparse matrix or array of scipy."""

    def tocsr(self) -> Any:
        """Return the matrix in compressed rows."""


# A log, a log of what was shown, or a data frame or sparse matrix that `read` understands.
LogLike = Interactions | ImpressionLog | IntoDataFrame | SparseMatrix | Mapping[Any, Any]

_WORD = 64


@dataclass(frozen=True, eq=False)
class UserCuts:
    """Cuts through the interactions of each user in the order of a key, found by one sort of numbers."""

    # A row is one number, `code`: its user in the highest bits, below it as much of the key as there is room
    # for. It is before a cut when its number is below the one that stands there after the sort. Only rows
    # that share this number are ordered one by one.

    log: Interactions
    key: AnyArray
    code: AnyArray
    in_order: AnyArray
    latest_first: bool

    @classmethod
    def of(cls, log: Interactions, key: AnyArray, *, latest_first: bool = False) -> UserCuts:
        """Return the cuts for a key that holds no NaN."""
        ordered = _as_unsigned(key)
        low, high = ordered.min(), ordered.max()
        ordered = high - ordered if latest_first else ordered - low
        user_bits = log.n_users.bit_length()  # one more user has room, which limits the last one
        key_bits = min(int(high - low).bit_length(), _WORD - user_bits)
        shift = int(high - low).bit_length() - key_bits
        code = (log.user.view(np.uint64) << np.uint64(key_bits)) | (ordered >> np.uint64(shift))
        return cls(log, ordered, code, np.sort(code), latest_first)

    def before(self, n: IntArray) -> tuple[BoolArray, BoolArray]:
        """Return the first n[u] rows of each user as a mask (n_rows,), and users with a tie at the cut."""
        # `n`, (n_users,), is at most the activity. A tie: rows on both sides of the cut have one key.
        activity = self.log.activity
        start = np.cumsum(activity) - activity
        inner = np.flatnonzero((n > 0) & (n < activity))
        all_rows = n >= activity
        limit = np.zeros(n.size, dtype=np.uint64)  # nothing is below
        limit[all_rows] = np.iinfo(np.uint64).max  # no code is as large: a user more has room
        limit[inner] = self.in_order[start[inner] + n[inner]]
        chosen = self.code < limit[self.log.user]
        tied = np.zeros(n.size, dtype=bool)
        alike = inner[self.in_order[start[inner] + n[inner] - 1] == limit[inner]]
        if alike.size:
            missing = np.zeros(n.size, dtype=np.int64)
            missing[alike] = start[alike] + n[alike] - np.searchsorted(self.in_order, limit[alike])
            rows = np.flatnonzero((self.code == limit[self.log.user]) & (missing > 0)[self.log.user])
            more, tied[alike] = self._first(rows, missing[alike])
            chosen[more] = True
        return chosen, tied

    def _first(self, rows: IntArray, n: IntArray) -> tuple[IntArray, BoolArray]:
        """Return the first n of each user's rows, 0 < n < their number, and where a tie is at that cut."""
        user, key = self.log.user[rows], self.key[rows]
        order = np.lexsort((-rows if self.latest_first else rows, key, user))
        start = np.flatnonzero(np.diff(user[order], prepend=-1))
        place = np.arange(rows.size) - np.repeat(start, np.diff(np.append(start, rows.size)))
        sorted_key = key[order]
        tied = sorted_key[start + n - 1] == sorted_key[start + n]
        return rows[order[place < np.repeat(n, np.diff(np.append(start, rows.size)))]], tied


def _as_unsigned(key: AnyArray) -> AnyArray:
    """Return numbers in the order of int64 or float64 ones as uint64; equal ones stay equal."""
    top = np.uint64(1 << (_WORD - 1))
    if key.dtype.kind == "f":
        bits = (key.astype(np.float64) + 0.0).view(np.int64)  # + 0.0: both zeros are one number
        return np.where(bits < 0, ~bits.view(np.uint64), bits.view(np.uint64) | top)
    return key.astype(np.int64).view(np.uint64) ^ top


def share_of(counts: IntArray, fraction: float) -> IntArray:
    """Return ⌊counts·fraction + ½⌋."""
    return np.asarray(np.floor(np.round(counts * fraction, 6) + 0.5), dtype=np.int64)


def as_log(log: LogLike) -> Interactions:
    """Return a log as it is, the positives of an impression log, or what `read` finds in other data."""
    is_frame = hasattr(log, "columns") and not isinstance(log, (Interactions, ImpressionLog))
    is_readable = is_frame or is_sparse_matrix(log) or isinstance(log, Mapping)
    found: Any = log
    if is_readable:
        try:
            found = read(log)
        except ProblemsError as error:
            raise ProblemsError(error.source, error.problems, "ipseval.read") from None
    found = found.positives if isinstance(found, ImpressionLog) else found
    check_interactions(found, "log")
    return found  # type: ignore[no-any-return]  # checked one line above


def check_shares(test_fraction: float, validation_fraction: float) -> None:
    """Raise `InputError` unless both are shares, and leave something for training."""
    check_fraction("test_fraction", test_fraction)
    check_fraction("validation_fraction", validation_fraction, low_open=False)
    check_fraction("test_fraction + validation_fraction", test_fraction + validation_fraction)


def timestamps(log: Interactions, purpose: str) -> AnyArray:
    """Return the timestamps of a log, or raise `InputError` when it has none, or no rows."""
    if log.timestamp is None:
        raise InputError(
            f"{purpose} needs the time of each interaction, and this log has none. Where the log is read, "
            "name the column of times by timestamp=…."
        )
    if not len(log):
        raise InputError(f"{purpose} needs at least one interaction, and this log has none.")
    return log.timestamp


def split_rows(
    log: Interactions,
    in_train: BoolArray,
    in_test: BoolArray,
    in_validation: BoolArray | None,
    *,
    seen: Seen,
    description: str,
    n_tied_users: int = 0,
    n_purged: int = 0,
) -> Split:
    """Return the split of these rows (n,) of a log; `in_validation` None: no such part."""
    # Training rows that repeat a pair stay, as n* counts them; those of other parts are merged. Held-out
    # pairs of an earlier part are no candidates unless seen="include": left out, counted, named in a warning.
    check_choice("seen", seen, SEEN)
    train, whole = log.select(in_train), log.select(in_test)
    test, n_dropped = whole.distinct, 0
    validation = None if in_validation is None else log.select(in_validation).distinct
    if log.repeats and seen == "exclude":
        earlier = train.pair_key
        if validation is not None:
            validation = _new(validation, earlier, "validation")
            earlier = np.concatenate([earlier, validation.pair_key])
        n_before, test = len(test), _new(test, earlier, "test")
        n_dropped = n_before - len(test)
    if not len(test):
        raise InputError(NO_POSITIVE)
    return unchecked(  # the parts have the ids of one log, and hold what is in no earlier part
        Split,
        train=train,
        test=test,
        validation=validation,
        description=description,
        n_overlap_dropped=n_dropped,
        n_tied_users=n_tied_users,
        n_purged=n_purged,
        seen=seen,
        n_repeats_merged=whole.n_repeats,
    )


def _new(part: Interactions, earlier: IntArray, name: str) -> Interactions:
    """Return the pairs of a part that are not in an earlier part."""
    is_new = ~among(part.pair_key, earlier)
    n_repeated = int((~is_new).sum())
    text = (
        f"{n_repeated:,} of {len(part):,} {name} pairs are in an earlier part too and are left out: training "
        "items are no candidates. With seen='include' they are, and these pairs stay."
    )
    if n_repeated and n_repeated == len(part):
        raise InputError(text)
    if n_repeated:
        warn_user(text, DataWarning)
    return part.select(is_new)
