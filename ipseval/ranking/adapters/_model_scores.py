"""Scores of trained models in the id space of their library, and their alignment to the ids of a split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError
from ipseval.utils.checks import format_examples, warn_user
from ipseval.utils.public import public_class
from ipseval.utils.types import AnyArray, BoolArray, IntArray

Unknown: TypeAlias = Literal["raise", "last"]
Role: TypeAlias = Literal["user", "item"]
RowFunction: TypeAlias = Callable[[IntArray], AnyArray]  # model rows of users (b,) -> scores (b, n_items)
FactorTuple: TypeAlias = tuple[AnyArray, AnyArray] | tuple[AnyArray, AnyArray, AnyArray]


@public_class
@dataclass(frozen=True, eq=False)
class ModelScores:
    """Hold the scores of a trained model for its users and items, in the order of the model's rows.

    Parameters
    ----------
    source : str
        Library and class, for messages.
    factors : (user_factors, item_factors, item_bias or None) or None, default None
        score_ui = user_factors_u · item_factors_i + item_bias_i. The arrays of the library are not copied.
    rows : callable or None, default None
        Function from model rows of users (b,) to scores (b, n_items). It is required if there are no factors.
    user_ids, item_ids : arrays or None, default None
        Ids of the model's rows, if the library stores them. None means that rows must be in the order of the
        split.
    n_users, n_items : int or None, default None
        Sizes, if they are known without ids.
    reads_training : bool, default False
        Whether scores are computed from `split.train`, so that rows cannot be in another order.

    See Also
    --------
    adapt : Align the scores of a model to the ids of a split.

    Examples
    --------
    Factors of two users and three items, in the order of the model's rows, get ids:

    >>> import numpy as np
    >>> user_factors = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> item_factors = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    >>> scores = ModelScores("my library", factors=(user_factors, item_factors, None))
    >>> scores
    ModelScores(my library: factors of 2 users and 3 items)
    >>> scores.with_ids(["ann", "bob"], ["x", "y", "z"]).item_ids
    array(['x', 'y', 'z'], dtype=object)
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
        content = "scores" if self.factors is None else "factors"
        n_users = _format_size(self.n_users)
        n_items = _format_size(self.n_items)
        return f"ModelScores({self.source}: {content} of {n_users} users and {n_items} items)"

    def with_ids(self, users: Any | None, items: Any | None) -> ModelScores:
        """Return the same scores with ids of the model's rows.

        Parameters
        ----------
        users, items : arrays of ids or None
            Id of each user row and item row; None keeps the present ids.

        Returns
        -------
        ModelScores
            A copy of the scores with the ids.

        Raises
        ------
        InputError
            For ids of another number than the rows, repeated ids, and models whose rows must be in the order
            of the split.
        """
        if self.reads_training:
            raise InputError(
                f"{self.source} scores from the items in split.train, so its rows must be in the order of "
                "the split; train it on split.train.to_csr() and pass it without ids."
            )
        user_ids = self.user_ids
        item_ids = self.item_ids
        if users is not None:
            user_ids = as_row_ids(users, self.n_users, "users")
        if items is not None:
            item_ids = as_row_ids(items, self.n_items, "items")
        return replace(self, user_ids=user_ids, item_ids=item_ids)


def _format_size(size: int | None) -> str:
    """Return a number of users or items as text, a question mark if it is unknown."""
    return "?" if size is None else f"{size:,}"


def as_row_ids(ids: npt.ArrayLike, size: int | None, name: str) -> AnyArray:
    """Return ids of a model's rows as an array, after a check of their number and uniqueness."""
    try:
        array = np.asarray(ids)
    except ValueError:  # sequences of several lengths
        array = np.empty((0, 0))
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.ndim != 1 or (size is not None and array.size != size):
        raise InputError(f"{name} must hold one id for each of the model's {size} rows; got {array.shape}.")
    n_repeated = array.size - pd.unique(array).size
    if n_repeated:
        raise InputError(f"{name} repeats {n_repeated} ids; each id may occur once.")
    return array


def align(scores: ModelScores, split: Split, *, name: str, unknown: Unknown) -> FactorTuple | RowFunction:
    """Return a scorer in the id space of `split`: a tuple of factors, or a function users -> scores."""
    label = f"{name} ({scores.source})"
    users = _find_model_rows(scores, split, "user", label, unknown)
    items = _find_model_rows(scores, split, "item", label, unknown)
    if scores.factors is not None:
        return _align_factors(scores.factors, users, items)
    rows = _with_shape_check(scores, split, label)
    if users is None and items is None:
        return rows
    return _align_rows(rows, users, items, split.n_items)


def _with_shape_check(scores: ModelScores, split: Split, label: str) -> RowFunction:
    """Return the model's function of rows with a check of the number of items that it returns."""
    rows = scores.rows
    item_ids = scores.item_ids
    assert rows is not None
    n_items = split.n_items
    if item_ids is not None:
        n_items = item_ids.size

    def score_users(users: IntArray) -> AnyArray:
        block = np.asarray(rows(users))
        expected = (users.size, n_items)
        if block.shape == expected:
            return block
        text = f"{label} gave scores of shape {block.shape} for {users.size} users; expected {expected}, "
        if item_ids is not None:
            raise InputError(f"{text}a column for each of its item ids ({format_examples(item_ids)}).")
        raise InputError(
            f"{text}a column for each item of the split ({format_examples(split.item_ids)}). Where the model's rows "
            "are not in the order of the split, name them with "
            "ipseval.adapters.adapt(model, split, users=…, items=…)."
        )

    return score_users


def _find_model_rows(
    scores: ModelScores, split: Split, role: Role, label: str, unknown: Unknown
) -> IntArray | None:
    """Return the model's row of each id of the split, −1 for a missing one; None if rows equal the codes."""
    if role == "user":
        split_ids = split.user_ids
        model_ids = scores.user_ids
        n_rows = scores.n_users
        n_in_training = split.train.activity
    else:
        split_ids = split.item_ids
        model_ids = scores.item_ids
        n_rows = scores.n_items
        n_in_training = split.train.popularity

    if model_ids is None:
        if n_rows is not None and n_rows != split_ids.size:
            hint = ""
            if (scores.n_users, scores.n_items) == (split.n_items, split.n_users):
                hint = " If the matrices are items × users, transpose them: train=train.T, test=test.T."
            raise InputError(
                f"{label} has {n_rows} {role}s and the split {split_ids.size} ({format_examples(split_ids)}). The "
                f"model carries no ids, so its rows must be in the order of split.{role}_ids: train it on "
                "split.train.to_csr(), or name its rows with "
                f"ipseval.adapters.adapt(model, split, users=…, items=…).{hint}"
            )
        return None

    row: IntArray = pd.Index(model_ids).get_indexer(pd.Index(split_ids)).astype(np.int64)
    if unknown == "raise" or (row < 0).all():
        _check_model_ids(row, model_ids, split_ids, role, label)
    if unknown == "raise":
        _check_training_ids(
            row, model_ids, split_ids, is_in_training=n_in_training > 0, role=role, label=label
        )
    is_missing = row < 0
    if is_missing.any():
        effect = "they come last, tied"
        if role == "user":
            effect = "all items are tied for them"
        warn_user(
            f"{label} does not know {int(is_missing.sum())} of {split_ids.size} {role}s of the split "
            f"({format_examples(split_ids[is_missing])}): {effect}.",
            DataWarning,
        )
    if np.array_equal(row, np.arange(model_ids.size)):
        return None
    return row


def _check_model_ids(row: IntArray, model_ids: AnyArray, split_ids: AnyArray, role: Role, label: str) -> None:
    """Raise `InputError` if the model has ids that are not in the split, or none of its ids."""
    is_known = row >= 0
    is_outside = np.ones(model_ids.size, dtype=bool)
    is_outside[row[is_known]] = False
    if is_known.any() and not is_outside.any():
        return
    has_row_numbers = np.array_equal(split_ids, np.arange(model_ids.size))
    advice = (
        "Train the model on split.train, or, where it knows more than the split, pass "
        "ipseval.adapters.adapt(model, split, unknown='last')."
    )
    if has_row_numbers and not is_known.any():
        advice = (
            "The split has numbers of rows and columns in place of ids. Pass those of the matrices in their order, "
            "as in users=model.user_ids, items=model.item_ids."
        )
    raise InputError(
        f"{label}: {int(is_outside.sum())} of its {model_ids.size} {role} ids are not in the split "
        f"(the model has {format_examples(model_ids[is_outside])}; the split has {format_examples(split_ids)}). Ids "
        f"must be the same values of the same type. {advice}"
    )


def _check_training_ids(
    row: IntArray, model_ids: AnyArray, split_ids: AnyArray, is_in_training: BoolArray, role: Role, label: str
) -> None:
    """Raise `InputError` if the model lacks ids of the training part of the split."""
    is_untrained = (row < 0) & is_in_training
    if is_untrained.any():
        raise InputError(
            f"{label} does not know {int(is_untrained.sum())} of the {int(is_in_training.sum())} {role} ids "
            f"of split.train (the split has {format_examples(split_ids[is_untrained])}; the model has "
            f"{format_examples(model_ids)}). Train it on split.train, or pass "
            "ipseval.adapters.adapt(model, split, unknown='last')."
        )


def _align_factors(
    factors: tuple[AnyArray, AnyArray, AnyArray | None], users: IntArray | None, items: IntArray | None
) -> FactorTuple:
    """Return factors in the order of the split: −∞ as bias of missing items, 0 for missing users."""
    user_factors, item_factors, bias = factors
    if users is not None:
        user_factors = _take_rows_or_zeros(user_factors, users)
    if items is not None:
        item_factors = _take_rows_or_zeros(item_factors, items)
        if bias is not None:
            bias = _take_rows_or_zeros(bias, items)
        is_missing = items < 0
        if is_missing.any():
            if bias is None:
                bias = np.zeros(items.size, dtype=item_factors.dtype)
            bias = np.where(is_missing, -np.inf, bias)
    if bias is None:
        return user_factors, item_factors
    return user_factors, item_factors, bias


def _take_rows_or_zeros(values: AnyArray, rows: IntArray) -> AnyArray:
    """Return the chosen rows, zero where the row is −1."""
    selected: AnyArray = values[rows]
    selected[rows < 0] = 0
    return selected


def _align_rows(
    rows: RowFunction, users: IntArray | None, items: IntArray | None, n_items: int
) -> RowFunction:
    """Return a function of user codes; missing items score −∞, and all items of a missing user tie."""
    if items is None:
        known_items = np.arange(n_items)
        columns: IntArray | slice = slice(None)
    else:
        known_items = np.flatnonzero(items >= 0)
        columns = items[known_items]

    def score_users(codes: IntArray) -> AnyArray:
        model_rows = codes
        if users is not None:
            model_rows = users[codes]
        block = np.full((codes.size, n_items), -np.inf)
        block[:, known_items] = 0.0
        known_users = np.flatnonzero(model_rows >= 0)
        if known_users.size:
            model_scores = np.asarray(rows(model_rows[known_users]))
            block[known_users[:, None], known_items] = model_scores[:, columns]
        return block

    return score_users


def describe_source(model: object) -> str:
    """Return library and class of a model, for messages."""
    return f"{type(model).__module__.split('.')[0]} {type(model).__name__}"
