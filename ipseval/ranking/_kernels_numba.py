"""Counting kernels compiled by Numba, the twin of `_kernels`: the same functions, the same integers.

Imported only when a ranking starts. Functions are compiled on first use for the types at hand (a second or
two) and cached on disk: beside this file, or in the user's cache directory where that is read-only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from ipseval._types import AnyArray, FloatArray, IntArray

NAME = "numba"
CHUNK = 2048  # scores that stay in the first-level cache while all positives of a user are compared with them
GROUP = 64  # scores that are searched together for one too close to call

_i32: Any = np.int32  # counters as wide as the scores: with 64 bits only half as many fit a vector register


Function = TypeVar("Function", bound=Callable[..., Any])


def _compile(function: Function) -> Function:
    jit: Any = numba.njit
    try:
        compiled: Function = jit(function, nogil=True, error_model="numpy", cache=True)
    except RuntimeError:  # there is no directory to write a cache to
        compiled = jit(function, nogil=True, error_model="numpy")
    return compiled


@_compile
def _count_two(scores: AnyArray, lo: AnyArray, hi: AnyArray, j: int) -> tuple[Any, Any, Any, Any]:
    """Count for positives j and j + 1 at once: every score that is loaded serves four comparisons."""
    above_0, reach_0, above_1, reach_1 = _i32(0), _i32(0), _i32(0), _i32(0)
    lo_0, hi_0, lo_1, hi_1 = lo[j], hi[j], lo[j + 1], hi[j + 1]
    for i in range(scores.size):
        x = scores[i]
        above_0 = _i32(above_0 + _i32(x > hi_0))
        reach_0 = _i32(reach_0 + _i32(x >= lo_0))
        above_1 = _i32(above_1 + _i32(x > hi_1))
        reach_1 = _i32(reach_1 + _i32(x >= lo_1))
    return above_0, reach_0, above_1, reach_1


@_compile
def _count_one(scores: AnyArray, lo: AnyArray, hi: AnyArray, j: int) -> tuple[Any, Any]:
    above, reach = _i32(0), _i32(0)
    lo_j, hi_j = lo[j], hi[j]
    for i in range(scores.size):
        x = scores[i]
        above = _i32(above + _i32(x > hi_j))
        reach = _i32(reach + _i32(x >= lo_j))
    return above, reach


@_compile
def _dot(u: AnyArray, v: AnyArray) -> float:
    total = 0.0
    for k in range(u.size):
        total += np.float64(u[k]) * np.float64(v[k])
    return total


@_compile
def pair_scores(
    user_factors: AnyArray,
    item_factors: AnyArray,
    bias: FloatArray,
    user: IntArray,
    item: IntArray,
    out: FloatArray,
) -> None:
    """Write the exact scores of pairs to `out`: Σ_k u_k v_k in order, in double precision, then the bias."""
    for j in range(user.size):
        out[j] = _dot(user_factors[user[j]], item_factors[item[j]])
        if bias.size:
            out[j] += bias[item[j]]


@_compile
def hide(tile: AnyArray, first: int, excluded_start: IntArray, excluded: IntArray, pointer: IntArray) -> None:
    """Set NaN at each user's excluded items; `pointer` moves along the sorted lists from tile to tile."""
    last = first + tile.shape[1]
    for r in range(tile.shape[0]):
        k = pointer[r]
        while k < excluded_start[r + 1] and excluded[k] < last:
            tile[r, excluded[k] - first] = np.nan
            k += 1
        pointer[r] = k


@_compile
def _settle(
    scores: AnyArray,
    first: int,
    u: AnyArray,
    item_factors: AnyArray,
    bias: FloatArray,
    twin: IntArray,
    item: int,
    exact: float,
    lo: float,
    hi: float,
) -> tuple[int, int]:
    """Decide by the exact score about the items whose approximate score is too close to call."""
    above, tied = 0, 0
    for begin in range(0, scores.size, GROUP):
        group = scores[begin : begin + GROUP]
        close = _i32(0)
        for i in range(group.size):
            close = _i32(close + (_i32(group[i] >= lo) & _i32(group[i] <= hi)))
        if close == 0:
            continue
        for i in range(group.size):
            other = first + begin + i
            if group[i] >= lo and group[i] <= hi and other != item:
                if twin.size and twin[other] == twin[item]:
                    tied += 1
                    continue
                score = _dot(u, item_factors[other])
                if bias.size:
                    score += bias[other]
                if score > exact:
                    above += 1
                elif score == exact:
                    tied += 1
    return above, tied


@_compile
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
    n_lost, n_close = 0, 0
    for r in range(tile.shape[0]):
        for c in range(0, tile.shape[1], CHUNK):
            scores = tile[r, c : min(c + CHUNK, tile.shape[1])]
            begin = first + c
            for j in range(start[r], start[r + 1], 2):
                above_1, reach_1 = _i32(0), _i32(0)
                if j + 1 < start[r + 1]:
                    above_0, reach_0, above_1, reach_1 = _count_two(scores, lo, hi, j)
                else:
                    above_0, reach_0 = _count_one(scores, lo, hi, j)
                for q in range(j, min(j + 2, start[r + 1])):
                    above, reach = (above_0, reach_0) if q == j else (above_1, reach_1)
                    own = 1 if begin <= item[q] < begin + scores.size else 0
                    n_above[q] += above
                    if reach - above > own:
                        more, tied = _settle(
                            scores,
                            begin,
                            user_factors[r],
                            item_factors,
                            bias,
                            twin,
                            item[q],
                            exact[q],
                            lo[q],
                            hi[q],
                        )
                        n_above[q] += more
                        n_tied[q] += tied
                        n_close += reach - above
                    elif reach - above < own:
                        n_lost += 1
    return n_lost, n_close


@_compile
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
    n_nan = 0
    for r in range(block.shape[0]):
        for c in range(0, block.shape[1], CHUNK):
            scores = block[r, c : min(c + CHUNK, block.shape[1])]
            nan = _i32(0)
            for i in range(scores.size):
                nan = _i32(nan + _i32(scores[i] != scores[i]))
            n_nan += nan
            for j in range(start[r], start[r + 1], 2):
                if j + 1 < start[r + 1]:
                    above_0, reach_0, above_1, reach_1 = _count_two(scores, score, score, j)
                    n_above[j + 1] += above_1
                    n_reach[j + 1] += reach_1
                else:
                    above_0, reach_0 = _count_one(scores, score, score, j)
                n_above[j] += above_0
                n_reach[j] += reach_0
        for k in range(excluded_start[r], excluded_start[r + 1]):
            x = block[r, excluded[k]]
            for j in range(start[r], start[r + 1]):
                n_above[j] -= x > score[j]
                n_reach[j] -= x >= score[j]
    return n_nan
