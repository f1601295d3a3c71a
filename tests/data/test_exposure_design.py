"""Inclusion probabilities by enumeration, unbiased totals, and the checks of the answers to an allocation."""

from __future__ import annotations

import warnings
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import InputError, RandomExposure
from ipseval.data.exposure_design import compute_inclusion_probability
from ipseval.data.interactions import Interactions
from ipseval.errors import DataWarning

SIZES = [(5, 2, 3), (6, 3, 4), (6, 1, 4), (5, 0, 2), (4, 2, 6), (5, 5, 3), (5, 4, 1)]  # n, L, m


def enumerate_draws(n_candidates: int, n_listed: int, n_slots: int) -> dict[frozenset[int], float]:
    """Return the probability of every set of shown items; the first items are listed."""
    n_listed_slots = min(n_slots // 2, n_listed)
    draws: dict[frozenset[int], float] = {}
    listed_draws = list(combinations(range(n_listed), n_listed_slots))
    for listed_items in listed_draws:
        remaining = [item for item in range(n_candidates) if item not in listed_items]
        n_remaining = min(n_slots - n_listed_slots, len(remaining))
        remaining_draws = list(combinations(remaining, n_remaining))
        for items in remaining_draws:
            shown = frozenset(listed_items) | frozenset(items)
            probability = 1 / len(listed_draws) / len(remaining_draws)
            draws[shown] = draws.get(shown, 0) + probability
    return draws


def probability_by_formula(n_candidates, n_listed, n_slots, n_draws=1):
    return compute_inclusion_probability(
        np.arange(n_candidates) < n_listed,
        n_slots=np.array(n_slots),
        n_listed=np.array(n_listed),
        n_candidates=np.array(n_candidates),
        n_draws=n_draws,
    )


@pytest.mark.parametrize(("n_candidates", "n_listed", "n_slots"), SIZES)
def test_inclusion_probabilities_equal_the_enumeration_of_all_draws(n_candidates, n_listed, n_slots):
    draws = enumerate_draws(n_candidates, n_listed, n_slots)
    assert sum(draws.values()) == pytest.approx(1)
    expected = np.zeros(n_candidates)
    for shown, probability in draws.items():
        expected[list(shown)] += probability
    found = probability_by_formula(n_candidates, n_listed, n_slots)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.sum() == pytest.approx(min(n_slots, n_candidates))


@pytest.mark.parametrize(("n_candidates", "n_listed", "n_slots"), SIZES)
def test_two_batches_have_the_inclusion_probabilities_of_all_pairs_of_draws(n_candidates, n_listed, n_slots):
    draws = enumerate_draws(n_candidates, n_listed, n_slots)
    expected = np.zeros(n_candidates)
    for (first, first_probability), (second, second_probability) in product(draws.items(), draws.items()):
        expected[list(first | second)] += first_probability * second_probability
    found = probability_by_formula(n_candidates, n_listed, n_slots, n_draws=2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("n_batches", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_totals_with_inverse_probabilities_are_unbiased_over_all_draws(n_batches):
    n_candidates, n_listed, n_slots = 6, 3, 4
    is_liked = np.array([1, 0, 1, 0, 1, 1])
    value = np.array([0.9, 0.1, 0.4, 0.3, 0.0, 0.7])
    ids = make_ids(1, n_candidates)
    draws = enumerate_draws(n_candidates, n_listed, n_slots)
    probability = probability_by_formula(n_candidates, n_listed, n_slots, n_draws=n_batches)
    total = 0.0
    count = 0.0
    for batches in product(draws.items(), repeat=n_batches):
        shown = sorted(frozenset.union(*(items for items, _ in batches)))
        answers = pd.DataFrame({"user": 0, "item": shown, "positive": is_liked[shown]})
        answers["pi"] = probability[shown]
        exposure = RandomExposure.from_frame(answers, ids, inclusion_probability="pi")
        chance = np.prod([draw_probability for _, draw_probability in batches])
        weighted_likes = exposure.weight * exposure.positive
        total += chance * float(weighted_likes @ value[exposure.item])
        count += chance * float(weighted_likes.sum())
    assert total == pytest.approx(float(is_liked @ value), rel=1e-12)
    assert count == pytest.approx(is_liked.sum(), rel=1e-12)


def make_ids(n_users: int, n_items: int) -> Interactions:
    no_codes = np.zeros(0, dtype=int)
    return Interactions(no_codes, no_codes, np.arange(n_users), np.arange(n_items))


@pytest.fixture(name="world", scope="module")
def fixture_world():
    world = ipseval.simulation.World(n_users=60, n_items=40, mean_relevant=8, rng=1)
    split = world.split(rng=2)
    examples = world.example_models(split, rng=3)
    return split, {"popular": examples["popular"], "appeal": examples["appeal"]}


@pytest.fixture(name="allocation", scope="module")
def fixture_allocation(world):
    split, models = world
    return ipseval.plan_exposure(
        design="lists", models=models, split=split, n_users=12, n_items=8, depth=5, rng=0
    )


def answer(allocation: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of an allocation with an answer each."""
    positive = (allocation["user"] + allocation["item"]) % 3 == 0
    return allocation[["user", "item"]].assign(positive=positive.astype(int))


def test_answers_in_any_order_give_the_weights_of_the_allocation(world, allocation):
    split, _ = world
    answers = answer(allocation)
    shuffled = answers.sample(frac=1, random_state=0)
    exposure = RandomExposure.from_frame(shuffled, split, inclusion_probability=allocation)
    np.testing.assert_array_equal(exposure.weight, 1 / allocation["inclusion_probability"])
    np.testing.assert_array_equal(exposure.positive, answers["positive"] == 1)
    assert exposure.is_designed
    one_file = allocation.assign(positive=answers["positive"])
    same = RandomExposure.from_frame(one_file, split, inclusion_probability="inclusion_probability")
    np.testing.assert_array_equal(same.weight, exposure.weight)
    assert exposure.select(exposure.positive).is_designed


def test_a_file_in_which_probabilities_are_rounded_is_read(world, allocation):
    split, _ = world
    rounded = allocation.assign(inclusion_probability=allocation["inclusion_probability"].round(6))
    exposure = RandomExposure.from_frame(answer(allocation), split, inclusion_probability=rounded)
    assert len(exposure) == len(allocation)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.assign(inclusion_probability=0.0), r"must be in \(0, 1\]"),
        (lambda table: table.assign(inclusion_probability=1.5), r"must be in \(0, 1\]"),
        (lambda table: table.assign(inclusion_probability=0.31), "must add up to the slots of each user"),
        (lambda table: table.assign(n_listed=table["n_listed"] + 1), "must add up to the slots of each user"),
        (lambda table: table.iloc[1:], "are not in the allocation"),
        (
            lambda table: table.drop(columns="inclusion_probability"),
            "must have a column 'inclusion_probability'",
        ),
        (lambda table: pd.DataFrame(table.to_numpy()), "must have a column 'user'; got the columns 0, 1, 2"),
        (lambda table: 3, "must be a data frame"),
    ],
)
def test_allocations_that_do_not_fit_the_answers_raise_an_error(world, allocation, change, message):
    split, _ = world
    with pytest.raises(InputError, match=message):
        RandomExposure.from_frame(answer(allocation), split, inclusion_probability=change(allocation))


def test_an_allocation_without_a_row_and_without_its_answer_is_found_by_the_number_of_slots(
    world, allocation
):
    split, _ = world
    with pytest.raises(InputError, match="must hold all slots of each user"):
        RandomExposure.from_frame(
            answer(allocation.iloc[1:]), split, inclusion_probability=allocation.iloc[1:]
        )


def test_pairs_that_were_never_allocated_raise_an_error_that_names_one(world, allocation):
    split, _ = world
    answers = answer(allocation)
    first_user = allocation["user"].iloc[0]
    shown = set(allocation.loc[allocation["user"] == first_user, "item"])
    item = min(set(range(40)) - shown)
    extra = pd.DataFrame({"user": [first_user], "item": [item], "positive": [1]})
    with pytest.raises(InputError, match=rf"user {first_user}, item {item}\)"):
        RandomExposure.from_frame(pd.concat([answers, extra]), split, inclusion_probability=allocation)


def test_missing_answers_raise_an_error_or_leave_out_whole_users(world, allocation):
    split, _ = world
    answers = answer(allocation)
    incomplete = answers.iloc[1:]
    with pytest.raises(InputError, match="1 of 96 allocated pairs of 1 user have no answer"):
        RandomExposure.from_frame(incomplete, split, inclusion_probability=allocation)
    exposure = RandomExposure.from_frame(incomplete, split, inclusion_probability=allocation, missing="drop")
    assert (len(exposure), exposure.n_unanswered) == (88, 1)
    assert allocation["user"].iloc[0] not in exposure.user
    empty_cells = answers.astype({"positive": "Float64"})
    empty_cells.loc[0, "positive"] = pd.NA
    same = RandomExposure.from_frame(empty_cells, split, inclusion_probability=allocation, missing="drop")
    np.testing.assert_array_equal(same.pair_key, exposure.pair_key)
    with pytest.raises(InputError, match="missing must be left out"):
        RandomExposure.from_frame(answers, split, missing="drop")


def test_own_probabilities_that_do_not_add_up_to_the_candidates_raise_a_warning(world):
    split, _ = world
    uniform = ipseval.plan_exposure(design="uniform", split=split, n_users=20, n_items=8, rng=0)
    answers = answer(uniform).assign(pi=uniform["inclusion_probability"])
    RandomExposure.from_frame(answers, split, inclusion_probability="pi")
    with pytest.warns(DataWarning, match="do not add up"):
        RandomExposure.from_frame(answers.assign(pi=answers["pi"] / 2), split, inclusion_probability="pi")


@pytest.mark.parametrize(
    ("inverse", "is_noted"),
    [
        ([20.5, 21.4], False),  # 4.75% more than 20 candidates
        ([21.0, 21.2], True),  # 5.5% more, with z = 11
        ([10.0, 50.0], False),  # 50% more, with z = 0.5
        ([21.0, 24.9], False),  # 14.75% more, with z = 1.5
        ([24.0, 22.0, 24.0, 22.0], True),  # 15% more, with z = 5.2
        ([24.0, 20.9, 24.0, 20.9], False),  # 12.25% more, with z = 2.7
        ([18.0, 18.2], True),
        ([19.2, 19.3], False),
        ([60.0], False),  # of a single user there is no error
    ],
)
def test_totals_of_probabilities_are_noted_above_five_per_cent_and_four_standard_errors(inverse, is_noted):
    n_users = len(inverse)
    ids = make_ids(n_users, 21)
    train = Interactions(np.arange(n_users), np.full(n_users, 20), ids.user_ids, ids.item_ids)
    test = Interactions(np.array([0]), np.array([0]), ids.user_ids, ids.item_ids)
    answers = pd.DataFrame({"user": range(n_users), "item": 1, "positive": 1, "pi": 1 / np.array(inverse)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RandomExposure.from_frame(answers, ipseval.Split(train, test), inclusion_probability="pi")
    assert len(caught) == is_noted
    if is_noted:
        mean = np.mean(inverse)
        assert f"is {mean:,.1f} on average, and a user has 20.0 items outside" in str(caught[0].message)


@pytest.mark.parametrize(("factor", "is_read"), [(1 + 9e-5, True), (1 - 9e-5, True), (1 + 1.1e-4, False)])
def test_probabilities_may_be_rounded_by_a_ten_thousandth(world, allocation, factor, is_read):
    split, _ = world
    rounded = allocation["inclusion_probability"].where(
        allocation.index > 0, allocation["inclusion_probability"] * factor
    )
    changed = allocation.assign(inclusion_probability=rounded.clip(upper=1))
    if is_read:
        exposure = RandomExposure.from_frame(answer(allocation), split, inclusion_probability=changed)
        np.testing.assert_array_equal(exposure.weight, 1 / changed["inclusion_probability"])
        return
    design = allocation.iloc[0]
    with pytest.raises(InputError, match="1 of 96 entries do not") as error:
        RandomExposure.from_frame(answer(allocation), split, inclusion_probability=changed)
    assert f"where {design['n_slots']} slots, {design['n_listed']} listed items" in str(error.value)


def test_rows_of_a_user_are_between_one_draw_and_all_draws_of_all_candidates():
    """Three candidates, two slots: two rows in one draw, two or three in two draws."""
    ids = make_ids(1, 3)
    table = pd.DataFrame({"user": 0, "item": [0, 1, 2], "n_slots": 2, "n_listed": 0, "n_candidates": 3})
    for n_draws, n_rows, is_read in (
        (1, 2, True),
        (1, 3, False),
        (1, 1, False),
        (2, 3, True),
        (2, 2, True),
        (2, 1, False),
    ):
        rows = table.iloc[:n_rows].assign(
            is_listed=False, n_draws=n_draws, inclusion_probability=1 - (1 / 3) ** n_draws, positive=0
        )
        if is_read:
            exposure = RandomExposure.from_frame(rows, ids, inclusion_probability="inclusion_probability")
            assert len(exposure) == n_rows
            continue
        with pytest.raises(InputError, match=f"user 0: {n_rows} rows of 2 slots"):
            RandomExposure.from_frame(rows, ids, inclusion_probability="inclusion_probability")
    full = table.assign(is_listed=False, n_draws=1, n_slots=5, inclusion_probability=1.0, positive=[0, 1, 0])
    assert len(RandomExposure.from_frame(full, ids, inclusion_probability="inclusion_probability")) == 3


def test_errors_name_the_first_row_that_is_wrong():
    ids = make_ids(3, 3)
    design = {"n_slots": 1, "n_listed": 0, "n_candidates": 3, "n_draws": 1, "is_listed": False}
    allocation = pd.DataFrame({"user": [0, 1, 2], "item": [0, 1, 2], "inclusion_probability": 1 / 3} | design)
    answers = pd.DataFrame({"user": [0, 1, 2], "item": [0, 1, 2], "positive": [1, 0, 1]})
    probability = "inclusion_probability"
    for changed, table, message in (
        (answers.assign(positive=["yes", "no", "no"]), allocation, "truth values; got 'yes'. Convert them"),
        (
            answers.assign(item=[0, 2, 1]),
            allocation,
            "2 of 3 rows are not in the allocation (e.g. user 1, item 2)",
        ),
        (answers[:1], allocation, "2 of 3 allocated pairs of 2 users have no answer (e.g. user 1, item 1)"),
        (answers, allocation.assign(**{probability: [1, 1.5, -2]}), "2 of 3 entries are not (e.g. 1.5)"),
        (
            answers,
            allocation.assign(**{probability: [1 / 3, 0.5, 0.25]}),
            "2 of 3 entries do not (e.g. 0.5, where",
        ),
        (answers.drop(columns="item"), allocation, "a column 'item'; got the columns user, positive. Add"),
    ):
        with pytest.raises(InputError) as error:
            RandomExposure.from_frame(changed, ids, inclusion_probability=table)
        assert message in str(error.value)
    rows = pd.DataFrame(
        {"user": [0, 1, 1, 2, 2], "item": [0, 0, 1, 0, 1], "positive": 0, probability: 1 / 3} | design
    )
    with pytest.raises(
        InputError, match=r"2 users have another number of rows \(e\.g\. user 1: 2 rows of 1 slots\)"
    ):
        RandomExposure.from_frame(rows, ids, inclusion_probability=probability)
