"""Undecided products are decided by exact scores, for single pairs or for all items of a tile."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest

from ipseval import ComputeOptions, Split, rank_positives
from ipseval.ranking.candidates import Batch
from ipseval.ranking.kernels.blocks import Shape, Tile, UndecidedItems
from ipseval.ranking.kernels.numpy_kernels import FEW, PAIRS
from tests.inside.ranking import Factors, HeldOutPositives, TopKCollector, _factor_topk, select_kernels
from tests.ranking.worlds import ENGINES

WIDTH = 400
CLEAR, NEAR, EQUAL = range(3)  # the factor that a user reads
NONE = np.zeros(0, dtype=np.int64)


@pytest.fixture(params=ENGINES)
def kernels(request, monkeypatch):
    """Return the kernels of an engine; Numba's run as Python here, and compiled in test_exact_ranks.py."""
    module = select_kernels(request.param, 0)
    if request.param == "numba":
        from ipseval.ranking.kernels import numba_count

        for name, function in vars(module).copy().items():
            if hasattr(function, "py_func"):
                monkeypatch.setattr(module, name, function.py_func)
        monkeypatch.setattr(numba_count, "count_one", numba_count.count_one.py_func)
        monkeypatch.setattr(module, "count_all", numba_count._compare_all.py_func)
    return module


def make_ranking(kinds, n_items: int = WIDTH * 3):
    """Return factors of users with one nonzero factor each, and their batch: one positive each, item 5.

    The first factor differs clearly between items, the second in the tenth digit, and the third not at all.
    """
    rng = np.random.default_rng(0)
    n_users = len(kinds)
    columns = [rng.normal(size=n_items), 1 + 1e-10 * rng.normal(size=n_items), np.ones(n_items)]
    item = np.column_stack(columns)
    user = np.eye(3)[list(kinds)]
    pairs = pd.DataFrame({"user": np.arange(n_users), "item": 5})
    train = pd.DataFrame({"user": [0], "item": [7]})
    split = Split.from_frames(train, pairs, items=range(n_items))
    return (
        Factors.from_arrays(user, item, None, "m"),
        Batch.from_targets(HeldOutPositives.from_split(split)),
        user @ item.T,
    )


def test_many_undecided_items_get_exact_scores_for_the_whole_tile(kernels):
    n_few = WIDTH // FEW if kernels.NAME == "numpy" else kernels.FEW
    for n_near, rows in ((n_few, []), (n_few + 1, [0])):
        item = np.column_stack([np.arange(WIDTH) + 1.0, np.zeros(WIDTH)])
        item[10 : 10 + n_near] = item[5] * (1 + 1e-10 * np.arange(1, n_near + 1)[:, None])
        pairs = pd.DataFrame({"user": [0], "item": [5]})
        split = Split.from_frames(pairs.assign(item=7), pairs, items=range(WIDTH))
        factors = Factors.from_arrays(np.array([[1.0, 1 / 3]]), item, None, "m")
        batch = Batch.from_targets(HeldOutPositives.from_split(split))
        block = factors.block(batch, factors.exact(batch, kernels))
        worker = kernels.Worker(Shape(1, WIDTH, factors.item.shape[1], factors.fast_item.dtype))
        worker.begin(block)
        undecided = worker.count(Tile(0, factors.fast_item, NONE, np.zeros(0)))
        assert (undecided.n_lost, undecided.rows.tolist()) == (0, rows)
        assert undecided.item.tolist() == ([] if rows else list(range(10, 10 + n_near)))
        assert (undecided.positive == 0).all()
        clear = int((np.delete(item[:, 0], [5, 7, *range(10, 10 + n_near)]) > item[5, 0]).sum())
        assert (block.n_above.tolist(), block.n_tied.tolist()) == ([0 if rows else clear], [0])


def test_a_positive_outside_its_bounds_stops_the_ranking(kernels):
    factors, batch, _ = make_ranking([CLEAR, CLEAR, CLEAR])
    block = factors.block(batch, factors.exact(batch, kernels))
    shift = np.array([0, 100, 100], dtype=block.lo.dtype)
    block = block._replace(lo=block.lo + shift, hi=block.hi + shift)
    worker = kernels.Worker(Shape(3, WIDTH, factors.item.shape[1], factors.fast_item.dtype))
    worker.begin(block)
    tiles = [Tile(first, factors.fast_item[first : first + WIDTH], NONE, np.zeros(0)) for first in (0, WIDTH)]
    assert [worker.count(tile).n_lost for tile in tiles] == [2, 0]  # the positives are in the first tile
    with pytest.raises(AssertionError, match=r"^2 products are farther from the exact score"):
        list(factors.count(worker, block, WIDTH, kernels))


@pytest.mark.parametrize(("raised_users", "n_lost"), [([], 0), ([0], 1), ([2], 1), ([1], 0), ([0, 1, 2], 2)])
def test_positives_that_do_not_reach_their_own_exact_score_are_counted(kernels, raised_users, n_lost):
    factors, batch, scores = make_ranking([CLEAR, CLEAR, EQUAL])
    block = factors.block(batch, factors.exact(batch, kernels))
    exact = block.exact.copy()
    exact[raised_users] += 100.0  # above all scores, and above the positive itself
    block = block._replace(exact=exact)
    tile = Tile(0, factors.fast_item[:WIDTH], NONE, np.zeros(0))
    assert factors._decide_rows(block, np.array([0, 2]), tile, kernels) == n_lost  # user 1 is not asked for
    if not raised_users:
        n_above = (np.delete(scores[0, :WIDTH], 7) > scores[0, 5]).sum()  # without the training item
        assert block.n_above.tolist() == [n_above, 0, 0]
        assert block.n_tied.tolist() == [0, 0, WIDTH - 1]


@pytest.mark.parametrize("n_pairs", [1, PAIRS - 1, PAIRS, 3 * PAIRS])
def test_exact_scores_of_pairs_and_of_rows_agree(kernels, n_pairs):
    rng = np.random.default_rng(n_pairs)
    factors, _, scores = make_ranking([CLEAR, NEAR, CLEAR, EQUAL])
    row = rng.integers(0, 4, size=n_pairs)
    item = rng.integers(800, 900, size=n_pairs)
    assert factors.scores(row, item, kernels).tolist() == scores[row, item].tolist()
    for d in (1, 4, 7):  # sums in order; another order, and `sum`, which compensates, give others
        user = rng.normal(size=(5, d))
        columns = rng.normal(size=(d, 13))
        out = np.full((5, 13), np.nan)
        kernels.row_scores(user, columns, out)
        assert out.tolist() == [
            [reduce(add, (user[r] * columns[:, i]).tolist()) for i in range(13)] for r in range(5)
        ]


@pytest.mark.parametrize("width", [1, 4, 8, 10, 35])
def test_every_tile_lists_its_items_of_infinite_bias(width):
    n_items = 35
    bias = np.where(np.arange(n_items) % 3 == 0, -np.inf, 0.5)
    bias[34] = np.inf
    factors = Factors.from_arrays(np.ones((1, 2)), np.ones((n_items, 2)), bias, "m")
    bias_by_item: dict[int, float] = {}

    class RecordingWorker:
        def count(self, tile):
            positions = tile.infinite.tolist()
            assert all(0 <= position < tile.fast_item.shape[0] for position in positions)
            bias_by_item.update(zip((tile.first + tile.infinite).tolist(), tile.bias.tolist(), strict=True))
            return UndecidedItems(0, NONE, NONE, NONE)

    assert len(list(factors.count(RecordingWorker(), None, width, None))) == -(-n_items // width)
    assert bias_by_item == {i: bias[i] for i in range(n_items) if np.isinf(bias[i])}


@pytest.mark.parametrize("k", [1, 3])
def test_the_best_items_are_found_though_products_are_as_far_off_as_the_bound_allows(kernels, monkeypatch, k):
    n_items = 300
    score = np.full(n_items, 0.5)
    score[200 : 200 + k] = 1.0  # the best items, whose products are too small
    score[10 : 10 + k] = 0.999  # and others, whose products are too large
    error = np.full(n_items, 0.01)
    error[200 : 200 + k] = -0.01
    factors = Factors.from_arrays(np.ones((1, 1)), score[:, None], None, "m")
    factors = replace(factors, fast_item=(score + error)[:, None].astype(np.float32))
    monkeypatch.setattr(Factors, "error_bound", lambda self, users: np.full(users.size, 0.01))
    best_items = []
    top = TopKCollector(
        k, lambda user, item, n_above, n_tied: best_items.extend(item.tolist()), np.array([0])
    )
    batch = Batch(*(np.array(values) for values in ([0], [0, 1], [0], [0, 0], NONE)), 0)
    _factor_topk.collect_topk(factors, batch, kernels, top)
    assert best_items == list(range(200, 200 + k))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_few_undecided_items_of_many_positives_are_decided_by_exact_scores(engine):
    rng = np.random.default_rng(3)
    n_users = 45
    n_items = 700
    item = rng.normal(size=(n_items, 1))
    item[:8, 0] = 1 + 1e-9 * np.arange(8)  # single precision holds none of these differences
    user = 1 + rng.random((n_users, 1))
    pairs = pd.DataFrame({"user": np.arange(n_users), "item": np.arange(n_users) % 8})
    split = Split.from_frames(None, pairs, items=range(n_items))
    compute = ComputeOptions(engine=engine, n_threads=1)
    ranked = rank_positives((user, item), split, compute=compute)
    n_larger = (item[:, 0] > 1 + 1e-8).sum()
    assert ranked.n_above.tolist() == [n_larger + 7 - position for position in np.arange(n_users) % 8]
    assert not ranked.n_tied.any()
