"""Common steps, bounds of tiny products, and the block that a pass begins with, at their edges."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.ranking.kernels import numpy_kernels as _kernels
from ipseval.ranking.kernels.blocks import Batch
from tests.inside.ranking import STEP_PART, Factors, common_step

LAST = 2.0**24 - 1  # the largest whole number below 2**24


@pytest.mark.parametrize(
    ("values", "step"),
    [
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
def test_a_common_step_is_of_use_while_the_largest_value_of_a_part_is_below_two_to_the_24_steps(values, step):
    assert common_step(np.array(values)) == step
    assert common_step(np.array(values).reshape(-1, 1)) == step


@pytest.mark.parametrize(("exponent", "step"), [(-49, 2.0**-99), (-50, 0.0), (-51, 0.0), (0, 2.0**-50)])
def test_steps_of_scores_are_of_use_above_two_to_the_minus_100(exponent, step):
    assert Factors.of(np.array([[2.0**exponent]]), np.array([[2.0**-50]]), None, "m").step == step


def test_scores_of_zero_have_no_step():
    assert Factors.of(np.zeros((1, 2)), np.ones((1, 2)), None, "m").step == 0.0


def test_the_step_of_scores_is_that_of_the_bias_where_it_is_smaller():
    user, item = np.array([[2.0]]), np.array([[4.0], [8.0]])
    for bias, step in (([0.5, 3.0], 0.5), ([16.0, 32.0], 8.0), ([0.0, 0.0], 8.0), ([-np.inf, 0.5], 0.5)):
        assert Factors.of(user, item, np.array(bias), "m").step == step
    assert Factors.of(user, item, None, "m").step == 8.0


def test_products_are_exact_below_two_to_the_24_steps():
    # The norm is an upper bound, √1.001 as long as the row for each of the two.
    for size, is_exact in ((2.0**24 / 1.0011, True), (2.0**24 / 1.0009, False)):
        whole = 2 * float(int(size / 2)) + 1
        factors = Factors.of(np.array([[1.0]]), np.array([[whole]]), None, "m")
        assert factors.step == 1.0
        assert (factors.error_bound(np.array([0])) == 0.0).tolist() == [is_exact]


def test_tiny_products_in_double_precision_have_a_bound_for_what_underflows():
    item = np.array([[1e-300, 0.0], [0.0, 1e-300]])
    factors = Factors.of(
        np.array([[1e-300, 0.0], [1e20, 0.0]]), np.append(item, [[1e20, 0.0]], axis=0), None, "m"
    )
    found = factors.subset(np.array([0, 1])).error_bound(np.array([0]))
    assert found == pytest.approx(6 * 2.0**-1022 * 2, rel=1e-6, abs=0)


def test_bounds_of_products_are_rounded_outwards_and_those_of_exact_ones_not_at_all():
    factors = Factors.of(np.ones((1, 1)), np.ones((1, 1)), None, "m")
    lo, hi = factors._window(np.array([1.0, 1.0, 1e39]), np.array([0.0, 1e-12, 1.0]))
    one = np.float32(1.0)
    assert (lo.dtype, hi.dtype) == (np.float32, np.float32)
    assert lo[:2].tolist() == [1.0, np.nextafter(one, np.float32(-np.inf))]
    assert hi[:2].tolist() == [1.0, np.nextafter(one, np.float32(np.inf))]
    assert lo[2] == np.finfo(np.float32).max  # beyond single precision, as the products are
    assert hi[2] == np.inf


@pytest.mark.parametrize("bias", [None, np.array([0.5, -np.inf, 2.0])])
def test_a_block_begins_with_the_scores_of_its_positives_and_nothing_counted(bias):
    user, item = (
        np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    )
    factors = Factors.of(user, item, bias, "m")
    # Users 0 and 2: positives 0, 2 and 0; training items 1 and 1, 2.
    batch = Batch(*(np.array(one) for one in ([0, 2], [0, 2, 3], [0, 2, 0], [0, 1, 3], [1, 1, 2])), 0)
    exact = factors.exact(batch, _kernels)
    assert exact.tolist() == ([1.0, 3.0, 5.0] if bias is None else [1.5, 5.0, 5.5])
    block = factors.block(batch, exact)
    assert block.user.tolist() == user[[0, 2]].tolist()
    ones = [] if bias is None else [1.0]  # the bias is a factor of the item that every user reads once
    assert block.fast_user.tolist() == [[*row, *ones] for row in user[[0, 2]].tolist()]
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
    assert Factors.of(np.ones((1, 1)), np.ones((2, 1)), np.array([0.0, bias]), "m").fast_item.dtype == dtype


@pytest.mark.parametrize(("bias", "is_exact"), [(0.5, True), (0.1, False), (0.7, False), (-np.inf, True)])
def test_a_bias_is_exact_where_single_precision_neither_rounds_it_up_nor_down(bias, is_exact):
    factors = Factors.of(np.zeros((1, 1)), np.ones((2, 1)), np.array([0.0, bias]), "m")
    assert factors.bias_is_exact == is_exact
    assert (factors.error_bound(np.array([0])) == 0.0).tolist() == [is_exact]
