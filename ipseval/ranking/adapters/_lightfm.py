"""LightFM: embeddings and item biases; ids from its Dataset where it is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval._base.types import AnyArray
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking.adapters._base import ModelScores, source_of, stated_ids


def describe(model: Any, split: Split) -> ModelScores:
    """Return the model's embeddings and item biases; `model` may be the pair (model, lightfm Dataset).

    This is the model without side features. With features, pass the representations themselves:
    (user_embeddings, item_embeddings, item_biases) of `get_user_representations(features)` and its twin.
    """
    fitted, dataset = model if isinstance(model, tuple) else (model, None)
    if getattr(fitted, "item_embeddings", None) is None:
        raise InputError(f"{source_of(fitted)} has no embeddings; fit it before it is evaluated.")
    # The user's bias is the same for all items of a user.
    factors = (fitted.user_embeddings, fitted.item_embeddings, fitted.item_biases)
    scores = ModelScores(source_of(fitted), factors=factors)
    if dataset is None:
        return scores
    user_map, user_features, item_map, item_features = dataset.mapping()
    if len(user_features) != len(user_map) or len(item_features) != len(item_map):
        raise InputError(
            f"{source_of(fitted)} was set up with side features; pass (user_embeddings, item_embeddings, "
            "item_biases) from get_user_representations and get_item_representations."
        )
    return scores.with_ids(_ids(user_map), _ids(item_map))


def _ids(mapping: Any) -> AnyArray:
    return stated_ids(np.array(sorted(mapping, key=mapping.__getitem__)), None, "ids")
