"""Registry of adapters, which turn a trained model of another library into a scorer by its type."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking._types import AnyFrame, AnyModel
from ipseval.ranking.adapters import _libraries
from ipseval.ranking.adapters._model_scores import ModelScores, Unknown, align
from ipseval.utils.checks import check_choice, describe_type, format_examples, refuse_masked
from ipseval.utils.public import public_function
from ipseval.utils.registry import Registry

Describe: TypeAlias = Callable[[AnyModel, Split], ModelScores | None]


def _check_adapter(name: str, adapter: object) -> Describe:
    """Return an adapter, or raise `InputError` unless it is a function named like a top-level module."""
    if not callable(adapter):
        raise InputError(f"an adapter is a function describe(model, split); got {describe_type(adapter)}.")
    if not name.isidentifier():
        raise InputError(f"an adapter has the name of a top-level module, such as 'sklearn'; got {name!r}.")
    describe_model: Describe = adapter
    return describe_model


# Function by the top-level module of the model's class. The first match along the bases of the class is used,
# so that a RecBole model is not treated as a torch module.
_BUILT_IN: dict[str, Describe] = {
    "implicit": _libraries.describe_implicit,
    "cornac": _libraries.describe_cornac,
    "lenskit": _libraries.describe_lenskit,
    "rectools": _libraries.describe_rectools,
    "recbole": _libraries.describe_recbole,
    "surprise": _libraries.describe_surprise,
    "lightfm": _libraries.describe_lightfm,
    "pyspark": _libraries.describe_spark,
    "torch": _libraries.describe_torch,
}
ADAPTERS: Registry[Describe] = Registry("adapter", "ipseval.adapters", _BUILT_IN, _check_adapter)

# Attributes by which a model of one's own class is known to follow the conventions of a library.
ATTRIBUTES = {
    "surprise": ("trainset", "predict"),
    "cornac": ("uid_map", "iid_map", "num_users", "num_items", "score"),
    "lightfm": ("user_embeddings", "item_embeddings", "item_biases"),
}

# Attribute of the data sets in which libraries keep the ids of their models.
DATA_SETS = {"rectools": "user_id_map", "recbole": "field2id_token"}

NESTED = "recommendations"


@public_function
def adapt(
    model: Any,
    split: Split,
    *,
    name: str = "the model",
    unknown: Unknown = "raise",
    users: Any | None = None,
    items: Any | None = None,
) -> Any:
    """Return a trained model of a supported library as a scorer for `split`, and any other model unchanged.

    Ids are matched if the library stores them. An item without training interactions that the model does not
    know is ranked last, and for such a user all items are tied; a `DataWarning` reports their number.

    Parameters
    ----------
    model : trained model
        A model of implicit, cornac, LensKit (pipeline), RecTools, RecBole, Surprise, LightFM, Spark ALS or torch.
        RecTools, RecBole and LightFM keep ids in a separate data set: pass the pair (model, dataset). Frames
        of top-K lists with columns user_id, item_id, or with a nested column recommendations, are supported.
    split : Split
        The scorer has the users and items of this split, in its order.
    name : str, default "the model"
        Name of the model in messages.
    unknown : {"raise", "last"}, default "raise"
        Treatment of ids that the model knows and the split lacks, and of ids of `split.train` that the model
        does not know: an error, or the same treatment as ids without training interactions.
    users, items : arrays of ids, optional
        Id of each user row and item row, for models without ids (implicit, LightFM, torch, an (n, m) array, a
        tuple of factors, a function of row numbers). The default is the order of the split.

    Returns
    -------
    tuple of factors, function users -> scores, data frame of lists, or the model itself
        A scorer of all users and items of the split, in its order.

    Raises
    ------
    InputError
        If the ids or sizes do not match; the message shows ids of the model and of the split.

    See Also
    --------
    ModelScores : The scores that an adapter returns.

    Examples
    --------
    The rows of the factors are in another order than the users and items of the split:

    >>> import numpy as np
    >>> from ipseval.ranking import baselines
    >>> from ipseval import simulation
    >>> split = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0).split(rng=1)
    >>> user_factors, item_factors = baselines.pure_svd(split.train, n_factors=8)
    >>> users = split.user_ids[::-1]
    >>> items = split.item_ids[::-1]
    >>> scorer = adapt((user_factors[::-1], item_factors[::-1]), split, users=users, items=items)
    >>> np.array_equal(scorer[0], user_factors), np.array_equal(scorer[1], item_factors)
    (True, True)
    """
    check_choice("unknown", unknown, ("raise", "last"))
    frame = list_frame(model)
    if frame is not None:
        return frame
    scores = describe(model, split)
    if users is not None or items is not None:
        if scores is None:
            scores = _describe_arrays(model)
        scores = scores.with_ids(users, items)
    if scores is None:
        return model
    return align(scores, split, name=name, unknown=unknown)


def pair_with_data_set(model: AnyModel, dataset: object) -> AnyModel:
    """Return (model, dataset) for a library that keeps the ids in data sets, and other models unchanged."""
    for root, attribute in DATA_SETS.items():
        if hasattr(dataset, attribute) and root in root_modules(model):
            return model, dataset
    return model


def describe(model: AnyModel, split: Split) -> ModelScores | None:
    """Return the scores of a model in the id space of its library; None if no adapter supports the model."""
    leader = model
    if isinstance(model, tuple) and model:
        leader = model[0]
    for root in root_modules(leader):
        if ADAPTERS.offers(root):
            return ADAPTERS.find(root)(model, split)
    for root, attributes in ATTRIBUTES.items():
        if all(hasattr(leader, attribute) for attribute in attributes):
            return ADAPTERS.find(root)(model, split)
    return None


def _describe_arrays(model: AnyModel) -> ModelScores:
    """Return an array, factors or a function as scores in an id space of their own."""
    parts = (model,)
    if isinstance(model, tuple):
        parts = model
    for part in parts:
        refuse_masked(part, "the model")
    if isinstance(model, np.ndarray) and model.ndim == 2:
        n_users, n_items = model.shape
        return ModelScores("array", rows=lambda users: model[users], n_users=n_users, n_items=n_items)
    if isinstance(model, tuple) and len(model) in (2, 3):
        bias = None
        if len(model) == 3 and model[2] is not None:
            bias = np.asarray(model[2])
        return ModelScores("factors", factors=(np.asarray(model[0]), np.asarray(model[1]), bias))
    if callable(model):
        return ModelScores("function", rows=model)
    raise InputError(
        f"ids of rows go with a library's model, an array, factors or a function; got {type(model).__name__}."
    )


def list_frame(model: AnyModel) -> AnyFrame | None:
    """Return a frame of lists with columns user, item and rank or score; None for any other model.

    The names of RecTools and of other libraries are replaced, and Spark's nested lists are unnested.
    """
    try:
        table: AnyFrame = nw.from_native(model)
    except TypeError:
        return None
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"a frame of scores or lists must not repeat a column: {error}") from error
    columns = table.collect_schema().names()
    if {"user", "item"} <= set(columns):
        return model
    if NESTED in columns:
        return _unnest_lists(table, columns)
    if not {"user_id", "item_id"} <= set(columns):
        return None
    for order in ("rank", "score"):
        if order in columns:
            names = {"user_id": "user", "item_id": "item"}
            return table.select("user_id", "item_id", order).rename(names).to_native()
    return None


def _unnest_lists(table: nw.DataFrame[Any] | nw.LazyFrame[Any], columns: list[str]) -> pd.DataFrame:
    """Return a frame with a column of users and a column of lists as one row for each entry."""
    user_columns = []
    for name in columns:
        if name != NESTED:
            user_columns.append(name)

    if len(user_columns) != 1:
        raise InputError(
            f"a frame with a column {NESTED!r} must have one other column, the user; got {format_examples(columns)}."
        )
    if isinstance(table, nw.LazyFrame):
        table = table.collect()

    lists = [list(entries) for entries in table[NESTED].to_list()]
    entries = list(itertools.chain.from_iterable(lists))
    if entries and isinstance(entries[0], dict):
        item_key = _find_item_key(entries[0])
        items = [entry[item_key] for entry in entries]
        scores = [entry["rating"] for entry in entries]
    elif entries and isinstance(entries[0], (str, int, np.integer)):
        items = entries
        scores = [-position for ids in lists for position in range(len(ids))]
    else:
        items = [entry[0] for entry in entries]
        scores = [entry[1] for entry in entries]
    lengths = [len(entries_of_user) for entries_of_user in lists]
    users = np.repeat(table[user_columns[0]].to_numpy(), lengths)
    return pd.DataFrame({"user": users, "item": items, "score": scores})


def _find_item_key(entry: dict[str, object]) -> str:
    """Return the key of the item in an entry that has an item and a rating."""
    keys = []
    for key in entry:
        if key != "rating":
            keys.append(key)

    if "rating" not in entry or len(keys) != 1:
        raise InputError(
            f"entries of {NESTED!r} must have an item and a rating; got {format_examples(entry, 5)}."
        )
    return keys[0]


def root_modules(model: object) -> list[str]:
    """Return the top-level modules of the model's class and its bases, nearest first."""
    module_names = []
    for base in type(model).__mro__:
        module_names.append(base.__module__.split(".")[0])

    return list(dict.fromkeys(module_names))
