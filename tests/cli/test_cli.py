"""The command line, run as a user would."""

from __future__ import annotations

import io
import json
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from ipseval.cli import main
from tests.worlds import STUDY


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame(np.argwhere(rng.random((30, 20)) < 0.4), columns=["user", "item"])
    is_test = rng.random(len(pairs)) < 0.3
    pairs[~is_test].to_csv(tmp_path / "train.csv", index=False)
    pairs[is_test].to_csv(tmp_path / "test.csv", index=False)
    np.save(tmp_path / "als.npy", rng.normal(size=(30, 20)))
    np.savez(tmp_path / "bpr.npz", rng.normal(size=(30, 20)))
    train = set(map(tuple, pairs[~is_test].to_numpy()))
    lists = [
        (user, item, place + 1)
        for user in range(30)
        for place, item in enumerate([i for i in rng.permutation(20) if (user, i) not in train][:8])
    ]
    pd.DataFrame(lists, columns=["user", "item", "rank"]).to_csv(tmp_path / "top.csv", index=False)
    return tmp_path


def evaluate(files, *more: str) -> int:
    common = ["--train", str(files / "train.csv"), "--test", str(files / "test.csv")]
    return main(["evaluate", *common, *more])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_evaluate_prints_aoa_beside_snips_and_writes_json(files, capsys):
    code = evaluate(
        files,
        *("--model", f"als={files / 'als.npy'}", "--model", f"bpr={files / 'bpr.npz'}"),
        *("--model", f"lists={files / 'top.csv'}", "--gamma", "0.5"),
        *("--metrics", "recall@5,precision(denominator=min)@5,ndcg@8", "--out", str(files / "out.json")),
    )
    printed = capsys.readouterr().out
    assert code == 0
    assert "SNIPS (γ = 0.5 assumed)" in printed
    assert "3 recommenders" in printed
    result = json.loads((files / "out.json").read_text())
    assert len(result["estimates"]) == 3 * 3 * 2
    assert result["settings"]["propensity"] == "power law, gamma = 0.5"
    assert len(result["data"]["positives_sha256"]) == 64
    assert all(0 <= row["estimate"] <= 1 for row in result["estimates"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_label_of_a_propensity_is_the_gamma_option(files, capsys):
    scores = ["--model", f"als={files / 'als.npy'}", "--metrics", "recall@5"]
    assert evaluate(files, *scores, "--gamma", "0", "--scale", "max", "--unseen", "smooth") == 0
    by_options = capsys.readouterr().out
    assert evaluate(files, *scores, "--propensity", "power-law(gamma=0, scale=max, unseen=smooth)") == 0
    assert capsys.readouterr().out == by_options


CASES = {
    "no such file": (["--model", "als=nowhere.npy"], "nowhere.npy does not exist"),
    "no such baseline": (
        ["--model", "als.npy"],
        "unknown baseline 'als.npy'. Use --model NAME=FILE for your own recommender.",
    ),
    "no file": (["--model", "als="], "--model takes NAME=FILE or the name of a baseline"),
    "unknown suffix": (["--model", "als={files}/notes.txt"], "it is not clear whether the first line"),
    "pickled array": (["--model", "als={files}/pickled.npy"], "cannot read"),
    "two arrays": (["--model", "als={files}/two.npz"], "must hold one array; got 2"),
    "no list columns": (
        ["--model", "als={files}/train.csv"],
        "no column has a usual name of ranks or scores",
    ),
    "bad propensity option": (
        ["--model", "als={files}/als.npy", "--propensity", "power-law:gama=0"],
        "Did you mean 'gamma'",
    ),
    "neither label nor file": (
        ["--model", "als={files}/als.npy", "--propensity", "powrlaw:gamma=0"],
        "Did you mean 'power-law'",
    ),
    "scale without a power law": (
        ["--model", "als={files}/als.npy", "--scale", "max"],
        "--scale and --unseen are options of a power law. Pass --gamma with them, or leave them out",
    ),
    "scale in and after a label": (
        ["--model", "als={files}/als.npy", "--propensity", "power-law:gamma=0,scale=0.5", "--scale", "max"],
        "scale of power-law must be given once; got 0.5 and 'max'. Leave one of them out",
    ),
    "option that the model of a label lacks": (
        ["--model", "als={files}/als.npy", "--propensity", "jain", "--unseen", "drop"],
        "unknown option of jain 'unseen'. Choices: a, b",
    ),
    "scale of a file": (
        ["--model", "als={files}/als.npy", "--propensity", "{files}/p.csv", "--unseen", "drop"],
        "--propensity names a file of values. Leave them out",
    ),
    "recommendations with a label": (
        ["--model", "als={files}/als.npy", "--propensity", "jain", "--recommendations", "{files}/p.csv"],
        "--recommendations requires --gamma fit. Pass --gamma fit, or leave --recommendations out",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_input_exits_with_two_and_one_line_of_reason(case: str, files, capsys):
    arguments, expected = CASES[case]
    (files / "notes.txt").write_text("hello")
    (files / "p.csv").write_text("item,propensity\n1,0.5\n")
    np.save(files / "pickled.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(files / "two.npz", np.ones(2), np.ones(2))
    code = evaluate(files, *(argument.format(files=files) for argument in arguments))
    captured = capsys.readouterr()
    assert code == 2
    assert expected in captured.err
    assert captured.err.startswith("ipseval: error: ")
    assert captured.out == ""


def test_study_runs_the_protocols_of_a_file_and_prints_their_agreement(files, capsys):
    (files / "train.csv").rename(files / "clicks.csv")
    more = 'holdout = ["ratio", "leave-one-out"]\n[study]\nmetrics = ["recall@5"]\n'
    more += "gammas = [0.0]\nn_resamples = 20\n"
    (files / "study.toml").write_text(STUDY + more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(["study", str(files / "study.toml")]) == 0
    printed = capsys.readouterr().out
    assert "leave-one-out" in printed
    assert (files / "results").is_dir()


def test_metrics_lists_names_and_prints_cards(capsys):
    assert main(["evaluate", "--list-metrics"]) == 0
    assert "recall@k" in capsys.readouterr().out
    assert main(["evaluate", "--list-metrics", "ap@10,auc,mae"]) == 0
    assert (
        "exactly unbiased given the propensities, the numbers of relevant items and independent"
        in capsys.readouterr().out
    )


WRONG_OPTIONS = {
    "demo --seed -1": "an integer >= 0; got '-1'",
    "validate coat --data . --seed x": "an integer >= 0; got 'x'",
    "evaluate --scale big": "argument --scale: 'max' or 'calibrated' or a number; got 'big'",
    "evaluate --n-relevant many": "argument --n-relevant: an integer >= 0 or 'estimated'; got 'many'",
}


@pytest.mark.parametrize("command", WRONG_OPTIONS)
def test_options_are_checked_before_anything_runs(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 2
    assert WRONG_OPTIONS[command] in capsys.readouterr().err


def test_an_option_that_is_mistyped_is_named_by_the_command_that_lacks_it(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", "log.csv", "--gama", "0", "--random-state", "3"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("ipseval evaluate: error: unrecognized arguments: --gama 0 --random-state 3.")
    assert " Did you mean --gamma? In place of --random-state: --seed. " in said


def test_what_a_stream_cannot_encode_is_written_with_backslashes(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(written, encoding="ascii"))
    assert main(["evaluate", "é.csv"]) == 2
    sys.stderr.flush()
    assert b"\\xe9.csv" in written.getvalue()
