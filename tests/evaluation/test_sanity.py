"""Sanity checks warn of reversed, shuffled and leaked recommenders, and are silent for correct ones."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import ipseval
from benchmarks.sanity import BASELINES, MISTAKES, fit_scores, make_correct, make_mistakes, read_logs
from ipseval.errors import DataWarning
from ipseval.evaluation.sanity import (
    WORDS,
    ItemPositions,
    RowReader,
    SanityWarning,
    _compare_with_test,
    check_sanity,
    find_positions_by_number,
    sample_scores,
    word_warning,
)
from ipseval.validation.simulation import World
from reproductions import feedback_worlds

N_USERS, N_ITEMS = 1000, 200


def draw_tastes(rng=None) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors of the users and items of the log."""
    if rng is None:
        rng = np.random.default_rng(0)
    taste = rng.normal(size=(N_USERS, 6))
    return taste, rng.normal(size=(N_ITEMS, 6))


@cache
def log() -> ipseval.Interactions:
    """Return a log of users with tastes, and items with popularities."""
    rng = np.random.default_rng(0)
    taste, kind = draw_tastes(rng)
    logit = 0.9 * taste @ kind.T + rng.normal(size=N_ITEMS) - 3.0
    user, item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 1 / (1 + np.exp(-logit)))
    return ipseval.read(pd.DataFrame({"user": user, "item": item}))


@cache
def split() -> ipseval.Split:
    return ipseval.split_random(log(), rng=0)


@cache
def scores_of(baseline: str) -> np.ndarray:
    """Return the scores of a baseline that is fitted to the training part."""
    scores = fit_scores(baseline, split().train)
    scores.setflags(write=False)
    return scores


@cache
def mistakes_of(baseline: str) -> dict[str, np.ndarray]:
    return make_mistakes(baseline, split(), np.random.default_rng(1))


def codes(model) -> list[str]:
    ranked = ipseval.rank_positives(model, split())
    return [warning.code for warning in check_sanity({"m": ranked}, {"m": model}, split())]


@pytest.mark.parametrize("baseline", BASELINES)
def test_correct_baselines_are_silent_masked_or_not(baseline):
    for label, scores in make_correct(baseline, split()).items():
        assert codes(scores) == [], label


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_they_are_silent_on_leave_one_out_splits(seed):
    parts = ipseval.split_leave_one_out(log(), order="random", rng=seed)
    for baseline in BASELINES:
        scores = fit_scores(baseline, parts.train)
        ranked = ipseval.rank_positives(scores, parts)
        assert check_sanity({"m": ranked}, {"m": scores}, parts) == (), baseline


EXPECTED = {
    "rows shuffled": {"rows-exchangeable", "training-at-chance"},
    "columns shuffled": {"training-at-chance", "at-chance"},
    "sign reversed": {"below-chance", "training-at-chance"},
    "trained on the test part": {"test-like-training"},
}


# Leakage is visible where a model memorises its training items, which EASE does not on 200 items.
@pytest.mark.parametrize(
    ("baseline", "mistake"),
    [("pure_svd", mistake) for mistake in MISTAKES] + [("ease", mistake) for mistake in MISTAKES[:3]],
)
def test_the_four_mistakes_warn(baseline, mistake):
    warning_codes = codes(mistakes_of(baseline)[mistake])
    assert warning_codes
    assert set(warning_codes) <= EXPECTED[mistake] | {"at-chance"}


@pytest.mark.parametrize("form", ["frame", "sparse", "factors"])
def test_frames_sparse_matrices_and_factors_are_read(form):
    if form == "factors":
        users, items = ipseval.baselines.pure_svd(split().train)[:2]
        right, wrong = (users, items), (users[::-1].copy(), items)
    else:
        scores = scores_of("ease")
        ids = {"index": split().user_ids, "columns": split().item_ids}
        make = (lambda array: pd.DataFrame(array, **ids)) if form == "frame" else scipy.sparse.csr_matrix
        right, wrong = make(scores), make(scores[::-1].copy())
    assert codes(right) == []
    assert set(codes(wrong)) & EXPECTED["rows shuffled"]


def test_a_frame_is_read_by_its_labels():
    scores = scores_of("ease")
    frame = pd.DataFrame(scores, index=split().user_ids, columns=split().item_ids)
    assert codes(frame.sample(frac=1, random_state=0).sample(frac=1, axis=1, random_state=0)) == []


def test_a_random_recommender_warns_unless_it_is_the_baseline():
    scores = np.random.default_rng(0).random((N_USERS, N_ITEMS))
    assert "at-chance" in codes(scores)
    assert codes(ipseval.baselines.random(split().train, rng=0)) == []


def test_a_single_row_that_is_not_masked_is_not_enough():
    reader = RowReader.from_split(split())
    scores = scores_of("ease")
    for n_rows in (1, 2):
        masked = scores.copy()
        for user in reader.users[n_rows:]:
            masked[user, split().train.item[split().train.user == user]] = -np.inf
        assert (sample_scores(masked, reader) is None) == (n_rows == 1)


def test_training_and_test_items_of_similar_popularity_are_compared():
    """User 0 has two such pairs, one won and one tied, and user 1 has one, which is lost: 1.5 of 3."""
    items = np.arange(5)
    log_popularity = np.array([0.0, 2.0, 0.1, 2.2, 9.0])
    training = ItemPositions.from_lists([np.array([0, 1]), np.array([0])], items)
    test = ItemPositions.from_lists([np.array([2, 3]), np.array([2, 4])], items)
    scores = np.array([[3.0, 1, 2, 1, 0], [1, 0, 2, 0, 0]])
    probability, error = _compare_with_test(scores, training, test, log_popularity)
    assert probability == 0.5
    assert error == pytest.approx(np.sqrt(0.5**2 + 0.5**2) / 3)  # won minus expected: 1.5 − 1 and 0 − 0.5
    assert np.isnan(_compare_with_test(scores, training, test, np.array([0, 1, 2, 3, 4.0]))).all()


@pytest.mark.slow
@pytest.mark.parametrize("baseline", ["item_knn", "ease", "pure_svd"])
def test_models_of_movielens_that_were_trained_on_the_test_part_warn(baseline, shared_data):
    _, log = next(read_logs(shared_data("ml-100k").parent))
    parts = ipseval.split_random(log, rng=0)
    leaked = make_mistakes(baseline, parts, np.random.default_rng(0))["trained on the test part"]
    expected = {0: [], 1: ["test-like-training"]}
    for is_leaked, scores in enumerate((fit_scores(baseline, parts.train), leaked)):
        ranked = ipseval.rank_positives(scores, parts)
        found = [warning.code for warning in check_sanity({"m": ranked}, {"m": scores}, parts)]
        assert found == expected[is_leaked]


def test_a_frame_of_lists_is_not_read_as_scores():
    frame = pd.DataFrame({"user": [0, 0], "item": [0, 1], "rank": [1, 2]}, index=[7, 7])
    assert sample_scores(frame, RowReader.from_split(split())) is None


def test_lists_and_functions_are_judged_by_their_ranks_alone():
    reverse = -scores_of("popularity")
    assert codes(lambda users: reverse[users]) == ["below-chance"]
    assert codes({int(user): [] for user in split().user_ids} | {0: [int(split().test.item[0])]}) == []


def test_evaluate_warns_and_keeps_the_warnings(tmp_path):
    scores = -scores_of("popularity")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluation = ipseval.evaluate({"m": scores}, split())
    assert {warning.category for warning in caught} == {DataWarning}
    assert ["reversed" in str(warning.message) for warning in caught] == [True, True]
    assert [warning.code for warning in evaluation.sanity] == ["below-chance", "training-at-chance"]
    evaluation.save(tmp_path / "a.npz")
    assert ipseval.Evaluation.load(tmp_path / "a.npz").sanity == evaluation.sanity
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ipseval.evaluate({"m": -scores}, split()).sanity == ()


FIGURES = {
    **dict.fromkeys(("recall", "depth", "p_value", "percentile", "share", "probability", "ratio"), 0.25),
    **dict.fromkeys(("by_number", "as_sorted"), 0.25),
    "n_users": 18.0,
    **dict.fromkeys(("length", "n_candidates", "n_positives"), 25.0),
}


@pytest.mark.parametrize("code", WORDS)
def test_every_code_has_a_text_with_its_figures_and_a_question(code):
    text = word_warning(SanityWarning(code=code, model="ease", figures=FIGURES))
    assert text.startswith("ease ")
    assert "25" in text
    assert "?" in text


def test_a_small_log_is_not_read():
    small = ipseval.split_random(
        pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 1, 2]}), test_fraction=0.5, rng=0
    )
    scores = np.zeros((2, 3))
    assert check_sanity({"m": ipseval.rank_positives(scores, small)}, {"m": scores}, small) == ()


@pytest.mark.parametrize("gamma", [-1, 0, 0.5])
@pytest.mark.parametrize("seed", range(2))
def test_simulated_recommenders_that_were_not_fitted_to_the_log_are_silent(gamma, seed):
    world = World(n_users=1000, n_items=300, mean_relevant=30, popularity_skew=0.7, gamma=gamma, rng=seed)
    parts = world.split(rng=seed + 10)
    models = world.example_models(parts, rng=seed + 20)
    for name in ("taste", "noisy", "niche", "popular", "appeal"):
        ranked = ipseval.rank_positives(models[name], parts)
        assert check_sanity({name: ranked}, {name: models[name]}, parts) == (), name


@pytest.mark.parametrize("number", [1, 4, 7])
def test_a_recommender_of_categories_in_simulated_feedback_is_silent(number):
    # The recommenders that are not tested here are not trained.
    sizes = replace(feedback_worlds.TRAINING, neighbours=(), ridges=(), factors=())
    world = feedback_worlds.world_of(number, 3, sizes)
    model = world.models["content"]
    ranked = ipseval.rank_positives(model, world.split)
    assert check_sanity({"content": ranked}, {"content": model}, world.split) == ()


@cache
def small_split_of_text_ids() -> ipseval.Split:
    """Return a log of 300 users u0, u1, … and 60 items i0, i1, …, too small for the checks of training items."""
    user, item = log().user, log().item
    is_kept = (user < 300) & (item < 60)
    frame = pd.DataFrame({"user": user[is_kept], "item": item[is_kept]})
    frame = frame.assign(user="u" + frame["user"].astype(str), item="i" + frame["item"].astype(str))
    return ipseval.split_random(ipseval.read(frame), test_fraction=0.3, rng=0)


def order_by_number(ids) -> np.ndarray:
    return np.argsort([int(text[1:]) for text in ids])


def codes_of_small_arrays(model) -> list[str]:
    small = small_split_of_text_ids()
    ranked = ipseval.rank_positives(model, small)
    return [warning.code for warning in check_sanity({"m": ranked}, {"m": model}, small)]


@pytest.mark.parametrize("form", ["array", "sparse", "factors"])
@pytest.mark.parametrize("axes", ["users", "items", "both"])
def test_arrays_in_the_order_of_the_numbers_in_text_ids_warn(form, axes):
    small = small_split_of_text_ids()
    rows, columns = np.arange(small.n_users), np.arange(small.n_items)
    if axes != "items":
        rows = order_by_number(small.user_ids)
    if axes != "users":
        columns = order_by_number(small.item_ids)
    taste, kind = draw_tastes()
    users = taste[[int(text[1:]) for text in small.user_ids]]
    items = kind[[int(text[1:]) for text in small.item_ids]]
    right, wrong = (users, items), (users[rows], items[columns])
    if form != "factors":
        make = np.asarray if form == "array" else scipy.sparse.csr_matrix
        right, wrong = make(users @ items.T), make(users[rows] @ items[columns].T)
    assert codes_of_small_arrays(right) == []
    assert codes_of_small_arrays(wrong) == ["order-of-numbers"]


@pytest.mark.parametrize("baseline", BASELINES)
def test_correct_arrays_of_text_ids_are_silent_and_reversed_ones_are_not_called_unordered(baseline):
    small = small_split_of_text_ids()
    scores = fit_scores(baseline, small.train)
    assert codes_of_small_arrays(scores) == []
    assert "order-of-numbers" not in codes_of_small_arrays(-scores)


@pytest.mark.parametrize(
    ("ids", "positions"),
    [
        (["i1", "i10", "i2"], [0, 2, 1]),
        (["1", "10", "9"], [0, 2, 1]),
        (["i01", "i02", "i10"], None),  # both orders are the same
        (["i1", "i2", "j10"], None),  # two prefixes
        (["i1", "i10", "i2b"], None),
        ([1, 2, 10], None),
        (["i" + "9" * 19, "i" + "9" * 20], None),
        (["i1"], None),
    ],
)
def test_text_ids_of_one_prefix_have_positions_by_number(ids, positions):
    found_positions = find_positions_by_number(np.array(ids, dtype=object))
    assert (None if found_positions is None else found_positions.tolist()) == positions


def test_a_random_baseline_does_not_end_the_check_of_the_recommenders_after_it():
    models = {"random": ipseval.baselines.random(split().train, rng=0), "reversed": -scores_of("ease")}
    ranks = {name: ipseval.rank_positives(model, split()) for name, model in models.items()}
    warnings_of_models = check_sanity(ranks, models, split())
    assert {warning.model for warning in warnings_of_models} == {"reversed"}
