"""Spark ML: a trained ALSModel, and nested frames of recommendations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking.adapters._base import ModelScores, source_of, stated_ids


def describe(model: Any, split: Split) -> ModelScores:
    """Return the factors of an ALSModel, fetched to the driver with their ids."""
    if not hasattr(model, "userFactors"):
        raise InputError(
            f"{source_of(model)} is not supported; pass a trained ALSModel, or a frame of lists with columns "
            "user, item and rank or score."
        )
    user_ids, user_factors = _factors(model.userFactors)
    item_ids, item_factors = _factors(model.itemFactors)
    return ModelScores(
        source_of(model), factors=(user_factors, item_factors, None), user_ids=user_ids, item_ids=item_ids
    )


def _factors(frame: Any) -> tuple[Any, Any]:
    local = frame.orderBy("id").toPandas()
    ids = stated_ids(local["id"].to_numpy(), None, "ids")
    return ids, np.array(local["features"].to_list(), dtype=np.float32)


def exploded(frame: Any, user: str) -> Any:
    """Return a nested frame of recommendations as a local frame with columns user, item, score."""
    from pyspark.sql import functions

    entries = frame.select(
        functions.col(user).alias("user"), functions.explode("recommendations").alias("entry")
    )
    names = entries.schema["entry"].dataType.fieldNames()
    if len(names) != 2 or "rating" not in names:
        raise InputError(f"entries of 'recommendations' must have an item and a rating; got {names}.")
    item = next(name for name in names if name != "rating")
    return entries.select(
        "user",
        functions.col(f"entry.{item}").alias("item"),
        functions.col("entry.rating").alias("score"),
    ).toPandas()
