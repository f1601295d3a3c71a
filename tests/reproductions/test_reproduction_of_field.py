"""The study of protocols on real logs: its splits, its factors, its tables, and that it is resumed."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest

from ipseval import Interactions
from ipseval.studies.protocols import Protocol
from reproductions import field_logs, field_study, field_tables

pytest.importorskip("implicit")


def of_pairs(*pairs: tuple[int, int], time: list[int] | None = None) -> Interactions:
    user, item = np.array(pairs).T
    times = None if time is None else np.array(time)
    return Interactions(user, item, np.arange(user.max() + 1), np.arange(item.max() + 1), timestamp=times)


def log(seed: int = 0) -> Interactions:
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(rng.random((60, 30)) < np.linspace(0.6, 0.2, 30))
    return of_pairs(*pairs, time=rng.permutation(len(pairs)))


def test_all_users_train_and_only_drawn_ones_are_tested(monkeypatch):
    before = field_study.SomeUsers().split_key
    monkeypatch.setattr(field_logs, "EVALUATED_USERS", 7)
    (split,), (whole,) = (kind().splits(log(), 0) for kind in (field_study.SomeUsers, Protocol))
    np.testing.assert_array_equal(split.train.pair_key, whole.train.pair_key)
    np.testing.assert_array_equal(np.unique(split.test.user), field_logs.evaluated(60))
    assert np.unique(split.test.user).size == 7
    assert field_study.SomeUsers().split_key != before


def test_leave_one_out_of_a_seed_holds_out_what_the_ratio_does_and_of_another_seed_does_not():
    (split,) = Protocol("random", "leave-one-out").splits(log(), 0)
    same, other_split = (next(Protocol("random", "ratio").splits(log(), rng)) for rng in (0, 1))
    assert np.isin(split.test.pair_key, same.test.pair_key).all()
    assert np.isin(split.test.pair_key, other_split.test.pair_key).mean() < 0.3


def test_pruning_repeats_until_every_user_and_item_has_enough():
    # Item 1 has one pair; without it user 1 has one, and without that item 0 has one.
    made = of_pairs((0, 0), (0, 2), (1, 0), (1, 1), (2, 2), (2, 3), (0, 3))
    left = field_study.pruned(made, 2)
    assert np.column_stack([left.user, left.item]).tolist() == [[0, 2], [2, 2], [2, 3], [0, 3]]
    assert (left.n_users, left.n_items) == (3, 4)
    assert len(field_study.pruned(made, 3)) == 0


def test_targets_are_the_first_and_the_last_in_time_and_one_of_each_user():
    test = of_pairs((0, 2), (0, 0), (0, 1), (1, 1), time=[5, 9, 1, 4])
    for which, items in {"all": [2, 0, 1, 1], "first": [1, 1], "last": [0, 1]}.items():
        assert field_study.target(test, which).item.tolist() == items
    assert field_study.target(test, "random").activity.tolist() == [1, 1]


@pytest.mark.parametrize("name", ["item-kNN", "user-kNN", "RP3beta"])
def test_stored_scores_are_those_of_the_users_asked_for(name, monkeypatch):
    monkeypatch.setattr(field_logs, "EVALUATED_USERS", 9)
    fit, settings = field_logs.GRID[name]
    scores, users = fit(log(), **settings[0]), field_logs.evaluated(60)
    np.testing.assert_array_equal(scores(users[2:4]), scores(users)[2:4])
    assert scores(users).shape == (9, 30)
    assert np.ptp(scores(users)) > 0


def test_nearest_users_give_their_items_by_the_cosine():
    scores = field_logs.user_knn(of_pairs((0, 0), (0, 1), (1, 1), (1, 2), (2, 3)), n_neighbors=5)
    np.testing.assert_allclose(scores(np.array([0, 2])), [[0, 0.5, 0.5, 0], [0, 0, 0, 0]], atol=1e-9)


def test_walk_without_penalty_is_three_steps_of_a_walk():
    # User 1 walks to item 1, then to user 0 or 1, then on: 1/4 to item 0.
    scores = field_logs.walk(of_pairs((0, 0), (0, 1), (1, 1)), beta=0.0)
    np.testing.assert_allclose(scores(np.array([1])), [[0.25, 0.75]], atol=1e-9)


def test_places_run_from_nought_to_one_in_the_order_of_time():
    made = of_pairs((0, 0), (1, 0), (0, 1), (0, 2), time=[30, 5, 10, 20])
    assert field_tables.places(made).timestamp.tolist() == [1, 0, 0, 0.5]


def test_interval_over_logs_holds_the_mean_and_forgets_unknown_values():
    mean, low, high = field_tables.over_logs([1.0, 2.0, np.nan, 6.0])
    assert mean == 3.0
    assert 1.0 <= low < mean < high <= 6.0


@pytest.mark.slow
def test_what_is_there_is_not_made_again_and_tables_have_all_logs(tmp_path, monkeypatch):
    grid = {name: (fit, settings[:1]) for name, (fit, settings) in field_logs.GRID.items()}
    monkeypatch.setattr(field_logs, "GRID", {name: grid[name] for name in ("popularity", "item-kNN", "BPR")})
    made = {"a b": partial(log, seed=1), "c": partial(log, seed=2)}
    monkeypatch.setattr(field_logs, "loaders", lambda folder: made)
    monkeypatch.setattr(field_logs, "EVALUATED_USERS", 50)
    make = partial(field_study.make, tmp_path, tmp_path, 50)
    tasks = [(what, name) for what in field_study.STEPS for name in made]
    assert not any(make(task).endswith("there") for task in tasks)
    assert len(pd.read_csv(tmp_path / "seconds.csv", header=None)) == len(tasks)
    stored = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.npz")}
    assert all(make(task).endswith("there") for task in tasks)
    (tmp_path / "c" / "again.npz").unlink()  # as where a run was killed before its end
    make(("again", "c"))
    assert {file.name for file in stored if file.stat().st_mtime_ns != stored[file]} == {"again.npz"}
    tables = field_tables.tables(field_tables.Found(tmp_path), tmp_path)
    assert all(f"| {name} |" in tables["field-by-log"] for name in made)
    assert tables["field-splits"].count(" 2 |") == 11
