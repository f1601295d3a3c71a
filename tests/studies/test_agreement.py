"""Agreement of orderings against hand values and scipy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ipseval.errors import InputError
from ipseval.studies.agreement import OrderAgreement, mean_agreement, order_agreement

# Eight recommenders; b swaps the best two and moves the last to third place.
A = {"a": 8.0, "b": 7.0, "c": 6.0, "d": 5.0, "e": 4.0, "f": 3.0, "g": 2.0, "h": 1.0}
B = {"b": 8.0, "a": 7.0, "h": 6.0, "c": 5.0, "d": 4.0, "e": 3.0, "f": 2.0, "g": 1.0}


def test_hand_values_of_eight_recommenders() -> None:
    result = order_agreement(A, B, k=[1, 2, 3, 8])
    # Places in b: a 2, b 1, c 4, d 5, e 6, f 7, g 8, h 3; d² = 1+1+1+1+1+1+1+25 = 32.
    assert result.src == pytest.approx(1 - 6 * 32 / (8 * 63))
    # Inverted: (a, b), and h against c, d, e, f, g.
    assert result.ipc == 6
    assert result.tau_b == pytest.approx(1 - 4 * 6 / (8 * 7))
    assert result.overlap == pytest.approx({1: 0.0, 2: 1.0, 3: 2 / 3, 8: 1.0})
    assert result.n_recommenders == 8


def test_the_same_order_agrees_fully_and_the_reverse_not_at_all() -> None:
    same = order_agreement([3, 2, 1, 0], [30, 20, 10, 5])
    assert (same.src, same.ipc, same.tau_b, same.overlap) == (1.0, 0, 1.0, {1: 1.0, 3: 1.0})
    reverse = order_agreement([3, 2, 1, 0], [0, 1, 2, 3])
    assert (reverse.src, reverse.ipc, reverse.tau_b) == (pytest.approx(-1), 6, pytest.approx(-1))
    assert reverse.overlap[1] == 0


def test_ties_take_average_ranks_and_are_no_inversion() -> None:
    # a: ranks 1.5 1.5 3; b: ranks 1 2 3. Centred products: (-.5)(-1) + (-.5)(0) + 1·1 = 1.5,
    # squares 1.5 and 2: SRC = 1.5/√3. Pairs: one tied in a, two concordant: tau_b = 2/√(2·3).
    result = order_agreement([1, 1, 2], [1, 2, 3], k=[1, 2])
    assert result.src == pytest.approx(1.5 / math.sqrt(3))
    assert result.tau_b == pytest.approx(2 / math.sqrt(6))
    assert result.ipc == 0
    # Top 2 of a: the third and one of the first two at random; of b: the second and third: (1 + 1/2)/2.
    assert result.overlap == pytest.approx({1: 1.0, 2: 0.75})
    assert result.note == "ties in a: or@2 averaged over breaking them at random"


values = st.lists(st.integers(0, 4), min_size=2, max_size=7)


@given(st.data())
def test_overlap_is_the_expectation_over_random_tie_breaking(data: st.DataObject) -> None:
    a = data.draw(st.lists(st.integers(0, 2), min_size=2, max_size=4))
    b = data.draw(st.lists(st.integers(0, 2), min_size=len(a), max_size=len(a)))
    k = data.draw(st.integers(1, len(a)))

    def tops(x: list[int]) -> list[set[int]]:
        orders = itertools.permutations(range(len(x)))
        return [set(sorted(order, key=lambda place: -x[place])[:k]) for order in orders]

    expected = np.mean([len(s & t) / k for s in tops(a) for t in tops(b)])
    assert order_agreement(a, b, k=[k]).overlap[k] == pytest.approx(expected)


@given(st.data())
def test_src_and_tau_agree_with_scipy_on_ties(data: st.DataObject) -> None:
    a = data.draw(values)
    b = data.draw(st.lists(st.integers(0, 4), min_size=len(a), max_size=len(a)))
    result = order_agreement(a, b, k=[])
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert math.isnan(result.src)
        assert math.isnan(result.tau_b)
        return
    assert result.src == pytest.approx(stats.spearmanr(a, b).statistic)
    assert result.tau_b == pytest.approx(stats.kendalltau(a, b, variant="b").statistic)
    pairs = itertools.combinations(range(len(a)), 2)
    assert result.ipc == sum((a[i] - a[j]) * (b[i] - b[j]) < 0 for i, j in pairs)


def test_a_constant_vector_gives_nan_with_the_reason() -> None:
    result = order_agreement([0.5, 0.5, 0.5], [1, 2, 3], k=[1])
    assert math.isnan(result.src)
    assert math.isnan(result.tau_b)
    assert result.ipc == 0
    # The top place of a is anyone's: in one of three cases the best of b.
    assert result.overlap[1] == pytest.approx(1 / 3)
    assert "src and tau_b are NaN: all 3 values of a are equal" in result.note


def test_mappings_and_series_are_matched_by_name() -> None:
    shuffled = dict(sorted(B.items(), key=lambda pair: pair[1]))
    assert order_agreement(A, shuffled).to_dict() == order_agreement(A, B).to_dict()
    assert order_agreement(pd.Series(A), pd.Series(shuffled)).src == order_agreement(A, B).src


def test_default_k_stays_below_the_number_of_recommenders() -> None:
    assert list(order_agreement([1, 2], [1, 2]).overlap) == [1]
    assert list(order_agreement(range(5), range(5)).overlap) == [1, 3]
    assert list(order_agreement(range(6), range(6)).overlap) == [1, 3, 5]


def test_per_user_values_are_ordered_by_their_means_over_known_users() -> None:
    nan = np.nan
    a = [[1.0, nan, 0.0], [0.75, 0.5, nan]]  # means .5, .625
    b = [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    result = order_agreement(a, b, n_resamples=20, rng=0)
    assert (result.src, result.ipc, result.unit, result.n_units) == (pytest.approx(1), 0, "users", 3)


def test_no_difference_between_users_gives_an_interval_of_width_zero() -> None:
    a = np.repeat([[1.0], [2.0], [3.0]], 50, axis=1)
    b = np.repeat([[1.0], [3.0], [2.0]], 50, axis=1)
    result = order_agreement(a, b, n_resamples=50, rng=0)
    assert result.intervals["src"] == pytest.approx((0.5, 0.5))
    assert result.intervals["ipc"] == (1, 1)


def test_user_bootstrap_draws_users_of_both_sides_together() -> None:
    values = np.random.default_rng(0).normal([[0.0], [0.05]], 1, (2, 200))
    together = order_agreement(values, values, n_resamples=200, rng=0)
    assert together.intervals["src"] == pytest.approx((1, 1))


def test_user_bootstrap_agrees_with_the_normal_probability_of_an_inversion() -> None:
    # Two recommenders whose difference has mean δ and standard error s: with b fixed, the share of
    # replicates with an inversion is Φ(-δ/s); it shows in the mean of ipc over replicates, i.e. whether the
    # upper 95 % end is 1.
    rng = np.random.default_rng(1)
    noise = rng.normal(size=400)
    noise = (noise - noise.mean()) / noise.std()
    for z, expected in ((0.5, 1.0), (4.0, 0.0)):
        a = np.stack([np.zeros(400), noise + z / 20])
        b = np.stack([np.zeros(400), np.ones(400)])
        assert order_agreement(a, b, n_resamples=500, rng=0).intervals["ipc"][1] == expected


def test_the_same_seed_gives_the_same_interval() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(5, 30)), rng.normal(size=(5, 30))
    first, second = (order_agreement(a, b, n_resamples=50, rng=9).to_dict() for _ in range(2))
    assert first == second


def test_mean_over_data_sets_is_the_mean_with_an_interval_over_data_sets() -> None:
    sets = [
        order_agreement([1, 2, 3], other) for other in ([1, 2, 3], [1, 3, 2], [3, 2, 1], [2, 1, 3], [1, 2, 3])
    ]
    result = mean_agreement(sets, n_resamples=2000, rng=0)
    assert result.src == pytest.approx((1 + 0.5 - 1 + 0.5 + 1) / 5)
    assert result.ipc == pytest.approx((0 + 1 + 3 + 1 + 0) / 5)
    low, high = result.intervals["src"]
    # Five values with variance .54: standard error .33; 95 % bounds within the range of the values.
    assert -1 <= low < 0.4 < high <= 1
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.54 / 5), rel=0.2)
    assert (result.unit, result.n_units, result.note) == ("data sets", 5, "")


def test_mean_over_data_sets_counts_undefined_ones() -> None:
    sets = [order_agreement([1, 2], [1, 2]), order_agreement([1, 1], [1, 2])]
    result = mean_agreement(sets, rng=0)
    assert result.src == 1.0
    assert "src: 1 of 2 data sets left out (NaN)" in result.note
    assert "2 data sets: the interval says little" in result.note


def test_one_data_set_has_no_interval() -> None:
    result = mean_agreement([order_agreement([1, 2], [1, 2])], rng=0)
    assert dict(result.intervals) == {}
    assert result.note == "one data set: no interval"


def test_results_cannot_be_changed() -> None:
    result = order_agreement([1, 2], [1, 2])
    with pytest.raises(TypeError):
        result.values["src"] = 0.0  # type: ignore[index] - this is what must not work
    assert isinstance(result, OrderAgreement)


BAD_CALLS = {
    "one recommender": (lambda: order_agreement([1], [1]), "at least two recommenders"),
    "other number": (lambda: order_agreement([1, 2], [1, 2, 3]), "a has 2 recommenders and b has 3"),
    "other names": (
        lambda: order_agreement({"x": 1, "y": 2}, {"x": 1, "z": 2}),
        r"1 are only in a \('y'\), 1 only in b \('z'\)",
    ),
    "missing value": (
        lambda: order_agreement({"x": 1.0, "y": float("nan")}, {"x": 1, "y": 2}),
        r"1 of 2 values of a are NaN \('y'\)",
    ),
    "text": (lambda: order_agreement(["x", "y"], [1, 2]), "one number per recommender"),
    "k too large": (lambda: order_agreement([1, 2], [1, 2], k=[3]), "at most the number of recommenders, 2"),
    "k of zero": (lambda: order_agreement([1, 2], [1, 2], k=[0]), "integer >= 1"),
    "means against users": (lambda: order_agreement([1, 2], [[1, 2], [2, 1]]), "both per-user values"),
    "other users": (lambda: order_agreement(np.ones((2, 3)), np.ones((2, 4))), "over the same users"),
    "no replicates": (
        lambda: order_agreement(np.eye(2), np.eye(2), n_resamples=0),
        "n_resamples must be an integer >= 1",
    ),
    "confidence of 95": (
        lambda: order_agreement(np.eye(2), np.eye(2), confidence_level=95),
        r"confidence_level must be in \(0, 1\)",
    ),
    "no data sets": (lambda: mean_agreement([], rng=0), "at least one agreement"),
    "other measures": (
        lambda: mean_agreement(
            [order_agreement([1, 2], [1, 2], k=[1]), order_agreement([1, 2], [1, 2], k=[2])], rng=0
        ),
        "different measures",
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_say_what_was_expected(name: str) -> None:
    call, text = BAD_CALLS[name]
    with pytest.raises(InputError, match=text):
        call()


def test_one_cutoff_needs_no_list_around_it():
    assert order_agreement([1, 2, 3], [3, 2, 1], k=2).overlap == {2: 0.5}
