"""A trained model in its own id space, and how it is brought into the id space of a split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError
from ipseval.utils.checks import examples, warn_user
from ipseval.utils.types import AnyArray, IntArray

Unknown: TypeAlias = Literal["raise", "last"]


@dataclass(frozen=True, eq=False)
class ModelScores:
    """Scores that a trained model gives its items for its users, in the order of its own rows.

    Attributes
    ----------
    source : str
        Library and class, for messages.
    factors : (user_factors, item_factors, item_bias or None) or None
        score_ui = user_factors_u · item_factors_i + item_bias_i; the library's own arrays, not copies.
    rows : callable or None
        Model rows of users (b,) -> scores (b, n_items); given when there are no factors.
    user_ids, item_ids : arrays or None
        Ids of the model's rows, where the library keeps them. None: rows must be in the order of the split.
    n_users, n_items : int or None
        Sizes, where they are known without ids.
    reads_training : bool
        Whether scores are computed from `split.train`, so that rows cannot be in another order.
    """

    source: str
    factors: tuple[AnyArray, AnyArray, AnyArray | None] | None = None
    rows: Callable[[IntArray], AnyArray] | None = None
    user_ids: AnyArray | None = None
    item_ids: AnyArray | None = None
    n_users: int | None = None
    n_items: int | None = None
    reads_training: bool = False

    def __post_init__(self) -> None:
        assert (self.factors is None) != (self.rows is None)
        if self.factors is not None:
            object.__setattr__(self, "n_users", len(self.factors[0]))
            object.__setattr__(self, "n_items", len(self.factors[1]))

    def __repr__(self) -> str:
        users, items = ("?" if n is None else f"{n:,}" for n in (self.n_users, self.n_items))
        kind = "factors" if self.factors is not None else "scores"
        return f"ModelScores({self.source}: {kind} of {users} users and {items} items)"

    def with_ids(self, users: Any | None, items: Any | None) -> ModelScores:
        """Return the same scores with the ids of the rows as stated by the caller."""
        if self.reads_training:
            raise InputError(
                f"{self.source} scores from the items in split.train, so its rows must be in the order of "
                "the split; train it on split.train.to_csr() and pass it without ids."
            )
        return replace(
            self,
            user_ids=self.user_ids if users is None else stated_ids(users, self.n_users, "users"),
            item_ids=self.item_ids if items is None else stated_ids(items, self.n_items, "items"),
        )


def stated_ids(ids: Any, size: int | None, name: str) -> AnyArray:
    """Return ids as an array after a check of their number and uniqueness."""
    try:
        array = np.asarray(ids)
    except ValueError:  # sequences of several lengths
        array = np.empty((0, 0))
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.ndim != 1 or (size is not None and array.size != size):
        raise InputError(f"{name} must hold one id for each of the model's {size} rows; got {array.shape}.")
    repeated = array.size - pd.unique(array).size
    if repeated:
        raise InputError(f"{name} repeats {repeated} ids; each id may occur once.")
    return array


def align(scores: ModelScores, split: Split, *, name: str, unknown: Unknown) -> Any:
    """Return a scorer in the id space of `split`: a tuple of factors, or a function users -> scores."""
    label = f"{name} ({scores.source})"
    users = _places(scores, split, "user", label, unknown)
    items = _places(scores, split, "item", label, unknown)
    if scores.factors is not None:
        return _aligned_factors(scores.factors, users, items)
    rows = _of_checked_shape(scores, split, label)
    if users is None and items is None:
        return rows
    return _aligned_rows(rows, users, items, split.n_items)


def _of_checked_shape(scores: ModelScores, split: Split, label: str) -> Callable[[IntArray], AnyArray]:
    """Return the model's rows with a check of their number of items, which not every model states."""
    rows, own = scores.rows, scores.item_ids
    assert rows is not None

    def checked(users: IntArray) -> AnyArray:
        block = np.asarray(rows(users))
        expected = (users.size, split.n_items if own is None else own.size)
        if block.shape == expected:
            return block
        text = f"{label} gave scores of shape {block.shape} for {users.size} users; expected {expected}, "
        if own is not None:
            raise InputError(f"{text}a column for each of its item ids ({examples(own)}).")
        raise InputError(
            f"{text}a column for each item of the split ({examples(split.item_ids)}). Where the model's rows "
            "are not in the order of the split, name them with "
            "ipseval.adapters.adapt(model, split, users=…, items=…)."
        )

    return checked


def _places(
    scores: ModelScores, split: Split, kind: Literal["user", "item"], label: str, unknown: Unknown
) -> IntArray | None:
    """Return the model's row of each id of the split, −1 where it has none; None where rows are the codes."""
    ids = split.user_ids if kind == "user" else split.item_ids
    own = scores.user_ids if kind == "user" else scores.item_ids
    if own is None:
        size = scores.n_users if kind == "user" else scores.n_items
        if size is not None and size != ids.size:
            raise InputError(
                f"{label} has {size} {kind}s and the split {ids.size} ({examples(ids)}). The model carries "
                f"no ids, so its rows must be in the order of split.{kind}_ids: train it on "
                "split.train.to_csr(), or name its rows with "
                "ipseval.adapters.adapt(model, split, users=…, items=…)."
            )
        return None
    place: IntArray = pd.Index(own).get_indexer(pd.Index(ids)).astype(np.int64)
    in_training = (split.train.activity if kind == "user" else split.train.popularity) > 0
    missing = place < 0
    strange = np.ones(own.size, dtype=bool)
    strange[place[~missing]] = False
    if missing.all() or (strange.any() and unknown == "raise"):
        raise InputError(
            f"{label}: {int(strange.sum())} of its {own.size} {kind} ids are not in the split "
            f"(the model has {examples(own[strange])}; the split has {examples(ids)}). Ids must be the same "
            "values of the same type. Train the model on split.train, or, where it knows more than the "
            "split, pass ipseval.adapters.adapt(model, split, unknown='last')."
        )
    untrained = missing & in_training
    if untrained.any() and unknown == "raise":
        raise InputError(
            f"{label} does not know {int(untrained.sum())} of the {int(in_training.sum())} {kind} ids of "
            f"split.train (the split has {examples(ids[untrained])}; the model has {examples(own)}). Train "
            "it on split.train, or pass ipseval.adapters.adapt(model, split, unknown='last')."
        )
    if missing.any():
        fate = "they come last, tied" if kind == "item" else "all items are tied for them"
        warn_user(
            f"{label} does not know {int(missing.sum())} of {ids.size} {kind}s of the split "
            f"({examples(ids[missing])}): {fate}.",
            DataWarning,
        )
    return None if np.array_equal(place, np.arange(own.size)) else place


def _aligned_factors(
    factors: tuple[AnyArray, AnyArray, AnyArray | None], users: IntArray | None, items: IntArray | None
) -> Any:
    user_factors, item_factors, bias = factors
    if users is not None:
        user_factors = _take(user_factors, users)
    if items is not None:
        item_factors = _take(item_factors, items)
        if bias is not None:
            bias = _take(bias, items)
        if (items < 0).any():
            bias = np.zeros(items.size, dtype=item_factors.dtype) if bias is None else bias
            bias = np.where(items < 0, -np.inf, bias)
    return (user_factors, item_factors) if bias is None else (user_factors, item_factors, bias)


def _take(values: AnyArray, rows: IntArray) -> AnyArray:
    """Return the chosen rows, zero where the row is −1."""
    taken: AnyArray = values[rows]
    taken[rows < 0] = 0
    return taken


def _aligned_rows(
    rows: Callable[[IntArray], AnyArray], users: IntArray | None, items: IntArray | None, n_items: int
) -> Callable[[IntArray], AnyArray]:
    known_items = slice(None) if items is None else np.flatnonzero(items >= 0)
    columns = slice(None) if items is None else items[items >= 0]

    def scores(codes: IntArray) -> AnyArray:
        own = codes if users is None else users[codes]
        block = np.full((codes.size, n_items), -np.inf)
        known = np.flatnonzero(own >= 0)
        block[:, known_items] = 0.0
        if known.size:
            filled = np.asarray(rows(own[known]))[:, columns]
            block[known[:, None], np.arange(n_items)[known_items]] = filled
        return block

    return scores


def source_of(model: Any) -> str:
    """Return library and class of a model, for messages."""
    return f"{type(model).__module__.split('.')[0]} {type(model).__name__}"


def root_modules(model: Any) -> list[str]:
    """Return the top-level modules of the model's class and its bases, nearest first."""
    return list(dict.fromkeys(kind.__module__.split(".")[0] for kind in type(model).__mro__))
