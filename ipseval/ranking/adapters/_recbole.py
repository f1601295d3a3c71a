"""Models of RecBole, given as (model, dataset): the ids are in the data set, as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval._base.types import AnyArray, IntArray
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking.adapters._base import ModelScores, source_of
from ipseval.ranking.adapters._torch import device_of, evaluating, to_numpy


def describe(model: Any, split: Split) -> ModelScores:
    """Return `full_sort_predict` for each user, without the padding item; `predict` where it is not written.

    RecBole turns every id into text. Where the ids of the split are not text, they are matched by their text.
    """
    if not isinstance(model, tuple) or len(model) != 2 or not hasattr(model[1], "field2id_token"):
        one = model[0] if isinstance(model, tuple) else model
        raise InputError(f"{source_of(one)} keeps no ids; pass the pair (model, dataset) of RecBole.")
    recommender, dataset = model
    import torch
    from recbole.data.interaction import Interaction

    users = _tokens(dataset, dataset.uid_field, split.user_ids)
    items = _tokens(dataset, dataset.iid_field, split.item_ids)

    def of_users(ids: Any) -> Any:
        try:
            return recommender.full_sort_predict(Interaction({dataset.uid_field: ids}))
        except NotImplementedError:  # NeuMF, say: pair by pair, as RecBole's own trainer then does
            return torch.stack([of_pairs(one) for one in ids])

    def of_pairs(user: Any) -> Any:
        every = torch.arange(items.size + 1, device=user.device)
        pairs = {dataset.uid_field: user.expand(every.shape[0]), dataset.iid_field: every}
        return recommender.predict(Interaction(pairs))

    def rows(codes: IntArray) -> AnyArray:
        # Row 0 of every RecBole table is padding.
        ids = torch.as_tensor(codes + 1).to(device_of(recommender))
        with evaluating(recommender):
            try:
                scores = of_users(ids)
            except KeyError as error:
                raise InputError(
                    f"{source_of(recommender)} scores from more than the user: it asks for {error}. Pass its "
                    "scores as an array (recbole.utils.case_study.full_sort_scores) with with_ids."
                ) from error
        return to_numpy(scores).reshape(codes.size, -1)[:, 1:]

    return ModelScores(source_of(recommender), rows=rows, user_ids=users, item_ids=items)


def _tokens(dataset: Any, field: str, ids: AnyArray) -> AnyArray:
    """Return the ids of the model's rows, as the values of the split where their text is the same."""
    tokens = np.asarray(dataset.field2id_token[field])[1:].astype(str).astype(object)
    by_text = {str(value): value for value in ids}
    return np.array([by_text.get(token, token) for token in tokens], dtype=object)
