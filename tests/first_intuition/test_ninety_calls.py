"""Ninety first calls of readers of the README: they work, or one line leads to a call that works."""

from __future__ import annotations

import shlex
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import ipseval
from ipseval.cli import main
from tests.first_intuition import ninety_calls

CALLS = {
    "implicit": ninety_calls.IMPLICIT,
    "pandas": ninety_calls.PANDAS,
    "LensKit and RecTools": ninety_calls.FRAMES,
    "ranx and ir_measures": ninety_calls.RANX,
    "RecBole and cornac": ninety_calls.ATOMIC,
    "Open Bandit and PyTorch": ninety_calls.ARRAYS,
}


def run_command(words: str) -> None:
    """Run a command; an error raises `InputError`."""
    try:
        code = main(shlex.split(words))
    except SystemExit as end:
        code = end.code
    if code:
        raise ipseval.InputError("the command failed")


def draw_pairs(seed: int, n_users: int, n_items: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, n_items + 1)
    rows = [
        (user, int(item))
        for user in range(n_users)
        for item in rng.choice(n_items, 15, replace=False, p=share / share.sum())
    ]
    frame = pd.DataFrame(rows, columns=["user_id", "item_id"])
    frame["rating"] = rng.integers(1, 6, len(frame))
    frame["timestamp"] = 1_600_000_000 + rng.integers(0, 10_000_000, len(frame))
    return frame


def make_implicit() -> dict:
    rng = np.random.default_rng(0)
    dense = rng.random((40, 60)) < np.linspace(0.7, 0.08, 60)
    held_out = rng.random((40, 60)) < 0.25
    train = scipy.sparse.csr_matrix((dense & ~held_out).astype(np.float32))
    test = scipy.sparse.csr_matrix((dense & held_out).astype(np.float32))
    user_factors = rng.normal(size=(40, 8))
    item_factors = rng.normal(size=(60, 8))
    product = user_factors @ item_factors.T
    masked = np.where(train.toarray() > 0, -np.inf, product)
    top = np.argsort(-masked, axis=1)[:, :10]
    for name, matrix in {"train": train, "test": test}.items():
        user, item = matrix.nonzero()
        pd.DataFrame({"user": user, "item": item}).to_csv(f"{name}.csv", index=False)
    pd.DataFrame({"user": np.arange(40)}).to_csv("users.csv", index=False)
    pd.DataFrame({"item": np.arange(60)}).to_csv("items.csv", index=False)
    np.save("scores.npy", product)
    return {
        "train": train,
        "test": test,
        "user_factors": user_factors,
        "item_factors": item_factors,
        "product": product,
        "top": top,
        "top_scores": np.take_along_axis(masked, top, axis=1),
        "loaded": SimpleNamespace(user_factors=user_factors, item_factors=item_factors),
        "popularity": np.asarray(train.sum(axis=0)).ravel(),
    }


def select_positives(frame: pd.DataFrame) -> ipseval.Interactions:
    return ipseval.read(frame, threshold=4)


def make_frames() -> dict:
    """Return a log of ratings, its parts, and lists of ten unseen items as frames and as a mapping."""
    frame = draw_pairs(1, 48, 60)
    rng = np.random.default_rng(2)
    is_test = rng.random(len(frame)) < 0.2
    train = frame[~is_test]
    test = frame[is_test]
    rows = []
    for user, seen in train.groupby("user_id")["item_id"]:
        unseen = np.setdiff1d(np.arange(60), seen)
        for rank, item in enumerate(rng.choice(unseen, 10, replace=False), start=1):
            rows.append((user, item, 10.0 - rank, rank))
    recs = pd.DataFrame(rows, columns=["user_id", "item_id", "score", "rank"])
    lists = {user: rng.permutation(60)[:10].tolist() for user in range(48)}
    frame.to_csv("log.csv", index=False)
    train.to_csv("train.csv", index=False)
    test.to_csv("test.csv", index=False)
    recs.to_csv("a.csv", index=False)
    other_recs = recs.drop(columns="rank").assign(score=rng.random(len(recs)))
    other_recs.to_csv("b.csv", index=False)
    events = frame.rename(columns={"user_id": "visitorid", "item_id": "sku"})
    events.to_csv("events.csv", sep=";", index=False)
    log = ipseval.read(frame, threshold=4)
    split = ipseval.split_random(log, rng=0)
    models = {
        "EASE": ipseval.baselines.ease(split.train),
        "popular": ipseval.baselines.popularity(split.train),
    }
    return {
        "df": frame,
        "train": train,
        "test": test,
        "recs": recs,
        "both": pd.concat([recs.assign(Algorithm="one"), recs.assign(Algorithm="two")]),
        "lists": lists,
        "log": log,
        "split": split,
        "evaluation": ipseval.evaluate(models, split, propensity="power-law:gamma=0", metrics=["recall@10"]),
        "propensity": pd.Series(np.linspace(0.9, 0.05, 60), index=range(60)),
        "positives": select_positives,
        "pairs": lambda part: part[["user_id", "item_id"]],
        "weighted": lambda part: part.rename(columns={"rating": "weight"}),
    }


def make_runs() -> dict:
    rng = np.random.default_rng(3)
    items = [f"i{number}" for number in range(50)]
    share = 1 / np.arange(1, 51)
    train = {}
    qrels = {}
    for number in range(36):
        history = rng.choice(items, 12, replace=False, p=share / share.sum()).tolist()
        train[f"u{number}"] = history[:9]
        qrels[f"u{number}"] = dict.fromkeys(history[9:], 1)
    runs = {"a": {}, "b": {}}
    for name, run in runs.items():
        lines = []
        for user, seen in train.items():
            run[user] = {item: float(rng.random()) for item in items if item not in seen}
            best = sorted(run[user].items(), key=lambda entry: -entry[1])[:20]
            lines += [
                f"{user} Q0 {item} {rank} {score:.6f} {name}\n" for rank, (item, score) in enumerate(best, 1)
            ]
        with open(f"{name}.run", "w") as file:
            file.writelines(lines)
    with open("qrels.txt", "w") as file:
        file.writelines(f"{user} 0 {item} 1\n" for user, grades in qrels.items() for item in grades)
    train_pairs = [(user, item) for user, seen in train.items() for item in seen]
    pd.DataFrame(train_pairs, columns=["user", "item"]).to_csv("train.tsv", sep="\t", index=False)
    flipped: dict = {}
    for user, grades in qrels.items():
        for item in grades:
            flipped.setdefault(item, {})[user] = 1
    graded = {user: dict(zip(grades, (0, 1, 3), strict=True)) for user, grades in qrels.items()}
    propensity = {item: (position + 1) ** -0.5 for position, item in enumerate(items)}
    return {
        "train": train,
        "qrels": qrels,
        "run_a": runs["a"],
        "run_b": runs["b"],
        "train_pairs": train_pairs,
        "flipped": flipped,
        "graded": graded,
        "propensity": propensity,
    }


def make_atomic() -> dict:
    frame = draw_pairs(4, 40, 60)
    frame.columns = ["user_id:token", "item_id:token", "rating:float", "timestamp:float"]
    is_test = np.random.default_rng(5).random(len(frame)) < 0.2
    for name, part in {"toy": frame, "train": frame[~is_test], "test": frame[is_test]}.items():
        part.to_csv(f"{name}.inter", sep="\t", index=False)
    log = ipseval.read("toy.inter", threshold=4)
    split = ipseval.split_random(log, rng=0)
    shape = (split.n_users + 1, split.n_items + 1)
    triples = [
        (str(user), str(item), float(rating)) for user, item, rating, _ in frame.itertuples(index=False)
    ]
    return {
        "log": log,
        "split": split,
        "padded": np.random.default_rng(6).normal(size=shape),
        "triples": triples,
    }


class FakeTensor:
    """A tensor of a library that is not installed: it becomes an array by `__array__`."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.shape = values.shape

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values


def make_arrays() -> dict:
    rng = np.random.default_rng(7)
    is_positive = rng.random((40, 60)) < np.linspace(0.7, 0.08, 60)
    held_out = rng.random((40, 60)) < 0.25
    x_train = (is_positive & ~held_out).astype(int)
    scores = rng.normal(size=(40, 60))
    share = 1 / np.arange(1, 51)
    rows = [
        (user, int(item), position, session)
        for user in range(40)
        for session in range(4)
        for position, item in enumerate(rng.choice(50, 8, replace=False, p=share / share.sum()), start=1)
    ]
    impressions = pd.DataFrame(rows, columns=["user_id", "item_id", "position", "session"])
    chance = 0.6 / impressions["position"] ** 0.5
    impressions["click"] = (rng.random(len(rows)) < chance).astype(int)
    clicks = impressions[impressions["click"] == 1].drop_duplicates(["user_id", "item_id"])
    clicks = clicks[["user_id", "item_id"]]
    impressions.to_csv("impressions.csv", index=False)
    clicks.to_csv("clicks.csv", index=False)
    pd.DataFrame({"item_id": range(50), "propensity": np.maximum(share, 0.02)}).to_csv(
        "propensities.csv", index=False
    )
    user_share = x_train.mean(axis=1)
    item_share = x_train.mean(axis=0)
    return {
        "x_train": x_train,
        "x_test": (is_positive & held_out).astype(int),
        "scores": scores,
        "tensor": FakeTensor(scores),
        "predict": lambda users: scores[users],
        "sparse": scipy.sparse.csr_matrix,
        "item_propensity": np.clip(item_share, 0.05, 1),
        "pair_propensity": np.clip(np.outer(user_share, item_share) * 3, 0.02, 1),
        "impressions": impressions,
        "split": ipseval.split_random(clicks, rng=0),
        "bandit": {"n_rounds": 5, "action": np.arange(5), "reward": np.ones(5)},
    }


N_WORKING = 51  # of ninety; fourteen others are mistakes on purpose, to which an error is the answer
OBJECTS = {
    "implicit": make_implicit,
    "pandas": make_frames,
    "LensKit and RecTools": make_frames,
    "ranx and ir_measures": make_runs,
    "RecBole and cornac": make_atomic,
    "Open Bandit and PyTorch": make_arrays,
}


def compare_estimates(result: object, reference: object) -> None:
    """Assert that two evaluations of one recommender have the same estimates."""
    assert isinstance(result, ipseval.Evaluation)
    assert isinstance(reference, ipseval.Evaluation)
    columns = ["metric", "estimator", "estimate", "std_error"]
    pd.testing.assert_frame_equal(result.frame[columns], reference.frame[columns])


def test_there_are_ninety_calls_of_which_most_work():
    calls = [call for library in CALLS.values() for call in library]
    assert len(calls) == 90
    n_working = sum(not call.words for call in calls)
    n_mistakes = sum(call.is_mistake for call in calls)
    assert all(call.words for call in calls if call.is_mistake)
    assert n_working >= N_WORKING
    assert n_working / (90 - n_mistakes) >= 0.6


@pytest.mark.slow  # in the fast suite, the two hundred calls of test_first_intuition.py
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("library", CALLS)
def test_a_first_call_works_or_its_error_leads_to_one_that_works(library, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"ipseval": ipseval, "np": np, "cli": run_command, **OBJECTS[library]()}
    faults = []
    for call in CALLS[library]:
        capsys.readouterr()
        try:
            result = eval(call.text, dict(names))
        except (ipseval.IpsevalError, AttributeError, TypeError) as error:
            text = f"{error} {capsys.readouterr().err}"
            if not call.words or call.words not in text:
                faults.append(f"{call.text}: {text}")
            else:
                eval(call.instead, dict(names))
            continue
        if call.words:
            faults.append(f"{call.text}: it works")
        elif call.same_as:
            compare_estimates(result, eval(call.same_as, dict(names)))
    assert not faults, "\n".join(faults)
