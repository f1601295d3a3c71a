"""Recommenders that are passed to `evaluate` without a name."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np

from ipseval.data.reading.column_names import normalize_name
from ipseval.data.splits import Split
from ipseval.utils.columns import as_frame, frame_columns

SINGLE_NAME = "model"  # name of a recommender that is passed alone
# Columns of long frames that hold the lists of several recommenders.
MODEL_COLUMNS = ("algorithm", "model", "recommender", "system", "run", "method")


def name_models(models: Any, split: Split) -> Any:
    """Return a recommender that is passed alone as {"model": recommender}, and every other argument unchanged.

    A mapping is one recommender if its keys are users: {user: [item, …]} or {user: {item: score}}. A
    frame of lists with a column that names recommenders, as LensKit makes it, holds several. Recommenders in a
    list are named by their numbers.
    """
    if isinstance(models, Mapping):
        return {SINGLE_NAME: models} if _holds_user_lists(models, split) else models
    if isinstance(models, list) and models and all(_is_whole_model(model) for model in models):
        return {f"{SINGLE_NAME} {number}": model for number, model in enumerate(models, start=1)}
    if models is None or isinstance(models, (str, bytes, list, set, Number)):
        return models
    return _split_by_model(models)


def _holds_user_lists(mapping: Mapping[Any, Any], split: Split) -> bool:
    """Return whether a mapping has a user of the split as a key, and lists of items as values."""
    users = set(split.user_ids.tolist())
    if users.isdisjoint(mapping):
        return False
    first_value = next(iter(mapping.values()))
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


def _is_whole_model(model: object) -> bool:
    """Return whether an entry of a list is a recommender, and not the list or the scores of one user."""
    if isinstance(model, tuple):
        return any(np.ndim(part) > 1 for part in model)
    if isinstance(model, (str, bytes, Number, np.generic, list, set)) or model is None:
        return False
    return not isinstance(model, np.ndarray) or model.ndim == 2


def _split_by_model(frame: Any) -> dict[str, Any]:
    """Return the rows of each recommender if a column of a frame names several, else one recommender."""
    for column in frame_columns(frame):
        if normalize_name(str(column)) not in MODEL_COLUMNS:
            continue
        table = as_frame(frame)
        assert table is not None
        names = table[column].unique().sort().to_list()
        if len(names) > 1 and all(isinstance(name, str) for name in names):
            models: dict[str, Any] = {}
            for name in names:
                models[name] = table.filter(table[column] == name).drop(column).to_native()
            return models
    return {SINGLE_NAME: frame}
