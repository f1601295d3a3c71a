"""Sparse matrices as logs, and the parts of a split in the forms that people hold."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import ipseval
from ipseval.data.sparse import is_sparse_matrix, load_pairs_or_matrix
from ipseval.errors import InputError

# Row 3 and column 4 have no entry.
DENSE = np.array([[1, 0, 1, 0, 0], [0, 1, 0, 1, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
PAIRS = [(0, 0), (0, 2), (1, 1), (1, 3), (2, 0), (2, 1)]
FORMATS = [scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.coo_array, scipy.sparse.csc_matrix]


def pairs(log: ipseval.Interactions) -> list[tuple]:
    return sorted(zip(log.user_ids[log.user].tolist(), log.item_ids[log.item].tolist(), strict=True))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", [bool, np.int8, np.float32])
def test_a_sparse_matrix_of_ones_is_read_over_all_its_rows_and_columns(form, kind):
    log = ipseval.read(form(DENSE.astype(kind)))
    assert pairs(log) == PAIRS
    assert (log.n_users, log.n_items, log.value) == (4, 5, None)


def test_values_and_stored_zeros_of_a_sparse_matrix():
    matrix = scipy.sparse.csr_matrix(DENSE * 3.0)
    matrix.data[:] = [3, 0, 5, 1, 0, 2]
    log = ipseval.read(matrix, threshold="all")
    assert pairs(log) == [(0, 0), (1, 1), (1, 3), (2, 1)]
    assert log.value.tolist() == [3, 5, 1, 2]
    counts = log.data.set_index("what")["count"]
    assert counts["stored zeros of the sparse matrix, left out"] == 2
    assert pairs(ipseval.read(matrix, threshold=2)) == [(0, 0), (1, 1), (2, 1)]


def test_ids_of_rows_and_columns_are_named():
    log = ipseval.read(scipy.sparse.csr_matrix(DENSE), users=list("wxyz"), items=list("ABCDE"))
    assert pairs(log)[0] == ("w", "A")
    assert log.item_ids.tolist() == list("ABCDE")
    with pytest.raises(InputError, match=r"`users` must contain one id for each of 4 rows .*; got 3"):
        ipseval.read(scipy.sparse.csr_matrix(DENSE), users=list("wxy"))


def test_negative_entries_need_a_threshold():
    matrix = scipy.sparse.csr_matrix(DENSE)
    matrix.data[:2] = -1
    with pytest.raises(InputError, match="values above 0; 2 of 6 entries are negative"):
        ipseval.read(matrix)
    with pytest.raises(InputError, match="2 of 6 entries are negative"):
        ipseval.Split.from_frames(matrix, scipy.sparse.csr_matrix(DENSE))
    assert len(ipseval.read(matrix, threshold=1)) == 4


def test_the_csr_of_a_log_is_read_back_as_the_log():
    log = ipseval.read(pd.DataFrame({"user": [5, 5, 7], "item": [1, 2, 2]}))
    again = ipseval.read(log.to_csr(), users=log.user_ids, items=log.item_ids)
    assert pairs(again) == pairs(log)


def test_splits_take_sparse_matrices():
    matrix = scipy.sparse.csr_matrix(DENSE)
    split = ipseval.split_random(matrix, test_fraction=0.5, rng=0)
    assert (split.n_users, split.n_items, len(split.train), len(split.test)) == (4, 5, 3, 3)
    held_out = ipseval.split_leave_one_out(matrix, order="random", n_validation=0, rng=0)
    assert len(held_out.test) == 3


def test_a_split_of_two_sparse_matrices():
    train = DENSE.copy()
    train[0, 2] = 0
    test = DENSE - train
    split = ipseval.Split.from_frames(scipy.sparse.csr_matrix(train), scipy.sparse.csr_matrix(test))
    assert (split.n_users, split.n_items) == DENSE.shape
    assert (pairs(split.train), pairs(split.test)) == ([pair for pair in PAIRS if pair != (0, 2)], [(0, 2)])
    with pytest.raises(InputError, match=r"must have one shape.* train \(4, 5\), test \(3, 5\)"):
        ipseval.Split.from_frames(scipy.sparse.csr_matrix(train), scipy.sparse.csr_matrix(test[:3]))


NAMES = [("user_id", "item_id"), ("userId", "movieId"), ("uid", "sku"), ("user", "item")]


@pytest.mark.parametrize(("user", "item"), NAMES)
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_usual_names_of_columns_are_found_in_each_part(user, item, library):
    train = library({user: ["a", "b"], item: [1, 2]})
    test = library({"customer": ["a"], "product": [2]})
    split = ipseval.Split.from_frames(train, test)
    assert (pairs(split.train), pairs(split.test)) == ([("a", 1), ("b", 2)], [("a", 2)])


def test_the_columns_user_and_item_are_read_also_next_to_usual_names():
    train = pd.DataFrame({"user_id": [9], "user": [1], "item": [2], "item_id": [8]})
    split = ipseval.Split.from_frames(train, pd.DataFrame({"user": [1], "item": [3]}))
    assert pairs(split.train) == [(1, 2)]


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        ({"person": [1], "item": [1]}, "the train frame: no column has a usual name of users"),
        ({"uid": [1], "user_id": [1], "item": [1]}, "the train frame: columns .* could all be the user"),
    ],
)
def test_columns_without_a_usual_name_are_named_in_the_error(frame, text):
    test = pd.DataFrame({"user": [1], "item": [3]})
    with pytest.raises(InputError, match=text):
        ipseval.Split.from_frames(pd.DataFrame(frame), test)
    names = {"user": "user", "item": "item"}
    with pytest.raises(InputError, match="column 'user'"):
        ipseval.Split.from_frames(pd.DataFrame(frame), test, **names)


def test_mappings_and_impressions_are_parts_of_a_split():
    shown = pd.DataFrame({"user": ["a", "a"], "item": ["x", "y"], "clicked": [1, 0]})
    split = ipseval.Split.from_frames(ipseval.ImpressionLog.from_frame(shown), {"a": ["z", "y"]})
    assert (pairs(split.train), pairs(split.test)) == ([("a", "x")], [("a", "y"), ("a", "z")])


@pytest.mark.parametrize("array", [np.ones((4, 2), dtype=int), np.ones((4, 9))])
def test_an_array_without_names_of_columns_is_refused_with_both_calls(array):
    with pytest.raises(InputError, match=r"columns=\['user', 'item'\]\) .* or scipy.sparse.csr_matrix"):
        ipseval.read(array)


def test_exploration_slots_are_read_by_the_labels_of_a_series():
    frame = pd.DataFrame({"user": [0, 0, 0, 1], "item": [0, 1, 2, 1], "clicked": [1, 0, 1, 1]})
    log = ipseval.ImpressionLog.from_frame(frame)
    where = pd.Series([False, True, False, False])
    for given in (where, where[::-1], where.to_numpy()):
        exposure = ipseval.RandomExposure.from_log(log, log.positives, where=given, rate=0.5)
        assert (exposure.user.tolist(), exposure.item.tolist()) == ([0], [1])
    wrong = where.set_axis([9, 7, 8, 6])
    with pytest.raises(InputError, match="where"):
        ipseval.RandomExposure.from_log(log, log.positives, where=wrong, rate=0.5)


def test_a_sparse_matrix_has_a_form_of_rows_and_a_number_of_entries():
    assert is_sparse_matrix(scipy.sparse.csr_matrix(np.eye(2)))
    for attributes in ({"nnz": 3}, {"tocsr": None}, {}):
        assert not is_sparse_matrix(SimpleNamespace(**attributes))


@pytest.mark.parametrize(
    ("array", "are_pairs"),
    [
        ([[0, 2], [1, 1]], True),
        ([[0, 1], [1, 1]], False),  # it may be a matrix of two items
        ([[0, 2], [-1, 1]], False),
        ([[0.0, 2.0], [1.0, 1.0]], False),
        ([["a", "x"], ["b", "x"]], True),
        ([[0, 2, 1], [1, 1, 5], [1, 2, 3]], False),
        ([0, 2], False),
        (np.zeros((0, 2), int), False),
        (np.ma.masked_array([[0, 2], [1, 1]]), False),
    ],
)
def test_an_array_of_text_or_of_whole_numbers_above_1_holds_pairs_in_two_columns(array, are_pairs):
    source = np.ma.asanyarray(array) if np.ma.isMaskedArray(array) else np.asarray(array)
    converted = load_pairs_or_matrix(source)
    if are_pairs:
        assert converted == [tuple(row) for row in source.tolist()]
    else:
        assert converted is source


@pytest.mark.parametrize(("n_zeros", "is_refused"), [(0, True), (1, True), (2, True), (3, False)])
def test_two_rows_of_ids_are_refused_if_at_most_a_tenth_of_them_is_zero(n_zeros, is_refused):
    array = np.arange(1, 21).reshape(2, 10)
    array[0, :n_zeros] = 0
    if not is_refused:
        assert load_pairs_or_matrix(array) is array
        return
    with pytest.raises(InputError, match=r"must have the shape \(n, 2\); got \(2, 10\), two rows of ids"):
        load_pairs_or_matrix(array)
    assert load_pairs_or_matrix(np.vstack([array, array[:1]])).shape == (3, 10)


def test_an_array_of_five_columns_or_more_is_a_part_of_a_split_as_a_matrix():
    train = np.eye(3, 5, dtype=int)
    split = ipseval.Split.from_frames(train, np.roll(train, 1, axis=1))
    assert pairs(split.train) == [(0, 0), (1, 1), (2, 2)]
    assert pairs(split.test) == [(0, 1), (1, 2), (2, 3)]
    assert (split.n_users, split.n_items) == (3, 5)
    with pytest.raises(InputError, match=r"got an array of shape \(3, 4\)"):
        ipseval.Split.from_frames(train[:, :4], np.roll(train, 1, axis=1)[:, :4])


@pytest.mark.parametrize("matrix_format", ["csr", "csc", "coo", "bsr"])
def test_a_file_of_scipy_is_read_as_its_matrix_in_three_formats(matrix_format, tmp_path):
    path = tmp_path / "log.npz"
    scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(DENSE * 2.0).asformat(matrix_format))
    if matrix_format == "bsr":
        with pytest.raises(InputError, match="must be in the format csr, csc or coo; got 'bsr'"):
            ipseval.read(path)
        return
    log = ipseval.read(path)
    assert pairs(log) == PAIRS
    assert (log.n_users, log.n_items, set(log.value.tolist())) == (4, 5, {2.0})


def test_matrices_of_one_shape_are_needed_and_pairs_of_numbers_are_read():
    train = scipy.sparse.csr_matrix(DENSE)
    with pytest.raises(InputError, match=r"must have one shape, .*; got train \(4, 5\), test \(4, 4\)"):
        ipseval.Split.from_frames(train, train[:, :4])
    split = ipseval.Split.from_frames(np.array([[0, 7], [3, 7]]), np.array([[0, 8], [3, 9]]))
    assert pairs(split.test) == [(0, 8), (3, 9)]
