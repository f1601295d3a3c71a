"""Recommendation lists as Python objects: {user: [item, …]}, {user: {item: score}} and lists of lists."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from ipseval.data.reading import Lists
from ipseval.data.reading.column_names import match_columns
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking._types import AnyModel
from ipseval.utils.checks import describe_type
from ipseval.utils.columns import frame_columns
from ipseval.utils.types import AnyArray

MOST_COLUMNS = 10  # of a frame of lists, whereas a frame of scores has a column for each item


def convert_lists(model: AnyModel, split: Split, name: str) -> AnyModel:
    """Return recommendation lists in Python objects as `Lists`, and every other model unchanged.

    Parameters
    ----------
    model : object
        * {user: [item, …]}, best first, {user: {item: score}} or {user: [(item, score), …]};
        * a list with a list of item ids for each user, in the order of `split.user_ids`;
        * a list with a list of scores of all items for each user, which becomes an array.
    split : Split
    name : str
        Name of the model, for errors.

    Raises
    ------
    InputError
        For a list of another length than the number of users, and for entries that are neither item ids nor
        scores.
    """
    if isinstance(model, Mapping):
        return _convert_mapping(model, name)
    if isinstance(model, list):
        return _convert_rows(model, split, name)
    if _has_list_columns(model):
        return Lists(model, gaps="raise")
    return model


def _has_list_columns(model: object) -> bool:
    """Return whether a frame has columns of users, items and ranks or scores under other common names."""
    columns = sorted(frame_columns(model), key=str)
    if {"user", "item"} <= set(columns) or not 3 <= len(columns) <= MOST_COLUMNS:
        return False
    roles = match_columns(columns, {}, ("user", "item", "rank", "score")).columns
    return {"user", "item"} <= set(roles) and bool({"rank", "score"} & set(roles))


def _convert_mapping(model: Mapping[Hashable, object], name: str) -> Lists:
    """Return a mapping from users to their items as `Lists`."""
    if not model:
        raise InputError(
            f"{name} must contain at least one recommendation list; got an empty mapping. Pass "
            "{user: [item, …]} or {user: {item: score}}."
        )
    value = next(iter(model.values()))
    if isinstance(value, (str, bytes)) or not isinstance(value, (Mapping, Sequence, np.ndarray)):
        raise InputError(
            f"{name} must map users to recommendation lists; got {describe_type(value)} for the first user. Pass "
            '{user: [item, …]}, best first, or {user: {item: score}}; models are {"name": {user: …}}.'
        )
    return Lists(model)


def _convert_rows(model: list[AnyModel], split: Split, name: str) -> Lists | AnyArray:
    """Return one list for each user, in the order of the split, as `Lists` or as an array of scores."""
    if not model or not all(isinstance(row, (list, tuple, np.ndarray)) for row in model):
        description = "an empty list"
        if model:
            description = f"a list with {describe_type(model[0])}"
        raise InputError(
            f"{name} must be scores or recommendation lists; got {description}. Pass {{user: [item, …]}}, or "
            "one list of item ids for each user in the order of split.user_ids."
        )
    if len(model) != split.n_users:
        raise InputError(
            f"{name} must have one list for each of the {split.n_users:,} users, in the order of "
            f"split.user_ids; got {len(model):,} lists. Pass {{user: [item, …]}} to name the users."
        )
    scores = _read_scores(model, split)
    if scores is not None:
        return scores
    users = split.user_ids.tolist()
    return Lists(dict(zip(users, model, strict=True)))


def _read_scores(model: list[AnyModel], split: Split) -> AnyArray | None:
    """Return rows of one score for each item as an array; None for lists of item ids."""
    if any(len(row) != split.n_items for row in model):
        return None
    try:
        array: AnyArray = np.asarray(model)
    except ValueError:  # rows of tuples of different lengths
        return None
    if array.shape != (split.n_users, split.n_items) or array.dtype.kind not in "fiu":
        return None
    if _are_item_ids(array, split):
        return None
    return array


def _are_item_ids(array: AnyArray, split: Split) -> bool:
    """Return whether rows of integers, as long as the catalogue, are complete lists of item ids."""
    if array.dtype.kind not in "iu" or not np.isin(array, split.item_ids).all():
        return False
    return all(np.unique(row).size == row.size for row in array)
