"""Draws of distinct items with probability proportional to a weight, without a users × items matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ipseval.utils.types import FloatArray, IntArray

BLOCK_USERS = 2048
MAX_ROUNDS = 40
BLOCK_ENTRIES = 4_000_000
MAX_STEPS = 8  # from where a search in a table begins


class Taste(NamedTuple):
    """Factors of unit length for users and items, and the affinity > 0 by which they are weighted."""

    user_factors: FloatArray
    item_factors: FloatArray
    affinity: float


class ItemTable(NamedTuple):
    """The cumulative probabilities of the items, and where the search for a number in them begins.

    The first item whose cumulative probability is at least k/m is `first_items[k]`, with m a power of two,
    by which numbers are multiplied exactly (Chen & Asau, AIIE Transactions 6, 1974).
    """

    cdf: FloatArray
    first_items: IntArray

    @classmethod
    def from_weights(cls, log_weight: FloatArray) -> ItemTable:
        """Return the table of items with probabilities proportional to exp(log_weight)."""
        cdf = np.cumsum(np.exp(log_weight - log_weight.max()))
        cdf /= cdf[-1]
        n_entries = 2 << cdf.size.bit_length()
        return cls(cdf, np.searchsorted(cdf, np.arange(n_entries) / n_entries))

    def find_items(self, numbers: FloatArray) -> IntArray:
        """Return for numbers in [0, 1) the first item whose cumulative probability is at least the number."""
        item: IntArray = self.first_items[(numbers * self.first_items.size).astype(np.int64)]
        unfinished = np.flatnonzero(self.cdf[item] < numbers)
        for _ in range(MAX_STEPS):
            if not unfinished.size:
                return item
            item[unfinished] += 1
            unfinished = unfinished[self.cdf[item[unfinished]] < numbers[unfinished]]
        item[unfinished] = np.searchsorted(self.cdf, numbers[unfinished])
        return item


def draw_distinct(
    sizes: IntArray, log_weight: FloatArray, rng: np.random.Generator, taste: Taste | None = None
) -> tuple[IntArray, IntArray]:
    """Return (row, item): `sizes[u]` distinct items per row, P ∝ exp(log_weight_i + affinity x_u·y_i).

    The draws of a row form a Plackett–Luce sequence.
    """
    n_items = log_weight.size
    table = ItemTable.from_weights(log_weight)
    block_keys = []
    for first_row in range(0, sizes.size, BLOCK_USERS):
        rows = np.arange(first_row, min(first_row + BLOCK_USERS, sizes.size))
        keys = _draw_block(
            rows=rows, sizes=sizes[rows], log_weight=log_weight, table=table, rng=rng, taste=taste
        )
        sorted_by_row = keys[np.argsort(keys // n_items, kind="stable")]
        block_keys.append(sorted_by_row + first_row * n_items)
    return np.divmod(np.concatenate(block_keys), n_items)


def _draw_block(
    rows: IntArray,
    sizes: IntArray,
    log_weight: FloatArray,
    table: ItemTable,
    rng: np.random.Generator,
    taste: Taste | None,
) -> IntArray:
    """Return the keys row · n_items + item of the items of a block of rows, in the order of the draws.

    Rows count from the first row of the block. The draws are made by rejection: a repeated item is discarded.
    """
    n_items = log_weight.size
    n_missing = sizes.copy()
    keys: list[IntArray] = []  # in the order of the draws
    drawn_keys: IntArray = np.zeros(0, dtype=np.int64)  # the same keys, ascending
    for _ in range(MAX_ROUNDS):
        proposals = _propose_keys(rows, n_missing, table, rng, taste)
        new_keys = _first_distinct(proposals, drawn_keys, n_missing, n_items)
        keys.append(new_keys)
        n_missing -= np.bincount(new_keys // n_items, minlength=rows.size)
        new_keys = np.sort(new_keys)
        drawn_keys = np.insert(drawn_keys, np.searchsorted(drawn_keys, new_keys), new_keys)
        if not n_missing.any():
            break
    else:
        keys.extend(
            _draw_remaining(
                drawn_keys=drawn_keys,
                n_missing=n_missing,
                rows=rows,
                log_weight=log_weight,
                rng=rng,
                taste=taste,
            )
        )
    return np.concatenate(keys)


def _propose_keys(
    rows: IntArray,
    n_missing: IntArray,
    table: ItemTable,
    rng: np.random.Generator,
    taste: Taste | None,
) -> IntArray:
    """Return the keys of random items for the rows that miss items; items may repeat.

    Factors have unit length, so a proposal from the item weights is accepted with probability
    exp(affinity (x·y − 1)).
    """
    n_items = table.cdf.size
    # Twice the missing items: most proposals are used in the first rounds, few users need many rounds.
    n_proposals = 2 * n_missing + 2 * (n_missing > 0)
    row = np.repeat(np.arange(rows.size), n_proposals)
    item = table.find_items(rng.random(row.size))
    if taste is not None:
        user_factors = taste.user_factors[rows[row]]
        cosine = np.einsum("ij,ij->i", user_factors, taste.item_factors[item])
        is_accepted = rng.random(row.size) < np.exp(taste.affinity * (cosine - 1))
        row = row[is_accepted]
        item = item[is_accepted]
    return row * np.int64(n_items) + item


def _first_distinct(keys: IntArray, drawn_keys: IntArray, n_missing: IntArray, n_items: int) -> IntArray:
    """Return the first `n_missing[row]` keys of each row that are distinct and not drawn, in their order.

    `keys` are row · n_items + item, grouped by row; `drawn_keys` are ascending.
    """
    order = np.argsort(keys, kind="stable")
    ascending = keys[order]
    is_first = np.append(True, ascending[1:] != ascending[:-1])[: keys.size]
    next_drawn = np.append(drawn_keys, -1)[np.searchsorted(drawn_keys, ascending)]
    is_new = is_first & (next_drawn != ascending)
    new_keys: IntArray = keys[np.sort(order[is_new])]
    row = new_keys // n_items
    counts = np.bincount(row, minlength=n_missing.size)
    row_starts = np.cumsum(counts) - counts
    position_in_row = np.arange(new_keys.size) - row_starts[row]
    is_needed = position_in_row < n_missing[row]
    needed_keys: IntArray = new_keys[is_needed]
    return needed_keys


def _draw_remaining(
    drawn_keys: IntArray,
    n_missing: IntArray,
    rows: IntArray,
    log_weight: FloatArray,
    rng: np.random.Generator,
    taste: Taste | None,
) -> Iterator[IntArray]:
    """Yield the keys of rows that need almost all items: Gumbel top-m over the items not drawn yet."""
    n_items = log_weight.size
    incomplete_rows = np.flatnonzero(n_missing)
    n_rows_per_block = max(1, BLOCK_ENTRIES // n_items)
    for start in range(0, incomplete_rows.size, n_rows_per_block):
        block_rows = incomplete_rows[start : start + n_rows_per_block]
        scores = log_weight + rng.gumbel(size=(block_rows.size, n_items))
        if taste is not None:
            user_factors = taste.user_factors[rows[block_rows]]
            scores += taste.affinity * (user_factors @ taste.item_factors.T)
        for row, row_scores in zip(block_rows, scores, strict=True):
            low, high = np.searchsorted(drawn_keys, [row * n_items, (row + 1) * n_items])
            row_scores[drawn_keys[low:high] % n_items] = -np.inf
            yield row * n_items + np.argsort(-row_scores, kind="stable")[: n_missing[row]]


def uniform_hash(key: IntArray, seed: int) -> FloatArray:
    """Return a number in [0, 1) of key and seed alone (SplitMix64, Steele et al. 2014): noise of a pair.

    A pair has the same noise at every call, without users × items numbers in memory.
    """
    offset = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    z = key.astype(np.uint64) + np.uint64(offset)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
