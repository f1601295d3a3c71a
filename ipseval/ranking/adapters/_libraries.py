"""Trained models of other libraries, each in its own id space; a library is imported where it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError
from ipseval.ranking.adapters._base import ModelScores, source_of, stated_ids
from ipseval.utils.checks import warn_user
from ipseval.utils.types import AnyArray, IntArray


def describe_cornac(model: Any, split: Split) -> ModelScores:
    """Return `model.score(user)` for each user, over the ids that cornac has seen in training."""
    if getattr(model, "uid_map", None) is None:
        raise InputError(f"{source_of(model)} has no user ids; fit it before it is evaluated.")
    users = _mapping_ids(model.uid_map, model.num_users)
    items = _mapping_ids(model.iid_map, model.num_items)

    def rows(codes: IntArray) -> AnyArray:
        # Some models return a (1, n) matrix, some a buffer that the next call overwrites: each row is copied.
        return np.stack([np.array(model.score(int(user))).reshape(-1)[: items.size] for user in codes])

    return ModelScores(source_of(model), rows=rows, user_ids=users, item_ids=items)


def _mapping_ids(mapping: Any, n_known: int | None = None) -> AnyArray:
    """Return the ids in the order of the library's codes; those from `n_known` on were not in training."""
    return stated_ids(np.array(sorted(mapping, key=mapping.__getitem__)[:n_known]), None, "ids")


def describe_implicit(model: Any, split: Split) -> ModelScores:
    """Return the model's own factors, or training rows times the item–item similarities; it keeps no ids."""
    if getattr(model, "user_factors", None) is not None:
        factors = (_array(model.user_factors), _array(model.item_factors), None)
        return ModelScores(source_of(model), factors=factors)
    similarity = getattr(model, "similarity", None)
    if similarity is None:
        raise InputError(
            f"{source_of(model)} has neither factors nor similarities; fit it before it is evaluated."
        )
    matrix, to_item = sp.csr_array(split.train.to_csr()), sp.csr_array(similarity)

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


def describe_lenskit(model: Any, split: Split) -> ModelScores:
    """Return the scores of every item that the scorer knows, one user at a time; NaN comes last."""
    # A pipeline is asked through `lenskit.score`, as in production, so that its history look-up takes part.
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


def describe_lightfm(model: Any, split: Split) -> ModelScores:
    """Return embeddings and item biases, without side features, of a model or a pair (model, Dataset)."""
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
    return scores.with_ids(_mapping_ids(user_map), _mapping_ids(item_map))


def describe_rectools(model: Any, split: Split) -> ModelScores:
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


def describe_surprise(model: Any, split: Split) -> ModelScores:
    """Return the factors of SVD and NMF, otherwise one prediction per pair, not clipped: that would tie."""
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


def describe_spark(model: Any, split: Split) -> ModelScores:
    """Return the factors of an ALSModel, fetched to the driver with their ids."""
    if not hasattr(model, "userFactors"):
        raise InputError(
            f"{source_of(model)} is not supported; pass a trained ALSModel, or a frame of lists with columns "
            "user, item and rank or score."
        )
    user_ids, user_factors = _spark_factors(model.userFactors)
    item_ids, item_factors = _spark_factors(model.itemFactors)
    return ModelScores(
        source_of(model), factors=(user_factors, item_factors, None), user_ids=user_ids, item_ids=item_ids
    )


def _spark_factors(frame: Any) -> tuple[Any, Any]:
    local = frame.orderBy("id").toPandas()
    ids = stated_ids(local["id"].to_numpy(), None, "ids")
    return ids, np.array(local["features"].to_list(), dtype=np.float32)


def describe_torch(model: Any, split: Split) -> ModelScores:
    """Return (user, item[, item bias]) tensors or embeddings as factors, or a module users -> scores."""
    if isinstance(model, tuple):
        if len(model) not in (2, 3):
            raise InputError(f"a tuple of tensors must hold user, item[, item bias]; got {len(model)}.")
        user, item, *rest = (to_numpy(getattr(part, "weight", part)) for part in model)
        bias = rest[0].reshape(-1) if rest else None
        return ModelScores("torch factors", factors=(user, item, bias))
    if not hasattr(model, "eval"):
        raise InputError(
            f"a {source_of(model)} must be turned into an array first: tensor.numpy(force=True)."
        )
    import torch

    def rows(users: IntArray) -> AnyArray:
        with evaluating(model):
            try:
                # A copy: torch does not take arrays that cannot be written to.
                return to_numpy(model(torch.tensor(users).to(device_of(model))))
            except IndexError as error:
                raise InputError(
                    f"{source_of(model)} failed for users {users[0]} to {users[-1]} ({error}); the split has "
                    f"{split.n_users} users and {split.n_items} items. Where the module knows others, name "
                    "its rows with ipseval.adapters.adapt(model, split, users=…, items=…)."
                ) from error

    return ModelScores(source_of(model), rows=rows)


def to_numpy(tensor: Any) -> AnyArray:
    """Return a tensor as an array: the same memory for a CPU tensor of a type that NumPy has."""
    import torch

    tensor = tensor.detach().cpu()
    return np.asarray((tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy())


def device_of(module: Any) -> Any:
    """Return the device of the module's first parameter; the CPU where it has none."""
    parameter = next(iter(module.parameters()), None)
    return "cpu" if parameter is None else parameter.device


@contextlib.contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Switch dropout and gradients off, and put the module back as it was."""
    import torch

    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(was_training)


def describe_recbole(model: Any, split: Split) -> ModelScores:
    """Return `full_sort_predict`, or `predict`, without the padding item; ids are matched by their text."""
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
                    "scores as an array (recbole.utils.case_study.full_sort_scores) to adapt, with ids."
                ) from error
        return to_numpy(scores).reshape(codes.size, -1)[:, 1:]

    return ModelScores(source_of(recommender), rows=rows, user_ids=users, item_ids=items)


def _tokens(dataset: Any, field: str, ids: AnyArray) -> AnyArray:
    """Return the ids of the model's rows, as the values of the split where their text is the same."""
    tokens = np.asarray(dataset.field2id_token[field])[1:].astype(str).astype(object)
    by_text = {str(value): value for value in ids}
    return np.array([by_text.get(token, token) for token in tokens], dtype=object)
