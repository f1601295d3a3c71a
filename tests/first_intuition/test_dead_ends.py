"""First calls that once led nowhere work now, or name a call that works when typed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.cli import main
from ipseval.errors import InputError

RNG = np.random.default_rng(0)
USER, ITEM = np.nonzero(RNG.random((20, 15)) < 0.4)
FRAME = pd.DataFrame({"user_id": USER, "item_id": ITEM})
SPLIT = ipseval.split_random(FRAME, rng=0)
TRAIN = SPLIT.train.to_frame().rename(columns={"user": "user_id", "item": "item_id"})
TEST = SPLIT.test.to_frame().rename(columns={"user": "user_id", "item": "item_id"})
SCORES = RNG.random((20, 15))
EVALUATION = ipseval.evaluate({"m": SCORES, "n": -SCORES}, SPLIT)
GIVEN = {
    "ipseval": ipseval, "pandas": pd, "frame": FRAME, "train": TRAIN, "test": TEST, "split": SPLIT,
    "scores": SCORES, "evaluation": EVALUATION, "pairs": FRAME.to_numpy(),
    "ranks_with_gaps": TEST.assign(rank=2 * TEST.groupby("user_id").cumcount() + 1).rename(
        columns={"user_id": "user", "item_id": "item"}
    ),
    "qrels": {0: {1: 1}}, "run": {0: {1: 0.5}}, "models": {"m": SCORES},
}  # fmt: skip

# What people type; words of the error; the call that the error names, as it is typed then.
DEAD_ENDS = [
    (
        "ipseval.evaluate({'m': ranks_with_gaps}, split)",
        "Pass gaps='renumber' to use their order. Options go to ipseval.Lists",
        "ipseval.evaluate({'m': ipseval.Lists(ranks_with_gaps, gaps='renumber')}, split)",
    ),
    (
        "ipseval.evaluate(models, split, propensity='popularity')",
        '"power-law:gamma=0"',
        "ipseval.evaluate(models, split, propensity='power-law:gamma=0')",
    ),
    (
        "ipseval.evaluate(models, split, 'ndcg@10')",
        "Pass metrics=['ndcg@10'] by keyword.",
        "ipseval.evaluate(models, split, metrics=['ndcg@10'])",
    ),
    (
        "ipseval.evaluate(models, split, ['recall@5', 'ndcg@5'])",
        "Pass metrics=['recall@5', 'ndcg@5'] by keyword.",
        "ipseval.evaluate(models, split, metrics=['recall@5', 'ndcg@5'])",
    ),
    (
        "ipseval.Interactions(frame)",
        "Use ipseval.read(frame) or Interactions.from_frame(frame).",
        "ipseval.read(frame)",
    ),
    ("ipseval.Interactions.from_pandas(frame)", "Use ipseval.read(frame) or", "ipseval.read(frame)"),
    ("ipseval.Interactions.from_dataframe(frame)", "Use ipseval.read(frame) or", "ipseval.read(frame)"),
    (
        "ipseval.Split.from_dataframes(train, test)",
        "Use Split.from_frames(train, test).",
        "ipseval.Split.from_frames(train, test)",
    ),
    ("ipseval.compare(models)", "Use evaluation.compare()", "evaluation.compare()"),
    ("ipseval.Evaluator(models)", "Use ipseval.evaluate(models, split)", "ipseval.evaluate(models, split)"),
    ("evaluation.to_dataframe()", "Use .frame", "evaluation.frame"),
    (
        "evaluation.user_values",
        "Use evaluation.per_user(model, metric, estimator)",
        "evaluation.per_user('m', 'recall@10', 'aoa')",
    ),
    (
        "evaluation.per_user()",
        "Pass per_user('m', 'recall@10', 'aoa')",
        "evaluation.per_user('m', 'recall@10', 'aoa')",
    ),
    ("evaluation.significance", "Use evaluation.compare()", "evaluation.compare()"),
    ("evaluation.scores", "Use .frame", "evaluation.frame"),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("call", "words", "advised"), DEAD_ENDS)
def test_an_error_names_a_call_that_works(call, words, advised):
    with pytest.raises((InputError, AttributeError, TypeError)) as caught:
        eval(call, dict(GIVEN))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert eval(advised, dict(GIVEN)) is not None


WORKS = [
    "ipseval.read(pairs)",
    "evaluation.to_frame()",
    "ipseval.Split.from_frames(train, test)",
    "ipseval.evaluate(models, train=train, test=test)",
    "ipseval.evaluate(models, split, propensity=dict(enumerate([0.5] * 15)))",
    "ipseval.KnownPropensity(item=dict(enumerate([0.5] * 15)))",
    "ipseval.evaluate({'m': run}, ipseval.Split.from_frames(None, {0: [1]}), metrics=['recall@1'])",
    "ipseval.read(split.train.to_csr())",
    "ipseval.Split.from_frames(split.train.to_csr(), split.test.to_csr())",
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("call", WORKS)
def test_a_first_call_works(call):
    assert eval(call, dict(GIVEN)) is not None


def test_compare_names_the_recommenders_of_the_results(tmp_path, capsys):
    EVALUATION.save(tmp_path / "a.npz")
    path = str(tmp_path / "a.npz")
    assert main(["compare", path, path, "--model", "nope"]) == 2
    assert capsys.readouterr().err == "ipseval: error: unknown candidate: 'nope'. Choices: m, n.\n"
    assert main(["compare", path, path, "--model", "n=m", "--metric", "recall@10"]) in (0, 1, 3, 4)
