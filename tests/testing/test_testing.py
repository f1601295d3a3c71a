"""Regression tests against stored results: what passes, what fails, what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ipseval import pytest_plugin
from ipseval.cli import main
from ipseval.data import Interactions
from ipseval.data.splits import Split, split_random
from ipseval.errors import DataWarning, InputError
from ipseval.evaluation import Evaluation, evaluate
from ipseval.propensity import PowerLawPropensity
from ipseval.ranking import RankedPositives, top_items
from ipseval.ranking.baselines import popularity
from ipseval.testing import assert_metric, assert_not_worse, gate, preflight
from tests.inside.testing import _shuffle_ranks, _truncate_ranks, find_comparable_estimators
from tests.testing.pytest_runs import run_pytest

N_USERS, N_ITEMS = 100, 40
RECALL = {"metric": "recall@5", "estimator": "aoa"}


def make_split_and_scores(seed: int) -> tuple[Split, np.ndarray]:
    """Return a split and the true scores that its positives were drawn by."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(N_USERS, N_ITEMS))
    user, item = np.nonzero(rng.random(truth.shape) < 1 / (1 + np.exp(2.5 - 1.5 * truth)))
    log = Interactions.from_frame(
        pd.DataFrame({"user": user, "item": item}), users=np.arange(N_USERS), items=np.arange(N_ITEMS)
    )
    return split_random(log, test_fraction=0.4, rng=rng), truth


SPLIT, TRUTH = make_split_and_scores(0)


def add_noise(truth: np.ndarray, seed: int, noise: float = 1.0) -> np.ndarray:
    return truth + noise * np.random.default_rng(seed).normal(size=truth.shape)


def evaluate_scores(scores: np.ndarray, split: Split = SPLIT, **options) -> Evaluation:
    all_options = {"metrics": ["recall@5", "ndcg@5"], "estimators": ["aoa"], **options}
    return evaluate({"model": scores}, split, **all_options)


SAME = evaluate_scores(add_noise(TRUTH, seed=1))
WORSE = evaluate_scores(add_noise(TRUTH, seed=1, noise=4.0))
OTHER = evaluate_scores(add_noise(TRUTH, seed=2))


@pytest.fixture
def baseline(tmp_path) -> Path:
    path = tmp_path / "baselines" / "model.npz"
    SAME.save(path, ranks=False)
    return path


def test_the_same_recommender_passes_with_a_difference_of_zero(baseline):
    assert_not_worse(SAME, baseline)
    assert_not_worse(SAME, baseline, margin=0.001)
    assert_metric(SAME, baseline, metric="ndcg@5", tolerance=0)


def test_names_in_the_baseline_must_be_text(baseline):
    with pytest.raises(InputError, match="models must be str; got dict"):
        assert_metric(SAME, baseline, metric="ndcg@5", models={"model": {"model": []}})


def test_a_recommender_made_worse_on_purpose_fails(baseline):
    with pytest.raises(
        AssertionError,
        match=r"WORSE by recall@5 \(aoa\), compared with .*\nmodel by recall@5 \(aoa\): 0\.\d+",
    ):
        assert_not_worse(WORSE, baseline)


def test_where_the_gate_cannot_tell_the_test_fails_or_warns(baseline):
    candidate = OTHER
    with pytest.raises(AssertionError, match=r"cannot tell by recall@5 \(aoa\): too few users"):
        assert_not_worse(candidate, baseline, margin=0.001)
    with pytest.warns(DataWarning, match="cannot tell by recall@5"):
        assert_not_worse(candidate, baseline, margin=0.001, strict=False)


def test_advice_after_a_failure_depends_on_the_margin_that_was_passed(baseline):
    with pytest.raises(AssertionError) as raised:
        assert_not_worse(OTHER, baseline, margin=0.001)
    message = str(raised.value)
    assert "pass a larger margin= if you accept such a loss, or none" in message
    assert "about" in message.splitlines()[-2]
    assert message.splitlines()[-2].endswith("users are needed.")
    loss = -gate(WORSE, SAME, metric="recall@5").difference
    for options in ({}, {"strict": False}):  # the interval of a significant loss contains −margin
        with pytest.raises(AssertionError, match="The loss is significant, so strict=False does not pass it"):
            assert_not_worse(WORSE, baseline, metric="recall@5", margin=loss, **options)


def make_lists(seed: int) -> pd.DataFrame:
    """Return lists of ten items from the true scores with noise."""
    top = top_items(add_noise(TRUTH, seed), SPLIT, k=10)
    lists = pd.DataFrame({"user": top.user, "item": top.item, "rank": top.n_above + 1})
    return lists.sort_values(["user", "rank"], ignore_index=True)


def test_the_same_lists_are_identical_and_other_lists_with_the_same_hits_are_not(tmp_path):
    path = tmp_path / "lists.npz"
    lists = make_lists(1)
    evaluate_scores(lists).save(path, ranks=False)
    stored = Evaluation.load(path)
    same = gate(evaluate_scores(lists.copy()), stored, metric="recall@5", margin=0.001)
    assert (same.outcome, same.exit_code) == ("identical", 0)
    # The last item of a user is not a hit. Without it, all ranks of held-out interactions are the same.
    is_hit = lists.set_index(["user", "item"]).index.isin(
        list(zip(SPLIT.test.user, SPLIT.test.item, strict=True))
    )
    last_miss = np.flatnonzero(~is_hit & (lists["rank"] == 10))[0]
    other = gate(evaluate_scores(lists.drop(index=last_miss)), stored, metric="recall@5", margin=0.001)
    assert (other.outcome, other.difference) == ("cannot tell", 0)


def test_a_better_recommender_passes_but_is_not_the_same_number(baseline):
    better = evaluate_scores(TRUTH)
    assert_not_worse(better, baseline, margin=0.001)
    with pytest.raises(AssertionError, match="not the numbers of"):
        assert_metric(better, baseline, **RECALL)


def test_changed_numbers_are_listed_with_their_changes(tmp_path):
    path = tmp_path / "two.npz"
    options = {"metrics": ["recall@5", "ndcg@5"], "estimators": ["aoa", "aoa-pooled"]}
    old = evaluate({"v1": add_noise(TRUTH, 1), "v2": add_noise(TRUTH, 2)}, SPLIT, **options)
    new = evaluate({"v1": add_noise(TRUTH, 1), "v2": add_noise(TRUTH, 3)}, SPLIT, **options)
    assert_metric(old, path, metric="recall@5", update=True)
    lines = [f"not the numbers of {path} (within 1e-09):"]
    for label in ("aoa", "aoa-pooled"):
        before, after = (evaluation.estimate("v2", "recall@5", label).value for evaluation in (old, new))
        lines.append(f"  v2 recall@5 {label}: {before!r} -> {after!r} ({after - before:+.3g})")
    with pytest.raises(AssertionError) as raised:
        assert_metric(new, path, metric="recall@5")
    assert str(raised.value) == "\n".join(lines)
    with pytest.raises(AssertionError) as raised:
        assert_metric(new, path, metric="recall@5", estimator="aoa-pooled", models=["v2"])
    assert str(raised.value) == "\n".join([lines[0], lines[2]])
    assert_metric(new, path, metric="recall@5", models="v1")
    assert_metric(old, path, metric="recall@5", models={"v2": "v2"})
    with pytest.raises(AssertionError, match="v2 recall@5 aoa: "):
        assert_metric(old, path, metric="recall@5", models={"v2": "v1"})
    moved = abs(after - before)
    assert_metric(new, path, metric="recall@5", estimator="aoa-pooled", tolerance=moved)
    with pytest.raises(AssertionError):
        assert_metric(new, path, metric="recall@5", estimator="aoa-pooled", tolerance=moved * 0.999)
    with pytest.raises(InputError, match="tolerance"):
        assert_metric(new, path, metric="recall@5", tolerance=-0.5)


def test_results_are_compared_by_the_estimators_that_they_share():
    metrics = {"metrics": ["ndcg@5", "recall@5", "rr"]}
    new = evaluate_scores(TRUTH, **metrics, estimators=["aoa", "aoa-pooled"])
    assert find_comparable_estimators(new, new, "recall@5", None) == ["aoa", "aoa-pooled"]
    assert find_comparable_estimators(new, SAME, "recall@5", None) == ["aoa"]
    assert find_comparable_estimators(new, SAME, "recall@5", "aoa-pooled") == ["aoa-pooled"]
    pooled = evaluate_scores(TRUTH, metrics=["recall@5"], estimators=["aoa-pooled"])
    with pytest.raises(InputError) as raised:
        find_comparable_estimators(SAME, pooled, "recall@5", None)
    assert str(raised.value) == (
        "the results share no estimator of recall@5; the new one has recall@5, ndcg@5 by aoa, the old one "
        "recall@5 by aoa-pooled."
    )


def test_the_paired_standard_error_is_that_of_the_users_differences(baseline):
    new = OTHER
    decision = gate(new, Evaluation.load(baseline))
    new_values = new.per_user("model", "recall@5", "aoa")
    difference = new_values - SAME.per_user("model", "recall@5", "aoa")
    assert decision.difference == pytest.approx(difference.mean(), abs=1e-12)
    assert decision.std_error == pytest.approx(difference.std(ddof=1) / np.sqrt(difference.size), rel=1e-12)
    assert decision.low < decision.difference - 2.9 * decision.std_error
    assert decision.high > decision.difference + 2.9 * decision.std_error


def evaluate_other_test_set() -> Evaluation:
    split = Split(SPLIT.train, SPLIT.test.select(np.arange(len(SPLIT.test)) != 7))
    return evaluate_scores(add_noise(TRUTH, 1), split)


def evaluate_graded() -> Evaluation:
    split = Split(SPLIT.train, replace(SPLIT.test, value=np.ones(len(SPLIT.test))))
    return evaluate_scores(add_noise(TRUTH, 1), split)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            evaluate_other_test_set,
            r"cannot be compared: the test set differs\. Score both recommenders on one test set",
        ),
        (evaluate_graded, "the values of the test interactions differ"),
        (lambda: evaluate_scores(add_noise(TRUTH, 1), ties="min"), "ties 'default' -> 'min'"),
    ],
)
def test_other_data_or_options_are_an_error_and_no_comparison(change, text, baseline):
    changed = change()
    for check in (assert_not_worse, assert_metric):
        with pytest.raises(InputError, match=text):
            check(changed, baseline, metric="recall@5")


def test_another_propensity_is_an_error_for_weighted_estimators_only(tmp_path):
    path = tmp_path / "weighted.npz"
    options = {"metrics": ["recall@5"], "estimators": ["aoa", "snips-global"]}
    scores = add_noise(TRUTH, 1)
    evaluate_scores(scores, propensity=PowerLawPropensity(gamma=0.5, unseen="drop"), **options).save(
        path, ranks=False
    )
    other_gamma = evaluate_scores(scores, propensity=PowerLawPropensity(gamma=0.6, unseen="drop"), **options)
    assert_not_worse(other_gamma, path, metric="recall@5", estimator="aoa")
    with pytest.raises(
        InputError, match=r"the propensities differ; .*gamma = 0\.5' -> 'power law, gamma = 0\.6'"
    ):
        assert_not_worse(other_gamma, path, metric="recall@5", estimator="snips-global")


def test_a_changed_definition_of_the_metric_is_an_error_that_shows_the_change(baseline):
    old = Evaluation.load(baseline)
    old.basis["metrics"]["ndcg@5"]["discount"] = "1/ln(1 + r)"
    old.save(baseline)
    assert_not_worse(SAME, baseline)
    with pytest.raises(
        InputError, match=r"definition of ndcg@5: discount '1/ln\(1 \+ r\)' -> '1/log2\(1 \+ r\)'"
    ):
        assert_not_worse(SAME, baseline, metric="ndcg@5")


def test_one_row_of_the_differences_decides():
    options = {"metrics": ["ndcg@5", "recall@5", "rr"], "estimators": ["aoa", "aoa-pooled", "snips-global"]}
    options |= {"propensity": PowerLawPropensity(gamma=0.5, unseen="drop"), "low_ess": "ignore"}
    new, old = (evaluate_scores(add_noise(TRUTH, seed), **options) for seed in (1, 2))
    frame = gate(new, old, metric="recall@5", estimator="aoa-pooled").frame
    assert len(frame) == 9
    assert frame[frame["decides"]][["metric", "estimator"]].to_numpy().tolist() == [
        ["recall@5", "aoa-pooled"]
    ]


def test_the_plugin_compares_with_a_file_of_a_chosen_name_or_of_the_name_of_the_test(tmp_path):
    writes, reads = (pytest_plugin.BaselineChecks(tmp_path, "own", update) for update in (True, False))
    writes.assert_metric(SAME, **RECALL)
    writes.assert_not_worse(OTHER, "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.npz", "own.npz"]
    reads.assert_metric(SAME, **RECALL)
    reads.assert_metric(OTHER, "other", **RECALL)
    with pytest.raises(AssertionError, match=r"not the numbers of .*other\.npz"):
        reads.assert_metric(SAME, "other", **RECALL)


LEAKED = np.full(TRUTH.shape, 0.0)
LEAKED[SPLIT.test.user, SPLIT.test.item] = 1.0


@pytest.mark.parametrize(
    ("new", "options", "code", "last"),
    [
        (SAME, (), 0, "identical by recall@5 (aoa): every rank is the same"),
        (WORSE, (), 1, "WORSE by recall@5 (aoa)"),
        (evaluate_scores(LEAKED), (), 3, "suspiciously better by recall@5 (aoa): look for leakage"),
        (
            OTHER,
            ("--margin", "0.001"),
            4,
            "cannot tell by recall@5 (aoa): too few users to exclude a loss of 0.001",
        ),
        (
            OTHER,
            ("--margin", "0.001", "--lenient"),
            0,
            "cannot tell by recall@5 (aoa): too few users",
        ),
    ],
)
def test_compare_exits_with_the_code_of_the_decision_and_prints_it_last(
    new, options, code, last, baseline, tmp_path, capsys
):
    new.save(tmp_path / "new.npz")
    assert main(["compare", str(tmp_path / "new.npz"), str(baseline), *options]) == code
    printed = capsys.readouterr().out
    assert "old    new" in printed or "old     new" in printed
    assert printed.splitlines()[-1].startswith(last)


@pytest.mark.parametrize(
    ("is_other_test_set", "options", "words"),
    [
        (True, (), "the test set differs. Score both recommenders on one test set"),
        (
            False,
            ("--metric", "recal@5"),
            "unknown metric 'recal@5'. Did you mean 'recall@5'? Choices: ndcg@5, recall@5.",
        ),
        (False, ("--estimator", "snips"), "no estimate ('model', 'recall@5', 'snips'"),
        (False, ("--model", "als"), "unknown candidate: 'als'. Choices: model."),
    ],
)
def test_compare_prints_an_error_and_no_comparison(
    is_other_test_set, options, words, baseline, tmp_path, capsys
):
    new = evaluate_other_test_set() if is_other_test_set else SAME
    new.save(tmp_path / "new.npz")
    written = tmp_path / "gate.npz"
    compare = ["compare", str(tmp_path / "new.npz"), str(baseline), "--out", str(written)]
    assert main([*compare, *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in " ".join(printed.err.split())
    assert not written.exists()


def test_compare_writes_the_gate_and_reads_a_folder_of_them(baseline, tmp_path, capsys):
    WORSE.save(tmp_path / "new.npz")
    (tmp_path / "gates").mkdir()
    compare = ["compare", str(tmp_path / "new.npz"), str(baseline), "--out"]
    for week in ("1.npz", "2.npz"):
        assert main([*compare, str(tmp_path / "gates" / week)]) == 1
    assert main([*compare, str(tmp_path / "gate.json"), "--quiet"]) == 1
    assert json.loads((tmp_path / "gate.json").read_text())["outcome"] == "worse"
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "gates"), "--out", str(tmp_path / "history.html")]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "2 gates. WORSE: 1 and 2. Last, 2: WORSE by recall@5 (aoa)"
    assert "<title>History of a gate" in (tmp_path / "history.html").read_text()


def test_compare_names_the_pair(baseline, tmp_path, capsys):
    scores = {"v1": add_noise(TRUTH, 1), "v2": add_noise(TRUTH, 1, 4.0)}
    path = str(tmp_path / "both.npz")
    evaluate(scores, SPLIT, metrics=["recall@5"], estimators=["aoa"]).save(path)
    assert main(["compare", path, "--model", "v2=v1"]) == 1
    assert "v2 (was v1) by recall@5" in capsys.readouterr().out
    for wrong in ([], ["--model", "v1"], ["--model", "=v1"], ["--model", "v1="]):
        assert main(["compare", path, *wrong]) == 2
    assert "Name the pair by --model CANDIDATE=INCUMBENT" in capsys.readouterr().err


def test_preflight_tries_candidates_that_the_gate_must_stop(tmp_path, capsys):
    models = {"als": add_noise(TRUTH, 1), "popularity": popularity(SPLIT.train)}
    evaluation = evaluate(models, SPLIT, metrics=["recall@5"], estimators=["aoa"])
    result = preflight(evaluation, rng=0)
    assert result.frame["model"].tolist() == ["shuffled", "truncated", "popularity"]
    assert result.frame["stopped"].tolist() == [True, True, True]
    assert result.gates["truncated"].outcome == "cannot tell"
    assert result.verdict.startswith(
        "the gate stops shuffled, truncated and popularity (truncated without calling it WORSE; "
    )
    assert not preflight(evaluation, rng=0, strict=False).has_passed
    # A random rank among n candidates is in the first five with probability 5/n.
    shuffled = result.gates["shuffled"]
    assert shuffled.new == pytest.approx(5 / 36, abs=4 * 0.25 / np.sqrt(shuffled.n_users))
    assert shuffled.old == pytest.approx(evaluation.estimate("als", "recall@5", "aoa").value, rel=1e-12)
    assert preflight(evaluation, n_comparisons=1, rng=0).has_passed
    alone = evaluate({"als": TRUTH}, SPLIT, metrics=["recall@5"], estimators=["aoa"])
    untried = preflight(alone, n_comparisons=1, rng=0)
    assert (untried.has_passed, untried.exit_code) == (False, 4)
    assert untried.verdict.endswith("popularity was not tried: evaluate it together with als")
    turned = {"als": popularity(SPLIT.train), "popularity": add_noise(TRUTH, 1)}
    higher = preflight(
        evaluate(turned, SPLIT, metrics=["recall@5"], estimators=["aoa"]), n_comparisons=1, rng=0
    )
    assert higher.verdict.endswith("; popularity is better than the incumbent")
    evaluation.save(tmp_path / "whole.npz")
    assert main(["compare", str(tmp_path / "whole.npz"), "--preflight", "--comparisons", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the gate stops shuffled, truncated and popularity"
    evaluation.save(tmp_path / "small.npz", ranks=False)
    assert main(["compare", str(tmp_path / "small.npz"), "--preflight"]) == 2
    with pytest.raises(InputError, match=r"The evaluation has a, b\. Name the incumbent by incumbent="):
        preflight(evaluate({"a": TRUTH, "b": TRUTH}, SPLIT, metrics=["recall@5"], estimators=["aoa"]))


def test_preflight_uses_the_only_recommender_other_than_popularity_or_the_named_one():
    scores, options = (
        {"z": add_noise(TRUTH, 1), "popularity": popularity(SPLIT.train)},
        {"estimators": ["aoa"]},
    )
    evaluation = evaluate(scores, SPLIT, metrics=["recall@5"], **options)
    result = preflight(evaluation, rng=0)
    assert (list(result.gates), result.skip_reason) == (["shuffled", "truncated", "popularity"], "")
    assert {decision.incumbent for decision in result.gates.values()} == {"z"}
    popularity_result = preflight(evaluation, incumbent="popularity", rng=0)
    assert (list(popularity_result.gates), popularity_result.skip_reason) == (["shuffled", "truncated"], "")
    two = evaluate({"a": TRUTH, "b": add_noise(TRUTH, 1)}, SPLIT, metrics=["recall@5"], **options)
    named = preflight(two, incumbent="b", rng=0)
    assert {decision.incumbent for decision in named.gates.values()} == {"b"}
    assert named.skip_reason == "popularity was not tried: evaluate it together with b"
    with pytest.raises(InputError, match="there is no recommender 'c'; the evaluation has a, b"):
        preflight(two, incumbent="c")


def test_shuffled_ranks_are_uniform_and_truncated_ones_lose_a_random_half_of_the_items():
    n = 6000
    item = np.arange(n) % 60
    ids = {"user_ids": np.arange(n), "item_ids": np.arange(60)}
    ranked = RankedPositives(np.arange(n), item, np.full(n, 21), np.full(n, 6), np.full(n, 60), **ids)
    shuffled = _shuffle_ranks(ranked, np.random.default_rng(0))
    share = np.bincount(shuffled.n_above, minlength=60) / n
    assert share.size == 60
    assert share == pytest.approx(1 / 60, abs=5 * np.sqrt(1 / 60 / n))
    assert not shuffled.n_tied.any()
    is_retrieved = np.random.default_rng(1).random(60) < 0.5
    truncated = _truncate_ranks(ranked, np.random.default_rng(1))
    assert (truncated.n_above[~is_retrieved[item]] == 59).all()
    above = truncated.n_above[is_retrieved[item]]  # half of 21 and of half the ties, by one coin each
    assert above.mean() == pytest.approx(12, abs=5 * np.sqrt(6 / above.size))
    assert above.var() == pytest.approx(6, rel=0.15)
    truncated_lists = _truncate_ranks(replace(ranked, max_rank=30), np.random.default_rng(1))
    assert (truncated_lists.n_above[~is_retrieved[item]] == 30).all()


def test_what_is_in_no_list_stays_outside_truncated_lists():
    n = 6000
    item = np.arange(n) % 60
    ids = {"user_ids": np.arange(n), "item_ids": np.arange(60)}
    n_above = np.where(
        np.arange(n) < n // 2, 20, 8
    )  # the first half of the positives is in no list of 20 items
    candidates = np.full(n, 60)
    lists = RankedPositives(np.arange(n), item, n_above, np.zeros(n, int), candidates, max_rank=20, **ids)
    truncated = _truncate_ranks(lists, np.random.default_rng(1))
    assert (truncated.n_above[: n // 2] == 20).all()
    is_retrieved = np.random.default_rng(1).random(60) < 0.5
    above = truncated.n_above[n // 2 :][is_retrieved[item[n // 2 :]]]
    assert above.mean() == pytest.approx(4, abs=5 * np.sqrt(2 / above.size))


@pytest.mark.filterwarnings("ignore:top-K lists are missing")  # of a user whose ten items are all removed
def test_preflight_truncates_lists_as_if_the_items_were_removed_from_them():
    lists = make_lists(1)
    options = {"metrics": ["recall@5"], "estimators": ["aoa"]}
    evaluation = evaluate({"lists": lists}, SPLIT, **options)
    truncated_values = []
    values_without_items = []
    for seed in range(20):
        result = preflight(evaluation, rng=seed)
        truncated_values.append(result.gates["truncated"].new)
        is_kept = np.random.default_rng(seed).random(N_ITEMS) < 0.5
        shorter_lists = lists[is_kept[lists["item"]]]
        shorter_lists = shorter_lists.assign(rank=shorter_lists.groupby("user").cumcount() + 1)
        models = {"lists": shorter_lists, "longest": lists}  # `longest` keeps the cutoff within the lists
        without_items = evaluate(models, SPLIT, **options)
        values_without_items.append(without_items.estimate("lists", "recall@5", "aoa").value)
    error = np.std(values_without_items) / np.sqrt(20)
    assert np.mean(truncated_values) == pytest.approx(np.mean(values_without_items), abs=4 * error)
    assert np.mean(truncated_values) < 0.8 * evaluation.estimate("lists", "recall@5", "aoa").value


PLUGIN_TEST = """
import os
import numpy as np, pandas as pd, pytest
from ipseval.evaluation import evaluate
from ipseval.data.splits import Split

pairs = [(user, item) for user in range(30) for item in range(8) if (user * item) % 3 == 1]
train = pd.DataFrame({"user": range(30), "item": 0})
split = Split.from_frames(train, pd.DataFrame(pairs, columns=["user", "item"]), items=range(8))

def score():
    scores = np.zeros((30, 8))
    scores[tuple(np.transpose(pairs))] = float(os.environ["SCORE_OF_POSITIVES"])
    return scores

@pytest.mark.parametrize("name", ["als"])
def test_als(ipseval_baseline, name):
    evaluation = evaluate({name: score()}, split, metrics=["recall@3"])
    ipseval_baseline.assert_not_worse(evaluation, metric="recall@3")
"""


@pytest.mark.filterwarnings("ignore:Module already imported so cannot:pytest.PytestAssertRewriteWarning")
def test_the_plugin_writes_with_update_and_then_compares(tmp_path, monkeypatch, capfd):
    test = tmp_path / "test_model.py"
    test.write_text(PLUGIN_TEST)
    monkeypatch.setenv("SCORE_OF_POSITIVES", "1")
    monkeypatch.chdir(tmp_path)

    def run(*options: str) -> tuple[int, str]:
        code = run_pytest(test, "--tb=line", *options)
        return code, capfd.readouterr().out

    code, output = run()
    command = "Write it: pytest --ipseval-update test_model.py::test_als[als]"
    assert (code, "there is no baseline" in output, command in output) == (1, True, True)
    assert run("--ipseval-update")[0] == 0
    names = sorted(path.name for path in (tmp_path / "baselines").iterdir())
    assert names == ["test_als-als.npz"]
    assert run()[0] == 0
    monkeypatch.setenv("SCORE_OF_POSITIVES", "-1")
    assert "WORSE by recall@3 (aoa), compared with" in run()[1]
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    failure = run("--tb=auto", "--junit-xml=report.xml")[1]
    section = failure[failure.index("test_als[als] __") :].splitlines()
    # The file is relative to the folder in which pytest was started.
    is_last = [line.endswith("test_model.py:19: AssertionError") for line in section]
    assert is_last.index(True) + 1 <= 15, "\n".join(section)  # all that a failed gate prints
    figures = "als by recall@3 (aoa): 1.000 -> 0.000, difference −1.000 (99.62% interval [−1.000, "
    assert f"E       {figures}" in failure
    assert "E       Check first that the ids are in the order of the split, " in failure
    assert "If the loss is accepted, write the baseline anew: pytest --ipseval-update." in failure
    (annotation,) = [line for line in section if line.startswith("::error ")]
    place = r"file=(\S*/)?test_model\.py,line=16,title=test_als\[als\]"  # the file is relative to the root
    assert re.match(rf"::error {place}::WORSE by recall@3 \(aoa\), compared with ", annotation)
    assert f"%0A{figures.replace('%', '%25')}" in annotation
    report = Path("report.xml").read_text("utf-8")
    assert '<property name="ipseval" value="WORSE by recall@3 (aoa), compared with' in report


SUMMARY_TESTS = PLUGIN_TEST.replace("@pytest.mark", "def test_without_a_gate():\n    pass\n\n@pytest.mark", 1)


@pytest.mark.filterwarnings("ignore:Module already imported so cannot:pytest.PytestAssertRewriteWarning")
def test_the_plugin_prints_a_line_for_each_gate_and_for_each_baseline_that_it_writes(
    tmp_path, monkeypatch, capfd
):
    test = tmp_path / "test_model.py"
    test.write_text(SUMMARY_TESTS)
    monkeypatch.chdir(tmp_path)

    def run(score: int, *options: str) -> list[str]:
        monkeypatch.setenv("SCORE_OF_POSITIVES", str(score))
        run_pytest(test, "--tb=line", *options)
        return capfd.readouterr().out.splitlines()

    def select_lines(output: list[str]) -> list[str]:
        # The folder before the name of the file depends on pytest's root.
        places = [line.find("test_model.py::test_als[als]: ") for line in output]
        return [line[place:] for line, place in zip(output, places, strict=True) if place >= 0]

    name = "test_model.py::test_als[als]"
    assert select_lines(run(1, "--ipseval-update")) == [f"{name}: baseline written: recall@3 1"]
    assert select_lines(run(1)) == [
        f"{name}: identical by recall@3 (aoa): 1.000 -> 1.000, difference 0 (99.62% interval [−0.269, +0.269]), "
        "smallest visible loss 0.57"
    ]
    worse = run(-1, "-v")  # as without -q
    (line,) = select_lines(worse)
    assert line.startswith(
        f"{name}: WORSE by recall@3 (aoa): 1.000 -> 0.000, difference −1.000 (99.62% interval [−1.000, "
    )
    is_line = [text.endswith(line) for text in worse]
    assert worse[is_line.index(True) - 1].strip("= ") == "ipseval gates"
    assert select_lines(run(-1, "--ipseval-update")) == [f"{name}: baseline written: recall@3 1 -> 0"]
    assert not any("ipseval gates" in text or "baseline" in text for text in run(-1, "-v", "-k", "without"))


@pytest.mark.filterwarnings("ignore:Module already imported so cannot:pytest.PytestAssertRewriteWarning")
@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (
            "test_split",
            ("range(30)", "range(33)"),
            "the results cannot be compared: the test set differs. Score both",
        ),
        (
            "test_metric",
            ('metric="recall@3"', 'metric="recal@3"'),
            "unknown metric 'recal@3'. Did you mean 'recall@3'?",
        ),
        ("test_option", ('metric="recall@3"', "bound=1"), "unknown option 'bound'"),
    ],
)
def test_an_error_of_a_gate_in_pytest_fits_on_a_screen(name, change, words, tmp_path, monkeypatch, capfd):
    test = tmp_path / "test_model.py"
    test.write_text(PLUGIN_TEST.replace("(30, 8)", "(split.n_users, 8)"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCORE_OF_POSITIVES", "1")
    run_pytest(test, "--ipseval-update")
    changed_test = tmp_path / f"{name}.py"  # its tests have the same names, and so the same baselines
    changed_test.write_text(test.read_text().replace(*change))
    capfd.readouterr()
    assert run_pytest(changed_test, "--tb=auto") == 1
    output = capfd.readouterr().out
    section = output[output.index("test_als[als] __") :].splitlines()
    end = next(index for index, line in enumerate(section) if line.startswith(f"{name}.py:19: "))
    assert end + 1 <= 15
    assert words in output


def test_a_baseline_is_written_with_the_values_that_it_replaces(tmp_path):
    path = tmp_path / "model.npz"
    lines: list[str] = []
    old_value, new_value = (
        f"{evaluation.estimate('model', 'recall@5', 'aoa').value:.3g}" for evaluation in (SAME, WORSE)
    )
    assert_not_worse(SAME, path, update=True, report=lines.append)
    assert_metric(WORSE, path, update=True, report=lines.append, **RECALL)
    assert_not_worse(evaluate_other_test_set(), path, update=True, report=lines.append)
    path.write_bytes(b"damaged")
    assert_not_worse(SAME, path, update=True, report=lines.append)
    two = evaluate({"model": TRUTH, "b": TRUTH}, SPLIT, metrics=["recall@5"], estimators=["aoa"])
    assert_not_worse(two, path, update=True, report=lines.append)
    true_value = f"{two.estimate('b', 'recall@5', 'aoa').value:.3g}"
    assert lines[:2] == [
        f"baseline written: recall@5 {old_value}",
        f"baseline written: recall@5 {old_value} -> {new_value}",
    ]
    assert lines[2].startswith(f"baseline written: recall@5 {new_value} -> ")
    assert lines[2].endswith(" (the test set differs)")
    assert lines[3:] == [
        f"baseline written: recall@5 {old_value}",
        f"baseline written: model recall@5 {old_value} -> {true_value}, b recall@5 {true_value}",
    ]


def test_a_candidate_trained_on_the_test_part_is_suspicious_after_a_file_was_read(tmp_path):
    # 1,200 users of four groups of items, so that the scores of 24 users are read.
    rng = np.random.default_rng(3)
    group = np.arange(1200) % 4
    chance = np.where(np.arange(120) % 4 == group[:, None], 0.25, 0.03)
    user, item = np.nonzero(rng.random(chance.shape) < chance)
    log = Interactions.from_frame(
        pd.DataFrame({"user": user, "item": item}), users=np.arange(1200), items=np.arange(120)
    )
    split = split_random(log, test_fraction=0.2, rng=rng)
    scores = {"correct": fit_ease(split.train), "leaked": fit_ease(split.train, split.test)}
    for name, model in scores.items():
        evaluation = evaluate({"ease": model}, split, metrics=["recall@10"], estimators=["aoa"])
        evaluation.save(tmp_path / f"{name}.npz", ranks=False)
    correct, leaked = (Evaluation.load(tmp_path / f"{name}.npz") for name in scores)
    assert gate(correct, Evaluation.load(tmp_path / "correct.npz")).outcome == "identical"
    assert gate(leaked, correct).outcome == "suspicious"


def fit_ease(*parts: Interactions) -> np.ndarray:
    """Return the scores of EASE (Steck 2019) that was trained on one or two parts of a log."""
    counts = np.zeros((parts[0].n_users, parts[0].n_items))
    for part in parts:
        counts[part.user, part.item] = 1.0
    inverse = np.linalg.inv(counts.T @ counts + 20.0 * np.eye(counts.shape[1]))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return counts @ weights
