"""Scores of trained models of other libraries, in the id space of the library.

A library is imported only by the function of its models.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Mapping
from types import ModuleType
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError
from ipseval.ranking._types import Untyped
from ipseval.ranking.adapters._model_scores import ModelScores, as_row_ids, describe_source
from ipseval.utils.checks import warn_user
from ipseval.utils.types import AnyArray, IntArray

# Models and their data sets come from libraries that may not be installed, so their types are not available.
TrainedModel: TypeAlias = Untyped
LibraryDataset: TypeAlias = Untyped
LibraryFrame: TypeAlias = Untyped
Tensor: TypeAlias = Untyped


def describe_cornac(model: TrainedModel, split: Split) -> ModelScores:
    """Return `model.score(user)` for each user, over the ids that cornac has seen in training."""
    if getattr(model, "uid_map", None) is None:
        raise InputError(f"{describe_source(model)} has no user ids; fit it before it is evaluated.")
    users = _ids_by_code(model.uid_map, model.num_users)
    items = _ids_by_code(model.iid_map, model.num_items)

    def rows(codes: IntArray) -> AnyArray:
        block = []
        for user in codes:
            # Some models return a (1, n) matrix, some a buffer that the next call overwrites.
            scores = np.array(model.score(int(user))).reshape(-1)
            block.append(scores[: items.size])
        return np.stack(block)

    return ModelScores(describe_source(model), rows=rows, user_ids=users, item_ids=items)


def _ids_by_code(codes: Mapping[Hashable, int], n_trained: int | None = None) -> AnyArray:
    """Return the ids in the order of the library's codes; those from `n_trained` on were not in training."""
    ids = sorted(codes, key=codes.__getitem__)
    return as_row_ids(np.array(ids[:n_trained]), None, "ids")


def describe_implicit(model: TrainedModel, split: Split) -> ModelScores:
    """Return the model's factors, or training rows times the item–item similarities; it keeps no ids."""
    if getattr(model, "user_factors", None) is not None:
        factors = (_to_host_array(model.user_factors), _to_host_array(model.item_factors), None)
        return ModelScores(describe_source(model), factors=factors)
    similarity = getattr(model, "similarity", None)
    if similarity is None:
        raise InputError(
            f"{describe_source(model)} has neither factors nor similarities; fit it before it is evaluated."
        )
    matrix = sp.csr_array(split.train.to_csr())
    weights = sp.csr_array(similarity)

    def rows(users: IntArray) -> AnyArray:
        return np.asarray((matrix[users] @ weights).toarray())

    return ModelScores(
        describe_source(model),
        rows=rows,
        n_users=split.n_users,
        n_items=similarity.shape[0],
        reads_training=True,
    )


def _to_host_array(factors: Untyped) -> AnyArray:
    """Return factors as an array; factors of a GPU model are copied from the device."""
    if hasattr(factors, "to_numpy"):
        factors = factors.to_numpy()
    return np.asarray(factors)


def describe_lenskit(model: TrainedModel, split: Split) -> ModelScores:
    """Return the scores of every item that the scorer knows, one user at a time; NaN comes last."""
    # Scores come from the whole pipeline, as in production, so that its history look-up is included.
    if not hasattr(model, "component") and hasattr(model, "run"):
        return _describe_recommendations(model, split)
    import lenskit
    from lenskit.data import ItemList

    if not hasattr(model, "component"):
        raise InputError(
            f"{describe_source(model)} is a component; pass the trained pipeline, e.g. "
            "lenskit.topn_pipeline(scorer) after its train(dataset)."
        )
    scorer = model.component("scorer")
    user_ids = _vocabulary_ids(scorer, "users", split.user_ids)
    item_ids = _vocabulary_ids(scorer, "items", split.item_ids)
    candidates = ItemList(item_ids=np.asarray(item_ids))

    def rows(codes: IntArray) -> AnyArray:
        block = np.empty((codes.size, item_ids.size))
        for row, code in enumerate(codes):
            block[row] = lenskit.score(model, user_ids[code], candidates).scores()
        return _rank_missing_last(block, describe_source(scorer))

    return ModelScores(describe_source(scorer), rows=rows, user_ids=user_ids, item_ids=item_ids)


def _describe_recommendations(pipeline: TrainedModel, split: Split) -> ModelScores:
    """Return scores by the positions of items in the complete list of a pipeline; other items come last."""
    column_by_item = {item: column for column, item in enumerate(split.item_ids.tolist())}
    users = split.user_ids.tolist()

    def rows(codes: IntArray) -> AnyArray:
        block = np.full((codes.size, split.n_items), -np.inf)
        for row, code in enumerate(codes):
            items = pipeline.run("recommender", query=users[code], n=split.n_items)
            columns = [column_by_item[item] for item in np.asarray(items.ids()).tolist()]
            block[row, columns] = np.arange(len(columns), 0, -1)
        return block

    return ModelScores(describe_source(pipeline), rows=rows, user_ids=split.user_ids, item_ids=split.item_ids)


def _vocabulary_ids(scorer: TrainedModel, name: str, split_ids: AnyArray) -> AnyArray:
    """Return the ids of a LensKit scorer's vocabulary; the ids of the split if it has none."""
    vocabulary = getattr(scorer, name, None)
    if vocabulary is None:
        return split_ids
    return np.asarray(vocabulary.ids())


def _rank_missing_last(block: AnyArray, source: str) -> AnyArray:
    """Replace NaN by −∞ with a warning, or raise `InputError` if all scores are NaN."""
    is_missing = np.isnan(block)
    if is_missing.any():
        if is_missing.all():
            raise InputError(f"{source} gave no item a score for {len(block)} users; was it trained on them?")
        warn_user(f"{source} gives some items no score (NaN); they come last, tied.", DataWarning)
        block[is_missing] = -np.inf
    return block


def describe_lightfm(model: TrainedModel | tuple[TrainedModel, LibraryDataset], split: Split) -> ModelScores:
    """Return embeddings and item biases, without side features, of a model or a pair (model, Dataset)."""
    dataset = None
    if isinstance(model, tuple):
        model, dataset = model
    if getattr(model, "item_embeddings", None) is None:
        raise InputError(f"{describe_source(model)} has no embeddings; fit it before it is evaluated.")
    # The user's bias is the same for all items of a user, so it does not change the order.
    factors = (model.user_embeddings, model.item_embeddings, model.item_biases)
    scores = ModelScores(describe_source(model), factors=factors)
    if dataset is None:
        return scores

    user_map, user_features, item_map, item_features = dataset.mapping()
    if len(user_features) != len(user_map) or len(item_features) != len(item_map):
        raise InputError(
            f"{describe_source(model)} was set up with side features; pass (user_embeddings, "
            "item_embeddings, item_biases) from get_user_representations and get_item_representations."
        )
    return scores.with_ids(_ids_by_code(user_map), _ids_by_code(item_map))


def _unpack_pair(model: object, dataset_attribute: str, advice: str) -> tuple[TrainedModel, LibraryDataset]:
    """Return a pair (model, dataset), or raise `InputError` with the advice for anything else."""
    if isinstance(model, tuple) and len(model) == 2 and hasattr(model[1], dataset_attribute):
        recommender, dataset = model
        return recommender, dataset
    recommender = model
    if isinstance(model, tuple):
        recommender = model[0]
    raise InputError(f"{describe_source(recommender)} keeps no ids; pass {advice}.")


def describe_rectools(model: tuple[TrainedModel, LibraryDataset], split: Split) -> ModelScores:
    """Return the vectors of a vector model, otherwise the full list of `recommend`, unfiltered."""
    recommender, dataset = _unpack_pair(model, "user_id_map", "(model, dataset), as it was fit")
    users = as_row_ids(dataset.user_id_map.external_ids, None, "users")
    items = as_row_ids(dataset.item_id_map.external_ids, None, "items")
    if hasattr(recommender, "get_vectors"):
        needs_dataset = "LightFM" in type(recommender).__name__
        if needs_dataset:
            user_vectors, item_vectors = recommender.get_vectors(dataset)
        else:
            user_vectors, item_vectors = recommender.get_vectors()
        user_factors = np.asarray(user_vectors)
        item_factors = np.asarray(item_vectors)
        # Users and items that were added to the data set after training have no vector.
        return ModelScores(
            describe_source(recommender),
            factors=(user_factors, item_factors, None),
            user_ids=users[: len(user_factors)],
            item_ids=items[: len(item_factors)],
        )

    def rows(codes: IntArray) -> AnyArray:
        lists = recommender.recommend(users[codes], dataset, k=items.size, filter_viewed=False)
        block = np.full((codes.size, items.size), -np.inf)
        row_by_user = {user: row for row, user in enumerate(users[codes])}
        row = lists["user_id"].map(row_by_user).to_numpy()
        column = dataset.item_id_map.convert_to_internal(lists["item_id"])
        block[row, column] = lists["score"]
        return block

    return ModelScores(describe_source(recommender), rows=rows, user_ids=users, item_ids=items)


def describe_surprise(model: TrainedModel, split: Split) -> ModelScores:
    """Return the factors of SVD and NMF, otherwise one prediction for each pair, without clipping."""
    trainset = getattr(model, "trainset", None)
    if trainset is None:
        raise InputError(f"{describe_source(model)} is not trained; fit it before it is evaluated.")
    raw_users = []
    for row in range(trainset.n_users):
        raw_users.append(trainset.to_raw_uid(row))

    users = as_row_ids(raw_users, None, "users")
    raw_items = []
    for row in range(trainset.n_items):
        raw_items.append(trainset.to_raw_iid(row))

    items = as_row_ids(raw_items, None, "items")
    if type(model).__name__ in ("SVD", "NMF"):
        # The user's bias and the global mean are the same for all items of a user.
        bias = None
        if getattr(model, "biased", hasattr(model, "bi")):
            bias = np.asarray(model.bi)
        factors = (np.asarray(model.pu), np.asarray(model.qi), bias)
        return ModelScores(describe_source(model), factors=factors, user_ids=users, item_ids=items)

    def rows(codes: IntArray) -> AnyArray:
        block = np.empty((codes.size, items.size))
        for row, user in enumerate(users[codes]):
            # Clipped predictions would tie at the ends of the rating scale.
            block[row] = [model.predict(user, item, clip=False).est for item in items]
        return block

    return ModelScores(describe_source(model), rows=rows, user_ids=users, item_ids=items)


def describe_spark(model: TrainedModel, split: Split) -> ModelScores:
    """Return the factors of an ALSModel, copied to the driver with their ids."""
    if not hasattr(model, "userFactors"):
        raise InputError(
            f"{describe_source(model)} is not supported; pass a trained ALSModel, or a frame of lists with "
            "columns user, item and rank or score."
        )
    user_ids, user_factors = _collect_spark_factors(model.userFactors)
    item_ids, item_factors = _collect_spark_factors(model.itemFactors)
    return ModelScores(
        describe_source(model),
        factors=(user_factors, item_factors, None),
        user_ids=user_ids,
        item_ids=item_ids,
    )


def _collect_spark_factors(frame: LibraryFrame) -> tuple[AnyArray, AnyArray]:
    """Return ids and factors of a Spark frame with columns id and features."""
    local = frame.orderBy("id").toPandas()
    ids = as_row_ids(local["id"].to_numpy(), None, "ids")
    return ids, np.array(local["features"].to_list(), dtype=np.float32)


def describe_torch(model: TrainedModel, split: Split) -> ModelScores:
    """Return (user, item[, item bias]) tensors or embeddings as factors, or a module users -> scores."""
    if isinstance(model, tuple):
        return _describe_torch_factors(model)
    if not hasattr(model, "eval"):
        raise InputError(
            f"a {describe_source(model)} must be turned into an array first: tensor.numpy(force=True)."
        )
    import torch

    def rows(users: IntArray) -> AnyArray:
        with _evaluation_mode(model):
            try:
                # `torch.tensor` copies, because torch does not accept read-only arrays.
                return _to_numpy(model(torch.tensor(users).to(_find_device(model))))
            except IndexError as error:
                raise InputError(
                    f"{describe_source(model)} failed for users {users[0]} to {users[-1]} ({error}); the "
                    f"split has {split.n_users} users and {split.n_items} items. Where the module knows "
                    "others, name its rows with ipseval.adapters.adapt(model, split, users=…, items=…)."
                ) from error

    return ModelScores(describe_source(model), rows=rows)


def _describe_torch_factors(parts: tuple[Tensor, ...]) -> ModelScores:
    """Return a tuple of tensors or embeddings as factors."""
    if len(parts) not in (2, 3):
        raise InputError(f"a tuple of tensors must hold user, item[, item bias]; got {len(parts)}.")
    arrays = []
    for part in parts:
        arrays.append(_to_numpy(getattr(part, "weight", part)))

    bias = None
    if len(arrays) == 3:
        bias = arrays[2].reshape(-1)
    return ModelScores("torch factors", factors=(arrays[0], arrays[1], bias))


def _to_numpy(tensor: Tensor) -> AnyArray:
    """Return a tensor as an array: the same memory for a CPU tensor of a type that NumPy has."""
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    return np.asarray(tensor.numpy())


def _find_device(module: TrainedModel) -> Untyped:
    """Return the device of the module's first parameter; the CPU if it has none."""
    parameter = next(iter(module.parameters()), None)
    return "cpu" if parameter is None else parameter.device


@contextlib.contextmanager
def _evaluation_mode(module: TrainedModel) -> Iterator[None]:
    """Switch dropout and gradients off, and restore the mode of the module afterwards."""
    import torch

    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(was_training)


def describe_recbole(model: tuple[TrainedModel, LibraryDataset], split: Split) -> ModelScores:
    """Return `full_sort_predict`, or `predict`, without the padding item; ids are matched by their text."""
    recommender, dataset = _unpack_pair(model, "field2id_token", "the pair (model, dataset) of RecBole")
    import torch

    users = _match_tokens(dataset, dataset.uid_field, split.user_ids)
    items = _match_tokens(dataset, dataset.iid_field, split.item_ids)

    def rows(codes: IntArray) -> AnyArray:
        # Row 0 of every RecBole table is padding.
        ids = torch.as_tensor(codes + 1).to(_find_device(recommender))
        with _evaluation_mode(recommender):
            try:
                scores = _predict_recbole(recommender, dataset, ids, items.size, torch)
            except KeyError as error:
                raise InputError(
                    f"{describe_source(recommender)} scores from more than the user: it asks for {error}. "
                    "Pass its scores as an array (recbole.utils.case_study.full_sort_scores) to adapt, with "
                    "ids."
                ) from error
        return _to_numpy(scores).reshape(codes.size, -1)[:, 1:]

    return ModelScores(describe_source(recommender), rows=rows, user_ids=users, item_ids=items)


def _predict_recbole(
    recommender: TrainedModel, dataset: LibraryDataset, user_ids: Tensor, n_items: int, torch: ModuleType
) -> Tensor:
    """Return the scores of all items, with the padding item first, for RecBole's ids of users."""
    from recbole.data.interaction import Interaction

    try:
        return recommender.full_sort_predict(Interaction({dataset.uid_field: user_ids}))
    except NotImplementedError:
        pass
    # Some models, such as NeuMF, predict one pair at a time; RecBole's trainer then does the same.
    rows = []
    for user_id in user_ids:
        item_ids = torch.arange(n_items + 1, device=user_id.device)
        pairs = {dataset.uid_field: user_id.expand(item_ids.shape[0]), dataset.iid_field: item_ids}
        rows.append(recommender.predict(Interaction(pairs)))
    return torch.stack(rows)


def _match_tokens(dataset: LibraryDataset, field: str, split_ids: AnyArray) -> AnyArray:
    """Return the ids of the model's rows, as the values of the split if their text is the same."""
    tokens = np.asarray(dataset.field2id_token[field])[1:].astype(str).astype(object)
    id_by_text = {}
    for value in split_ids:
        id_by_text[str(value)] = value

    return np.array([id_by_text.get(token, token) for token in tokens], dtype=object)
