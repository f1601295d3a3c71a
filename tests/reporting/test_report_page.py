"""The bars of a page: marks where the values are, on round axes."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import ipseval
from ipseval.reporting import Tables
from tests.inside.reporting import Axis, Cell, Table, to_html
from tests.worlds import random_split

NAN = float("nan")


def page(*cells: Cell) -> str:
    rows = tuple((Cell(f"row {number}"), cell) for number, cell in enumerate(cells))
    return to_html(Tables((), (Table(("name", "value"), rows),), title="Title"))


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.11, 0.37], (0.0, 0.1, 0.2, 0.3, 0.4)),
        ([0.91, 0.97], (0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97)),
        ([-0.04, -0.01], (-0.04, -0.03, -0.02, -0.01, 0.0)),
        ([-0.04, 0.02], (-0.04, -0.03, -0.02, -0.01, 0.0, 0.01, 0.02)),
        ([1.0, 2.0], (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)),  # as far from 0 as they are wide
        ([-2.0, -1.0], (-2.0, -1.8, -1.6, -1.4, -1.2, -1.0)),
        ([0.5, 2.0], (0.0, 0.5, 1.0, 1.5, 2.0)),
        ([-2.0, -0.5], (-2.0, -1.5, -1.0, -0.5, 0.0)),
        ([5.0], (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
        ([NAN, math.inf], (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        ([0.0], (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        ([5e-10, 0.0], (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),  # a spread below the decimals of ticks
        ([120.0, 3400.0], (0.0, 1000.0, 2000.0, 3000.0, 4000.0)),
    ],
)
def test_an_axis_has_round_ticks_around_its_values(values, ticks):
    axis = Axis.from_values(values)
    assert axis.ticks == pytest.approx(ticks)
    assert axis.compute_position(axis.ticks[0]) == 0
    assert axis.compute_position(axis.ticks[-1]) == 100


def test_an_interval_in_a_cell_is_drawn_on_the_axis_of_its_column():
    """The axis goes from −0.04 to 0.02: −0.03, −0.01 and 0.02 lie at a sixth, a half, and the end of it."""
    drawn = page(Cell("x", at=(-0.03, -0.01, 0.02)), Cell("y", at=(-0.04, -0.04, -0.04)), Cell("z"))
    assert '<rect x="16.7%" width="83.3%"/><circle cx="50.0%"/>' in drawn
    assert '<rect x="0.0%" width="0.0%"/><circle cx="0.0%"/>' in drawn
    assert drawn.count("<circle") == 2
    # The line of zero stands in every row that draws something, and its place is named above.
    assert drawn.count('<rect class="z" x="66.7%"/>') == 2
    assert '<text x="66.7%" y="11" text-anchor="middle">0</text>' in drawn


@pytest.mark.parametrize(
    ("low", "high", "named"),
    [(-0.9, 3.1, False), (-1, 3, True), (-3, 1, True), (-3.1, 0.9, False), (0, 4, False)],
)
def test_zero_is_named_on_an_axis_where_it_is_a_fifth_away_from_both_ends(low, high, named):
    """From −0.9 to 3.1 the axis goes from −1 to 4."""
    drawn = page(Cell("x", at=(low, low, high)), Cell("y", at=(low, high, high)))
    assert ('text-anchor="middle">0<' in drawn) == named


def test_a_bar_begins_at_zero_and_what_is_not_known_is_not_drawn():
    # From 0 to 0.6 in steps of 0.2.
    drawn = page(Cell("x", at=(0.6,)), Cell("y", at=(0.3,)), Cell("undefined", at=(NAN,)))
    assert re.findall(r'<rect class="m" x="(\S+)" width="(\S+)"', drawn) == [
        ("0.0%", "100.0%"),
        ("0.0%", "50.0%"),
    ]
    partly = page(Cell("x", at=(NAN, 0.5, NAN)), Cell("y", at=(0.2, 0.3, 0.4)))
    assert (partly.count("<circle"), partly.count("<rect ")) == (2, 1)


def test_columns_share_an_axis_with_0_and_only_signed_values_are_drawn_below_it():
    rows = ((Cell("x"), Cell("y", at=(-0.1, 0.1, 0.3)), Cell("z", at=(0.3, 0.4, 0.4))),)
    header, drawn = ("name", "one", "two"), '<text x="0.0%" y="11" text-anchor="start">'
    plain = to_html(Tables((), (Table(header, rows),), title="Title"))
    signed = to_html(Tables((), (Table(header, rows, signed=True),), title="Title"))
    assert plain.count(f"{drawn}0</text>") == plain.count(">0.4</text>") == 2
    assert '<rect x="0.0%" width="75.0%"/><circle cx="25.0%"/>' in plain
    assert signed.count(f"{drawn}−0.2</text>") == 2
    for value, begin in ((0.0, "0"), (-0.05, "−0.1")):  # what is itself below 0 has a meaning there
        page = to_html(
            Tables((), (Table(("name", "one"), ((Cell("x"), Cell("y", at=(-0.1, value, 0.3))),)),))
        )
        assert f"{drawn}{begin}</text>" in page


def test_a_column_without_anything_to_draw_has_no_axis_and_text_ignores_what_is_drawn():
    assert "<svg" not in page(Cell("x"), Cell("y", at=(NAN, NAN, NAN)))


def test_the_page_of_15_recommenders_by_a_metric_and_two_estimators_is_smaller_than_48_kilobytes():
    """The size of the page does not depend on the number of users."""
    rng = np.random.default_rng(0)
    split = random_split(rng, 10, 8)
    page = ipseval.evaluate(
        {f"model {n}": rng.normal(size=(split.n_users, split.n_items)) for n in range(15)},
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0),
        metrics=["recall@2"],
        estimators=["aoa", "snips-global"],
        low_ess="ignore",
    ).to_html()
    assert page.count("<tr>") > 15 * 2
    assert 30_000 < len(page.encode()) < 48_000


def test_a_page_says_who_never_overtakes_the_first_whatever_gamma_is():
    split = random_split(np.random.default_rng(0), 40, 30)
    scores = -np.tile(np.arange(split.n_items), (split.n_users, 1))
    models = {"as it is": scores, "the same": scores.copy(), "reverse": -scores}
    made = ipseval.evaluate(
        models, split, propensity=ipseval.PowerLawPropensity(gamma=0.0), metrics="recall@3"
    )
    page, heading = made.to_html(), 'id="sensitivity-to-the-propensity"'
    assert heading in page
    assert '<th scope="row">split</th><th scope="row">users in test</th><td>' in page
    told = re.findall(r"([\w, ]+): no change of order with ([\w ]+) for γ from −1 to 3\.", page)
    assert told == [(" the same, reverse", "as it is")]
    assert " holds for γ in " not in page
    assert heading not in ipseval.evaluate(models, split, metrics="recall@3").to_html()


@pytest.mark.parametrize(("n_rows", "folded", "kind"), [(1, False, ""), (2, False, "s"), (2, True, "")])
def test_a_table_of_a_page_is_sorted_where_it_has_two_rows_and_is_open(n_rows, folded, kind):
    rows = ((Cell("x"), Cell("1")),) * n_rows
    page = to_html(Tables((), (Table(("name", "value"), rows, "t", folded=folded),)))
    (found,) = re.findall(r'<table(?: class="(\w*)")?>', page)
    assert found == kind
