"""Arrays, tuples and frames that people hold give the estimates of the objects that name their parts."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import ipseval
from ipseval.errors import DataWarning, InputError

RNG = np.random.default_rng(0)
N_USERS, N_ITEMS = 30, 20
HELD = RNG.random((N_USERS, N_ITEMS)) < np.linspace(0.6, 0.2, N_ITEMS)
IS_TEST = HELD & (RNG.random(HELD.shape) < 0.3)
IS_TRAIN = HELD & ~IS_TEST
SCORES = RNG.normal(size=HELD.shape)
# Text ids, whose sorted order is not the order of the rows: u0, u1, u10, u11, …
USERS = np.array([f"u{number}" for number in range(N_USERS)])
ITEMS = np.array([f"i{number}" for number in range(N_ITEMS)])
R5 = {"metrics": ["recall@5"]}


def make_frame(mask: np.ndarray) -> pd.DataFrame:
    user, item = np.nonzero(mask)
    return pd.DataFrame({"user_id": USERS[user], "item_id": ITEMS[item]})


TRAIN, TEST = make_frame(IS_TRAIN), make_frame(IS_TEST)
LABELLED = pd.DataFrame(SCORES, USERS, ITEMS)
SPLIT = ipseval.Split.from_frames(TRAIN, TEST)


def estimate(*arguments, **options) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ipseval.evaluate(*arguments, **options, **R5).frame["estimate"].tolist()


def test_users_and_items_name_the_rows_and_columns_of_an_array():
    expected = estimate({"m": LABELLED}, SPLIT)
    assert estimate({"m": SCORES}, train=TRAIN, test=TEST, users=USERS, items=ITEMS) == expected
    shuffled = RNG.permutation(N_USERS)
    named = estimate({"m": SCORES[shuffled]}, train=TRAIN, test=TEST, users=USERS[shuffled], items=ITEMS)
    assert named == pytest.approx(expected, abs=1e-15)


def test_users_do_not_go_with_a_split():
    with pytest.raises(InputError, match="got a split, which has user_ids"):
        ipseval.evaluate({"m": SCORES}, SPLIT, users=USERS)


def test_the_order_of_an_array_is_named_where_frames_leave_it_open():
    with pytest.warns(
        DataWarning, match=r"rows are the users 'u0', 'u1', 'u10', …, and columns .*users= and items="
    ):
        ipseval.evaluate({"m": SCORES}, train=TRAIN, test=TEST, **R5)
    with pytest.warns(DataWarning, match="sorted ids: columns are the items"):
        ipseval.evaluate({"m": (SCORES, np.eye(N_ITEMS))}, train=TRAIN, test=TEST, users=USERS, **R5)
    estimate({"m": SCORES}, SPLIT)  # whoever passes a split has its ids
    estimate({"m": LABELLED}, train=TRAIN, test=TEST)
    numbered = scipy.sparse.csr_matrix(IS_TRAIN.astype(float)), scipy.sparse.csr_matrix(IS_TEST.astype(float))
    estimate({"m": SCORES}, train=numbered[0], test=numbered[1])


def test_an_array_of_pairs_is_a_log_and_its_transpose_is_refused():
    pairs = np.argwhere(IS_TRAIN), np.argwhere(IS_TEST)
    matrices = scipy.sparse.csr_matrix(IS_TRAIN.astype(int)), scipy.sparse.csr_matrix(IS_TEST.astype(int))
    expected = estimate({"m": SCORES}, train=matrices[0], test=matrices[1])
    assert estimate({"m": SCORES}, train=pairs[0], test=pairs[1]) == expected
    with pytest.raises(InputError, match=r"\(n, 2\).*Pass array\.T"):
        ipseval.evaluate({"m": SCORES}, train=pairs[0].T, test=pairs[1])
    with pytest.raises(InputError, match=r"scipy\.sparse\.csr_matrix\(source\)"):
        ipseval.read(np.array([[1, 0], [0, 1], [1, 1]]))  # pairs, or a matrix of three users and two items


def test_a_matrix_in_a_file_keeps_its_empty_rows_and_columns(tmp_path):
    matrix = scipy.sparse.csr_matrix(IS_TRAIN.astype(float))
    matrix.resize(N_USERS + 2, N_ITEMS + 1)
    for form in ("csr", "csc", "coo"):
        path = tmp_path / f"{form}.npz"
        scipy.sparse.save_npz(path, matrix.asformat(form))
        log = ipseval.read(path)
        assert (log.n_users, log.n_items, len(log)) == (N_USERS + 2, N_ITEMS + 1, IS_TRAIN.sum())
        assert set(zip(log.user, log.item, strict=True)) == set(map(tuple, np.argwhere(IS_TRAIN)))


def test_a_damaged_matrix_and_other_archives_are_refused(tmp_path):
    matrix = scipy.sparse.csr_matrix(IS_TRAIN.astype(float))
    matrix.indices[0] = 1000
    parts = {"indices": matrix.indices, "indptr": matrix.indptr, "data": matrix.data, "shape": matrix.shape}
    np.savez(tmp_path / "damaged.npz", format=b"csr", **parts)
    np.savez(tmp_path / "bsr.npz", format=b"bsr", **parts)
    np.savez(tmp_path / "scores.npz", scores=SCORES)
    with pytest.raises(InputError, match="cannot read"):
        ipseval.read(tmp_path / "damaged.npz")
    with pytest.raises(InputError, match=r"csr, csc or coo; got 'bsr'. Write matrix\.tocsr\(\)"):
        ipseval.read(tmp_path / "bsr.npz")
    with pytest.raises(InputError, match="Give the log"):
        ipseval.read(tmp_path / "scores.npz")


def test_baselines_take_the_matrix_of_the_split():
    matrices = scipy.sparse.csr_matrix(IS_TRAIN.astype(int)), scipy.sparse.csr_matrix(IS_TEST.astype(int))
    split = ipseval.Split.from_frames(*matrices)
    for name in ("popularity", "item_knn", "ease"):
        train_baseline = ipseval.baselines.BASELINES[name]
        assert estimate({name: train_baseline(matrices[0])}, split) == estimate(
            {name: train_baseline(split.train)}, split
        )
    with pytest.raises(
        InputError, match=r"split\.train, where split = ipseval\.Split\.from_frames\(train, test\)"
    ):
        ipseval.baselines.popularity(TRAIN)  # it lacks the users and items of the test part alone


def test_tuples_and_frames_of_all_pairs_are_scores():
    tuples = [(USERS[u], ITEMS[i], float(SCORES[u, i])) for u in range(N_USERS) for i in range(N_ITEMS)]
    frame = pd.DataFrame(tuples, columns=["user", "item", "prediction"])
    expected = (
        ipseval.evaluate({"m": LABELLED}, SPLIT, metrics=["recall@5", "auc"]).frame["estimate"].tolist()
    )
    for model in (tuples, frame, frame.rename(columns={"user": "uid", "item": "iid", "prediction": "est"})):
        result = ipseval.evaluate({"m": model}, SPLIT, metrics=["recall@5", "auc"])
        assert result.frame["estimate"].tolist() == expected


def test_whole_numbers_in_tuples_may_be_items_and_are_not_read_as_scores():
    with pytest.raises(InputError, match=r"got 2 lists.*\(user, item, score\)"):
        ipseval.evaluate({"m": [("u0", "i1", 2), ("u1", "i2", 1)]}, SPLIT)


PROPENSITY = np.linspace(0.9, 0.1, N_ITEMS)


def test_a_frame_and_a_column_of_the_test_part_hold_propensities():
    expected = estimate({"m": LABELLED}, SPLIT, propensity=dict(zip(ITEMS, PROPENSITY, strict=True)))
    by_item = pd.DataFrame({"item_id": ITEMS, "pscore": PROPENSITY})
    assert estimate({"m": LABELLED}, SPLIT, propensity=by_item) == expected
    test = TEST.merge(by_item.rename(columns={"pscore": "chance"}))
    assert estimate({"m": LABELLED}, train=TRAIN, test=test, propensity="chance") == expected
    pairs = test.rename(columns={"chance": "propensity"})
    assert estimate({"m": LABELLED}, SPLIT, propensity=pairs) == expected
    with pytest.raises(InputError, match="lacks column 'propensity'"):
        ipseval.evaluate({"m": LABELLED}, SPLIT, propensity=by_item.rename(columns={"pscore": "x"}))


def test_sensitivity_without_weights_is_that_of_snips():
    models = {"m": LABELLED, "n": -LABELLED}
    plain = ipseval.evaluate(models, SPLIT, **R5).sensitivity().frame
    options = {"propensity": "power-law:gamma=0", "estimators": ["snips-global"]}
    weighted = ipseval.evaluate(models, SPLIT, **options, **R5).sensitivity().frame
    pd.testing.assert_frame_equal(plain, weighted)
    plain_points = ipseval.evaluate(models, SPLIT, **R5).tipping_points()
    weighted_points = ipseval.evaluate(models, SPLIT, **options, low_ess="ignore", **R5).tipping_points()
    pd.testing.assert_frame_equal(plain_points.drop(columns="note"), weighted_points.drop(columns="note"))


def test_calls_that_name_too_little_say_what_to_pass():
    evaluation = ipseval.evaluate({"m": LABELLED}, SPLIT, **R5)
    with pytest.raises(InputError, match=r"plot\(\)\.figure\.savefig\('a\.png'\)"):
        evaluation.plot("a.png")
    with pytest.raises(InputError, match=r"Split\.from_frames\(train, test, user='user_id'\)"):
        ipseval.evaluate({"m": LABELLED}, train=TRAIN, test=TEST, user="user_id")
    frame = evaluation.to_frame()
    frame["estimate"] = 0.0
    assert evaluation.frame["estimate"].iloc[0] > 0
