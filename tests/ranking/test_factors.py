"""The error bound of a fast product: it is valid, not too wide, and 0 for exact products."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.ranking.candidates import Batch
from ipseval.ranking.kernels import numpy_kernels as _kernels
from tests.inside.ranking import STEP_PART, Factors, common_step

RNG = np.random.default_rng(0)
SINGLE = 2.0**-24
DOUBLE = 2.0**-53


def make_factors(user, item, bias=None) -> Factors:
    bias = None if bias is None else np.array(bias, dtype=np.float64)
    return Factors.from_arrays(np.asarray(user), np.asarray(item), bias, "als")


@pytest.mark.parametrize(
    ("size", "bias", "unit", "n_terms", "scores"),
    [
        (1 / 3, None, SINGLE, 2 + 4, 5 * 10 / 9),  # ‖(1, 4/3)‖ times the largest ‖item‖, of (2, 8/3)
        (1 / 3, [0.5, -7.25], SINGLE, 3 + 4, 5 * 10 / 9 + 7.25),
        (1 / 3, [np.inf, -7.25], SINGLE, 3 + 4, 5 * 10 / 9 + 7.25),
        (1e19, None, 2 * DOUBLE, 2 + 4, 5 * 10 * 1e38),  # above 1e37: in double precision, on both sides
    ],
)
def test_the_error_bound_equals_the_bound_of_inner_products_by_hand(size, bias, unit, n_terms, scores):
    factors = make_factors(
        size * np.array([[3.0, 4.0], [0.0, 0.0]]), size * np.array([[6.0, 8.0], [0.0, 5.0]]), bias
    )
    assert factors.fast_item.dtype == (np.float32 if size < 1 else np.float64)
    bound, zero_bound = factors.error_bound(np.array([0, 1]))
    assert n_terms * unit * scores < bound < 1.005 * n_terms * unit * scores
    assert zero_bound == 0.0  # a user of zeros has the bias alone, which single precision holds


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e15, 1e25])
def test_no_product_is_farther_from_the_score_than_the_bound(size, dtype):
    user = (size * RNG.normal(size=(10, 6))).astype(dtype)
    item = (size * RNG.normal(size=(20, 6))).astype(dtype)
    with np.errstate(over="ignore"):
        if not (np.isfinite(user).all() and np.isfinite(item).all()):
            pytest.skip("single precision does not hold such factors")
    factors = make_factors(user, item)
    fast = factors.user.astype(factors.fast_item.dtype) @ factors.fast_item.T
    exact = np.array([[sum(map(float, u.astype(np.float64) * v)) for v in item] for u in user])
    bound = factors.error_bound(np.arange(10))
    assert (np.abs(fast - exact) <= bound[:, None]).all()
    assert (bound <= 20 * 2.0**-23 * np.abs(size) ** 2 * 100 + 1e-35).all()


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.float32, np.float64])
def test_factors_are_read_in_single_or_double_precision(dtype):
    factors = make_factors(np.ones((2, 3), dtype=dtype), np.ones((4, 3), dtype=dtype))
    assert factors.user.dtype == (np.float32 if dtype in (np.float16, np.float32) else np.float64)
    assert factors.fast_item.dtype == np.float32
    mixed_factors = make_factors(np.ones((2, 3), dtype=np.float32), np.ones((4, 3), dtype=dtype))
    assert mixed_factors.user.dtype == mixed_factors.item.dtype
    assert (factors.n_items, factors.bias.size) == (4, 0)


def test_factors_that_need_no_conversion_are_not_copied():
    matrix = np.ones((4, 3), dtype=np.float32)
    factors = make_factors(matrix, matrix)
    assert np.shares_memory(factors.item, matrix)
    assert np.shares_memory(factors.fast_item, matrix)
    double_factors = make_factors(1e20 * np.ones((4, 3)), 1e20 * np.ones((4, 3)))
    assert np.shares_memory(double_factors.fast_item, double_factors.item)


def test_norms_are_upper_bounds_and_0_only_for_rows_of_zeros():
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e-200, 0.0], [-0.0, 0.0]])
    norms = make_factors(rows, np.ones((1, 2))).user_norm
    assert norms[0] == pytest.approx(5 * 1.001**0.5, rel=1e-12)
    assert (norms[1], norms[3]) == (0.0, 0.0)
    assert norms[2] >= 1e-200
    # Squares that underflow are off by the smallest number each.
    assert norms[2] == pytest.approx((2 * 2.0**-1022) ** 0.5, rel=1e-9, abs=0)
    single_norms = make_factors(
        np.array([[1e-30, 0.0]], dtype=np.float32), np.ones((1, 2), dtype=np.float32)
    ).user_norm
    assert single_norms[0] == pytest.approx((2 * 2.0**-126) ** 0.5, rel=1e-9, abs=0)


def test_a_subset_keeps_the_factors_biases_and_norms_of_its_items():
    item = RNG.normal(size=(5, 3))
    bias = np.arange(5.0)
    subset = make_factors(np.ones((1, 3)), item, bias).subset(np.array([4, 1]))
    np.testing.assert_array_equal(subset.item, item[[4, 1]])
    np.testing.assert_array_equal(subset.bias, [4.0, 1.0])
    np.testing.assert_array_equal(subset.fast_item[:, -1], [4.0, 1.0])
    assert subset.item_norm == pytest.approx(np.linalg.norm(item[[4, 1]], axis=1).max(), rel=1e-3)
    assert make_factors(np.ones((1, 3)), item).subset(np.array([2])).bias.size == 0


def test_factors_that_leave_scores_undefined_are_counted():
    with pytest.raises(InputError, match=r"als: user factors: 2 of 4 are NaN or infinite"):
        make_factors([[1.0, np.nan], [np.inf, 1.0]], np.ones((1, 2)))
    with pytest.raises(InputError, match=r"als: item factors: 1 of 2 are NaN or infinite"):
        make_factors(np.ones((1, 2)), [[1.0, -np.inf]])
    with pytest.raises(InputError, match=r"als: 1 of 2 item biases are NaN"):
        make_factors(np.ones((1, 1)), np.ones((2, 1)), [np.nan, 0.0])
    with pytest.raises(InputError, match=r"als: the factors are too large to multiply \(scores up to"):
        make_factors([[1e150]], [[1e151]])
    assert make_factors([[1e148]], [[1e151]]).infinite.size == 0
    assert make_factors([[1.0]], [[1.0], [2.0]], [0.0, -np.inf]).infinite.tolist() == [1]


LAST = 2.0**24 - 1  # the largest whole number below 2**24


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([1.5, 2.0, 0.0], 0.5),
        ([-3.0, 6.0], 1.0),  # whole numbers: multiples of 3, which is no power of two
        ([96.0, 32.0], 32.0),
        ([0.0, 0.0], np.inf),
        ([], np.inf),
        ([0.1], 0.0),
        ([1.0, LAST], 1.0),
        ([1.0, 2.0**24], 0.0),
        ([0.25, -LAST / 4], 0.25),
        ([0.25, -(2.0**22)], 0.0),
        ([3 * 2.0**-1074], 2.0**-1074),
        ([1.5 * 2.0**1000], 2.0**999),
        (np.append(np.zeros(STEP_PART), 3.0), 1.0),  # a part without a number tells nothing
        (np.append(np.full(STEP_PART, 8.0), [2.0]), 2.0),
        (np.append(np.full(STEP_PART, 1.0), [2.0**24]), 0.0),
    ],
)
def test_a_common_step_exists_while_the_largest_value_is_below_two_to_the_24_steps(values, step):
    assert common_step(np.array(values)) == step
    assert common_step(np.array(values).reshape(-1, 1)) == step


@pytest.mark.parametrize(("exponent", "step"), [(-49, 2.0**-99), (-50, 0.0), (-51, 0.0), (0, 2.0**-50)])
def test_steps_of_scores_exist_above_two_to_the_minus_100(exponent, step):
    assert Factors.from_arrays(np.array([[2.0**exponent]]), np.array([[2.0**-50]]), None, "m").step == step


def test_the_step_of_scores_is_at_most_the_step_of_the_bias():
    user = np.array([[2.0]])
    item = np.array([[4.0], [8.0]])
    for bias, step in (([0.5, 3.0], 0.5), ([16.0, 32.0], 8.0), ([0.0, 0.0], 8.0), ([-np.inf, 0.5], 0.5)):
        assert Factors.from_arrays(user, item, np.array(bias), "m").step == step
    assert Factors.from_arrays(user, item, None, "m").step == 8.0
    assert Factors.from_arrays(np.zeros((1, 1)), item, None, "m").step == 0.0  # all scores are 0


def test_products_are_exact_below_two_to_the_24_steps():
    # The norm is an upper bound, √1.001 as long as the row for each of the two.
    for size, is_exact in ((2.0**24 / 1.0011, True), (2.0**24 / 1.0009, False)):
        value = 2 * float(int(size / 2)) + 1
        factors = Factors.from_arrays(np.array([[1.0]]), np.array([[value]]), None, "m")
        assert factors.step == 1.0
        assert (factors.error_bound(np.array([0])) == 0.0).tolist() == [is_exact]


def test_the_error_bound_of_tiny_products_includes_underflow():
    # Both factors, their products and sums round to a multiple of the smallest number, 2 + 4 terms of them. A
    # factor that does so multiplies the other one, of which the largest has length 1.
    bound = make_factors([[1e-300, 0.0]], [[1.0, 0.0], [0.0, 1.0]]).error_bound(np.array([0]))
    assert bound == pytest.approx(6 * 2.0**-126 * (2 + np.sqrt(1.001)), rel=1e-6, abs=0)
    item = [[1e-300, 0.0], [0.0, 1e-300], [1e20, 0.0]]  # of a range that needs double precision
    factors = make_factors([[1e-300, 0.0], [1e20, 0.0]], item).subset(np.array([0, 1]))
    assert factors.error_bound(np.array([0])) == pytest.approx(6 * 2.0**-1022 * 2, rel=1e-6, abs=0)


def test_bounds_are_rounded_outwards_unless_products_are_exact():
    factors = Factors.from_arrays(np.ones((1, 1)), np.ones((1, 1)), None, "m")
    lo, hi = factors._bounds_of_close_products(np.array([1.0, 1.0, 1e39]), np.array([0.0, 1e-12, 1.0]))
    unit = np.float32(1.0)
    assert (lo.dtype, hi.dtype) == (np.float32, np.float32)
    assert lo[:2].tolist() == [1.0, np.nextafter(unit, np.float32(-np.inf))]
    assert hi[:2].tolist() == [1.0, np.nextafter(unit, np.float32(np.inf))]
    assert lo[2] == np.finfo(np.float32).max  # beyond single precision, as the products are
    assert hi[2] == np.inf


@pytest.mark.parametrize(("bias", "is_exact"), [(0.5, True), (0.1, False), (0.7, False), (-np.inf, True)])
def test_a_bias_that_single_precision_rounds_has_an_error_bound(bias, is_exact):
    bound = make_factors(np.zeros((1, 2)), np.ones((2, 2)), [bias, 2.0]).error_bound(np.array([0]))[0]
    assert bound == 0.0 if is_exact else 7 * SINGLE * 2.0 < bound < 1.005 * 7 * SINGLE * 2.0


@pytest.mark.parametrize("bias", [None, np.array([0.5, -np.inf, 2.0])])
def test_a_block_begins_with_the_scores_of_its_positives_and_counts_of_zero(bias):
    user = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    item = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    factors = Factors.from_arrays(user, item, bias, "m")
    # Users 0 and 2: positives 0, 2 and 0; training items 1 and 1, 2.
    batch = Batch(*(np.array(values) for values in ([0, 2], [0, 2, 3], [0, 2, 0], [0, 1, 3], [1, 1, 2])), 0)
    exact = factors.exact(batch, _kernels)
    assert exact.tolist() == ([1.0, 3.0, 5.0] if bias is None else [1.5, 5.0, 5.5])
    block = factors.block(batch, exact)
    assert block.user.tolist() == user[[0, 2]].tolist()
    bias_factor = [] if bias is None else [1.0]  # the bias is a factor of the item that every user reads once
    assert block.fast_user.tolist() == [[*row, *bias_factor] for row in user[[0, 2]].tolist()]
    assert (block.start.tolist(), block.item.tolist(), block.exact.tolist()) == (
        [0, 2, 3],
        [0, 2, 0],
        exact.tolist(),
    )
    assert (block.pointer.tolist(), block.excluded_start.tolist()) == ([0, 1], [0, 1, 3])
    assert (block.lo.tolist(), block.hi.tolist()) == (exact.tolist(), exact.tolist())
    assert (block.n_above.tolist(), block.n_tied.tolist()) == ([0, 0, 0], [0, 0, 0])


@pytest.mark.parametrize(("bias", "dtype"), [(1e36, np.float32), (-1e38, np.float64), (np.inf, np.float32)])
def test_a_bias_beyond_single_precision_is_read_in_double(bias, dtype):
    assert (
        Factors.from_arrays(np.ones((1, 1)), np.ones((2, 1)), np.array([0.0, bias]), "m").fast_item.dtype
        == dtype
    )
