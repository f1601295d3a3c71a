"""Counts of the scores of a row beyond thresholds, in Numba: scores that reach the lowest are gathered first.

Held-out positives rank high under most models, so few items reach the lowest threshold of a user. One
comparison for each score finds them, and all other comparisons are made with these few scores alone. They are
gathered by an instruction of AVX-512 that compilers do not find by themselves. On other processors, and with
a version of Numba in which instructions cannot be inserted, every score is compared with every threshold:
`count_all` is one of two functions.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, cast

import numpy as np

from ipseval.ranking._types import Untyped
from ipseval.ranking.kernels.numba_compile import compile_inner_kernel
from ipseval.utils.types import AnyArray, IntArray

CodegenContext: TypeAlias = Untyped
IRBuilder: TypeAlias = Untyped
IRValue: TypeAlias = Untyped
IRType: TypeAlias = Untyped
NumbaType: TypeAlias = Untyped
Codegen: TypeAlias = Callable[..., IRValue]
Intrinsic: TypeAlias = tuple[NumbaType, Codegen]  # the signature, and the function that emits instructions

_has_compiler_api = False
with suppress(ImportError):  # these modules of Numba are private and may change
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.core.registry import cpu_target
    from numba.extending import intrinsic

    _code_generation: Untyped = cgutils
    _has_compiler_api = True

SEVERAL = 3  # thresholds of a row from which on gathering saves time
GROUP = 16  # gathered scores that are compared with a threshold together

# Counters are as wide as the scores: with 64 bits, only half as many fit a vector register.
_i32: Untyped = np.int32
# Numba gives a literal 0 a separate type, and would compile callees for it as well.
_i64: Untyped = np.int64


def _has_gather_instruction() -> bool:
    """Return whether the processor has the instruction that gathers scores."""
    try:
        return "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    except Exception:  # another version of Numba
        return False


GATHERS = _has_compiler_api and _has_gather_instruction()


def _as_intrinsic(function: Callable[..., Intrinsic]) -> Callable[..., int]:
    """Return a function that compiled code calls by inserting the instructions of `function`."""
    if GATHERS:
        function = intrinsic(function)
    inserted: Callable[..., int] = cast("Untyped", function)
    return inserted


def _integer_type(bits: int) -> IRType:
    """Return the LLVM type of an integer of this many bits."""
    return ir.IntType(bits)


def _vector_pointer(
    context: CodegenContext, builder: IRBuilder, array: NumbaType, value: IRValue, index: IRValue, lanes: int
) -> IRValue:
    """Return a pointer to `lanes` numbers of an array, from `index` on, as one vector."""
    vector_type = ir.VectorType(context.get_value_type(array.dtype), lanes)
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [index]), vector_type.as_pointer())


def _emit_comparison(
    builder: IRBuilder, operator: str, pointer: IRValue, bound: IRValue, lanes: int
) -> tuple[IRValue, IRValue]:
    """Return the vector at a pointer, and the bits of the comparison of each of its numbers with a bound."""
    numbers = builder.load(pointer)
    numbers.align = 4
    undefined = ir.Constant(numbers.type, ir.Undefined)
    first_lane = builder.insert_element(undefined, bound, ir.Constant(_integer_type(32), 0))
    zeros = ir.Constant(ir.VectorType(_integer_type(32), lanes), [0] * lanes)
    bounds = builder.shuffle_vector(first_lane, undefined, zeros)
    return numbers, builder.fcmp_ordered(operator, numbers, bounds)


def _emit_bit_count(builder: IRBuilder, bits: IRValue, lanes: int) -> IRValue:
    """Return the number of bits that are set."""
    return builder.zext(builder.ctpop(builder.bitcast(bits, _integer_type(lanes))), _integer_type(64))


def _count_lanes(scores: NumbaType) -> int:
    """Return how many scores of an array are gathered at once."""
    return 512 // int(scores.dtype.bitwidth)


def _emit_compress(builder: IRBuilder, numbers: IRValue, bits: IRValue, lanes: int) -> IRValue:
    """Return the vector that begins with the numbers that have their bit set."""
    vector_type = numbers.type
    name = f"llvm.x86.avx512.mask.compress.v{lanes}f{512 // lanes}"
    signature = ir.FunctionType(vector_type, [vector_type, vector_type, bits.type])
    compress = _code_generation.get_or_insert_function(builder.module, signature, name)
    return builder.call(compress, [numbers, ir.Constant(vector_type, None), bits])


@_as_intrinsic
def _lanes(typing: Untyped, scores: NumbaType) -> Intrinsic:
    """Return how many scores are gathered at once."""
    lanes = _count_lanes(scores)

    def codegen(
        context: CodegenContext, builder: IRBuilder, signature: NumbaType, values: list[IRValue]
    ) -> IRValue:
        return ir.Constant(_integer_type(64), lanes)

    return types.int64(scores), codegen


@_as_intrinsic
def _gather(
    typing: Untyped,
    scores: NumbaType,
    i: NumbaType,
    lowest: NumbaType,
    gathered_scores: NumbaType,
    n: NumbaType,
) -> Intrinsic:
    """Write the scores >= lowest, of `_lanes` scores from `i` on, to `gathered_scores`; return the new n."""
    # The numbers of `gathered_scores` after the new n, up to the size of a register, are overwritten.
    lanes = _count_lanes(scores)

    def codegen(
        context: CodegenContext, builder: IRBuilder, signature: NumbaType, values: list[IRValue]
    ) -> IRValue:
        source = _vector_pointer(context, builder, scores, values[0], values[1], lanes)
        numbers, bits = _emit_comparison(builder, ">=", source, values[2], lanes)
        target = _vector_pointer(context, builder, gathered_scores, values[3], values[4], lanes)
        builder.store(_emit_compress(builder, numbers, bits, lanes), target).align = 4
        return builder.add(values[4], _emit_bit_count(builder, bits, lanes))

    return types.int64(scores, types.int64, scores.dtype, gathered_scores, types.int64), codegen


def _make_group_counter(operator: str) -> Callable[..., int]:
    """Return a function (scores, i, bound): how many of GROUP scores from `i` on are beyond a bound."""

    def count_group(typing: Untyped, scores: NumbaType, i: NumbaType, bound: NumbaType) -> Intrinsic:
        def codegen(
            context: CodegenContext, builder: IRBuilder, signature: NumbaType, values: list[IRValue]
        ) -> IRValue:
            pointer = _vector_pointer(context, builder, scores, values[0], values[1], GROUP)
            _, bits = _emit_comparison(builder, operator, pointer, values[2], GROUP)
            return _emit_bit_count(builder, bits, GROUP)

        return types.int64(scores, types.int64, scores.dtype), codegen

    return _as_intrinsic(count_group)


_count_above = _make_group_counter(">")
_count_reach = _make_group_counter(">=")


@compile_inner_kernel
def count_one(scores: AnyArray, lo: float, hi: float) -> tuple[int, int]:
    """Return #{x > hi} and #{x >= lo}."""
    above_counts = _i32(0)
    reach_counts = _i32(0)
    for i in range(scores.size):
        above_counts = _i32(above_counts + _i32(scores[i] > hi))
        reach_counts = _i32(reach_counts + _i32(scores[i] >= lo))
    return above_counts, reach_counts


@compile_inner_kernel
def _count_gathered_scores(
    gathered_scores: AnyArray,
    n: int,
    lo: AnyArray,
    hi: AnyArray,
    begin: int,
    end: int,
    above_counts: IntArray,
    reach_counts: IntArray,
) -> None:
    """Compare the first n scores of `gathered_scores`, which has space for GROUP more, with each threshold."""
    for i in range(n, n + GROUP):
        gathered_scores[i] = np.nan
    for j in range(begin, end):
        n_above = 0
        n_reach = 0
        for i in range(0, n, GROUP):
            n_above += _count_above(gathered_scores, i, hi[j])
            n_reach += _count_reach(gathered_scores, i, lo[j])
        above_counts[j] = n_above
        reach_counts[j] = n_reach


@compile_inner_kernel
def _compare_all(
    scores: AnyArray,
    lo: AnyArray,
    hi: AnyArray,
    begin: int,
    end: int,
    gathered_scores: AnyArray,
    counts: IntArray,
    n_counted: int,
    above_counts: IntArray,
    reach_counts: IntArray,
) -> None:
    """Write #{x > hi} and #{x >= lo} of the thresholds from `begin` to `end` to the two arrays of counts."""
    for j in range(begin, end):
        above_counts[j], reach_counts[j] = count_one(scores, lo[j], hi[j])


@compile_inner_kernel
def _gather_first(
    scores: AnyArray,
    lo: AnyArray,
    hi: AnyArray,
    begin: int,
    end: int,
    gathered_scores: AnyArray,
    counts: IntArray,
    n_counted: int,
    above_counts: IntArray,
    reach_counts: IntArray,
) -> None:
    """Write the counts of `_compare_all`, by way of `gathered_scores` where that saves time.

    `gathered_scores` has space for the scores and GROUP more. Of the row's `n_counted` scores that were
    counted before, `counts[j]` are above threshold j. If these are most of them for the lowest threshold,
    gathering does not save time, and all scores are compared with all thresholds.
    """
    lowest = begin
    for j in range(begin + 1, end):
        if lo[j] < lo[lowest]:
            lowest = j
    if end - begin < SEVERAL or 2 * counts[lowest] > n_counted:
        _compare_all(
            scores, lo, hi, begin, end, gathered_scores, counts, n_counted, above_counts, reach_counts
        )
        return

    n = _i64(0)
    lanes = _lanes(scores)
    n_in_vectors = scores.size - scores.size % lanes
    for i in range(0, n_in_vectors, lanes):
        n = _gather(scores, i, lo[lowest], gathered_scores, n)
    for i in range(n_in_vectors, scores.size):
        gathered_scores[n] = scores[i]
        n += scores[i] >= lo[lowest]
    _count_gathered_scores(gathered_scores, n, lo, hi, begin, end, above_counts, reach_counts)


def _is_gathering_correct() -> bool:
    """Return whether gathering compiles on this machine, and counts 40 scores correctly."""
    scores = np.arange(40, dtype=np.float32)
    bound = np.array([35, 9, 20], dtype=np.float32)
    gathered_scores = np.zeros(40 + GROUP, dtype=np.float32)
    counts = np.zeros(3, dtype=np.int64)
    above_counts = np.zeros(3, dtype=np.int64)
    reach_counts = np.zeros(3, dtype=np.int64)
    try:
        _gather_first(scores, bound, bound, 0, 3, gathered_scores, counts, 0, above_counts, reach_counts)
    except Exception:  # a compiler may fail with anything
        return False
    return above_counts.tolist() == [4, 30, 19] and reach_counts.tolist() == [5, 31, 20]


count_all = _gather_first if GATHERS and _is_gathering_correct() else _compare_all
