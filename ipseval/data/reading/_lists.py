"""Lists: recommendation lists from frames, mappings, arrays and files, and how to treat their problems."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import pandas as pd
from narwhals.typing import IntoFrame

from ipseval.data._audit import Audit
from ipseval.data._impression_checks import check_options
from ipseval.data.reading._id_columns import find_places
from ipseval.data.reading._log_builder import LogBuilder
from ipseval.data.reading._open_source import open_source
from ipseval.data.reading._order_checks import check_ranks, check_scores
from ipseval.data.reading._role_checks import RoleProblem
from ipseval.data.reading._source import ENCODING, ReadOptions, Source
from ipseval.data.reading._text import LAYOUTS, LayoutName
from ipseval.data.reading.column_names import N_EXAMPLES, ColumnMatch, Evidence, match_columns
from ipseval.errors import InputError, Problem, ProblemsError
from ipseval.utils.checks import check_choice, check_type, format_count, format_examples, refuse_masked
from ipseval.utils.ids import Ids, as_ids, mark_repeats, to_id_array
from ipseval.utils.notes import Count, counts_frame
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import AnyArray, BoolArray, IntArray, assign

Seen = Literal["raise", "drop", "keep"]
UnknownItems = Literal["raise", "drop", "candidate"]
RANK = "rank"
SCORE = "score"
COLUMN_ROLES = ("user", "item", RANK, SCORE)

ListArrays: TypeAlias = np.ndarray[Any, Any] | tuple[npt.ArrayLike, npt.ArrayLike]
ListSource: TypeAlias = str | os.PathLike[str] | IntoFrame | Mapping[Any, Any] | ListArrays | Source


@public_class
@dataclass(frozen=True, eq=False)
class Lists:
    """Store recommendation lists, to be passed to `evaluate` or `rank_positives` like a model.

    The options decide how entries are treated that do not fit the split. Every entry that is left out is
    counted in `Evaluation.data`, and one error lists all problems.

    Parameters
    ----------
    source : data frame, mapping, array, or pair of arrays
        * A frame (or path) of entries, with columns user, item and rank or score; or of lists, best first,
          with columns user and items, and perhaps scores.
        * {user: {item: score}} as in ranx, {user: [item, …]} best first, or {user: [(item, score), …]}.
        * An array (n_users, k) of item ids, best first, or a pair (ids, scores) of such arrays, which
          `recommend` of trained models returns; negative whole numbers are empty positions.
    user, item, rank, score : str, optional
        Names of columns. Default: the usual names; if there are ranks and scores, the ranks are read. A column
        that is not named here must fit its role: ranks are positions, and scores that count 1, 2, 3, … down
        every list are an error, or a count in sources of fewer than 50 entries.
    seen : {"raise", "drop", "keep"}
        How to treat entries that are training items of their user, which are not candidates: raise an error
        (default); leave them out and move the other entries up; or let them keep their positions.
    unknown : {"raise", "drop", "candidate"}
        How to treat entries whose item is not in the split, or not a candidate: raise an error (default);
        leave them out; or let them keep their positions, as items that compete and that no test user chose.
        Users who are not in the split have no test positives: they raise an error, or their entries are left
        out and counted.
    duplicates : {"raise", "drop"}
        How to treat items that occur twice in a list: raise an error (default), or keep the best position.
    missing : {"raise", "drop"}
        How to treat entries without user, item, or rank or score. Default: raise an error.
    gaps : {"renumber", "raise"}
        How to treat ranks that are not 1, 2, 3, …: use their order and count the lists (default), or raise an
        error, unless the ranks of all lists are 0, 1, 2, ….
    users : array-like of ids, optional
        Ids of the rows of arrays. Default: the users of the split, in its order.
    items : array-like of ids, optional
        Ids to whose positions the numbers in arrays refer, if a model was trained on a matrix.

    Attributes
    ----------
    entries : Entries
        The entries of the lists.
    problems : tuple of Problem
        Problems of the entries, which are raised when the lists are ranked.
    counted : tuple of Count
        Counts of entries that were read and left out; `data` returns them as a table.

    Raises
    ------
    InputError
        For a source without columns of users, items and ranks or scores. Problems of the entries are raised
        when the lists are ranked, together with entries that do not fit the split.

    See Also
    --------
    read_lists : Read lists from a file.

    Examples
    --------
    >>> lists = Lists({"ann": ["x", "y"], "bob": ["y"]}, seen="drop")
    >>> lists
    Lists(3 entries of 2 users, by rank; seen='drop')
    """

    source: InitVar[ListSource]
    user: str | None = None
    item: str | None = None
    rank: str | None = None
    score: str | None = None
    seen: Seen = "raise"
    unknown: UnknownItems = "raise"
    duplicates: Literal["raise", "drop"] = "raise"
    missing: Literal["raise", "drop"] = "raise"
    gaps: Literal["renumber", "raise"] = "renumber"
    users: npt.ArrayLike | None = None
    items: npt.ArrayLike | None = None
    entries: Entries = field(init=False)
    problems: tuple[Problem, ...] = field(init=False)
    counted: tuple[Count, ...] = field(init=False)

    def __post_init__(self, source: ListSource) -> None:
        check_choice("seen", self.seen, ("raise", "drop", "keep"))
        check_choice("unknown", self.unknown, ("raise", "drop", "candidate"))
        check_options(duplicates=self.duplicates, missing=self.missing)
        check_choice("gaps", self.gaps, ("renumber", "raise"))
        for role, name in self._get_column_names().items():
            check_type(role, name, (str, type(None)))
        if _are_arrays(source):
            audit = Audit()
            entries = _read_arrays(source, self.users, self.items, audit)
        else:
            entries, audit = self._read_table(source)
            if entries.by_rank:
                self._check_ranks(entries, audit)
        if entries.user.size:
            entries = self._treat_repeated_items(entries, audit)
        assign(self, entries=entries, problems=tuple(audit.problems), counted=tuple(audit.counts))

    def __repr__(self) -> str:
        n_entries = format_count(self.entries.user.size, "entry")
        n_users = format_count(np.unique(self.entries.user).size, "user")
        order = SCORE
        if self.entries.by_rank:
            order = RANK
        options = ""
        for name in ("seen", "unknown"):
            value = getattr(self, name)
            if value != "raise":
                options += f"; {name}={value!r}"
        return f"Lists({n_entries} of {n_users}, by {order}{options})"

    @property
    def data(self) -> pd.DataFrame:
        """Table of the entries that were read and left out.

        Its columns are subject, what, count and of. Ranking the lists adds counts to `Evaluation.data`.
        """
        return counts_frame(count.with_subject("lists") for count in self.counted)

    def _get_column_names(self) -> dict[str, str | None]:
        """Return the name of the column of each role; None if the caller has not named it."""
        return {"user": self.user, "item": self.item, RANK: self.rank, SCORE: self.score}

    def _read_table(self, source: object) -> tuple[Entries, Audit]:
        """Return the entries of a frame, mapping or file, with counts and problems."""
        for method in ("to_df", "to_dataframe"):  # lists of LensKit, runs of ranx
            if hasattr(source, method) and not hasattr(source, "columns"):
                source = getattr(source, method)()
        opened_source = open_source(source, _list_options(self._get_column_names()), "the lists")
        match = self._match_columns(opened_source)
        columns = match.columns
        builder = LogBuilder.from_source(opened_source, match, row_noun="entries")
        builder.check_roles(opened_source)
        builder.add_role_problem(_check_order(builder))
        builder.leave_out_missing(self.missing)
        no_ids = Ids(np.full(builder.keep.size, -1), np.zeros(0, dtype=np.int64))  # of a column with problems
        user = builder.ids.get("user", no_ids)
        item = builder.ids.get("item", no_ids)
        if RANK in columns:
            order = builder.values[RANK].values
        if SCORE in columns:
            order = _negate_scores(builder.values[SCORE].values)
        entries = Entries(
            user=user.codes,
            item=item.codes,
            order=order,
            user_ids=user.ids,
            item_ids=item.ids,
            by_rank=RANK in columns,
            text_roles=frozenset(builder.text_roles),
        )
        return entries.select(builder.keep), builder.audit

    def _treat_repeated_items(self, entries: Entries, audit: Audit) -> Entries:
        """Return the entries with each item once in a list, at its best position; or add a problem."""
        is_known = (entries.user >= 0) & (entries.item >= 0)
        pair_key = entries.user * np.int64(entries.item.max() + 2) + entries.item
        best_first = np.flatnonzero(is_known)[np.argsort(entries.order[is_known], kind="stable")]
        is_repeat = np.zeros(pair_key.size, dtype=bool)
        is_repeat[best_first] = mark_repeats(pair_key[best_first])
        if not is_repeat.any():
            return entries
        n_repeats = int(is_repeat.sum())
        if self.duplicates == "drop":
            audit.add_count("entries that repeat an item of their list, left out", n_repeats, pair_key.size)
            return entries.select(~is_repeat)
        first_pair = format_examples(entries.pair(int(np.flatnonzero(is_repeat)[0])))
        audit.add_problem(
            f"{n_repeats:,} of {pair_key.size:,} entries repeat an item of their list (first: {first_pair})",
            "Pass {duplicates=drop} to keep the best position of each",
        )
        return entries

    def _check_ranks(self, entries: Entries, audit: Audit) -> None:
        """Add a count or a problem for lists with other ranks than 1, 2, 3, …."""
        is_known = (entries.user >= 0) & ~np.isnan(entries.order)
        sorting = np.lexsort((entries.order[is_known], entries.user[is_known]))
        users = entries.user[is_known][sorting]
        ranks = entries.order[is_known][sorting]
        list_starts = np.searchsorted(users, users)
        positions = np.arange(1, users.size + 1) - list_starts
        gap_users = np.unique(users[ranks != positions])
        if not gap_users.size:
            return
        if self.gaps == "raise" and (ranks == positions - 1).all():
            return  # all lists count from 0
        if self.gaps == "renumber":
            n_lists = np.unique(users).size
            audit.add_count(
                "lists whose ranks were not 1, 2, 3, …, renumbered", gap_users.size, n_lists, code="number"
            )
            return
        ids = gap_users
        if entries.user_ids is not None:
            ids = entries.user_ids[gap_users]
        audit.add_problem(
            f"the ranks of {format_count(gap_users.size, 'user')} are not 1, 2, 3, … without gap or repetition "
            f"(e.g. user {format_examples(ids)})",
            "Pass {gaps=renumber} to use their order",
        )

    def _match_columns(self, source: Source) -> ColumnMatch:
        """Return the columns of user, item and rank or score; rank if there are both."""
        names = self._get_column_names()
        named_roles = {role for role, name in names.items() if name is not None}
        if source.layout is not None and source.layout.trec == "run":
            # The columns of a run are query, Q0, document, rank, score and tag.
            names["user"] = names["user"] or source.columns[0]
            names["item"] = names["item"] or source.columns[2]
            names[SCORE] = names[SCORE] or source.columns[4]
        order_roles: tuple[str, ...] = (RANK, SCORE)
        if names[RANK]:
            order_roles = (RANK,)
        elif names[SCORE]:
            order_roles = (SCORE,)
        match = match_columns(
            source.columns, names, ("user", "item", *order_roles), list_columns=source.lists
        )
        problems = list(match.problems)
        has_order = RANK in match.columns or SCORE in match.columns
        if not has_order and (len(order_roles) == 2 or not problems):
            description = (
                "no column has a usual name of ranks or scores; the columns are "
                f"{format_examples(source.columns, N_EXAMPLES)}"
            )
            problems.append(Problem(description, "Name it by {rank} or {score}"))
        if problems:
            raise ProblemsError(source.name, problems)
        columns = dict(match.columns)
        if RANK in columns:
            columns.pop(SCORE, None)
        evidence: dict[str, Evidence] = {}
        if not source.has_fixed_roles:
            for role in columns:
                if role not in named_roles:
                    evidence[role] = "name"
        return ColumnMatch(columns, (), evidence)


def _check_order(builder: LogBuilder) -> RoleProblem | None:
    """Return the problem of ranks or scores that do not fit their role and that the caller has not named."""
    if builder.audit.problems or "user" not in builder.ids:
        return None
    if RANK in builder.evidence:
        return check_ranks(builder.values[RANK].values, builder.column_names[RANK])
    if SCORE in builder.evidence:
        scores = builder.values[SCORE].values
        return check_scores(scores, builder.ids["user"].codes, builder.column_names[SCORE])
    return None


@public_function
def read_lists(
    path: str | os.PathLike[str],
    *,
    layout: LayoutName = "auto",
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = ENCODING,
    **options: Any,
) -> Lists:
    """Read recommendation lists from a file of text, JSON or Parquet, or from a TREC run.

    Parameters
    ----------
    path : path
        A frame or mapping as in `Lists`, in a file as in `read`; or a run file (query, Q0, document, rank,
        score, tag), whose scores are read as TREC does.
    layout : {"auto", "table", "pairs", "adjacency", "trec"}, default "auto"
        Layout of a text file, as in `read`.
    separator : str, optional
        Separator of the fields of a text file. Default: found in the file, as in `read`.
    header : bool, optional
        Whether the first line of a text file names the columns. Default: found in the file, as in `read`.
    encoding : str, default "utf-8"
        Encoding of a text file.
    **options
        Options of `Lists`: user, item, rank, score, seen, unknown, duplicates, missing, gaps.

    Returns
    -------
    Lists
        The lists.

    Raises
    ------
    InputError
        As in `Lists`.

    See Also
    --------
    Lists : Lists from frames, mappings and arrays.

    Examples
    --------
    Lists of two users, the best item first, in a file with a header:

    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> columns = {"user": ["anna", "anna", "ben"], "item": ["c", "a", "a"], "rank": [1, 2, 1]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "lists.csv")
    ...     pd.DataFrame(columns).to_csv(path, index=False)
    ...     read_lists(path)
    Lists(3 entries of 2 users, by rank)
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"read_lists takes a path; got {type(path).__name__}. Pass it to Lists instead.")
    names = {role: options.get(role) for role in COLUMN_ROLES}
    check_choice("layout", layout, LAYOUTS)
    read_options = replace(
        _list_options(names), layout=layout, separator=separator, header=header, encoding=encoding
    )
    return Lists(open_source(path, read_options), **options)


def _list_options(names: Mapping[str, str | None]) -> ReadOptions:
    """Return the options for sources of lists, in which the positions of entries are ranks."""
    return ReadOptions(named_columns=tuple(names.values()), lists="ranks")


@dataclass(frozen=True, eq=False)
class Entries:
    """Store the entries of lists.

    Attributes
    ----------
    user, item : (n,) int arrays
        Codes of the ids; −1 if missing.
    order : (n,) array
        Numbers that are smaller for better entries: ranks, or negative scores.
    user_ids, item_ids : arrays
        Ids of the codes; `user_ids` is None if the rows of arrays are the users of the split.
    by_rank : bool
        Whether the order is given by ranks.
    text_roles : frozenset of str
        "user" and "item", if their ids are text of a file.
    """

    user: IntArray
    item: IntArray
    order: AnyArray
    user_ids: AnyArray | None
    item_ids: AnyArray
    by_rank: bool
    text_roles: frozenset[str] = frozenset()

    def pair(self, row: int) -> tuple[object, object]:
        """Return the user and the item of an entry; the number of the user if there are no ids."""
        user = self.user[row]
        if self.user_ids is not None:
            user = self.user_ids[user]
        return user, self.item_ids[self.item[row]]

    def find_places(self, role: str, universe: AnyArray) -> IntArray:
        """Return the position in the universe of each id of users or items, −1 for unknown ids."""
        ids = self.user_ids if role == "user" else self.item_ids
        assert ids is not None  # only lists with ids of users are looked up
        return find_places(
            ids,
            universe,
            f"the column of {role}s",
            from_text=role in self.text_roles,
            sources=("the lists", "the split"),
        )

    def select(self, keep: BoolArray) -> Entries:
        """Return the entries of a mask."""
        return replace(self, user=self.user[keep], item=self.item[keep], order=self.order[keep])


def _are_arrays(source: object) -> TypeGuard[ListArrays]:
    """Return whether a source is an array of lists, or a pair of arrays of ids and scores."""
    if isinstance(source, tuple) and len(source) == 2:
        return all(np.ndim(array) == 2 for array in source)
    if isinstance(source, np.ndarray):
        return source.ndim == 2 and not source.dtype.names
    return False


def _read_arrays(
    source: ListArrays, users: npt.ArrayLike | None, items: npt.ArrayLike | None, audit: Audit
) -> Entries:
    """Return the entries of an array of item ids (or positions of `items`), best first, or with scores."""
    id_source: npt.ArrayLike
    score_source: npt.ArrayLike | None = None
    if isinstance(source, tuple):
        id_source, score_source = source
    else:
        id_source = source
    refuse_masked(id_source, "the lists")
    refuse_masked(score_source, "the lists")
    ids = np.asarray(id_source)
    if not ids.size:
        raise InputError(f"the lists have shape {ids.shape}; at least one entry is needed.")
    user_ids = None
    if users is not None:
        user_ids = to_id_array(users, "users")
        if user_ids.size != len(ids):
            raise InputError(f"users must hold one id for each of {len(ids):,} rows; got {user_ids.size:,}.")
    is_empty = np.asarray(pd.isna(ids))
    if ids.dtype.kind in "if":
        is_empty = is_empty | (ids < 0)
    row, column = np.nonzero(~is_empty)
    item_ids, item_codes = _encode_items(ids[row, column], items)
    order: AnyArray = column
    if score_source is not None:
        order = _order_by_score(np.asarray(score_source), ids, row, column)
    audit.counts.append(Count("entries read from an array", ids.size))
    audit.add_count("empty positions of the array, left out", int(is_empty.sum()), ids.size)
    return Entries(
        user=row,
        item=item_codes,
        order=order,
        user_ids=user_ids,
        item_ids=item_ids,
        by_rank=score_source is None,
    )


def _order_by_score(scores: AnyArray, ids: AnyArray, row: IntArray, column: IntArray) -> AnyArray:
    """Return the order of entries by an array of scores, or raise `InputError`."""
    if scores.shape != ids.shape or scores.dtype.kind not in "iuf":
        raise InputError(
            f"scores must be numbers of shape {ids.shape} as the ids; got {scores.dtype} {scores.shape}."
        )
    order = _negate_scores(scores[row, column])
    n_nan = int(np.isnan(order).sum())
    if n_nan:
        raise InputError(f"{n_nan:,} of {order.size:,} scores are NaN.")
    return order


def _negate_scores(scores: AnyArray) -> AnyArray:
    """Return numbers that are smaller for higher scores."""
    if scores.dtype.kind in "iu":
        # Unsigned integers, and the smallest signed one, have no negative; their ranks do.
        _, ranks = np.unique(scores, return_inverse=True)
        return np.asarray(-ranks)
    return -scores


def _encode_items(values: AnyArray, items: npt.ArrayLike | None) -> tuple[AnyArray, IntArray]:
    """Return the ids of items and the codes of the values; with `items`, the values are the codes."""
    if items is None:
        codes, ids = pd.factorize(as_ids(values, "the items of the lists"), sort=True)
        return ids, codes.astype(np.int64)
    item_ids = to_id_array(items, "items")
    if values.dtype.kind not in "iu" or (values.size and values.max() >= item_ids.size):
        raise InputError(
            f"with items=, the lists must hold positions below {item_ids.size:,}; got {format_examples(values)}."
        )
    return item_ids, values.astype(np.int64)
