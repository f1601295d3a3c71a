"""Scores that users or items share are computed once and give the same ranks as separate scores."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval import ComputeOptions, InputError, rank_positives
from tests.inside.ranking import DuplicateItems, Factors, _duplicate_items, group_equal_rows
from tests.ranking.worlds import ENGINES, make_world


@pytest.mark.parametrize("engine", ENGINES)
def test_many_ties_need_few_exact_scores(engine, monkeypatch):
    rng = np.random.default_rng(0)
    n_users = 60
    n_items = 2000
    test = {(u, int(i)) for u in range(n_users) for i in rng.choice(n_items - 1, 20, replace=False)}
    world = make_world(n_users, n_items, {(u, n_items - 1) for u in range(n_users)}, test)
    user = rng.normal(size=(n_users, 8))
    item = rng.normal(size=(n_items, 8))
    item[: n_items // 2] = 0.0
    user[:5] = 0.0
    scores = np.zeros((n_users, n_items))
    for k in range(8):
        scores += user[:, k : k + 1] * item[:, k]
    n_scored = []
    original = _duplicate_items.DuplicateItems.count

    def spy(self, factors, batch, exact, kernels):
        n_scored.append(batch.users.size * self.representative.size)
        return original(self, factors, batch, exact, kernels)

    monkeypatch.setattr(_duplicate_items.DuplicateItems, "count", spy)
    compute = ComputeOptions(engine=engine, n_threads=1)
    ranked = rank_positives((user, item), world.split, compute=compute)
    assert sum(n_scored) == n_users - 5  # one class of zeros; users of zeros need no product
    stored = rank_positives(scores, world.split, compute=compute)
    np.testing.assert_array_equal(ranked.n_above, stored.n_above)
    np.testing.assert_array_equal(ranked.n_tied, stored.n_tied)


def test_a_nan_in_a_shared_score_is_counted_for_every_user():
    world = make_world(3, 4, {(0, 3)}, {(0, 0), (1, 1)})
    shared = np.broadcast_to(np.array([1.0, np.nan, 2.0, 3.0]), (3, 4))
    with pytest.raises(InputError, match="2 of 8 scores are NaN"):
        rank_positives(shared, world.split)


def find_classes(monkeypatch, fewest: int, most: int, bias=None) -> DuplicateItems | None:
    """Return the classes of items of which five, four, three and two are equal."""
    monkeypatch.setattr(_duplicate_items, "FEWEST", fewest)
    monkeypatch.setattr(_duplicate_items, "MOST", most)
    values = np.array([9, 3, 4, 5, 2, 3, 8, 5, 4, 5, 4, 2, 5, 3, 4, 5])
    item = np.column_stack([values, np.ones(values.size)]).astype(float)
    # Items of one norm are looked at by their first four factors, then by all of them.
    item = np.column_stack([item, np.zeros((values.size, 4))])
    item[values == 9] = [0, 0, 0, 0, 1, 3]
    return DuplicateItems.from_factors(Factors.from_arrays(np.ones((1, 6)), item, bias, "m"))


def test_the_largest_classes_of_equal_items_come_first(monkeypatch):
    duplicates = find_classes(monkeypatch, 3, 2)
    class_by_value = {5: 0, 4: 1}
    values = [9, 3, 4, 5, 2, 3, 8, 5, 4, 5, 4, 2, 5, 3, 4, 5]
    assert duplicates.class_of_item.tolist() == [class_by_value.get(value, -1) for value in values]
    assert (duplicates.representative.tolist(), duplicates.size.tolist()) == ([3, 2], [5, 4])
    assert find_classes(monkeypatch, 3, 9).size.tolist() == [5, 4, 3]
    assert find_classes(monkeypatch, 2, 9).size.tolist() == [5, 4, 3, 2]
    assert find_classes(monkeypatch, 5, 9).representative.tolist() == [3]
    assert find_classes(monkeypatch, 6, 9) is None
    bias = np.zeros(16)
    bias[3] = 0.5  # one of the five is another
    duplicates = find_classes(monkeypatch, 4, 9, bias)
    assert sorted(duplicates.representative.tolist()) == [2, 7]
    assert duplicates.size.tolist() == [4, 4]
    assert find_classes(monkeypatch, 5, 9, bias) is None


def test_items_of_equal_factors_and_bias_form_a_group():
    rng = np.random.default_rng(0)
    item = rng.integers(0, 2, size=(60, 3)).astype(np.float64)
    item[7] = [-0.0, 0.0, 1.0]
    item[8] = [0.0, -0.0, 1.0]
    bias = rng.integers(0, 2, size=60).astype(float)
    bias[7] = 0.0
    bias[8] = -0.0
    for column, dtype in ((bias, np.float64), (np.zeros(0), np.float32)):
        group = group_equal_rows(item.astype(dtype), column)
        rows = item if not column.size else np.column_stack([item, column])
        np.testing.assert_array_equal(group[:, None] == group, (rows[:, None] == rows).all(axis=2))
