"""Rules of several metrics and absolute limits: decisions, their levels, reports, and rules in TOML files."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.cli import main
from ipseval.errors import InputError, UnknownNameError
from ipseval.evaluation import Evaluation
from ipseval.reporting import load
from ipseval.testing import assert_not_worse, gate, gate_metrics
from tests.testing.gate_results import make_estimate, make_evaluation, values

RECALL = ("als", "recall@5", "aoa")
RR = ("als", "rr", "aoa")


def evaluate_two_metrics(recall: np.ndarray, reciprocal_rank: np.ndarray) -> Evaluation:
    return make_evaluation({RECALL: recall, RR: reciprocal_rank})


OLD = evaluate_two_metrics(values(0.5), values(0.4, seed=2))
WORSE = evaluate_two_metrics(values(0.3, seed=1), values(0.4, seed=2))


@pytest.mark.parametrize(
    ("value", "threshold", "outcome", "code"),
    [
        (0.5, 0.5, "reached", 0),
        (0.5, 0.4, "reached", 0),
        (0.5, 0.51, "cannot tell", 4),
        (0.5, 0.7, "below", 1),
        (0.0, 0.02, "below", 1),  # with 400 users, 1 − 0.00192^(1/400) = 0.0155
        (0.0, 0.015, "cannot tell", 4),
    ],
)
def test_a_limit_is_reached_or_excluded_or_neither(value, threshold, outcome, code):
    decision = gate_metrics(make_evaluation({"als": values(value)}), limits={"recall@5": threshold})
    limit = decision.limits["recall@5"]
    assert (limit.outcome, limit.value, decision.exit_code) == (outcome, value, code)
    assert limit.level == pytest.approx(0.05 / 26)
    lenient = gate_metrics(
        make_evaluation({"als": values(value)}), limits={"recall@5": threshold}, strict=False
    )
    assert lenient.exit_code == {4: 0}.get(code, code)


def test_an_estimate_that_is_always_zero_has_the_bound_of_an_unobserved_share_of_users():
    decision = gate_metrics(make_evaluation({"als": values(0.0)}), limits={"recall@5": 0.1}, n_comparisons=1)
    assert decision.limits["recall@5"].high == pytest.approx(1 - 0.05 ** (1 / 400))


def test_an_unreliable_estimate_reaches_no_limit():
    unreliable = make_evaluation({"als": make_estimate(values(0.5), "effective sample size 12")})
    decision = gate_metrics(unreliable, limits={"recall@5": 0.1})
    assert (
        decision.verdict == "0 of 1 requirement met; cannot tell by recall@5 (aoa): effective sample size 12"
    )


def test_decisions_share_one_probability_of_a_false_alarm():
    rules = {"recall@5": {"margin": 0.01, "at-least": 0.2}, "rr": {}}
    decision = gate_metrics(WORSE, OLD, rules=rules)
    assert (list(decision.gates), list(decision.limits)) == (["recall@5", "rr"], ["recall@5"])
    single = gate(WORSE, OLD, metric="recall@5", margin=0.01, confidence_level=1 - 0.05 / 3)
    by_recall = decision.gates["recall@5"]
    assert (by_recall.low, by_recall.high) == pytest.approx((single.low, single.high), abs=1e-12)
    assert (by_recall.margin, decision.gates["rr"].margin) == (0.01, 0)
    assert decision.limits["recall@5"].level == pytest.approx(0.05 / 26 / 3)


def test_the_most_serious_decision_gives_the_exit_code():
    rules = {"recall@5": {}, "rr": {"at-least": 0.9}}
    assert (
        gate_metrics(OLD, OLD, candidate="als", incumbent="als", rules={"rr": {"at-least": 0.41}}).exit_code
        == 4
    )
    failed = gate_metrics(WORSE, OLD, rules=rules)
    assert (failed.exit_code, failed.has_passed) == (1, False)
    assert failed.verdict == (
        "0 of 2 requirements met; WORSE by recall@5 (aoa); BELOW the limit of 0.9 by rr (aoa)"
    )
    leaked = evaluate_two_metrics(values(0.9, seed=1), values(0.4, seed=2))
    assert gate_metrics(leaked, OLD, rules={"recall@5": {}, "rr": {"at_least": 0.41}}).exit_code == 3
    equal = evaluate_two_metrics(values(0.5), values(0.4, seed=2))
    both = gate_metrics(equal, OLD, rules={"recall@5": {"margin": 0}, "rr": {"at_least": 0.41}})
    assert [decision.exit_code for decision in both.decisions] == [5, 4]
    assert both.exit_code == 5
    assert gate_metrics(equal, OLD, limits={"rr": 0.3}).has_passed


REPORT = """\
als: 3 requirements, which share one probability of a false alarm
False alarms in 26 comparisons: WORSE at most 0.05, suspicious at most 0.05, either at most 0.1.

metric          requirement      old     new                        difference or bound  outcome
recall@5 (aoa)  not worse      0.500   0.300  −0.200 (99.87% interval [−0.310, −0.086])  worse
rr (aoa)        not worse     0.4000  0.4000     0 (99.87% interval [−0.0182, +0.0182])  not worse
recall@5 (aoa)  at least 0.2          0.3000                        99.94% bound 0.3782  reached

2 of 3 requirements met; WORSE by recall@5 (aoa)"""


def test_the_report_has_a_row_per_decision_and_ends_with_the_conclusion(tmp_path):
    decision = gate_metrics(WORSE, OLD, rules={"recall@5": {"margin": 0, "at-least": 0.2}, "rr": {}})
    assert str(decision) == REPORT
    page = decision.tables(page=True)
    assert (page.title, len(page.remarks)) == ("Gate", 1)
    frame = decision.frame
    assert frame["requirement"].tolist() == ["not worse", "not worse", "at least 0.2"]
    assert frame["passed"].tolist() == [False, True, True]
    assert frame["difference"].tolist()[:2] == [pytest.approx(-0.2), 0]
    decision.save(tmp_path / "gates.npz")
    assert str(load(tmp_path / "gates.npz")) == REPORT


def test_rules_come_from_the_table_of_a_toml_file(tmp_path):
    table = '"recall@5" = {margin = 0.25, at-least = 0.2}\n"rr" = {estimator = "aoa"}\n'
    for name, header in (("gate.toml", "[gate]"), ("pyproject.toml", "[tool.ipseval.gate]")):
        path = tmp_path / name
        path.write_text(f"{header}\n{table}", "utf-8")
        decision = gate_metrics(WORSE, OLD, rules=path)
        assert (list(decision.gates), list(decision.limits)) == (["recall@5", "rr"], ["recall@5"])
        assert decision.gates["recall@5"].margin == 0.25


def test_a_rule_may_have_its_own_share_of_an_implausible_improvement(tmp_path):
    better = evaluate_two_metrics(values(0.65, seed=1), values(0.55, seed=3))  # by 30% and by 38%
    path = tmp_path / "gate.toml"
    path.write_text('[gate]\n"recall@5" = {suspicious = 0.25}\n"rr" = {suspicious = 0.5}\n', "utf-8")
    decision = gate_metrics(better, OLD, rules=path, suspicious=0.1)
    assert [part.outcome for part in decision.decisions] == ["suspicious", "better"]
    plain = gate_metrics(better, OLD, rules={"recall@5": {}, "rr": {}}, suspicious=0.1)
    assert [part.outcome for part in plain.decisions] == ["suspicious", "suspicious"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[gate", "must be a TOML file"),
        ("[other]\n", r"must have a table \[gate\] with metrics; got none"),
        ('[gate]\n"recall@5" = 0.1\n', "the rule of recall@5 must be a table of options; got 0.1"),
        ('[gate]\n"recall@5" = {at-most = 1}\n', "unknown option of the rule of recall@5: 'at-most'"),
        ('[gate]\n"recall@5" = {margin = -1}\n', "margin of recall@5 must be a finite number >= 0; got -1"),
        (
            '[gate]\n"recall@5" = {suspicious = 0}\n',
            "suspicious of recall@5 must be a finite number > 0; got 0",
        ),
        ('[gate]\n"recall@5" = {at-least = "a"}\n', "at_least of recall@5 must be a finite number; got 'a'"),
        ('[gate]\n"recall@5" = {estimator = 1}\n', "estimator of recall@5 must be"),
        ('[gate]\n"ndcg@5" = {}\n', "unknown metric 'ndcg@5'"),
        ('[gate]\n"ndcg@5" = {at-least = 0.1}\n', "unknown metric 'ndcg@5'"),
    ],
)
def test_a_file_of_rules_that_cannot_be_used_is_named(text, words, tmp_path):
    path = tmp_path / "gate.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=words):
        gate_metrics(WORSE, OLD, rules=path)


def test_a_gate_without_rules_or_with_two_sources_of_them_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"there is no rule\. Pass rules=, limits= or the incumbent\."):
        gate_metrics(OLD)
    with pytest.raises(InputError, match="margin is an option of each rule where rules are passed"):
        gate_metrics(WORSE, OLD, rules={"rr": {}}, margin=0.1)
    with pytest.raises(UnknownNameError, match="unknown candidate: 'nobody'"):
        gate_metrics(OLD, limits={"rr": 0.1}, candidate="nobody")
    two = make_evaluation({"v1": values(0.5), "v2": values(0.5)})
    with pytest.raises(InputError, match=r"The new result has v1, v2\. Name the recommender by candidate="):
        gate_metrics(two, limits={"recall@5": 0.1})
    with pytest.raises(InputError, match="does not exist"):
        gate_metrics(WORSE, OLD, rules=tmp_path / "nothing.toml")


def test_assert_not_worse_takes_rules_and_limits(tmp_path):
    OLD.save(tmp_path / "old.npz")
    assert_not_worse(OLD, tmp_path / "old.npz", limits={"rr": 0.3})
    with pytest.raises(AssertionError) as raised:
        assert_not_worse(WORSE, tmp_path / "old.npz", rules={"recall@5": {}, "rr": {"at_least": 0.1}})
    assert str(raised.value).splitlines() == [
        f"1 of 2 requirements met; WORSE by recall@5 (aoa), compared with {tmp_path / 'old.npz'}",
        "als by recall@5 (aoa): 0.5 -> 0.3, not worse: worse",
        "als by rr (aoa): 0.4, at least 0.1: reached",
        "Check first that the ids are in the order of the split, that the candidate was trained on split.train, and "
        "the line Sanity of print(evaluation). If the loss is accepted, write the baseline anew: pytest "
        "--ipseval-update.",
    ]


def test_a_margin_in_percent_is_refused_with_the_loss_in_units_of_the_metric(tmp_path, capsys):
    advice = "Here, 10% of 0.5 is 0.05. Pass margin=0.05, and keep this number in later runs."
    rules = {"recall@5": {"margin": "10%"}}
    OLD.save(tmp_path / "old.npz")
    WORSE.save(tmp_path / "new.npz")
    old, new = str(tmp_path / "old.npz"), str(tmp_path / "new.npz")
    for call in (
        lambda: gate(WORSE, OLD, margin="10%"),
        lambda: gate(WORSE, OLD, margin=" 10.0 %"),
        lambda: gate_metrics(WORSE, OLD, margin="10%"),
        lambda: gate_metrics(WORSE, OLD, rules=rules),
        lambda: assert_not_worse(WORSE, old, margin="10%"),
        lambda: assert_not_worse(WORSE, old, rules=rules),
    ):
        with pytest.raises(InputError, match=r"^margin must be a loss in units of recall@5; got ") as error:
            call()
        assert str(error.value).endswith(advice)
    with pytest.raises(
        InputError, match=r"^margin must be a loss in units of the metric; got '10%'\. Multiply"
    ):
        assert_not_worse(WORSE, old, margin="10%", update=True)

    (tmp_path / "gate.toml").write_text('[gate]\n"recall@5" = {margin = "10%"}\n', "utf-8")
    for options in (["--margin", "10%"], ["--rules", str(tmp_path / "gate.toml")]):
        assert main(["compare", new, old, *options]) == 2
        text = " ".join(capsys.readouterr().err.split())
        assert "--margin must be a loss in units of recall@5; got '10%'." in text
        assert text.endswith("Pass --margin 0.05, and keep this number in later runs.")

    with pytest.raises(
        InputError, match=r"Here, 0\.01% of 0\.5 is 0\.00005\. Pass margin=0\.00005, and keep"
    ):
        gate(WORSE, OLD, margin="0.01%")
    zero = evaluate_two_metrics(values(0.0), values(0.4, seed=2))
    with pytest.raises(
        InputError, match="The incumbent's value is 0 here, of which no percentage is a margin"
    ):
        gate(OLD, zero, margin="10%")
    for text in ("ten %", "nan%", "-5%", "0.1"):
        with pytest.raises(InputError, match="must be a finite number >= 0"):
            gate(WORSE, OLD, margin=text)


def test_compare_takes_limits_and_files_of_rules(tmp_path, capsys):
    for name, evaluation in (("old", OLD), ("worse", WORSE)):
        evaluation.save(tmp_path / f"{name}.npz")
    old, worse, rules = (str(tmp_path / name) for name in ("old.npz", "worse.npz", "gate.toml"))
    (tmp_path / "gate.toml").write_text('[gate]\n"rr" = {}\n', "utf-8")
    for arguments, code, last in (
        ([old, "--at-least", "rr=0.3"], 0, "1 of 1 requirement met"),
        (
            [old, "--model", "als", "--at-least", "rr=0.3", "--at-least", "recall@5=0.9"],
            1,
            "1 of 2 requirements met",
        ),
        ([worse, old, "--at-least", "rr=0.3"], 1, "1 of 2 requirements met; WORSE by recall@5 (aoa)"),
        ([worse, old, "--rules", rules], 0, "1 of 1 requirement met"),
        ([worse, old, "--rules", rules, "--at-least", "recall@5=0.2"], 0, "2 of 2 requirements met"),
    ):
        assert main(["compare", *arguments]) == code
        assert capsys.readouterr().out.splitlines()[-1].startswith(last)
    for arguments, words in (
        ([old, "--at-least", "rr"], "--at-least must be METRIC=X, such as recall@10=0.08; got 'rr'."),
        ([old, "--at-least", "=3"], "--at-least must be METRIC=X"),
        ([old, "--preflight", "--at-least", "rr=0.3"], "is for the comparison of two results"),
        ([str(tmp_path), "--rules", rules], "is for the comparison of two results"),
        ([old, "--at-least", "ndcg@5=0.3"], "unknown metric 'ndcg@5'"),
        ([old, "--model", "nobody", "--at-least", "rr=0.3"], "unknown candidate: 'nobody'. Choices: als."),
        ([worse, old, "--model", "nobody"], "unknown candidate: 'nobody'. Choices: als."),
        ([worse, old, "--model", "als=nobody"], "unknown incumbent: 'nobody'. Choices: als."),
    ):
        assert main(["compare", *arguments]) == 2
        assert words in " ".join(capsys.readouterr().err.split())
