"""Errors of wrong options repeat the value of the call, so that the advice can be pasted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval

FRAME = pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 2], "stars": [5, 4, 3, 5]})
RESULT = ipseval.evaluate(
    {"a": np.eye(2, 3), "b": -np.eye(2, 3)}, {0: [0], 1: [1]}, {0: [1], 1: [2]}, metrics=["recall@1"]
)


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: ipseval.read(FRAME, rating="stars"), "Use value='stars'."),
        (lambda: ipseval.read(FRAME, user_col="user"), "Use user='user'."),
        (lambda: ipseval.read(FRAME, "user", "item"), "Pass user='user', item='item' by keyword."),
        (lambda: ipseval.split_random(FRAME, seed=3), "Use rng=3."),
        (lambda: ipseval.split_random(FRAME, 0.2), "Pass test_fraction=0.2 by keyword."),
        (lambda: ipseval.split_random(FRAME, test_size=0.2), "Use test_fraction=0.2."),
        (lambda: ipseval.evaluate({}, FRAME, user="u"), "Split.from_frames(train, test, user='u')"),
        (lambda: ipseval.evaluate({}, FRAME, confidence=0.9), "Use confidence_level=0.9."),
        (lambda: ipseval.evaluate({}, FRAME, alpha=0.05), "Use confidence_level=."),
        (lambda: RESULT.per_user("recall@1"), "Pass per_user('a', 'recall@1', 'aoa')."),
        (lambda: RESULT.per_user("b"), "Pass per_user('b', 'recall@1', 'aoa')."),
        (lambda: RESULT.estimate("b", "recall@1", "snips"), "as in ('b', 'recall@1', 'aoa')."),
        (lambda: ipseval.metric("recall@1,ndcg@2"), "Pass metrics=['recall@1', 'ndcg@2']."),
    ],
)
def test_the_advice_repeats_the_value(call, advice):
    with pytest.raises(ipseval.InputError) as caught:
        call()
    assert advice in str(caught.value)


def test_metrics_have_the_names_of_functions():
    for name, label in (
        ("ndcg_at_10", "ndcg@10"),
        ("precision_at_5", "precision@5"),
        ("hit_rate_at_3", "hit@3"),
    ):
        assert ipseval.metric(name).label == label
    with pytest.raises(ipseval.InputError):
        ipseval.metric("ndcg_at_k")


def test_axes_say_how_to_write_a_file():
    pytest.importorskip("matplotlib").use("Agg")
    with pytest.raises(AttributeError, match=r"\.figure\.savefig\(path\)"):
        RESULT.plot().savefig("plot.png")
