"""Lists: recommendation lists as they are, and what is to be done with what does not fit the split."""

from __future__ import annotations

import os
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval.data._impressions import Treatment, check_options
from ipseval.data.reading._columns import find_places
from ipseval.data.reading._draft import Draft
from ipseval.data.reading._source import ENCODING, Reading, Source, open_source
from ipseval.data.reading._text import LAYOUTS, LayoutName
from ipseval.data.reading.column_names import Chosen, choose
from ipseval.errors import InputError, Problem, ProblemsError
from ipseval.utils.checks import check_choice, check_type, examples, refuse_masked
from ipseval.utils.checks import counted as counts
from ipseval.utils.counts import Count, counts_frame
from ipseval.utils.ids import Ids, as_ids, repeated, to_id_array
from ipseval.utils.types import AnyArray, BoolArray, IntArray, assign

Seen = Literal["raise", "drop", "keep"]
UnknownItems = Literal["raise", "drop", "candidate"]
RANK, SCORE = "rank", "score"


@dataclass(frozen=True, eq=False)
class Lists:
    """Recommendation lists as they are, to be given to `evaluate` or `rank_positives` like a model.

    What does not fit the split is settled there: nothing is left out without a count in `Evaluation.data`,
    and what is to be refused is said of all lists at once.

    Parameters
    ----------
    source : data frame, mapping, array, or pair of arrays
        * a frame (or path) of entries: user, item and rank or score; or of lists, best
          first: user and items, with scores or without;
        * {user: {item: score}} as ranx has it, {user: [item, …]} best first, or {user: [(item, score), …]};
        * an array (n_users, k) of item ids, best first, or a pair (ids, scores) of such arrays, as
          `recommend` of trained models returns; negative whole numbers are empty places.
    user, item, rank, score : str, optional
        Names of columns. Default: the usual names; with both, `rank` is read.
    seen : {"raise", "drop", "keep"}
        What to do with entries that are training items of their user, which are no candidates: an error, or
        leave them out and let the others move up, or let them keep their places.
    unknown : {"raise", "drop", "candidate"}
        What to do with entries whose item is not in the split, or no candidate: an error, or leave them out,
        or let them keep their places, as items that compete and that no test user chose. Users who are not
        in the split have no test positives: an error, or their entries are left out and counted.
    duplicates : {"raise", "drop"}
        What to do with items that a list holds twice; "drop" keeps the best place.
    missing : {"raise", "drop"}
        What to do with entries without user, item, or rank or score.
    gaps : {"renumber", "raise"}
        What to do with ranks that are not 1, 2, 3, …: take them as an order and count the lists, or an error.
    users : ids, optional
        Of the rows of arrays. Default: those of the split, in its order.
    items : ids, optional
        That the numbers in arrays are places of, where a model was trained on a matrix.

    Raises
    ------
    InputError
        For a source without columns of users, items and ranks or scores. What is wrong with the entries is
        said when they are ranked, together with what does not fit the split.

    Examples
    --------
    >>> lists = Lists({"ann": ["x", "y"], "bob": ["y"]}, seen="drop")
    >>> lists
    Lists(3 entries of 2 users, by rank; seen='drop')
    """

    source: InitVar[Any]
    user: str | None = None
    item: str | None = None
    rank: str | None = None
    score: str | None = None
    seen: Seen = "raise"
    unknown: UnknownItems = "raise"
    duplicates: Literal["raise", "drop"] = "raise"
    missing: Literal["raise", "drop"] = "raise"
    gaps: Literal["renumber", "raise"] = "renumber"
    users: Any | None = None
    items: Any | None = None
    entries: Entries = field(init=False)
    problems: tuple[Problem, ...] = field(init=False)
    counted: tuple[Count, ...] = field(init=False)

    def __post_init__(self, source: Any) -> None:
        check_choice("seen", self.seen, ("raise", "drop", "keep"))
        check_choice("unknown", self.unknown, ("raise", "drop", "candidate"))
        check_options(duplicates=self.duplicates, missing=self.missing)
        check_choice("gaps", self.gaps, ("renumber", "raise"))
        for name in ("user", "item", RANK, SCORE):
            check_type(name, getattr(self, name), (str, type(None)))
        found = Treatment()
        if is_arrays(source):
            entries = of_arrays(source, self.users, self.items, found)
        else:
            entries, found = self._of_table(source)
            if entries.by_rank:
                self._check_ranks(entries, found)
        if entries.user.size:
            entries = self._without_repeats(entries, found)
        assign(self, entries=entries, problems=tuple(found.problems), counted=tuple(found.counted))

    def __repr__(self) -> str:
        entries = self.entries
        size = f"{counts(entries.user.size, 'entry')} of {counts(np.unique(entries.user).size, 'user')}"
        options = {name: getattr(self, name) for name in ("seen", "unknown")}
        chosen = "".join(f"; {name}={value!r}" for name, value in options.items() if value != "raise")
        return f"Lists({size}, by {RANK if entries.by_rank else SCORE}{chosen})"

    @property
    def data(self) -> pd.DataFrame:
        """What was read and left out so far: one row per thing counted; ranking adds to it."""
        return counts_frame(one.about("lists") for one in self.counted)

    def _of_table(self, source: Any) -> tuple[Entries, Draft]:
        for name in ("to_df", "to_dataframe"):  # LensKit's collections of lists, runs of ranx
            if hasattr(source, name) and not hasattr(source, "columns"):
                source = getattr(source, name)()
        opened = open_source(source, ranks(self.user, self.item, self.rank, self.score), "the lists")
        names = self._columns(opened)
        draft = Draft.of(opened, Chosen(names, ()), noun="entries")
        draft.leave_out_missing(self.missing)
        nobody = Ids(np.full(draft.keep.size, -1), np.zeros(0, dtype=np.int64))
        user, item = (draft.ids.get(role, nobody) for role in ("user", "item"))
        by_rank = RANK in names
        order = draft.columns[RANK].values if by_rank else _descending(draft.columns[SCORE].values)
        written = frozenset(draft.written)
        entries = Entries(user.codes, item.codes, order, user.ids, item.ids, by_rank, written)
        return entries.select(draft.keep), draft

    def _without_repeats(self, entries: Entries, found: Treatment) -> Entries:
        """Return the entries with each item once in a list, at its best place, or say that some repeat."""
        known = (entries.user >= 0) & (entries.item >= 0)
        key = entries.user * np.int64(entries.item.max() + 2) + entries.item
        best_first = np.flatnonzero(known)[np.argsort(entries.order[known], kind="stable")]
        again = np.zeros(key.size, dtype=bool)
        again[best_first] = repeated(key[best_first])
        if not again.any():
            return entries
        n_again = int(again.sum())
        if self.duplicates == "drop":
            found.count("entries that repeat an item of their list, left out", n_again, key.size)
            return entries.select(~again)
        first = examples(entries.pair(int(np.flatnonzero(again)[0])))
        what = f"{n_again:,} of {key.size:,} entries repeat an item of their list (first: {first})"
        found.fault(what, "Pass {duplicates=drop} to keep the best place of each")
        return entries

    def _check_ranks(self, entries: Entries, found: Treatment) -> None:
        """Count the lists whose ranks are not 1, 2, 3, …, or say that there are such."""
        known = (entries.user >= 0) & ~np.isnan(entries.order)
        order = np.lexsort((entries.order[known], entries.user[known]))
        user, rank = entries.user[known][order], entries.order[known][order]
        wrong = np.unique(user[rank != np.arange(1, user.size + 1) - np.searchsorted(user, user)])
        if wrong.size and self.gaps == "renumber":
            n_lists = np.unique(user).size
            found.count("lists whose ranks were not 1, 2, 3, …, renumbered", wrong.size, n_lists)
        elif wrong.size:
            ids = wrong if entries.user_ids is None else entries.user_ids[wrong]
            what = f"the ranks of {counts(wrong.size, 'user')} are not 1, 2, 3, … without gap or repetition"
            way_out = "Pass {gaps=renumber} to take them as an order"
            found.fault(f"{what} (e.g. user {examples(ids)})", way_out)

    def _columns(self, source: Source) -> dict[str, str]:
        """Return the columns of user, item and rank or score, whichever is there."""
        given = {name: getattr(self, name) for name in ("user", "item", RANK, SCORE)}
        if source.layout is not None and source.layout.trec == "run":
            usual = dict(zip(("user", "item", SCORE), (source.columns[at] for at in (0, 2, 4)), strict=True))
            given = {name: one or usual.get(name) for name, one in given.items()}
        by = (RANK,) if given[RANK] else (SCORE,) if given[SCORE] else (RANK, SCORE)
        chosen = choose(source.columns, given, ("user", "item", *by), lists=source.lists)
        problems = list(chosen.problems)
        if not {RANK, SCORE} & set(chosen.columns) and (len(by) == 2 or not problems):
            what = "no column has a usual name of ranks or scores; the columns are "
            problems.append(Problem(what + examples(source.columns, 12), "Name it by {rank} or {score}"))
        if problems:
            raise ProblemsError(source.name, problems)
        unread = SCORE if RANK in chosen.columns else ""
        return {role: name for role, name in chosen.columns.items() if role != unread}


def read_lists(
    path: str | os.PathLike[str],
    *,
    layout: LayoutName = "auto",
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = ENCODING,
    **options: Any,
) -> Lists:
    """Return the lists in a file of text, JSON or Parquet, or in a run file of TREC.

    Parameters
    ----------
    path : path
        What `Lists` takes as a frame or mapping, in a file as `read` takes them; or a run file (query, Q0,
        document, rank, score, tag), read by its scores as TREC does.
    layout, separator, header, encoding
        Of a text file; see `read`.
    **options
        As in `Lists`: user, item, rank, score, seen, unknown, duplicates, missing, gaps.

    Raises
    ------
    InputError
        As `Lists`.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"read_lists takes a path; got {type(path).__name__}. Pass it to Lists instead.")
    named = [options.get(name) for name in ("user", "item", RANK, SCORE)]
    check_choice("layout", layout, LAYOUTS)
    how = replace(ranks(*named), layout=layout, separator=separator, header=header, encoding=encoding)
    return Lists(open_source(path, how), **options)


def ranks(*named: str | None) -> Reading:
    """Return how lists are read: where entries stand in lists, their places are ranks."""
    return Reading(named=named, lists="ranks")


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of lists."""

    user: IntArray
    item: IntArray
    order: AnyArray
    user_ids: AnyArray | None
    item_ids: AnyArray
    by_rank: bool
    written: frozenset[str] = frozenset()  # "user" and "item", where their ids are text of a file

    def pair(self, row: int) -> tuple[Any, Any]:
        """Return user and item of an entry; of a user without an id, its place."""
        user = self.user[row] if self.user_ids is None else self.user_ids[self.user[row]]
        return user, self.item_ids[self.item[row]]

    def find_places(self, role: str, known: AnyArray) -> IntArray:
        """Return the position among known ids of each id of users or items, −1 for what is none of them."""
        ids = self.user_ids if role == "user" else self.item_ids
        assert ids is not None  # only lists with ids of users are looked up
        return find_places(ids, known, f"the column of {role}s", from_text=role in self.written)

    def select(self, keep: BoolArray) -> Entries:
        """Return the chosen entries."""
        user, item, order = self.user[keep], self.item[keep], self.order[keep]
        return Entries(user, item, order, self.user_ids, self.item_ids, self.by_rank, self.written)


def is_arrays(source: Any) -> bool:
    """Return whether a source is an array of lists, or a pair of arrays of ids and scores."""
    if isinstance(source, tuple) and len(source) == 2:
        return all(np.ndim(one) == 2 for one in source)
    if isinstance(source, np.ndarray):
        return source.ndim == 2 and not source.dtype.names
    return False


def of_arrays(source: Any, users: Any | None, items: Any | None, found: Treatment) -> Entries:
    """Return the entries of an array of item ids (or places of `items`), best first, or with scores."""
    given, scores = source if isinstance(source, tuple) else (source, None)
    for one in (given, scores):
        refuse_masked(one, "the lists")
    ids = np.asarray(given)
    n_users = len(ids)
    if not ids.size:
        raise InputError(f"the lists have shape {ids.shape}; at least one entry is needed.")
    user_ids = None if users is None else to_id_array(users, "users")
    if user_ids is not None and user_ids.size != n_users:
        raise InputError(f"users must hold one id for each of {n_users:,} rows; got {user_ids.size:,}.")
    empty = np.asarray(pd.isna(ids)) | (ids < 0 if ids.dtype.kind in "if" else False)
    row, place = np.nonzero(~empty)
    values = ids[row, place]
    item_ids, item = _items(values, items)
    order: AnyArray = place
    if scores is not None:
        array = np.asarray(scores)
        if array.shape != ids.shape or array.dtype.kind not in "iuf":
            raise InputError(
                f"scores must be numbers of shape {ids.shape} as the ids; got {array.dtype} {array.shape}."
            )
        order = _descending(array[row, place])
        n_nan = int(np.isnan(order).sum())
        if n_nan:
            raise InputError(f"{n_nan:,} of {order.size:,} scores are NaN.")
    found.counted.append(Count("entries read from an array", ids.size))
    found.count("empty places of the array, left out", int(empty.sum()), ids.size)
    return Entries(row, item, order, user_ids, item_ids, scores is None)


def _descending(scores: AnyArray) -> AnyArray:
    """Return numbers that are smallest where scores are largest; of whole numbers their places, as exact."""
    # Those without a sign, and the least of the others, have no negative in their type.
    return -(np.unique(scores, return_inverse=True)[1] if scores.dtype.kind in "iu" else scores)


def _items(values: AnyArray, items: Any | None) -> tuple[AnyArray, IntArray]:
    if items is None:
        codes, ids = pd.factorize(as_ids(values, "the items of the lists"), sort=True)
        return ids, codes.astype(np.int64)
    ids = to_id_array(items, "items")
    if values.dtype.kind not in "iu" or (values.size and values.max() >= ids.size):
        raise InputError(
            f"with items=, the lists must hold places below {ids.size:,}; got {examples(values)}."
        )
    return ids, values.astype(np.int64)
