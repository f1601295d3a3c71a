"""Products of NumPy are counted right in each precision, and all that may be among the best is kept."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from ipseval import Split, rank_positives
from ipseval.ranking.kernels import numpy_kernels as _kernels
from ipseval.ranking.kernels.blocks import Batch, Catalogue, Shape, Tile
from ipseval.ranking.kernels.numpy_kernels import TopKBuffer, close_in_rows
from tests.inside.ranking import NO_TWINS, Factors, Targets, kernels_for
from tests.ranking.worlds import ENGINES

WIDTH, N_TILES = 400, 18
CLEAR, NEAR, EQUAL = range(3)  # the factor that a user reads


def made(reads, scale: float = 1.0, n_items: int = WIDTH * N_TILES):
    """Return factors of users who read one factor each, and their work: one positive each, item 5.

    The first factor tells all items apart, the second in the tenth digit, the third not at all.
    """
    rng = np.random.default_rng(0)
    n_users = len(reads)
    columns = [rng.normal(size=n_items), 1 + 1e-10 * rng.normal(size=n_items), np.ones(n_items)]
    item, user = scale * np.column_stack(columns), scale * np.eye(3)[list(reads)]
    pairs = pd.DataFrame({"user": np.arange(n_users), "item": 5})
    train = pd.DataFrame({"user": [0], "item": [7]})
    split = Split.from_frames(train, pairs, items=range(n_items))
    return Factors.of(user, item, None, "m"), Batch.of(Targets.from_split(split)), user @ item.T


def check_counts(block, scores) -> None:
    scores = scores.copy()
    scores[0, 7] = np.nan
    assert block.n_above.tolist() == (scores > scores[:, 5:6]).sum(axis=1).tolist()
    assert block.n_tied.tolist() == ((scores == scores[:, 5:6]).sum(axis=1) - 1).tolist()


def run(factors, batch, worker, n_tiles):
    """Count a block in its tiles, and return it."""
    block = factors.block(batch, factors.exact(batch, _kernels))
    worker.begin(block, factors.error_bound(batch.users))
    catalogue = Catalogue(factors.item, factors.bias, NO_TWINS)
    for first in range(0, n_tiles * WIDTH, WIDTH):
        items = factors.fast_item[first : first + WIDTH]
        lost, _ = worker.count(catalogue, Tile(first, items, NO_TWINS, np.zeros(0), NO_TWINS))
        assert lost == 0
    return block


@pytest.mark.parametrize("scale", [1.0, 1e20])
@pytest.mark.parametrize("top_k", [0, 2])
@pytest.mark.parametrize(
    "reads", [[CLEAR, NEAR, EQUAL], [NEAR, CLEAR, NEAR, NEAR], [CLEAR, EQUAL], [NEAR] * 5, [EQUAL]]
)
def test_users_whom_single_products_tell_apart_and_users_whom_they_do_not_are_counted(reads, top_k, scale):
    factors, batch, scores = made(reads, scale)
    worker = _kernels.Worker(factors.shape(len(reads), WIDTH)._replace(top_k=top_k))
    for n_tiles in (1, N_TILES, 2, 1):  # one worker: where users ended is where the next block begins
        check_counts(run(factors, batch, worker, n_tiles), scores[:, : n_tiles * WIDTH])


def test_what_is_kept_are_the_best_of_users_whose_best_are_clear():
    factors, batch, scores = made([CLEAR, NEAR, EQUAL])
    worker = _kernels.Worker(factors.shape(3, WIDTH)._replace(top_k=2))
    check_counts(run(factors, batch, worker, 3), scores[:, : 3 * WIDTH])
    found = worker.gathered()
    clear = np.where(np.arange(3 * WIDTH) == 7, -np.inf, scores[0, : 3 * WIDTH])
    assert found.item[found.row == 0].tolist() == sorted(np.argsort(-clear)[:2].tolist())
    assert found.crowded.tolist() == [1, 2]


@pytest.mark.parametrize("n_near", [3, 4])
def test_items_too_close_to_the_positive_for_single_products_are_counted_exactly(n_near):
    rng = np.random.default_rng(0)
    item = np.column_stack([np.arange(WIDTH) + 1.0, np.zeros(WIDTH)])
    item[10 : 10 + n_near] = item[5] * (1 + 1e-10 * rng.normal(size=(n_near, 1)))
    pairs = pd.DataFrame({"user": [0], "item": [5]})
    split = Split.from_frames(pairs.assign(item=7), pairs, items=range(WIDTH))
    ranked = rank_positives((np.array([[1.0, 1 / 3]]), item), split)
    assert ranked.n_above.tolist() == [(np.delete(item[:, 0], 7) > item[5, 0]).sum()]


@pytest.mark.parametrize(
    ("k", "widths"),
    [(1, (40, 3, 500, 1, 200)), (3, (40, 3, 500, 1, 200)), (20, (40, 500, 200)), (100, (90,) * 9)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_kept_is_all_that_reaches_the_k_th_best_less_the_slack(k, widths, dtype):
    rng = np.random.default_rng(k)
    for _ in range(20):
        slack = rng.random(5) * rng.choice([0.0, 0.1, 0.5])
        kept = TopKBuffer(Shape(6, 500, 4, np.dtype(dtype), k))  # with room for a user more
        kept.begin(slack)
        tiles = [rng.normal(size=(5, width)).astype(dtype) for width in widths]
        first = 0
        for tile in tiles:
            tile[rng.random(tile.shape) < 0.1] = np.nan
            tile[0, rng.random(tile.shape[1]) < (0.9 if k < 100 else 0.5)] = -np.inf
            kept.add(tile, first)
            first += tile.shape[1]
        every, found = np.column_stack(tiles), kept.gathered()
        assert found.crowded.size == 0
        for row in range(5):
            best = np.sort(np.where(np.isnan(every[row]), -np.inf, every[row]))[-k]
            assert found.low[row] == best - slack.astype(dtype)[row]
            own = found.row == row
            assert found.item[own].tolist() == np.flatnonzero(every[row] >= found.low[row]).tolist()
            assert found.product[own].tolist() == every[row, found.item[own]].tolist()


@pytest.mark.parametrize(("n_equal", "crowded"), [(193, []), (194, [1])])
@pytest.mark.parametrize("n_tiles", [1, 2])
def test_a_user_is_crowded_where_more_may_count_than_there_is_room_for(n_equal, crowded, n_tiles):
    # There is room for one item and 192 spare ones.
    kept = TopKBuffer(Shape(3, 400, 4, np.dtype(np.float64), 1))
    kept.begin(np.zeros(3))
    scores = np.zeros((3, 400))
    scores[:, 150], scores[1, :] = 1.0, -1.0
    scores[1, 3 : 3 + n_equal] = 5.0
    edges = np.linspace(0, 400, n_tiles + 1).astype(int)
    for first, last in itertools.pairwise(edges.tolist()):
        kept.add(scores[:, first:last].copy(), first)
    found = kept.gathered()
    assert found.crowded.tolist() == crowded
    assert found.item[found.row == 0].tolist() == found.item[found.row == 2].tolist() == [150]
    assert found.item[found.row == 1].tolist() == ([] if crowded else list(range(3, 3 + n_equal)))


def test_entries_are_close_to_a_neighbour_of_their_row_at_most_the_slack_away():
    row = np.array([0, 0, 0, 1, 1, 1, 2])
    product = np.array([1.0, 3.0, 1.5, 1.5, 9.0, 2.5, 2.5])
    assert close_in_rows(row, product, np.array([0.5, 0.9, 9.0])).tolist() == [1, 0, 1, 0, 0, 0, 0]
    assert close_in_rows(row, product, np.array([0.4, 1.0, 9.0])).tolist() == [0, 0, 0, 1, 0, 1, 0]
    infinite = np.array([np.inf, np.inf, 0.0, -np.inf, -np.inf, 0.0, 0.0])
    assert close_in_rows(row, infinite, np.ones(3)).tolist() == [0] * 7  # equal without a doubt


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_and_short_rows_are_compared_pair_by_pair_or_sorted_alike(engine, dtype):
    rng = np.random.default_rng(3)
    sizes = [3, 600, 1, 512, 513, 0, 40]
    row, slack = np.repeat(np.arange(7), sizes), np.array([0.5, 1e-3, 1.0, 0.0, 1e-9, 1.0, 0.01])
    value = np.round(rng.normal(size=row.size), 3).astype(dtype)
    value[rng.random(row.size) < 0.05] = -np.inf
    kernels = kernels_for(engine, 0.0)
    n_above, n_tied = kernels.ranks_in_rows(row, value.astype(np.float64))
    close = kernels.close_in_rows(row, value, slack)
    for r in range(7):
        own, mine = value[row == r], row == r
        with np.errstate(invalid="ignore"):  # inf - inf: equal without a doubt
            near = np.abs(own[:, None] - own) <= slack[r]
        np.fill_diagonal(near, False)
        assert close[mine].tolist() == near.any(axis=1).tolist()
        assert n_above[mine].tolist() == (own > own[:, None]).sum(axis=1).tolist()
        assert n_tied[mine].tolist() == ((own == own[:, None]).sum(axis=1) - 1).tolist()


@pytest.mark.parametrize("width", [1, 4, 8, 10, 35])
def test_every_tile_knows_its_items_of_infinite_bias(width):
    n_items = 35
    bias = np.where(np.arange(n_items) % 3 == 0, -np.inf, 0.5)
    bias[34] = np.inf
    factors = Factors.of(np.ones((1, 2)), np.ones((n_items, 2)), bias, "m")
    seen: dict[int, float] = {}

    class Noting:
        def count(self, catalogue, tile):
            places = tile.infinite.tolist()
            assert all(0 <= place < tile.fast_item.shape[0] for place in places)
            seen.update(zip((tile.first + tile.infinite).tolist(), tile.bias.tolist(), strict=True))
            return 0, 0

    assert len(list(factors.count(Noting(), width))) == -(-n_items // width)
    assert seen == {i: bias[i] for i in range(n_items) if np.isinf(bias[i])}
