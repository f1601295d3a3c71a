"""Two hundred calls by the names of other libraries: they work, or one line says what to type instead."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ipseval
from ipseval.cli import main

LINES = (Path(__file__).parent / "calls.txt").read_text("utf-8").splitlines()
CALLS = [(*line.split(" | "), "")[1:3] for line in LINES if not line.startswith("#")]


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What people have at hand: a log in several forms, a split, recommenders, a result."""
    folder = tmp_path_factory.mktemp("intuition")
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((40, 30)) < np.linspace(0.1, 0.5, 30))
    frame = pd.DataFrame({"user": user, "item": item})
    order = rng.permutation(len(frame))
    frame.to_csv(folder / "clicks.csv", index=False)
    frame.to_parquet(folder / "clicks.parquet")
    frame.to_csv(folder / "semicolons.csv", index=False, sep=";")
    frame.to_csv(folder / "tabs.tsv", index=False, sep="\t")
    frame.to_csv(folder / "packed.csv.gz", index=False)
    frame.to_csv(folder / "bare.csv", index=False, header=False)
    log = ipseval.read(frame)
    split = ipseval.split_random(log, rng=0)
    factors, item_factors = rng.random((40, 4)), rng.random((30, 4))
    scores = factors @ item_factors.T
    lists = pd.DataFrame(
        {"user": np.repeat(np.arange(40), 5), "item": rng.random((40, 30)).argsort(axis=1)[:, :5].ravel()}
    ).assign(rank=np.tile(np.arange(1, 6), 40))
    lists = lists.merge(split.train.to_frame()[["user", "item"]], how="left", indicator=True)
    lists = lists[lists.pop("_merge") == "left_only"]
    lists["rank"] = lists.groupby("user").cumcount() + 1
    models = {name: ipseval.baselines.BASELINES[name](split.train) for name in ("ease", "popularity")}
    evaluation = ipseval.evaluate(models, split, propensity="power-law:gamma=0", metrics=["recall@10"])
    evaluation.save(folder / "stored.npz")
    chances = rng.uniform(0.2, 0.9, 30)

    def cli(words: str) -> None:
        """Run a command; what it says on standard error is raised, as one line."""
        try:
            code = main(shlex.split(words))
        except SystemExit as end:
            code = end.code
        if code:
            raise ipseval.InputError("the shell said so")

    timed = frame.assign(time=order)
    return folder, {
        "ipseval": ipseval, "np": np, "pd": pd, "frame": frame, "log": log, "split": split, "scores": scores,
        "polars_frame": pl.from_pandas(frame), "ratings": timed.assign(rating=rng.integers(1, 6, len(frame))),
        "timed": ipseval.read(timed), "shown": ipseval.read(timed.assign(clicked=order % 2)),
        "train_frame": split.train.to_frame(), "test_frame": split.test.to_frame(), "rows": [(1, 2, 3.0)],
        "scores_frame": pd.DataFrame(scores), "factors": factors,
        "run": lists[["user", "item"]].assign(score=-lists["rank"]), "lists": lists, "models": models,
        "item_factors": item_factors,
        "evaluation": evaluation, "chances": chances, "known": ipseval.KnownPropensity(item=chances),
        "policies": {}, "cli": cli,
    }  # fmt: skip


def test_there_are_two_hundred_and_most_work_or_say_what_to_type():
    said = [said for _, said in CALLS]
    assert len(dict(CALLS)) == len(CALLS) >= 200
    assert said.count("") / len(CALLS) >= 0.55
    assert said.count("PYTHON") / len(CALLS) <= 0.05


def answer(call: str, names: dict, capsys) -> str | None:
    """Return what is said of a call in an error, and None where it works."""
    try:
        eval(call, dict(names))
    except (ipseval.IpsevalError, AttributeError, TypeError) as error:
        return f"{error} {capsys.readouterr().err}"
    return None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_first_call_works_or_says_what_to_type(names, monkeypatch, capsys):
    folder, given = names
    monkeypatch.chdir(folder)
    answers = [(call, said, answer(call, given, capsys)) for call, said in CALLS]
    wrong = [
        f"{call}: {text or 'it works'}"
        for call, said, text in answers
        if (text is None) != (said == "") or (said != "PYTHON" and said not in (text or ""))
    ]
    assert not wrong, "\n".join(wrong)
