"""RankedPositives: where each held-out positive stands among its user's candidates."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from ipseval.errors import InputError
from ipseval.ranking._parquet import read, write
from ipseval.ranking._sampling import Sampling, counted_above
from ipseval.ranking.top_lists import TopLists
from ipseval.utils.checks import check_finite, check_mask, check_positive_int
from ipseval.utils.counts import Count
from ipseval.utils.ids import grouped_order
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, readonly

PER_POSITIVE = ("user", "item", "n_above", "n_tied", "n_candidates", "gain")
PER_USER = ("candidates_by_user", "list_length", "left_out", "cluster")
MINUS_TRAINING = " minus the user's training items"
ALL_ITEMS = f"all items{MINUS_TRAINING}"
OWN_LIST = "each user's own list"


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
        With top-K lists: K, the length of the longest; ranks beyond a list are unknown and stored as K + 1.
        None: the whole ranking is known.
    candidates_by_user : (n_users,) int array or None
        |C_u| of every user of the population, with or without positives; the unbiased AUC needs it.
    candidates : str
        Which items compete, for the report.
    n_not_candidates : int
        Test positives left out because they are not among the candidates (only where these are restricted).
    sampling : Sampling or None
        With sampled candidates: how they were drawn; ranks and `n_candidates` are then those of the sampled
        lists. None: every candidate competes.
    list_length : (n_users,) int array or None
        With top-K lists: the length of each user's list, 0 for a user without one. Ranks up to it are exact;
        what follows is padded with misses. None: unknown, or no lists.
    top : TopLists or None
        The first k candidates of each user with positives, where `top_k` asked for them.
    left_out : (n_users,) bool array or None
        Users that are no part of the population, as they have no list by some model of the comparison.
    cluster : (n_users,) int array or None
        Where the users of these ranks are queries: whose query each is, a code of `cluster_ids`. Queries of
        one person are not independent, so errors are those of sums over them. None: users are independent.
    cluster_ids : array or None
        The universe of those persons.
    counted : tuple of Count
        With top-K lists: what of them was read, left out and kept.
    candidate_sums : object or None
        Sums over all candidates, for estimators that read more than the positives, as `ipseval.policies`
        makes them. Parquet does not hold them.

    Raises
    ------
    InputError
        For arrays that contradict each other or the ids: codes out of range, ranks that no list of
        `n_candidates` items has, repeated ids or pairs, gains that are not finite.
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
    list_length: IntArray | None = None
    left_out: BoolArray | None = None
    top: TopLists | None = None
    counted: tuple[Count, ...] = ()
    cluster: IntArray | None = None
    cluster_ids: AnyArray | None = None
    candidate_sums: Any = None

    def __post_init__(self) -> None:
        for name in (*PER_POSITIVE, *PER_USER, "user_ids", "item_ids", "cluster_ids"):
            given = getattr(self, name)
            if given is not None:
                # What cannot be written to is shared, as it flows from one value to the next.
                fixed = isinstance(given, np.ndarray) and not given.flags.writeable
                object.__setattr__(self, name, given if fixed else readonly(np.array(given)))
                if name.endswith("_ids") and not fixed:
                    _check_unique(name, getattr(self, name))
        check_ranks(self)

    @classmethod
    def trusted(cls, **values: Any) -> RankedPositives:
        """Return ranks of values that are known to be right: the library's own, made without the checks."""
        made = object.__new__(cls)
        for field in fields(cls):
            value = values.get(field.name, field.default)
            made.__dict__[field.name] = readonly(value) if isinstance(value, np.ndarray) else value
        return made

    def __len__(self) -> int:
        return int(self.user.size)

    def __repr__(self) -> str:
        return f"RankedPositives({len(self):,} positives of {self.users.size:,} users; {self.candidates})"

    @cached_property
    def starts(self) -> IntArray:
        """Row at which each user's positives begin, (n_users_with_positives,)."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        return readonly(np.append(0, np.flatnonzero(self.user[1:] != self.user[:-1]) + 1))

    @cached_property
    def counts(self) -> IntArray:
        """Number of positives of each user that has any, |S*_u|."""
        return readonly(np.diff(np.append(self.starts, len(self))))

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
        return readonly(grouped_order(self.segment, self.n_above))

    @cached_property
    def derived(self) -> dict[str, Any]:
        """What metrics compute from the ranks alone and use again; empty at first."""
        return {}

    @property
    def n_population(self) -> int:
        """Number of users in the universe, with or without positives."""
        return int(self.user_ids.size)

    @property
    def unit_ids(self) -> AnyArray:
        """Ids of the independent units: of the users, or of those whose queries these are."""
        return self.user_ids if self.cluster_ids is None else self.cluster_ids

    def unit(self, user: IntArray) -> IntArray:
        """Return the codes of the independent units to which users, or queries, belong."""
        return user if self.cluster is None else self.cluster[user]

    def list_counts(self, depth: int) -> IntArray:
        """Return how many users with positives have a list of 0, 1, … `depth` items, (depth + 1,).

        Longer lists, lists of all candidates, and scores of all items count as `depth`.
        """
        check_positive_int("depth", depth, minimum=0)
        length = np.full(self.users.size, depth)
        if self.list_length is not None:
            own = self.list_length[self.users]
            length = np.where(own < self.n_candidates[self.starts], np.minimum(own, depth), depth)
        return np.bincount(length, minlength=depth + 1)

    def padded(self, depth: int) -> RankedPositives:
        """Return the ranks of lists padded with misses up to `depth`, to which metrics @k can then be read.

        Ranks of scores, and of longer lists, are returned as they are.
        """
        if self.max_rank is None or self.max_rank >= depth:
            return self
        missed = self.n_above >= self.max_rank
        return self._rows(slice(None), n_above=np.where(missed, depth, self.n_above), max_rank=depth)

    def leaving_out(self, users: BoolArray) -> RankedPositives:
        """Return the ranks of the other users; those in `users` (n_users,) leave the population as well."""
        users = check_mask("users", users, self.n_population)
        gone = users if self.left_out is None else users | self.left_out
        return self._rows(~users[self.user], left_out=gone)

    def sum_by_user(self, values: FloatArray) -> FloatArray:
        """Return Σ of `values` (n_pos,) over each user's positives, (n_users_with_positives,)."""
        if np.shape(values)[:1] != self.user.shape:
            raise InputError(f"values must have one entry for each of {len(self):,} positives.")
        if not len(self):
            return np.zeros(0)
        return np.asarray(np.add.reduceat(values, self.starts), dtype=np.float64)

    def mean_by_user(self, values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Return Σwv/Σw over each user's positives, (n_users_with_positives,); w = 1 without weights."""
        if weights is None:
            return self.sum_by_user(values) / self.counts
        if np.shape(weights) != self.user.shape or np.shape(values)[:1] != self.user.shape:
            raise InputError(f"values and weights must have one entry for each of {len(self):,} positives.")
        return self.sum_by_user(values * weights) / self.sum_by_user(weights)

    def select(self, keep: BoolArray) -> RankedPositives:
        """Return the chosen positives; their ranks stay as they are."""
        keep = check_mask("keep", keep, len(self))
        return self if keep.all() else self._rows(keep)

    def without(self, mask: BoolArray) -> RankedPositives:
        """Return the ranks when the positives in `mask` (n_pos,) are no candidates of their users at all.

        They stop being positives and competitors: the ranks of the user's other positives, and the number of
        candidates, are those of a catalogue that lacks the item for this user alone. In a top-K list the
        items below move up, and the list is shorter by one: what would have followed is not known. Among
        sampled candidates the draws of the item are taken out, and the list is shorter by them.

        Raises
        ------
        InputError
            For a mask of another shape or type, and for sampled ranks that do not say which positives were
            drawn.

        Examples
        --------
        >>> ranked = RankedPositives([0, 0], [1, 2], [0, 1], [0, 0], [5, 5], ["a"], list("vwxyz"))
        >>> rest = ranked.without(np.array([True, False]))
        >>> rest.n_above, rest.n_candidates
        (array([0]), array([4]))
        """
        mask = check_mask("mask", mask, len(self))
        if not mask.any():
            return self
        stays = ~mask
        gone = np.bincount(self.user[mask], minlength=self.n_population)
        changes: dict[str, Any] = {}
        if self.candidates_by_user is not None:
            changes["candidates_by_user"] = self.candidates_by_user - gone
        if self.sampling is not None:
            above, tied, taken, changes["sampling"] = self.sampling.without(self.user, mask, gone)
        else:
            above, tied = counted_above(self.user, self.n_above, mask)
            taken = gone[self.user]
        if self.max_rank is not None:
            listed = self.n_above < self.max_rank
            above, tied = above * listed, tied * listed  # what is in no list stays beyond it
            full = np.full(self.n_population, self.max_rank)
            length = full if self.list_length is None else self.list_length
            n_listed = np.bincount(self.user[mask & listed], minlength=self.n_population)
            changes["list_length"] = length - n_listed
        for name, fewer in (("n_above", above), ("n_tied", tied), ("n_candidates", taken)):
            changes[name] = np.maximum(getattr(self, name) - fewer, 0)[stays]
        return self._rows(stays, **changes)

    @cached_property
    def in_one_list(self) -> RankedPositives:
        """The ranks that metrics of lists read: each user's positives and draws form one list."""
        if self.sampling is None:
            return self
        above, tied, listed = self.sampling.in_one_list(self.user)
        ranks = self.n_above + above, self.n_tied + tied, self.n_candidates + listed
        return self._rows(slice(None), **dict(zip(PER_POSITIVE[2:5], ranks, strict=True)))

    def _rows(self, rows: BoolArray | slice, **changes: Any) -> RankedPositives:
        at = rows if isinstance(rows, slice) else np.flatnonzero(rows)  # half of a mask's time, or less
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in PER_POSITIVE:
            if values[name] is not None:
                values[name] = values[name][at]
        values |= changes
        values["sampling"] = None if values["sampling"] is None else values["sampling"].select(at)
        return RankedPositives.trusted(**values)

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write the ranks to a parquet file: one row per positive, with ids, readable by any tool.

        The universe of ids, `max_rank` and what else is needed to read them back exactly are in the file's
        metadata. Needs pyarrow.

        Raises
        ------
        InputError
            Without pyarrow, and for ids of a type that parquet does not hold.
        """
        stored = [field.name for field in fields(self) if field.name != "candidate_sums"]
        write(path, {name: getattr(self, name) for name in stored})

    @classmethod
    def from_parquet(cls, path: str | PathLike[str]) -> RankedPositives:
        """Return the ranks that `to_parquet` has written, the same in every value.

        Raises
        ------
        InputError
            Without pyarrow, for a file of another origin, or one of a later format.
        """
        return cls(**read(path))


def check_ranks(ranked: RankedPositives) -> None:
    """Raise `InputError` unless shapes, types, codes and counts go together."""
    size, n_users = ranked.user.size, ranked.user_ids.size
    shapes = dict.fromkeys(PER_POSITIVE, (size,)) | dict.fromkeys(PER_USER, (n_users,))
    for name, shape in shapes.items():
        array = getattr(ranked, name)
        if array is None:
            continue
        if name == "left_out" and array.dtype != bool:
            raise InputError(f"left_out must hold True or False; got dtype {array.dtype}.")
        if name not in ("gain", "left_out") and array.dtype.kind not in "iu" and array.size:
            raise InputError(f"{name} must hold whole numbers; got dtype {array.dtype}.")
        if array.shape != shape:
            what = "user" if shape == (size,) else "user_ids"
            raise InputError(f"{name} must have shape {shape} like {what}; got {array.shape}.")
    if (ranked.cluster is None) != (ranked.cluster_ids is None):
        raise InputError("cluster and cluster_ids go together.")
    ends = {"user": n_users, "item": ranked.item_ids.size, "cluster": ranked.unit_ids.size}
    for name, end in ends.items():
        codes = getattr(ranked, name)
        if codes is None:
            continue
        n_bad = int(((codes < 0) | (codes >= end)).sum())
        if n_bad:
            raise InputError(f"{name} must hold codes from 0 to {end - 1}; {n_bad:,} of {size:,} are not.")
    if ranked.gain is not None:
        check_finite("gain", ranked.gain)
    key = ranked.user * np.int64(max(ranked.item_ids.size, 1)) + ranked.item
    if size and (np.diff(key) <= 0).any():
        raise InputError("ranked positives must be sorted by user, then item, without repetition.")
    bad, limit = (ranked.n_above < 0) | (ranked.n_tied < 0), " and, together, below n_candidates"
    if ranked.max_rank is None:
        bad |= ranked.n_above + ranked.n_tied >= ranked.n_candidates
    else:  # beyond the end of a top-K list the place is not known
        bad |= ranked.n_above > check_positive_int("max_rank", ranked.max_rank, minimum=0)
        limit = f", n_above at most max_rank = {ranked.max_rank}"
    if bad.any():
        raise InputError(
            f"n_above and n_tied must be >= 0{limit}; {int(bad.sum()):,} of {size:,} positives break "
            "this. n_above is the 0-based rank: the best has 0."
        )


def _check_unique(name: str, ids: AnyArray) -> None:
    if ids.ndim != 1:
        raise InputError(f"{name} must be one-dimensional; got shape {ids.shape}.")
    n_repeated = ids.size - len(set(ids.tolist()))
    if n_repeated:
        raise InputError(f"{name} repeats {n_repeated:,} of {ids.size:,} ids; each id may occur once.")
