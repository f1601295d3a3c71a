"""The bound between a fast product and the exact score: it holds, is no wider than said, is 0 where exact."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.ranking.kernels.blocks import Shape
from tests.inside.ranking import Factors, twins

RNG = np.random.default_rng(0)
SINGLE, DOUBLE = 2.0**-24, 2.0**-53


def made(user, item, bias=None) -> Factors:
    bias = None if bias is None else np.array(bias, dtype=np.float64)
    return Factors.of(np.asarray(user), np.asarray(item), bias, "als")


@pytest.mark.parametrize(
    ("size", "bias", "unit", "n_terms", "scores"),
    [
        (1 / 3, None, SINGLE, 2 + 4, 5 * 10 / 9),  # ‖(1, 4/3)‖ times the largest ‖item‖, of (2, 8/3)
        (1 / 3, [0.5, -7.25], SINGLE, 3 + 4, 5 * 10 / 9 + 7.25),
        (1 / 3, [np.inf, -7.25], SINGLE, 3 + 4, 5 * 10 / 9 + 7.25),
        (1e19, None, 2 * DOUBLE, 2 + 4, 5 * 10 * 1e38),  # above 1e37: in double precision, on both sides
    ],
)
def test_the_bound_is_that_of_inner_products_worked_by_hand(size, bias, unit, n_terms, scores):
    factors = made(size * np.array([[3.0, 4.0], [0.0, 0.0]]), size * np.array([[6.0, 8.0], [0.0, 5.0]]), bias)
    assert factors.fast_item.dtype == (np.float32 if size < 1 else np.float64)
    found, nothing = factors.error_bound(np.array([0, 1]))
    assert n_terms * unit * scores < found < 1.005 * n_terms * unit * scores
    assert nothing == 0.0  # a user of zeros has the bias alone, which single precision holds


def test_products_of_small_whole_numbers_have_no_error():
    factors = made([[3.0, 4.0], [0.0, 0.0]], [[6.0, 8.0], [0.0, 5.0]], [0.5, -7.25])
    assert (factors.error_bound(np.array([0, 1])) == 0).all()


def test_a_bias_that_single_precision_does_not_hold_has_a_bound_of_its_own():
    factors = made(np.zeros((1, 2)), np.ones((2, 2)), [0.1, 2.0])
    assert 7 * SINGLE * 2.0 < factors.error_bound(np.array([0]))[0] < 1.005 * 7 * SINGLE * 2.0
    assert made(np.zeros((1, 2)), np.ones((2, 2)), [0.5, 2.0]).error_bound(np.array([0])) == [0.0]


def test_tiny_products_have_a_bound_for_what_underflows():
    # Both factors, their products and sums round to a multiple of the smallest number, 2 + 4 terms of them. A
    # factor that does so multiplies the other one, of which the largest has length 1.
    factors = made(np.array([[1e-300, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    expected = 6 * 2.0**-126 * (2 + np.sqrt(1.001))
    assert factors.error_bound(np.array([0])) == pytest.approx(expected, rel=1e-6, abs=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e15, 1e25])
def test_no_product_is_farther_from_the_score_than_the_bound(size, dtype):
    user = (size * RNG.normal(size=(20, 6))).astype(dtype)
    item = (size * RNG.normal(size=(50, 6))).astype(dtype)
    with np.errstate(over="ignore"):
        if not (np.isfinite(user).all() and np.isfinite(item).all()):
            pytest.skip("single precision does not hold such factors")
    factors = made(user, item)
    fast = factors.user.astype(factors.fast_item.dtype) @ factors.fast_item.T
    exact = np.array([[sum(map(float, u.astype(np.float64) * v)) for v in item] for u in user])
    bound = factors.error_bound(np.arange(20))
    assert (np.abs(fast - exact) <= bound[:, None]).all()
    assert (bound <= 20 * 2.0**-23 * np.abs(size) ** 2 * 100 + 1e-35).all()


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.float32, np.float64])
def test_factors_are_read_in_single_or_double_precision(dtype):
    factors = made(np.ones((2, 3), dtype=dtype), np.ones((4, 3), dtype=dtype))
    assert factors.user.dtype == (np.float32 if dtype in (np.float16, np.float32) else np.float64)
    assert factors.fast_item.dtype == np.float32
    mixed = made(np.ones((2, 3), dtype=np.float32), np.ones((4, 3), dtype=dtype))
    assert mixed.user.dtype == mixed.item.dtype
    assert (factors.n_items, factors.bias.size) == (4, 0)


def test_factors_are_not_copied_where_products_are_made_of_them_as_they_are():
    single = np.ones((4, 3), dtype=np.float32)
    factors = made(single, single)
    assert np.shares_memory(factors.item, single)
    assert np.shares_memory(factors.fast_item, single)
    double = made(1e20 * np.ones((4, 3)), 1e20 * np.ones((4, 3)))
    assert np.shares_memory(double.fast_item, double.item)


def test_the_shape_of_a_block_says_how_many_numbers_a_row_of_factors_has():
    user, item = np.ones((2, 3)), np.ones((7, 3))
    single = np.dtype(np.float32)
    assert made(user, item).shape(5, 4) == Shape(5, 4, 3, single)
    assert made(user, item, np.zeros(7)).shape(5, 4) == Shape(5, 4, 4, single)  # the bias is one more
    assert made(1e20 * user, 1e20 * item).shape(5, 4) == Shape(5, 4, 3, np.dtype(np.float64))


def test_norms_are_upper_bounds_and_0_only_for_rows_of_zeros():
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e-200, 0.0], [-0.0, 0.0]])
    norms = made(rows, np.ones((1, 2))).user_norm
    assert norms[0] == pytest.approx(5 * 1.001**0.5, rel=1e-12)
    assert (norms[1], norms[3]) == (0.0, 0.0)
    assert norms[2] >= 1e-200
    # Squares that underflow are off by the smallest number each.
    assert norms[2] == pytest.approx((2 * 2.0**-1022) ** 0.5, rel=1e-9, abs=0)
    single = made(np.array([[1e-30, 0.0]], dtype=np.float32), np.ones((1, 2), dtype=np.float32)).user_norm
    assert single[0] == pytest.approx((2 * 2.0**-126) ** 0.5, rel=1e-9, abs=0)


def test_some_items_keep_their_factors_biases_and_norms():
    item, bias = RNG.normal(size=(5, 3)), np.arange(5.0)
    some = made(np.ones((1, 3)), item, bias).subset(np.array([4, 1]))
    np.testing.assert_array_equal(some.item, item[[4, 1]])
    np.testing.assert_array_equal(some.bias, [4.0, 1.0])
    np.testing.assert_array_equal(some.fast_item[:, -1], [4.0, 1.0])
    assert some.item_norm == pytest.approx(np.linalg.norm(item[[4, 1]], axis=1).max(), rel=1e-3)
    assert made(np.ones((1, 3)), item).subset(np.array([2])).bias.size == 0


def test_twins_are_the_items_of_equal_factors_and_bias():
    item = RNG.integers(0, 2, size=(60, 3)).astype(np.float64)
    item[7] = [-0.0, 0.0, 1.0]
    item[8] = [0.0, -0.0, 1.0]
    bias = RNG.integers(0, 2, size=60).astype(float)
    bias[7], bias[8] = 0.0, -0.0
    for column, dtype in ((bias, np.float64), (np.zeros(0), np.float32)):
        found = twins(item.astype(dtype), column)
        rows = item if not column.size else np.column_stack([item, column])
        for one in range(60):
            for two in range(60):
                assert (found[one] == found[two]) == (rows[one] == rows[two]).all()


def test_factors_that_leave_scores_undefined_are_counted():
    with pytest.raises(InputError, match=r"als: user factors: 2 of 4 are NaN or infinite"):
        made([[1.0, np.nan], [np.inf, 1.0]], np.ones((1, 2)))
    with pytest.raises(InputError, match=r"als: item factors: 1 of 2 are NaN or infinite"):
        made(np.ones((1, 2)), [[1.0, -np.inf]])
    with pytest.raises(InputError, match=r"als: 1 of 2 item biases are NaN"):
        made(np.ones((1, 1)), np.ones((2, 1)), [np.nan, 0.0])
    with pytest.raises(InputError, match=r"als: the factors are too large to multiply \(scores up to"):
        made([[1e150]], [[1e151]])
    assert made([[1e148]], [[1e151]]).infinite.size == 0
    assert made([[1.0]], [[1.0], [2.0]], [0.0, -np.inf]).infinite.tolist() == [1]
