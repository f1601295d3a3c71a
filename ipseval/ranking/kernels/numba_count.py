"""How many scores of a row are beyond thresholds, by Numba: those that reach the lowest are gathered first.

Held-out positives rank high under most models, so that few items reach the lowest threshold of a user. One
comparison for each score finds them, and all others are made with these few alone. What gathers them is an
instruction of AVX-512 that compilers do not find by themselves. On other processors, and with a Numba that
does not let us insert instructions, every score is compared with every threshold: `count_all` is one of two
functions.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from ipseval.ranking.kernels.numba_compile import borrowing
from ipseval.utils.types import AnyArray, IntArray

_found = False
with suppress(ImportError):  # the inside of Numba, which promises nothing
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.core.registry import cpu_target
    from numba.extending import intrinsic

    _inside: Any = cgutils
    _found = True

SEVERAL = 3  # thresholds of a row from which on it pays to gather
GROUP = 16  # gathered scores that are compared with a threshold at once

_i32: Any = np.int32  # counters as wide as the scores: with 64 bits only half as many fit a vector register
_i64: Any = np.int64  # of a fixed 0 that is passed on Numba makes a type of its own, and compiles for it, too


def _can_gather() -> bool:
    """Return whether the processor has the instruction that gathers."""
    try:
        return "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    except Exception:  # another inside of Numba
        return False


GATHERS = _found and _can_gather()


def _inserted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what compiled functions call, whose instructions `function` inserts."""
    made: Callable[..., Any] = intrinsic(function) if GATHERS else function
    return made


def _integer(bits: int) -> Any:
    return ir.IntType(bits)


def _vector_at(context: Any, builder: Any, array: Any, value: Any, place: Any, lanes: int) -> Any:
    """Return a pointer to `lanes` numbers of an array as one vector."""
    kind = ir.VectorType(context.get_value_type(array.dtype), lanes)
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [place]), kind.as_pointer())


def _compared(builder: Any, operator: str, at: Any, bound: Any, lanes: int) -> tuple[Any, Any]:
    """Return the numbers at a pointer, and a bit for each that says how it compares with a bound."""
    numbers = builder.load(at)
    numbers.align = 4
    undefined = ir.Constant(numbers.type, ir.Undefined)
    first = builder.insert_element(undefined, bound, ir.Constant(_integer(32), 0))
    zeros = ir.Constant(ir.VectorType(_integer(32), lanes), [0] * lanes)
    everywhere = builder.shuffle_vector(first, undefined, zeros)
    return numbers, builder.fcmp_ordered(operator, numbers, everywhere)


def _number(builder: Any, bits: Any, lanes: int) -> Any:
    """Return how many bits are set."""
    return builder.zext(builder.ctpop(builder.bitcast(bits, _integer(lanes))), _integer(64))


def _width(scores: Any) -> int:
    """Return how many scores of an array are gathered at once."""
    return 512 // int(scores.dtype.bitwidth)


def _pack(builder: Any, numbers: Any, bits: Any, lanes: int) -> Any:
    """Return the vector that begins with the numbers whose bit is set."""
    kind = numbers.type
    name = f"llvm.x86.avx512.mask.compress.v{lanes}f{512 // lanes}"
    asked = ir.FunctionType(kind, [kind, kind, bits.type])
    pack = _inside.get_or_insert_function(builder.module, asked, name)
    return builder.call(pack, [numbers, ir.Constant(kind, None), bits])


@_inserted
def _lanes(typing: Any, scores: Any) -> tuple[Any, Callable[..., Any]]:
    """Return how many scores are gathered at once."""
    lanes = _width(scores)

    def made(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return ir.Constant(_integer(64), lanes)

    return types.int64(scores), made


@_inserted
def _gather(
    typing: Any, scores: Any, i: Any, lowest: Any, kept: Any, n: Any
) -> tuple[Any, Callable[..., Any]]:
    """Write those of `_lanes` scores from `i` on that reach the lowest to `kept[n:]`; return the new n."""
    # What follows in `kept`, up to the size of a register, is overwritten.
    lanes = _width(scores)

    def made(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        at = _vector_at(context, builder, scores, values[0], values[1], lanes)
        numbers, bits = _compared(builder, ">=", at, values[2], lanes)
        to = _vector_at(context, builder, kept, values[3], values[4], lanes)
        builder.store(_pack(builder, numbers, bits, lanes), to).align = 4
        return builder.add(values[4], _number(builder, bits, lanes))

    return types.int64(scores, types.int64, scores.dtype, kept, types.int64), made


def _counting(operator: str) -> Callable[..., Any]:
    """Return a function of (scores, i, bound): how many of GROUP scores from `i` on are beyond a bound."""

    def number(typing: Any, scores: Any, i: Any, bound: Any) -> tuple[Any, Callable[..., Any]]:
        def made(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            at = _vector_at(context, builder, scores, values[0], values[1], GROUP)
            return _number(builder, _compared(builder, operator, at, values[2], GROUP)[1], GROUP)

        return types.int64(scores, types.int64, scores.dtype), made

    return _inserted(number)


_n_above, _n_reach = _counting(">"), _counting(">=")


@borrowing
def count_one(scores: AnyArray, lo: float, hi: float) -> tuple[Any, Any]:
    """Return #{x > hi} and #{x >= lo}."""
    above, reach = _i32(0), _i32(0)
    for i in range(scores.size):
        above = _i32(above + _i32(scores[i] > hi))
        reach = _i32(reach + _i32(scores[i] >= lo))
    return above, reach


@borrowing
def _count_gathered(
    kept: AnyArray, n: int, lo: AnyArray, hi: AnyArray, begin: int, end: int, above: IntArray, reach: IntArray
) -> None:
    """Compare the first n scores of `kept`, which has room for GROUP more, with each threshold."""
    for i in range(n, n + GROUP):
        kept[i] = np.nan
    for j in range(begin, end):
        n_above, n_reach = 0, 0
        for i in range(0, n, GROUP):
            n_above += _n_above(kept, i, hi[j])
            n_reach += _n_reach(kept, i, lo[j])
        above[j], reach[j] = n_above, n_reach


@borrowing
def _compare_all(
    scores: AnyArray,
    lo: AnyArray,
    hi: AnyArray,
    begin: int,
    end: int,
    kept: AnyArray,
    before: IntArray,
    n_before: int,
    above: IntArray,
    reach: IntArray,
) -> None:
    """Write #{x > hi} and #{x >= lo} of the thresholds from `begin` to `end` to `above` and `reach`."""
    for j in range(begin, end):
        above[j], reach[j] = count_one(scores, lo[j], hi[j])


@borrowing
def _gather_first(
    scores: AnyArray,
    lo: AnyArray,
    hi: AnyArray,
    begin: int,
    end: int,
    kept: AnyArray,
    before: IntArray,
    n_before: int,
    above: IntArray,
    reach: IntArray,
) -> None:
    """Do the same by way of `kept`, which has room for the scores and GROUP more, where it pays."""
    # `before[j]` of `n_before` other scores of the row are above threshold j. Where that is most of them for
    # the lowest threshold, all scores are compared with all.
    lowest, n = begin, _i64(0)
    for j in range(begin + 1, end):
        lowest = j if lo[j] < lo[lowest] else lowest
    if end - begin < SEVERAL or 2 * before[lowest] > n_before:
        _compare_all(scores, lo, hi, begin, end, kept, before, n_before, above, reach)
        return
    lanes = _lanes(scores)
    whole = scores.size - scores.size % lanes
    for i in range(0, whole, lanes):
        n = _gather(scores, i, lo[lowest], kept, n)
    for i in range(whole, scores.size):
        kept[n] = scores[i]
        n += scores[i] >= lo[lowest]
    _count_gathered(kept, n, lo, hi, begin, end, above, reach)


def _works() -> bool:
    """Return whether gathering compiles here, and counts 40 scores as it must."""
    scores, bound = np.arange(40, dtype=np.float32), np.array([35, 9, 20], dtype=np.float32)
    kept, before = np.zeros(40 + GROUP, dtype=np.float32), np.zeros(3, dtype=np.int64)
    above, reach = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
    try:
        _gather_first(scores, bound, bound, 0, 3, kept, before, 0, above, reach)
    except Exception:  # a compiler may fail with anything
        return False
    return above.tolist() == [4, 30, 19] and reach.tolist() == [5, 31, 20]


count_all = _gather_first if GATHERS and _works() else _compare_all
