"""Models of implicit: factor models and item–item models."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ipseval._base.types import AnyArray, IntArray
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking.adapters._base import ModelScores, source_of


def describe(model: Any, split: Split) -> ModelScores:
    """Return the model's own factors, or training rows times the item–item similarities.

    implicit keeps no ids: rows are those of the matrix it was trained on. An item–item model scores from the
    items that a user has; here those of `split.train`, each row with weight 1.
    """
    if getattr(model, "user_factors", None) is not None:
        factors = (_array(model.user_factors), _array(model.item_factors), None)
        return ModelScores(source_of(model), factors=factors)
    similarity = getattr(model, "similarity", None)
    if similarity is None:
        raise InputError(
            f"{source_of(model)} has neither factors nor similarities; fit it before it is evaluated."
        )
    train = split.train
    ones = (np.ones(len(train)), (train.user, train.item))
    matrix = sp.csr_array(ones, shape=(split.n_users, split.n_items))
    to_item = sp.csr_array(similarity)

    def rows(users: IntArray) -> AnyArray:
        return np.asarray((matrix[users] @ to_item).toarray())

    return ModelScores(
        source_of(model),
        rows=rows,
        n_users=split.n_users,
        n_items=similarity.shape[0],
        reads_training=True,
    )


def _array(factors: Any) -> AnyArray:
    """Return factors as an array; those of a GPU model are fetched from the device."""
    return np.asarray(factors.to_numpy() if hasattr(factors, "to_numpy") else factors)
