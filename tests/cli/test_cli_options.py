"""What options stand for: the parser, the least of numbers, files, evidence, candidates, and output."""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.cli import main
from ipseval.data.splits import k_core
from ipseval.errors import InputError
from ipseval.estimators import card
from ipseval.metrics import METRICS
from ipseval.testing import preflight
from ipseval.validation.simulation import World
from tests.cli.command_files import QUICK
from tests.inside.cli import (
    EXTRAS,
    Fitted,
    Parser,
    _cache,
    _enough,
    _spread,
    build_parser,
    complain,
    compute_options,
    deliver,
    demo_world,
    evidence_of,
    exposure_of,
    groups_of,
    models_of,
    propensity_of,
    self_test,
    show_warning,
    spec_of,
    split_of,
    write_table,
)

COMMANDS = build_parser()._subparsers._group_actions[0].choices


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a small log with ratings and times, in which a test may write."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame(np.argwhere(rng.random((30, 12)) < 0.4), columns=["user", "item"])
    pairs = pairs.assign(timestamp=1_700_000_000 + rng.permutation(len(pairs)))
    pairs.assign(rating=rng.integers(1, 6, len(pairs))).to_csv("log.csv", index=False)
    return tmp_path


def asked(*words: str) -> argparse.Namespace:
    return build_parser().parse_args(words)


LEAST = {"seed": 0, "k_core": 1, "n_resamples": 1, "threads": 1, "splits": 1, "n_relevant": 0}


def test_whole_numbers_begin_at_the_least_that_has_a_meaning():
    found = set()
    for parser in COMMANDS.values():
        for action in parser._actions:
            if action.dest in LEAST:
                least = LEAST[action.dest]
                found.add(action.dest)
                assert action.type(str(least)) == least, action.dest
                with pytest.raises(argparse.ArgumentTypeError, match=f"an integer >= {least}"):
                    action.type(str(least - 1))
    assert found == set(LEAST)
    numbers = next(one for one in COMMANDS["plan"]._actions if one.dest == "n_users")
    assert numbers.type("1, 20") == [1, 20]
    with pytest.raises(argparse.ArgumentTypeError, match="an integer >= 1; got '0'"):
        numbers.type("5,0")


DEFAULTS = {
    "evaluate": {"test_fraction": 0.2, "validation_fraction": 0.0, "n_validation": 1, "n_resamples": 10_000},
    "compare": {"weeks": 26, "suspicious": 0.5, "confidence_level": 0.95, "margin": None},
    "plan": {"power": 0.8, "loss": 0.01, "confidence_level": 0.95, "seed": 0},
    "validate": {"splits": 10, "seed": 0},
    "demo": {"seed": 0, "quiet": False},
}


@pytest.mark.parametrize("command", DEFAULTS)
def test_defaults_are_those_that_the_help_names(command):
    assert {name: COMMANDS[command].get_default(name) for name in DEFAULTS[command]} == DEFAULTS[command]


@pytest.mark.parametrize("words", [["--vers"], ["evaluate", "--list-met"], ["--quiet"], ["validate", "coat"]])
def test_options_are_never_abbreviated_and_a_command_and_its_data_have_to_be_named(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_one_option_is_suggested_for_a_name_of_three_letters_or_more(capsys):
    for given, said in (
        ("--modle", "unrecognized arguments: --modle. Did you mean --model? `"),
        ("--ouu", "unrecognized arguments: --ouu. Did you mean --out? `"),
        ("--bi", "unrecognized arguments: --bi. `"),
    ):
        with pytest.raises(SystemExit):
            main(["evaluate", "log.csv", given])
        assert said in capsys.readouterr().err


def test_a_help_that_fits_a_screen_is_printed_whole_and_a_longer_one_with_the_most_used_options(capsys):
    for lines in (40, 41):
        parser = Parser(prog="p", usage="p", add_help=False)
        parser.add_argument("--seed")
        while parser.format_help().count("\n") < lines:
            parser.add_argument(f"--x{len(parser._actions)}")
        parser.print_help()
        printed = capsys.readouterr().out
        assert ("--x9" in printed) == (lines == 40)
        assert "--seed" in printed
    assert printed.endswith(f"`p --help-all` lists all {len(parser._actions)} options.\n")
    COMMANDS["evaluate"].print_help()
    shown = set(re.findall(r"^  (--[\w-]+)", capsys.readouterr().out, re.MULTILINE))
    common = "model gamma propensity exposure metrics split test-fraction seed threshold train test by out"
    assert shown == {f"--{one}" for one in common.split()}


def test_a_file_says_what_its_own_options_are():
    spec = spec_of("a.csv:user=uid,threshold=4,header=false", None)
    assert (spec.path, spec.typed()) == ("a.csv", {"user": "uid", "threshold": 4.0, "header": False})
    assert spec_of("a.csv:header=true", None).typed() == {"header": True}
    for wrong, words in (
        ("header=yes", "header takes true or false; got 'yes'"),
        ("threshold=x", "a number"),
    ):
        with pytest.raises(InputError, match=words):
            spec_of(f"a.csv:{wrong}", None).typed()


def test_random_exposure_is_liked_from_the_threshold_on(folder):
    split, _ = split_of(asked("evaluate", "log.csv"))
    rated = pd.DataFrame({"user": range(5), "item": range(5), "rating": [1, 3, 4, 5, 4]})
    rated.to_csv("rated.csv", index=False)
    options = asked("evaluate", "log.csv", "--exposure", "rated.csv:value=rating,threshold=4")
    assert exposure_of(options, split).positive.tolist() == [0, 0, 1, 1, 1]
    assert evidence_of(options, split).exposure.positive.sum() == 3
    rated.assign(positive=[1, 0, 0, 0, 0]).to_csv("known.csv", index=False)
    known = asked("evaluate", "log.csv", "--exposure", "known.csv")
    assert exposure_of(known, split).positive.tolist() == [1, 0, 0, 0, 0]
    for entry in ("rated.csv:value=rating", "rated.csv:user=user,threshold=4"):
        with pytest.raises(InputError, match="needs a column positive"):
            exposure_of(asked("evaluate", "log.csv", "--exposure", entry), split)


def test_known_values_are_of_a_recommender_or_of_a_ratio_of_two(folder, capsys):
    split, _ = split_of(asked("evaluate", "log.csv"))
    command = ["evaluate", "log.csv", "--known", "new/old:recall@10=.5+-.06"]
    bucket = evidence_of(asked(*command, "--known-source", "randomised bucket"), split)
    assert bucket.anchors == (("new/old", "", "recall@10", 0.5, 0.06),)
    ratio = evidence_of(asked(*command, "--known-source", "ratio of arms"), split)
    assert ratio.anchors == (("new", "old", "recall@10", 0.5, 0.06),)
    assert main([*command, *QUICK]) == 2
    assert capsys.readouterr().err.startswith("ipseval: error: ")  # no number shows where it comes from


def test_models_are_files_or_baselines_with_the_seed_of_the_draws(folder):
    split, _ = split_of(asked("evaluate", "log.csv"))
    names = ("popularity", "random", "item_knn", "ease", "pure_svd")
    assert tuple(models_of(asked("evaluate", "log.csv"), split)) == names
    for wrong, words in ((["random", "random"], "names 'random' twice"), (["=a.npy"], "takes NAME=FILE")):
        with pytest.raises(InputError, match=words):
            models_of(asked("evaluate", "log.csv", *(f"--model={one}" for one in wrong)), split)


def test_groups_are_labels_and_columns_of_files(folder):
    frame = pd.DataFrame({"user": range(30), "age": ["old", "young"] * 15, "town": ["a", "b", "c"] * 10})
    frame.to_csv("users.csv", index=False)
    label, one, whole = groups_of(
        asked("evaluate", "log.csv", "--by", "popularity:2", "--by", "users.csv:age", "--by", "users.csv")
    )
    assert label == "popularity:2"
    assert [list(one.columns), list(whole.columns)] == [["user", "age"], ["user", "age", "town"]]


def test_propensities_of_a_table_are_of_items_or_of_pairs_and_probabilities_unless_they_lack_a_factor(folder):
    split, _ = split_of(asked("evaluate", "log.csv"))
    tables = {
        "item": pd.DataFrame({"item": range(12), "propensity": 0.5}),
        "factor": pd.DataFrame({"item": range(12), "relative_propensity": 5.0}),
        "pair": pd.read_csv("log.csv")[["user", "item"]].assign(propensity=0.25),
    }
    found = {}
    for name, table in tables.items():
        table.to_csv(f"{name}.csv", index=False)
        found[name] = propensity_of(asked("evaluate", "log.csv", "--propensity", f"{name}.csv"), split)
    assert [found[name].is_probability for name in tables] == [True, False, True]
    assert [found[name].pair is None for name in tables] == [True, True, False]
    eta = propensity_of(asked("evaluate", "log.csv", "--eta", "0.4"), split)
    assert (eta.eta, eta.unseen) == (0.4, "drop")
    assert propensity_of(asked("evaluate", "log.csv"), split) is None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_split_is_that_of_the_library_with_the_options_of_its_kind(folder):
    log = ipseval.read("log.csv")
    fractions = {"test_fraction": 0.3, "validation_fraction": 0.1}
    given = ["--test-fraction", "0.3", "--validation-fraction", "0.1", "--seed", "3"]
    expected = {
        "random": ipseval.split_random(log, rng=3, **fractions),
        "temporal": ipseval.split_temporal(log, **fractions),
        "global-time": ipseval.split_global_time(log, **fractions),
        "leave-one-out": ipseval.split_leave_one_out(log, rng=3),
        "leave-one-out --order temporal": ipseval.split_leave_one_out(log, order="temporal"),
        "leave-one-out --n-validation 0": ipseval.split_leave_one_out(log, rng=3, n_validation=0),
        "random --seen include": ipseval.split_random(log, rng=3, seen="include", **fractions),
        "random --seen drop": ipseval.split_random(log, rng=3, **fractions),
    }
    for words, split in expected.items():
        found, impressions = split_of(asked("evaluate", "log.csv", "--split", *words.split(), *given))
        assert impressions is None
        assert found.seen == split.seen, words
        for part in ("train", "validation", "test"):
            one, other = getattr(found, part), getattr(split, part)
            assert (one is None) == (other is None), (words, part)
            if one is not None:
                pd.testing.assert_frame_equal(one.to_frame(), other.to_frame())
    core, _ = split_of(asked("evaluate", "log.csv", "--k-core", "3"))
    assert len(core.train) + len(core.test) == len(k_core(log, 3)) < len(log)


def test_parts_keep_the_roles_that_both_have_and_ids_outside_the_universe_are_dropped_on_demand(folder):
    frame = pd.read_csv("log.csv")
    frame[frame.index % 4 > 0].to_csv("train.csv", index=False)
    frame[frame.index % 4 == 0].to_csv("test.csv", index=False)
    parts = ["evaluate", "--train", "train.csv", "--test", "test.csv"]
    found, _ = split_of(asked(*parts))
    assert (len(found.train), len(found.test)) == ((frame.index % 4 > 0).sum(), (frame.index % 4 == 0).sum())
    assert found.test.timestamp is not None
    seen = {one: split_of(asked(*parts, "--seen", one))[0].seen for one in ("raise", "drop", "include")}
    assert seen == {"raise": "exclude", "drop": "exclude", "include": "include"}
    frame[frame.index % 4 == 0].drop(columns="timestamp").to_csv("test.csv", index=False)
    assert split_of(asked(*parts))[0].train.timestamp is None
    pd.DataFrame({"item": range(10)}).to_csv("few.csv", index=False)
    few = ["evaluate", "log.csv", "--items", "few.csv"]
    dropped, _ = split_of(asked(*few, "--unknown", "drop"))
    assert len(dropped.train) + len(dropped.test) == (frame["item"] < 10).sum()
    for unknown in ("raise", "candidate"):  # candidate is of lists alone
        with pytest.raises(InputError, match="outside the given"):
            split_of(asked(*few, "--unknown", unknown))


def test_candidates_are_all_or_a_number_that_is_drawn(folder, capsys):
    found = {}
    for one in ("all", "3", "11"):
        assert main(["evaluate", "log.csv", *QUICK, "--candidates", one, "--format", "csv"]) == 0
        frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
        found[one] = frame[frame["model"] == "popularity"]["estimate"].tolist()
    assert found["3"] != found["all"] != found["11"]
    for wrong in ("zoo", "-3"):
        assert main(["evaluate", "log.csv", *QUICK, f"--candidates={wrong}"]) == 2
        assert f"'all' or a number of sampled items; got '{wrong}'" in capsys.readouterr().err


def result(**more: object) -> SimpleNamespace:
    """Return what every format can be made of, with nothing behind its last line or with one line end."""
    frame = pd.DataFrame({"a": [1]})
    texts = {"to_markdown": "md", "to_latex": "tex\n", "to_csv": "a\n1\n", "to_html": "<html>"}
    return SimpleNamespace(
        frame=frame, **{name: lambda text=text: text for name, text in texts.items()}, **more
    )


def test_every_file_ends_with_one_line_end_and_is_named_unless_that_is_not_wanted(folder, capsys):
    outs = ["x.md", "x.tex", "x.csv", "x.json", "+.html"]
    options = SimpleNamespace(out=[*outs, "-"], quiet=False, format="csv")
    deliver(result(), options)
    texts = ("md\n", "tex\n", "a\n1\n", '[\n {\n  "a":1\n }\n]\n', "<html>\n")
    assert [Path(name).read_text() for name in outs] == list(texts)
    captured = capsys.readouterr()
    assert captured.out == "a\n1\n"
    assert captured.err == "ipseval: wrote x.md, x.tex, x.csv, x.json, +.html\n"
    deliver(result(), SimpleNamespace(out=["x.md"], quiet=True, format="csv"))
    assert capsys.readouterr() == ("", "")
    deliver(result(), SimpleNamespace(out=[], quiet=True, format="csv"))
    assert capsys.readouterr() == ("a\n1\n", "")
    with pytest.raises(InputError, match=r"x\.npz: only results are stored as \.npz"):
        deliver(result(), SimpleNamespace(out=["x.npz"], quiet=True, format="csv"))


def test_an_explanation_is_text_alone(folder, capsys):
    explained = result(explain=lambda: "all claims", __str__=lambda: "short")
    for form, expected in (("text", "all claims\n"), ("csv", "a\n1\n"), ("md", "md\n")):
        deliver(explained, SimpleNamespace(out=[], quiet=False, format=form, explain=True))
        assert capsys.readouterr().out == expected


def test_groups_stand_behind_a_report_and_are_no_part_of_the_data(folder, capsys):
    users = pd.DataFrame({"user": range(30), "age": ["old", "young"] * 15})
    users.to_csv("users.csv", index=False)
    command = ["evaluate", "log.csv", *QUICK, "--by", "users.csv:age", "--out", "x.md", "--out", "x.csv"]
    assert main([*command, "--out", "x.json", "--quiet"]) == 0
    assert "young" in Path("x.md").read_text()
    assert "young" not in Path("x.csv").read_text() + Path("x.json").read_text()


def test_tables_are_written_as_their_suffix_says(folder):
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    for suffix, text in ((".csv", "a,b\n1,x\n2,y\n"), (".tsv", "a\tb\n1\tx\n2\ty\n")):
        write_table(frame, f"t{suffix}")
        assert Path(f"t{suffix}").read_text() == text
    write_table(frame, "t.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet("t.parquet"), frame, check_dtype=False)
    with pytest.raises(InputError, match=r"a table must end in \.csv, \.tsv, \.parquet; got 't\.xls'"):
        write_table(frame, "t.xls")


def test_the_spread_of_propensities_counts_the_items_that_have_none():
    known = "2 items; the largest propensity is 4 times the smallest."
    assert _spread(pd.Series([0.1, 0.4])) == [known]
    assert _spread(pd.Series([0.1, np.nan, 0.4])) == [known, "1 items have none."]
    assert _spread(pd.Series([np.nan])) == [
        "0 items; the largest propensity is nan times the smallest.",
        "1 items have none.",
    ]


def test_the_least_exposure_that_is_enough_is_the_smallest_product_with_no_larger_loss():
    plan = pd.DataFrame({"n_users": [1000, 20, 50], "n_items": [2, 40, 10], "loss": [0.01, 0.02, 0.01]})
    plan = plan.assign(metric="auc")
    words = "By auc the choice loses at most 0.01 from"
    assert _enough("auc", plan, 0.01) == f"{words} 50 users × 10 items on."
    assert _enough("auc", plan[:2], 0.01) == f"{words} 1,000 users × 2 items on."
    assert _enough("auc", plan, 0.005) == "By auc the choice may lose more than 0.005 with any of these."


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])
def test_the_self_test_fails_on_estimates_that_are_too_low_or_too_high(factor, monkeypatch):
    found = SimpleNamespace(frame=pd.DataFrame({"estimate": [factor / 2, factor / 3]}))
    monkeypatch.setattr("ipseval.evaluation.evaluate", lambda *_, **__: found)
    values = [round(factor / 2, 12), round(factor / 3, 12)]
    expected = "FAILED: expected [0.5, 0.333333333333]"
    assert self_test() == ("" if factor == 1 else f"{expected}, got {values}")


def test_the_world_of_the_demonstration_and_its_log_have_seeds_of_their_own():
    world, split = demo_world(3, 40, 90)
    same = World(n_users=40, n_items=90, mean_relevant=40, gamma=0.0, max_propensity=0.6, rng=3)
    np.testing.assert_array_equal(world.n_relevant, same.n_relevant)
    pd.testing.assert_frame_equal(split.test.to_frame(), same.split(rng=4).test.to_frame())
    with pytest.raises(InputError, match="rng"):
        demo_world(-1, 40, 90)


def test_an_option_of_another_program_is_answered_with_what_stands_for_it(capsys):
    for given, way in (("--cutoff", "--metrics recall@10."), ("--test-size", "--test-fraction.")):
        with pytest.raises(SystemExit):
            main(["evaluate", "log.csv", given, "3"])
        assert f"In place of {given}: {way} `" in capsys.readouterr().err


def test_every_option_but_few_is_explained():
    for name, parser in COMMANDS.items():
        silent = {one.dest for one in parser._actions if not one.help}
        assert silent <= {"ties"}, name
    overlap = next(one for one in COMMANDS["evaluate"]._actions if one.dest == "overlap")
    assert (overlap.help, overlap.default, overlap.choices) == ("pairs in both", "raise", ("raise", "drop"))


def test_a_computation_is_bounded_as_the_options_say():
    found = compute_options(asked("evaluate", "--threads", "1", "--memory", "20 MB", "--engine", "numpy"))
    assert (found.n_threads, found.engine, found.progress) == (1, "numpy", None)
    assert compute_options(asked("evaluate", "--quiet")).progress is False


def test_a_fitted_table_is_shown_with_three_digits_or_only_stored():
    frame = pd.DataFrame({"item": ["a"], "propensity": [0.123456]})
    assert str(Fitted(("Words.",), frame)) == "Words.\n\nitem  propensity\na          0.123"
    assert str(Fitted(("Words.",), frame, listed=False)) == "Words."


def test_a_fit_of_propensities_prints_what_it_says_and_stores_the_table(folder, capsys):
    assert main(["fit", "propensity", "log.csv", "--gamma", "1", "--out", "p.csv", "--quiet"]) == 0
    table = pd.read_csv("p.csv")
    assert list(table.columns) == ["item", "n_interactions", "relative_propensity"]
    assert (
        table["n_interactions"].tolist()
        == pd.read_csv("log.csv")["item"].value_counts().sort_index().tolist()
    )
    ratio = table["n_interactions"].max() / table["n_interactions"].min()  # P ∝ n with γ = 1
    assert main(["fit", "propensity", "log.csv", "--gamma", "1"]) == 0
    assert capsys.readouterr().out == (
        "Propensity(power law, gamma = 1; per item; up to a factor)\n"
        f"12 items; the largest propensity is {ratio:.3g} times the smallest.\n"
    )


def test_lists_hold_training_items_where_they_keep_their_places_or_are_candidates(folder, capsys):
    lists = pd.read_csv("log.csv")[["user", "item"]].drop_duplicates()
    lists.assign(rank=lists.groupby("user").cumcount() + 1).to_csv("lists.csv", index=False)
    command = ["evaluate", "log.csv", "--model", "mine=lists.csv", "--metrics", "recall@2", "--quiet"]
    codes = {seen: main([*command, "--seen", seen]) for seen in ("raise", "drop", "keep", "include")}
    assert codes == {"raise": 2, "drop": 0, "keep": 0, "include": 0}


def test_metrics_are_listed_with_their_cutoffs_and_those_of_other_packages_behind_them(monkeypatch, capsys):
    point = SimpleNamespace(dist=SimpleNamespace(name="others", version="2.0"))
    monkeypatch.setattr(type(METRICS), "offered", lambda _: {"serendipity": [point]})
    assert main(["evaluate", "--list-metrics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(METRICS)]] == [
        *("recall@k", "precision@k", "cg@k", "dcg[@k]", "mean_dcg[@k]", "atop", "auc", "ap[@k]"),
        *("ndcg[@k]", "rr[@k]", "hit@k", "rbp[@k]", "hits@k"),
    ]
    assert lines[1] == "precision@k   share of the first k that is relevant (denominator)"
    assert lines[5] == "atop          mean share of items below a relevant one"
    assert lines[len(METRICS) :][:2] == ["serendipity   of others 2.0", ""]
    assert lines[-3] == "On predicted ratings (evaluate_ratings): mae, mse, rmse"
    assert main(["evaluate", "--list-metrics", "auc,ap@10"]) == 0
    assert capsys.readouterr().out == f"{card('auc')}\n\n{card('ap@10')}\n"


def test_doctor_sums_the_compiled_code_in_megabytes(tmp_path, monkeypatch):
    monkeypatch.setattr("ipseval.cli._about.__file__", str(tmp_path / "ipseval" / "cli" / "_about.py"))
    assert _cache() == "no compiled code so far"
    cache = tmp_path / "ipseval" / "ranking" / "kernels" / "__pycache__"
    cache.mkdir(parents=True)
    for name, size in (("a.nbi", 2**20), ("b.nbc", 2**19), ("c.pyc", 2**22)):
        with (cache / name).open("wb") as file:
            file.truncate(size)
    assert _cache() == f"1.5 MB of compiled code in {cache}"


def test_doctor_says_of_each_extra_how_to_get_it_where_it_is_missing(monkeypatch, capsys):
    monkeypatch.setattr("ipseval.cli._about.find_spec", lambda name: "here" if name == "pyarrow" else None)
    monkeypatch.setattr("ipseval.cli._about._version", lambda name: f"{name}-1")
    monkeypatch.setattr("ipseval.cli._about.self_test", lambda: "")
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "parquet     pyarrow-1 " in printed
    assert "fast        missing: pip install 'ipseval[fast]' " in printed
    assert printed.count("missing: ") == len(EXTRAS) - 1
    assert "self-test   passed (0.0 s of processor time)" in printed


def test_compare_shows_the_named_pair_of_results_that_are_not_comparable(folder, capsys):
    split = ipseval.split_random(ipseval.read("log.csv"), rng=0)
    models = {name: ipseval.baselines.BASELINES[name](split.train) for name in ("popularity", "random")}
    given = {"metrics": ["recall@5"], "estimators": ["aoa"]}
    ipseval.evaluate(models, split, **given).save("new.npz")
    ipseval.evaluate(models, split, ties="min", **given).save("old.npz")
    compare = ["compare", "new.npz", "old.npz", "--format", "csv"]
    for name, is_same in (("random=popularity", False), ("random", True)):
        assert main([*compare, "--model", name]) == 2
        captured = capsys.readouterr()
        assert "ties 'min' -> 'default'" in captured.err
        frame = pd.read_csv(io.StringIO(captured.out))
        assert frame["model"].tolist() == ["random"]
        assert (frame["difference"] == 0).tolist() == [is_same]
    assert main(["compare", "new.npz", "--preflight", "--model", "random"]) == 4
    loaded = ipseval.Evaluation.load("new.npz")
    assert capsys.readouterr().out == f"{preflight(loaded, incumbent='random', rng=0)}\n"


def test_an_error_keeps_its_lines_and_shows_what_could_steer_a_terminal(capsys):
    complain("one\ntwo\x1b[1m\x0bthree")
    assert capsys.readouterr() == ("", "ipseval: one\ntwo\\x1b[1m\\x0bthree\n")
    for options in ({}, {"quiet": False}, {"quiet": True}):
        show_warning(SimpleNamespace(**options), "pass max_memory=5 here", UserWarning)
    assert capsys.readouterr().err == "ipseval: UserWarning: pass --memory 5 here\n" * 2
