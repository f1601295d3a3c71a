"""Limits of the checks of columns: times, levels of ratings, scores that are ranks, and columns of lists."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import DataWarning
from tests.inside.data import (
    ColumnTraits,
    check_assignment,
    check_ranks,
    check_scores,
    check_unread_outcomes,
    find_rating_scale,
    format_rows,
    means_ratings,
    text_holds_lists,
)


@pytest.mark.parametrize(
    ("numbers", "is_time"),
    [
        (["631152000", "2051222399"], True),
        (["631151999", "2051222399"], False),
        (["631152000", "2051222400"], False),
        (["631152000000", "2051222399999"], True),
        (["631151999999"], False),
        (["631152000000000", "2051222399999999"], True),
        (["2051222400000000"], False),
        (["631152000000000000", "2051222399999999000"], True),
        (["631152000", "631152000000"], False),
        (["2026-03-01", "2026-03-01T12:00", "1/2/26", "12:05", "12:05:31"], True),
        (["2026-03-01", ""], True),
        (["2026-03-01", "first"], False),
        ([""], False),
    ],
)
def test_times_are_dates_or_numbers_between_1990_and_2035_in_a_unit(numbers, is_time):
    assert ColumnTraits.from_cells(numbers).is_time is is_time


def test_traits_follow_from_the_filled_cells():
    traits = ColumnTraits.from_cells(["1", "2.5", "2.5", ""])
    assert traits.is_number
    assert traits.is_fraction
    assert traits.has_repeats
    assert traits.is_small
    assert not traits.is_constant
    assert not ColumnTraits.from_cells(["1", "2"]).is_fraction
    assert not ColumnTraits.from_cells(["1", "2", "", ""]).has_repeats
    assert ColumnTraits.from_cells(["5", "5"]).is_constant
    assert not ColumnTraits.from_cells(["5"]).is_constant
    text = ColumnTraits.from_cells(["1", "a"])
    assert not text.is_number
    assert not text.is_small
    nothing = ColumnTraits.from_cells(["", ""])
    assert not nothing.is_number
    assert not nothing.is_small


@pytest.mark.parametrize(
    ("levels", "is_small"),
    [(range(-10, 11), True), (np.arange(22) / 4, False), ((1, 11), False), ((-11, 1), False)],
)
def test_ratings_have_at_most_21_levels_up_to_10(levels, is_small):
    assert ColumnTraits.from_cells([str(level) for level in levels]).is_small is is_small


ROLES = {
    "times": (["2026-03-01", "2026-03-02"], {"timestamp"}, {"timestamp"}),
    "ids that repeat": (["100", "100", "7"], {"user", "item", "value"}, {"user", "item"}),
    "small numbers that repeat": (["1", "1", "2"], {"user", "item", "value"}, {"user", "item", "value"}),
    "other ids": (["100", "200"], {"user", "item", "value"}, set()),
    "words that repeat": (["a", "a", "b"], {"user", "item"}, {"user", "item"}),
    "fractions": (["0.5", "0.5", "1"], {"value"}, {"value"}),
    "a constant": (["a", "a"], {"user", "item"}, set()),
    "a small constant": (["1", "1"], {"user", "item", "value"}, {"value"}),
}


@pytest.mark.parametrize(("cells", "possible", "typical"), ROLES.values(), ids=ROLES)
def test_columns_can_be_and_fit_these_roles(cells, possible, typical):
    traits = ColumnTraits.from_cells(cells)
    roles = ("user", "item", "value", "timestamp")
    assert {role for role in roles if traits.can_be(role)} == possible
    assert {role for role in roles if traits.fits(role)} == typical


def test_lists_are_items_only():
    traits = ColumnTraits.from_cells(["1 2", "3 4"], is_list=True)
    assert [role for role in ("user", "item", "timestamp") if traits.can_be(role)] == ["item"]
    assert traits.fits("item")


@pytest.mark.parametrize(
    ("cells", "role", "text"),
    [
        (["1", "2"], "timestamp", "no times"),
        (["2026-03-01"], "value", "times"),
        (["100", "200"], "value", "numbers other than ratings"),
        (["a", "b"], "value", "text"),
        (["0.5", "1"], "user", "fractions"),
        (["a", "a"], "user", "one value in all rows"),
        (["a", "b"], "user", "another value in each row"),
    ],
)
def test_misfits_are_described(cells, role, text):
    assert ColumnTraits.from_cells(cells).describe_misfit(role) == text


@pytest.mark.parametrize(
    ("values", "n_levels"),
    [
        (np.arange(1, 11), 10),
        (np.arange(0, 10.5, 0.5), 21),
        (np.linspace(0, 10, 22), None),
        (np.arange(2, 12), None),
        (np.array([1, 2]), None),
        (np.array([1, 2, 3]), 3),
        (np.array([1, 2, 4]), 3),
        (np.array([1, 2, 3.4]), None),
        (np.array([3, 1, 2, 2, 1]), 3),
        (np.array([]), None),
    ],
)
def test_ratings_have_3_to_21_levels_in_equal_steps_up_to_10(values, n_levels):
    scale = find_rating_scale(values.astype(float), "stars")
    if n_levels is None:
        assert scale is None
    else:
        assert (scale.n_levels, scale.lowest, scale.highest) == (n_levels, values.min(), values.max())


@pytest.mark.parametrize(("highest", "threshold"), [(1.9, 1.9), (2, 1), (5, 4), (10, 8), (7, 5)])
def test_the_suggested_threshold_is_four_fifths_of_the_scale(highest, threshold):
    scale = find_rating_scale(np.array([0, highest / 2, highest]), "stars")
    assert scale.suggested_threshold == threshold
    assert f"threshold={threshold:g}" in scale.to_problem().advice
    with pytest.warns(DataWarning, match=f"Pass threshold={re.escape(f'{threshold:g}')} to keep"):
        scale.warn()


@pytest.mark.parametrize(
    ("column", "evidence", "meaning"),
    [
        ("Rating", "name", "yes"),
        ("column 3", "position", "yes"),
        ("stars", None, "yes"),
        ("weight", "name", "perhaps"),
        ("minutes", None, "perhaps"),
        ("minutes", "name", "no"),
    ],
)
def test_values_mean_ratings_by_their_name_or_their_position(column, evidence, meaning):
    assert means_ratings(column, evidence) == meaning


def test_scores_that_count_down_two_lists_are_ranks():
    users = np.array([7, 3, 7, 3, 3])
    assert check_scores(np.array([1, 1, 2, 2, 3]), users, "score") is not None
    assert check_scores(np.array([1, 1, 2, 2, 4]), users, "score") is None
    # In a single list, and in lists of one entry, scores from 1 on are chance.
    assert check_scores(np.array([1, 2, 3, 4]), np.zeros(4, int), "score") is None
    assert check_scores(np.array([1, 2, 3, 1, 1]), np.array([0, 0, 0, 1, 2]), "score") is None
    assert check_scores(np.array([1, 2, 1, 2]), np.array([0, 0, 1, 1]), "score") is not None


@pytest.mark.parametrize(("n_lists", "is_error"), [(24, False), (25, True)])
def test_scores_that_are_ranks_are_an_error_from_fifty_entries_on(n_lists, is_error):
    users = np.repeat(np.arange(n_lists), 2)
    assert check_scores(np.tile([1, 2], n_lists), users, "score").is_error is is_error


def test_ranks_are_whole_or_half_numbers_from_0():
    assert check_ranks(np.array([0, 1, 2.5, np.nan]), "rank") is None
    problem = check_ranks(np.array([1, -0.5, 2.25, np.nan]), "rank")
    assert problem.is_error
    assert "got -0.5 in the first of 2 entries" in problem.problem.description


@pytest.mark.parametrize(("n_rows", "is_error"), [(49, False), (50, True)])
def test_an_unread_column_of_0_and_1_may_hold_clicks(n_rows, is_error):
    cells = {"column 3": ["0", "1 ", "0"], "column 4": ["0", "2"], "column 5": ["1", "1"]}
    problem = check_unread_outcomes(["column 5", "column 4", "column 3"], cells, n_rows)
    assert "'column 3'" in problem.problem.description
    assert problem.is_error is is_error
    assert check_unread_outcomes(["column 4", "column 5", "column 6"], cells, n_rows) is None


def check_by_position(*cells: list[str], n_rows: int = 3):
    """Check columns that are read for user, item, value and time by their position."""
    roles = ("user", "item", "value", "timestamp")[: len(cells)]
    columns = {role: f"c{number}" for number, role in enumerate(roles, start=1)}
    cells_by_name = {f"c{number}": column for number, column in enumerate(cells, start=1)}
    return check_assignment(columns, dict.fromkeys(roles, "position"), cells_by_name, n_rows=n_rows)


def test_a_misfit_without_better_columns_is_no_problem():
    assert check_by_position(["a", "a", "b"], ["x", "y", "x"]) is None
    assert check_by_position(["a", "b", "c"], ["x", "y", "z"]) is None


@pytest.mark.parametrize(("n_rows", "is_error"), [(49, False), (50, True)])
def test_columns_that_fit_in_another_order_are_an_error_from_fifty_rows_on(n_rows, is_error):
    problem = check_by_position(["a", "a", "b"], ["3", "2", "3"], ["100", "200", "100"], n_rows=n_rows)
    assert problem.is_error is is_error
    assert "'c3' as value holds numbers other than ratings; c1 → user, c3 → item, c2 → value would fit" in (
        problem.problem.description
    )
    assert "(first rows: a, 3, 100; a, 2, 200; b, 3, 100)" in problem.problem.description
    assert "Name the columns by {user}, {item}, {value}, or pass {ignore}" in problem.problem.advice


def test_the_first_rows_of_an_error_are_three_with_thirty_letters_a_cell():
    long = "x" * 31
    problem = check_by_position(
        [long, long, "b", "b"], ["3", "2", "3", "3"], ["100", "200", "100", "200"], n_rows=50
    )
    rows = f"(first rows: {'x' * 30}, 3, 100; {'x' * 30}, 2, 200; b, 3, 100)"
    assert rows in problem.problem.description


def test_times_where_values_are_read_are_an_error_in_any_file():
    problem = check_by_position(["a", "a", "b"], ["x", "y", "x"], ["631152000", "631152001", "631152002"])
    assert problem.is_error


def test_a_matrix_of_few_values_is_refused():
    columns = [["1", "2", "3"]] * 5
    names = [f"c{number}" for number in range(5)]
    columns_by_role = {"user": "c0", "item": "c1"}
    evidence = {"user": "position", "item": "position"}
    problem = check_assignment(columns_by_role, evidence, dict(zip(names, columns, strict=True)), n_rows=3)
    assert "as a matrix does" in problem.problem.description
    # With four columns, or as many values as a table of ids has, it is none.
    four = dict(zip(names[:4], columns, strict=False))
    problem = check_assignment(columns_by_role, evidence, four, n_rows=3)
    assert problem is None or "as a matrix does" not in problem.problem.description
    many = {name: [f"{number}{row}" for row in range(3)] for number, name in enumerate(names)}
    problem = check_assignment(columns_by_role, evidence, many, n_rows=3)
    assert problem is None or "as a matrix does" not in problem.problem.description


def test_users_once_beside_two_columns_of_shared_ids_are_adjacency_lists():
    users = ["1", "2", "3", "4", "5"]
    items = ["11", "12", "13", "14", "15"]
    # Three of seven ids are shared, which is more than 0.3 of them.
    shared = ["13", "14", "15", "16", "17"]
    problem = check_by_position(users, items, shared)
    assert "lines of a user and its items" in problem.problem.description
    assert problem.is_error
    for columns in (
        (users, items, ["14", "15", "16", "17", "18"]),  # two of eight
        (["1", "1", "3", "4", "5"], items, shared),
        (users, ["a", *items[1:]], ["a", *shared[1:]]),
        (users[:4], items[:4], items[:4]),
        (users, items),
    ):
        problem = check_by_position(*columns)
        assert problem is None or "lines of a user" not in problem.problem.description


def test_rows_of_a_mask_are_named_up_to_three():
    def name_rows(*rows: int) -> str:
        return format_rows(np.isin(np.arange(2000), rows))

    assert name_rows(4) == "first: row 4"
    assert name_rows(4, 1000) == "first: rows 4, 1,000"
    assert name_rows(1, 2, 3) == "first: rows 1, 2, 3"
    assert name_rows(1, 2, 3, 4) == "first: rows 1, 2, 3, …"


@pytest.mark.parametrize(
    ("cells", "holds_lists"),
    [
        (["[1, 2]", "(3)", "{a b}", " "], True),
        (["[1, 2]", "3"], False),
        (["{'a': 1}"], False),
        (["[[1], 2]"], False),
        (["[a[]"], False),
        (["05 07", "05", ""], True),
        (["05", "07"], False),
        (["B1|B2|B3", "B4"], True),
        (["a1, a2, a3"], True),
        (["a1, a2"], False),
        (["a1 22"], False),
        (["2026-01-01 2026-01-02"], False),
        (["1/2/2026 1/3/2026"], False),
        (["A title"], False),
        (["05 07", "a title"], False),
        (["05 07", "2026-01-01"], False),
        (["05 07", "12:30"], False),
        (["05 07", "1/2/2026"], False),
        (["", " "], False),
    ],
)
def test_cells_of_text_hold_lists_in_brackets_or_several_codes(cells, holds_lists):
    assert text_holds_lists(cells) is holds_lists


@pytest.mark.parametrize(("n_lists", "holds_lists"), [(499, False), (500, True)])
def test_the_first_500_cells_that_are_filled_decide_whether_text_holds_lists(n_lists, holds_lists):
    cells = ["", *["05 07"] * n_lists, "a title"]
    assert text_holds_lists(cells) is holds_lists
    log = ipseval.read(pd.DataFrame({"user": range(n_lists + 1), "items": cells[1:]}), item="items")
    assert len(log) == (2 * 500 + 2 if holds_lists else 500)


@pytest.mark.parametrize(("row", "is_read"), [(1_999, False), (2_000, True)])
def test_the_first_2000_cells_decide_whether_columns_of_usual_names_fit_their_roles(row, is_read):
    users = np.arange(2_001) % 7 + 1.0
    users[row] = 0.5
    frame = pd.DataFrame({"user": users, "item": np.arange(2_001) // 7, "rating": np.arange(2_001) % 5 + 1})
    if is_read:
        assert ipseval.read(frame, threshold="all").n_users == 8
        return
    with pytest.raises(ipseval.InputError, match=r"'user' as user holds fractions; .* would fit"):
        ipseval.read(frame, threshold="all")


@pytest.mark.parametrize(("n_levels", "is_matrix"), [(21, True), (22, False)])
def test_a_matrix_has_at_most_21_values_and_no_more_than_columns(n_levels, is_matrix):
    names = [f"c{number}" for number in range(30)]
    cells = {name: [str(row) for row in range(n_levels)] for name in names}
    columns = {"user": "c0", "item": "c1"}
    evidence = {"user": "position", "item": "position"}
    problem = check_assignment(columns, evidence, cells, n_rows=n_levels)
    assert (problem is not None and "as a matrix does" in problem.problem.description) is is_matrix
    few = {name: cells[name][:7] for name in names[:6]}  # seven values in six columns
    problem = check_assignment(columns, evidence, few, n_rows=7)
    assert problem is None or "as a matrix does" not in problem.problem.description


def test_the_first_rows_of_an_error_have_six_columns():
    names = [f"c{number}" for number in range(7)]
    cells = {name: ["1", "2", "1"] for name in names}
    columns = {"user": "c0", "item": "c1"}
    problem = check_assignment(columns, dict.fromkeys(columns, "position"), cells, n_rows=3)
    assert "(first rows: 1, 1, 1, 1, 1, 1; 2, 2, 2, 2, 2, 2; 1, 1, 1, 1, 1, 1)" in problem.problem.description
