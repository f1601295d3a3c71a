"""Baselines against cases worked by hand and slow independent computations."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipseval.data import Interactions
from ipseval.data.splits import split_random
from ipseval.errors import InputError
from ipseval.ranking import rank_positives
from ipseval.ranking.baselines import BASELINES, ease, item_knn, popularity, pure_svd, random


def make_log(matrix) -> Interactions:
    """Return the interactions of a users × items matrix of 0 and 1, over all its rows and columns."""
    n_users, n_items = np.shape(matrix)
    return Interactions(*np.nonzero(matrix), np.arange(n_users), np.arange(n_items))


def to_dense(log: Interactions) -> np.ndarray:
    dense = np.zeros((log.n_users, log.n_items))
    dense[log.user, log.item] = 1
    return dense


def random_log(seed: int, n_users: int = 12, n_items: int = 9) -> Interactions:
    rng = np.random.default_rng(seed)
    return make_log(rng.random((n_users, n_items)) < rng.uniform(0.1, 0.7, n_items))


def all_scores(model, log: Interactions) -> np.ndarray:
    if isinstance(model, tuple):
        return model[0] @ model[1].T
    return model(np.arange(log.n_users)) if callable(model) else np.asarray(model)


# n* = (2, 2, 1); items 0 and 1 share one user, 1 and 2 share one, 0 and 2 none.
SMALL = make_log([[1, 1, 0], [1, 0, 0], [0, 1, 1]])
HALF = 1 / 2
ROOT = 1 / np.sqrt(2)  # cos(0, 1) = 1/√(2·2), cos(1, 2) = 1/√(2·1)


def test_popularity_is_the_training_count_for_every_user_in_the_memory_of_one_row():
    scores = popularity(SMALL)
    np.testing.assert_array_equal(scores, [[2, 2, 1]] * 3)
    assert scores.strides[0] == 0


@pytest.mark.parametrize(
    ("n_neighbors", "expected"),
    [
        (None, [[HALF, HALF, ROOT], [0, HALF, 0], [HALF, ROOT, ROOT]]),
        # N(0) = {1}, N(1) = {2}, N(2) = {1}: user 0 gets nothing for item 1 from item 0.
        (1, [[HALF, 0, ROOT], [0, 0, 0], [HALF, ROOT, ROOT]]),
    ],
)
def test_item_knn_adds_the_cosines_to_the_training_items_that_are_neighbours(n_neighbors, expected):
    scores = all_scores(item_knn(SMALL, n_neighbors=n_neighbors), SMALL)
    np.testing.assert_allclose(scores, expected, atol=1e-15)


def test_item_knn_keeps_all_neighbours_tied_with_the_last():
    # Item 0 is equally similar to 1 and 2 (cosine 1/√2 each); one neighbour then means both.
    log = make_log([[1, 1, 0], [1, 0, 1]])
    scores = all_scores(item_knn(log, n_neighbors=1), log)
    np.testing.assert_allclose(scores[:, 0], [ROOT, ROOT], atol=1e-15)


@pytest.mark.parametrize("fit", [partial(item_knn, n_neighbors=4), partial(ease, regularization=10)])
def test_scores_do_not_depend_on_the_block_of_items(fit, monkeypatch):
    log = random_log(3, 40, 30)
    expected = all_scores(fit(log), log)
    monkeypatch.setattr("ipseval.baselines.ROWS_PER_BLOCK", 7)
    np.testing.assert_array_equal(all_scores(fit(log), log), expected)


def test_ease_is_the_ridge_regression_of_each_item_on_the_others_worked_by_hand():
    # lambda = 1. Item 0 on (1, 2): [[3, 1], [1, 2]] b = (1, 0) -> (2/5, -1/5).
    # Item 1 on (0, 2): [[3, 0], [0, 2]] b = (1, 1) -> (1/3, 1/2).
    # Item 2 on (0, 1): [[3, 1], [1, 3]] b = (0, 1) -> (-1/8, 3/8).
    expected = [[2 / 5, 1 / 3, 1 / 4], [0, 1 / 3, -1 / 8], [1 / 5, 1 / 2, 3 / 8]]
    learned = np.rint(np.array([[0, 1 / 3, -1 / 8], [2 / 5, 0, 3 / 8], [-1 / 5, 1 / 2, 0]]) * 2**30) / 2**30
    scores = all_scores(ease(SMALL, regularization=1), SMALL)
    np.testing.assert_array_equal(scores, [learned[0] + learned[1], learned[0], learned[1] + learned[2]])
    np.testing.assert_allclose(
        scores, expected, atol=2 * 2.0**-31
    )  # two weights, each rounded by up to 2^-31


@given(st.integers(0, 2**32 - 1), st.floats(0.5, 100))
def test_ease_equals_a_ridge_regression_per_item(seed, regularization):
    log = random_log(seed)
    dense = to_dense(log)
    weights = np.zeros((log.n_items, log.n_items))
    for item in range(log.n_items):
        other_items = np.delete(np.arange(log.n_items), item)
        gram = dense[:, other_items].T @ dense[:, other_items] + regularization * np.eye(other_items.size)
        weights[other_items, item] = np.linalg.solve(gram, dense[:, other_items].T @ dense[:, item])
    exact = all_scores(ease(log, regularization=regularization, dtype="float64"), log)
    # Each of at most 9 weights is rounded by up to 2^-31.
    np.testing.assert_allclose(exact, dense @ weights, atol=9 * 2.0**-31 + 1e-12)
    single_precision = all_scores(ease(log, regularization=regularization, dtype="float32"), log)
    assert single_precision.dtype == np.float32
    np.testing.assert_allclose(single_precision, dense @ weights, atol=1e-4)


def test_pure_svd_finds_the_factors_of_a_matrix_of_two_blocks():
    # X = [[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0]]: singular values 2 and 1, right vectors
    # (1, 1, 0)/√2 and (0, 0, 1), rounded to 30 binary places.
    log = make_log([[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0]])
    user_factors, item_factors = pure_svd(log, n_factors=2)
    root = np.rint(ROOT * 2**30) / 2**30
    np.testing.assert_array_equal(item_factors, [[root, 0], [root, 0], [0, 1]])
    np.testing.assert_array_equal(user_factors, [[2 * root, 0], [2 * root, 0], [0, 1], [0, 0]])


@given(st.integers(0, 2**32 - 1))
def test_pure_svd_is_the_truncated_decomposition_and_repeats_to_the_bit(seed):
    log = random_log(seed)
    dense = to_dense(log)
    _, values, right = np.linalg.svd(dense)
    first = pure_svd(log, n_factors=3)
    second = pure_svd(log, n_factors=3)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    if values[2] - values[3] > 1e-6:  # otherwise the third vector is not determined
        # e = 2^-31 in each entry of Q: at most 9e in a user factor, e·√9·3 from the item's, over 3 factors.
        np.testing.assert_allclose(
            first[0] @ first[1].T, dense @ right[:3].T @ right[:3], atol=3 * (9 + 9) * 2.0**-31 + 1e-8
        )


def test_random_scores_of_a_user_do_not_depend_on_the_other_users_asked_for():
    log = random_log(1)
    function = random(log, rng=4)
    together = function(np.arange(log.n_users))
    for user in reversed(range(log.n_users)):
        np.testing.assert_array_equal(function(np.array([user]))[0], together[user])
    np.testing.assert_array_equal(random(log, rng=4)(np.arange(log.n_users)), together)
    assert (random(log, rng=5)(np.arange(log.n_users)) != together).all()


def test_random_scores_are_uniform_and_differ_between_users():
    log = make_log(np.ones((50, 2000)))
    scores = all_scores(random(log, rng=0), log)
    assert scores.min() >= 0
    assert scores.max() < 1
    # Mean 1/2 with standard error √(1/12/100 000) = .0009; each decile holds 10 000 ± 95. Both within 4 SE.
    assert abs(scores.mean() - 0.5) < 4 * 0.0009
    assert abs(np.histogram(scores, bins=10, range=(0, 1))[0] - 10_000).max() < 4 * 95
    assert np.unique(scores).size == scores.size


@given(st.integers(0, 2**32 - 1))
def test_the_order_of_items_and_users_changes_no_score(seed):
    rng = np.random.default_rng(seed)
    dense = rng.random((10, 7)) < 0.4
    dense[0] = True  # no empty log
    users = rng.permutation(10)
    items = rng.permutation(7)
    log = make_log(dense)
    permuted_log = make_log(dense[np.ix_(users, items)])
    for baseline in (popularity, item_knn):
        original = all_scores(baseline(log), log)
        permuted = all_scores(baseline(permuted_log), permuted_log)
        np.testing.assert_array_equal(permuted, original[np.ix_(users, items)])
    original = all_scores(ease(log), log)
    permuted = all_scores(ease(permuted_log), permuted_log)
    np.testing.assert_allclose(
        permuted, original[np.ix_(users, items)], atol=7 * 2.0**-30
    )  # 7 weights, 2^-30 each


def test_scores_that_are_equal_in_theory_are_equal_to_the_bit():
    # Item 119 − i is item i once more. Sums in another order, or 3/√18 for 1/√2, would break the tie.
    interactions = to_dense(random_log(0, 400, 60))
    twins = make_log(np.hstack([interactions, interactions[:, ::-1]]))
    items = np.arange(60)
    twin_items = 119 - np.arange(60)
    is_unseen = (
        interactions == 0
    )  # a user of an item is also one of its twin, and each of them scores the other
    for fit in (item_knn, ease):
        scores = all_scores(fit(twins), twins)
        np.testing.assert_array_equal(scores[:, items][is_unseen], scores[:, twin_items][is_unseen])
    _, item_factors = pure_svd(twins, n_factors=10)
    np.testing.assert_array_equal(item_factors[items], item_factors[twin_items])


def test_users_and_items_without_interactions_have_zero_factors():
    log = make_log(np.pad(to_dense(random_log(6, 30, 20)), ((0, 2), (0, 3))))
    user_factors, item_factors = pure_svd(log, n_factors=5)
    assert not user_factors[-2:].any()
    assert not item_factors[-3:].any()


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_is_a_scorer_that_can_be_ranked(name):
    split = split_random(random_log(2), rng=0)
    ranked = rank_positives(BASELINES[name](split.train), split)
    assert len(ranked) == len(split.test)
    assert (ranked.n_above + ranked.n_tied < ranked.n_candidates).all()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: item_knn(SMALL, n_neighbors=0), "n_neighbors must be an integer >= 1; got 0"),
        (lambda: item_knn(SMALL, n_neighbors=2.5), "n_neighbors must be an integer >= 1; got 2.5"),
        (lambda: ease(SMALL, regularization=0), "regularization must be a finite number > 0; got 0"),
        (lambda: ease(SMALL, regularization=float("nan")), "finite number > 0; got nan"),
        (lambda: ease(SMALL, dtype="int32"), "dtype must be float32 or float64; got 'int32'"),
        (
            lambda: ease(make_log(np.ones((3, 3))), regularization=1e-12, dtype="float32"),
            "not positive definite in float32",
        ),
        (
            lambda: pure_svd(Interactions.from_frame(pd.DataFrame({"user": [0, 0], "item": [1, 2]}))),
            "needs at least two users and two items; the log has 1 user and 2 items",
        ),
        (lambda: pure_svd(SMALL, n_factors=3), r"less than min\(n_users, n_items\) = 3; got 3"),
        (lambda: pure_svd(SMALL, n_factors=0), "n_factors must be an integer >= 1; got 0"),
    ],
)
def test_bad_options_get_an_error_that_names_them(call, text):
    with pytest.raises(InputError, match=text):
        call()
