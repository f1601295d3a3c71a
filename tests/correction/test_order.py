"""The ranking of a correction: leader, choice and challenger, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.inside.correction import (
    MetricOrder,
    choose_recommender,
    compute_challenger_threshold,
    find_challenger,
    find_leader,
    find_strongest_rival,
    find_tied_first,
    least_probability_better,
    least_sample_lead,
    rank_by_aoa,
)

AOA = {"a": 0.3, "b": 0.2, "c": 0.1}


def make_order(
    aoa: dict[str, float] = AOA, p_better: dict[str, float] | None = None, **changes: object
) -> MetricOrder:
    """Return an informed order; `p_better`: "ab" -> P(a better than b), 0.6 for the remaining pairs.

    The random sample has the more probable of two recommenders ahead by two standard errors.
    """
    models = tuple(aoa)
    probabilities = np.full((len(models), len(models)), 0.5)
    for row, model in enumerate(models):
        for column in range(row + 1, len(models)):
            probability = (p_better or {}).get(f"{model}{models[column]}", 0.6)
            probabilities[row, column] = probability
            probabilities[column, row] = 1 - probability
    values = np.array(list(aoa.values()))
    order = MetricOrder(
        metric="recall@10",
        models=models,
        aoa_pooled=values,
        corrected=values / 2,
        ci_low=values / 4,
        ci_high=values,
        expected_regret=np.linspace(0.01, 0.03, len(models)),
        p_better=probabilities,
        is_explained=True,
        sample_lead=2 * np.sign(probabilities - 0.5),
    )
    return replace(order, **changes)


def test_recommenders_are_ranked_by_aoa_and_rounding_keeps_the_given_order():
    assert rank_by_aoa(np.array([0.1, 0.3, 0.2])) == [1, 2, 0]
    assert rank_by_aoa(np.array([0.3 - 1e-15, 0.1, 0.3])) == [0, 2, 1]
    # Twelve decimals are compared.
    assert rank_by_aoa(np.array([0.3 - 4e-13, 0.1, 0.3])) == [0, 2, 1]
    assert rank_by_aoa(np.array([0.3 - 4e-12, 0.1, 0.3])) == [2, 0, 1]


@pytest.mark.parametrize(("probability", "leader"), [(0.96, "a"), (0.95, "a"), (0.949, None)])
def test_a_leader_is_better_than_every_other_recommender_with_95_per_cent(probability, leader):
    order = make_order(p_better={"ab": probability, "ac": 0.99})
    assert find_leader(order) == leader
    assert least_probability_better(order, "a") == probability
    assert find_strongest_rival(order, "a") == "b"
    # One other recommender that is not worse with 95 per cent is enough to name nobody.
    assert find_leader(make_order(p_better={"ab": 0.99, "ac": 0.94})) is None


@pytest.mark.parametrize("missing", [{"sample_lead": None}, {"is_explained": False}])
def test_there_is_no_leader_without_a_random_sample_or_where_the_density_ratio_does_not_explain_exposure(
    missing,
):
    order = make_order(p_better={"ab": 0.99, "ac": 0.99})
    assert find_leader(order) == "a"
    assert find_leader(replace(order, **missing)) is None
    assert choose_recommender(replace(order, **missing)) == "a"


@pytest.mark.parametrize(("lead", "leader"), [(0.5, "a"), (0.49, None), (-0.1, None)])
def test_the_random_sample_itself_has_a_leader_ahead_of_each_other_by_half_a_standard_error(lead, leader):
    leads = np.array([[0.0, 3.0, lead], [-3.0, 0.0, 1.0], [-lead, -1.0, 0.0]])
    order = make_order(p_better={"ab": 0.99, "ac": 0.99}, sample_lead=leads)
    assert least_sample_lead(order, "a") == lead
    assert find_leader(order) == leader


def test_the_lead_in_the_sample_is_undefined_for_one_recommender_and_without_a_sample_below_every_bar():
    assert np.isnan(least_sample_lead(make_order({"a": 0.3}), "a"))
    assert least_sample_lead(make_order(sample_lead=None), "a") == -np.inf


@pytest.mark.parametrize(
    ("n_exposed", "threshold"), [(0, 0.8), (25, 0.725), (50, 0.65), (100, 0.5), (10_000, 0.5)]
)
def test_the_threshold_of_a_challenger_falls_with_the_number_of_exposed_users(n_exposed, threshold):
    assert compute_challenger_threshold(n_exposed) == pytest.approx(threshold)
    above = make_order({"a": 0.3, "b": 0.2}, {"ab": 1 - threshold - 0.001}, n_exposed=n_exposed)
    below = make_order({"a": 0.3, "b": 0.2}, {"ab": 1 - threshold + 0.001}, n_exposed=n_exposed)
    assert (choose_recommender(above), choose_recommender(below)) == ("b", "a")


def test_a_recommender_that_is_as_good_as_the_first_by_aoa_does_not_replace_it():
    assert choose_recommender(make_order({"a": 0.3, "b": 0.2}, {"ab": 0.5}, n_exposed=400)) == "a"


@pytest.mark.parametrize(("probability", "choice"), [(0.21, "a"), (0.2, "b"), (0.19, "b")])
def test_a_challenger_replaces_the_first_by_aoa_from_a_probability_of_80_per_cent_on(probability, choice):
    order = make_order({"a": 0.3, "b": 0.2}, {"ab": probability})
    assert choose_recommender(order) == choice
    assert find_challenger(order) == (None if choice == "a" else choice)
    # The log alone may replace AOA's first, though it names no leader.
    assert choose_recommender(replace(order, sample_lead=None)) == choice


def test_the_most_probable_challenger_is_chosen_and_may_lead():
    order = make_order(p_better={"ab": 0.15, "ac": 0.02, "bc": 0.03})
    assert (choose_recommender(order), find_leader(order)) == ("c", "c")
    order = make_order(p_better={"ab": 0.15, "ac": 0.02, "bc": 0.3})
    assert (choose_recommender(order), find_leader(order)) == ("c", None)


def test_recommenders_with_equal_averages_are_tied_without_a_leader():
    order = make_order({"a": 0.3 + 1e-16, "b": 0.3, "c": 0.1}, {"ab": 0.99, "ac": 0.99})
    assert find_tied_first(order) == ("a", "b")
    assert (choose_recommender(order), find_leader(order)) == ("a", None)
    assert find_tied_first(make_order()) == ()


def test_a_single_recommender_is_the_choice_but_not_a_leader():
    order = make_order({"a": 0.3})
    assert (choose_recommender(order), find_leader(order)) == ("a", None)
    assert np.isnan(least_probability_better(order, "a"))
    assert find_strongest_rival(order, "a") is None


def test_probabilities_and_regrets_are_found_by_name():
    order = make_order(p_better={"bc": 0.7})
    assert order.probability_better("b", "c") == 0.7
    assert order.probability_better("c", "b") == pytest.approx(0.3)
    assert order.get_regret("b") == pytest.approx(0.02)
