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
    "duplicate pairs": (
        lambda: ipseval.Interactions.from_frame(frame([1, 1, 2], [5, 5, 6])),
        r"1 of 3 rows repeat.*first: 1, 5.*duplicates='drop'",
    ),
    "value is text": (
        lambda: ipseval.Interactions.from_frame(frame([1], [2], value=["x"]), value="value"),
        r"column 'value' must be numeric",
    ),
    "models is no mapping": (
        lambda: ipseval.evaluate(SCORES, SPLIT),
        r"non-empty mapping .*; got an ndarray\.",
    ),
    "no models": (lambda: ipseval.evaluate({}, SPLIT), r"non-empty mapping .*; got an empty one\."),
    "transposed scores": (
        lambda: run(
            np.ones((4, 3)), ipseval.Split.from_frames(TRAIN, TEST, users=[0, 1, 2], items=[0, 1, 2, 3])
        ),
        r"It looks transposed",
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
    "unknown metric": (lambda: run(metrics=["recal@10"]), r"unknown metric 'recal'. Did you mean 'recall'\?"),
    "cutoff beyond all ranks": (
        lambda: run(metrics=["recall@10000001"]),
        r"at most 10,000,000; got 10,000,001",
    ),
    "metric twice": (lambda: run(metrics=["auc", "auc"]), r"metrics repeats auc"),
    "unknown tie rule": (lambda: run(ties="average"), r"unknown value for ties: 'average'"),
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
    "gamma and eta": (lambda: ipseval.PowerLawPropensity(gamma=1, eta=1), r"either gamma= or eta="),
    "unknown policy for unseen items": (
        lambda: ipseval.PowerLawPropensity(gamma=0, unseen="ignore"),
        r"unknown value for unseen: 'ignore'",
    ),
    "negative scale": (
        lambda: ipseval.PowerLawPropensity(gamma=0, scale=-1),
        r"scale must be None, 'max' .* or a number > 0; got -1",
    ),
    "floor of 0": (
        lambda: known([0.5, 1, 1]).fit(SPLIT).clip(floor=0),
        r"floor must be in \(0, 1\], as .*; got 0\.$",
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
