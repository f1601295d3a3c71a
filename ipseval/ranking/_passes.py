"""The passes over all users: from a scorer to exact counts for every positive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np

from ipseval.errors import InputError
from ipseval.ranking._exact_topk import DuplicateItems, hand_on_best
from ipseval.ranking._factors import Factors
from ipseval.ranking._scorers import AnyScorer, Scorer
from ipseval.ranking._threads import CALL_TARGET, Resources, run_workers
from ipseval.ranking.candidates import CandidateLists, Targets
from ipseval.ranking.kernels.blocks import Batch, Shape, frozen
from ipseval.ranking.top_lists import TopK
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.ids import ranks_within_group
from ipseval.utils.types import AnyArray, IntArray

BLOCKS_PER_WORKER = 2  # at least, so that the threads finish at about the same time
PART = 128  # users whose stored scores are counted together
WORTH = 2**17  # scores below which to start a thread takes longer than it saves

Counts = tuple[IntArray, IntArray]


def rank_factors(
    factors: Factors, batch: Batch, kernels: ModuleType, resources: Resources, top: TopK | None = None
) -> Counts:
    """Return (n_above, n_tied) of all positives of a factor model; `top` keeps each user's best items."""
    vary = factors.user_norm[batch.users] * factors.item_norm > 0
    if vary.all():
        return _rank_products(factors, batch, kernels, resources, top)
    # Without a factor that is not 0 the score is the bias: the same order for all these users.
    bias = factors.bias if factors.bias.size else np.zeros(factors.n_items)
    n_above, n_tied = np.empty(batch.item.size, np.int64), np.empty(batch.item.size, np.int64)
    same, rest = batch.choose(~vary)
    n_above[same], n_tied[same] = rank_shared(
        bias, rest, resources.name, None if top is None else top.of_users(rest.users)
    )
    if vary.any():
        varying, rest = batch.choose(vary)
        kept = None if top is None else top.of_users(rest.users)
        n_above[varying], n_tied[varying] = _rank_products(factors, rest, kernels, resources, kept)
    return n_above, n_tied


def rank_shared(scores: AnyArray, batch: Batch, name: str, top: TopK | None = None) -> Counts:
    """Return (n_above, n_tied) of all positives when every user has the same `scores` (n_items,)."""
    # The items are sorted once; of what stands above a positive, the user's excluded items are taken off.
    scores = comparable(scores)
    n_users = batch.users.size
    check_nan(int((scores != scores).sum()) * n_users, scores.size * n_users, name)
    _, level = np.unique(scores, return_inverse=True)
    size = np.bincount(level)
    own = level[batch.item]
    n_above, n_tied = (scores.size - np.cumsum(size))[own], size[own] - 1
    key = np.repeat(np.arange(n_users), np.diff(batch.excluded_start)) * np.int64(size.size)
    key += level[batch.excluded]
    key.sort()
    wanted = batch.row * np.int64(size.size) + own
    first, after = np.searchsorted(key, wanted), np.searchsorted(key, wanted + 1)
    n_above -= batch.excluded_start[batch.row + 1] - after
    n_tied -= after - first
    if top is not None:
        top.put_shared(scores, batch.excluded_start, batch.excluded)
    return n_above, n_tied


def _rank_products(
    factors: Factors, batch: Batch, kernels: ModuleType, resources: Resources, top: TopK | None
) -> Counts:
    """Return (n_above, n_tied) of all positives from products, and from one score of duplicate items."""
    duplicates = DuplicateItems.of(factors)
    rest, chosen = factors, batch
    if duplicates is not None:
        kept = np.flatnonzero(duplicates.number < 0)
        place = np.full(factors.n_items, -1)
        place[kept] = np.arange(kept.size)
        rest, chosen = factors.subset(kept), batch.among(place)
    n_users, n_workers = batch.users.size, resources.compute.threads
    one = Shape(1, max(rest.n_items, 1), rest.fast_item.shape[1], rest.fast_item.dtype)
    width = kernels.tile_width(one)
    tile = one._replace(n_items=width)
    fixed, per_user = kernels.block_bytes(tile)
    share = -(-n_users // (BLOCKS_PER_WORKER * n_workers))
    size = resources.users_per_block(
        per_user,
        fixed=fixed,
        wanted=min(kernels.block_users(tile), max(WORTH // one.n_items, share)),
        n_workers=n_workers,
        what="a block of one user",
    )
    n_above, n_tied = np.empty(batch.item.size, np.int64), np.empty(batch.item.size, np.int64)

    def make_worker() -> Callable[[int], Iterator[int]]:
        worker = kernels.Worker(tile._replace(n_users=size))

        def handle(number: int) -> Iterator[int]:
            rows = number * size, min((number + 1) * size, n_users)
            part = batch.part(*rows)
            if part.item.size:
                exact = factors.exact(part, kernels)
                block = rest.block(chosen.part(*rows), exact)
                worker.begin(block)
                for _ in rest.count(worker, block, width, kernels):
                    yield 0
                n_above[part.positives], n_tied[part.positives] = block.n_above, block.n_tied
                if duplicates is not None:
                    more = duplicates.counts(factors, part, exact, kernels)
                    n_above[part.positives] += more[0]
                    n_tied[part.positives] += more[1]
            if top is not None:
                hand_on_best(factors, part, kernels, top)
            yield part.users.size

        return handle

    with one_blas_thread():
        run_workers(-(-n_users // size), make_worker, resources, n_users, n_workers)
    return n_above, n_tied


def rank_stored(
    scorer: Scorer,
    batch: Batch,
    columns: IntArray | None,
    n_items: int,
    kernels: ModuleType,
    resources: Resources,
    top: TopK | None = None,
) -> Counts:
    """Return (n_above, n_tied) of all positives from scores as they are; `columns`: only these compete."""
    n_above, n_tied = np.empty(batch.item.size, np.int64), np.empty(batch.item.size, np.int64)
    n_nan = np.zeros(batch.users.size, np.int64)  # at the first row of each part: no lock is needed

    def count(first: int, scores: AnyArray) -> None:
        part = batch.part(first, first + scores.shape[0])
        chosen = scores if columns is None else scores[:, columns]
        n_above[part.positives], n_tied[part.positives], n_nan[first] = count_block(part, chosen, kernels)
        if top is not None and not n_nan[first]:
            row = np.repeat(np.arange(part.users.size), np.diff(part.excluded_start))
            mine = top.of_users(part.users)
            mine.put_stored(comparable(chosen), row, part.excluded)

    parallel = getattr(scorer, "parallel", False)  # else it is called in this thread, block after block
    n_workers = resources.compute.threads if parallel else 1
    per_user = 8 * n_items * (2 if columns is None else 3)
    size = resources.users_per_block(
        per_user,
        wanted=max(PART, WORTH // n_items) if parallel else 2 * CALL_TARGET // per_user,
        n_workers=n_workers,
        what="the scores of one user",
    )
    n_users = batch.users.size

    def handle(number: int) -> Iterator[int]:
        start = number * size
        users = batch.users[start : start + size]
        scores = scorer.block(users)
        if scores.shape != (users.size, n_items):
            raise InputError(
                f"{resources.name}: block returned shape {scores.shape} for {users.size} users; expected "
                f"({users.size}, {n_items})."
            )
        for row in range(0, scores.shape[0], PART):
            some = scores[row : row + PART]
            count(start + row, some)
            yield some.shape[0]

    run_workers(-(-n_users // size), lambda: handle, resources, n_users, n_workers)
    check_nan(int(n_nan.sum()), n_users * n_items, resources.name)
    return n_above, n_tied


def rank_in_lists(
    scorer: AnyScorer,
    targets: Targets,
    lists: CandidateLists,
    kernels: ModuleType,
    resources: Resources,
    top: TopK | None = None,
) -> Counts:
    """Return (n_above, n_tied) of all positives among their user's own candidates."""
    users, first = np.unique(targets.user, return_index=True)
    stop = np.append(first[1:], targets.user.size)
    n_items = targets.item_ids.size
    size = resources.users_per_call(n_items)
    n_above, n_tied = np.empty(targets.item.size, np.int64), np.empty(targets.item.size, np.int64)
    n_nan, n_scores = 0, 0
    for a in range(0, users.size, size):
        block = users[a : a + size]
        length = lists.start[block + 1] - lists.start[block]
        row = np.repeat(np.arange(block.size), length)
        item = np.concatenate([lists.item[lists.start[u] : lists.start[u + 1]] for u in block])
        if isinstance(scorer, Factors):
            scores = scorer.scores(block[row], item, kernels)
        else:
            scores = scorer.block(block)[row, item]
        n_nan, n_scores = n_nan + int((scores != scores).sum()), n_scores + scores.size
        above, tied = ranks_within_group(row, scores)
        if top is not None and not n_nan:
            top.of_users(block).put(row, item, scores)
        rows = slice(first[a], stop[a + block.size - 1])
        key = row * np.int64(n_items) + item
        wanted = (np.searchsorted(block, targets.user[rows]) * np.int64(n_items)) + targets.item[rows]
        place = np.searchsorted(key, wanted)
        n_above[rows], n_tied[rows] = above[place], tied[place]
    check_nan(n_nan, n_scores, resources.name)
    return n_above, n_tied


def count_block(batch: Batch, scores: AnyArray, kernels: ModuleType) -> tuple[IntArray, IntArray, int]:
    """Return (n_above, n_tied) of the batch's positives and the number of NaN in the block."""
    block = frozen(comparable(scores))
    n_above, n_reach = np.zeros(batch.item.size, np.int64), np.zeros(batch.item.size, np.int64)
    score = block[batch.row, batch.item]
    n_nan = kernels.count_stored(
        block, batch.start, score, batch.excluded_start, batch.excluded, n_above, n_reach
    )
    return n_above, n_reach - n_above - 1, int(n_nan)


def comparable(scores: AnyArray) -> AnyArray:
    """Return scores in one of the types that the kernels compare, in the same order."""
    # float16 becomes float32, short integers float64, long ones int64: its bit of sign turns in uint64.
    dtype = scores.dtype
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return scores.astype(np.float64 if dtype.itemsize == 8 else np.float32, copy=False)
    if dtype.kind in "iu":
        signed = scores ^ np.uint64(2**63) if dtype.newbyteorder("=") == np.uint64 else scores
        return signed.astype(np.float64 if dtype.itemsize < 8 else np.int64, copy=False)
    raise InputError(f"scores must be real numbers of at most 64 bits; got {dtype}.")


def check_nan(n_nan: int, n_scores: int, name: str) -> None:
    """Raise `InputError` when a score is NaN."""
    if n_nan:
        raise InputError(
            f"{name}: {n_nan:,} of {n_scores:,} scores are NaN; a NaN has no place in a ranking. "
            "Use -inf for items that should come last."
        )
