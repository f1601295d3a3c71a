"""How much is done at once: the plan of blocks, tiles and parts, by hand, and the memory that it takes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from ipseval import ComputeOptions, SampledCandidates, Split, rank_positives
from ipseval.ranking import top_items
from ipseval.ranking.kernels import numpy_kernels as _kernels
from ipseval.ranking.kernels.blocks import Shape
from tests.inside.ranking import Best, Factors, Resources, TopK, _passes
from tests.inside.ranking import _exact_scores as _settled
from tests.inside.ranking import _top_lists as _kept

SINGLE = np.dtype(np.float32)
MIB = 2**20


def one_each(n_users: int, n_items: int) -> Split:
    """Return a split in which every user has one positive, and user 0 one training item."""
    test = pd.DataFrame({"user": np.arange(n_users), "item": np.arange(n_users) % n_items})
    train = pd.DataFrame({"user": [0], "item": [n_items - 1]})
    return Split.from_frames(train, test, users=range(n_users), items=range(n_items))


class Asked:
    """A scorer that notes for how many users it is asked; all items score alike."""

    def __init__(self, n_items: int, *, parallel: bool = False) -> None:
        self.n_items, self.parallel, self.sizes = n_items, parallel, []

    def block(self, users):
        self.sizes.append(users.size)
        return np.broadcast_to(np.zeros(self.n_items), (users.size, self.n_items))


def noted(monkeypatch, owner, name, what):
    """Return a list to which each call of a function adds `what(its arguments)`."""
    calls, original = [], getattr(owner, name)

    def spy(*arguments, **options):
        calls.append(what(*arguments, **options))
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, spy)
    return calls


@pytest.mark.parametrize(
    ("n_items", "width"), [(1, 1), (8191, 8191), (8192, 4096), (16_382, 8191), (16_383, 5461), (20_002, 6668)]
)
def test_a_catalogue_is_cut_into_as_few_tiles_as_hold_it_of_equal_width(n_items, width):
    assert _kernels.tile_width(Shape(1, n_items, 4, SINGLE)) == width


@pytest.mark.parametrize(("width", "n_users"), [(8191, 192), (4096, 384), (2_000_000, 1)])
def test_the_products_of_a_block_with_a_tile_take_six_mebibytes(width, n_users):
    assert _kernels.block_users(Shape(1, width, 4, SINGLE)) == n_users


def test_what_is_kept_for_a_user_has_room_for_k_items_and_spare_ones():
    plain, few, many = (Shape(9, 100, 4, SINGLE, k) for k in (0, 10, 100))
    assert (plain.room, few.room, many.room) == (0, 202, 400)  # k + 192, or 4 k
    # A code of four bytes and a product of four for each; the k best products once more.
    assert (plain.room_bytes, few.room_bytes, many.room_bytes) == (0, 202 * 8 + 40, 400 * 8 + 400)
    assert few._replace(dtype=np.dtype(np.float64)).room_bytes == 202 * 12 + 80
    assert (few.row_bytes, few._replace(dtype=np.dtype(np.float64)).row_bytes) == (400, 800)


@pytest.mark.parametrize("n_positives", [1, 40])
def test_a_block_takes_the_memory_that_it_says_it_needs_and_some_for_each_positive(n_positives):
    n_users, n_items = 200, 4000
    rng = np.random.default_rng(0)
    factors = Factors.of(rng.normal(size=(n_users, 4)), rng.normal(size=(n_items, 4)), None, "m")
    shape = Shape(n_users, n_items, 4, SINGLE, 10)
    pairs = pd.DataFrame(
        {"user": np.repeat(np.arange(n_users), n_positives), "item": np.tile(np.arange(n_positives), n_users)}
    )
    split = Split.from_frames(pd.DataFrame({"user": [0], "item": [n_items - 1]}), pairs, items=range(n_items))
    targets = _passes.Targets.from_split(split)
    batch = _passes.Batch.of(targets)
    block = factors.block(batch, factors.exact(batch, _kernels))
    tracemalloc.start()
    worker = _kernels.Worker(shape)
    worker.begin(block, _passes.SLACK * factors.error_bound(batch.users))
    for _ in factors.count(worker, n_items):
        pass
    worker.gathered()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    fixed, per_user = _kernels.block_bytes(shape)
    said = fixed + per_user * n_users
    # Beside it some numbers for each positive, as their ranks take, and what measures coverage.
    assert said / 3 < peak < said + 256 * batch.item.size + MIB


@pytest.mark.parametrize(("n_threads", "sizes"), [(1, [51, 50]), (2, [26, 26, 26, 23]), (3, [17] * 5 + [16])])
@pytest.mark.parametrize("top_k", [None, 3])
def test_every_thread_has_two_blocks_of_users_at_least(monkeypatch, n_threads, sizes, top_k):
    calls = noted(monkeypatch, _kernels.Worker, "begin", lambda _, block, slack: block.user.shape[0])
    model = np.eye(101, 3) + 1, np.eye(40, 3) + 2
    compute = ComputeOptions(n_threads=n_threads, engine="numpy")
    rank_positives(model, one_each(101, 40), compute=compute, top_k=top_k)
    assert sorted(calls, reverse=True) == sizes


def test_a_block_of_factors_is_as_large_as_memory_allows(monkeypatch):
    calls = noted(monkeypatch, _kernels.Worker, "begin", lambda _, block, slack: block.user.shape[0])
    rng = np.random.default_rng(0)
    model = rng.normal(size=(100, 3)), rng.normal(size=(50, 3))
    # 3 × 50 single products are 600 bytes for each user: 6,000 bytes for each of two threads hold ten.
    compute = ComputeOptions(n_threads=2, max_memory=12_000, engine="numpy")
    rank_positives(model, one_each(100, 50), compute=compute)
    assert calls == [10] * 10


@pytest.mark.parametrize(
    ("parallel", "allowed", "size"),
    [(True, False, 10), (False, False, 20), (True, True, 6), (False, True, 13)],
)
def test_a_block_of_scores_is_as_large_as_memory_allows(parallel, allowed, size):
    # 50 scores in double precision and a copy are 800 bytes for each user, 1,200 where some are picked out.
    scorer = Asked(50, parallel=parallel)
    options = {"candidates": np.arange(50)} if allowed else {}
    compute = ComputeOptions(n_threads=2, max_memory=16_000)
    rank_positives(scorer, one_each(100, 50), compute=compute, **options)
    assert sum(scorer.sizes) == 100
    assert max(scorer.sizes) == size
    assert len(scorer.sizes) == -(-100 // size)


def test_stored_scores_are_read_for_128_users_and_functions_are_asked_for_32_mebibytes():
    rows = Asked(50, parallel=True)
    rank_positives(rows, one_each(300, 50), compute=ComputeOptions(n_threads=1))
    assert rows.sizes == [128, 128, 44]
    asked = Asked(2**15)  # 256 KiB for each user
    rank_positives(asked, one_each(150, 2**15), compute=ComputeOptions(n_threads=1))
    assert asked.sizes == [128, 22]


def test_parts_of_a_block_are_counted_by_several_threads(monkeypatch):
    calls = noted(monkeypatch, _passes, "count_block", lambda batch, scores, kernels: scores.shape[0])
    rank_positives(Asked(50), one_each(300, 50), compute=ComputeOptions(n_threads=2))
    assert sorted(calls) == [44, 128, 128]


def test_candidates_of_each_user_are_scored_for_32_mebibytes_with_their_copy():
    split = one_each(100, 2**15)
    own = pd.DataFrame({"user": np.arange(100), "item": np.arange(100)})
    asked, drawn = Asked(2**15), Asked(2**15)
    rank_positives(asked, split, candidates=own)
    rank_positives(drawn, split, candidates=SampledCandidates(3, rng=0))
    assert asked.sizes == drawn.sizes == [64, 36]
    few = Asked(50)
    compute = ComputeOptions(n_threads=2, max_memory=16_000)
    rank_positives(few, one_each(100, 50), candidates=SampledCandidates(3, rng=0), compute=compute)
    rank_positives(few, one_each(100, 50), candidates=own.assign(item=own["item"] % 50), compute=compute)
    assert few.sizes == [20] * 10


class Noted:
    """Users and items of each part that the best items are handed on for."""

    def __init__(self) -> None:
        self.users: list[list[int]] = []
        self.pairs: set[tuple[int, int]] = set()

    def best(self, k: int, **options) -> Best:
        return Best(k, self._add, **options)

    def _add(self, user, item, n_above, n_tied) -> None:
        self.users.append(np.unique(user).tolist())
        self.pairs |= set(zip(user.tolist(), item.tolist(), strict=True))


@pytest.mark.parametrize(("entries", "size"), [(1, 1), (30, 3), (39, 3), (40, 4), (10**6, 7)])
def test_the_best_of_stored_scores_are_found_for_as_many_candidates_as_are_held_at_once(
    monkeypatch, entries, size
):
    monkeypatch.setattr(_kept, "ENTRIES", entries)
    scores, found = np.arange(70.0).reshape(7, 10), Noted()
    nothing = np.zeros(0, dtype=np.int64)
    TopK(found.best(2), np.arange(7)).put_stored(scores, nothing, nothing)
    assert found.users == [list(range(first, min(first + size, 7))) for first in range(0, 7, size)]
    assert found.pairs == {(user, item) for user in range(7) for item in (8, 9)}


@pytest.mark.parametrize(("entries", "size"), [(1, 1), (11, 2), (12, 3), (10**6, 7)])
def test_the_best_of_shared_scores_are_found_for_as_many_candidates_as_are_held_at_once(
    monkeypatch, entries, size
):
    # Two best items and two that one user may not have: four candidates for each user.
    monkeypatch.setattr(_kept, "ENTRIES", entries)
    found = Noted()
    start, excluded = np.array([0, 0, 2, 3, 3, 3, 3, 4]), np.array([3, 9, 8, 9])
    TopK(found.best(2), np.arange(7)).put_shared(np.arange(10.0), start, excluded)
    assert found.users == [list(range(first, min(first + size, 7))) for first in range(0, 7, size)]
    best = {1: (7, 8), 2: (7, 9), 6: (7, 8)}
    assert found.pairs == {(user, item) for user in range(7) for item in best.get(user, (8, 9))}


@pytest.mark.parametrize(("entries", "size"), [(1, 1), (99, 1), (100, 2), (10**6, 9)])
def test_users_without_a_clear_best_are_settled_for_as_many_candidates_as_are_held_at_once(
    monkeypatch, entries, size
):
    # A catalogue of 50 items is shorter than eight times ten, and settled as a whole.
    monkeypatch.setattr(_settled, "ENTRIES", entries)
    calls = noted(monkeypatch, _settled, "reached_by", lambda scores, k: scores.shape)
    rng = np.random.default_rng(0)
    model = rng.normal(size=(9, 3)), rng.normal(size=(50, 3))
    top_items(model, one_each(9, 50), k=10, compute=ComputeOptions(engine="numpy", block_size=9, n_threads=1))
    assert [shape[0] for shape in calls] == [min(size, 9 - first) for first in range(0, 9, size)]
    assert {shape[1] for shape in calls} == {50}


@pytest.mark.parametrize(("k", "n_settled"), [(6, 0), (7, 9)])
def test_the_best_are_kept_in_the_pass_where_the_catalogue_is_eight_times_as_long(monkeypatch, k, n_settled):
    calls = noted(monkeypatch, _settled, "reached_by", lambda scores, k: scores.shape[0])
    rng = np.random.default_rng(0)
    model = rng.normal(size=(9, 3)), rng.normal(size=(50, 3))
    top_items(model, one_each(9, 50), k=k, compute=ComputeOptions(engine="numpy", block_size=9, n_threads=1))
    assert sum(calls) == n_settled


def test_few_candidates_are_given_exact_scores_to_find_the_best(monkeypatch):
    calls = noted(monkeypatch, _settled.TopK, "put", lambda _, row, *rest: row.size)
    rng = np.random.default_rng(0)
    model = rng.normal(size=(9, 3)), rng.normal(size=(500, 3))
    top_items(model, one_each(9, 500), k=5, compute=ComputeOptions(engine="numpy", n_threads=1))
    assert 9 * 5 <= sum(calls) < 9 * 6  # the bound of the products is far below the distance of the scores


@pytest.mark.parametrize(("k", "width"), [(1, 128), (16, 128), (17, 136), (20, 160)])
def test_the_score_that_k_entries_reach_is_that_of_maxima_of_groups(k, width):
    # 64 groups of two entries at least, or 4 k: of 2 · n groups, entry j and entry j + n share one.
    scores = np.stack([np.arange(width, dtype=float), np.full(width, np.nan)])
    assert _kept.reached_by(scores, k).tolist() == [width - k, -np.inf]
    assert _kept.reached_by(scores[:, : width - 1], k).tolist() == [-np.inf, -np.inf]


def test_users_are_ranked_in_as_many_workers_as_there_are_blocks(monkeypatch):
    made = []

    def make_worker():
        made.append(True)
        return lambda block: iter([1])

    resources = Resources(ComputeOptions(n_threads=8), "m")
    _passes.run_workers(3, make_worker, resources, 3)
    assert len(made) == 3
