"""Top-K lists as other libraries export them, brought to the columns user, item and rank or score."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval._base.checks import examples
from ipseval.errors import InputError
from ipseval.ranking.adapters._base import root_modules

NESTED = "recommendations"


def list_frame(model: Any) -> Any | None:
    """Return a frame of lists with our column names; None for what is no such frame.

    Understood beside user, item, rank or score: user_id, item_id, rank or score (RecTools), and one row per
    user with a nested column `recommendations` of (item, rating) entries (Spark's `recommendForAllUsers`).
    """
    try:
        table: Any = nw.from_native(model)
    except TypeError:
        return None
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"a frame of scores or lists must not repeat a column: {error}") from error
    columns = table.collect_schema().names()
    if {"user", "item"} <= set(columns):
        return model
    if NESTED in columns:
        return _unnested(model, table, columns)
    key = next((name for name in ("rank", "score") if name in columns), None)
    if {"user_id", "item_id"} <= set(columns) and key is not None:
        names = {"user_id": "user", "item_id": "item"}
        return table.select("user_id", "item_id", key).rename(names).to_native()
    return None


def _unnested(model: Any, table: Any, columns: list[str]) -> Any:
    others = [name for name in columns if name != NESTED]
    if len(others) != 1:
        raise InputError(
            f"a frame with a column {NESTED!r} must have one other column, the user; got {examples(columns)}."
        )
    if "pyspark" in root_modules(model):
        from ipseval.ranking.adapters._spark import exploded

        return exploded(model, others[0])
    if isinstance(table, nw.LazyFrame):
        table = table.collect()
    lists = [list(entries) for entries in table[NESTED].to_list()]
    entries = [entry for one in lists for entry in one]
    if entries and isinstance(entries[0], dict):
        if set(entries[0]) - {"rating"} == set(entries[0]) or len(entries[0]) != 2:
            raise InputError(
                f"entries of {NESTED!r} must have an item and a rating; got {examples(entries[0], 5)}."
            )
        item_name = next(name for name in entries[0] if name != "rating")
        pairs = [(entry[item_name], entry["rating"]) for entry in entries]
    else:
        pairs = [(entry[0], entry[1]) for entry in entries]
    users = np.repeat(table[others[0]].to_numpy(), [len(one) for one in lists])
    return pd.DataFrame(
        {"user": users, "item": [item for item, _ in pairs], "score": [score for _, score in pairs]}
    )
