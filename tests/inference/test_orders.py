"""Rankings of recommenders by rows of values, and measures of their agreement, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.inference.orders import RowOrders, compute_agreement

# The second row has a tie of three, and the third row ties all four.
VALUES = np.array([[0.1, 0.4, 0.2, 0.3], [2.0, 1.0, 1.0, 1.0], [5.0, 5.0, 5.0, 5.0]])


def test_each_row_is_ranked_by_itself():
    orders = RowOrders.from_values(VALUES)
    assert orders.above.tolist() == [[3, 0, 2, 1], [0, 1, 1, 1], [0, 0, 0, 0]]
    assert orders.tied.tolist() == [[1, 1, 1, 1], [1, 3, 3, 3], [4, 4, 4, 4]]
    # Of the pairs 01, 02, 03, 12, 13, 23.
    assert orders.sign.tolist() == [[-1, -1, -1, 1, 1, -1], [1, 1, 1, 0, 0, 0], [0] * 6]
    assert orders.best.tolist() == [1, 0, 0]
    # Average ranks 4, 1, 3, 2; 1 and three of 3; all 2.5: minus their mean of 2.5.
    assert orders.centred_ranks.tolist() == [[1.5, -1.5, 0.5, -0.5], [-1.5, 0.5, 0.5, 0.5], [0.0] * 4]
    assert repr(orders) == "RowOrders(3 rows of 4 recommenders)"


def test_a_vector_is_one_row():
    orders = RowOrders.from_values(VALUES[0])
    assert orders.above.tolist() == [[3, 0, 2, 1]]
    assert repr(RowOrders.from_values(np.ones(1))) == "RowOrders(1 row of 1 recommender)"


@pytest.mark.parametrize(
    ("k", "probability"),
    [
        (1, [[0, 1, 0, 0], [1, 0, 0, 0], [1 / 4] * 4]),
        (2, [[0, 1, 0, 1], [1, 1 / 3, 1 / 3, 1 / 3], [1 / 2] * 4]),
        (3, [[0, 1, 1, 1], [1, 2 / 3, 2 / 3, 2 / 3], [3 / 4] * 4]),
        (4, [[1] * 4] * 3),
    ],
)
def test_the_probability_to_be_among_the_best_with_random_tie_breaking(k, probability):
    np.testing.assert_allclose(RowOrders.from_values(VALUES).in_top(k), probability)


@pytest.mark.parametrize(("gap", "sign"), [(0.9e-12, 0), (1.1e-12, 1), (-0.9e-12, 0), (-1.1e-12, -1)])
@pytest.mark.parametrize("unit", [1.0, -1.0, 1e6])
def test_differences_of_a_millionth_of_a_millionth_are_rounding(gap, sign, unit):
    orders = RowOrders.from_values(np.array([unit * (1 + gap), unit]))
    assert orders.sign.tolist() == [[sign * int(np.sign(unit))]]
    assert orders.tied.tolist() == [[2 - abs(sign)] * 2]


def test_measures_of_agreement_of_each_row():
    # Of the second rankings the pairs 01, 02, 03, 12, 13, 23 have the signs below.
    second_values = np.array([[0.1, 0.3, 0.4, 0.2], [4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
    signs = [[-1, -1, -1, -1, 1, 1], [1] * 6, [-1] * 6]
    assert RowOrders.from_values(second_values).sign.tolist() == signs
    agreement = compute_agreement(
        RowOrders.from_values(VALUES), RowOrders.from_values(second_values), [1, 2, 4]
    )
    assert list(agreement) == ["or@1", "or@2", "or@4", "src", "ipc", "tau_b"]
    # The best two are {1, 3} and {1, 2}; 0 with a third of each of the others, and {0, 1}; all with chance ½.
    assert agreement["or@1"].tolist() == [0, 1, 0.25]
    np.testing.assert_allclose(agreement["or@2"], [1 / 2, (1 + 1 / 3) / 2, 1 / 2])
    assert agreement["or@4"].tolist() == [1, 1, 1]
    # Ranks 4, 1, 3, 2 and 4, 2, 1, 3: Σd² = 6, and 1 − 6 · 6/(4 · 15). In the second row the centred ranks
    # −1.5, 0.5, 0.5, 0.5 and −1.5, −0.5, 0.5, 1.5 have the products 2.25 + 0.75, and the squares 3 and 5.
    np.testing.assert_allclose(agreement["src"], [0.4, 3 / np.sqrt(15), np.nan])
    assert agreement["ipc"].tolist() == [2, 0, 0]
    np.testing.assert_allclose(agreement["tau_b"], [(4 - 2) / 6, 3 / np.sqrt(3 * 6), np.nan])


def test_cutoffs_of_agreement_are_checked():
    orders = RowOrders.from_values(VALUES)
    with pytest.raises(InputError, match="k must be at most the number of recommenders, 4; got 5"):
        compute_agreement(orders, orders, [1, 5, 2])
    with pytest.raises(InputError, match="k must be an integer >= 1; got 0"):
        compute_agreement(orders, orders, [0])
    assert list(compute_agreement(orders, orders, [])) == ["src", "ipc", "tau_b"]
    single_order = RowOrders.from_values(np.ones((2, 1)))
    for cutoffs in ([1], []):
        assert np.isnan(compute_agreement(single_order, single_order, cutoffs)["src"]).all()
