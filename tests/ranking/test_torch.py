"""What the PyTorch engine holds while it runs; its ranks are tested with those of the other engines."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval import ComputeOptions, rank_positives
from tests.ranking.worlds import random_world, rows

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ipseval[gpu]'")
kernels = pytest.importorskip("ipseval.ranking._kernels_torch")
device = pytest.importorskip("ipseval.ranking._device_torch")


@pytest.fixture
def world():
    return random_world(np.random.default_rng(0), 40, 300)


@pytest.fixture
def model(world):
    rng = np.random.default_rng(1)
    return rng.normal(size=(world.n_users, 8)), rng.normal(size=(world.n_items, 8))


def ranked(model, world, **options):
    return rank_positives(model, world.split, compute=ComputeOptions(**options))


def test_products_are_exact_to_single_precision_whatever_the_program_allows_and_that_is_restored(
    world, model, monkeypatch
):
    seen = []
    original = kernels.Worker.count

    def spy(self, catalogue, tile):
        seen.append([one.fp32_precision for one in kernels._products()] + [torch.get_num_threads()])
        return original(self, catalogue, tile)

    monkeypatch.setattr(kernels.Worker, "count", spy)
    before = [one.fp32_precision for one in kernels._products()], torch.get_num_threads()
    try:
        for one, precision in zip(kernels._products(), ("tf32", "bf16"), strict=True):
            one.fp32_precision = precision
        torch.set_num_threads(2)
        with torch.autocast("cpu"):
            found = ranked(model, world, engine="torch", n_threads=1)
        assert [one.fp32_precision for one in kernels._products()] == ["tf32", "bf16"]
        assert torch.get_num_threads() == 2
    finally:
        for one, precision in zip(kernels._products(), before[0], strict=True):
            one.fp32_precision = precision
        torch.set_num_threads(before[1])
    assert seen == [["ieee", "ieee", 1]] * len(seen)
    assert rows(found) == rows(ranked(model, world, engine="numpy"))


def test_what_is_held_is_restored_by_the_last_of_overlapping_passes():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    first, second = kernels.held(), kernels.held()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_num_threads() == 1
    second.__exit__(None, None, None)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


@pytest.mark.parametrize("limit", [2**17, 2**20])
def test_the_memory_of_all_workers_stays_within_the_limit(world, model, monkeypatch, limit):
    shapes = []
    original = kernels.Worker.__init__

    def spy(self, shape):
        shapes.append(shape)
        original(self, shape)

    monkeypatch.setattr(kernels.Worker, "__init__", spy)
    ranked(model, world, engine="torch", n_threads=2, max_memory=limit)
    fixed, per_user = kernels.block_bytes(shapes[0])
    assert len(shapes) == 2
    assert all(2 * (fixed + per_user * shape.n_users) <= limit for shape in shapes)


def test_users_with_many_positives_are_searched_for(world, model, monkeypatch):
    want = rows(ranked(model, world, engine="numpy"))
    for slots in (0, 30, 50, 1000):
        monkeypatch.setattr(device, "SLOTS", slots)
        monkeypatch.setattr(device, "SORT_ROWS", 7)
        assert rows(ranked(model, world, engine="torch")) == want


@pytest.mark.parametrize(("chosen", "everywhere"), [([1, 3], False), ([0, 1, 3], True), ([2], False)])
def test_rows_without_a_threshold_are_compared_too_where_more_than_half_have_one(chosen, everywhere):
    lo, hi = np.array([0.5, 1.5, 2.5]), np.array([1.0, 2.0, 3.0])
    slot = device.Slot.of(4, np.array(chosen), np.arange(len(chosen)), lo, hi)
    assert slot.everywhere == everywhere
    place = chosen if everywhere else list(range(len(chosen)))
    assert slot.lo.shape == slot.hi.shape == (4 if everywhere else len(chosen), 1)
    assert (slot.lo[place, 0].tolist(), slot.hi[place, 0].tolist()) == (
        lo[: len(chosen)].tolist(),
        hi[: len(chosen)].tolist(),
    )
