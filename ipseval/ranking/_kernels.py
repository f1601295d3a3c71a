"""Counting kernels in plain NumPy, the twin of `_kernels_numba`: the same functions, the same integers.

Few positives per user: one comparison of the whole tile for each, counted in byte lanes. Many: the rows are
sorted once (NumPy sorts with vector instructions) and every positive is placed by binary search.
"""

from __future__ import annotations

import numpy as np

from ipseval._types import AnyArray, FloatArray, IntArray

NAME = "numpy"
LANES = 2040  # eight bytes are added at a time: 255 words can be summed before a byte lane overflows
SLOTS = 3  # positives per user up to which comparing is faster than sorting
SORT_ROWS = 64
PAIRS = 8192  # pairs whose factors are gathered at a time


def pair_scores(
    user_factors: AnyArray,
    item_factors: AnyArray,
    bias: FloatArray,
    user: IntArray,
    item: IntArray,
    out: FloatArray,
) -> None:
    """Write the exact scores of pairs to `out`: Σ_k u_k v_k in order, in double precision, then the bias."""
    for first in range(0, user.size, PAIRS):
        rows = slice(first, first + PAIRS)
        products = user_factors[user[rows]].astype(np.float64)
        products *= item_factors[item[rows]]
        total = np.zeros(products.shape[0])
        for k in range(products.shape[1]):  # in order, as a sum over an axis may be regrouped
            total += products[:, k]
        out[rows] = total + bias[item[rows]] if bias.size else total


def hide(tile: AnyArray, first: int, excluded_start: IntArray, excluded: IntArray, pointer: IntArray) -> None:
    """Set NaN at each user's excluded items; `pointer` is the twin's place in the lists, not needed here."""
    here = np.flatnonzero((excluded >= first) & (excluded < first + tile.shape[1]))
    row = np.searchsorted(excluded_start, here, side="right") - 1
    tile[row, excluded[here] - first] = np.nan


def count_close(
    tile: AnyArray,
    first: int,
    start: IntArray,
    item: IntArray,
    exact: FloatArray,
    lo: AnyArray,
    hi: AnyArray,
    user_factors: AnyArray,
    item_factors: AnyArray,
    bias: FloatArray,
    twin: IntArray,
    n_above: IntArray,
    n_tied: IntArray,
) -> tuple[int, int]:
    """Add the counts of one tile of approximate scores.

    Returns how many positives fell out of their own bounds (none, or the bounds are wrong), and how many
    scores were too close to call.
    """
    row = np.repeat(np.arange(start.size - 1), np.diff(start))
    above, reach = _count(tile, row, start, lo, hi)
    n_above += above
    own = (item >= first) & (item < first + tile.shape[1])
    close = np.flatnonzero(reach - above > own)
    for part in np.split(close, range(SORT_ROWS, close.size, SORT_ROWS)):
        scores = tile[row[part]]
        near = scores >= lo[part, None]
        near &= scores <= hi[part, None]
        place, other = np.divmod(np.flatnonzero(near), tile.shape[1])
        positive, other = part[place], other + first
        rest = other != item[positive]
        if twin.size:
            twins = rest & (twin[other] == twin[item[positive]])
            n_tied += np.bincount(positive[twins], minlength=row.size)
            rest &= ~twins
        positive, other = positive[rest], other[rest]
        score = np.empty(positive.size)
        pair_scores(user_factors, item_factors, bias, row[positive], other, score)
        n_above += np.bincount(positive[score > exact[positive]], minlength=row.size)
        n_tied += np.bincount(positive[score == exact[positive]], minlength=row.size)
    return int((reach - above < own).sum()), int((reach - above)[close].sum())


def count_stored(
    block: AnyArray,
    start: IntArray,
    score: AnyArray,
    excluded_start: IntArray,
    excluded: IntArray,
    n_above: IntArray,
    n_reach: IntArray,
) -> int:
    """Write how many candidates score above, and reach, each positive's score; return the number of NaN."""
    row = np.repeat(np.arange(start.size - 1), np.diff(start))
    excluded_row = np.repeat(np.arange(start.size - 1), np.diff(excluded_start))
    hidden = block[excluded_row, excluded[excluded_start[0] : excluded_start[-1]]]
    n_nan = 0
    for first in range(0, block.shape[1], LANES):
        tile = block[:, first : first + LANES]
        if block.dtype.kind == "f":
            n_nan += int(np.isnan(tile).sum())
        above, reach = _count(tile, row, start, score, score)
        n_above += above
        n_reach += reach
    # Each positive against its user's excluded items, as flat pairs.
    size = np.diff(excluded_start)[row]
    positive = np.repeat(np.arange(row.size), size)
    offset = np.arange(positive.size) - np.repeat(np.cumsum(size) - size, size)
    x = hidden[offset + np.repeat((excluded_start - excluded_start[0])[row], size)]
    n_above -= np.bincount(positive[x > score[positive]], minlength=row.size)
    n_reach -= np.bincount(positive[x >= score[positive]], minlength=row.size)
    return n_nan


def _count(
    tile: AnyArray, row: IntArray, start: IntArray, lo: AnyArray, hi: AnyArray
) -> tuple[IntArray, IntArray]:
    """Return #{x > hi} and #{x >= lo} in the row of each positive; NaN is never counted."""
    most = int(np.diff(start).max(initial=0))
    if most > SLOTS:
        return _count_sorted(tile, row, lo, hi)
    above, reach = np.zeros(row.size, dtype=np.int64), np.zeros(row.size, dtype=np.int64)
    slot = np.arange(row.size) - start[row]
    for j in range(most):
        chosen = np.flatnonzero(slot == j)
        rows = slice(None) if chosen.size == tile.shape[0] else row[chosen]
        above[chosen] = _count_true(tile[rows] > hi[chosen, None])
        reach[chosen] = _count_true(tile[rows] >= lo[chosen, None])
    return above, reach


def _count_true(mask: AnyArray) -> IntArray:
    """Return the number of True in each row of at most LANES entries."""
    n_words = mask.shape[1] // 8
    words = np.ascontiguousarray(mask[:, : 8 * n_words]).view(np.uint64)
    lanes = words.sum(axis=1).view(np.uint8).reshape(mask.shape[0], 8)
    count: IntArray = lanes.sum(axis=1, dtype=np.int64) + mask[:, 8 * n_words :].sum(axis=1)
    return count


def _count_sorted(tile: AnyArray, row: IntArray, lo: AnyArray, hi: AnyArray) -> tuple[IntArray, IntArray]:
    """Return the counts by a binary search in each sorted row, padded to a length of 2**k - 1."""
    n_rows, width = tile.shape
    length = (1 << width.bit_length()) - 1
    floating = tile.dtype.kind == "f"
    ordered = np.empty((n_rows, length), dtype=tile.dtype)
    ordered[:, width:] = np.nan if floating else np.iinfo(tile.dtype).max
    for first in range(0, n_rows, SORT_ROWS):  # few rows, so that they are still in the cache when sorted
        part = ordered[first : first + SORT_ROWS, :width]
        np.copyto(part, tile[first : first + SORT_ROWS])
        part.sort(axis=1)  # NaN last
    flat, base = ordered.reshape(-1), row * length
    below_lo = _search(flat, base, length, lo)
    up_to_hi = below_lo.copy()
    rest = np.arange(row.size)
    for _ in range(4):  # between lo and hi there is usually one score, the positive's own
        x = flat[base[rest] + np.minimum(up_to_hi[rest], width - 1)]
        rest = rest[(up_to_hi[rest] < width) & (x <= hi[rest])]
        up_to_hi[rest] += 1
    up_to_hi[rest] = _search(flat, base[rest], length, hi[rest], include=True)
    size = np.full(n_rows, width)
    if floating:
        last = np.arange(n_rows) * length
        size = _search(flat, last, length, np.full(n_rows, np.inf, dtype=tile.dtype), include=True)
    size = np.minimum(size, width)[row]
    return size - np.minimum(up_to_hi, size), size - below_lo


def _search(
    flat: AnyArray, base: IntArray, length: int, value: AnyArray, *, include: bool = False
) -> IntArray:
    """Return how many of the `length` = 2**k - 1 sorted entries from `base` on are < value (or <=)."""
    below = np.less_equal if include else np.less
    place, probe = base - 1, np.empty_like(base)
    step = (length + 1) // 2
    while step:
        np.add(place, step, out=probe)
        np.copyto(place, probe, where=below(flat.take(probe), value))
        step //= 2
    count: IntArray = place - base + 1
    return count
