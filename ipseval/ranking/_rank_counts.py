"""Exact counts of the candidates above and tied with each positive, for each kind of scorer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np

from ipseval.errors import InputError
from ipseval.ranking._duplicate_items import DuplicateItems
from ipseval.ranking._factor_topk import collect_topk
from ipseval.ranking._factors import Factors
from ipseval.ranking._scorers import AnyScorer, Scorer
from ipseval.ranking.candidates import Batch, CandidateLists, HeldOutPositives
from ipseval.ranking.kernels.blocks import Shape
from ipseval.ranking.top_lists import TopKCollector
from ipseval.utils.compute import CALL_TARGET, Resources, one_blas_thread, run_workers
from ipseval.utils.ids import ranks_within_group
from ipseval.utils.types import AnyArray, IntArray, as_readonly_rows

BLOCKS_PER_WORKER = 2  # at least, so that the threads finish at about the same time
PART = 128  # users whose stored scores are counted together
WORTH = 2**17  # scores below which to start a thread takes longer than it saves

SMALL_WORK = 5e8  # comparisons below which loading Numba takes longer than it saves

Counts = tuple[IntArray, IntArray]


class Work:
    """Number of comparisons that this process has made without a choice of engine."""

    comparisons = 0.0


def select_kernels(engine: str | None, n_comparisons: float) -> ModuleType:
    """Return the module of counting kernels for an engine: "numpy", "numba", or None for the faster.

    Without a choice, Numba is used if it is installed and all rankings of the process together make so many
    comparisons that loading it saves time. Both modules count the same integers.
    """
    is_installed = find_spec("numba") is not None
    if engine == "numba" and not is_installed:
        raise InputError(
            "must be installed to be used; Numba is missing.",
            argument="engine",
            advice="Install it by pip install numba",
        )
    if engine is None:
        Work.comparisons += n_comparisons
        engine = "numpy"
        if is_installed and Work.comparisons > SMALL_WORK:
            engine = "numba"
    return import_module(f"ipseval.ranking.kernels.{engine}_kernels")


def rank_factors(
    factors: Factors,
    batch: Batch,
    kernels: ModuleType,
    resources: Resources,
    top: TopKCollector | None = None,
) -> Counts:
    """Return (n_above, n_tied) of all positives of a factor model; `top` collects each user's best items."""
    has_factors = factors.user_norm[batch.users] * factors.item_norm > 0
    if has_factors.all():
        return _rank_products(factors, batch, kernels, resources, top)

    n_above = np.empty(batch.item.size, np.int64)
    n_tied = np.empty(batch.item.size, np.int64)

    # For a user whose factors are all 0, the score is the item bias: all these users have the same order.
    is_shared, shared_batch = batch.choose(~has_factors)
    bias = factors.bias
    if not bias.size:
        bias = np.zeros(factors.n_items)
    shared_top = None
    if top is not None:
        shared_top = top.with_users(shared_batch.users)
    n_above[is_shared], n_tied[is_shared] = rank_shared_scores(bias, shared_batch, resources.name, shared_top)

    if has_factors.any():
        is_product, product_batch = batch.choose(has_factors)
        product_top = None
        if top is not None:
            product_top = top.with_users(product_batch.users)
        counts = _rank_products(factors, product_batch, kernels, resources, product_top)
        n_above[is_product], n_tied[is_product] = counts
    return n_above, n_tied


def rank_shared_scores(scores: AnyArray, batch: Batch, name: str, top: TopKCollector | None = None) -> Counts:
    """Return (n_above, n_tied) of all positives when every user has the same `scores` (n_items,)."""
    scores = to_comparable(scores)
    n_users = batch.users.size
    check_nan(int((scores != scores).sum()) * n_users, scores.size * n_users, name)

    # The items are sorted once; the user's excluded items are then subtracted from the counts of all items.
    _, level = np.unique(scores, return_inverse=True)
    level_size = np.bincount(level)
    n_levels = level_size.size
    positive_level = level[batch.item]
    n_above = (scores.size - np.cumsum(level_size))[positive_level]
    n_tied = level_size[positive_level] - 1

    # The key (user, level) of every excluded item, sorted.
    excluded_key = np.repeat(np.arange(n_users), np.diff(batch.excluded_start)) * np.int64(n_levels)
    excluded_key += level[batch.excluded_items]
    excluded_key.sort()
    positive_key = batch.row * np.int64(n_levels) + positive_level
    first_tied = np.searchsorted(excluded_key, positive_key)
    first_above = np.searchsorted(excluded_key, positive_key + 1)
    n_above -= batch.excluded_start[batch.row + 1] - first_above
    n_tied -= first_above - first_tied

    if top is not None:
        top.add_shared_scores(scores, batch.excluded_start, batch.excluded_items)
    return n_above, n_tied


def _rank_products(
    factors: Factors, batch: Batch, kernels: ModuleType, resources: Resources, top: TopKCollector | None
) -> Counts:
    """Return (n_above, n_tied) of all positives from products, and from one score of duplicate items."""
    duplicates = DuplicateItems.from_factors(factors)
    distinct_factors = factors
    distinct_batch = batch
    if duplicates is not None:
        distinct_items = np.flatnonzero(duplicates.class_of_item < 0)
        new_code = np.full(factors.n_items, -1)
        new_code[distinct_items] = np.arange(distinct_items.size)
        distinct_factors = factors.subset(distinct_items)
        distinct_batch = batch.restrict_items(new_code)

    n_users = batch.users.size
    n_workers = resources.compute.threads
    fast_item = distinct_factors.fast_item
    row_shape = Shape(
        n_users=1, n_items=max(distinct_factors.n_items, 1), depth=fast_item.shape[1], dtype=fast_item.dtype
    )
    width = kernels.tile_width(row_shape)
    tile_shape = row_shape._replace(n_items=width)
    n_users_per_block = _users_per_product_block(row_shape, tile_shape, n_users, kernels, resources)
    n_blocks = -(-n_users // n_users_per_block)

    n_above = np.empty(batch.item.size, np.int64)
    n_tied = np.empty(batch.item.size, np.int64)

    def make_worker() -> Callable[[int], Iterator[int]]:
        worker = kernels.Worker(tile_shape._replace(n_users=n_users_per_block))

        def process_block(number: int) -> Iterator[int]:
            first = number * n_users_per_block
            last = min(first + n_users_per_block, n_users)
            part = batch.part(first, last)
            if part.item.size:
                exact = factors.exact(part, kernels)
                block = distinct_factors.block(distinct_batch.part(first, last), exact)
                worker.begin(block)
                for _ in distinct_factors.count(worker, block, width, kernels):
                    yield 0
                n_above[part.positives] = block.n_above
                n_tied[part.positives] = block.n_tied
                if duplicates is not None:
                    duplicates_above, duplicates_tied = duplicates.count(factors, part, exact, kernels)
                    n_above[part.positives] += duplicates_above
                    n_tied[part.positives] += duplicates_tied
            if top is not None:
                collect_topk(factors, part, kernels, top)
            yield part.users.size

        return process_block

    with one_blas_thread():
        run_workers(n_blocks, make_worker, resources, n_users, n_workers)
    return n_above, n_tied


def _users_per_product_block(
    row_shape: Shape, tile_shape: Shape, n_users: int, kernels: ModuleType, resources: Resources
) -> int:
    """Return the number of users in a block of products."""
    n_workers = resources.compute.threads
    fixed_bytes, bytes_per_user = kernels.block_bytes(tile_shape)
    # Each thread gets several blocks, unless these would be too small to be worth a thread.
    users_per_share = -(-n_users // (BLOCKS_PER_WORKER * n_workers))
    users_worth_a_thread = WORTH // row_shape.n_items
    return resources.users_per_block(
        bytes_per_user,
        fixed_bytes=fixed_bytes,
        n_users_wanted=min(kernels.block_users(tile_shape), max(users_worth_a_thread, users_per_share)),
        n_workers=n_workers,
        description="a block of one user",
    )


def rank_score_blocks(
    scorer: Scorer,
    batch: Batch,
    columns: IntArray | None,
    n_items: int,
    kernels: ModuleType,
    resources: Resources,
    top: TopKCollector | None = None,
) -> Counts:
    """Return (n_above, n_tied) of all positives from stored scores; only the items `columns` compete."""
    n_above = np.empty(batch.item.size, np.int64)
    n_tied = np.empty(batch.item.size, np.int64)
    # The number of NaN is written to the first row of each part, so that threads need no lock.
    n_nan = np.zeros(batch.users.size, np.int64)

    def count_part(first: int, scores: AnyArray) -> None:
        part = batch.part(first, first + scores.shape[0])
        candidate_scores = scores
        if columns is not None:
            candidate_scores = scores[:, columns]
        counts = count_block(part, candidate_scores, kernels)
        n_above[part.positives], n_tied[part.positives], n_nan[first] = counts
        if top is not None and not n_nan[first]:
            row = np.repeat(np.arange(part.users.size), np.diff(part.excluded_start))
            part_top = top.with_users(part.users)
            part_top.add_score_matrix(to_comparable(candidate_scores), row, part.excluded_items)

    n_users = batch.users.size
    bytes_per_user = 8 * n_items * 2
    if columns is not None:
        bytes_per_user = 8 * n_items * 3
    if getattr(scorer, "parallel", False):
        n_workers = resources.compute.threads
        n_users_wanted = max(PART, WORTH // n_items)
    else:
        # The scorer is called in this thread alone, one block after another.
        n_workers = 1
        n_users_wanted = 2 * CALL_TARGET // bytes_per_user
    n_users_per_block = resources.users_per_block(
        bytes_per_user,
        n_users_wanted=n_users_wanted,
        n_workers=n_workers,
        description="the scores of one user",
    )

    def process_block(number: int) -> Iterator[int]:
        start = number * n_users_per_block
        users = batch.users[start : start + n_users_per_block]
        scores = scorer.block(users)
        if scores.shape != (users.size, n_items):
            raise InputError(
                f"{resources.name}: block returned shape {scores.shape} for {users.size} users; expected "
                f"({users.size}, {n_items})."
            )
        for row in range(0, scores.shape[0], PART):
            part_scores = scores[row : row + PART]
            count_part(start + row, part_scores)
            yield part_scores.shape[0]

    n_blocks = -(-n_users // n_users_per_block)
    run_workers(n_blocks, lambda: process_block, resources, n_users, n_workers)
    check_nan(int(n_nan.sum()), n_users * n_items, resources.name)
    return n_above, n_tied


def rank_in_lists(
    scorer: AnyScorer,
    targets: HeldOutPositives,
    lists: CandidateLists,
    kernels: ModuleType,
    resources: Resources,
    top: TopKCollector | None = None,
) -> Counts:
    """Return (n_above, n_tied) of all positives when each user has a separate list of candidates."""
    users, first_positive = np.unique(targets.user, return_index=True)
    end_positive = np.append(first_positive[1:], targets.user.size)
    n_items = targets.item_ids.size
    n_users_per_call = resources.users_per_call(n_items)
    n_above = np.empty(targets.item.size, np.int64)
    n_tied = np.empty(targets.item.size, np.int64)
    n_nan = 0
    n_scores = 0
    for first in range(0, users.size, n_users_per_call):
        block = users[first : first + n_users_per_call]
        length = lists.start[block + 1] - lists.start[block]
        row = np.repeat(np.arange(block.size), length)
        item = np.concatenate([lists.item[lists.start[u] : lists.start[u + 1]] for u in block])
        if isinstance(scorer, Factors):
            scores = scorer.scores(block[row], item, kernels)
        else:
            scores = scorer.block(block)[row, item]
        n_nan += int((scores != scores).sum())
        n_scores += scores.size
        candidate_above, candidate_tied = ranks_within_group(row, scores)
        if top is not None and not n_nan:
            top.with_users(block).add_candidates(row, item, scores)

        # The candidates are sorted by user and item, so a positive is found by its key.
        positives = slice(first_positive[first], end_positive[first + block.size - 1])
        positive_row = np.searchsorted(block, targets.user[positives])
        positive_key = positive_row * np.int64(n_items) + targets.item[positives]
        position = np.searchsorted(row * np.int64(n_items) + item, positive_key)
        n_above[positives] = candidate_above[position]
        n_tied[positives] = candidate_tied[position]
    check_nan(n_nan, n_scores, resources.name)
    return n_above, n_tied


def count_block(batch: Batch, scores: AnyArray, kernels: ModuleType) -> tuple[IntArray, IntArray, int]:
    """Return (n_above, n_tied) of the batch's positives and the number of NaN in the block."""
    block = as_readonly_rows(to_comparable(scores))
    n_above = np.zeros(batch.item.size, np.int64)
    n_reach = np.zeros(batch.item.size, np.int64)
    positive_score = block[batch.row, batch.item]
    n_nan = kernels.count_score_block(
        block, batch.start, positive_score, batch.excluded_start, batch.excluded_items, n_above, n_reach
    )
    return n_above, n_reach - n_above - 1, int(n_nan)


def to_comparable(scores: AnyArray) -> AnyArray:
    """Return scores in one of the types that the kernels compare, in the same order.

    Half precision becomes single precision, integers below 64 bits become double precision, and integers of
    64 bits become int64. For uint64, the sign bit is flipped, which keeps the order.
    """
    dtype = scores.dtype
    if dtype.kind == "f" and dtype.itemsize <= 8:
        if dtype.itemsize == 8:
            return scores.astype(np.float64, copy=False)
        return scores.astype(np.float32, copy=False)
    if dtype.kind not in "iu":
        raise InputError(f"scores must be real numbers of at most 64 bits; got {dtype}.")
    if dtype.itemsize < 8:
        return scores.astype(np.float64, copy=False)
    if dtype.newbyteorder("=") == np.uint64:
        scores = scores ^ np.uint64(2**63)
    return scores.astype(np.int64, copy=False)


def check_nan(n_nan: int, n_scores: int, name: str) -> None:
    """Raise `InputError` when a score is NaN."""
    if n_nan:
        raise InputError(
            f"{name}: {n_nan:,} of {n_scores:,} scores are NaN; a NaN has no place in a ranking. "
            "Use -inf for items that should come last."
        )
