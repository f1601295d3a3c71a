"""A trained model of another library as a scorer, by the type of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking.adapters import _libraries
from ipseval.ranking.adapters._base import ModelScores, Unknown, align, root_modules
from ipseval.utils.checks import check_choice, examples, kind_of, refuse_masked
from ipseval.utils.registry import Registry

Describe: TypeAlias = Callable[[Any, Split], ModelScores | None]

# Top-level module of the model's class -> its function; the first match along the bases of the class wins,
# so that a RecBole model is not taken for a plain torch module.


def _describe(name: str, given: Any) -> Describe:
    """Return the function of an adapter that is registered by the top-level module of its models."""
    if not callable(given):
        raise InputError(f"an adapter is a function describe(model, split); got {kind_of(given)}.")
    if not name.isidentifier():
        raise InputError(f"an adapter has the name of a top-level module, such as 'sklearn'; got {name!r}.")
    found: Describe = given
    return found


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
ADAPTERS: Registry[Describe] = Registry("adapter", "ipseval.adapters", _BUILT_IN, _describe)


NESTED = "recommendations"


def adapt(
    model: Any,
    split: Split,
    *,
    name: str = "the model",
    unknown: Unknown = "raise",
    users: Any | None = None,
    items: Any | None = None,
) -> Any:
    """Return a trained model of a known library as a scorer for `split`; anything else as it is.

    Ids are matched where the library keeps them. An item or user without training interactions that the model
    does not know is ranked last or left with all items tied, with a `DataWarning` that counts them.

    Parameters
    ----------
    model : trained model
        Of implicit, cornac, LensKit (pipeline), RecTools, RecBole, Surprise, LightFM, Spark ALS or torch.
        RecTools, RecBole and LightFM keep ids in a data set of their own: pass the pair (model, dataset).
        Frames of top-K lists with columns user_id, item_id or a nested column recommendations are understood.
    unknown : {"raise", "last"}
        What to do when the model knows ids that the split does not have, or does not know ids of
        `split.train`: an error, or go on as for ids without training interactions.
    users, items : arrays of ids, optional
        Id of each user row and item row, for models that carry none (implicit, LightFM, torch, an (n, m)
        array, a tuple of factors, a function of row numbers). None: in the order of the split.

    Raises
    ------
    InputError
        When the ids or sizes do not match; the text shows ids of both.
    """
    check_choice("unknown", unknown, ("raise", "last"))
    frame = list_frame(model)
    if frame is not None:
        return frame
    scores = describe(model, split)
    if users is not None or items is not None:
        scores = (scores or _plain(model)).with_ids(users, items)
    return model if scores is None else align(scores, split, name=name, unknown=unknown)


def describe(model: Any, split: Split) -> ModelScores | None:
    """Return the scores of a model in its own id space; None for what is not a library's model."""
    leader = model[0] if isinstance(model, tuple) and model else model
    for root in root_modules(leader):
        if ADAPTERS.offers(root):
            return ADAPTERS.find(root)(model, split)
    return None


def _plain(model: Any) -> ModelScores:
    """Return an array, factors or function as scores in their own id space."""
    for part in model if isinstance(model, tuple) else (model,):
        refuse_masked(part, "the model")
    if isinstance(model, np.ndarray) and model.ndim == 2:
        return ModelScores(
            "array", rows=lambda users: model[users], n_users=model.shape[0], n_items=model.shape[1]
        )
    if isinstance(model, tuple) and len(model) in (2, 3):
        bias = np.asarray(model[2]) if len(model) == 3 and model[2] is not None else None
        return ModelScores("factors", factors=(np.asarray(model[0]), np.asarray(model[1]), bias))
    if callable(model):
        return ModelScores("function", rows=model)
    raise InputError(
        f"ids of rows go with a library's model, an array, factors or a function; got {type(model).__name__}."
    )


def list_frame(model: Any) -> Any | None:
    """Return a frame of lists with our column names, from RecTools' or Spark's nested ones; else None."""
    try:
        table: Any = nw.from_native(model)
    except TypeError:
        return None
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"a frame of scores or lists must not repeat a column: {error}") from error
    columns = table.collect_schema().names()
    if {"user", "item"} <= set(columns):
        return model
    if NESTED in columns:
        return _unnested(table, columns)
    key = next((name for name in ("rank", "score") if name in columns), None)
    if {"user_id", "item_id"} <= set(columns) and key is not None:
        names = {"user_id": "user", "item_id": "item"}
        return table.select("user_id", "item_id", key).rename(names).to_native()
    return None


def _unnested(table: Any, columns: list[str]) -> Any:
    others = [name for name in columns if name != NESTED]
    if len(others) != 1:
        raise InputError(
            f"a frame with a column {NESTED!r} must have one other column, the user; got {examples(columns)}."
        )
    if isinstance(table, nw.LazyFrame):
        table = table.collect()
    lists = [list(entries) for entries in table[NESTED].to_list()]
    entries = [entry for one in lists for entry in one]
    if entries and isinstance(entries[0], dict):
        if set(entries[0]) - {"rating"} == set(entries[0]) or len(entries[0]) != 2:
            raise InputError(
                f"entries of {NESTED!r} must have an item and a rating; got {examples(entries[0], 5)}."
            )
        item_name = next(name for name in entries[0] if name != "rating")
        pairs = [(entry[item_name], entry["rating"]) for entry in entries]
    else:
        pairs = [(entry[0], entry[1]) for entry in entries]
    users = np.repeat(table[others[0]].to_numpy(), [len(one) for one in lists])
    return pd.DataFrame(
        {"user": users, "item": [item for item, _ in pairs], "score": [score for _, score in pairs]}
    )
