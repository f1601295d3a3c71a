"""Algorithms of Surprise, ids from their training set."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval._base.types import AnyArray, IntArray
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking.adapters._base import ModelScores, source_of, stated_ids


def describe(model: Any, split: Split) -> ModelScores:
    """Return the factors of SVD and NMF, otherwise one prediction per pair (slow: Python per pair).

    Predictions are not clipped to the rating scale: clipping would tie the best items of a user.
    """
    trainset = getattr(model, "trainset", None)
    if trainset is None:
        raise InputError(f"{source_of(model)} is not trained; fit it before it is evaluated.")
    users = stated_ids([trainset.to_raw_uid(row) for row in range(trainset.n_users)], None, "users")
    items = stated_ids([trainset.to_raw_iid(row) for row in range(trainset.n_items)], None, "items")
    if type(model).__name__ in ("SVD", "NMF"):
        # The user's bias and the global mean are the same for all items of a user.
        bias = np.asarray(model.bi) if model.biased else None
        factors = (np.asarray(model.pu), np.asarray(model.qi), bias)
        return ModelScores(source_of(model), factors=factors, user_ids=users, item_ids=items)

    def rows(codes: IntArray) -> AnyArray:
        return np.array(
            [[model.predict(user, item, clip=False).est for item in items] for user in users[codes]]
        )

    return ModelScores(source_of(model), rows=rows, user_ids=users, item_ids=items)
