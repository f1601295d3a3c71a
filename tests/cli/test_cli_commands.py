"""Every command of the command line: one success and one failure, and what all of them share."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

import ipseval
from ipseval.cli import main
from ipseval.validation.simulation import World
from tests.cli.command_files import FAST, QUICK, write_files
from tests.file_formats import WRITERS
from tests.inside.cli import build_parser

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a log, ratings, impressions, lists and random exposure, and two stored results."""
    folder = tmp_path_factory.mktemp("files")
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
        write_files()
        for gamma in ("1", "0"):
            outs = (word for suffix in ("npz", "json") for word in ("--out", f"{gamma}.{suffix}"))
            printed.seek(0)
            printed.truncate()
            assert main(["evaluate", "log.csv", "--gamma", gamma, *FAST, *outs]) == 0
        Path("0.txt").write_text(printed.getvalue())
    return folder


@pytest.fixture
def folder(written, tmp_path, monkeypatch):
    """A copy of that folder, in which a test may write."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_log_becomes_a_table_a_page_and_a_result_in_one_command(folder, capsys):
    code = main(["evaluate", "log.csv", "--gamma", "0", *FAST, "--out", "page.html", "--out", "result.npz"])
    printed = capsys.readouterr().out
    assert code == 0
    assert "SNIPS (γ = 0 assumed)" in printed
    assert (folder / "page.html").read_text().startswith("<!DOCTYPE html>")
    split = ipseval.split_random(ipseval.read("log.csv"), rng=0)
    models = {name: ipseval.baselines.BASELINES[name](split.train) for name in ("popularity", "random")}
    mine = ipseval.evaluate(models, split, propensity="power-law:gamma=0", metrics="recall@5", rng=0)
    theirs = ipseval.Evaluation.load("result.npz")
    pd.testing.assert_frame_equal(theirs.frame, mine.frame)


def test_the_parts_that_split_writes_give_the_numbers_of_the_whole_log(folder, capsys):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    whole = ["log.csv", "--split", "global-time", "--test-fraction", "0.3"]
    assert main(["split", *whole, "--out", "parts", "--format", "parquet"]) == 0
    split = ipseval.split_global_time(ipseval.read("log.csv"), test_fraction=0.3)
    assert capsys.readouterr().out.splitlines() == [
        *split.description.splitlines(),
        f"parts/train.parquet  {len(split.train)} pairs",
        f"parts/test.parquet  {len(split.test)} pairs",
        "Next: ipseval evaluate --train parts/train.parquet --test parts/test.parquet",
    ]
    assert len(pd.read_parquet("parts/test.parquet")) == len(split.test) != len(split.train)
    parts = ["--train", "parts/train.parquet", "--test", "parts/test.parquet"]
    for source in (whole, parts):
        assert main(["evaluate", *source, *QUICK, "--format", "csv"]) == 0
    first, second = (
        pd.read_csv(io.StringIO(part)) for part in _halves(capsys.readouterr().out, "model,metric,estimator")
    )
    shared = ["model", "estimate", "n_positives"]
    pd.testing.assert_frame_equal(
        first[first["model"] == "popularity"][shared], second[second["model"] == "popularity"][shared]
    )


def _halves(text: str, start: str) -> list[str]:
    return [start + part for part in text.split(start)[1:]]


TABLE = (*QUICK, "--format", "csv")
SUCCESS = {
    "ratings from a threshold, chosen items": [
        *("evaluate", "log.csv", "--threshold", "4", "--allowed-items", "items.csv", *TABLE),
    ],
    "columns behind the file, training items compete": [
        *("evaluate", "odd.csv:user=who,item=what", "--seen", "include", *TABLE),
    ],
    "impressions": [
        *("evaluate", "impressions.csv", "--propensity", "impressions", "--examination", "em", *FAST),
    ],
    "groups of a file": ["evaluate", "log.csv", "--by", "users.csv:age", *FAST],
    "diversity": ["evaluate", "log.csv", *FAST, "--beyond", "ild@5", "--item-vectors", "vectors.npy"],
    "a bootstrap": ["evaluate", "log.csv", "--interval", "percentile", "--n-resamples", "50", *FAST],
    "all claims": ["evaluate", "log.csv", "--gamma", "0", "--explain", "--threads", "1", *FAST],
    "leave one out in time, sampled candidates": [
        *("evaluate", "log.csv", "--split", "leave-one-out", "--order", "temporal", "--candidates", "5"),
        *TABLE,
    ],
    "lists with counts": [
        *("evaluate", "log.csv", "--model", "mine=lists.csv", "--seen", "drop", "--unknown", "drop"),
        *("--metrics", "recall@2"),
    ],
    "a fit of gamma": [
        *("fit", "propensity", "log.csv", "--gamma", "fit", "--random-exposure", "shown.csv:threshold=4"),
        *("--out", "p.csv"),
    ],
    "a fit to impressions": ["fit", "propensity", "impressions.csv", "--propensity", "impressions"],
    "examination": ["fit", "examination", "impressions.csv", "--out", "curve.csv"],
    "correction": ["correct", "log.csv", *FAST, "--format", "csv"],
    "correction as JSON": ["correct", "log.csv", *FAST, "--format", "json"],
    "correction from all ratings": [
        *("correct", "log.csv", "--threshold", "4", "--interactions", "log.csv", *FAST),
    ],
    "correction from random exposure": [
        *("correct", "log.csv", "--random-exposure", "shown.csv:threshold=4", *FAST),
    ],
    "correction with a reference value": [
        *("correct", "log.csv", "--reference-values", "popularity:recall@5=0.2+-0.05", *FAST),
        *("--source", "randomised"),
    ],
    "gamma from random exposure": [
        *("evaluate", "log.csv", "--gamma", "fit", "--random-exposure", "shown.csv:threshold=4", *FAST),
    ],
    "parts with repeats": [
        *("evaluate", "--train", "twice.csv", "--test", "log.csv", "--duplicates", "keep"),
        *("--seen", "include", *TABLE),
    ],
    "plan": ["plan", "log.csv", "--positive-share", "0.1", "--n-users", "50", "--n-items", "5", *FAST],
    "doctor": ["doctor"],
}


def test_repeated_entries_of_lists_are_an_error_unless_they_are_dropped(folder, capsys):
    lists = pd.read_csv("lists.csv")
    pd.concat([lists[lists["item"] != 99]] * 2).to_csv("repeated.csv", index=False)
    command = [
        "evaluate",
        "log.csv",
        "--model",
        "mine=repeated.csv",
        "--seen",
        "drop",
        "--metrics",
        "recall@2",
    ]
    assert main(command) == 2
    assert "duplicates" in capsys.readouterr().err
    assert main([*command, "--duplicates", "drop"]) == 0


@pytest.mark.parametrize("case", SUCCESS)
def test_a_command_succeeds(case: str, folder, capsys):
    assert main(SUCCESS[case]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out


def test_a_plan_after_a_pilot_counts_the_users_of_the_pilot(folder, capsys):
    command = ["plan", "log.csv", "--random-exposure", "shown.csv:threshold=4", "--n-items", "5", *FAST]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert (
        "n_users: users in all; those of --random-exposure count, and are shown no further items." in printed
    )
    rows = re.findall(r"^(\d+) +5 ", printed, re.M)
    assert [int(n_users) for n_users in rows] == [65, 140, 440]
    assert main([*command, "--n-users", "30"]) == 2
    assert "--n-users must be at least 40, because the users of the pilot count; got 30." in " ".join(
        capsys.readouterr().err.split()
    )
    assert main(["plan", "log.csv", "--positive-share", "0.1", "--n-items", "5", *FAST]) == 0
    assert "n_users: users in all" not in capsys.readouterr().out


def test_warnings_and_explanations_are_in_the_words_of_the_command_line(folder, capsys):
    arguments = ["evaluate", "odd.csv", "--user", "who", "--item", "what", "--explain", *QUICK]
    assert main([*arguments, "--split", "temporal"]) == 0
    captured = capsys.readouterr()
    assert "rows from odd.csv: who → user, what → item" in captured.out
    assert "Use --split global-time to prevent this." in captured.err
    assert main(["evaluate", "log.csv", "--candidates", "5", *FAST, "--format", "csv"]) == 0
    advice = re.search(r"use a metric such as (\S+)\.", capsys.readouterr().err)
    assert main(["evaluate", "log.csv", "--candidates", "5", *FAST, "--metrics", advice[1]]) == 0
    printed = capsys.readouterr().out
    assert f"{advice[1]}  AOA" in printed
    assert "as there is no threshold" in " ".join(printed.split())


def test_what_is_printed_names_nothing_of_python(folder, capsys):
    groups = ["--by", "popularity:3", "--metrics", "recall@5,ndcg@5", "--model", "popularity", "--gamma", "0"]
    assert main(["evaluate", "log.csv", *groups, "--model", "random"]) == 0
    grouped = capsys.readouterr().out
    assert "Results by AOA: in the HTML report (--out FILE.html)." in grouped
    assert grouped.count("\nrecall@5, SNIPS") == grouped.count("\nndcg@5, SNIPS") == 1
    lists = pd.read_csv("lists.csv")
    many = []
    for number in range(13):
        lists[lists["user"] >= number].to_csv(f"v{number}.csv", index=False)
        many += ["--model", f"v{number}=v{number}.csv"]
    many += ["--seen", "drop", "--unknown", "drop", "--metrics", "recall@2"]
    assert main(["evaluate", "log.csv", *many]) == 0
    listed = capsys.readouterr().out
    assert "and 1 more in --out all.csv" in listed
    assert re.search(r"And\s+\d+\s+more\s+in\s+the\s+HTML\s+report\s+\(--out\s+FILE.html\)", listed)
    for text in (grouped, listed):
        assert not re.search(r"(?<!page)\.(explain|frame|data|differences|to_html|segments)\b", text)


def test_a_page_has_the_title_that_is_named(folder, capsys):
    title = "Which version & why?"
    assert main(["evaluate", "log.csv", *FAST, "--title", title, "--out", "page.html", "--quiet"]) == 0
    assert "<title>Which version &amp; why?</title>" in (folder / "page.html").read_text()
    assert main(["evaluate", "log.csv", *FAST, "--title", title, "--format", "html"]) == 0
    assert "<title>Which version &amp; why?</title>" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("log", "options", "is_printed"),
    [
        ("impressions.csv", [], True),
        ("impressions.csv", ["--quiet"], False),
        ("impressions.csv", ["--estimators", "aoa-pooled"], False),
        ("impressions.csv", ["--propensity", "impressions"], False),
        ("log.csv", [], False),
    ],
)
def test_weights_that_nobody_asked_for_point_to_the_page_that_says_whether_they_suit_the_log(
    log, options, is_printed, folder, capsys
):
    assert main(["evaluate", log, *FAST, *options]) == 0
    note = "pass --estimators aoa-pooled instead (docs/exposure-logs.md#which-log-do-you-have)."
    assert (note in capsys.readouterr().err) == is_printed


def test_a_fitted_examination_states_its_condition(folder, capsys):
    assert main(["fit", "examination", "impressions.csv", "--examination", "randomised"]) == 0
    assert "Valid only if the shown items were in random order." in capsys.readouterr().out
    for method in ("harvesting", "em"):
        assert main(["fit", "examination", "impressions.csv", "--examination", method]) == 0
        assert (
            "Valid only if the order of the shown items did not depend on the user."
            in capsys.readouterr().out
        )


FAILURE = {
    "title": (
        ["evaluate", "log.csv", *FAST, "--title", "mine", "--out", "a.txt"],
        "--title requires an HTML",
    ),
    "evaluate": (["evaluate"], "give a LOG to split, or --train and --test"),
    "both": (["evaluate", "log.csv", "--train", "log.csv"], "give a LOG to split, or --train and --test"),
    "one part": (["evaluate", "--train", "log.csv"], "give a LOG to split, or --train and --test"),
    "split": (["split", "log.csv", "--out", "log.csv"], "--out must be a folder"),
    "split of repeats": (["split", "twice.csv", "--out", "parts"], "Pass --duplicates drop"),
    "fit": (["fit", "propensity", "log.csv"], "fit propensity requires --gamma or --propensity"),
    "fit gamma from a log": (["fit", "propensity", "log.csv", "--gamma", "fit"], "--recommendations"),
    "fit examination": (["fit", "examination", "log.csv"], "Name the column of clicks by --clicked"),
    "impressions": (["evaluate", "log.csv", "--propensity", "impressions"], "needs impressions"),
    "impressions with an option": (
        ["evaluate", "log.csv", "--propensity", "impressions:shrinkage=2"],
        "--propensity impressions needs impressions",
    ),
    "nothing to fit to": (["fit", "propensity", "log.csv", "--propensity", "impressions"], "needs impr"),
    "plan": (["plan", "log.csv", "--positive-share", "2", *FAST], "in (0, 1]"),
    "a batch without a design": (["plan", "log.csv", "--same-users", *FAST], "give --design with them"),
    "an allocation of several sizes": (
        ["plan", "log.csv", "--design", "uniform", "--n-users", "5,9"],
        "n-users must be one number",
    ),
    "an allocation without answers": (
        ["correct", "log.csv", "--allocation", "log.csv", *FAST],
        "--allocation requires --random-exposure",
    ),
    "plan of an array": (["plan", "vectors.npy"], "Give the log: a table with a row per interaction"),
    "plan of a stored result": (
        ["plan", "result.npz"],
        "ipseval plan --train train.csv --test test.csv --model old=old.csv --model new=new.csv",
    ),
    "a split without times": (
        ["evaluate", "log.csv", "--ignore", "ts", "--split", "global-time"],
        "Name the column of times by --timestamp",
    ),
    "report": (["report", "log.csv"], "log.csv must be a file of stored results, which end in .npz"),
    "report of another kind": (["report", "log.csv", "--out", "page.pdf"], "--out must end in .txt"),
    "compare": (["compare", "a.json", "b.json", "--metric", "auc"], "a.json does not exist"),
    "compare all": (["compare", "log.csv", "log.csv"], "log.csv must be a file of stored results"),
    "a plan": (["plan", "log.csv", "--out", "plan.xls", *FAST], "--out must end in .txt"),
    "study": (["study", "none.toml"], "none.toml does not exist"),
    "validate": (["validate", "cot", "--data", "."], "Did you mean 'coat'"),
    "metrics": (["evaluate", "--list-metrics", "recal@5"], "Did you mean 'recall'"),
    "demo": (["demo", "--picture", "log.csv/a.svg"], "log.csv/a.svg"),
    "a picture": (["demo", "--picture", "a.png"], "--picture must end in .svg"),
    "seen": (["evaluate", "log.csv", "--model", "mine=lists.csv"], "--unknown drop"),
    "columns": (["evaluate", "odd.csv"], "by --user"),
    "option of a file": (["evaluate", "log.csv:usr=a"], "Did you mean 'user'"),
    "group": (["evaluate", "log.csv", "--by", "users.csv:colour", *FAST], "has no column 'colour'"),
    "no group": (["evaluate", "log.csv", "--by", "country", *FAST], "FILE[:column]; got 'country'"),
    "no vectors": (["evaluate", "log.csv", "--beyond", "ild@5", *FAST], "Pass --item-vectors"),
    "vectors for nothing": (
        ["evaluate", "log.csv", "--item-vectors", "vectors.npy", *FAST],
        "read by ild@k alone; name it in --beyond",
    ),
    "no data": (["validate", "coat", "--data", "nowhere"], "nowhere"),
    "an overlap": (["evaluate", "--train", "log.csv", "--test", "log.csv", *FAST], "--overlap drop"),
    "a level": (
        ["evaluate", "log.csv", "--confidence-level", "2", *FAST],
        "--confidence-level must be in (0",
    ),
    "other items": (["evaluate", "log.csv", "--items", "few.csv", *FAST], "outside the given"),
    "no rows": (["evaluate", "log.csv", "--threshold", "9"], "Pass a smaller --threshold"),
    "two sets of candidates": (
        ["evaluate", "log.csv", "--allowed-items", "few.csv", "--candidates", "5", *FAST],
        "--candidates must be 'all' with --allowed-items",
    ),
    "no such weights": (
        ["evaluate", "log.csv", "--propensity", "none.csv", *FAST],
        "none.csv does not exist",
    ),
    "an unreadable reference value": (
        ["correct", "log.csv", "--reference-values", "pop:auc=high+-1", *FAST],
        "--reference-values must be NAME:METRIC=VALUE+-ERROR; got 'pop:auc=high+-1'",
    ),
}


@pytest.mark.parametrize("case", FAILURE)
def test_a_command_that_cannot_work_says_in_its_own_words_what_to_do(case: str, written, monkeypatch, capsys):
    if case == "demo":
        pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install matplotlib")
    monkeypatch.chdir(written)  # it writes nothing
    Path("open.txt").write_text("'log.csv")
    Path("few.csv").write_text("item\n1\n2\n")
    arguments, expected = FAILURE[case]
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.err.splitlines()[-1].count("ipseval: error") <= 1
    assert "Traceback" not in captured.err


def test_every_command_has_a_success_or_a_test_of_its_own():
    elsewhere = {"demo", "study", "validate", "compare", "report", "split"}
    commands = {arguments[0] for arguments in SUCCESS.values()} | elsewhere
    assert commands >= set(build_parser()._subparsers._group_actions[0].choices)
    failing = {arguments[0] for arguments, _ in FAILURE.values()}
    assert failing | {"doctor"} >= set(build_parser()._subparsers._group_actions[0].choices)


def test_a_validation_prints_what_weights_remove(capsys, monkeypatch):
    study = World(n_users=80, n_items=60, mean_relevant=12, rng=0).study(1, n_per_user=10)
    monkeypatch.setitem(ipseval.datasets.STUDIES, "coat", lambda _: study)
    monkeypatch.setattr("ipseval.validation.validation_study.METRICS", ("recall@5",))
    assert main(["validate", "coat", "--data", ".", "--splits", "1"]) == 0
    printed = capsys.readouterr().out
    assert "1 split · 80 users" in printed
    rows = [line.split()[:2] for line in printed.splitlines()]
    assert ["density", "ratio"] in rows
    assert ["random-sample", "aoa-pooled"] in rows


def test_a_stored_result_is_shown_as_it_was_printed_and_becomes_a_page(folder, capsys):
    assert main(["report", "0.npz"]) == 0
    assert capsys.readouterr().out == Path("0.txt").read_text()
    assert main(["report", "0.npz", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path("0.json").read_text())
    assert main(["report", "0.npz", "--out", "report.html", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_two_stored_results_are_shown_beside_each_other(folder, capsys):
    # Of several pairs none is chosen, and nothing passes.
    assert main(["compare", "1.npz", "0.npz", "--format", "csv"]) == 2
    captured = capsys.readouterr()
    assert "Name the pair by --model" in captured.err
    assert captured.out == ""
    pair = ["--model", "random=popularity"]
    assert main(["compare", "1.npz", "1.npz", *pair, "--format", "csv"]) == 4
    assert main(["compare", "1.npz", "0.npz", *pair, "--out", "diff.html", "--quiet"]) == 4
    assert (folder / "diff.html").read_text().startswith("<!DOCTYPE html>")


def test_several_stored_results_are_one_latex_table_and_one_report(folder, capsys):
    (folder / "same.npz").write_bytes((folder / "0.npz").read_bytes())
    assert main(["report", "0.npz", "same.npz", "--format", "latex", "--out", "both.md"]) == 0
    latex = capsys.readouterr().out
    assert latex.count(r"\begin{tabular}") == 1
    assert latex.count(", 0}}") == latex.count(", same}}") > 0
    markdown = (folder / "both.md").read_text()
    assert markdown.startswith("0: ")
    assert "\n## same: " in markdown
    assert main(["report", "0.npz", "1.npz", "--format", "latex"]) == 2
    assert "results must have the same columns in one table; got AOA" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["0.npz", "1.npz", "--format", "json"],
            "2 results can be printed as text, Markdown, LaTeX or HTML; got json",
        ),
        (
            ["0.npz", "1.npz", "--out", "both.csv"],
            "2 results can be printed as text, Markdown, LaTeX or HTML; got csv",
        ),
        (
            ["0.npz", "1.npz", "--out", "both.npz"],
            "2 results can be printed as text, Markdown, LaTeX or HTML; got npz",
        ),
        (["0.npz", "0.npz"], "the files of several results must have different names; got 0 twice"),
        (["0.npz", "1.npz", "--explain"], "--explain is for one result"),
        (["0.npz", "1.npz", "--statement"], "--statement is for one result"),
    ],
)
def test_what_is_only_possible_for_one_stored_result_is_refused_for_two(folder, capsys, arguments, words):
    assert main(["report", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_quiet_prints_nothing_where_a_file_takes_the_result(folder, capsys, monkeypatch):
    monkeypatch.setattr("ipseval.utils.compute.BAR_DELAY", 0)
    arguments = ["evaluate", "log.csv", "--model", "mine=lists.csv:seen=drop,unknown=drop"]
    arguments += ["--metrics", "recall@9"]
    assert main([*arguments, "--quiet", "--out", "r.md"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert (folder / "r.md").read_text().count("|") > 5
    assert main([*arguments, "--out", "-", "--out", "r.md", "--quiet"]) == 0
    assert capsys.readouterr().out
    assert main(["evaluate", "log.csv", "--gamma", "0", *QUICK, "--quiet", "--out", "r.md"]) == 0
    assert capsys.readouterr().err == ""


def test_a_log_comes_through_a_pipe(folder, capsys, monkeypatch):
    assert main(["evaluate", "log.csv", *QUICK, "--format", "csv"]) == 0
    expected, frame = capsys.readouterr().out, pd.read_csv("log.csv")
    for name, write in WRITERS.items():
        write(frame, folder / "piped")
        content = (folder / "piped").read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert main(["evaluate", "-", *QUICK, "--format", "csv"]) == 0
        assert capsys.readouterr().out == expected, name


# Arguments in Python that have no option, or one of another name, and why.
OTHERWISE = {
    "evaluate": {
        "models": "--model", "split": "LOG, --split, --train, --test", "rng": "--seed",
        "compute": "--threads, --memory, --engine, --quiet",
    },
    "read": {
        "source": "LOG", "propensity": "--propensity-column",
    },
    "correct": {
        "models": "--model", "split": "LOG, --split", "rng": "--seed", "prior": "a value made in Python",
        "compute": "--threads, --memory, --engine, --quiet",
    },
    "plan_exposure": {
        "correction": "LOG and the options of correct", "models": "--model", "split": "LOG, --split",
        "rng": "--seed", "compute": "--threads, --memory, --engine, --quiet",
    },
    "split_leave_one_out": {"log": "LOG", "rng": "--seed", "seen": "of lists, too"},
}  # fmt: skip
COMMANDS = {"evaluate": "evaluate", "read": "evaluate", "correct": "correct", "plan_exposure": "plan"}
COMMANDS |= {"split_leave_one_out": "split"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_in_python_has_its_option_with_the_same_default(name: str):
    build_parser.cache_clear()
    parser = build_parser()._subparsers._group_actions[0].choices[COMMANDS[name]]
    actions = {action.dest: action for action in parser._actions}
    for argument, parameter in inspect.signature(getattr(ipseval, name)).parameters.items():
        if argument in OTHERWISE[name]:
            continue
        assert argument in actions, f"{name}({argument}=) has no option"
        default, option_default = parameter.default, actions[argument].default
        if argument == "metrics":
            assert option_default == ",".join(map(str, default))
        elif argument == "missing" or isinstance(option_default, str):
            assert option_default == default, argument
        else:
            assert option_default == default or not option_default or not default, argument


def test_lists_of_strangers_are_an_error_and_write_nothing(folder, capsys):
    lists = pd.read_csv("lists.csv")
    lists.assign(user=lists["user"] + 10_000).to_csv("strangers.csv", index=False)
    arguments = ["evaluate", "log.csv", "--model", "mine=strangers.csv:seen=drop,unknown=drop"]
    assert main([*arguments, "--out", "strangers.html"]) == 2
    error = capsys.readouterr().err
    assert "the lists of 'mine' must contain users with held-out interactions; got lists of none" in error
    assert not Path("strangers.html").exists()
