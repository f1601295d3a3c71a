"""RankedPositives: the rank of each held-out positive among the candidates of its user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking._parquet import read, write
from ipseval.ranking._sampling import Sampling, count_ranked_above
from ipseval.ranking.top_lists import TopLists
from ipseval.utils.checks import check_finite, check_mask, check_models, check_positive_int
from ipseval.utils.ids import grouped_order, is_member, same_ids
from ipseval.utils.notes import Count
from ipseval.utils.public import public_class
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, as_readonly

PER_POSITIVE = ("user", "item", "n_above", "n_tied", "n_candidates", "gain")
PER_USER = ("candidates_by_user", "list_length", "left_out", "cluster")
ID_FIELDS = ("user_ids", "item_ids", "cluster_ids")
ARRAY_FIELDS = PER_POSITIVE + PER_USER + ID_FIELDS
INTEGER_FIELDS = set(PER_POSITIVE + PER_USER) - {"gain", "left_out"}
MINUS_TRAINING = " minus the user's training items"
ALL_ITEMS = f"all items{MINUS_TRAINING}"
LISTS_BY_USER = "each user's own list"


@public_class
@dataclass(frozen=True, eq=False)
class RankedPositives:
    """Hold the rank of every held-out positive, before any tie rule, sorted by user and then by item.

    With c = `n_above` and t = `n_tied`, the 1-based rank is between c + 1 and c + t + 1; metrics apply the
    tie rule. Ranks can be stored and reused: another metric, estimator or γ does not need another ranking.

    Parameters
    ----------
    user, item : (n_pos,) int arrays
        Codes into `user_ids`, `item_ids`.
    n_above, n_tied : (n_pos,) int arrays
        Candidates scored strictly above the positive, and tied with it (itself not counted).
    n_candidates : (n_pos,) int array
        |C_u|, the size of the user's candidate set, including the positive.
    user_ids, item_ids : arrays
        All ids of users and items. The population of `ips` consists of all users in `user_ids`.
    gain : (n_pos,) float array or None, default None
        Graded relevance of the positive (the test value), if the test data have values.
    max_rank : int or None, default None
        For top-K lists: K, the length of the longest list. Ranks beyond a list are unknown and are stored as
        K + 1. None means that the whole ranking is known.
    candidates_by_user : (n_users,) int array or None, default None
        |C_u| of every user of the population, with or without positives. The unbiased AUC needs it.
    candidates : str
        Description of the competing items, for the report.
    n_not_candidates : int, default 0
        Number of test positives that were excluded because they are not among the candidates. It is positive
        only for restricted candidates.
    sampling : Sampling or None, default None
        For sampled candidates: the record of the draws. Ranks and `n_candidates` then refer to the sampled
        lists. None means that every candidate competes.
    list_length : (n_users,) int array or None, default None
        For top-K lists: the length of each user's list, 0 for a user without a list. Ranks up to this length
        are exact; later positions are padded with misses. None for unknown lengths, and without lists.
    left_out : (n_users,) bool array or None, default None
        Users that are excluded from the population because some model of the comparison has no list for them.
    top : TopLists or None, default None
        The first k candidates of each user with positives, if `top_k` was passed.
    row_counts : tuple of Count, default ()
        For top-K lists: the numbers of entries that were read, excluded and kept.
    cluster : (n_users,) int array or None, default None
        If the users of these ranks are queries: the person of each query, as a code of `cluster_ids`. Queries
        of one person are not independent, so standard errors are computed from sums over persons. None means
        that users are independent.
    cluster_ids : array or None, default None
        All ids of these persons.
    list_hash : str, default ""
        For top-K lists: a hash of their entries, by which unchanged lists are recognised.
    candidate_sums : object or None, default None
        Sums over all candidates, for estimators that need more than the positives; `ipseval.policies`
        computes them. They are not written to parquet files.

    Raises
    ------
    InputError
        For arrays that contradict each other or the ids: codes out of range, ranks that are impossible in a
        list of `n_candidates` items, repeated ids or pairs, and gains that are not finite.

    See Also
    --------
    rank_positives : Compute these ranks from a model.

    Examples
    --------
    Ranks of another system: Anna's items 0 and 2 have the ranks 1 and 5, and Ben's item 1 has rank 2.

    >>> import ipseval
    >>> ranks = RankedPositives(
    ...     user=[0, 0, 1],
    ...     item=[0, 2, 1],
    ...     n_above=[0, 4, 1],
    ...     n_tied=[0, 0, 0],
    ...     n_candidates=[9, 9, 9],
    ...     user_ids=["anna", "ben"],
    ...     item_ids=range(10),
    ... )
    >>> ranks
    RankedPositives(3 positives of 2 users; all items minus the user's training items)
    >>> ipseval.evaluate_ranks({"model": ranks}, metrics=["recall@2"]).frame["estimate"].item()
    0.75
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
    row_counts: tuple[Count, ...] = ()
    cluster: IntArray | None = None
    cluster_ids: AnyArray | None = None
    list_hash: str = ""
    candidate_sums: Any = None

    def __post_init__(self) -> None:
        for name in ARRAY_FIELDS:
            values = getattr(self, name)
            if values is None:
                continue
            # A read-only array is shared between results; any other array is copied.
            if isinstance(values, np.ndarray) and not values.flags.writeable:
                continue
            array = as_readonly(np.array(values))
            object.__setattr__(self, name, array)
            if name in ID_FIELDS:
                _check_unique(name, array)
        check_ranks(self)

    @classmethod
    def from_validated(cls, **values: Any) -> RankedPositives:
        """Return ranks from values that are known to be valid, without checks and copies.

        Parameters
        ----------
        **values
            Values of the fields by name; fields that are not given have their default.
        """
        ranked = object.__new__(cls)
        for field in fields(cls):
            value = values.get(field.name, field.default)
            if isinstance(value, np.ndarray):
                value = as_readonly(value)
            ranked.__dict__[field.name] = value
        return ranked

    def __len__(self) -> int:
        return int(self.user.size)

    def __repr__(self) -> str:
        return f"RankedPositives({len(self):,} positives of {self.users.size:,} users; {self.candidates})"

    @cached_property
    def starts(self) -> IntArray:
        """Row of the first positive of each user, (n_users_with_positives,)."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        return as_readonly(np.append(0, np.flatnonzero(self.user[1:] != self.user[:-1]) + 1))

    @cached_property
    def counts(self) -> IntArray:
        """Number of positives of each user with at least one positive, |S*_u|."""
        return as_readonly(np.diff(np.append(self.starts, len(self))))

    @cached_property
    def users(self) -> IntArray:
        """Codes of the users that have positives, ascending."""
        return as_readonly(self.user[self.starts])

    @cached_property
    def segment(self) -> IntArray:
        """Position in `users` of each positive's user, (n_pos,)."""
        return as_readonly(np.repeat(np.arange(self.starts.size), self.counts))

    @cached_property
    def has_ties(self) -> bool:
        """Whether any positive ties with another candidate."""
        return bool(self.n_tied.any())

    @cached_property
    def by_rank(self) -> IntArray:
        """Row numbers that sort the positives by user, then from best to worst; ties by item."""
        return as_readonly(grouped_order(self.segment, self.n_above))

    @cached_property
    def cache(self) -> dict[str, Any]:
        """Cache for values that metrics compute from the ranks alone; empty at first."""
        return {}

    @property
    def n_population(self) -> int:
        """Number of all users, with or without positives."""
        return int(self.user_ids.size)

    @property
    def unit_ids(self) -> AnyArray:
        """Ids of the independent units: of the users, or of the persons if the users are queries."""
        if self.cluster_ids is None:
            return self.user_ids
        return self.cluster_ids

    def unit(self, user: IntArray) -> IntArray:
        """Return the codes of the independent units to which users, or queries, belong.

        Parameters
        ----------
        user : int array
            Codes of users, or of queries.

        Returns
        -------
        int array
            The codes themselves if users are the units, else codes of the persons.
        """
        if self.cluster is None:
            return user
        return self.cluster[user]

    def list_counts(self, depth: int) -> IntArray:
        """Return the number of users with positives by the length of their list: 0, 1, …, `depth` items.

        Parameters
        ----------
        depth : int
            Largest length that is distinguished. Longer lists, lists of all candidates, and scores of all
            items count as `depth`.

        Returns
        -------
        (depth + 1,) int array
            Number of users by length of the list.
        """
        check_positive_int("depth", depth, minimum=0)
        length: IntArray = np.full(self.users.size, depth)
        if self.list_length is not None:
            user_length = self.list_length[self.users]
            is_incomplete = user_length < self.n_candidates[self.starts]
            length = np.where(is_incomplete, np.minimum(user_length, depth), depth)
        return np.bincount(length, minlength=depth + 1)

    def pad_lists(self, depth: int) -> RankedPositives:
        """Return the ranks of lists padded with misses up to `depth`, so that metrics @depth are defined.

        Parameters
        ----------
        depth : int
            Length of the padded lists.

        Returns
        -------
        RankedPositives
            These ranks unchanged, if they come from scores or from lists of at least `depth` items.
        """
        if self.max_rank is None or self.max_rank >= depth:
            return self
        is_miss = self.n_above >= self.max_rank
        return self._rows(slice(None), n_above=np.where(is_miss, depth, self.n_above), max_rank=depth)

    def exclude_users(self, users: BoolArray) -> RankedPositives:
        """Return the ranks without some users, and exclude these users from the population.

        Parameters
        ----------
        users : (n_users,) bool array
            True for each user to exclude.

        Returns
        -------
        RankedPositives
            Ranks whose field `left_out` marks these users, in addition to users who were excluded before.

        Raises
        ------
        InputError
            For a mask of another shape or type.
        """
        users = check_mask("users", users, self.n_population)
        left_out = users
        if self.left_out is not None:
            left_out = users | self.left_out
        return self._rows(~users[self.user], left_out=left_out)

    def sum_by_user(self, values: FloatArray) -> FloatArray:
        """Return the sum of values over the positives of each user.

        Parameters
        ----------
        values : (n_pos,) float array
            Value of each positive.

        Returns
        -------
        (n_users_with_positives,) float array
            Sums in the order of `users`.

        Raises
        ------
        InputError
            When values do not have one entry per positive.
        """
        if np.shape(values)[:1] != self.user.shape:
            raise InputError(f"values must have one entry for each of {len(self):,} positives.")
        if not len(self):
            return np.zeros(0)
        return np.asarray(np.add.reduceat(values, self.starts), dtype=np.float64)

    def mean_by_user(self, values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Return the mean of values over the positives of each user, Σwv/Σw.

        Parameters
        ----------
        values : (n_pos,) float array
            v of each positive.
        weights : (n_pos,) float array or None, default None
            w of each positive; None for w = 1.

        Returns
        -------
        (n_users_with_positives,) float array
            Means in the order of `users`.

        Raises
        ------
        InputError
            When values or weights do not have one entry per positive.
        """
        if weights is None:
            return self.sum_by_user(values) / self.counts
        if np.shape(weights) != self.user.shape or np.shape(values)[:1] != self.user.shape:
            raise InputError(f"values and weights must have one entry for each of {len(self):,} positives.")
        return self.sum_by_user(values * weights) / self.sum_by_user(weights)

    def select(self, keep: BoolArray) -> RankedPositives:
        """Return some of the positives with unchanged ranks.

        Parameters
        ----------
        keep : (n_pos,) bool array
            True for each positive to keep.

        Returns
        -------
        RankedPositives
            The selected positives; the remaining ones stay among the candidates.

        Raises
        ------
        InputError
            For a mask of another shape or type.
        """
        keep = check_mask("keep", keep, len(self))
        if keep.all():
            return self
        return self._rows(keep)

    def remove_positives(self, mask: BoolArray) -> RankedPositives:
        """Return the ranks after the positives in `mask` are removed from their users' candidates.

        The ranks of the user's remaining positives, and the number of candidates, are those of a catalogue
        that lacks the removed items for this user alone. In a top-K list, the items below move up and the
        list becomes shorter by one, because the item that would have followed is unknown. Among sampled
        candidates, the draws of a removed item are removed as well, and the list becomes shorter by them.

        Parameters
        ----------
        mask : (n_pos,) bool array
            True for each positive to remove.

        Returns
        -------
        RankedPositives
            Ranks of the remaining positives.

        Raises
        ------
        InputError
            For a mask of another shape or type, and for sampled ranks without a record of the positives that
            were drawn.

        Examples
        --------
        >>> ranked = RankedPositives([0, 0], [1, 2], [0, 1], [0, 0], [5, 5], ["a"], list("vwxyz"))
        >>> remaining = ranked.remove_positives(np.array([True, False]))
        >>> remaining.n_above, remaining.n_candidates
        (array([0]), array([4]))
        """
        mask = check_mask("mask", mask, len(self))
        if not mask.any():
            return self

        n_removed: IntArray = np.bincount(self.user[mask], minlength=self.n_population)
        changes: dict[str, object] = {}
        if self.candidates_by_user is not None:
            changes["candidates_by_user"] = self.candidates_by_user - n_removed

        if self.sampling is None:
            n_above_removed, n_tied_removed = count_ranked_above(self.user, self.n_above, mask)
            n_candidates_removed = n_removed[self.user]
        else:
            losses = self.sampling.remove_positives(self.user, mask, n_removed)
            n_above_removed, n_tied_removed, n_candidates_removed, changes["sampling"] = losses

        if self.max_rank is not None:
            is_listed = self.n_above < self.max_rank
            # The rank of a positive that is in no list stays beyond the list.
            n_above_removed = n_above_removed * is_listed
            n_tied_removed = n_tied_removed * is_listed
            changes["list_length"] = self._shorten_lists(mask & is_listed)

        stays = ~mask
        changes["n_above"] = np.maximum(self.n_above - n_above_removed, 0)[stays]
        changes["n_tied"] = np.maximum(self.n_tied - n_tied_removed, 0)[stays]
        changes["n_candidates"] = np.maximum(self.n_candidates - n_candidates_removed, 0)[stays]
        return self._rows(stays, **changes)

    def _shorten_lists(self, is_removed: BoolArray) -> IntArray:
        """Return the length of each user's list after the listed positives in `is_removed` are taken out."""
        length: IntArray = np.full(self.n_population, self.max_rank)
        if self.list_length is not None:
            length = self.list_length
        return length - np.bincount(self.user[is_removed], minlength=self.n_population)

    @cached_property
    def in_one_list(self) -> RankedPositives:
        """Ranks for metrics of lists: each user's positives and draws form one list."""
        if self.sampling is None:
            return self
        n_above_added, n_tied_added, n_listed_added = self.sampling.count_in_shared_list(self.user)
        return self._rows(
            slice(None),
            n_above=self.n_above + n_above_added,
            n_tied=self.n_tied + n_tied_added,
            n_candidates=self.n_candidates + n_listed_added,
        )

    def _rows(self, rows: BoolArray | slice, **changes: object) -> RankedPositives:
        """Return the ranks of some rows, with other values for the fields in `changes`."""
        if isinstance(rows, slice):
            selection: IntArray | slice = rows
        else:
            # Indexing many arrays with row numbers takes at most half the time of indexing with a mask.
            selection = np.flatnonzero(rows)

        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in PER_POSITIVE:
            if values[name] is not None:
                values[name] = values[name][selection]
        values |= changes
        if values["sampling"] is not None:
            values["sampling"] = values["sampling"].select(selection)
        return RankedPositives.from_validated(**values)

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write the ranks to a parquet file: one row per positive, with ids, readable by any tool.

        All ids, `max_rank` and the other values that are needed to read the ranks back exactly are stored in
        the file's metadata. This needs pyarrow.

        Parameters
        ----------
        path : str or path
            File to write; an existing file is replaced.

        Raises
        ------
        InputError
            Without pyarrow, and for ids of a type that parquet cannot store.
        """
        names = []
        for field in fields(self):
            if field.name != "candidate_sums":
                names.append(field.name)

        write(path, {name: getattr(self, name) for name in names})

    @classmethod
    def from_parquet(cls, path: str | PathLike[str]) -> RankedPositives:
        """Read ranks from a file that `to_parquet` has written, with the same values and types.

        Parameters
        ----------
        path : str or path
            File to read.

        Returns
        -------
        RankedPositives

        Raises
        ------
        InputError
            Without pyarrow, for a file of another origin, and for a file of a later format.
        """
        return cls(**read(path))


def with_top_lists(ranks: RankedPositives, top: TopLists) -> RankedPositives:
    """Return the same ranks with `top`, without the checks that a new object would repeat."""
    return ranks._rows(slice(None), top=top)


def check_ranks(ranks: RankedPositives) -> None:
    """Raise `InputError` unless shapes, types, codes and counts are consistent."""
    _check_array_shapes(ranks)
    _check_codes(ranks)
    if ranks.gain is not None:
        check_finite("gain", ranks.gain)
    _check_order(ranks)
    _check_rank_limits(ranks)


def _check_array_shapes(ranks: RankedPositives) -> None:
    """Raise `InputError` for an array of another type or length than its field must have."""
    n_positives = ranks.user.size
    n_users = ranks.user_ids.size
    shapes = dict.fromkeys(PER_POSITIVE, (n_positives,)) | dict.fromkeys(PER_USER, (n_users,))
    for name, shape in shapes.items():
        array = getattr(ranks, name)
        if array is None:
            continue
        if name == "left_out" and array.dtype != bool:
            raise InputError(f"left_out must hold True or False; got dtype {array.dtype}.")
        if name in INTEGER_FIELDS and array.dtype.kind not in "iu" and array.size:
            raise InputError(f"{name} must hold whole numbers; got dtype {array.dtype}.")
        if array.shape != shape:
            reference = "user" if shape == (n_positives,) else "user_ids"
            raise InputError(f"{name} must have shape {shape} like {reference}; got {array.shape}.")
    if (ranks.cluster is None) != (ranks.cluster_ids is None):
        raise InputError("cluster and cluster_ids go together.")


def _check_codes(ranks: RankedPositives) -> None:
    """Raise `InputError` for codes of users, items or clusters outside the range of the ids."""
    n_codes = {
        "user": ranks.user_ids.size,
        "item": ranks.item_ids.size,
        "cluster": ranks.unit_ids.size,
    }
    for name, end in n_codes.items():
        codes = getattr(ranks, name)
        if codes is None:
            continue
        n_invalid = int(((codes < 0) | (codes >= end)).sum())
        if n_invalid:
            raise InputError(
                f"{name} must hold codes from 0 to {end - 1}; {n_invalid:,} of {len(ranks):,} are not."
            )


def _check_order(ranks: RankedPositives) -> None:
    """Raise `InputError` unless the pairs of user and item are strictly ascending."""
    key = ranks.user * np.int64(max(ranks.item_ids.size, 1)) + ranks.item
    if len(ranks) and (np.diff(key) <= 0).any():
        raise InputError("ranked positives must be sorted by user, then item, without repetition.")


def _check_rank_limits(ranks: RankedPositives) -> None:
    """Raise `InputError` for ranks that do not exist in a list of the stated length."""
    is_invalid = (ranks.n_above < 0) | (ranks.n_tied < 0)
    if ranks.max_rank is None:
        is_invalid |= ranks.n_above + ranks.n_tied >= ranks.n_candidates
        limit = " and, together, below n_candidates"
    else:
        # Positions beyond the end of a top-K list are unknown.
        is_invalid |= ranks.n_above > check_positive_int("max_rank", ranks.max_rank, minimum=0)
        limit = f", n_above at most max_rank = {ranks.max_rank}"
    if is_invalid.any():
        raise InputError(
            f"n_above and n_tied must be >= 0{limit}; {int(is_invalid.sum()):,} of {len(ranks):,} positives "
            "break this. n_above is the 0-based rank: the best has 0."
        )


def _check_unique(name: str, ids: AnyArray) -> None:
    """Raise `InputError` unless `ids` is one-dimensional and without repetition."""
    if ids.ndim != 1:
        raise InputError(f"{name} must be one-dimensional; got shape {ids.shape}.")
    n_repeated = ids.size - len(set(ids.tolist()))
    if n_repeated:
        raise InputError(f"{name} repeats {n_repeated:,} of {ids.size:,} ids; each id may occur once.")


def check_same_positives(ranks: Mapping[str, RankedPositives]) -> None:
    """Raise `InputError` unless all rank the same positives, at least one, among the same candidates."""
    check_models(ranks, "ranks", "RankedPositives")
    for name, model_ranks in ranks.items():
        if not isinstance(model_ranks, RankedPositives):
            raise InputError(
                f"{name!r} must be RankedPositives, made by rank_positives; got {type(model_ranks).__name__}."
            )
    first_name, first_ranks = next(iter(ranks.items()))
    if not len(first_ranks):
        raise InputError("there is no positive to evaluate.")
    for name, model_ranks in ranks.items():
        if model_ranks is first_ranks:
            continue
        if not _has_same_positives(model_ranks, first_ranks):
            raise InputError(
                f"{name!r} and {first_name!r} rank different test positives ({len(model_ranks):,} and "
                f"{len(first_ranks):,}); rank all recommenders on one split."
            )
        has_same_sizes = np.array_equal(model_ranks.n_candidates, first_ranks.n_candidates)
        if model_ranks.candidates != first_ranks.candidates or not has_same_sizes:
            raise InputError(
                f"{name!r} is ranked among other candidates ({model_ranks.candidates}) than {first_name!r} "
                f"({first_ranks.candidates}); ranks of one table must come from the same candidates."
            )


def _has_same_positives(model_ranks: RankedPositives, first_ranks: RankedPositives) -> bool:
    """Return whether two models rank the same pairs, of the same independent units and ids."""
    if len(model_ranks) != len(first_ranks):
        return False
    if not np.array_equal(model_ranks.user, first_ranks.user) or not np.array_equal(
        model_ranks.item, first_ranks.item
    ):
        return False
    if not np.array_equal(model_ranks.unit(model_ranks.users), first_ranks.unit(first_ranks.users)):
        return False
    return bool(same_ids(model_ranks, first_ranks))


def check_ranks_of_split(model_ranks: RankedPositives, split: Split, name: str) -> None:
    """Raise `InputError` if given ranks do not rank test positives of this split."""
    if not same_ids(model_ranks, split):
        raise InputError(
            f"{name!r} is ranked over {model_ranks.user_ids.size:,} users and "
            f"{model_ranks.item_ids.size:,} items that are not the {split.n_users:,} and {split.n_items:,} "
            "of the split; rank it again on this split."
        )
    keys = model_ranks.user * np.int64(split.n_items) + model_ranks.item
    n_outside = int((~is_member(keys, split.test.pair_key)).sum())
    if n_outside:
        raise InputError(
            f"{name!r}: {n_outside:,} of {keys.size:,} ranked positives are not in the test part of the "
            "split; rank it again on this split."
        )
