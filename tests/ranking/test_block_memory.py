"""The memory of a block, and the size of blocks for a memory limit."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from ipseval import ComputeOptions, SampledCandidates, Split, rank_positives
from ipseval.ranking.kernels import numpy_kernels as _kernels
from ipseval.ranking.kernels.blocks import Shape
from tests.inside.ranking import Factors, _rank_counts
from tests.inside.ranking import top_lists as _kept
from tests.ranking.worlds import make_world

SINGLE = np.dtype(np.float32)
MIB = 2**20


def make_split(n_users: int, n_items: int) -> Split:
    """Return a split in which every user has one positive, and user 0 one training item."""
    return make_world(n_users, n_items, {(0, n_items - 1)}, {(u, u % n_items) for u in range(n_users)}).split


class RecordingScorer:
    """A scorer that records the number of users of each call; all items have the same score."""

    def __init__(self, n_items: int, *, parallel: bool = False) -> None:
        self.n_items = n_items
        self.parallel = parallel
        self.sizes = []

    def block(self, users):
        self.sizes.append(users.size)
        return np.broadcast_to(np.zeros(self.n_items), (users.size, self.n_items))


def record_calls(monkeypatch, owner, name, extract):
    """Return a list to which each call of a function adds `extract(its arguments)`."""
    calls = []
    original = getattr(owner, name)

    def spy(*arguments, **options):
        calls.append(extract(*arguments, **options))
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, spy)
    return calls


@pytest.mark.parametrize("n_positives", [1, 40])
def test_a_block_uses_the_memory_that_block_bytes_states(n_positives):
    n_users = 200
    n_items = 4000
    rng = np.random.default_rng(0)
    factors = Factors.from_arrays(rng.normal(size=(n_users, 4)), rng.normal(size=(n_items, 4)), None, "m")
    shape = Shape(n_users, n_items, 4, SINGLE)
    pairs = pd.DataFrame(
        {"user": np.repeat(np.arange(n_users), n_positives), "item": np.tile(np.arange(n_positives), n_users)}
    )
    split = Split.from_frames(pd.DataFrame({"user": [0], "item": [n_items - 1]}), pairs, items=range(n_items))
    targets = _rank_counts.HeldOutPositives.from_split(split)
    batch = _rank_counts.Batch.from_targets(targets)
    block = factors.block(batch, factors.exact(batch, _kernels))
    tracemalloc.start()
    worker = _kernels.Worker(shape)
    worker.begin(block)
    for _ in factors.count(worker, block, n_items, _kernels):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    fixed_bytes, bytes_per_user = _kernels.block_bytes(shape)
    expected = fixed_bytes + bytes_per_user * n_users
    # Beside it some numbers for each positive, as their ranks take, and what measures coverage.
    assert expected / 3 < peak < expected + 256 * batch.item.size + MIB


def test_a_block_of_factors_is_as_large_as_memory_allows(monkeypatch):
    calls = record_calls(monkeypatch, _kernels.Worker, "begin", lambda _, block: block.user.shape[0])
    rng = np.random.default_rng(0)
    model = rng.normal(size=(100, 3)), rng.normal(size=(50, 3))
    # 3 × 50 single products are 600 bytes for each user: 6,000 bytes for each of two threads hold ten.
    compute = ComputeOptions(n_threads=2, max_memory=12_000, engine="numpy")
    rank_positives(model, make_split(100, 50), compute=compute)
    assert calls == [10] * 10


@pytest.mark.parametrize(
    ("parallel", "is_restricted", "size"),
    [(True, False, 10), (False, False, 20), (True, True, 6), (False, True, 13)],
)
def test_a_block_of_scores_is_as_large_as_memory_allows(parallel, is_restricted, size):
    # 50 scores in double precision and a copy are 800 bytes for each user, 1,200 where some are picked out.
    scorer = RecordingScorer(50, parallel=parallel)
    options = {"candidates": np.arange(50)} if is_restricted else {}
    compute = ComputeOptions(n_threads=2, max_memory=16_000)
    rank_positives(scorer, make_split(100, 50), compute=compute, **options)
    assert sum(scorer.sizes) == 100
    assert max(scorer.sizes) == size
    assert len(scorer.sizes) == -(-100 // size)


def test_candidates_of_each_user_are_scored_for_32_mebibytes_with_their_copy():
    split = make_split(100, 2**15)
    pairs = pd.DataFrame({"user": np.arange(100), "item": np.arange(100)})
    list_scorer = RecordingScorer(2**15)
    sample_scorer = RecordingScorer(2**15)
    rank_positives(list_scorer, split, candidates=pairs)
    rank_positives(sample_scorer, split, candidates=SampledCandidates(3, rng=0))
    assert list_scorer.sizes == sample_scorer.sizes == [64, 36]
    small_scorer = RecordingScorer(50)
    compute = ComputeOptions(n_threads=2, max_memory=16_000)
    rank_positives(small_scorer, make_split(100, 50), candidates=SampledCandidates(3, rng=0), compute=compute)
    rank_positives(
        small_scorer, make_split(100, 50), candidates=pairs.assign(item=pairs["item"] % 50), compute=compute
    )
    assert small_scorer.sizes == [20] * 10


@pytest.mark.parametrize(("k", "width"), [(1, 128), (16, 128), (17, 136), (20, 160)])
def test_the_top_k_bound_is_the_kth_largest_maximum_of_groups(k, width):
    # 64 groups of two entries at least, or 4 k: of 2 · n groups, entry j and entry j + n share one.
    scores = np.stack([np.arange(width, dtype=float), np.full(width, np.nan)])
    assert _kept.topk_lower_bound(scores, k).tolist() == [width - k, -np.inf]
    assert _kept.topk_lower_bound(scores[:, : width - 1], k).tolist() == [-np.inf, -np.inf]
