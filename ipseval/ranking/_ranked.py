"""RankedPositives: where each held-out positive stands among its user's candidates."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from ipseval._types import AnyArray, BoolArray, FloatArray, IntArray, readonly
from ipseval.errors import InputError
from ipseval.ranking._parquet import read, write
from ipseval.ranking._sampling import Sampling

if TYPE_CHECKING:
    from ipseval.splits import Split

ALL_ITEMS = "all items minus the user's training items"


@dataclass(frozen=True, eq=False)
class RankedPositives:
    """The rank of every held-out positive, before any tie rule; sorted by user, then item.

    With c = `n_above` and t = `n_tied`, the 1-based rank is anything from c + 1 to c + t + 1: metrics apply
    the tie rule. Ranks can be stored and reused: metrics, estimators and γ change without ranking again.

    Attributes
    ----------
    user, item : (n_pos,) int arrays
        Codes into `user_ids`, `item_ids`.
    n_above, n_tied : (n_pos,) int arrays
        Candidates scored strictly above the positive, and tied with it (itself not counted).
    n_candidates : (n_pos,) int array
        |C_u|, the size of the user's candidate set, the positive included.
    user_ids, item_ids : arrays
        The universe of ids. All users count as the population for `ips`.
    gain : (n_pos,) float array or None
        Graded relevance of the positive (the test value), where there is one.
    max_rank : int or None
        With top-K lists: ranks beyond K are unknown and stored as K + 1; only @k metrics with k <= K are
        exact. None: the whole ranking is known.
    candidates_by_user : (n_users,) int array or None
        |C_u| of every user of the population, with or without positives; the unbiased AUC needs it.
    candidates : str
        Which items compete, for the report.
    n_not_candidates : int
        Test positives left out because they are not among the candidates (only where these are restricted).
    sampling : Sampling or None
        With sampled candidates: how they were drawn; ranks and `n_candidates` are then those of the sampled
        lists. None: every candidate competes.
    """

    user: IntArray
    item: IntArray
    n_above: IntArray
    n_tied: IntArray
    n_candidates: IntArray
    user_ids: AnyArray
    item_ids: AnyArray
    gain: FloatArray | None = None
    max_rank: int | None = None
    candidates_by_user: IntArray | None = None
    candidates: str = ALL_ITEMS
    n_not_candidates: int = 0
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        for name in ("user", "item", "n_above", "n_tied", "n_candidates"):
            codes = np.asarray(getattr(self, name))
            if codes.dtype.kind not in "iu" and codes.size:
                raise InputError(f"{name} must hold whole numbers; got dtype {codes.dtype}.")
            object.__setattr__(self, name, codes)
        for name in ("user_ids", "item_ids", "gain", "candidates_by_user"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name)))
        size = self.user.size
        for name in ("item", "n_above", "n_tied", "n_candidates", "gain"):
            array = getattr(self, name)
            if array is not None and array.shape != (size,):
                raise InputError(f"{name} must have shape ({size},) like user; got {array.shape}.")
        key = self.user * np.int64(max(self.item_ids.size, 1)) + self.item
        if size and (np.diff(key) <= 0).any():
            raise InputError("ranked positives must be sorted by user, then item, without repetition.")
        views = ("user", "item", "n_above", "n_tied", "n_candidates", "gain", "user_ids", "item_ids")
        for name in (*views, "candidates_by_user"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, readonly(array))

    def __len__(self) -> int:
        return int(self.user.size)

    def __repr__(self) -> str:
        return f"RankedPositives({len(self):,} positives of {self.users.size:,} users; {self.candidates})"

    @cached_property
    def starts(self) -> IntArray:
        """Row at which each user's positives begin, (n_users_with_positives,)."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        return readonly(np.flatnonzero(np.diff(self.user, prepend=-1)))

    @cached_property
    def counts(self) -> IntArray:
        """Number of positives of each user that has any, |S*_u|."""
        return readonly(np.diff(self.starts, append=len(self)))

    @cached_property
    def users(self) -> IntArray:
        """Codes of the users that have positives, ascending."""
        return readonly(self.user[self.starts])

    @cached_property
    def segment(self) -> IntArray:
        """Position in `users` of each positive's user, (n_pos,)."""
        return readonly(np.repeat(np.arange(self.starts.size), self.counts))

    @cached_property
    def has_ties(self) -> bool:
        """Whether any positive ties with another candidate."""
        return bool(self.n_tied.any())

    @cached_property
    def by_rank(self) -> IntArray:
        """Row numbers that sort the positives by user, then from best to worst; ties by item."""
        return readonly(np.lexsort((self.n_above, self.user)))

    @cached_property
    def derived(self) -> dict[str, Any]:
        """What metrics compute from the ranks alone and use again; empty at first."""
        return {}

    @property
    def n_population(self) -> int:
        """Number of users in the universe, with or without positives."""
        return int(self.user_ids.size)

    def sum_by_user(self, values: FloatArray) -> FloatArray:
        """Return Σ of `values` (n_pos,) over each user's positives, (n_users_with_positives,)."""
        if not len(self):
            return np.zeros(0)
        return np.asarray(np.add.reduceat(values, self.starts), dtype=np.float64)

    def mean_by_user(self, values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Return Σwv/Σw over each user's positives, (n_users_with_positives,); w = 1 without weights."""
        if weights is None:
            return self.sum_by_user(values) / self.counts
        return self.sum_by_user(values * weights) / self.sum_by_user(weights)

    def parts(self, n_positives: int) -> list[tuple[slice, RankedPositives]]:
        """Return whole users in parts of about `n_positives` positives, as views, with their rows here."""
        cuts = self.starts[np.searchsorted(self.starts, np.arange(n_positives, len(self), n_positives)) - 1]
        edges = np.unique(np.concatenate([[0], cuts, [len(self)]]))
        rows = [slice(int(first), int(last)) for first, last in pairwise(edges)]
        return [(part, self._rows(part)) for part in rows]

    def select(self, keep: BoolArray) -> RankedPositives:
        """Return the chosen positives; their ranks stay as they are."""
        return self if keep.all() else self._rows(keep)

    def _rows(self, rows: BoolArray | slice) -> RankedPositives:
        return replace(
            self,
            user=self.user[rows],
            item=self.item[rows],
            n_above=self.n_above[rows],
            n_tied=self.n_tied[rows],
            n_candidates=self.n_candidates[rows],
            gain=None if self.gain is None else self.gain[rows],
            sampling=None if self.sampling is None else self.sampling.select(rows),
        )

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write the ranks to a parquet file: one row per positive, with ids, readable by any tool.

        The universe of ids, `max_rank` and what else is needed to read them back exactly are in the file's
        metadata. Needs pyarrow.

        Raises
        ------
        InputError
            Without pyarrow, and for ids of a type that parquet does not hold.
        """
        write(path, {field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def from_parquet(cls, path: str | PathLike[str]) -> RankedPositives:
        """Return the ranks that `to_parquet` has written, the same in every value.

        Raises
        ------
        InputError
            Without pyarrow, for a file of another origin, or one of a later format.
        """
        return cls(**read(path))


@dataclass(frozen=True, eq=False)
class Targets:
    """What is to be ranked: the positives sorted by user and item, and each user's excluded items.

    `excluded[excluded_start[u]:excluded_start[u + 1]]` are the sorted item codes that user u cannot be
    recommended: its training items.
    """

    user: IntArray
    item: IntArray
    gain: FloatArray | None
    excluded: IntArray
    excluded_start: IntArray
    candidates_by_user: IntArray
    user_ids: AnyArray
    item_ids: AnyArray
    candidates: str = ALL_ITEMS
    n_not_candidates: int = 0

    @classmethod
    def from_split(cls, split: Split) -> Targets:
        """Return the test positives of a split, with its training items excluded."""
        test, train = split.test, split.train
        order = _sorting(test.pair_key)
        start = np.concatenate([[0], np.cumsum(train.activity)])
        user = test.user[order]
        return cls(
            user=user,
            item=test.item[order],
            gain=None if test.value is None else test.value[order].astype(np.float64),
            excluded=train.item[_sorting(train.pair_key)],
            excluded_start=start,
            candidates_by_user=split.n_items - train.activity,
            user_ids=split.user_ids,
            item_ids=split.item_ids,
        )

    def ranked(self, n_above: IntArray, n_tied: IntArray, *, max_rank: int | None = None) -> RankedPositives:
        """Return the result for these targets."""
        return RankedPositives(
            self.user,
            self.item,
            n_above,
            n_tied,
            self.candidates_by_user[self.user],
            self.user_ids,
            self.item_ids,
            gain=self.gain,
            max_rank=max_rank,
            candidates_by_user=self.candidates_by_user,
            candidates=self.candidates,
            n_not_candidates=self.n_not_candidates,
        )


def _sorting(key: IntArray) -> IntArray | slice:
    """Return what sorts distinct keys; nothing is moved where they are sorted, as logs often are."""
    return slice(None) if (key[1:] > key[:-1]).all() else np.argsort(key, kind="stable")
