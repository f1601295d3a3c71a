"""Recommenders that are passed to `evaluate` without a name."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np

from ipseval.data.reading.column_names import normalize_name
from ipseval.errors import InputError
from ipseval.utils.columns import as_frame, frame_columns

SINGLE_NAME = "model"  # name of a recommender that is passed alone
# Columns of long frames that hold the lists of several recommenders.
MODEL_COLUMNS = ("algorithm", "model", "recommender", "system", "run", "method")


def name_models(models: Any) -> Any:
    """Return a recommender that is passed alone as {"model": recommender}, and every other argument unchanged.

    A mapping is one recommender if it holds the list of each user: {user: [item, …]} or {user: {item: score}}.
    """
    if isinstance(models, Mapping):
        return {SINGLE_NAME: models} if _holds_user_lists(models) else models
    if models is None or isinstance(models, (str, bytes, list, set, Number)):
        return models
    refuse_several_models(models)
    return {SINGLE_NAME: models}


def _holds_user_lists(mapping: Mapping[Any, Any]) -> bool:
    """Return whether the values of a mapping are lists of items, or items with scores."""
    first_value = next(iter(mapping.values()), None)
    if isinstance(first_value, Mapping):
        return isinstance(next(iter(first_value.values()), None), (Number, np.generic))
    if isinstance(first_value, np.ndarray):
        return first_value.ndim == 1
    if not isinstance(first_value, (list, tuple)):
        return False
    return bool(first_value) and np.ndim(first_value[0]) == 0 and _are_ids(first_value)


def _are_ids(values: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether all values can be ids of items: numbers or text."""
    return all(isinstance(value, (str, Number, np.generic)) for value in values)


def refuse_several_models(frame: object) -> None:
    """Raise `InputError` for a frame with a column that names several recommenders."""
    for column in frame_columns(frame):
        if normalize_name(str(column)) not in MODEL_COLUMNS:
            continue
        table = as_frame(frame)
        assert table is not None
        n_models = table[column].n_unique()
        if n_models > 1:
            raise InputError(
                f"models must be one recommender or a mapping from names; got a frame with {n_models} values in "
                f"column {str(column)!r}. Pass {{name: rows for name, rows in frame.groupby({str(column)!r})}}."
            )
