"""Pipelines and trained scorers of LensKit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval._base.checks import warn_user
from ipseval._base.types import AnyArray, IntArray
from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError
from ipseval.ranking.adapters._base import ModelScores, source_of


def describe(model: Any, split: Split) -> ModelScores:
    """Return LensKit's scores of every item that its scorer knows, one user at a time.

    A pipeline is asked through `lenskit.score`, as in production, so that its history look-up takes part.
    Items that a scorer gives no score (NaN: too few neighbours, say) come last; a `DataWarning` says so.
    """
    import lenskit
    from lenskit.data import ItemList

    scorer = model.component("scorer") if hasattr(model, "component") else model
    if scorer is model:
        raise InputError(
            f"{source_of(model)} is a component; pass the trained pipeline, e.g. "
            "lenskit.topn_pipeline(scorer) after its train(dataset)."
        )
    users, items = _vocabulary(scorer, "users"), _vocabulary(scorer, "items")
    item_ids = split.item_ids if items is None else items
    user_ids = split.user_ids if users is None else users
    candidates = ItemList(item_ids=np.asarray(item_ids))

    def rows(codes: IntArray) -> AnyArray:
        block = np.empty((codes.size, item_ids.size))
        for row, code in enumerate(codes):
            block[row] = lenskit.score(model, user_ids[code], candidates).scores()
        return _last_where_missing(block, source_of(scorer))

    return ModelScores(source_of(scorer), rows=rows, user_ids=user_ids, item_ids=item_ids)


def _vocabulary(scorer: Any, name: str) -> AnyArray | None:
    vocabulary = getattr(scorer, name, None)
    return None if vocabulary is None else np.asarray(vocabulary.ids())


def _last_where_missing(block: AnyArray, source: str) -> AnyArray:
    missing = np.isnan(block)
    if missing.any():
        if missing.all():
            raise InputError(f"{source} gave no item a score for {len(block)} users; was it trained on them?")
        warn_user(f"{source} gives some items no score (NaN); they come last, tied.", DataWarning)
        block[missing] = -np.inf
    return block
