"""Files that people hold give the estimates of Python, and hints in the shell name options of the shell."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import ipseval
from ipseval.cli import main

RNG = np.random.default_rng(0)
HELD = RNG.random((30, 20)) < np.linspace(0.6, 0.2, 20)
IS_TEST = HELD & (RNG.random(HELD.shape) < 0.3)
SCORES = RNG.normal(size=HELD.shape)
FACTORS = RNG.normal(size=(30, 4)), RNG.normal(size=(20, 4))


def make_frame(mask: np.ndarray) -> pd.DataFrame:
    user, item = np.nonzero(mask)
    return pd.DataFrame({"user": user, "item": item})


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, mask in {"train": HELD & ~IS_TEST, "test": IS_TEST}.items():
        frame = make_frame(mask)
        frame.to_csv(f"{name}.csv", index=False)
        frame.assign(rating=np.where(frame["item"] == 7, 1, 4 + frame["user"] % 2)).to_csv(
            f"{name}.rated", index=False
        )
        matrix = scipy.sparse.csr_matrix(mask.astype(float))
        matrix.resize(30, 21)  # the last item has no interactions
        scipy.sparse.save_npz(f"{name}.npz", matrix)
    np.save("scores.npy", SCORES)
    np.savez("als.npz", user_factors=FACTORS[0], item_factors=FACTORS[1], regularization=0.1)
    np.savez("bpr.npz", user_factors=FACTORS[0], item_factors=FACTORS[1], item_bias=np.ones(20))


def run(words: str, capsys) -> tuple[int, list, str]:
    """Return the exit code, the estimates and the text on standard error."""
    capsys.readouterr()
    code = main(["evaluate", *words.split(), "--metrics", "recall@5", "--format", "json"])
    captured = capsys.readouterr()
    rows = json.loads(captured.out)["estimates"] if code == 0 else []
    return code, [(row["model"], row["estimate"]) for row in rows], captured.err


PARTS = "--train train.csv --test test.csv"


def estimate(models: dict, *parts, **options) -> list:
    frame = ipseval.evaluate(models, ipseval.Split.from_frames(*parts, **options), metrics=["recall@5"]).frame
    return list(zip(frame["model"], frame["estimate"].round(12), strict=True))


def round_estimates(estimates: list) -> list:
    return [(name, round(value, 12)) for name, value in estimates]


def test_factors_bare_files_and_names_of_baselines_are_models(capsys):
    parts = make_frame(HELD & ~IS_TEST), make_frame(IS_TEST)
    split = ipseval.Split.from_frames(*parts)
    code, estimates, _ = run(f"{PARTS} --model als.npz scores.npy --models popularity,item-knn", capsys)
    assert code == 0
    models = {
        "als": FACTORS,
        "scores": SCORES,
        "popularity": ipseval.baselines.popularity(split.train),
        "item-knn": ipseval.baselines.item_knn(split.train),
    }
    assert sorted(round_estimates(estimates)) == sorted(estimate(models, *parts))


def test_an_archive_with_a_bias_is_refused(capsys):
    code, _, error = run(f"{PARTS} --model bpr.npz", capsys)
    assert code == 2
    assert "must hold one array; got 3 (item_bias, item_factors, user_factors). Factors are" in error


def test_matrices_keep_items_without_interactions(capsys):
    scores = np.column_stack([SCORES, np.full(30, 9.0)])  # the item without interactions ranks first
    np.save("wide.npy", scores)
    code, estimates, _ = run("--train train.npz --test test.npz --model wide.npy", capsys)
    assert code == 0
    matrices = scipy.sparse.load_npz("train.npz"), scipy.sparse.load_npz("test.npz")
    assert round_estimates(estimates) == estimate({"wide": scores}, *matrices)


def test_items_with_low_ratings_alone_stay_candidates_as_in_python(capsys):
    parts = "--train train.rated --test test.rated --threshold 4 --model scores.npy"
    code, estimates, error = run(parts, capsys)
    assert code == 0, error
    frames = pd.read_csv("train.rated"), pd.read_csv("test.rated")
    assert round_estimates(estimates) == estimate({"scores": SCORES}, *frames, threshold=4)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--model lists=some.csv", "Pass --missing-lists drop to leave them out of every model."),
        (
            "--model scores.npy --gamma 0 --unseen raise",
            "Use --unseen smooth or --unseen drop in place of raise.",
        ),
        ("--model scores.npy --value plays", "Pass --threshold 4 to keep high ratings, or --threshold all"),
    ],
)
def test_hints_name_options_of_the_shell(words, hint, capsys):
    users = make_frame(IS_TEST)["user"].unique()[:-3]
    rows = [
        (user, item, -rank) for user in users for rank, item in enumerate(np.flatnonzero(~HELD[user])[:5])
    ]
    pd.DataFrame(rows, columns=["user", "item", "score"]).to_csv("some.csv", index=False)
    parts = {"train": HELD & ~IS_TEST, "test": IS_TEST}
    for name, mask in parts.items():
        frame = make_frame(mask)
        frame.assign(plays=1 + frame["user"] % 5).to_csv(f"{name}.csv", index=False)
    if "--unseen" in words:
        train = pd.read_csv("train.csv")
        train[train["item"] != 7].to_csv("train.csv", index=False)
    if "plays" not in words:
        words = f"{words} --ignore plays"
    _, _, error = run(f"{PARTS} {words}", capsys)
    assert hint in error
