"""What options stand for: the parser, the least of numbers, files, evidence, and candidates."""

from __future__ import annotations

import argparse
import io
import re
import sys
from inspect import signature

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.cli import main
from ipseval.data.splits import k_core
from ipseval.errors import InputError
from ipseval.propensity import PROPENSITIES
from tests.cli.command_files import QUICK
from tests.file_formats import WRITERS
from tests.inside.cli import (
    PROPENSITY_MODELS,
    Parser,
    build_compute_options,
    build_parser,
    build_propensity,
    load_correction_data,
    load_groups,
    load_models,
    load_random_exposure,
    load_split,
    load_table,
    parse_file_entry,
    parse_reference_values,
)
from tests.inside.propensity import DATA_OPTIONS


@pytest.fixture(scope="module")
def commands():
    """The parsers of all commands, made anew."""
    build_parser.cache_clear()
    return build_parser()._subparsers._group_actions[0].choices


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a small log with ratings and times, in which a test may write."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame(np.argwhere(rng.random((30, 12)) < 0.4), columns=["user", "item"])
    pairs = pairs.assign(timestamp=1_700_000_000 + rng.permutation(len(pairs)))
    pairs.assign(plays=rng.integers(1, 6, len(pairs))).to_csv("log.csv", index=False)
    return tmp_path


def asked(*words: str) -> argparse.Namespace:
    return build_parser().parse_args(words)


LEAST = {"seed": 0, "k_core": 1, "n_resamples": 1, "threads": 1, "splits": 1, "n_relevant": 0}


def test_whole_numbers_begin_at_the_least_that_has_a_meaning(commands):
    options_found = set()
    for parser in commands.values():
        for action in parser._actions:
            if action.dest in LEAST:
                least = LEAST[action.dest]
                options_found.add(action.dest)
                assert action.type(str(least)) == least, action.dest
                with pytest.raises(argparse.ArgumentTypeError, match=f"an integer >= {least}"):
                    action.type(str(least - 1))
    assert options_found == set(LEAST)
    numbers = next(call for call in commands["plan"]._actions if call.dest == "n_users")
    assert numbers.type("1, 20") == [1, 20]
    with pytest.raises(argparse.ArgumentTypeError, match="an integer >= 1; got '0'"):
        numbers.type("5,0")


DEFAULTS = {
    "evaluate": {"test_fraction": 0.2, "validation_fraction": 0.0, "n_validation": 1, "n_resamples": 10_000},
    "compare": {"n_comparisons": 26, "suspicious": 0.5, "confidence_level": 0.95, "margin": None},
    "plan": {"power": 0.8, "regret": 0.01, "confidence_level": 0.95, "seed": 0},
    "validate": {"splits": 10, "seed": 0},
    "demo": {"seed": 0, "quiet": False},
}


def test_defaults_are_those_that_the_help_names(commands):
    for command, expected in DEFAULTS.items():
        assert {name: commands[command].get_default(name) for name in expected} == expected, command


@pytest.mark.usefixtures("commands")
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


def test_a_help_that_fits_a_screen_is_whole_and_a_longer_one_has_the_most_used_options(capsys, commands):
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
    commands["evaluate"].print_help()
    printed = capsys.readouterr().out
    assert re.search(r"^arguments:\n  LOG  +clicks, purchases, ratings: ", printed, re.MULTILINE)
    assert "\nexamples:\n  ipseval evaluate clicks.csv --gamma 0\n" in printed
    assert "power-law:gamma=0,scale=max" in printed  # not broken at the hyphen
    shown = set(re.findall(r"^  (--[\w-]+)", printed, re.MULTILINE))
    common = (
        "model gamma propensity random-exposure metrics split test-fraction seed threshold train test by out"
    )
    assert shown == {f"--{option}" for option in common.split()}


def test_a_file_says_what_its_own_options_are():
    spec = parse_file_entry("a.csv:user=uid,threshold=4,header=false", None)
    assert (spec.path, spec.parse_options()) == ("a.csv", {"user": "uid", "threshold": 4.0, "header": False})
    assert parse_file_entry("a.csv:header=true", None).parse_options() == {"header": True}
    for wrong, words in (
        ("header=yes", "header must be true or false; got 'yes'"),
        ("threshold=x", "a number"),
    ):
        with pytest.raises(InputError, match=words):
            parse_file_entry(f"a.csv:{wrong}", None).parse_options()


def test_random_exposure_is_positive_from_the_threshold_on(folder):
    split, _ = load_split(asked("correct", "log.csv"))
    rated = pd.DataFrame({"user": range(5), "item": range(5), "rating": [1, 3, 4, 5, 4]})
    rated.to_csv("rated.csv", index=False)
    options = asked("correct", "log.csv", "--random-exposure", "rated.csv:value=rating,threshold=4")
    assert load_random_exposure(options, split).positive.tolist() == [0, 0, 1, 1, 1]
    assert load_correction_data(options, split)["random_exposure"].positive.sum() == 3
    rated.assign(positive=[1, 0, 0, 0, 0]).to_csv("known.csv", index=False)
    known = asked("correct", "log.csv", "--random-exposure", "known.csv")
    assert load_random_exposure(known, split).positive.tolist() == [1, 0, 0, 0, 0]
    with pytest.raises(InputError, match="has values from 1 to 5 and no threshold"):
        load_random_exposure(
            asked("correct", "log.csv", "--random-exposure", "rated.csv:value=rating"), split
        )
    found = asked("correct", "log.csv", "--random-exposure", "rated.csv:user=user,threshold=4")
    assert load_random_exposure(found, split).positive.tolist() == [0, 0, 1, 1, 1]


def test_random_exposure_that_no_fit_reads_is_refused(folder, capsys):
    pd.DataFrame({"user": [0], "item": [0], "positive": [1]}).to_csv("shown.csv", index=False)
    for more in ([], ["--gamma", "0"], ["--propensity", "power-law:gamma=0"]):
        assert main(["evaluate", "log.csv", "--random-exposure", "shown.csv", *more, *QUICK]) == 2
        assert "--random-exposure requires --gamma fit or --scale calibrated" in capsys.readouterr().err


def test_reference_values_are_of_a_recommender_or_of_a_ratio_of_two(folder, capsys):
    command = ["correct", "log.csv", "--reference-values", "new/old:recall@10=.5+-.06"]
    level = parse_reference_values(asked(*command, "--source", "randomised"))
    assert level == {"new/old": {"recall@10": (0.5, 0.06)}}
    ratio = parse_reference_values(asked(*command, "--source", "randomised-ratio"))
    assert ratio == {("new", "old"): {"recall@10": (0.5, 0.06)}}
    several = asked(*command, "--reference-values", "old:auc=0.9±0.01", "--source", "randomised")
    assert parse_reference_values(several) == level | {"old": {"auc": (0.9, 0.01)}}
    assert parse_reference_values(asked("correct", "log.csv")) is None
    assert main([*command, "--model", "popularity"]) == 2
    assert "--reference-values requires source" in capsys.readouterr().err
    assert main(["correct", "log.csv", "--source", "randomised-ratio", "--model", "popularity"]) == 2
    assert "--source requires reference values" in capsys.readouterr().err


def test_models_are_files_or_baselines_with_the_seed_of_the_draws(folder):
    split, _ = load_split(asked("evaluate", "log.csv"))
    names = ("popularity", "random", "item_knn", "ease", "pure_svd")
    assert tuple(load_models(asked("evaluate", "log.csv"), split)) == names
    for wrong, words in ((["random", "random"], "names 'random' twice"), (["=a.npy"], "takes NAME=FILE")):
        with pytest.raises(InputError, match=words):
            load_models(asked("evaluate", "log.csv", *(f"--model={one}" for one in wrong)), split)


def test_groups_are_labels_and_columns_of_files(folder):
    frame = pd.DataFrame({"user": range(30), "age": ["old", "young"] * 15, "town": ["a", "b", "c"] * 10})
    frame.to_csv("users.csv", index=False)
    label, one, whole = load_groups(
        asked("evaluate", "log.csv", "--by", "popularity:2", "--by", "users.csv:age", "--by", "users.csv")
    )
    assert label == "popularity:2"
    assert [list(one.columns), list(whole.columns)] == [["user", "age"], ["user", "age", "town"]]


def test_propensities_of_a_table_are_of_items_or_of_pairs_and_probabilities_unless_they_lack_a_factor(folder):
    split, _ = load_split(asked("evaluate", "log.csv"))
    tables = {
        "item": pd.DataFrame({"item": range(12), "propensity": 0.5}),
        "factor": pd.DataFrame({"item": range(12), "relative_propensity": 5.0}),
        "pair": pd.read_csv("log.csv")[["user", "item"]].assign(propensity=0.25),
    }
    found = {}
    for name, table in tables.items():
        table.to_csv(f"{name}.csv", index=False)
        found[name] = build_propensity(asked("evaluate", "log.csv", "--propensity", f"{name}.csv"), split)
    assert [found[name].is_probability for name in tables] == [True, False, True]
    assert [found[name].pair is None for name in tables] == [True, True, False]
    power_law = build_propensity(asked("evaluate", "log.csv", "--gamma", "-0.2"), split)
    assert power_law.gamma == -0.2
    assert power_law.unseen == "smooth"
    dropped = build_propensity(asked("evaluate", "log.csv", "--gamma", "0", "--unseen", "drop"), split)
    assert dropped.unseen == "drop"
    assert build_propensity(asked("evaluate", "log.csv"), split) is None


@pytest.mark.parametrize("label", ["power-law:gamma=0", "power-law(gamma=0)"])
def test_scale_and_unseen_are_options_of_a_label_too(folder, label):
    split, _ = load_split(asked("evaluate", "log.csv"))
    options = asked("evaluate", "log.csv", "--propensity", label, "--scale", "max", "--unseen", "drop")
    model = build_propensity(options, split)
    assert (model.gamma, model.scale, model.unseen) == (0, "max", "drop")
    assert build_propensity(asked("evaluate", "log.csv", "--propensity", label), split).scale is None


def test_the_advice_of_ips_and_of_unseen_items_works_with_a_label(folder, capsys):
    command = ["evaluate", "log.csv", "--model", "popularity", "--quiet", "--low-ess", "ignore"]
    command += ["--metrics", "dcg@2", "--test-fraction", "0.5"]
    ips = [*command, "--propensity", "power-law:gamma=0", "--estimators", "ips"]
    assert main(ips) == 2
    assert "Pass --scale max (the most popular item has P = 1) or a number with a power law" in (
        capsys.readouterr().err
    )
    assert main([*ips, "--scale", "max"]) == 0
    pd.DataFrame({"item": range(13)}).to_csv("items.csv", index=False)
    command += ["--items", "items.csv"]
    assert main([*command, "--propensity", "power-law:gamma=0,unseen=raise"]) == 2
    assert "Use --unseen smooth or --unseen drop in place of raise" in capsys.readouterr().err
    assert main([*command, "--propensity", "power-law:gamma=0", "--unseen", "smooth"]) == 0


def test_the_help_lists_the_propensity_models_that_need_no_data_but_the_log():
    names = []
    for name, model_class in PROPENSITIES.items():
        first_parameter = next(iter(signature(model_class).parameters))
        if first_parameter == "log" or first_parameter not in DATA_OPTIONS:  # the command passes the log
            names.append(name)
    assert sorted(PROPENSITY_MODELS.split(", ")) == sorted(names), (
        f"Set PROPENSITY_MODELS in ipseval/cli/_options.py to {', '.join(names)}, and renew the page: "
        "python -m tests.docs.command_line --write"
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_split_is_that_of_the_library_with_the_options_of_its_kind(folder):
    log = ipseval.read("log.csv")
    fractions = {"test_fraction": 0.3, "validation_fraction": 0.1}
    given = ["--test-fraction", "0.3", "--validation-fraction", "0.1", "--seed", "3"]
    expected = {
        "temporal": ipseval.split_temporal(log, **fractions),
        "global-time": ipseval.split_global_time(log, **fractions),
        "leave-one-out --order temporal": ipseval.split_leave_one_out(log, order="temporal"),
        "leave-one-out --n-validation 0": ipseval.split_leave_one_out(log, rng=3, n_validation=0),
        "random --seen include": ipseval.split_random(log, rng=3, seen="include", **fractions),
        "random --seen drop": ipseval.split_random(log, rng=3, **fractions),
    }
    for words, split in expected.items():
        loaded_split, impressions = load_split(
            asked("evaluate", "log.csv", "--split", *words.split(), *given)
        )
        assert impressions is None
        assert loaded_split.seen == split.seen, words
        for part in ("train", "validation", "test"):
            loaded_part, expected_part = getattr(loaded_split, part), getattr(split, part)
            assert (loaded_part is None) == (expected_part is None), (words, part)
            if loaded_part is not None:
                pd.testing.assert_frame_equal(loaded_part.to_frame(), expected_part.to_frame())
    core, _ = load_split(asked("evaluate", "log.csv", "--k-core", "3"))
    assert len(core.train) + len(core.test) == len(k_core(log, 3)) < len(log)


def test_parts_keep_the_roles_that_both_have_and_ids_outside_the_universe_are_dropped_on_demand(folder):
    frame = pd.read_csv("log.csv")
    frame[frame.index % 4 > 0].to_csv("train.csv", index=False)
    frame[frame.index % 4 == 0].to_csv("test.csv", index=False)
    parts = ["evaluate", "--train", "train.csv", "--test", "test.csv"]
    loaded_split, _ = load_split(asked(*parts))
    assert (len(loaded_split.train), len(loaded_split.test)) == (
        (frame.index % 4 > 0).sum(),
        (frame.index % 4 == 0).sum(),
    )
    assert loaded_split.test.timestamp is not None
    assert loaded_split.seen == "exclude"
    seen = {name: load_split(asked(*parts, "--seen", name))[0].seen for name in ("drop", "include")}
    assert seen == {"drop": "exclude", "include": "include"}
    for name in ("train", "test"):  # what reading counted is kept
        assert getattr(loaded_split, name).data["what"].iloc[0].startswith(f"rows read from {name}.csv: ")
    frame[frame.index % 4 == 0].drop(columns="timestamp").to_csv("test.csv", index=False)
    assert load_split(asked(*parts))[0].train.timestamp is None
    pd.DataFrame({"item": range(10)}).to_csv("few.csv", index=False)
    few = ["evaluate", "log.csv", "--items", "few.csv"]
    dropped, _ = load_split(asked(*few, "--unknown", "drop"))
    assert len(dropped.train) + len(dropped.test) == (frame["item"] < 10).sum()
    for unknown in ("raise", "candidate"):  # candidate is of lists alone
        with pytest.raises(InputError, match="outside the given"):
            load_split(asked(*few, "--unknown", unknown))


def test_candidates_are_all_or_a_number_that_is_drawn(folder, capsys):
    found = {}
    for name in ("all", "3"):
        assert main(["evaluate", "log.csv", *QUICK, "--candidates", name, "--format", "csv"]) == 0
        frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
        found[name] = frame[frame["model"] == "popularity"]["estimate"].tolist()
    assert found["3"] != found["all"]
    for wrong in ("zoo", "-3"):
        assert main(["evaluate", "log.csv", *QUICK, f"--candidates={wrong}"]) == 2
        assert f"'all' or a number of sampled items; got '{wrong}'" in capsys.readouterr().err


def test_an_option_of_another_program_is_answered_with_what_stands_for_it(capsys):
    for given, way in (("--cutoff", "--metrics recall@10."), ("--test-size", "--test-fraction.")):
        with pytest.raises(SystemExit):
            main(["evaluate", "log.csv", given, "3"])
        assert f"In place of {given}: {way} `" in capsys.readouterr().err


def test_every_option_is_explained(commands):
    for name, parser in commands.items():
        assert all(action.help for action in parser._actions), name
    overlap = next(call for call in commands["evaluate"]._actions if call.dest == "overlap")
    assert (overlap.help, overlap.default, overlap.choices) == (
        "pairs in both parts; default: raise",
        "raise",
        ("raise", "drop"),
    )


def test_a_computation_is_bounded_as_the_options_say():
    compute_options = build_compute_options(
        asked("evaluate", "--threads", "1", "--memory", "20 MB", "--engine", "numpy")
    )
    assert (compute_options.n_threads, compute_options.engine, compute_options.progress) == (1, "numpy", None)
    assert build_compute_options(asked("evaluate", "--quiet")).progress is False


def test_lists_hold_training_items_where_they_keep_their_places_or_are_candidates(folder, capsys):
    lists = pd.read_csv("log.csv")[["user", "item"]].drop_duplicates()
    lists.assign(rank=lists.groupby("user").cumcount() + 1).to_csv("lists.csv", index=False)
    command = ["evaluate", "log.csv", "--model", "mine=lists.csv", "--metrics", "recall@2", "--format", "csv"]
    codes = {seen: main([*command, "--seen", seen]) for seen in ("raise", "drop", "keep", "include")}
    assert codes == {"raise": 2, "drop": 0, "keep": 0, "include": 0}


def test_all_options_are_listed_on_demand(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["evaluate", "--help-all"])
    assert "--examination" in capsys.readouterr().out


def test_without_a_command_the_commands_are_listed(capsys):
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "evaluate recommenders on a log" in captured.err


def test_a_split_is_that_of_a_log_or_of_two_parts():
    names = ("log", "train", "test")
    for given in (names, names[:2], names[::2], names[1:2], names[2:], ()):
        options = argparse.Namespace(**dict.fromkeys(names) | {name: name for name in given})
        with pytest.raises(InputError, match=r"^give a LOG to split, or --train and --test of a split"):
            load_split(options)


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_of_every_format_comes_through_a_pipe(name, monkeypatch, tmp_path):
    WRITERS[name](pd.DataFrame({"user": [1, 2], "item": [3, 4]}), tmp_path / "table")
    content = (tmp_path / "table").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert load_table("-").to_dict("list") == {"user": [1, 2], "item": [3, 4]}


def test_the_parts_of_a_split_count_the_rows_that_reading_excluded(folder):
    pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "rating": [5, 1, 4]}).to_csv("train.csv", index=False)
    pd.DataFrame({"user": [1, 2, 2], "item": [3, 2, 3], "rating": [4, 1, 2]}).to_csv("test.csv", index=False)
    split, _ = load_split(asked("evaluate", "--train", "train.csv", "--test", "test.csv", "--threshold", "4"))
    # Three rows of each file, of which one and two have a rating below 4: each count once.
    assert [count.count for count in split.train.row_counts] == [3, 1]
    assert [count.count for count in split.test.row_counts] == [3, 2]
    assert (len(split.train), len(split.test)) == (2, 1)
