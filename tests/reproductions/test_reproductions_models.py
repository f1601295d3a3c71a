"""How the reproductions choose, learn and count: rules of selection, factor models, shares of right pairs."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pandas as pd
import pytest

from ipseval import Interactions, Split
from reproductions import learning, models, snapshots
from reproductions import sampled_trained as trained


def log(pairs: list[tuple[int, int]], n_users: int, n_items: int, value: list[float] | None = None):
    user, item = (np.array(column) for column in zip(*pairs, strict=True))
    given = None if value is None else np.array(value)
    return Interactions(user, item, np.arange(n_users), np.arange(n_items), value=given)


# --- Snapshots ----------------------------------------------------------------------------------------------


def criteria_by_hand(scores, train, held) -> dict[str, float]:
    """openrec's evaluators in plain loops, every item the user has not seen being a negative."""
    total = dict.fromkeys(("AUC", "Recall@10", "NDCG@10", "NDCG@100"), 0.0)
    for user, items in held.items():
        negatives = [j for j in range(scores.shape[1]) if j not in train[user] and j not in items]
        assert len(negatives) == 200
        above = [sum(scores[user, j] > scores[user, i] for j in negatives) for i in items]
        ideal = sum(1 / np.log2(place + 2) for place in range(len(items)))
        total["AUC"] += np.mean([(200 - z) / 200 for z in above])
        total["Recall@10"] += np.mean([z <= 10 for z in above])
        for k in (10, 100):
            total[f"NDCG@{k}"] += sum((z < k) / np.log2(z + 2) for z in above) / ideal
    return {name: value / len(held) for name, value in total.items()}


def test_criteria_are_those_of_openrec_in_plain_loops():
    train, held = {0: [0, 1], 1: [2], 2: [3, 4]}, {0: [2, 5, 6], 1: [0, 1, 3, 7], 2: [9, 8, 200]}
    # 205 items: each user has 5 known ones, and 200 are left to be drawn without replacement, that is all.
    tested = {0: [50], 1: [51], 2: [52]}  # test items are negatives like any other
    parts = [
        log([(u, i) for u, items in items_by_user.items() for i in items], 3, 205)
        for items_by_user in (train, tested, held)
    ]
    scores = np.random.default_rng(0).normal(size=(3, 205))
    for user, items in held.items():
        scores[user, items[:2]] += 2  # a few near the top
    criteria_found = snapshots.openrec_criteria(scores, Split(*parts))
    for name, value in criteria_by_hand(scores, train, held).items():
        assert criteria_found[name] == pytest.approx(value, abs=1e-12), name


def test_rules_choose_the_best_and_the_last_before_the_first_fall():
    criteria = pd.DataFrame(
        {"up": [0.1, 0.2, 0.3, 0.4], "two peaks": [0.3, 0.2, 0.5, 0.1], "down": [0.4, 0.3, 0.2, 0.1]},
        index=pd.Index([5, 10, 15, 20], name="step"),
    )
    criteria_found = snapshots.chosen_by(criteria, [5, 10, 15, 20])
    assert criteria_found["best"].to_dict() == {"up": 20, "two peaks": 15, "down": 5}
    assert criteria_found["before the first fall"].to_dict() == {"up": 20, "two peaks": 5, "down": 5}
    assert snapshots.chosen_by(criteria, [10, 20])["best"].to_dict() == {
        "up": 20,
        "two peaks": 10,
        "down": 10,
    }


def test_distance_from_the_paper_is_zero_for_its_own_values():
    paper = snapshots.PAPER
    rows = [
        {"step": step, "metric": m, "gamma": g, "estimate": paper[m, "PMF"][column] + shift}
        for step, shift in ((1, 0.0), (2, 0.01))
        for m in snapshots.LABELS
        for column, g in ((0, -1.0), (2, 1.69))
    ]
    assert snapshots.distances(pd.DataFrame(rows)).to_dict() == pytest.approx({1: 0.0, 2: 0.01})


def test_a_pass_over_the_log_repeats_no_row_and_drops_what_does_not_fill_a_batch():
    batches = list(islice(models._passes(np.random.default_rng(0), 11, 3), 7))
    assert {len(batch) for batch in batches} == {3}
    for start in (0, 3):  # as in openrec, a batch that would end at the last row starts the next pass
        assert len(set(np.concatenate(batches[start : start + 3]).tolist())) == 9
    assert not np.array_equal(batches[0], batches[3])


# --- Learning from ratings ----------------------------------------------------------------------------------


RATED = [(0, 0), (0, 1), (0, 3), (1, 0), (1, 2), (2, 1), (2, 2), (2, 3), (3, 0), (3, 3)]
STARS = [5.0, 3, 1, 4, 2, 5, 3, 2, 1, 4]


def test_without_factors_the_optimiser_finds_the_ridge_regression_on_offsets():
    ratings = log(RATED, 4, 4, STARS)
    weight = np.linspace(0.5, 1.5, 10)
    design = np.zeros((10, 9))
    design[np.arange(10), ratings.user] = 1
    design[np.arange(10), 4 + ratings.item] = 1
    design[:, 8] = 1
    for constant, last in (("penalised", 0.7), ("free", 0.0)):
        penalty = np.diag([0.7] * 8 + [last])
        x = np.linalg.solve(
            design.T @ (weight[:, None] * design) + penalty, design.T @ (weight * ratings.value)
        )
        expected = x[:4, None] + x[4:8] + x[8]
        scores = learning.lbfgs_factors(ratings, weight, 0, 0.7, constant=constant, tolerance=1e-12)
        np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_both_optimisers_find_the_same_factor_model():
    ratings = log(RATED, 4, 4, STARS)
    weight = np.ones(10)
    direct = learning.lbfgs_factors(ratings, weight, 1, 0.2, start=0.1, constant="mean", tolerance=1e-12)
    turns = learning.weighted_factors(
        ratings.user, ratings.item, ratings.value, weight, (4, 4), 1, 0.2, seed=0, n_rounds=500
    )
    known = ratings.user, ratings.item
    np.testing.assert_allclose(direct[known], turns[known], atol=1e-4)


def test_free_offsets_fit_the_mean_of_every_user():
    ratings = log(RATED, 4, 4, STARS)
    scores = learning.lbfgs_factors(ratings, np.ones(10), 1, 50.0, offset_l2=0.0, tolerance=1e-12)
    error = scores[ratings.user, ratings.item] - ratings.value
    np.testing.assert_allclose(np.bincount(ratings.user, error), 0, atol=1e-4)


# --- Sampled metrics of trained recommenders ----------------------------------------------------------------


def test_one_test_item_stays_for_each_user():
    split = Split(
        log([(0, 0), (1, 0), (2, 1)], 3, 6), log([(0, 1), (0, 2), (0, 3), (1, 4), (2, 2), (2, 5)], 3, 6)
    )
    test = trained.one_each(split, seed=0).test
    assert test.user.tolist() == [0, 1, 2]
    assert set(test.pair_key.tolist()) <= set(split.test.pair_key.tolist())
    assert len({trained.one_each(split, seed=s).test.item[0] for s in range(30)}) == 3


def test_shares_of_right_pairs_count_draws_in_the_order_of_full_ranking():
    rows = [
        {"draw": draw, "model": model, "exact": exact, "estimate": estimate}
        for draw, estimates in enumerate([(3, 2, 1), (2, 3, 1), (1, 2, 3), (3, 1, 2)])
        for (model, exact), estimate in zip((("a", 0.3), ("b", 0.2), ("c", 0.1)), estimates, strict=True)
    ]
    assert trained.right_pairs(pd.DataFrame(rows)).to_dict() == {"a, b": 0.5, "a, c": 0.75, "b, c": 0.5}


def test_uncorrected_draws_are_above_and_corrected_ones_nearer_to_full_ranking():
    rng = np.random.default_rng(1)
    split = Split(
        log([(u, 0) for u in range(150)], 150, 300),
        log([(u, int(i)) for u, i in enumerate(rng.integers(1, 300, size=150))], 150, 300),
    )
    scores = rng.normal(size=(150, 300))
    scores[split.test.user, split.test.item] += 2.0
    runs = trained.draws({"good": scores}, split, n_draws=1)
    part = runs[(runs["metric"] == "Recall@10") & (runs["law"] == "with")]
    gap = (part["estimate"] - part["exact"]).groupby(part["correction"]).mean()
    assert gap["uncorrected"] > 0.2
    assert abs(gap["MLE"]) < 0.1
    auc = runs[runs["metric"] == "AUC"]
    assert (auc["estimate"] - auc["exact"]).abs().max() < 0.02
