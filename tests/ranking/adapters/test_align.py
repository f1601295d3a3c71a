"""Bringing a model's rows into the id space of a split: order, unknown ids, mismatches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError
from ipseval.ranking import rank_positives
from ipseval.ranking.adapters import ModelScores, adapt
from tests.inside.ranking import align

# Users a, b, c and items 1, 2, 3, 4; item 4 is in no training pair.
SPLIT = Split.from_frames(
    pd.DataFrame({"user": ["a", "b", "c"], "item": [1, 2, 3]}),
    pd.DataFrame({"user": ["a", "b"], "item": [2, 4]}),
)
SCORES = np.arange(12.0).reshape(3, 4)  # row a: 0 1 2 3, row b: 4 5 6 7, row c: 8 9 10 11
USERS = ["c", "a", "b"]
ITEMS = [3, 1, 4, 2]  # a model with its own order of rows
OWN = SCORES[np.ix_([2, 0, 1], [2, 0, 3, 1])]


def dense(scorer) -> np.ndarray:
    if isinstance(scorer, tuple):
        user, item, *bias = scorer
        return user @ item.T + (bias[0] if bias else 0)
    return scorer(np.arange(3)) if callable(scorer) else scorer


def as_function(scores: np.ndarray):
    return lambda rows: scores[rows]


def as_factors(scores: np.ndarray):
    """Return factors with the product `scores`: the scores themselves and the unit matrix."""
    return scores, np.eye(scores.shape[1])


@pytest.mark.parametrize("form", [np.asarray, as_function, as_factors])
def test_a_model_with_ids_in_another_order_gets_the_scores_of_the_split(form):
    scorer = adapt(form(OWN), SPLIT, users=USERS, items=ITEMS)
    np.testing.assert_array_equal(dense(scorer), SCORES)


def test_factors_in_the_order_of_the_split_are_passed_on_without_a_copy():
    user = np.ones((3, 2))
    item = np.ones((4, 2))
    bias = np.ones(4)
    scorer = adapt((user, item, bias), SPLIT, users=["a", "b", "c"], items=[1, 2, 3, 4])
    assert scorer[0] is user
    assert scorer[1] is item
    assert scorer[2] is bias


@pytest.mark.parametrize("form", [np.asarray, as_function, as_factors])
def test_an_item_without_training_pairs_that_the_model_does_not_know_comes_last(form):
    with pytest.warns(
        DataWarning, match=r"does not know 1 of 4 items of the split \(4\): they come last, tied"
    ):
        scorer = adapt(form(SCORES[:, [2, 0, 1]]), SPLIT, items=[3, 1, 2])
    np.testing.assert_array_equal(dense(scorer)[:, :3], SCORES[:, :3])
    assert (dense(scorer)[:, 3] == -np.inf).all()
    # User b's candidates are 1, 3 and 4 (2 is training): its positive 4 is behind both others.
    assert rank_positives(scorer, SPLIT).n_above.tolist() == [1, 2]


def test_a_bias_of_the_model_is_kept_when_it_lacks_some_items():
    factors = (np.zeros((3, 1)), np.zeros((3, 1)), np.array([30.0, 10.0, 20.0]))
    with pytest.warns(DataWarning):
        scorer = adapt(factors, SPLIT, items=[3, 1, 2])
    np.testing.assert_array_equal(dense(scorer), [[10, 20, 30, -np.inf]] * 3)


@pytest.mark.parametrize("form", [as_function, as_factors])
def test_a_user_that_the_model_does_not_know_has_all_items_tied(form):
    split = Split.from_frames(
        pd.DataFrame({"user": ["a", "b"], "item": [1, 2]}),
        pd.DataFrame({"user": ["c"], "item": [2]}),
    )
    with pytest.warns(DataWarning, match=r"does not know 1 of 3 users .*all items are tied"):
        scorer = adapt(form(np.array([[1.0, 2.0], [3.0, 4.0]])), split, users=["a", "b"])
    ranked = rank_positives(scorer, split)
    assert (ranked.n_above.tolist(), ranked.n_tied.tolist()) == ([0], [1])


def test_unknown_last_lets_a_model_of_other_users_and_items_pass():
    scores = np.array([[1.0, 2.0, 9.0], [3.0, 4.0, 9.0]])
    with pytest.warns(DataWarning):
        scores = dense(adapt(scores, SPLIT, unknown="last", users=["b", "z"], items=[2, 1, 77]))
    np.testing.assert_array_equal(scores[1], [2, 1, -np.inf, -np.inf])
    np.testing.assert_array_equal(scores[0], [0, 0, -np.inf, -np.inf])


def test_other_objects_are_returned_unchanged():
    for model in (SCORES, (SCORES, np.eye(4)), as_function(SCORES), pd.DataFrame(SCORES)):
        assert adapt(model, SPLIT) is model


def test_to_csr_returns_the_matrix_of_the_log_with_values_on_request():
    log = SPLIT.train
    np.testing.assert_array_equal(log.to_csr().toarray(), [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    with pytest.raises(InputError, match="values=True needs a log with values"):
        log.to_csr(values=True)


@pytest.mark.parametrize(
    ("model", "ids", "text"),
    [
        (
            SCORES,
            {"items": ["1", "2", "3", "4"]},
            r"4 of its 4 item ids are not in the split \(the model has '1', '2', '3', …; "
            r"the split has 1, 2, 3, …\)",
        ),
        (
            SCORES,
            {"users": ["a", "b", "x"]},
            r"1 of its 3 user ids .* \(the model has 'x'; the split has 'a'",
        ),
        (
            SCORES[:, :3],
            {"items": [1, 2, 4]},
            r"does not know 1 of the 3 item ids of split.train \(the split has 3; the model has 1, 2, 4\)",
        ),
        (
            SCORES,
            {"items": [1, 2, 3]},
            r"items must hold one id for each of the model's 4 rows; got \(3,\)",
        ),
        (SCORES, {"items": [1, 2, 3, 3]}, "items repeats 1 ids"),
        (SCORES[:2], {"items": ITEMS}, r"has 2 users and the split 3 \('a', 'b', 'c'\).*users=…"),
        ("scores", {"items": ITEMS}, "ids of rows go with a library's model, an array, .* got str"),
    ],
)
def test_ids_and_sizes_that_do_not_match_get_an_error_that_shows_both(model, ids, text):
    with pytest.raises(InputError, match=text):
        adapt(model, SPLIT, **ids)


@pytest.mark.parametrize(
    ("model", "ids", "text"),
    [
        (
            as_function(SCORES[:, :3]),
            {"items": ITEMS},
            r"gave scores of shape \(3, 3\) for 3 users; expected \(3, 4\), a column for each of its item "
            r"ids \(3, 1, 4, …\)",
        ),
        (
            as_function(np.tile(SCORES, 2)),
            {"items": ITEMS},
            r"gave scores of shape \(3, 8\) for 3 users; expected \(3, 4\)",
        ),
        (
            as_function(SCORES[:, :3]),
            {"users": USERS},
            r"gave scores of shape \(3, 3\) for 3 users; expected \(3, 4\), a column for each item of the "
            r"split \(1, 2, 3, …\).*adapt\(model, split, users=…, items=…\)",
        ),
    ],
)
def test_a_function_of_another_number_of_items_gets_an_error_that_shows_both_shapes(model, ids, text):
    with pytest.raises(InputError, match=text):
        adapt(model, SPLIT, **ids)(np.arange(3))


def test_an_unknown_value_of_unknown_is_an_error():
    with pytest.raises(InputError, match="unknown"):
        adapt(SCORES, SPLIT, unknown="skip")


def test_a_model_that_reads_the_training_items_cannot_be_given_other_ids():
    scores = ModelScores("implicit CosineRecommender", rows=as_function(SCORES), reads_training=True)
    scorer = align(scores, SPLIT, name="knn", unknown="raise")
    np.testing.assert_array_equal(scorer(np.arange(3)), SCORES)
    with pytest.raises(InputError, match=r"scores from the items in split.train"):
        scores.with_ids(["a", "b", "c"], None)
