"""Draws of distinct items with probability proportional to a weight, without a users × items matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ipseval.utils.types import FloatArray, IntArray

BLOCK_USERS = 2048
MAX_ROUNDS = 40
BLOCK_ENTRIES = 4_000_000
Taste = tuple[FloatArray, FloatArray, float]  # unit rows of users x and of items y, and the affinity > 0


def draw_distinct(
    sizes: IntArray, log_weight: FloatArray, rng: np.random.Generator, taste: Taste | None = None
) -> tuple[IntArray, IntArray]:
    """Return (row, item): `sizes[u]` distinct items per row, P ∝ exp(log_weight_i + affinity x_u·y_i)."""
    # A Plackett–Luce sequence by rejection: factors have unit length, so a proposal from the weights alone is
    # kept with probability exp(affinity (x·y − 1)), and a repeated item is thrown away.
    n_items = log_weight.size
    cdf = np.cumsum(np.exp(log_weight - log_weight.max()))
    cdf /= cdf[-1]
    found = []
    for first in range(0, sizes.size, BLOCK_USERS):
        block = np.arange(first, min(first + BLOCK_USERS, sizes.size))
        missing = sizes[block].copy()
        keys: list[IntArray] = []  # row · n_items + item, in the order of the draws
        known: IntArray = np.zeros(0, dtype=np.int64)  # the same, ascending
        for _ in range(MAX_ROUNDS):
            # Twice what is missing: most proposals are used in the first rounds, few users need many rounds.
            row = np.repeat(np.arange(block.size), 2 * missing + 2 * (missing > 0))
            item = np.searchsorted(cdf, rng.random(row.size))  # cdf[-1] is 1, and no draw is
            if taste is not None:
                users, items_of, affinity = taste
                cosine = np.einsum("ij,ij->i", users[block[row]], items_of[item])
                keep = rng.random(row.size) < np.exp(affinity * (cosine - 1))
                row, item = row[keep], item[keep]
            keys.append(_first_distinct(row * np.int64(n_items) + item, known, missing, n_items))
            missing -= np.bincount(keys[-1] // n_items, minlength=block.size)
            new = np.sort(keys[-1])
            known = np.insert(known, np.searchsorted(known, new), new)
            if not missing.any():
                break
        else:
            keys += _rest(known, missing, block, log_weight, rng, taste)
        key = np.concatenate(keys)
        found.append(key[np.argsort(key // n_items, kind="stable")] + first * n_items)
    return np.divmod(np.concatenate(found), n_items)


def _first_distinct(key: IntArray, known: IntArray, missing: IntArray, n_items: int) -> IntArray:
    """Return the first `missing[row]` keys of each row that are distinct and not known, in their order."""
    # `key` = row · n_items + item, grouped by row; `known` ascending.
    order = np.argsort(key, kind="stable")
    ascending = key[order]
    first = np.append(True, ascending[1:] != ascending[:-1])[: key.size]
    fresh = first & (np.append(known, -1)[np.searchsorted(known, ascending)] != ascending)
    found: IntArray = key[np.sort(order[fresh])]
    row = found // n_items
    counts = np.bincount(row, minlength=missing.size)
    kept: IntArray = found[np.arange(found.size) - (np.cumsum(counts) - counts)[row] < missing[row]]
    return kept


def _rest(
    known: IntArray,
    missing: IntArray,
    block: IntArray,
    log_weight: FloatArray,
    rng: np.random.Generator,
    taste: Taste | None,
) -> Iterator[IntArray]:
    """Yield the keys of rows that want almost all items: Gumbel top-m over those they do not have yet."""
    n_items, todo = log_weight.size, np.flatnonzero(missing)
    per_block = max(1, BLOCK_ENTRIES // n_items)
    for first in range(0, todo.size, per_block):
        part = todo[first : first + per_block]
        score = log_weight + rng.gumbel(size=(part.size, n_items))
        if taste is not None:
            score += taste[2] * (taste[0][block[part]] @ taste[1].T)
        for place, target in enumerate(part):
            low, high = np.searchsorted(known, [target * n_items, (target + 1) * n_items])
            score[place, known[low:high] % n_items] = -np.inf
            yield target * n_items + np.argsort(-score[place], kind="stable")[: missing[target]]


def uniform_hash(key: IntArray, seed: int) -> FloatArray:
    """Return a number in [0, 1) of key and seed alone (SplitMix64, Steele et al. 2014): noise of a pair."""
    # A pair has the same rating whenever it is looked at, without users × items numbers in store.
    offset = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    z = key.astype(np.uint64) + np.uint64(offset)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
