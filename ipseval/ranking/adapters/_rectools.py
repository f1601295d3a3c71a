"""Models of RecTools, given as (model, dataset): the ids are in the data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval._base.types import AnyArray, IntArray
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking.adapters._base import ModelScores, source_of, stated_ids


def describe(model: Any, split: Split) -> ModelScores:
    """Return the vectors of a vector model, otherwise the full list of `recommend`, unfiltered."""
    if not isinstance(model, tuple) or len(model) != 2 or not hasattr(model[1], "user_id_map"):
        one = model[0] if isinstance(model, tuple) else model
        raise InputError(f"{source_of(one)} keeps no ids; pass (model, dataset), as it was fit.")
    recommender, dataset = model
    users = stated_ids(dataset.user_id_map.external_ids, None, "users")
    items = stated_ids(dataset.item_id_map.external_ids, None, "items")
    if hasattr(recommender, "get_vectors"):
        needs_dataset = "LightFM" in type(recommender).__name__
        vectors = recommender.get_vectors(dataset) if needs_dataset else recommender.get_vectors()
        user_factors, item_factors = (np.asarray(one) for one in vectors)
        # Users and items that were added to the data set after training have no vector.
        return ModelScores(
            source_of(recommender),
            factors=(user_factors, item_factors, None),
            user_ids=users[: len(user_factors)],
            item_ids=items[: len(item_factors)],
        )

    def rows(codes: IntArray) -> AnyArray:
        lists = recommender.recommend(users[codes], dataset, k=items.size, filter_viewed=False)
        block = np.full((codes.size, items.size), -np.inf)
        row_of = {user: row for row, user in enumerate(users[codes])}
        row = lists["user_id"].map(row_of).to_numpy()
        block[row, dataset.item_id_map.convert_to_internal(lists["item_id"])] = lists["score"]
        return block

    return ModelScores(source_of(recommender), rows=rows, user_ids=users, item_ids=items)
