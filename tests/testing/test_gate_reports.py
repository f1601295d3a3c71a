"""What gates, their history and a preflight print and store."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.evaluation import evaluate_ranks
from ipseval.reporting import load
from ipseval.testing import Gate, gate, history
from tests.inside.testing import GateHistory, Preflight
from tests.testing.gate_results import (
    NAN,
    pair,
    ranks,
    values,
)

REPORT = """\
als by recall@5 (aoa): 0.500 -> 0.450, difference −0.050 [−0.154, +0.055], 400 users
False alarms: at most 0.05 in a season of 26 weeks. Smallest visible loss, with 80% power: 0.15. Tolerated: 0.

Differences below are information, each by a test of its own: 1 estimate in both, new minus old, 95%
  intervals.

recall@5  AOA: old    new                        difference
als          0.500  0.450  −0.050 [−0.119, +0.019] p = 0.16

cannot tell by recall@5 (aoa): too few users; a loss below 0.15 could not have been seen"""


def test_the_report_shows_what_decides_then_each_difference_then_the_decision():
    found = gate(*pair(values(0.5), values(0.45, seed=1)))
    assert str(found) == REPORT
    assert [one.title for one in (found.tables(), found.tables(page=True))] == ["", "Gate"]
    assert found.verdict in found.tables().parts
    assert found.verdict not in found.tables(page=True).parts
    same = str(gate(*pair(values(0.5), values(0.5)), weeks=2)).splitlines()
    assert same[0] == "als by recall@5 (aoa): 0.50000 -> 0.50000, difference 0 [0, 0], 400 users"
    assert same[1].startswith("False alarms: at most 0.05 in a season of 2 weeks.")
    assert " Smallest visible loss, with 80% power: not" in same[1]


def test_json_holds_the_decision_its_numbers_and_all_differences(tmp_path):
    found = gate(*pair(values(0.5), values(0.3, seed=1)))
    assert found.to_json(tmp_path / "gate.json") == str(tmp_path / "gate.json")
    held = json.loads((tmp_path / "gate.json").read_text())
    assert (held["outcome"], held["exit_code"], held["passed"]) == ("worse", 1, False)
    assert held["difference"] == found.difference == pytest.approx(-0.2)
    assert (tmp_path / "gate.json").read_text().startswith('{\n  "outcome": "worse",\n  "candidate"')
    assert held["verdict"] == found.verdict
    assert [one["decides"] for one in held["differences"]] == [True]
    assert json.loads(gate(*pair(values(0.5), values(0.5))).to_json())["smallest_visible_loss"] is None


def test_a_history_reads_gates_and_evaluations_and_says_what_changed(tmp_path):
    both = evaluate_ranks(
        {"v1": ranks(np.arange(400) % 10), "v2": ranks(np.arange(400) % 10 + 3)}, metrics=["recall@5"]
    )
    both.save(tmp_path / "2026-W02.npz")
    first = gate(both, candidate="v1", incumbent="v2")
    other = replace(first, record=first.record | {"propensity": "known", "data_sha256": "b"}, weeks=2)
    other.save(tmp_path / "2026-W03.npz")
    first.save(tmp_path / "2026-W01.npz")
    found = history(tmp_path, candidate="v2", incumbent="v1")
    frame = found.frame.set_index("model")
    assert list(frame.index) == ["2026-W01", "2026-W02", "2026-W03"]
    assert frame["outcome"].tolist() == [first.outcome, "worse", first.outcome]
    assert set(frame["changed"].iloc[2].split("; ")) == {"propensity None -> known", "data"}
    assert frame["changed"].tolist()[:2] == ["", ""]
    # Two digits of a quarter of the interval, which is between .01 and .1 wide there.
    assert (frame["ci_high"] - frame["ci_low"]).between(0.04, 0.4).all()
    assert f" {frame['difference'].iloc[0]:+.3f} [" in str(found)
    assert "WORSE: 2026-W02." in found.verdict
    assert found.verdict.endswith(first.verdict)
    assert found.exit_code == first.exit_code
    assert "The candidate is not the same in all: v1 and v2." in str(found)
    assert found.to_html().count("2026-W03") >= 1
    found.save(tmp_path / "all.npz")
    assert str(load(tmp_path / "all.npz")) == str(found)
    with pytest.raises(InputError, match="holds neither an evaluation nor a gate"):
        history(tmp_path, candidate="v2", incumbent="v1")
    with pytest.raises(InputError, match="is no folder with results"):
        history(tmp_path / "nothing")


def test_more_gates_than_weeks_are_said(tmp_path):
    one = gate(*pair(values(0.5), values(0.5)), weeks=2)
    for week in range(3):
        one.save(tmp_path / f"{week}.npz")
    assert "3 gates share what was meant for 2." in str(history(tmp_path))


HISTORY = """\
als by recall@5 (aoa)
False alarms: at most 0.05 in a season of 4 weeks, one share each.

5 gates share what was meant for 4.
The candidate is not the same in all: als and v2.

gate    old    new               difference  smallest visible loss  outcome      changed
a     0.500  0.450  −0.050 [−0.131, +0.032]                   0.12  cannot tell
b     0.500  0.450  −0.050 [−0.131, +0.032]                   0.12  better       candidates 4 -> 5; data
c     0.500  0.450  −0.050 [−0.131, +0.032]                   0.12  suspicious   candidates 5 -> 4
d     0.500  0.450  −0.050 [−0.131, +0.032]              not known  worse
e     0.500  0.450  −0.050 [−0.131, +0.032]                   0.12  not worse

5 gates. WORSE: d. Suspicious: c. Undecided: a. Last, e: not shown to be worse by recall@5 (aoa); a loss below
  0.12 could not have been seen"""


def test_the_report_of_a_history_is_a_row_per_gate_and_ends_with_the_last_decision():
    def of(outcome: str, candidates: str, data: str, **changes: object) -> Gate:
        record = {"candidates": candidates, "data_sha256": data}
        return replace(one, outcome=outcome, record=record, **changes)

    one = gate(*pair(values(0.5), values(0.45, seed=1)), weeks=4)
    gates = {
        "a": of("cannot tell", "4", "a"),
        "b": of("better", "5", "b", weeks=2),
        "c": of("suspicious", "4", "b", candidate="v2"),
        "d": of("worse", "4", "b", smallest_visible_loss=NAN, candidate="v2"),
        "e": of("not worse", "4", "b"),
    }
    found = GateHistory(gates)
    assert str(found) == HISTORY
    assert [found.exit_code, GateHistory(dict(list(gates.items())[:4])).exit_code] == [0, 1]
    assert "share what was meant" not in str(GateHistory(dict(list(gates.items())[:4])))
    page = found.tables(page=True)
    assert [page.title, found.tables().title] == ["History of a gate", ""]
    assert page.parts[0].signed  # its intervals are drawn around 0
    assert found.verdict in found.tables().parts
    assert len(page.parts) == len(page.verdict) == len(found.tables().parts) - 1 == 1
    # An error is a quarter of a width: .1 of .44, which shows two decimals.
    assert " −0.05 [−0.20, +0.24] " in str(GateHistory({"a": replace(one, low=-0.2, high=0.24)}))


PREFLIGHT = """\
Preflight of the gate on als by recall@5 (aoa)

model  metric    estimator    old    new  difference  ci_low  ci_high  smallest_visible_loss  outcome
a      recall@5  aoa        0.500  0.450      -0.050  -0.131    0.032                  0.120  worse
b      recall@5  aoa        0.500  0.450      -0.050  -0.131    0.032                  0.120  not worse
c      recall@5  aoa        0.500  0.450      -0.050  -0.131    0.032                  0.200  cannot tell
d      recall@5  aoa        0.500  0.450      -0.050  -0.131    0.032                  0.120  suspicious
e      recall@5  aoa        0.500  0.450      -0.050  -0.131    0.032                  0.120  better

model  metric    estimator  rejected
a      recall@5  aoa            True
b      recall@5  aoa           False
c      recall@5  aoa           False
d      recall@5  aoa           False
e      recall@5  aoa           False

the gate rejects a; the gate could not reject b and c: a loss below 0.20 could not have been seen; d and e are
  better than the incumbent"""


def test_the_report_of_a_preflight_is_a_row_per_candidate_and_says_what_was_not_rejected():
    one = gate(*pair(values(0.5), values(0.45, seed=1)), weeks=4)
    outcomes = {"a": "worse", "b": "not worse", "c": "cannot tell", "d": "suspicious", "e": "better"}
    gates = {name: replace(one, outcome=outcome) for name, outcome in outcomes.items()}
    gates["c"] = replace(gates["c"], smallest_visible_loss=0.2)
    found = Preflight(gates)
    assert str(found) == PREFLIGHT
    assert found.verdict == (
        "the gate rejects a; the gate could not reject b and c: a loss below 0.20 could not have been seen; "
        "d and e are better than the incumbent"
    )
    assert Preflight({"a": gates["a"], "e": gates["e"]}).verdict == (
        "the gate rejects a; e is better than the incumbent"
    )
    rejected = Preflight({"a": gates["a"]})
    assert [one.passed for one in (found, rejected, replace(rejected, untried="b was not tried"))] == [
        False,
        True,
        False,
    ]
    assert (found.exit_code, rejected.exit_code) == (4, 0)
    page = found.tables(page=True)
    assert [page.title, found.tables().title] == ["Preflight of a gate", ""]
    assert len(page.parts) == len(page.verdict) == len(found.tables().parts) - 1 == 1
