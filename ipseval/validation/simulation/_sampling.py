"""Draws of distinct items with probability proportional to a weight, without a users × items matrix."""

from __future__ import annotations

import numpy as np

from ipseval._base.types import FloatArray, IntArray

BLOCK_USERS = 2048
MAX_ROUNDS = 40
BLOCK_ENTRIES = 4_000_000
Taste = tuple[FloatArray, FloatArray, float]  # unit rows of users x and of items y, and the affinity > 0


def draw_distinct(
    sizes: IntArray,
    log_weight: FloatArray,
    rng: np.random.Generator,
    taste: Taste | None = None,
) -> tuple[IntArray, IntArray]:
    """Return (row, item): `sizes[u]` distinct items per row, P ∝ exp(log_weight_i + affinity x_u·y_i)."""
    # A Plackett–Luce sequence by rejection: factors have unit length, so a proposal from the weights alone is
    # kept with probability exp(affinity (x·y − 1)), and a repeated item is thrown away.
    cdf = np.cumsum(np.exp(log_weight - log_weight.max()))
    cdf /= cdf[-1]
    rows, items = [], []
    for first in range(0, sizes.size, BLOCK_USERS):
        block = np.arange(first, min(first + BLOCK_USERS, sizes.size))
        row: IntArray = np.zeros(0, dtype=np.int64)
        item: IntArray = np.zeros(0, dtype=np.int64)
        missing = sizes[block].copy()
        for _ in range(MAX_ROUNDS):
            # Twice what is missing: most proposals are used in the first rounds, few users need many rounds.
            new_row = np.repeat(np.arange(block.size), 2 * missing + 2 * (missing > 0))
            new_item = np.minimum(np.searchsorted(cdf, rng.random(new_row.size)), cdf.size - 1)
            if taste is not None:
                users, items_of, affinity = taste
                cosine = np.einsum("ij,ij->i", users[block[new_row]], items_of[new_item])
                keep = rng.random(new_row.size) < np.exp(affinity * (cosine - 1))
                new_row, new_item = new_row[keep], new_item[keep]
            row, item = _first_distinct(
                np.concatenate([row, new_row]), np.concatenate([item, new_item]), sizes[block], cdf.size
            )
            missing = sizes[block] - np.bincount(row, minlength=block.size)
            if not missing.any():
                break
        else:
            row, item = _finish(row, item, missing, block, log_weight, rng, taste)
        rows.append(block[row])
        items.append(item)
    return np.concatenate(rows), np.concatenate(items)


def _first_distinct(
    row: IntArray, item: IntArray, sizes: IntArray, n_items: int
) -> tuple[IntArray, IntArray]:
    """Return the first `sizes[row]` distinct items of each row, grouped by row, in the order of the draws."""
    _, first = np.unique(row * np.int64(n_items) + item, return_index=True)
    first.sort()
    order = first[np.argsort(row[first], kind="stable")]
    counts = np.bincount(row[order], minlength=sizes.size)
    start = np.cumsum(counts) - counts
    keep = order[np.arange(order.size) - start[row[order]] < sizes[row[order]]]
    return row[keep], item[keep]


def _finish(
    row: IntArray,
    item: IntArray,
    missing: IntArray,
    block: IntArray,
    log_weight: FloatArray,
    rng: np.random.Generator,
    taste: Taste | None,
) -> tuple[IntArray, IntArray]:
    """Complete the rows that want almost all items: Gumbel top-m over those they do not have yet."""
    rows, items = [row], [item]
    todo = np.flatnonzero(missing)
    per_block = max(1, BLOCK_ENTRIES // log_weight.size)
    for first in range(0, todo.size, per_block):
        part = todo[first : first + per_block]
        score = log_weight + rng.gumbel(size=(part.size, log_weight.size))
        if taste is not None:
            score += taste[2] * (taste[0][block[part]] @ taste[1].T)
        for place, target in enumerate(part):
            score[place, item[row == target]] = -np.inf
            best = np.argsort(-score[place], kind="stable")[: missing[target]]
            rows.append(np.full(best.size, target))
            items.append(best)
    row, item = np.concatenate(rows), np.concatenate(items)
    order = np.argsort(row, kind="stable")
    return row[order], item[order]


def uniform_hash(key: IntArray, seed: int) -> FloatArray:
    """Return a number in [0, 1) of key and seed alone (SplitMix64, Steele et al. 2014): noise of a pair."""
    # A pair has the same rating whenever it is looked at, without users × items numbers in store.
    offset = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    z = key.astype(np.uint64) + np.uint64(offset)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
