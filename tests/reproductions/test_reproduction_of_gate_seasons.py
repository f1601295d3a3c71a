"""The table of the gate: small seasons hold what it says, and its equal candidate is equal."""

from __future__ import annotations

import re

import numpy as np
import pytest

from reproductions import gate_seasons


def shares(row: tuple[str, ...] | list[str]) -> dict[str, float]:
    return {
        name: float(share_text.rstrip("%"))
        for name, share_text in zip(gate_seasons.OUTCOMES, row[1:6], strict=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize(("n_users", "seasons"), [(25, 6), (200, 6)])
def test_few_seasons_hold_what_the_table_says(n_users, seasons):
    rows = {row[0].partition(", ")[2].split(" ")[0]: row for row in gate_seasons.rows(n_users, seasons)}
    assert [rows[name][-1] for name in ("equal", "uneven")] == [f"0 of {seasons}"] * 2
    assert shares(rows["worse"])["worse"] >= 80 - 4 * 100 * np.sqrt(0.16 / (26 * seasons))
    assert shares(rows["shuffled"])["worse"] == 100
    assert shares(rows["leaked"])["not worse"] + shares(rows["leaked"])["better"] == 0
    assert shares(rows["random"])["better"] + shares(rows["random"])["not worse"] == 0


def test_the_calibrated_candidate_is_truly_equal():
    rng = np.random.default_rng(0)
    value, lost = gate_seasons.calibrated(rng, 100_000)
    week = gate_seasons.Week.of(100_000, rng)
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
    assert len(rows) == 18
    for row in rows:
        share_by_outcome = shares(row)
        if "equal" in row[0] or "uneven" in row[0]:
            alarms, seasons = map(int, re.findall(r"\d+", row[-1]))
            assert alarms <= 0.05 * seasons
        if "worse by" in row[0]:
            assert share_by_outcome["worse"] >= 80
        if any(name in row[0] for name in ("shuffled", "leaked", "random")):
            assert share_by_outcome["not worse"] == 0
            assert share_by_outcome["better"] == 0
