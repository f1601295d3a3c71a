"""Models of cornac: scores of one user at a time, ids from the training set's maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval._base.types import AnyArray, IntArray
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking.adapters._base import ModelScores, source_of, stated_ids


def describe(model: Any, split: Split) -> ModelScores:
    """Return `model.score(user)` for each user, over the ids that cornac has seen in training."""
    if getattr(model, "uid_map", None) is None:
        raise InputError(f"{source_of(model)} has no user ids; fit it before it is evaluated.")
    users = _ids(model.uid_map, model.num_users)
    items = _ids(model.iid_map, model.num_items)

    def rows(codes: IntArray) -> AnyArray:
        # Some models return a (1, n) matrix, some a buffer that the next call overwrites: each row is copied.
        return np.stack([np.array(model.score(int(user))).reshape(-1)[: items.size] for user in codes])

    return ModelScores(source_of(model), rows=rows, user_ids=users, item_ids=items)


def _ids(mapping: Any, n_known: int) -> AnyArray:
    """Return the ids in the order of cornac's codes; codes from `n_known` on were not in training."""
    ids = sorted(mapping, key=mapping.__getitem__)[:n_known]
    return stated_ids(ids, None, "ids")
