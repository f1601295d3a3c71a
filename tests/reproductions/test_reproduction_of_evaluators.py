"""The benchmark of evaluators: its measures on known answers, its division of users, and runs that were killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ipseval import PowerLawPropensity
from ipseval.correction import Correction
from ipseval.metrics import metric
from reproductions import evaluators
from reproductions.evaluators import EVALUATORS, LOGS, Context, cells, comparison, plugins, scores, truth
from reproductions.evaluators.__main__ import main
from reproductions.evaluators.context import PreparedSplit, prepare_split
from reproductions.evaluators.recommenders import list_recommenders
from reproductions.evaluators.registry import add_evaluator, check_estimates
from reproductions.evaluators.report import (
    list_rows,
    tabulate_gain_of_correct,
    tabulate_warnings,
    write_frame,
)

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evaluators.md"
GUIDE = PAGE.with_name("add-an-evaluator.md")
NAMES = ("AOA", "AOA per user", "SNIPS pooled, γ = 0", "random sample (half of the users)")


@pytest.fixture(name="prepared", scope="module")
def fixture_prepared() -> PreparedSplit:
    trainers = {name: list_recommenders()[name] for name in ("popularity", "item-kNN", "PureSVD")}
    return prepare_split(LOGS["simulated"](Path(), 3), 3, trainers)


@pytest.fixture(name="few_recommenders")
def fixture_few_recommenders(monkeypatch):
    trainers = {name: list_recommenders()[name] for name in ("popularity", "random", "item-kNN")}
    monkeypatch.setattr(cells, "list_recommenders", lambda: trainers)


# --- Measures -----------------------------------------------------------------------------------------------


def test_the_squared_error_is_unbiased_for_a_noisy_truth():
    rng = np.random.default_rng(0)
    estimates = np.full((20_000, 2, 1), 0.3)
    noisy_truth = 0.2 + 0.05 * rng.standard_normal(estimates.shape)
    errors = scores.compute_squared_error(estimates, noisy_truth, np.full(estimates.shape, 0.05**2))
    assert errors.mean() == pytest.approx(0.1**2, abs=4 * errors.std() / np.sqrt(errors.size))


def test_tau_and_sign_errors_of_three_models():
    estimates = np.array([3.0, 2.0, 1.0])[:, None]
    true_values = np.array([2.0, 3.0, 1.0])[:, None]
    signs = scores.compute_signs(estimates)
    true_signs = scores.compute_signs(true_values)
    assert scores.compute_tau(signs, true_signs) == pytest.approx([1 / 3])
    differences = scores.compute_differences(true_values)
    np.testing.assert_array_equal(differences[:, 0], [-1, 1, 2])
    # The first pair has the wrong sign; it counts only if its true difference is significant.
    wrong, counted = scores.compute_sign_errors(signs, differences, np.full((3, 1), 0.1))
    assert (wrong.item(), counted.item()) == (1, 3)
    wrong, counted = scores.compute_sign_errors(signs, differences, np.array([[0.6], [0.1], [0.1]]))
    assert (wrong.item(), counted.item()) == (0, 2)
    # Equal estimates are half a wrong sign of each significant pair.
    tied_signs = scores.compute_signs(np.ones((3, 1)))
    wrong, _ = scores.compute_sign_errors(tied_signs, differences, np.full((3, 1), 0.1))
    assert wrong.item() == 1.5


def test_kendall_w_of_judges_that_agree_disagree_and_tie():
    agreement = np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])
    assert scores.compute_kendall_w(agreement) == pytest.approx(1)
    assert scores.compute_kendall_w(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])) == pytest.approx(0)
    # Rank totals 4, 6, 8: S = 8, W = 12 · 8 / (3² · (27 − 3)).
    three_judges = np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0], [2.0, 1.0, 3.0]])
    assert scores.compute_kendall_w(three_judges) == pytest.approx(96 / 216)
    # With ties in both rankings, W is still 1 for equal rankings.
    assert scores.compute_kendall_w(np.array([[1.0, 1.0, 3.0], [1.0, 1.0, 3.0]])) == pytest.approx(1)


def test_the_highest_tau_follows_from_the_tau_of_halves():
    assert scores.compute_tau_ceiling(1.0) == pytest.approx(1)
    assert scores.compute_tau_ceiling(-0.2) == 0
    # sin(π/4) = 0.7071, by Spearman and Brown 0.8284, square root 0.9102, and sin(0.7281 π/2) = 0.9102.
    assert scores.compute_tau_ceiling(0.5) == pytest.approx(0.7281, abs=1e-4)


def test_coverage_adds_the_error_of_the_truth():
    low = np.array([[[0.0], [0.0]]])
    high = np.array([[[0.2], [0.2]]])
    true_values = np.array([[[0.15], [0.25]]])
    assert scores.compute_coverage(low, high, true_values, np.zeros((1, 2, 1))) == pytest.approx([0.5])
    # √(0.1² + (1.96 · 0.06)²) = 0.154 ≥ 0.15
    assert scores.compute_coverage(low, high, true_values, np.full((1, 2, 1), 0.06)) == pytest.approx([1.0])


def test_user_sums_give_the_ratio_with_its_linearised_error():
    sums = truth.UserSums(np.arange(3), np.array([[1.0], [0.0], [2.0]]), np.array([2.0, 1.0, 2.0]))
    assert sums.value == pytest.approx([0.6])
    deviations = np.array([1 - 1.2, -0.6, 2 - 1.2]) / 5
    np.testing.assert_allclose(sums.compute_deviations()[:, 0], deviations)
    assert sums.compute_error(sums.compute_deviations()) == pytest.approx(
        [np.sqrt(1.5 * (deviations**2).sum())]
    )
    np.testing.assert_allclose(sums.resample(np.array([[2.0, 0.0, 1.0]])), [[4 / 6]])


# --- Data that evaluators see -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1])
def test_no_user_of_the_truth_is_seen_by_evaluators(number):
    log = LOGS["simulated"](Path(), number)
    assert not np.isin(log.exposure.user, log.truth.user).any()
    assert np.unique(log.exposure.user).size == np.unique(log.truth.user).size == 300


def test_splits_divide_users_anew():
    first, second = (LOGS["simulated"](Path(), number) for number in (0, 1))
    shared = np.intersect1d(np.unique(first.exposure.user), np.unique(second.exposure.user)).size
    assert 100 < shared < 200


def test_the_context_holds_nothing_of_the_users_of_the_truth(prepared: PreparedSplit):
    context = prepared.context
    truth_users = next(iter(prepared.truth_ranks.values())).users
    for ranked in (*context.ranks.values(), *context.liked_ranks.values(), *context.pair_ranks.values()):
        assert not np.isin(ranked.user, truth_users).any()
    assert not np.isin(context.split.test.user, truth_users).any()
    assert not np.isin(context.exposure.user, truth_users).any()


def test_the_truth_is_the_mean_over_liked_random_items(prepared: PreparedSplit):
    measured = truth.measure_truth(prepared)
    ranked = prepared.truth_ranks["popularity"]
    contributions = metric("recall@10").contributions(ranked)
    assert measured["interactions"]["value"][0][0] == pytest.approx(contributions.mean(), abs=1e-12)
    by_user = pd.Series(contributions).groupby(ranked.user).mean()
    is_common = np.isin(by_user.index, prepared.truth_held_out_users)
    assert measured["users"]["value"][0][0] == pytest.approx(by_user[is_common].mean(), abs=1e-12)


def test_evaluators_equal_their_formulas(prepared: PreparedSplit):
    context = prepared.context
    popularity = context.split.train.popularity
    ranked = context.ranks["item-kNN"]
    contributions = metric("recall@10").contributions(ranked)

    def estimate(name: str) -> float:
        frame = check_estimates(EVALUATORS[name].compute(context), name, context)
        return float(frame.set_index(["model", "metric"]).loc[("item-kNN", "recall@10"), "estimate"])

    assert estimate("AOA") == pytest.approx(contributions.mean())
    weights = (popularity[ranked.item] + 1.0) ** -0.5
    assert estimate("SNIPS pooled, γ = 0") == pytest.approx((weights * contributions).sum() / weights.sum())
    liked = context.liked_ranks["item-kNN"]
    sample = metric("recall@10").contributions(liked).mean()
    assert estimate("random sample (half of the users)") == pytest.approx(sample)


@pytest.mark.slow
def test_inverse_propensities_of_the_held_out_part_estimate_the_level_without_bias():
    errors = []
    aoa_errors = []
    for number in range(6):
        trainers = {name: list_recommenders()[name] for name in ("popularity", "random")}
        prepared = prepare_split(LOGS["simulated"](Path(), number), number, trainers)
        name = "IPS, measured per item (half of the users)"
        frame = EVALUATORS[name].compute(prepared.context)
        true_value = truth.measure_truth(prepared)["interactions"]["value"][0][2]
        row = frame[frame["metric"] == "atop"].iloc[0]
        assert row["low"] < row["estimate"] < row["high"]
        errors.append(row["estimate"] - true_value)
        aoa = EVALUATORS["AOA"].compute(prepared.context)
        aoa_errors.append(aoa.loc[aoa["metric"] == "atop", "estimate"].iloc[0] - true_value)
    assert np.mean(aoa_errors) > 0.05
    assert abs(np.mean(errors)) < np.mean(aoa_errors) / 3


@pytest.mark.slow
def test_every_evaluator_gives_estimates_or_refuses_with_a_reason(prepared: PreparedSplit):
    refused = {}
    for name, evaluator in EVALUATORS.items():
        cell = cells.compute_estimates(evaluator, prepared)
        if "refused" in cell:
            refused[name] = cell["refused"]
        else:
            assert np.isfinite(np.array(cell["high"])[:, :2]).all() or not evaluator.has_level, name
    assert set(refused.values()) == {"this log has positive interactions only"}, refused
    assert sorted(refused) == sorted(name for name in EVALUATORS if "with interactions" in name)


# --- Registries ---------------------------------------------------------------------------------------------


def test_a_name_is_added_once_and_frames_are_checked(prepared: PreparedSplit):
    with pytest.raises(ValueError, match="is there already"):
        add_evaluator("AOA", "nobody")
    with pytest.raises(ValueError, match="is there already"):
        evaluators.add_log("coat")
    context = prepared.context
    good = EVALUATORS["AOA"].compute(context)
    checked = check_estimates(good.sample(frac=1, random_state=0), "mine", context)
    assert checked["model"].tolist()[:3] == ["popularity"] * 3
    for wrong, message in (
        (None, "must return a DataFrame"),
        (good.drop(columns="low"), "lacks"),
        (pd.concat([good, good]), "one row per model and metric"),
        (good.replace({"metric": {"recall@10": "recall@7"}}), "unknown models or metrics"),
    ):
        with pytest.raises(ValueError, match=message):
            check_estimates(wrong, "mine", context)


# --- Runs ---------------------------------------------------------------------------------------------------


def make_task(folder: Path) -> cells.Task:
    return cells.Task(log="simulated", number=0, data=Path(), cache=folder, evaluators=NAMES)


def take_rows(folder: Path) -> pd.DataFrame:
    return list_rows([scores.read_log(folder, "simulated", [0], NAMES)])


@pytest.mark.usefixtures("few_recommenders")
@pytest.mark.parametrize("n_cut", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_a_run_that_was_killed_continues_and_gives_the_same_bytes(tmp_path, n_cut):
    whole = make_task(tmp_path / "whole")
    cells.run_task(whole)
    lines = whole.file.read_text("utf-8").splitlines(keepends=True)

    killed = make_task(tmp_path / "killed")
    killed.file.parent.mkdir()
    killed.file.write_text("".join(lines[:4])[:-n_cut], "utf-8")  # killed while the fourth line was written
    assert len(cells.read_cells(killed.file)) == 3
    assert "3 cells" in cells.run_task(killed)
    assert cells.run_task(killed).endswith("complete")
    expected = take_rows(tmp_path / "whole").to_csv(float_format="%.17g")
    assert take_rows(tmp_path / "killed").to_csv(float_format="%.17g") == expected
    names = [json.loads(line)["name"] for line in killed.file.read_text("utf-8").splitlines()]
    assert sorted(names) == sorted(set(names))


KILLED_SPLITS = 4


def start_command(folder: Path, n_processes: int) -> subprocess.Popen[str]:
    """Start the benchmark of a few evaluators on a simulated log."""
    command = [sys.executable, "-m", "reproductions.evaluators", "--cache", str(folder)]
    command += ["--logs", "simulated", "--splits", str(KILLED_SPLITS), "--processes", str(n_processes)]
    command += ["--evaluators", *NAMES]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def write_rows(folder: Path) -> bytes:
    """Return the bytes of the raw rows that a finished run writes."""
    results = scores.read_log(folder, "simulated", range(KILLED_SPLITS), NAMES)
    write_frame(list_rows([results]), folder / "rows.csv.gz")
    return (folder / "rows.csv.gz").read_bytes()


def wait_for_split(task: cells.Task) -> None:
    """Wait until the cells of one split are finished: preparation, truth, and every evaluator."""
    for _ in range(6000):
        if len(cells.read_cells(task.file)) == len(NAMES) + 2:
            return
        time.sleep(0.01)
    pytest.fail("no split was finished in a minute")


@pytest.fixture(name="uninterrupted_rows", scope="module")
def fixture_uninterrupted_rows(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    start_command(folder, 1).communicate(timeout=120)
    return write_rows(folder)


@pytest.mark.slow  # 14 s each; the test of a cut cache is fast
@pytest.mark.skipif(os.name != "posix", reason="kills by signals")
@pytest.mark.parametrize("n_processes", [1, 2])
def test_a_command_that_is_killed_continues_and_gives_the_same_bytes(
    tmp_path, uninterrupted_rows, n_processes
):
    killed = start_command(tmp_path / "killed", n_processes)
    wait_for_split(make_task(tmp_path / "killed"))
    killed.send_signal(signal.SIGKILL)
    # Worker processes share the standard output, so that it ends when no process is left to write cells.
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    files = sorted((tmp_path / "killed").glob("*.jsonl"))
    n_finished = sum(len(cells.read_cells(file)) for file in files)
    assert len(NAMES) + 2 <= n_finished < KILLED_SPLITS * (len(NAMES) + 2)

    continued = start_command(tmp_path / "killed", n_processes)
    printed, _ = continued.communicate(timeout=120)
    assert continued.returncode == 0
    assert "simulated, split 0: complete" in printed

    assert write_rows(tmp_path / "killed") == uninterrupted_rows


@pytest.mark.slow
@pytest.mark.usefixtures("few_recommenders")
def test_scores_on_a_simulated_log_favour_the_random_sample(tmp_path):
    for number in range(2):
        task = cells.Task(log="simulated", number=number, data=Path(), cache=tmp_path, evaluators=NAMES)
        cells.run_task(task)
    results = scores.read_log(tmp_path, "simulated", range(2), NAMES)
    by_name = scores.score_log(results)
    np.testing.assert_allclose(by_name["AOA"].relative_error.value, 1)
    value, low, high = by_name["random sample (half of the users)"].relative_error.average()
    assert low < value < high < 0.6
    winner = comparison.find_winner(by_name, ("log", "half of the users"), 0)
    assert winner.name == "random sample (half of the users)"
    assert comparison.find_winner(by_name, ("log",), 0).name == "SNIPS pooled, γ = 0"
    agreement = comparison.measure_agreement({"first": by_name, "second": by_name, "third": by_name})
    assert agreement == pytest.approx(dict.fromkeys(agreement, 1.0))
    assert list(agreement) == ["all logs", "without first", "without second", "without third"]
    ranks = comparison.rank_evaluators({"first": by_name, "second": by_name, "third": by_name})
    assert ranks["lowest"].equals(ranks["position"])


@pytest.fixture(name="registries")
def fixture_registries():
    known = (dict(EVALUATORS), dict(LOGS))
    loaded = set(plugins.LOADED)
    yield
    for registry, entries in zip((EVALUATORS, LOGS), known, strict=True):
        registry.clear()
        registry.update(entries)
    plugins.LOADED.clear()
    plugins.LOADED.update(loaded)


CONSTANT = """
import pandas as pd
from reproductions.evaluators import add_evaluator

@add_evaluator("constant", "nobody")
def compute_constant(context):
    rows = [
        {"model": model, "metric": label, "estimate": VALUE, "low": 0.0, "high": 1.0}
        for model in context.models
        for label in context.metrics
    ]
    return pd.DataFrame(rows)
"""


@pytest.mark.usefixtures("few_recommenders", "registries")
def test_a_changed_file_is_computed_again_and_an_unchanged_one_is_not(tmp_path):
    file = tmp_path / "constant.py"
    names = ("AOA", "constant")
    task = cells.Task(
        log="simulated", number=0, data=Path(), cache=tmp_path / "cache", evaluators=names, plugins=(file,)
    )

    def run_with(value: str) -> str:
        EVALUATORS.pop("constant", None)
        plugins.LOADED.discard(file.resolve())
        file.write_text(CONSTANT.replace("VALUE", value), "utf-8")
        return cells.run_task(task)

    assert "3 cells" in run_with("0.25")
    assert run_with("0.25").endswith("complete")
    line = run_with("0.75")
    assert "1 cell," in line
    assert line.endswith("1 computed again, because the code changed")
    results = scores.read_log(task.cache, "simulated", [0], names)
    np.testing.assert_array_equal(results.estimates["constant"][0], np.full((1, 3, 3), 0.75))


@pytest.mark.slow
@pytest.mark.usefixtures("few_recommenders")
def test_all_cells_are_computed_again_after_a_change_of_the_library(tmp_path, monkeypatch):
    task = make_task(tmp_path)
    cells.run_task(task)
    assert cells.run_task(task).endswith("complete")
    monkeypatch.setattr(cells, "hash_library", lambda: "changed")
    n_cells = len(NAMES) + 1
    assert cells.run_task(task).endswith(f"{n_cells} computed again, because the code changed")


def test_the_hash_of_the_library_follows_its_files(tmp_path, monkeypatch):
    package = tmp_path / "package"
    package.mkdir()
    hashes = []
    monkeypatch.setattr(plugins.ipseval, "__file__", str(package / "__init__.py"))
    for text in ("first", "second", "first"):
        (package / "module.py").write_text(text, "utf-8")
        hashes.append(plugins.hash_library.__wrapped__())
    assert hashes[0] == hashes[2] != hashes[1]


@pytest.mark.usefixtures("few_recommenders", "registries")
@pytest.mark.parametrize(
    "run", ["check", *(pytest.param(run, marks=pytest.mark.slow) for run in ("one process", "two processes"))]
)
def test_an_exception_names_the_line_of_the_file(tmp_path, run):
    file = tmp_path / "constant.py"
    file.write_text(CONSTANT.replace("VALUE", "unknown_value"), "utf-8")
    arguments = ["--add", str(file), "--logs", "simulated", "--splits", "1", "--evaluators", "constant"]
    arguments += ["--cache", str(tmp_path / "cache"), "--processes", {"two processes": "2"}.get(run, "1")]
    if run == "check":
        arguments = ["--check", str(file)]
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    wrong_line = CONSTANT.split("VALUE")[0].count("\n") + 1
    first, second = str(raised.value).split("\n")
    assert first.startswith(f"constant.py, line {wrong_line}, in compute_constant: ")
    assert second == "NameError: name 'unknown_value' is not defined"


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nraise RuntimeError('no file')", "line 2, in <module>: .*\nRuntimeError: no file"),
        ("(", "line 1: SyntaxError: "),
    ],
)
def test_an_exception_while_a_file_is_loaded_names_its_line(tmp_path, text, message):
    file = tmp_path / "broken.py"
    file.write_text(text, "utf-8")
    with pytest.raises(SystemExit, match=f"^broken.py, {message}"):
        main(["--check", str(file)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning")
@pytest.mark.usefixtures("few_recommenders", "registries")
def test_another_estimand_than_the_registered_one_is_an_error(tmp_path, prepared: PreparedSplit):
    text = """
from reproductions.evaluators import add_evaluator

@add_evaluator("mine", "nobody", estimand="interactions")
def compute_mine(context):
    return context.evaluate("aoa")
"""
    file = tmp_path / "mine.py"
    file.write_text(text, "utf-8")
    with pytest.raises(SystemExit, match=r"aoa estimates a mean over users.*Pass estimand='users'"):
        main(["--check", str(file)])

    propensity = PowerLawPropensity(gamma=0, unseen="smooth").fit(prepared.context.split.train)
    for estimand, wrong in (
        ("interactions", ("aoa", "snips", "snips-global")),
        ("users", ("aoa-pooled", "snips-pooled")),
    ):
        context = replace(prepared.context, estimand=estimand)
        for estimator in ("aoa", "snips", "snips-global", "aoa-pooled", "snips-pooled"):
            if estimator in wrong:
                with pytest.raises(ValueError, match=f"{estimator} estimates a mean over"):
                    context.evaluate(estimator, propensity)
            else:
                assert len(context.evaluate(estimator, propensity)) == 9
    with pytest.raises(ValueError, match="correct estimates a mean over interactions"):
        replace(prepared.context, estimand="users").correct(100)
    with pytest.raises(ValueError, match="estimand must be one of interactions, users"):
        add_evaluator("mine too", "nobody", estimand="items")


@pytest.mark.slow
@pytest.mark.usefixtures("few_recommenders")
def test_one_log_has_no_agreement_of_logs(tmp_path, capsys):
    options = ["--logs", "simulated", "--splits", "2", "--processes", "1", "--cache", str(tmp_path)]
    main([*options, "--evaluators", "SNIPS pooled, γ = 0"])
    printed = capsys.readouterr().out
    assert "| SNIPS pooled, γ = 0 |" in printed
    assert "Kendall's W" not in printed
    assert "position" not in printed
    with pytest.raises(SystemExit, match="--evaluators must be names of the list"):
        main([*options, "--evaluators", "nothing"])


def test_the_gain_of_correct_is_a_paired_difference():
    truth_value = np.array([0.5, 0.2])

    def make_scores(name: str, errors: list[float], spread: float) -> scores.EvaluatorScores:
        error = np.array(errors)
        noise = np.array([[-spread, 0.0], [0.0, 0.0], [spread, 0.0]])
        score = scores.Score(value=error, replicates=error + noise)
        return scores.EvaluatorScores(
            evaluator=EVALUATORS[name],
            error=score,
            relative_error=score,
            tau=score,
            sign_errors=score,
            coverage=error,
            half_width=error,
            mean_truth=truth_value,
        )

    by_name = {
        "correct (100 users)": make_scores("correct (100 users)", [0.1, 0.1], 0.02),
        "random sample (100 users)": make_scores("random sample (100 users)", [0.3, 0.2], 0.03),
    }
    difference = comparison.compare_errors(by_name, "correct (100 users)", "random sample (100 users)")
    # The noise is shared, so its difference has the standard deviation 0.03 − 0.02.
    assert difference.take(0) == pytest.approx((-0.2, -0.2 - 1.96 * 0.01, -0.2 + 1.96 * 0.01), abs=1e-4)
    assert difference.take(1) == pytest.approx((-0.1, -0.1, -0.1))
    np.testing.assert_allclose(by_name["correct (100 users)"].error_of_truth, [0.2, 0.5])
    table = tabulate_gain_of_correct({"log": by_name})
    assert table.splitlines()[2].startswith("| log, 100 users | −15.00 (−15.98 to −14.02) | −20.00 (")
    assert tabulate_gain_of_correct({"log": {}}) == ""


@pytest.mark.slow
@pytest.mark.usefixtures("few_recommenders", "registries")
def test_the_example_of_the_page_can_be_added_and_checked(tmp_path, capsys):
    examples = re.findall(r"^```python\n(# my_\w+\.py\n.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S)
    assert len(examples) == 2
    for text in examples:
        file = tmp_path / re.match(r"# (\S+)", text)[1]
        file.write_text(text, "utf-8")
        main(["--check", str(file)])
    printed = capsys.readouterr().out
    assert "| rare half" in printed
    assert "| SNIPS global, γ = 1" in printed
    assert "The file adds 3 evaluators and 0 logs." in printed
    assert "| my log |" in printed
    assert "The file adds 0 evaluators and 1 log." in printed


@pytest.mark.usefixtures("few_recommenders")
def test_warnings_of_correct_are_counted(tmp_path, monkeypatch):
    names = ("AOA", "correct (100 users)", "random sample (100 users)")
    compute = EVALUATORS["correct (100 users)"].compute

    def warn_on_the_second_split(context: Context) -> pd.DataFrame:
        return compute(context).assign(warned=context.seed == 1)

    warning = replace(EVALUATORS["correct (100 users)"], compute=warn_on_the_second_split)
    monkeypatch.setitem(EVALUATORS, "correct (100 users)", warning)
    for number in range(2):
        task = cells.Task(log="simulated", number=number, data=Path(), cache=tmp_path, evaluators=names)
        cells.run_task(task)
    results = scores.read_log(tmp_path, "simulated", range(2), names)
    assert results.warnings == {"correct (100 users)": (1, 2)}
    assert tabulate_warnings([results]).splitlines()[2:] == ["| simulated | correct (100 users) | 1 | 2 |"]
    assert tabulate_warnings([replace(results, warnings={})]) == ""


@pytest.mark.parametrize("is_explained", [True, False])
def test_estimates_of_correct_state_its_warning(prepared: PreparedSplit, monkeypatch, is_explained):
    monkeypatch.setattr(Correction, "explained", is_explained)
    for name in ("correct (100 users)", "correct, nobody exposed"):
        cell = cells.compute_estimates(EVALUATORS[name], prepared)
        assert cell["warned"] == (not is_explained)
    assert "warned" not in cells.compute_estimates(EVALUATORS["random sample (100 users)"], prepared)


def test_the_page_quotes_the_errors_of_the_tables():
    frame = pd.read_csv(PAGE.parent / "tables" / "evaluators" / "scores.csv")
    frame["share"] = frame["error"] / frame["mean_truth"]
    recall = frame[frame["metric"] == "recall@10"].set_index(["log", "evaluator"])["share"]
    shares = {
        log: f"{100 * recall[log, 'correct (100 users)']:.0f}%" for log in ("kuairand", "cm100k", "coat")
    }
    relative = frame[frame["metric"] == "recall@10"].set_index(["log", "evaluator"])["relative_error"]
    sentences = (
        f"the error of AOA by recall@10 is {recall['kuairand', 'AOA']:.0f} times the mean true recall@10.",
        "The error of `correct` with 100 users is "
        f"{100 * relative['kuairand', 'correct (100 users)']:.1f}% of this error.",
        f"it is {recall['kuairand', 'AOA']:.0f} · {100 * relative['kuairand', 'correct (100 users)']:.1f}% = "
        f"{shares['kuairand']}",
        f"CM100K: {shares['cm100k']}, Coat: {shares['coat']}",
    )
    text = re.sub(r"\s+", " ", PAGE.read_text("utf-8"))
    for sentence in sentences:
        assert sentence in text
    sample = f"{100 * recall['kuairand', 'random sample (100 users)']:.0f}%"
    assert f"from {sample} to {shares['kuairand']} of the true recall@10" in text


def test_the_page_quotes_the_rankings_of_the_tables_by_metric():
    frame = pd.read_csv(PAGE.parent / "tables" / "evaluators" / "scores.csv")
    tau = frame.set_index(["metric", "log", "evaluator"])["tau"]
    lines = PAGE.read_text("utf-8").splitlines()
    for label in ("atop", "recall@10", "mean_dcg@10"):
        cells = [label]
        for log in ("coat", "cm100k", "kuairand"):
            evaluators = ("AOA", "correct (100 users)", "correct (half of the users)")
            values = [tau[label, log, evaluator] for evaluator in evaluators]
            cells.append(" → ".join(f"{value:.2f}".replace("-", "−") for value in values))
        assert f"| {' | '.join(cells)} |" in lines


def test_only_by_atop_on_kuairand_does_exposure_of_100_users_improve_the_ranking_significantly():
    frame = pd.read_csv(PAGE.parent / "tables" / "evaluators" / "scores.csv")
    scores = frame.set_index(["metric", "log", "evaluator"])
    cells = [(label, log) for label, log, evaluator in scores.index if evaluator == "AOA"]
    improved = {
        (label, log)
        for label, log in cells
        if scores.loc[(label, log, "AOA"), "tau_high"]
        < scores.loc[(label, log, "correct (100 users)"), "tau_low"]
    }
    assert len(cells) == 9
    assert improved == {("atop", "kuairand")}


def test_only_by_atop_on_kuairand_do_weights_improve_the_ranking_significantly():
    frame = pd.read_csv(PAGE.parent / "tables" / "evaluators" / "scores.csv")
    frame["baseline"] = [scores.BASELINES[EVALUATORS[name].estimand] for name in frame["evaluator"]]
    scored = frame.set_index(["metric", "log", "evaluator"])
    improved = set()
    for row in frame[frame["evaluator"].str.startswith("SNIPS")].itertuples():
        if scored.loc[(row.metric, row.log, row.baseline), "tau_high"] < row.tau_low:
            improved.add((row.metric, row.log))
    assert improved == {("atop", "kuairand")}
    aoa = scored.loc[("atop", "kuairand", "AOA"), "tau"]
    weighted = scored.loc[("atop", "kuairand", "SNIPS pooled, γ = 0"), "tau"]
    sentence = (
        f"Kendall's τ (1 is the true order, 0 an unrelated one) rises from {aoa:.2f} to {weighted:.2f}."
    )
    assert sentence in re.sub(r"\s+", " ", PAGE.read_text("utf-8"))


def test_the_page_quotes_the_number_of_warnings():
    frame = pd.read_csv(PAGE.parent / "tables" / "evaluators" / "evaluators-warnings.csv")
    assert (frame["splits"] == 10).all()
    counts = frame.set_index(["evaluator", "log"])["splits with a warning"]
    words = {0: "none", 4: "four", 5: "five", 10: "ten"}
    small = [words[counts["correct (100 users)", log]] for log in ("kuairand", "coat", "cm100k")]
    large = [words[counts["correct (half of the users)", log]] for log in ("kuairand", "coat", "cm100k")]
    sentence = f"on all {small[0]} splits of KuaiRand, on {small[1]} of Coat and on {small[2]} of CM100K; "
    sentence += f"with half of the users, on {large[0]}, {large[1]} and {large[2]}."
    assert sentence in re.sub(r"\s+", " ", PAGE.read_text("utf-8"))
    warned = counts[counts > 0].index.get_level_values("evaluator")
    assert set(warned) == {"correct (100 users)", "correct (half of the users)"}


def test_the_context_documents_what_an_evaluator_may_read():
    text = GUIDE.read_text("utf-8")
    documented = re.findall(r"^\| `context\.(\w+)", text, re.M)
    fields = set(Context.__dataclass_fields__) | set(dir(Context))
    assert documented
    assert set(documented) <= fields
