"""Scorers: models as functions from a block of users to the scores of all items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isroutine
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.data.reading.column_names import match_columns
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking._factors import Factors
from ipseval.ranking._types import AnyModel
from ipseval.ranking._user_functions import advise_method, check_takes_users
from ipseval.utils.checks import common_number_type, describe_type, format_examples, refuse_masked
from ipseval.utils.ids import align_labels, as_ids, find_positions
from ipseval.utils.types import AnyArray, IntArray

ADAPT = (
    "Trained models of the libraries in ipseval.adapters, and lists of theirs, are found by their type; "
    "of another library pass the factors, or a function users -> scores."
)

# Hint for a frame whose labels are not the ids of the split.
LISTS = (
    "A frame of scores has user ids as index and item ids as columns; one of top-K lists has columns user, "
    "item and rank or score, and Lists(frame, user=…, item=…, rank=…) takes other names. "
)

# Hint for the positions that `recommend` of a library returns.
PLACES = "as recommend() returns them? Lists of them are ipseval.Lists({}, users=…, items=split.item_ids)."


class CsrMatrix(Protocol):
    """The parts of a scipy.sparse matrix in CSR form that a scorer uses."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def __getitem__(self, rows: IntArray) -> CsrMatrix:
        """Return some rows."""

    def toarray(self) -> AnyArray:
        """Return a dense array."""


Matrix: TypeAlias = AnyArray | CsrMatrix


class Scorer(Protocol):
    """Scores of all items for a block of users; `parallel = True` if several threads may call it at once."""

    def block(self, users: IntArray) -> AnyArray:
        """Return scores (len(users), n_items) for the user codes in `users`, which are never written to."""


AnyScorer: TypeAlias = Scorer | Factors  # factors are ranked by exact sums, not by blocks of products


@dataclass(frozen=True, eq=False)
class DenseScorer:
    """An (n_users, n_items) array or memmap."""

    scores: AnyArray
    parallel: ClassVar[bool] = True

    def block(self, users: IntArray) -> AnyArray:
        """Return the rows of `users`, as a view if they are consecutive."""
        first = int(users[0])
        last = int(users[-1])
        if last - first + 1 == users.size:
            return self.scores[first : last + 1]
        return self.scores[users]


@dataclass(frozen=True, eq=False)
class SparseScorer:
    """A scipy.sparse matrix (n_users, n_items) in CSR form; an entry that is not stored is a score of 0."""

    scores: CsrMatrix
    parallel: ClassVar[bool] = True

    def block(self, users: IntArray) -> AnyArray:
        """Return the rows of `users` as a dense array."""
        rows: AnyArray = self.scores[users].toarray()
        return rows


@dataclass(frozen=True, eq=False)
class CallableScorer:
    """A function from user codes (b,) to scores (b, n_items)."""

    function: Callable[[IntArray], npt.ArrayLike | pd.DataFrame]
    split: Split
    name: str = "the model"

    def block(self, users: IntArray) -> AnyArray:
        """Return the scores of the function, after a check of their shape."""
        try:
            result = self.function(users)
        except Exception as error:  # a user's function may raise anything; it is passed on
            if isroutine(self.function):
                check_takes_users(self.function, self.split, self.name)
            else:  # an object that can be called, such as a torch module
                error.add_note(
                    f"{self.name} is {describe_type(self.function)} and was called with an array of user "
                    f"codes. {ADAPT}"
                )
            raise
        refuse_masked(result, self.name)
        if isinstance(result, pd.DataFrame):
            description = f"the scores that {self.name} returned"
            frame = align_labels(result, self.split.user_ids[users], description)
            frame = align_labels(frame, self.split.item_ids, description, axis=1)
            result = frame.to_numpy(common_number_type(frame))
        scores = np.asarray(result)
        expected = (users.size, self.split.n_items)
        if scores.shape != expected:
            raise InputError(
                f"{self.name}: the scorer function returned shape {scores.shape} for {users.size} users; "
                f"expected {expected}."
            )
        _check_numeric(scores, self.name)
        return scores


def is_score_array(model: object, split: Split) -> bool:
    """Return whether a model is an array or memmap of scores of all users and items, and so not of lists."""
    if type(model) not in (np.ndarray, np.memmap):
        return False
    array = np.asarray(model)
    return array.shape == (split.n_users, split.n_items) and array.dtype.kind in "fiu"


def as_scorer(model: AnyModel, split: Split, name: str = "the model") -> AnyScorer:
    """Return `model` as a scorer, or as factors, in the id space of `split`, after a check of its shape."""
    if isinstance(model, pd.DataFrame):
        return DenseScorer(_align_frame(model, split, name))
    if hasattr(model, "__array__") and hasattr(model, "shape") and not isinstance(model, np.ndarray):
        model = np.asarray(model)  # a tensor
    if isinstance(model, np.ndarray):
        _check_shape(model, (split.n_users, split.n_items), name)
        _check_numeric(model, name)
        return DenseScorer(model)
    if hasattr(model, "tocsr"):
        _check_shape(model, (split.n_users, split.n_items), name)
        matrix = model.tocsr()
        _check_numeric(matrix, name)
        return SparseScorer(matrix)
    if isinstance(model, tuple) and len(model) in (2, 3):
        return _make_factors(model, split, name)
    if hasattr(model, "user_factors") and hasattr(model, "item_factors"):
        return _make_factors((model.user_factors, model.item_factors), split, name)
    if hasattr(model, "block"):
        scorer: Scorer = model
        return scorer
    if callable(model):
        return CallableScorer(model, split, name)
    if isinstance(model, str):
        raise InputError(
            f"{name} is the text {model!r:.60}. Lists in a file are read by ipseval.read_lists(path), arrays "
            "by numpy.load(path); a baseline is ipseval.baselines.ease(split.train)."
        )
    raise InputError(
        f"{name} is {describe_type(model)}; expected an (n_users, n_items) array, DataFrame or sparse "
        "matrix, a tuple (user_factors, item_factors[, item_bias]), a callable users -> scores, "
        f"a top-K frame, {{user: [item, …]}}, or RankedPositives. {advise_method(model) or ADAPT}"
    )


def _make_factors(model: tuple[AnyModel, ...], split: Split, name: str) -> Factors:
    """Return (user_factors, item_factors[, item_bias]) as factors, after checks of shapes and types."""
    parts = []
    part_names = ("user factors", "item factors", "item bias")
    part_ids = (split.user_ids, split.item_ids, split.item_ids)
    for part, part_name in zip(model, part_names, strict=False):
        refuse_masked(part, f"{name}: {part_name}")
    for part, part_name, ids in zip(model, part_names, part_ids, strict=False):
        if isinstance(part, Mapping):  # {id: vector}
            part = pd.DataFrame.from_dict(dict(part), orient="index")
        parts.append(align_labels(part, ids, f"{name}: {part_name}"))

    user_factors = np.asarray(parts[0])
    # The item factors are not converted before this check, because that may be slow for a library's data set.
    if user_factors.ndim == 0:
        type_names = ", ".join(type(part).__name__ for part in parts)
        raise InputError(
            f"{name} is a tuple of {type_names}; expected arrays (user_factors, item_factors[, item_bias]). "
            f"{ADAPT}"
        )
    item_factors = np.asarray(parts[1])
    _check_factor_shapes(user_factors, item_factors, split, name)
    _refuse_exchanged_factors(user_factors, item_factors, split, name)
    _check_shape(user_factors, (split.n_users, user_factors.shape[1]), f"{name}: user factors")
    _check_shape(item_factors, (split.n_items, item_factors.shape[1]), f"{name}: item factors")

    bias = None
    if len(parts) == 3 and parts[2] is not None:
        bias = np.asarray(parts[2])
        _check_shape(bias, (split.n_items,), f"{name}: item bias")
        _check_numeric(bias, name)
    _check_numeric(user_factors, name)
    _check_numeric(item_factors, name)
    return Factors.from_arrays(user_factors, item_factors, bias, name)


def _check_factor_shapes(user_factors: AnyArray, item_factors: AnyArray, split: Split, name: str) -> None:
    """Raise `InputError` unless the arrays are matrices with the same number of columns."""
    # The pair (items, scores) that `recommend` of a library returns has two arrays of the same shape.
    has_item_type = user_factors.dtype.kind in "iu"
    has_same_shape = user_factors.shape == item_factors.shape
    if has_item_type and has_same_shape and split.n_users != split.n_items:
        raise InputError(
            f"{name}: factors must be (n_users, d) and (n_items, d); got two of {user_factors.shape}. "
            f"Are these items and scores, {PLACES.format('(items, scores)')}"
        )
    if user_factors.ndim != 2 or item_factors.ndim != 2 or user_factors.shape[1] != item_factors.shape[1]:
        raise InputError(
            f"{name}: factors must be (n_users, d) and (n_items, d); got {user_factors.shape} and "
            f"{item_factors.shape}."
        )


def _refuse_exchanged_factors(
    user_factors: AnyArray, item_factors: AnyArray, split: Split, name: str
) -> None:
    """Raise `InputError` for factors that fit the split with users and items exchanged."""
    n_rows = (user_factors.shape[0], item_factors.shape[0])
    if n_rows == (split.n_items, split.n_users) and split.n_users != split.n_items:
        raise InputError(
            f"{name}: factors must be of {split.n_users:,} users and {split.n_items:,} items; got {n_rows[0]:,} "
            f"and {n_rows[1]:,} rows. Pass (user_factors, item_factors) in this order; if the training matrix is "
            "items × users, transpose it: train=train.T, test=test.T."
        )


def _check_shape(array: Matrix, expected: tuple[int, ...], name: str) -> None:
    """Raise `InputError` unless the array has the expected shape, with a hint at likely causes."""
    if array.shape == expected:
        return
    hint = ""
    if array.shape == expected[::-1]:
        hint = " It looks transposed."
    if array.shape == tuple(size + 1 for size in expected):
        hint = (
            " Does its first row and column belong to padding? Pass scores[1:, 1:], and the ids of its rows and "
            "columns as users= and items= unless they are sorted."
        )
    if array.dtype.kind in "iu" and array.shape[:1] == expected[:1] and array.shape < expected:
        hint = f" Are these items, {PLACES.format('items')}"
    raise InputError(
        f"{name} has shape {array.shape}; expected {expected}, rows in the order of split.user_ids and "
        f"columns in the order of split.item_ids.{hint}"
    )


def _check_numeric(array: Matrix, name: str) -> None:
    """Raise `InputError` unless the array holds real numbers without a mask."""
    refuse_masked(array, name)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} must hold real numbers; got dtype {array.dtype}.")


def _align_frame(frame: pd.DataFrame, split: Split, name: str) -> AnyArray:
    """Return the values of a users × items frame in the order of the split, by its labels."""
    rows = _find_labels(frame, frame.index, split.user_ids, "row", name)
    columns = _find_labels(frame, frame.columns, split.item_ids, "column", name)
    aligned = frame.iloc[rows, columns]
    values: AnyArray = aligned.to_numpy(common_number_type(aligned))
    _check_numeric(values, name)
    return values


def _refuse_unordered_pairs(frame: pd.DataFrame, name: str) -> None:
    """Raise `InputError` for a frame of users and items without ranks or scores."""
    columns = [str(column) for column in frame.columns]
    roles = match_columns(columns, {}, ("user", "item"), essential=()).columns
    if set(roles) != {"user", "item"}:
        return
    raise InputError(
        f"{name} must have ranks or scores; got columns {', '.join(columns)}. If the rows of each user are best "
        f"first, pass frame.assign(rank=frame.groupby({roles['user']!r}).cumcount() + 1)."
    )


def _find_labels(frame: pd.DataFrame, labels: pd.Index, ids: AnyArray, axis: str, name: str) -> IntArray:
    """Return the position of each id among the labels of an axis, or raise `InputError` if one is missing."""
    if not labels.is_unique:
        hint = ""
        if "item" in frame:
            hint = f" Is it of top-K lists? It lacks a rank or score. {LISTS}"
        raise InputError(f"{name}: the {axis} labels repeat; each id may occur once.{hint}")

    label_ids = as_ids(labels, f"{name}: {axis} labels")
    positions = find_positions(ids, label_ids, f"{name}: {axis}s", strict=False)
    is_missing = positions < 0
    if is_missing.any():
        hint = ""
        if is_missing.all():
            _refuse_unordered_pairs(frame, name)
        if is_missing.all() or "item" in frame:
            hint = LISTS
        advice = f"{hint}{ADAPT}"
        if is_missing.all() and _have_equal_texts(ids, label_ids):
            advice = _advise_on_label_type(ids, axis)
        raise InputError(
            f"{name} lacks {int(is_missing.sum())} of {ids.size} {axis} ids of the split "
            f"({format_examples(ids[is_missing])}; its labels start with {format_examples(labels)}). {advice}"
        )
    return positions


def _have_equal_texts(ids: AnyArray, labels: AnyArray) -> bool:
    """Return whether some ids and labels are equal as text, such as 7 and '7'."""
    label_texts = {str(label) for label in labels.tolist()}
    return any(str(value) in label_texts for value in ids.tolist())


def _advise_on_label_type(ids: AnyArray, axis: str) -> str:
    """Return how to convert the labels of a frame of scores to the type of the ids of the split, as a sentence."""
    attribute = "index" if axis == "row" else "columns"
    type_name = "str" if ids.dtype == object else ids.dtype.name
    return (
        f"The labels have another type than the ids. Convert them: frame.{attribute} = "
        f"frame.{attribute}.astype({type_name!r})."
    )
