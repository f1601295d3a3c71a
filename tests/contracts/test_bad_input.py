"""Every wrong input gets an error that names the thing, the count and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import ipseval

TRAIN = pd.DataFrame({"user": [0, 1, 2], "item": [0, 1, 2]})
TEST = pd.DataFrame({"user": [0, 1], "item": [1, 0]})
SPLIT = ipseval.Split.from_frames(TRAIN, TEST)
SCORES = np.arange(9.0).reshape(3, 3)
TWO_NAN = np.where(np.isin(np.arange(9).reshape(3, 3), (1, 2)), np.nan, SCORES)  # two candidates of user 0
LISTS = pd.DataFrame({"user": [0, 1], "item": [1, 0], "rank": [1, 1]})


def run(scores=SCORES, split=SPLIT, **options):
    options = {"metrics": ["recall@2"], "on_low_ess": "ignore", **options}
    return ipseval.evaluate({"als": scores}, split, **options)


def frame(user, item, **columns):
    return pd.DataFrame({"user": user, "item": item, **columns})


def known(values):
    return ipseval.KnownPropensity(item=values)


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "no data frame": (lambda: ipseval.Interactions.from_frame([1, 2]), r"expected a data frame.*list"),
    "empty frame": (lambda: ipseval.Interactions.from_frame(frame([], [])), r"no rows"),
    "missing column": (
        lambda: ipseval.Interactions.from_frame(pd.DataFrame({"uid": [1], "item": [2]})),
        r"column 'user' is not in the frame; it has 'uid', 'item'",
    ),
    "missing ids": (
        lambda: ipseval.Interactions.from_frame(frame(["a", None], [1, 2])),
        r"column 'user' has 1 missing entry of 2",
    ),
    "duplicate pairs": (
        lambda: ipseval.Interactions.from_frame(frame([1, 1, 2], [5, 5, 6])),
        r"1 of 3 rows repeat.*first: 1, 5.*duplicates='drop'",
    ),
    "value is text": (
        lambda: ipseval.Interactions.from_frame(frame([1], [2], value=["x"]), value="value"),
        r"column 'value' must be numeric",
    ),
    "value is infinite": (
        lambda: ipseval.Interactions.from_frame(frame([1], [2], value=[np.inf]), value="value"),
        r"column 'value' must be finite; 1 of 1",
    ),
    "id outside the catalogue": (
        lambda: ipseval.Split.from_frames(TRAIN, frame([0], [9]), users=[0, 1, 2], items=[0, 1, 2]),
        r"1 ids that are not in the given universe of 3 \(9;",
    ),
    "universe repeats an id": (
        lambda: ipseval.Split.from_frames(TRAIN, TEST, users=[0, 1, 2, 2], items=[0, 1, 2]),
        r"repeats 1 ids",
    ),
    "train and test ids of different type": (
        lambda: ipseval.Split.from_frames(TRAIN, frame(["0"], ["1"])),
        r"column 'user' of the frames has ids of different types \(int64: 0, 1, 2; object: '0'\)",
    ),
    "training pair in test": (
        lambda: ipseval.Split.from_frames(TRAIN, frame([0, 1], [0, 0])),
        r"1 user–item pairs are in more than one part of the split.*overlap='drop'",
    ),
    "models is no mapping": (
        lambda: ipseval.evaluate(SCORES, SPLIT),
        r"non-empty mapping .*; got an ndarray\.",
    ),
    "no models": (lambda: ipseval.evaluate({}, SPLIT), r"non-empty mapping .*; got an empty one\."),
    "NaN scores": (lambda: run(TWO_NAN), r"als: 2 of .* scores .* NaN.*-inf"),
    "scores of another shape": (lambda: run(np.ones((3, 4))), r"als has shape \(3, 4\); expected \(3, 3\)"),
    "transposed scores": (
        lambda: run(
            np.ones((4, 3)), ipseval.Split.from_frames(TRAIN, TEST, users=[0, 1, 2], items=[0, 1, 2, 3])
        ),
        r"It looks transposed",
    ),
    "scores are text": (lambda: run(np.full((3, 3), "x")), r"als must hold real numbers"),
    "scores are complex": (lambda: run(SCORES + 1j), r"als must hold real numbers"),
    "factors do not match": (
        lambda: run((np.ones((3, 2)), np.ones((3, 4)))),
        r"als: factors must be \(n_users, d\) and \(n_items, d\); got \(3, 2\) and \(3, 4\)",
    ),
    "function returns another shape": (
        lambda: run(lambda users: np.ones((1, 1))),
        r"function returned shape \(1, 1\)",
    ),
    "unsupported model": (lambda: run(object()), r"als is an object; expected an \(n_users, n_items\) array"),
    "score frame lacks items": (
        lambda: run(pd.DataFrame(np.ones((3, 2)), columns=[0, 1])),
        r"als lacks 1 of 3 column ids of the split \(2;",
    ),
    "list repeats a pair": (
        lambda: run(pd.concat([LISTS, LISTS])),
        r"als \(top-K lists\) has 2 problems.*ranks of 2 users are not 1, 2.*2 of 4 entries repeat an item",
    ),
    "list holds a training item": (
        lambda: run(frame([0, 0], [0, 1], rank=[1, 2])),
        r"1 of 2 entries are training items.*seen='drop'.*Options go to ipseval.Lists",
    ),
    "list names an unknown item": (
        lambda: run(frame([0], [7], rank=[1])),
        r"1 of 1 entries have items unknown to the split .*unknown='drop'",
    ),
    "list for a metric of the whole ranking": (
        lambda: run(LISTS, metrics=["auc"]),
        r"auc reads the whole ranking, but the lists end at rank 1",
    ),
    "unknown metric": (lambda: run(metrics=["recal@10"]), r"unknown metric 'recal'. Did you mean 'recall'\?"),
    "cutoff beyond all ranks": (
        lambda: run(metrics=["recall@10000001"]),
        r"at most 10,000,000; got 10,000,001",
    ),
    "unknown metric parameter": (lambda: run(metrics=["dcg(gian=linear)"]), r"Did you mean 'gain'"),
    "metric twice": (lambda: run(metrics=["auc", "auc"]), r"metrics repeats auc"),
    "no metric": (lambda: run(metrics=[]), r"metrics is empty"),
    "unknown estimator": (
        lambda: run(estimators=["snip"], propensity=known(np.ones(3))),
        r"unknown estimator 'snip'. Did you mean 'snips'",
    ),
    "snips without propensity": (lambda: run(estimators=["snips"]), r"snips needs a propensity"),
    "unknown tie rule": (lambda: run(ties="average"), r"unknown value for ties: 'average'"),
    "confidence level of 95": (lambda: run(confidence_level=95), r"confidence_level must be in \(0, 1\)"),
    "graded metric without values": (lambda: run(metrics=["dcg(gain=linear)"]), r"needs graded relevance"),
    "propensity 0": (lambda: run(propensity=known([0.5, 0, 1])), r"\(0, 1\]; of 3 values 1 are 0"),
    "propensity above 1": (
        lambda: run(propensity=known([0.5, 2, 1])),
        r"\(0, 1\]; of 3 values 1 are not \(e.g. 2",
    ),
    "propensity of another size": (
        lambda: run(propensity=known([0.5, 1])),
        r"item must have 3 entries.*got 2",
    ),
    "propensity of another catalogue": (
        lambda: run(propensity=ipseval.PowerLawPropensity(gamma=0).fit(popularity=[1, 2])),
        r"covers 2 items, the split has 3",
    ),
    "no positive has a propensity": (
        lambda: run(propensity=known([np.nan, np.nan, 1])),
        r"no test positive has a propensity",
    ),
    "neither item nor pair": (lambda: ipseval.KnownPropensity(), r"either item= .* or pair="),
    "propensity frame without its column": (
        lambda: run(propensity=known(pd.DataFrame({"item": [0], "p": [1.0]}))),
        r"lacks column 'propensity'",
    ),
    "gamma and eta": (lambda: ipseval.PowerLawPropensity(gamma=1, eta=1), r"either gamma= or eta="),
    "gamma is NaN": (lambda: ipseval.PowerLawPropensity(gamma=np.nan), r"finite numbers; got nan"),
    "gamma is text": (lambda: ipseval.PowerLawPropensity(gamma="1.5"), r"finite numbers; got '1.5'"),
    "unknown policy for unseen items": (
        lambda: ipseval.PowerLawPropensity(gamma=0, unseen="ignore"),
        r"unknown value for unseen: 'ignore'",
    ),
    "unseen items refused": (
        lambda: ipseval.PowerLawPropensity(gamma=0, unseen="raise").fit(popularity=[0, 3]),
        r"1 of 2 items have no training interaction.*unseen='smooth' or 'drop'",
    ),
    "nothing was ever observed": (
        lambda: ipseval.PowerLawPropensity(gamma=0).fit(popularity=[0, 0]),
        r"all popularity counts are 0",
    ),
    "scale that exceeds 1": (
        lambda: ipseval.PowerLawPropensity(gamma=1, scale=0.5).fit(popularity=[1, 4]),
        r"1 of 2 items a propensity above 1; the largest scale .* is 0.25",
    ),
    "negative scale": (
        lambda: ipseval.PowerLawPropensity(gamma=0, scale=-1),
        r"scale must be None, 'max' .* or a number > 0; got -1",
    ),
    "floor of 0": (
        lambda: known([0.5, 1, 1]).fit(SPLIT).clip(floor=0),
        r"floor must be in \(0, 1\], as .*; got 0\.$",
    ),
    "ips up to a factor": (
        lambda: run(propensity=ipseval.PowerLawPropensity(gamma=0).fit(SPLIT.train), estimators=["ips"]),
        r"up to a factor only.*scale='max'.*number.*random exposure.*snips",
    ),
    "ips without the number of relevant items": (
        lambda: run(propensity=known(np.ones(3)), estimators=["ips"]),
        r"ips of recall@2 divides by the number of relevant items.*n_relevant='estimated'",
    ),
    "n_relevant below what was observed": (
        lambda: run(propensity=known(np.ones(3)), estimators=["ips"], n_relevant=0),
        r"smaller than the number of observed positives for 2 users",
    ),
    "n_relevant of another size": (
        lambda: run(propensity=known(np.ones(3)), estimators=["ips"], n_relevant=[1, 2]),
        r"n_relevant must have 3 entries",
    ),
    "n_relevant is negative": (
        lambda: run(propensity=known(np.ones(3)), estimators=["ips"], n_relevant=-1),
        r"n_relevant must be finite and >= 0; 3 of 3",
    ),
    "estimate that was not asked for": (lambda: run().per_user("als", "auc", "aoa"), r"metrics: recall@2"),
    "ranks of different positives": (
        lambda: ipseval.evaluate_ranks(
            {
                "a": ipseval.rank_positives(SCORES, SPLIT),
                "b": ipseval.rank_positives(SCORES, SPLIT).select(np.array([True, False])),
            }
        ),
        r"'b' and 'a' rank different test positives \(1 and 2\)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gets_an_error_that_says_what_came_and_what_to_do(case: str):
    call, pattern = CASES[case]
    with pytest.raises(ipseval.IpsevalError) as caught:
        call()
    assert re.search(pattern, str(caught.value), flags=re.DOTALL), str(caught.value)


def test_every_error_is_also_a_value_error():
    with pytest.raises(ValueError, match="unknown metric"):
        ipseval.metric("nothing@5")
