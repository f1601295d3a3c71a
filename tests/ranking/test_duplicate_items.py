"""What users or items share is ranked once: the integers are those of the scores of every pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipseval import ComputeOptions, InputError, rank_positives
from tests.inside.ranking import DuplicateItems, Factors, _exact_topk
from tests.ranking.test_exact import exact_scores, expected
from tests.ranking.worlds import ENGINES, random_world, rows, world_of

engines = pytest.mark.parametrize("engine", ENGINES)
seeds = st.integers(0, 2**32 - 1)


def tied_factors(rng: np.random.Generator, n: int, d: int, dtype: str) -> np.ndarray:
    """Return rows of which some are copies, some differ in the last bits, and some are 0."""
    rows = rng.normal(size=(n, d))
    copies = rng.random(n) < 0.5
    rows[copies] = rows[rng.integers(max(n // 4, 1), size=int(copies.sum()))]
    near = rng.random(n) < 0.3
    rows[near] = rows[0] + rng.choice([0.0, 1e-9, 1e-16], size=(int(near.sum()), d))
    rows[rng.random(n) < 0.2] = 0.0
    rows[rng.random(n) < 0.1] *= 1e-17
    return rows.astype(dtype)


@engines
@given(
    seed=seeds,
    n_users=st.integers(1, 12),
    n_items=st.integers(1, 40),
    d=st.integers(1, 7),
    dtype=st.sampled_from(["float32", "float64"]),
    with_bias=st.booleans(),
    fewest=st.integers(2, 5),
    most=st.integers(1, 3),
)
def test_copies_near_copies_and_rows_of_zeros_are_ranked_as_defined(
    engine, seed, n_users, n_items, d, dtype, with_bias, fewest, most
):
    rng = np.random.default_rng(seed)
    world = random_world(rng, n_users, n_items)
    user, item = (tied_factors(rng, n, d, dtype) for n in (world.n_users, n_items))
    bias = rng.choice([0.0, 0.0, 0.5, -np.inf], size=n_items) if with_bias else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_exact_topk, "FEWEST", fewest)
        patch.setattr(_exact_topk, "MOST", most)
        ranked = rank_positives((user, item, bias), world.split, compute=ComputeOptions(engine=engine))
    assert rows(ranked) == expected(world, exact_scores(user, item, bias))


@engines
def test_many_ties_need_few_exact_scores(engine, monkeypatch):
    rng = np.random.default_rng(0)
    n_users, n_items = 60, 2000
    test = {(u, int(i)) for u in range(n_users) for i in rng.choice(n_items - 1, 20, replace=False)}
    world = world_of(n_users, n_items, {(u, n_items - 1) for u in range(n_users)}, test)
    user, item = rng.normal(size=(n_users, 8)), rng.normal(size=(n_items, 8))
    item[: n_items // 2] = 0.0
    user[:5] = 0.0
    scores = np.zeros((n_users, n_items))
    for k in range(8):
        scores += user[:, k : k + 1] * item[:, k]
    n_scored = []
    original = _exact_topk.DuplicateItems.counts

    def spy(self, factors, batch, exact, kernels):
        n_scored.append(batch.users.size * self.first.size)
        return original(self, factors, batch, exact, kernels)

    monkeypatch.setattr(_exact_topk.DuplicateItems, "counts", spy)
    compute = ComputeOptions(engine=engine, n_threads=1)
    ranked = rank_positives((user, item), world.split, compute=compute)
    assert sum(n_scored) == n_users - 5  # one class of zeros; users of zeros need no product
    stored = rank_positives(scores, world.split, compute=compute)
    np.testing.assert_array_equal(ranked.n_above, stored.n_above)
    np.testing.assert_array_equal(ranked.n_tied, stored.n_tied)


@given(seed=seeds, n_users=st.integers(1, 12), n_items=st.integers(1, 40), dtype=st.sampled_from("fdqQ"))
def test_one_score_per_item_is_ranked_as_a_copy_for_every_user(seed, n_users, n_items, dtype):
    rng = np.random.default_rng(seed)
    world = random_world(rng, n_users, n_items)
    vector = rng.integers(0, 8, size=n_items).astype(dtype)
    if dtype in "fd":
        vector[rng.random(n_items) < 0.2] = -np.inf
        vector[rng.random(n_items) < 0.2] = -0.0
    shape = (world.n_users, n_items)
    shared, copied = np.broadcast_to(vector, shape), np.tile(vector, (world.n_users, 1))
    want = expected(world, copied)
    assert rows(rank_positives(shared, world.split)) == want
    if dtype == "d":
        nothing = np.zeros((world.n_users, 2)), np.zeros((n_items, 2))
        assert rows(rank_positives((*nothing, vector), world.split)) == want
    allowed = sorted({item for _, item in world.test} | set(range(0, n_items, 2)))
    among = rank_positives(shared, world.split, candidates=allowed)
    assert rows(among) == expected(world, copied, allowed=set(allowed))


def test_a_nan_in_a_shared_score_is_counted_for_every_user():
    world = world_of(3, 4, {(0, 3)}, {(0, 0), (1, 1)})
    shared = np.broadcast_to(np.array([1.0, np.nan, 2.0, 3.0]), (3, 4))
    with pytest.raises(InputError, match="2 of 8 scores are NaN"):
        rank_positives(shared, world.split)


def classes(monkeypatch, fewest: int, most: int, bias=None) -> DuplicateItems | None:
    """Return the classes of items of which five, four, three and two are alike, the others alone."""
    monkeypatch.setattr(_exact_topk, "FEWEST", fewest)
    monkeypatch.setattr(_exact_topk, "MOST", most)
    kind = np.array([9, 3, 4, 5, 2, 3, 8, 5, 4, 5, 4, 2, 5, 3, 4, 5])
    item = np.column_stack([kind, np.ones(kind.size)]).astype(float)
    # Items of one norm are looked at by their first four factors, then by all of them.
    item = np.column_stack([item, np.zeros((kind.size, 4))])
    item[kind == 9] = [0, 0, 0, 0, 1, 3]
    return DuplicateItems.of(Factors.of(np.ones((1, 6)), item, bias, "m"))


def test_the_largest_classes_of_items_that_are_alike_come_first(monkeypatch):
    alike = classes(monkeypatch, 3, 2)
    number = {5: 0, 4: 1}
    kind = [9, 3, 4, 5, 2, 3, 8, 5, 4, 5, 4, 2, 5, 3, 4, 5]
    assert alike.number.tolist() == [number.get(one, -1) for one in kind]
    assert (alike.first.tolist(), alike.size.tolist()) == ([3, 2], [5, 4])
    assert classes(monkeypatch, 3, 9).size.tolist() == [5, 4, 3]
    assert classes(monkeypatch, 2, 9).size.tolist() == [5, 4, 3, 2]
    assert classes(monkeypatch, 5, 9).first.tolist() == [3]
    assert classes(monkeypatch, 6, 9) is None
    bias = np.zeros(16)
    bias[3] = 0.5  # one of the five is another
    alike = classes(monkeypatch, 4, 9, bias)
    assert sorted(alike.first.tolist()) == [2, 7]
    assert alike.size.tolist() == [4, 4]
    assert classes(monkeypatch, 5, 9, bias) is None


def test_items_that_are_alike_and_tie_with_the_best_of_the_others_are_among_the_best():
    # Whole numbers, which products tell without an error: items 0 to 19 score 5, and so does item 60.
    item = np.array([[5.0, 0.0]] * 20 + [[-j, 0.0] for j in range(1, 41)] + [[0.0, 5.0]])
    world = world_of(1, 61, {(0, 1)}, {(0, 60)})
    ranked = rank_positives((np.ones((1, 2)), item), world.split, top_k=1)
    assert ranked.top.item.tolist() == [[0]]
    assert (ranked.n_above.tolist(), ranked.n_tied.tolist()) == ([0], [19])
