"""Entries of lists, from dictionaries and arrays as other libraries return them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.checks import examples, kind_of, refuse_masked
from ipseval._base.counts import Count, some
from ipseval._base.ids import as_ids, to_id_array
from ipseval._base.types import AnyArray, BoolArray, IntArray
from ipseval.data.reading._names import USUAL, plain
from ipseval.errors import InputError


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of lists.

    Attributes
    ----------
    user, item : (n,) int arrays
        Codes of `user_ids`, `item_ids`.
    order : (n,) array
        The better the lower: ranks, or scores with their sign turned.
    user_ids, item_ids : arrays or None
        None: the codes are rows and columns of the split.
    by_rank : bool
    """

    user: IntArray
    item: IntArray
    order: AnyArray
    user_ids: AnyArray | None
    item_ids: AnyArray | None
    by_rank: bool

    def pair(self, row: int) -> tuple[Any, Any]:
        """Return user and item of an entry, or their places where there are no ids."""
        user, item = self.user[row], self.item[row]
        return (
            user if self.user_ids is None else self.user_ids[user],
            item if self.item_ids is None else self.item_ids[item],
        )

    def select(self, keep: BoolArray) -> Entries:
        """Return the chosen entries."""
        user, item, order = self.user[keep], self.item[keep], self.order[keep]
        return Entries(user, item, order, self.user_ids, self.item_ids, self.by_rank)


def as_table(source: Any) -> Any:
    """Return what a frame can be made of: a mapping of users becomes one, other sources stay."""
    if isinstance(source, Mapping):
        return source if _is_columns(source) else _of_mapping(source)
    for name in ("to_df", "to_dataframe"):  # LensKit's collections of lists, runs of ranx
        if hasattr(source, name) and not hasattr(source, "columns"):
            return getattr(source, name)()
    return source


def _is_columns(source: Mapping[Any, Any]) -> bool:
    names = {plain(name) for name in source}
    return all(names & set(USUAL[role]) for role in ("user", "item")) and bool(
        names & {*USUAL["rank"], *USUAL["score"]}
    )


def _of_mapping(source: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the columns of {user: {item: score}}, {user: [item, …]} or {user: [(item, score), …]}."""
    users: list[Any] = []
    items: list[Any] = []
    places: list[Any] = []
    kinds = set()
    for user, entries in source.items():
        if isinstance(entries, Mapping):
            kind, pairs = "score", list(entries.items())
        elif isinstance(entries, (str, bytes)) or not isinstance(entries, (Sequence, np.ndarray)):
            raise InputError(
                f"the list of {user!r:.60} is {kind_of(entries)}; expected {{item: score}}, "
                "[item, …] or [(item, score), …]."
            )
        elif len(entries) and isinstance(entries[0], tuple):
            kind, pairs = "score", [tuple(entry)[:2] for entry in entries]
            if any(len(pair) < 2 for pair in pairs):
                raise InputError(f"the list of {user!r:.60} has entries that are no pairs (item, score).")
        else:
            kind, pairs = "rank", [(item, place + 1) for place, item in enumerate(entries)]
        if len(entries):
            kinds.add(kind)
        users += [user] * len(pairs)
        items += [item for item, _ in pairs]
        places += [place for _, place in pairs]
    if len(kinds) > 1:
        raise InputError("some lists have scores and others none; give all of them in one form.")
    columns = {"user": users, "item": items}
    found = {name: pd.Series(values, dtype=object) for name, values in columns.items()}
    return {**found, next(iter(kinds), "rank"): pd.Series(places)}


def is_arrays(source: Any) -> bool:
    """Return whether a source is an array of lists, or a pair of arrays of ids and scores."""
    if isinstance(source, tuple) and len(source) == 2:
        return all(np.ndim(one) == 2 for one in source)
    if isinstance(source, np.ndarray):
        return source.ndim == 2 and not source.dtype.names
    return False


def of_arrays(source: Any, users: Any | None, items: Any | None, counted: list[Count]) -> Entries:
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
    empty = ids < 0 if ids.dtype.kind in "if" else np.asarray(pd.isna(ids))
    if ids.dtype.kind == "f":
        empty |= np.isnan(ids)
    row, place = np.nonzero(~empty)
    values = ids[row, place]
    item_ids, item = _items(values, items)
    order: AnyArray = place + 1
    if scores is not None:
        array = np.asarray(scores)
        if array.shape != ids.shape or array.dtype.kind not in "iuf":
            raise InputError(
                f"scores must be numbers of shape {ids.shape} as the ids; got {array.dtype} {array.shape}."
            )
        order = -array[row, place]
        n_nan = int(np.isnan(order).sum()) if order.dtype.kind == "f" else 0
        if n_nan:
            raise InputError(f"{n_nan:,} of {order.size:,} scores are NaN.")
    counted.append(Count("entries read from an array", ids.size))
    counted.extend(some(Count("empty places of the array, left out", int(empty.sum()), ids.size)))
    return Entries(row, item, order, user_ids, item_ids, scores is None)


def _items(values: AnyArray, items: Any | None) -> tuple[AnyArray, IntArray]:
    if items is None:
        codes, ids = pd.factorize(as_ids(values, "the items of the lists"), sort=True)
        return ids, codes.astype(np.int64)
    ids = to_id_array(items, "items")
    if values.dtype.kind not in "iu" or (values.size and values.max() >= ids.size):
        raise InputError(
            f"with items=, the lists must hold places below {ids.size:,}; got {examples(values[:3])}."
        )
    return ids, values.astype(np.int64)
