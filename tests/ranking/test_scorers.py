"""Models as scorers: valid shapes, and the errors for other models."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from ipseval import InputError, Split, rank_positives
from ipseval.ranking.kernels import numpy_kernels
from tests.inside.ranking import (
    CallableScorer,
    DenseScorer,
    Factors,
    SparseScorer,
    as_scorer,
    is_score_array,
)
from tests.ranking.worlds import make_world

SPLIT = make_world(3, 4, {(0, 0)}, {(0, 1), (1, 2), (2, 3)}).split
SCORES = np.arange(12.0).reshape(3, 4)
USER = np.ones((3, 2))
ITEM = np.arange(8.0).reshape(4, 2)
BIAS = np.array([0.0, 1.0, 2.0, 3.0])
USERS = np.array([0, 2])


@pytest.mark.parametrize(
    ("model", "kind", "scores"),
    [
        (SCORES, DenseScorer, SCORES),
        (pd.DataFrame(SCORES), DenseScorer, SCORES),
        (pd.DataFrame(SCORES).iloc[::-1, [2, 0, 3, 1]], DenseScorer, SCORES),
        (csr_matrix(SCORES), SparseScorer, SCORES),
        ((USER, ITEM), Factors, USER @ ITEM.T),
        ((USER, ITEM, None), Factors, USER @ ITEM.T),
        ((USER, ITEM, BIAS), Factors, USER @ ITEM.T + BIAS),
        (lambda users: SCORES[users], CallableScorer, SCORES),
    ],
)
def test_every_scorer_returns_the_scores_of_the_requested_users(model, kind, scores):
    scorer = as_scorer(model, SPLIT, "m")
    assert type(scorer) is kind
    assert getattr(scorer, "parallel", False) == (kind in (DenseScorer, SparseScorer))  # arrays alone are
    if kind is Factors:
        block = scorer.scores(np.repeat(USERS, 4), np.tile(np.arange(4), 2), numpy_kernels).reshape(2, 4)
    else:
        block = scorer.block(USERS)
    assert block.tolist() == scores[USERS].tolist()


def test_an_object_with_a_method_block_is_used_as_a_scorer():
    class BlockScorer:
        def block(self, users):
            return SCORES[users]

    scorer = BlockScorer()
    assert as_scorer(scorer, SPLIT, "m") is scorer


def test_an_object_with_factors_of_both_sides_is_a_factor_model():
    scorer = as_scorer(SimpleNamespace(user_factors=USER, item_factors=ITEM), SPLIT, "m")
    np.testing.assert_array_equal(scorer.item, ITEM)
    for half in (SimpleNamespace(user_factors=USER), SimpleNamespace(item_factors=ITEM)):
        with pytest.raises(InputError, match=r"^m is a SimpleNamespace; expected"):
            as_scorer(half, SPLIT, "m")


def test_arrays_of_scores_have_the_shape_of_the_split_and_numbers():
    for scores in (SCORES, SCORES.astype(np.int8), SCORES.astype(np.uint64)):
        assert is_score_array(scores, SPLIT)
    for model in (SCORES[:, :2], SCORES.T, SCORES > 3, SCORES * 1j, pd.DataFrame(SCORES), SCORES.tolist()):
        assert not is_score_array(model, SPLIT)


def test_an_object_that_converts_to_an_array_is_an_array_of_scores():
    class Tensor:
        shape = (3, 4)

        def __array__(self, dtype=None, copy=None):
            return SCORES

    np.testing.assert_array_equal(as_scorer(Tensor(), SPLIT, "m").scores, SCORES)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (np.zeros((4, 5)), "m has shape (4, 5); expected (3, 4), rows in the order of split.user_ids and "
         "columns in the order of split.item_ids. Does its first row and column belong to padding? Pass "
         "scores[1:, 1:], and the ids of its rows and columns as users= and items= unless they are sorted."),
        ((ITEM, USER), "m: factors must be of 3 users and 4 items; got 4 and 3 rows. Pass (user_factors, "
         "item_factors) in this order; if the training matrix is items × users, transpose it: "
         "train=train.T, test=test.T."),
        (SCORES.T, "m has shape (4, 3); expected (3, 4), rows in the order of split.user_ids and columns in "
         "the order of split.item_ids. It looks transposed."),
        (SCORES[:2], "m has shape (2, 4); expected (3, 4), rows in the order of split.user_ids and columns "
         "in the order of split.item_ids."),
        (csr_matrix(SCORES[:, :3]), "m has shape (3, 3); expected (3, 4), rows"),
        ((USER[:2], ITEM), "m: user factors has shape (2, 2); expected (3, 2), rows"),
        (np.array([[0, 1], [2, 3], [1, 0]]), "m has shape (3, 2); expected (3, 4), rows in the order of "
         "split.user_ids and columns in the order of split.item_ids. Are these items, as recommend() returns "
         "them? Lists of them are ipseval.Lists(items, users=…, items=split.item_ids)."),
        ((np.array([[0, 1], [2, 3], [1, 0]]), USER), "m: factors must be (n_users, d) and (n_items, d); got "
         "two of (3, 2). Are these items and scores, as recommend() returns them? Lists of them are "
         "ipseval.Lists((items, scores), users=…, items=split.item_ids)."),
        ((USER, ITEM[:3]), "m: item factors has shape (3, 2); expected (4, 2), rows"),
        ((USER, ITEM, BIAS[:3]), "m: item bias has shape (3,); expected (4,), rows"),
        ((USER, ITEM[:, :1]), "m: factors must be (n_users, d) and (n_items, d); got (3, 2) and (4, 1)."),
        ((USER[:, 0], ITEM), "m: factors must be (n_users, d) and (n_items, d); got (3,) and (4, 2)."),
        ((USER, ITEM[:, 0]), "m: factors must be (n_users, d) and (n_items, d); got (3, 2) and (4,)."),
        ((USER[:, :, None], ITEM), "m: factors must be (n_users, d) and (n_items, d); got (3, 2, 1) and (4,"),
        ((USER, ITEM[:, :, None]), "m: factors must be (n_users, d) and (n_items, d); got (3, 2) and (4, 2,"),
        ((object(), ITEM), "m is a tuple of object, ndarray; expected arrays (user_factors, item_factors"),
        ((USER,), "m is a tuple; expected an (n_users, n_items) array"),
        ((USER, ITEM, BIAS, BIAS), "m is a tuple; expected an (n_users, n_items) array"),
        (SCORES > 3, "m must hold real numbers; got dtype bool."),
        (SCORES * 1j, "m must hold real numbers; got dtype complex128."),
        ((USER, ITEM > 3), "m must hold real numbers; got dtype bool."),
        ((USER, ITEM, BIAS > 1), "m must hold real numbers; got dtype bool."),
        (pd.DataFrame(SCORES, index=[0, 1, 1]), "m: the row labels repeat; each id may occur once."),
        (pd.DataFrame(SCORES, columns=[0, 1, 2, 2]), "m: the column labels repeat; each id may occur once."),
        (pd.DataFrame(SCORES, index=[0, 7, 8]), "m lacks 2 of 3 row ids of the split (1, 2; its labels start "
         "with 0, 7, 8)."),
        (
            pd.DataFrame(SCORES, index=["0", "1", "2"]),
            "m lacks 3 of 3 row ids of the split (0, 1, 2; its labels start with '0', '1', '2'). The labels have "
            "another type than the ids. Convert them: frame.index = frame.index.astype('int64').",
        ),
        (
            pd.DataFrame(SCORES, columns=list("0123")),
            "m lacks 4 of 4 column ids of the split (0, 1, 2, …; its labels start with '0', '1', '2', …). The labels "
            "have another type than the ids. Convert them: frame.columns = frame.columns.astype('int64').",
        ),
        (pd.DataFrame({"uid": [0], "skus": [1]}, index=[9]), "m lacks 3 of 3 row ids of the split (0, 1, 2; "
         "its labels start with 9). A frame of scores has user ids as index and item ids as columns; one of "
         "top-K lists has columns user, item and rank or score"),
        (None, "m is None; expected an (n_users, n_items) array"),
        (pd.DataFrame(SCORES, columns=[0, 1, 2, 9]), "m lacks 1 of 4 column ids of the split (3; its labels "
         "start with 0, 1, 2, …)."),
        ("m.csv", "m is the text 'm.csv'. Lists in a file are read by ipseval.read_lists(path)"),
        (3, "m is an int; expected an (n_users, n_items) array"),
    ],
)  # fmt: skip
def test_invalid_models_are_refused_with_their_shape(model, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        as_scorer(model, SPLIT, "m")


@pytest.mark.parametrize("shape", [(2, 3), (1, 4), (2, 4, 1), (4, 2), (2,)])
def test_a_function_returns_a_row_for_each_user_and_a_column_for_each_item(shape):
    scorer = as_scorer(lambda users: np.zeros(shape), SPLIT, "m")
    expected = f"m: the scorer function returned shape {shape} for 2 users; expected (2, 4)."
    with pytest.raises(InputError, match=f"^{re.escape(expected)}$"):
        scorer.block(USERS)


def test_a_note_is_added_to_errors_of_callable_objects_only():
    class Net:
        def __call__(self, users):
            raise TypeError("no tensors")

    def fails(users):
        raise TypeError("no such user")

    with pytest.raises(TypeError) as caught:
        as_scorer(Net(), SPLIT, "m").block(USERS)
    (note,) = caught.value.__notes__
    assert note.startswith(
        "m is a Net and was called with an array of user codes. Trained models of the libr"
    )
    with pytest.raises(TypeError) as caught:
        as_scorer(fails, SPLIT, "m").block(USERS)
    assert not hasattr(caught.value, "__notes__")


HINTS = ("It looks transposed", "padding", "Are these items")


@pytest.mark.parametrize(
    ("model", "hints"),
    [
        (np.zeros((4, 3)), HINTS[:1]),
        (np.zeros((4, 5)), HINTS[1:2]),
        (np.zeros((5, 5)), ()),
        (np.zeros((4, 6)), ()),
        (np.zeros((3, 2)), ()),
        (np.zeros((3, 2), dtype=int), HINTS[2:]),
        (np.zeros((3, 2), dtype=np.uint8), HINTS[2:]),
        (np.zeros((2, 3), dtype=int), ()),
        (np.zeros((3, 5), dtype=int), ()),
        (np.zeros((5, 4), dtype=int), ()),
    ],
)
def test_hints_are_given_for_the_shapes_that_they_explain(model, hints):
    with pytest.raises(InputError) as refused:
        as_scorer(model, SPLIT, "m")
    assert tuple(hint for hint in HINTS if hint in str(refused.value)) == hints


def test_a_frame_of_lists_without_order_is_named_as_such():
    frame = pd.DataFrame({"user": [0, 0], "item": [1, 2]}, index=[0, 0])
    with pytest.raises(InputError, match=r"the row labels repeat; .* Is it of top-K lists\? It lacks a rank"):
        as_scorer(frame, SPLIT, "m")
    frame = pd.DataFrame(SCORES, index=[0, 1, 1])
    with pytest.raises(InputError, match=r"each id may occur once\.$"):
        as_scorer(frame, SPLIT, "m")
    split = Split.from_frames(None, pd.DataFrame({"user": ["a", "b"], "item": ["p", "q"]}))
    for column, hint in (("item", "A frame of scores has user ids"), ("x", "Trained models of")):
        frame = pd.DataFrame(np.zeros((2, 2)), index=["a", "b"], columns=["p", column])
        with pytest.raises(
            InputError, match=rf"m lacks 1 of 2 column ids .* start with 'p', '{column}'\). {hint}"
        ):
            as_scorer(frame, split, "m")


class TensorOfTorch:
    """A tensor as torch has it: values on a device, with gradients."""

    def __init__(self, values, is_detached=False):
        self.values = values
        self.is_detached = is_detached
        self.shape = values.shape

    def detach(self):
        return TensorOfTorch(self.values, is_detached=True)

    def cpu(self):
        return self

    def __array__(self, dtype=None, copy=None):
        assert self.is_detached, "the tensor requires gradients"
        return self.values


def test_tensors_of_torch_are_detached_and_read_as_scores_or_lists():
    tensor_type = type("Tensor", (TensorOfTorch,), {"__module__": "torch"})
    ranked = rank_positives(tensor_type(SCORES), SPLIT)
    assert ranked.n_above.tolist() == rank_positives(SCORES, SPLIT).n_above.tolist()
    positions = np.array([[1, 2], [0, 3], [3, 1]])
    listed_ranks = rank_positives(tensor_type(positions), SPLIT)
    assert (listed_ranks.max_rank, listed_ranks.n_above.tolist()) == (2, [0, 2, 0])
    parameter_type = type("Parameter", (TensorOfTorch,), {"__module__": "torch"})
    with pytest.raises(InputError, match="must be turned into an array first"):
        rank_positives(parameter_type(SCORES), SPLIT)


@pytest.mark.parametrize(("n_nan", "message"), [(1, "3 of 12"), (2, "6 of 12")])
def test_nan_in_scores_that_users_share_is_counted_for_every_user(n_nan, message):
    shared_scores = np.array([1.0, 2.0, 3.0, 4.0])
    shared_scores[:n_nan] = np.nan
    with pytest.raises(InputError, match=f"^m: {message} scores are NaN"):
        rank_positives(np.broadcast_to(shared_scores, (3, 4)), SPLIT, name="m")
