"""What commands print and write: formats, tables, errors, the doctor, and the list of metrics."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.cli import main
from ipseval.errors import InputError
from ipseval.estimators import card
from ipseval.metrics import METRICS
from ipseval.validation.simulation import World
from tests.cli.command_files import QUICK
from tests.cli.test_cli_options import folder
from tests.inside.cli import (
    DEPENDENCIES,
    EXTRAS,
    FitReport,
    Plan,
    _describe_cache,
    _describe_spread,
    build_demo_world,
    deliver_result,
    describe_sufficient_size,
    print_message,
    self_test,
    show_warning,
    write_table,
)

__all__ = ["folder"]  # a fixture


def result(**more: object) -> SimpleNamespace:
    """Return what every format can be made of, with nothing behind its last line or with one line end."""
    frame = pd.DataFrame({"a": [1]})
    texts = {"to_markdown": "md", "to_latex": "tex\n", "to_csv": "a\n1\n", "to_html": "<html>"}
    return SimpleNamespace(
        frame=frame, **{name: lambda title=None, text=text: text for name, text in texts.items()}, **more
    )


def test_every_file_ends_with_one_line_end_and_is_named_unless_that_is_not_wanted(folder, capsys):
    outs = ["x.md", "x.tex", "x.csv", "x.json", "+.html"]
    options = SimpleNamespace(title=None, out=[*outs, "-"], quiet=False, format="csv")
    deliver_result(result(), options)
    texts = ("md\n", "tex\n", "a\n1\n", '[\n {\n  "a":1\n }\n]\n', "<html>\n")
    assert [Path(name).read_text() for name in outs] == list(texts)
    captured = capsys.readouterr()
    assert captured.out == "a\n1\n"
    assert captured.err == "ipseval: wrote x.md, x.tex, x.csv, x.json, +.html\n"
    deliver_result(result(), SimpleNamespace(title=None, out=["x.md"], quiet=True, format="csv"))
    assert capsys.readouterr() == ("", "")
    deliver_result(result(), SimpleNamespace(title=None, out=[], quiet=True, format="csv"))
    assert capsys.readouterr() == ("a\n1\n", "")
    with pytest.raises(InputError, match=r"x\.npz: only results can be stored as \.npz"):
        deliver_result(result(), SimpleNamespace(title=None, out=["x.npz"], quiet=True, format="csv"))


def test_an_explanation_is_text_alone(folder, capsys):
    explained = result(explain=lambda: "all claims", __str__=lambda: "short")
    for form, expected in (("text", "all claims\n"), ("csv", "a\n1\n"), ("md", "md\n")):
        deliver_result(explained, SimpleNamespace(title=None, out=[], quiet=False, format=form, explain=True))
        assert capsys.readouterr().out == expected


def test_groups_stand_behind_a_report_and_are_no_part_of_the_data(folder, capsys):
    users = pd.DataFrame({"user": range(30), "age": ["old", "young"] * 15})
    users.to_csv("users.csv", index=False)
    command = ["evaluate", "log.csv", *QUICK, "--by", "users.csv:age", "--out", "x.md", "--out", "x.csv"]
    assert main([*command, "--out", "x.json", "--quiet"]) == 0
    assert "young" in Path("x.md").read_text()
    assert "young" not in Path("x.csv").read_text() + Path("x.json").read_text()


def test_tables_are_written_as_their_suffix_says(folder, monkeypatch):
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    for suffix, text in ((".csv", "a,b\n1,x\n2,y\n"), (".tsv", "a\tb\n1\tx\n2\ty\n")):
        write_table(frame, f"t{suffix}")
        assert Path(f"t{suffix}").read_text() == text
    write_table(frame, "t.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet("t.parquet"), frame, check_dtype=False)
    with pytest.raises(InputError, match=r"a table must end in \.csv, \.tsv, \.parquet; got 't\.xls'"):
        write_table(frame, "t.xls")
    monkeypatch.setattr(pd.DataFrame, "to_parquet", without_pyarrow)
    with pytest.raises(
        InputError,
        match=r"^t\.parquet is Parquet, which needs pyarrow\. Install it by pip install pyarrow\.$",
    ):
        write_table(frame, "t.parquet")


def without_pyarrow(*_: object, **options: object) -> None:
    raise ImportError


def test_the_spread_of_propensities_counts_the_items_that_have_none():
    known = "2 items; the largest propensity is 4 times the smallest."
    assert _describe_spread(pd.Series([0.1, 0.4])) == [known]
    assert _describe_spread(pd.Series([0.1, np.nan, 0.4])) == [known, "Without a propensity: 1 item."]
    assert _describe_spread(pd.Series([np.nan])) == [
        "0 items; the largest propensity is nan times the smallest.",
        "Without a propensity: 1 item.",
    ]


def plan_of(**columns: list[float]) -> pd.DataFrame:
    plan = pd.DataFrame({"metric": "auc", "n_users": [1000, 20, 50], "n_items": [2, 40, 10]})
    numbers = {"n_positives": [2000.0, 800, 500], "half_width": [0.01, 0.02, 0.03]}
    numbers |= {"half_width_random": [0.02, 0.03, 0.04], "smallest_difference": [0.05, 0.06, 0.07]}
    return plan.assign(**numbers, regret_90=[0.01, 0.02, 0.01], **columns)


def test_the_sufficient_size_is_the_smallest_product_with_no_larger_regret():
    plan = plan_of()
    end = "suffice for a regret of at most 0.01."
    assert describe_sufficient_size("auc", plan, 0.01) == f"auc: 50 users × 10 items {end}"
    assert describe_sufficient_size("auc", plan[:2], 0.01) == f"auc: 1,000 users × 2 items {end}"
    assert describe_sufficient_size("auc", plan, 0.005) == (
        "auc: the regret may exceed 0.005 with each of these sizes."
    )


def test_a_plan_has_one_table_per_metric_whose_rows_name_users_and_items():
    plan = pd.concat([plan_of(), plan_of().assign(metric="recall@5")], ignore_index=True)
    tables = Plan(("Words.",), plan).tables()
    assert [table.title for table in tables.parts] == ["auc", "recall@5"]
    for table in tables.parts:
        assert table.header[:3] == ("n_users", "n_items", "n_positives")
        assert table.n_keys == 2
        assert [cell.text for cell in table.rows[0]] == [
            "1,000",
            "2",
            "2,000",
            "0.010",
            "0.020",
            "0.050",
            "0.010",
        ]
    assert "e+" not in repr(Plan(("Words.",), plan.assign(n_positives=1.25e7)))


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])
def test_the_self_test_fails_on_estimates_that_are_too_low_or_too_high(factor, monkeypatch):
    answer = SimpleNamespace(frame=pd.DataFrame({"estimate": [factor / 2, factor / 3]}))
    monkeypatch.setattr("ipseval.evaluation.evaluate", lambda *_, **__: answer)
    values = [round(factor / 2, 12), round(factor / 3, 12)]
    expected = "FAILED: expected [0.5, 0.333333333333]"
    assert self_test() == ("" if factor == 1 else f"{expected}, got {values}")


def test_the_world_of_the_demonstration_and_its_log_have_seeds_of_their_own():
    world, split = build_demo_world(3, 40, 90)
    same = World(n_users=40, n_items=90, mean_relevant=40, gamma=0.0, max_propensity=0.6, rng=3)
    np.testing.assert_array_equal(world.n_relevant, same.n_relevant)
    pd.testing.assert_frame_equal(split.test.to_frame(), same.split(rng=4).test.to_frame())
    with pytest.raises(InputError, match="rng"):
        build_demo_world(-1, 40, 90)


def test_a_fitted_table_is_shown_with_three_digits_or_only_stored():
    frame = pd.DataFrame({"item": ["a"], "propensity": [0.123456]})
    assert str(FitReport(("Words.",), frame)) == "Words.\n\nitem  propensity\na          0.123"
    assert str(FitReport(("Words.",), frame, prints_frame=False)) == "Words."


def test_a_fit_of_propensities_prints_what_it_says_and_stores_the_table(folder, capsys):
    assert main(["fit", "propensity", "log.csv", "--gamma", "1", "--out", "p.csv", "--quiet"]) == 0
    table = pd.read_csv("p.csv")
    assert list(table.columns) == ["item", "n_interactions", "relative_propensity"]
    assert (
        table["n_interactions"].tolist()
        == pd.read_csv("log.csv")["item"].value_counts().sort_index().tolist()
    )
    # P ∝ n + 1 with γ = 1: a smoothed power law.
    ratio = (table["n_interactions"].max() + 1) / (table["n_interactions"].min() + 1)
    assert main(["fit", "propensity", "log.csv", "--gamma", "1"]) == 0
    assert capsys.readouterr().out == (
        "Propensity(power law, gamma = 1; per item; relative)\n"
        f"12 items; the largest propensity is {ratio:.3g} times the smallest.\n"
    )


def test_metrics_are_listed_with_their_cutoffs_and_those_of_other_packages_behind_them(monkeypatch, capsys):
    point = SimpleNamespace(dist=SimpleNamespace(name="others", version="2.0"))
    monkeypatch.setattr(type(METRICS), "list_offers", lambda _: {"serendipity": [point]})
    assert main(["evaluate", "--list-metrics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    endings = {"required": "@k", "optional": "[@k]", "none": ""}
    assert [line.split()[0] for line in lines[: len(METRICS)]] == [
        name + endings[METRICS[name].takes_cutoff] for name in METRICS
    ]
    assert lines[3].split()[0] == "dcg[@k]"
    assert lines[1] == "precision@k        share of the first k that is relevant (denominator)"
    assert lines[5] == "atop               mean share of items below a relevant one"
    assert lines[len(METRICS) :][:2] == ["serendipity        of others 2.0", ""]
    assert lines[-3] == "On predicted ratings (evaluate_ratings): mae, mse, rmse"
    assert main(["evaluate", "--list-metrics", "auc,ap@10"]) == 0
    assert capsys.readouterr().out == f"{card('auc')}\n\n{card('ap@10')}\n"


def test_doctor_sums_the_compiled_code_in_megabytes(tmp_path, monkeypatch):
    monkeypatch.setattr("ipseval.cli._about.__file__", str(tmp_path / "ipseval" / "cli" / "_about.py"))
    assert _describe_cache() == "no compiled code so far"
    cache = tmp_path / "ipseval" / "ranking" / "kernels" / "__pycache__"
    cache.mkdir(parents=True)
    for name, size in (("a.nbi", 2**20), ("b.nbc", 2**19), ("c.pyc", 2**22)):
        with (cache / name).open("wb") as file:
            file.truncate(size)
    assert _describe_cache() == f"1.5 MB of compiled code in {cache}"


def test_doctor_says_of_each_extra_how_to_get_it_where_it_is_missing(monkeypatch, capsys):
    monkeypatch.setattr("ipseval.cli._about.find_spec", lambda name: "here" if name == "pyarrow" else None)
    monkeypatch.setattr("ipseval.cli._about._find_version", lambda name: f"{name}-1")
    monkeypatch.setattr("ipseval.cli._about.self_test", lambda: "")
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "parquet     pyarrow-1 " in printed
    assert "fast        missing: pip install numba " in printed
    assert printed.count("missing: ") == len(EXTRAS) - 1
    assert "self-test   passed (0.0 s of processor time)" in printed


def test_compare_prints_an_error_alone_for_results_that_are_not_comparable(folder, capsys):
    split = ipseval.split_random(ipseval.read("log.csv"), rng=0)
    models = {name: ipseval.baselines.BASELINES[name](split.train) for name in ("popularity", "random")}
    given = {"metrics": ["recall@5"], "estimators": ["aoa"]}
    ipseval.evaluate(models, split, **given).save("new.npz")
    ipseval.evaluate(models, split, ties="min", **given).save("old.npz")
    compare = ["compare", "new.npz", "old.npz", "--format", "csv"]
    for name in ("random=popularity", "random"):
        assert main([*compare, "--model", name]) == 2
        captured = capsys.readouterr()
        assert "ties 'min' -> 'default'" in captured.err
        assert captured.out == ""


def test_a_preflight_is_that_of_the_stored_result_with_the_named_incumbent(capsys, monkeypatch):
    monkeypatch.setattr("ipseval.evaluation.Evaluation.load", lambda path: f"loaded {path}")
    given = []
    monkeypatch.setattr(
        "ipseval.testing.preflight", lambda *one, **more: given.append((one, more)) or result(exit_code=4)
    )
    assert main(["compare", "new.npz", "--preflight", "--model", "random", "--format", "md"]) == 4
    assert capsys.readouterr().out == "md\n"
    ((evaluation, options),) = given
    assert evaluation == ("loaded new.npz",)
    assert (options["incumbent"], options["rng"], options["n_comparisons"]) == ("random", 0, 26)
    assert "candidate" not in options
    assert main(["compare", "new.npz", "--preflight", "--model", "als=random"]) == 4
    assert (given[1][1]["candidate"], given[1][1]["incumbent"]) == ("als", "random")
    assert main(["compare", "new.npz", "new.npz", "--preflight", "--model", "random"]) == 4


def test_files_that_a_preflight_or_a_history_would_not_use_are_refused(capsys, tmp_path):
    folder = str(tmp_path)
    for arguments, words in (
        (
            ["new.npz", "old.npz", "--preflight"],
            "Call `ipseval compare old.npz --preflight`, with --model NAME",
        ),
        ([folder, "old.npz"], "the history of a folder has no OLD; got old.npz. Leave it out"),
        ([folder, "--preflight"], f"--preflight is for one file; got the folder {folder}. Name a file"),
    ):
        assert main(["compare", *arguments]) == 2
        captured = capsys.readouterr()
        assert words in captured.err
        assert captured.out == ""


def test_an_error_keeps_its_lines_and_shows_what_could_steer_a_terminal(capsys):
    print_message("one\ntwo\x1b[1m\x0bthree")
    assert capsys.readouterr() == ("", "ipseval: one\ntwo\\x1b[1m\\x0bthree\n")
    for options in ({}, {"quiet": False}, {"quiet": True}):
        show_warning(SimpleNamespace(**options), UserWarning("pass max_memory=5 here"), UserWarning)
    assert capsys.readouterr().err == "ipseval: UserWarning: pass max_memory=5 here\n" * 2


def test_doctor_says_that_its_self_test_failed(monkeypatch, capsys):
    monkeypatch.setattr("ipseval.cli._about.self_test", lambda: "FAILED: expected 1, got 2")
    assert main(["doctor"]) == 2
    assert "self-test   FAILED" in capsys.readouterr().out


def test_doctor_knows_the_extras_of_the_project():
    import tomllib

    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"]) - {"test", "dev", "docs", "reproductions", "recommenders"}
    assert extras == set(EXTRAS)
    assert {requirement.split(">")[0] for requirement in project["dependencies"]} == set(DEPENDENCIES)
