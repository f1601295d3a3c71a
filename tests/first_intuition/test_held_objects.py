"""Ninety first calls with the objects that people of six libraries hold.

The libraries are not needed: RecTools, LensKit and RecBole hold frames with columns of their own names, ranx
holds mappings, implicit holds sparse matrices and pairs of arrays, and ir_measures holds frames of qrels.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import ipseval

RNG = np.random.default_rng(0)
HELD = RNG.random((20, 15)) < 0.4
IN_TEST = HELD & (RNG.random(HELD.shape) < 0.3)
IN_TRAIN = HELD & ~IN_TEST
SCORES = RNG.random(HELD.shape)
TOP = np.argsort(-np.where(IN_TRAIN, -np.inf, SCORES), axis=1)[:, :5]
TOP_SCORES = np.take_along_axis(SCORES, TOP, axis=1)
# Recall@5 by its definition: the mean over users of the share of their test items in the list.
RECALL = float(
    np.mean([np.isin(np.flatnonzero(row), TOP[user]).mean() for user, row in enumerate(IN_TEST) if row.any()])
)


def make_log(mask: np.ndarray, user: str, item: str, **columns: float) -> pd.DataFrame:
    users, items = np.nonzero(mask)
    return pd.DataFrame({user: users, item: items, **columns})


def make_lists(user: str, item: str) -> pd.DataFrame:
    users = np.repeat(np.arange(20), 5)
    return pd.DataFrame({user: users, item: TOP.ravel(), "score": TOP_SCORES.ravel()})


def name_ids(frame: pd.DataFrame, user: str, item: str) -> pd.DataFrame:
    queries = "q" + frame[user].astype(str)
    return frame.assign(**{user: queries, item: "d" + frame[item].astype(str)})


def nest(frame: pd.DataFrame, user: str, item: str, value: str) -> dict:
    return {key: dict(zip(rows[item], rows[value], strict=True)) for key, rows in frame.groupby(user)}


MASKS = {"log": HELD, "train": IN_TRAIN, "test": IN_TEST}
QRELS = {
    name: name_ids(make_log(mask, "query_id", "doc_id", relevance=1), "query_id", "doc_id")
    for name, mask in MASKS.items()
}
RUN = name_ids(make_lists("query_id", "doc_id"), "query_id", "doc_id")
RANKED = make_lists("user_id", "item_id").assign(rank=np.tile(np.arange(1, 6), 20))
OBJECTS = {
    "RecTools": {name: make_log(mask, "user_id", "item_id", weight=1.0) for name, mask in MASKS.items()}
    | {"recs": RANKED},
    "LensKit": {name: make_log(mask, "user_id", "item_id") for name, mask in MASKS.items()}
    | {"recs": RANKED},
    "RecBole": {name: make_log(mask, "user_id:token", "item_id:token") for name, mask in MASKS.items()}
    | {"recs": make_lists("user_id:token", "item_id:token")},
    "ir_measures": QRELS | {"recs": RUN},
    "ranx": {name: nest(frame, "query_id", "doc_id", "relevance") for name, frame in QRELS.items()}
    | {"recs": nest(RUN, "query_id", "doc_id", "score")},
    "implicit": {name: scipy.sparse.csr_matrix(mask.astype(float)) for name, mask in MASKS.items()}
    | {"recs": (TOP, TOP_SCORES)},
}

# Calls, and the call that an error leads to; "" where the call must work for every library.
CALLS = {
    "ipseval.read(log)": "",
    "ipseval.split_random(log, rng=0)": "",
    "ipseval.split_leave_one_out(log, order='random', n_validation=0, rng=0)": "",
    "ipseval.Split.from_frames(train, test)": "",
    "ipseval.Split.from_frames(train, test, overlap='drop')": "",
    "ipseval.Lists(recs)": "",
    "ipseval.evaluate({'m': ipseval.Lists(recs)}, train=train, test=test, metrics=['recall@5'])": "",
    "ipseval.evaluate({'m': recs}, train=train, test=test, metrics=['recall@5'])": (
        "ipseval.evaluate({'m': ipseval.Lists(recs)}, train=train, test=test, metrics=['recall@5'])"
    ),
    "ipseval.evaluate({'m': recs}, train=train, test=test, metrics=['recall@5', 'MAP@5', 'MRR@5'])": (
        "ipseval.evaluate({'m': ipseval.Lists(recs)}, train=train, test=test, metrics=['recall@5', 'MAP@5'])"
    ),
    "ipseval.evaluate({'m': recs}, ipseval.Split.from_frames(train, test), metrics=['recall@5'])": (
        "ipseval.evaluate({'m': ipseval.Lists(recs)}, ipseval.Split.from_frames(train, test), "
        "metrics=['recall@5'])"
    ),
    "ipseval.evaluate({'m': recs}, train=train, test=test, metrics=['recall@5'], propensity='power-law(gamma=0)')": (
        "ipseval.evaluate({'m': ipseval.Lists(recs)}, train=train, test=test, metrics=['recall@5'])"
    ),
    "ipseval.rank_positives(recs, ipseval.Split.from_frames(train, test))": (
        "ipseval.rank_positives(ipseval.Lists(recs), ipseval.Split.from_frames(train, test))"
    ),
    "ipseval.evaluate(recs, train=train, test=test)": (
        "ipseval.evaluate({'name': ipseval.Lists(recs)}, train=train, test=test, metrics=['recall@5'])"
    ),
    "ipseval.evaluate({'m': recs}, test, metrics=['recall@5'])": (
        "ipseval.evaluate({'m': ipseval.Lists(recs)}, ipseval.Split.from_frames(train, test), "
        "metrics=['recall@5'])"
    ),
    "ipseval.evaluate({'m': recs}, test=test, metrics=['recall@5'])": (
        "ipseval.evaluate({'m': ipseval.Lists(recs)}, train=train, test=test, metrics=['recall@5'])"
    ),
}
# Words of the errors, each with what to type instead.
ADVICE = ('{"name": ', "ipseval.Lists(", "Split.from_frames(train, test)", "Pass train=frame")


def check_value(result: object) -> None:
    """Raise where an evaluation has another recall than the one by its definition."""
    if isinstance(result, ipseval.Evaluation) and "recall@5" in result.frame["metric"].to_numpy():
        rows = result.frame.query("metric == 'recall@5' and estimator == 'aoa'")
        assert rows["estimate"].tolist() == [pytest.approx(RECALL, rel=1e-12)]


@pytest.mark.slow  # in the fast suite, the two hundred calls of test_first_intuition.py
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_of_ninety_calls_six_in_ten_work_and_the_others_say_what_to_type():
    outcomes = []
    for library, objects in OBJECTS.items():
        names = {"ipseval": ipseval, **objects}
        for call, instead in CALLS.items():
            try:
                check_value(eval(call, dict(names)))
                outcomes.append(True)
            except ipseval.InputError as error:
                text = str(error)
                assert instead, f"{library}: {call}: {text}"
                assert "\n" not in text
                assert any(words in text for words in ADVICE), f"{library}: {call}: {text}"
                check_value(eval(instead, dict(names)))
                outcomes.append(False)
    assert len(outcomes) == 90
    assert sum(outcomes) >= 60
