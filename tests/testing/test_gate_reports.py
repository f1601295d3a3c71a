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
    evaluate_rare_items,
    pair,
    ranks,
    values,
)

REPORT = """\
als by recall@5 (aoa): 0.500 -> 0.450, difference −0.050 (99.62% interval [−0.154, +0.055]), 400 users
False alarms in 26 comparisons: WORSE at most 0.05, suspicious at most 0.05, either at most 0.1.
Smallest visible loss, with 80% power: 0.15. Tolerated: 0. A pass excludes a loss of 0.100, which is 20% of
  the old value.
If the differences of users vary as here, an equally good candidate passes with probability 0.46; for a
  probability of 0.8, about 770 users are needed.

cannot tell by recall@5 (aoa): too few users to exclude a loss of 0.100; the data allow a loss of up to 0.154"""


def test_report_shows_the_deciding_estimate_then_all_differences_then_the_decision():
    decision = gate(*pair(values(0.5), values(0.45, seed=1)))
    assert str(decision) == REPORT
    assert [tables.title for tables in (decision.tables(), decision.tables(page=True))] == ["", "Gate"]
    assert decision.verdict in decision.tables().parts
    assert decision.verdict not in decision.tables(page=True).parts
    equal_report = str(gate(*pair(values(0.5), values(0.5)), n_comparisons=2)).splitlines()
    difference = "difference 0 (95% interval [−0.0092, +0.0092])"  # 1 − 0.025^(1/400)
    assert equal_report[0] == f"als by recall@5 (aoa): 0.5000 -> 0.5000, {difference}, 400 users"
    assert equal_report[1].startswith("False alarms in 2 comparisons: WORSE at most 0.05,")
    assert equal_report[2].startswith("Smallest visible loss, with 80% power: 0.020.")


@pytest.mark.parametrize(
    ("margin", "sentence"),
    [
        (None, "Tolerated: 0. A pass excludes a loss of 0.104, which is 20% of the old value."),
        (0.125, "Tolerated: 0.125. A pass excludes a loss of 0.125."),
        (0.0, "Tolerated: 0. A pass excludes every loss."),
    ],
)
def test_report_prints_the_loss_that_a_pass_excludes_without_rounding_it_up(margin, sentence):
    decision = replace(gate(*pair(values(0.5), values(0.45, seed=1)), margin=margin), old=0.52)
    if margin is None:
        decision = replace(decision, relevant_loss=0.104)
    assert sentence in " ".join(str(decision).split())


def test_estimates_that_do_not_decide_are_rows_of_one_table():
    old, new = evaluate_rare_items("fitted")
    lines = str(gate(new, old)).splitlines()
    (header,) = [line for line in lines if line.startswith("other estimates (95% intervals, adjusted p)")]
    assert header.split()[-3:] == ["old", "new", "difference"]
    (row,) = [line for line in lines if line.startswith("recall@5 ")]
    assert row.startswith("recall@5 SNIPS pooled")
    assert "p < 0.001" in row


def test_significant_losses_by_other_estimates_precede_the_decision_and_do_not_change_it():
    # Half of the users have their item at rank 1 and at rank 3: equal by recall@5, 1 and 1/3 by rr.
    is_hit = np.arange(400) % 2 == 0
    models = {"v1": ranks(np.where(is_hit, 0, 9)), "v2": ranks(np.where(is_hit, 2, 9))}
    evaluation = evaluate_ranks(models, metrics=["recall@5", "rr"])
    decision = gate(evaluation, candidate="v2", incumbent="v1")
    assert decision.exit_code == 0
    lines = str(decision).splitlines()
    assert lines[-1] == decision.verdict
    assert lines[-1].startswith("not shown to be worse by recall@5 (aoa)")
    assert lines[-3] == (
        "The candidate is significantly lower by rr (aoa), which does not decide (adjusted p < 0.05)."
    )
    assert "significantly lower" not in str(gate(evaluation, candidate="v1", incumbent="v2"))


def test_json_holds_the_decision_its_numbers_and_all_differences(tmp_path):
    decision = gate(*pair(values(0.5), values(0.3, seed=1)))
    assert decision.to_json(tmp_path / "gate.json") == str(tmp_path / "gate.json")
    stored = json.loads((tmp_path / "gate.json").read_text())
    assert (stored["outcome"], stored["exit_code"], stored["passed"]) == ("worse", 1, False)
    assert stored["difference"] == decision.difference == pytest.approx(-0.2)
    assert (tmp_path / "gate.json").read_text().startswith('{\n  "outcome": "worse",\n  "candidate"')
    assert stored["verdict"] == decision.verdict
    assert [row["decides"] for row in stored["differences"]] == [True]
    # Two intervals of one difference have two levels, and both levels are stored.
    assert stored["interval_level"] == pytest.approx(1 - 2 * 0.05 / 26)
    assert stored["low"] < stored["differences"][0]["ci_low"]
    few = gate(*pair(values(0.5, 4), values(0.25, 4)))
    assert json.loads(few.to_json())["smallest_visible_loss"] is None


def test_history_reads_gates_and_evaluations_and_lists_the_changes(tmp_path):
    evaluation = evaluate_ranks(
        {"v1": ranks(np.arange(400) % 10), "v2": ranks(np.arange(400) % 10 + 3)}, metrics=["recall@5"]
    )
    evaluation.save(tmp_path / "2026-W02.npz")
    first = gate(evaluation, candidate="v1", incumbent="v2")
    changed_gate = replace(
        first, record=first.record | {"propensity": "known", "data_sha256": "b"}, n_comparisons=2
    )
    changed_gate.save(tmp_path / "2026-W03.npz")
    first.save(tmp_path / "2026-W01.npz")
    gates = history(tmp_path, candidate="v2", incumbent="v1")
    frame = gates.frame.set_index("model")
    assert list(frame.index) == ["2026-W01", "2026-W02", "2026-W03"]
    assert frame["outcome"].tolist() == [first.outcome, "worse", first.outcome]
    assert set(frame["changed"].iloc[2].split("; ")) == {"propensity None -> known", "data"}
    assert frame["changed"].tolist()[:2] == ["", ""]
    # Two digits of a quarter of the interval, which is between .01 and .1 wide there.
    assert (frame["ci_high"] - frame["ci_low"]).between(0.04, 0.4).all()
    assert f" {frame['difference'].iloc[0]:+.3f} [" in str(gates)
    assert "WORSE: 2026-W02." in gates.verdict
    assert gates.verdict.endswith(first.verdict)
    assert gates.exit_code == first.exit_code
    assert "The candidate is not the same in all gates: v1 and v2." in str(gates)
    assert gates.to_html().count("2026-W03") >= 1
    gates.save(tmp_path / "all.npz")
    assert str(load(tmp_path / "all.npz")) == str(gates)
    with pytest.raises(InputError, match="contains neither an evaluation nor a gate"):
        history(tmp_path, candidate="v2", incumbent="v1")
    with pytest.raises(InputError, match="must be a folder with results"):
        history("\0")  # no file system has such a name
    with pytest.raises(InputError, match="must be a folder with results"):
        history(tmp_path / "nothing")


def test_history_warns_of_more_gates_than_comparisons(tmp_path):
    decision = gate(*pair(values(0.5), values(0.5)), n_comparisons=2)
    for week in range(3):
        decision.save(tmp_path / f"{week}.npz")
    assert "3 gates share a probability of a false alarm that was set for 2." in str(history(tmp_path))


def test_the_report_names_the_method_of_an_interval_that_is_wider_than_a_normal_one():
    # 9 of 400 users lose 1: −0.0225 ± 2.915 · √(0.0225 · 0.9775/399), with t of 399 degrees of freedom.
    old = np.full(400, 0.2)
    new = np.full(400, 0.2)
    old[:9] = 1
    new[:9] = 0
    decision = gate(*pair(old, new))
    sentence = "A normal interval of the same level would be [−0.0441, −0.0009]."
    assert (decision.outcome, decision.low < 0 < decision.high) == ("cannot tell", True)
    assert f"{sentence} The interval above is wider" in " ".join(str(decision).split())
    assert sentence in decision.to_html()
    # With one loser fewer, no interval excludes 0; with one more, both do.
    for n_losers in (8, 10):
        old[8:] = 0.2
        new[8:] = 0.2
        old[8:n_losers] = 1
        new[8:n_losers] = 0
        assert "normal interval" not in str(gate(*pair(old, new)))


HISTORY = """\
als by recall@5 (aoa), each with its 97.5% interval
False alarms in 4 comparisons: WORSE at most 0.05, suspicious at most 0.05, either at most 0.1.

5 gates share a probability of a false alarm that was set for 4.
The candidate is not the same in all gates: als and v2.

gate    old    new               difference  smallest visible loss  outcome      changed
a     0.500  0.450  −0.050 [−0.131, +0.032]                   0.12  cannot tell
b     0.500  0.450  −0.050 [−0.131, +0.032]                   0.12  better       candidates 4 -> 5; data
c     0.500  0.450  −0.050 [−0.131, +0.032]                   0.12  suspicious   candidates 5 -> 4
d     0.500  0.450  −0.050 [−0.131, +0.032]              not known  worse
e     0.500  0.450  −0.050 [−0.131, +0.032]                   0.12  not worse

5 gates. WORSE: d. Suspicious: c. Undecided: a. Last, e: not shown to be worse by recall@5 (aoa); the data
  allow a loss of up to 0.131"""


def test_the_report_of_a_history_is_a_row_per_gate_and_ends_with_the_last_decision():
    def changed_gate(outcome: str, candidates: str, data: str, **changes: object) -> Gate:
        record = {"candidates": candidates, "data_sha256": data}
        return replace(decision, outcome=outcome, record=record, **changes)

    decision = gate(*pair(values(0.5), values(0.45, seed=1)), n_comparisons=4)
    gates = {
        "a": changed_gate("cannot tell", "4", "a"),
        "b": changed_gate("better", "5", "b", n_comparisons=2),
        "c": changed_gate("suspicious", "4", "b", candidate="v2"),
        "d": changed_gate("worse", "4", "b", smallest_visible_loss=NAN, candidate="v2"),
        "e": changed_gate("not worse", "4", "b"),
    }
    gate_history = GateHistory(gates)
    assert str(gate_history) == HISTORY
    assert [gate_history.exit_code, GateHistory(dict(list(gates.items())[:4])).exit_code] == [0, 1]
    assert "share a probability" not in str(GateHistory(dict(list(gates.items())[:4])))
    page = gate_history.tables(page=True)
    assert [page.title, gate_history.tables().title] == ["History of a gate", ""]
    assert page.parts[0].signed  # its intervals are drawn around 0
    assert gate_history.verdict in gate_history.tables().parts
    assert len(page.parts) == len(page.remarks) == len(gate_history.tables().parts) - 1 == 1
    # An error is a quarter of a width: .1 of .44, which shows two decimals.
    assert " −0.05 [−0.20, +0.24] " in str(GateHistory({"a": replace(decision, low=-0.2, high=0.24)}))


PREFLIGHT = """\
Preflight of the gate on als by recall@5 (aoa), with 97.5% intervals

model  metric    estimator    old    new  difference  ci_low  ci_high  smallest_visible_loss  outcome
a      recall@5  aoa        0.500  0.450      -0.050  -0.131    0.032                  0.120  worse
b      recall@5  aoa        0.500  0.450      -0.050  -0.131    0.032                  0.120  not worse
c      recall@5  aoa        0.500  0.450      -0.050  -0.131    0.032                  0.200  cannot tell
d      recall@5  aoa        0.500  0.450      -0.050  -0.131    0.032                  0.120  suspicious
e      recall@5  aoa        0.500  0.450      -0.050  -0.131    0.032                  0.120  better

model  metric    estimator  stopped
a      recall@5  aoa           True
b      recall@5  aoa          False
c      recall@5  aoa           True
d      recall@5  aoa           True
e      recall@5  aoa          False

the gate stops a and c (c without calling it WORSE; a loss of 0.20 is called WORSE in 80% of cases); the gate
  does not stop b: a loss of 0.12 is called WORSE in 80% of cases; d and e are better than the incumbent"""


def test_preflight_reports_one_row_per_candidate_and_the_candidates_that_were_not_stopped():
    decision = gate(*pair(values(0.5), values(0.45, seed=1)), n_comparisons=4)
    outcomes = {"a": "worse", "b": "not worse", "c": "cannot tell", "d": "suspicious", "e": "better"}
    gates = {name: replace(decision, outcome=outcome) for name, outcome in outcomes.items()}
    gates["c"] = replace(gates["c"], smallest_visible_loss=0.2)
    result = Preflight(gates)
    assert str(result) == PREFLIGHT
    assert result.verdict == (
        "the gate stops a and c (c without calling it WORSE; a loss of 0.20 is called WORSE in 80% of cases); the gate "
        "does not stop b: a loss of 0.12 is called WORSE in 80% of cases; d and e are better than the incumbent"
    )
    assert Preflight({"a": gates["a"], "e": gates["e"]}).verdict == (
        "the gate stops a; e is better than the incumbent"
    )
    rejected = Preflight({"a": gates["a"]})
    assert Preflight({"a": gates["a"], "c": gates["c"]}).has_passed
    assert not Preflight({"a": gates["a"], "d": gates["d"]}).has_passed
    lenient = Preflight({"c": replace(gates["c"], strict=False, low=-0.1, high=0.1)})
    assert lenient.frame["stopped"].tolist() == [False]
    assert [
        decision.has_passed
        for decision in (result, rejected, replace(rejected, skip_reason="b was not tried"))
    ] == [
        False,
        True,
        False,
    ]
    assert (result.exit_code, rejected.exit_code) == (4, 0)
    page = result.tables(page=True)
    assert [page.title, result.tables().title] == ["Preflight of a gate", ""]
    assert len(page.parts) == len(page.remarks) == len(result.tables().parts) - 1 == 1
