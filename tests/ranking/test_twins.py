"""Items of equal factors are looked up once many products are close, and wrong bounds are never silent."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.ranking.kernels import numpy_kernels as _kernels
from ipseval.ranking.kernels.blocks import Batch, Catalogue, Tile
from ipseval.ranking.kernels.numpy_kernels import PAIRS
from tests.inside.ranking import NO_TWINS, Factors
from tests.ranking.test_levels import CLEAR, EQUAL, NEAR, WIDTH, made, run


class Noted:
    """A worker that says what it is told to say, and notes the classes that it is given."""

    def __init__(self, lost: list[int], close: list[int]) -> None:
        self.says = list(zip(lost, close, strict=True))
        self.classes: list[list[int]] = []
        self.n_twins: list[list[int]] = []

    def count(self, catalogue: Catalogue, tile: Tile) -> tuple[int, int]:
        self.classes.append(catalogue.twin.tolist())
        self.n_twins.append(tile.n_twins.tolist())
        return self.says[len(self.classes) - 1]


def of_classes() -> Factors:
    """Return factors of sixteen items: 1 and 2 are equal, so are 4, 9 and 15, and the others are alone."""
    item = np.arange(16.0)[:, None] + 1
    item[2], item[[9, 15]] = item[1], item[4]
    return Factors.of(np.ones((1, 1)), item, None, "m")


def test_classes_are_made_once_more_than_one_product_for_eight_items_was_close():
    worker, factors = Noted([0] * 4, [1, 1, 1, 0]), of_classes()
    assert len(list(factors.count(worker, 4))) == 4  # a step for each tile
    twin = [-1, 0, 0, -1, 1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, 1]
    assert worker.classes == [[], [], [], twin]  # two close products are one for eight, three are more
    assert worker.n_twins == [[], [], [], [0, 1]]
    again = Noted([0] * 4, [0] * 4)  # the next block has them from its first tile on
    list(factors.count(again, 4))
    assert again.classes == [twin] * 4
    assert again.n_twins == [[2, 0], [0, 1], [0, 1], [0, 1]]


def test_products_outside_of_their_own_bounds_stop_the_ranking():
    factors = of_classes()
    for lost, total in (([1, 0, 0, 2], 3), ([0, 0, 1, 0], 1)):
        with pytest.raises(AssertionError, match=f"^{total} products are farther from the exact score"):
            list(factors.count(Noted(lost, [0] * 4), 4))


def test_a_positive_outside_of_its_own_bounds_is_lost(monkeypatch):
    factors, batch, _ = made([CLEAR, CLEAR, CLEAR])
    block = factors.block(batch, factors.exact(batch, _kernels))
    far = np.array([0, 100, 100], dtype=block.lo.dtype)
    block = block._replace(lo=block.lo + far, hi=block.hi + far)
    worker = _kernels.Worker(factors.shape(3, WIDTH))
    worker.begin(block, factors.error_bound(batch.users))
    catalogue = Catalogue(factors.item, factors.bias, NO_TWINS)
    found = []
    for first in (0, WIDTH):  # the positives are in the first tile
        items = factors.fast_item[first : first + WIDTH]
        found.append(worker.count(catalogue, Tile(first, items, NO_TWINS, np.zeros(0), NO_TWINS)))
    assert [lost for lost, _ in found] == [2, 0]


def test_clear_products_need_no_score_in_double_precision(monkeypatch):
    called = []
    monkeypatch.setattr(_kernels, "wide_scores", lambda *_, **__: called.append(1))
    factors, batch, _ = made([CLEAR, CLEAR])
    run(factors, batch, _kernels.Worker(factors.shape(2, WIDTH)), 3)
    assert called == []


def test_items_of_equal_factors_are_counted_once_whether_or_not_the_positive_is_one_of_them():
    # Items 0, 10 and 399 are equal. Of one user's positives one is item 0; the other is none of the items
    # that are passed over, and has their score.
    item = np.column_stack([np.arange(WIDTH) + 1.0, np.zeros(WIDTH)])
    item[[10, 399]] = item[0]
    factors, user = Factors.of(np.array([[1.0, 1 / 3]]), item, None, "m"), np.array([0])
    batch = Batch(user, np.array([0, 2]), np.array([0, -1]), np.array([0, 1]), np.array([7]), 0)
    block = factors.block(batch, np.array([1.0, 1.0]))
    worker = _kernels.Worker(factors.shape(1, WIDTH))
    worker.begin(block, factors.error_bound(user))
    twin = np.where(item[:, 0] == 1.0, 0, -1)
    tile = Tile(0, factors.fast_item, NO_TWINS, np.zeros(0), np.array([3]))
    assert worker.count(Catalogue(factors.item, factors.bias, twin), tile) == (0, 3)
    assert (block.n_above.tolist(), block.n_tied.tolist()) == ([WIDTH - 4] * 2, [2, 3])


@pytest.mark.parametrize("n_pairs", [1, PAIRS - 1, PAIRS, 3 * PAIRS])
def test_exact_scores_of_pairs_are_those_of_each_pair_however_often_it_is_asked_for(n_pairs):
    rng = np.random.default_rng(n_pairs)
    factors, batch, scores = made([CLEAR, NEAR, CLEAR, EQUAL])
    worker = _kernels.Worker(factors.shape(4, WIDTH))
    worker.begin(factors.block(batch, factors.exact(batch, _kernels)), factors.error_bound(batch.users))
    row = np.sort(rng.integers(1, 4, size=n_pairs))  # no pair of the first user, and many pairs twice
    item = rng.integers(800, 900, size=n_pairs)
    found = worker._exact(Catalogue(factors.item, factors.bias, NO_TWINS), row, item)
    assert found.tolist() == scores[row, item].tolist()
