"""The table of the gate: small seasons hold what it says, and its equal candidate is equal."""

from __future__ import annotations

import re

import numpy as np
import pytest

from reproductions import gate_seasons


def shares(row: tuple[str, ...] | list[str]) -> dict[str, float]:
    return {
        name: float(share_text.rstrip("%"))
        for name, share_text in zip(gate_seasons.OUTCOMES, row[1:7], strict=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize(("n_users", "seasons"), [(25, 6), (200, 6)])
def test_few_seasons_hold_what_the_table_says(n_users, seasons):
    rows = {row[0].partition(", ")[2].split(" ")[0]: row for row in gate_seasons.rows(n_users, seasons)}
    assert [rows[name][-1] for name in ("equal", "uneven")] == [f"0, 0, 0 of {seasons}"] * 2
    assert shares(rows["worse"])["worse"] >= 80 - 4 * 100 * np.sqrt(0.16 / (26 * seasons))
    assert shares(rows["shuffled"])["worse"] == 100
    assert shares(rows["leaked"])["not worse"] + shares(rows["leaked"])["better"] == 0
    assert shares(rows["random"])["better"] + shares(rows["random"])["not worse"] == 0
    if n_users == 25:  # too few to exclude a loss that no user shows
        assert shares(rows["rare"])["better"] + shares(rows["rare"])["not worse"] == 0


def test_the_calibrated_candidate_is_truly_equal():
    rng = np.random.default_rng(0)
    value, lost = gate_seasons.calibrated(rng, 100_000)
    week = gate_seasons.Week.draw(100_000, rng)
    above = week.ranked(rng)
    uneven_week = gate_seasons.uneven(week.ranked(rng), lost, week, rng)
    assert value == pytest.approx(0.5, abs=0.01)
    assert gate_seasons.recall(uneven_week, week) == pytest.approx(
        gate_seasons.recall(above, week), abs=4 * 0.0015
    )


def test_the_table_on_the_page_says_what_is_promised():
    text = gate_seasons.PAGE.read_text("utf-8")
    part = text[text.index("<!-- gate seasons -->") : text.index("<!-- /gate seasons -->")]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in part.splitlines()
        if " users, " in line
    ]
    assert len(rows) == 21
    for row in rows:
        share_by_outcome = shares(row)
        if "equal" in row[0] or "uneven" in row[0]:
            worse, suspicious, either, seasons = map(int, re.findall(r"\d+", row[-1]))
            assert max(worse, suspicious) <= 0.05 * seasons
            assert either <= 0.1 * seasons
        if "worse by" in row[0]:
            assert share_by_outcome["worse"] >= 80
        if any(name in row[0] for name in ("shuffled", "leaked", "random")):
            assert share_by_outcome["not worse"] == 0
            assert share_by_outcome["better"] == 0


def test_single_decisions_on_the_page_keep_their_promise():
    text = gate_seasons.PAGE.read_text("utf-8")
    part = text[text.index("<!-- gate alarms -->") : text.index("<!-- /gate alarms -->")]
    rows = [line.strip("|").split("|") for line in part.splitlines() if " users " in line]
    assert len(rows) == len(gate_seasons.SINGLE_USERS)
    for row in rows:
        worse, _, either, above = (float(cell.strip().rstrip("%")) / 100 for cell in row[1:])
        for share, promised in ((worse, 0.05), (above, 0.05), (either, 0.1)):
            assert share <= promised + 3 * np.sqrt(promised * (1 - promised) / gate_seasons.SINGLE_RUNS)


@pytest.mark.slow
def test_equal_candidates_with_one_positive_each_are_rarely_called_worse():
    row = gate_seasons.single_decisions(25, 20)
    assert row[0] == "25 users"
    assert [float(cell.rstrip("%")) for cell in row[1:4]] == [0, 0, 0]
