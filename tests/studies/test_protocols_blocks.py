"""Blocks of logs that agree, and traits of logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score, silhouette_score

from ipseval.data import Interactions
from ipseval.errors import InputError
from ipseval.studies.protocols import Protocol
from reproductions.traits import log_traits
from tests.inside.studies import RowOrders, blocks, measures, silhouette
from tests.studies.test_protocols import make_log, study


def test_blocks_put_side_by_side_what_agrees():
    # Two blocks, {0, 2} and {1, 3}, within .9 and between .1.
    matrix = np.full((4, 4), 0.1)
    matrix[np.ix_([0, 2], [0, 2])] = matrix[np.ix_([1, 3], [1, 3])] = 0.9
    found = blocks(matrix)
    assert found.label[0] == found.label[2] != found.label[1] == found.label[3]
    assert {frozenset(found.order[:2].tolist()), frozenset(found.order[2:].tolist())} == {
        frozenset({0, 2}),
        frozenset({1, 3}),
    }
    assert found.ends == [2]
    # Distances .9 − agreement: a = 0 inside, b = .8 to the other block: silhouette 1.
    assert found.silhouette == pytest.approx(1.0)


def test_one_log_is_one_block():
    assert blocks(np.ones((1, 1))).label.tolist() == [0]


def test_the_silhouette_is_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    points = rng.random((12, 2))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    label = rng.integers(0, 3, 12)
    expected = silhouette_score(distance, label, metric="precomputed")
    assert silhouette(distance, label) == pytest.approx(expected, rel=1e-12)


def test_a_matrix_with_holes_has_no_blocks():
    with pytest.raises(InputError, match="2 entries of the agreement are undefined"):
        blocks(np.array([[1, np.nan], [np.nan, 1]]))


def orders_in_blocks(rng: np.random.Generator, n_models: int = 8, noise: float = 0.6) -> tuple:
    """Return the block of each of 20 logs, and SRC between their orders of recommenders."""
    truth = np.repeat(np.arange(4), 5)
    centres = np.stack([rng.permutation(n_models) for _ in range(4)]).astype(float)
    values = centres[truth] + noise * rng.standard_normal((20, n_models))
    orders = [RowOrders.of(row) for row in values]
    src = [[measures(a, b, [1])["src"][0] for b in orders] for a in orders]
    return truth, np.array(src)


def test_planted_blocks_are_recovered():
    rng = np.random.default_rng(7)
    scores = []
    for _ in range(6):
        truth, src = orders_in_blocks(rng)
        scores.append(adjusted_rand_score(truth, blocks(src).label))
    assert np.mean(scores) >= 0.9


def test_traits_follow_the_worked_example():
    # Items 0, 1, 2 have 2, 1, 1 interactions: Gini 1/6. Two users; profiles of 2 and 2.
    frame = pd.DataFrame({"user": [0, 0, 1, 1, 1], "item": [0, 1, 0, 2, 2], "time": [1, 2, 3, 4, 5]})
    log = Interactions.from_frame(frame, timestamp="time", duplicates="drop")
    row = log_traits({"a": log}).loc["a"]
    assert row[["n_users", "n_items", "n_pairs", "median_profile"]].tolist() == [2, 3, 4, 2]
    assert row["density"] == pytest.approx(4 / 6)
    assert row["gini"] == pytest.approx(1 / 6)
    assert row["repeat_rate"] == pytest.approx(1 / 5)
    # Before the median time: items 0, 1; from it on: 0, 2. Ranks (2.5, 2.5, 1) and (2.5, 1, 2.5):
    # centred products .25 − .5 − .5 = −.75 over .5 + ... = 1.5: Spearman −.5, drift 1.5.
    assert row["drift"] == pytest.approx(1.5)
    without = log_traits({"b": Interactions.from_frame(frame, duplicates="drop")})
    assert np.isnan(without.loc["b", "drift"])


def test_kept_repeats_count_like_dropped_ones():
    frame = pd.DataFrame({"user": [0, 0, 1], "item": [0, 0, 1]})
    rates = [
        log_traits({"a": Interactions.from_frame(frame, duplicates=how)}).loc["a", "repeat_rate"]
        for how in ("keep", "drop")
    ]
    assert rates == [1 / 3, 1 / 3]


def test_a_study_names_winners_and_blocks(tmp_path: Path):
    logs = {f"log {n}": make_log(n, n_users=20, n_items=20 + 2 * n) for n in range(3)}
    protocols = [Protocol(k_core=None, n_repeats=2), Protocol(holdout="leave-one-out", k_core=None)]
    made = study(tmp_path, *protocols, logs=logs, estimators=["aoa"])
    found = made.winners(metric="auc")
    assert len(found) == 6
    means = made.frame.query("log == 'log 0' and split == 'RO_RS' and metric == 'auc'")
    first = found.query("log == 'log 0' and split == 'RO_RS'").iloc[0]
    ordered = means.set_index("model")["estimate"].sort_values()
    assert first["winner"] == ordered.index[-1]
    assert first["margin"] == pytest.approx(ordered.iloc[-1] - ordered.iloc[-2])
    assert first["n_repeats"] == 2
    assert made.blocks("log", metric="auc").order.size == 3
