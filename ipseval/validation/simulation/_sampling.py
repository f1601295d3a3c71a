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
        missing = sizes[block].copy()
        keys: list[IntArray] = []  # row · n_items + item, in the order of the draws
        known: IntArray = np.zeros(0, dtype=np.int64)  # the same, ascending
        for _ in range(MAX_ROUNDS):
            # Twice what is missing: most proposals are used in the first rounds, few users need many rounds.
            new_row = np.repeat(np.arange(block.size), 2 * missing + 2 * (missing > 0))
            new_item = np.minimum(np.searchsorted(cdf, rng.random(new_row.size)), cdf.size - 1)
            if taste is not None:
                users, items_of, affinity = taste
                cosine = np.einsum("ij,ij->i", users[block[new_row]], items_of[new_item])
                keep = rng.random(new_row.size) < np.exp(affinity * (cosine - 1))
                new_row, new_item = new_row[keep], new_item[keep]
            new = _first_distinct(new_row * np.int64(cdf.size) + new_item, known, missing, cdf.size)
            keys.append(new)
            missing -= np.bincount(new // cdf.size, minlength=block.size)
            if not missing.any():
                break
            new = np.sort(new)
            known = np.insert(known, np.searchsorted(known, new), new)
        key = np.concatenate(keys)
        row, item = np.divmod(key[np.argsort(key // cdf.size, kind="stable")], cdf.size)
        if missing.any():
            row, item = _finish(row, item, missing, block, log_weight, rng, taste)
        rows.append(block[row])
        items.append(item)
    return np.concatenate(rows), np.concatenate(items)


def _first_distinct(key: IntArray, known: IntArray, missing: IntArray, n_items: int) -> IntArray:
    """Return the first `missing[row]` keys of each row that are distinct and not known, in their order."""
    # `key` = row · n_items + item, grouped by row; `known` ascending.
    order = np.argsort(key, kind="stable")
    ascending = key[order]
    first = np.append(True, ascending[1:] != ascending[:-1])[: key.size]
    place = np.searchsorted(known, ascending)
    fresh = first & (np.append(known, -1)[place] != ascending)
    found = key[np.sort(order[fresh])]
    row = found // n_items
    counts = np.bincount(row, minlength=missing.size)
    kept: IntArray = found[np.arange(found.size) - (np.cumsum(counts) - counts)[row] < missing[row]]
    return kept


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
    start = np.searchsorted(row, np.arange(missing.size + 1))  # `row` is ascending
    per_block = max(1, BLOCK_ENTRIES // log_weight.size)
    for first in range(0, todo.size, per_block):
        part = todo[first : first + per_block]
        score = log_weight + rng.gumbel(size=(part.size, log_weight.size))
        if taste is not None:
            score += taste[2] * (taste[0][block[part]] @ taste[1].T)
        for place, target in enumerate(part):
            score[place, item[start[target] : start[target + 1]]] = -np.inf
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
