"""Every wrong input gets an error that names the thing, the count and the way out."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import ipseval
import ipseval.reporting.plots
from ipseval import inference
from ipseval.data.splits import k_core, split_sliding
from ipseval.estimators import Aoa, Ips
from ipseval.policies import evaluate_policies
from ipseval.validation.datasets import load_coat, load_movielens
from tests.fuzz.values import endless
from tests.inside.inference import pareto_k

TRAIN = pd.DataFrame({"user": [0, 1, 2], "item": [0, 1, 2]})
TEST = pd.DataFrame({"user": [0, 1], "item": [1, 0]})
SPLIT = ipseval.Split.from_frames(TRAIN, TEST)
SCORES = np.arange(9.0).reshape(3, 3)
LISTS = pd.DataFrame({"user": [0, 1], "item": [1, 0], "rank": [1, 1]})
RENAMED = ipseval.Split.from_frames(
    TRAIN.replace({"user": dict(enumerate("abc"))}), TEST.replace({"user": dict(enumerate("abc"))})
)
RATINGS = ipseval.Interactions.from_frame(
    TRAIN.assign(value=[1, 2, 3], time=[1, 2, 3]), value="value", timestamp="time"
)
MASKED = np.ma.array(SCORES, mask=SCORES > 5)
FACTORS = np.ma.array(np.ones((3, 1)), mask=[[1], [0], [0]]), np.ones((3, 1))
RANKED = ipseval.rank_positives(SCORES, SPLIT)
DAYS = np.timedelta64(3, "D")


def run(scores=SCORES, split=SPLIT, **options):
    options = {"metrics": ["recall@2"], "low_ess": "ignore", **options}
    return ipseval.evaluate({"als": scores}, split, **options)


def frame(user, item, **columns):
    return pd.DataFrame({"user": user, "item": item, **columns})


def known(values):
    return ipseval.KnownPropensity(item=values)


def power_law(**options):
    return ipseval.PowerLawPropensity(gamma=0, **options)


def by_ips(n_relevant):
    return run(propensity=known(np.ones(3)), estimators=["ips"], n_relevant=n_relevant)


def rated(predictions, **options):
    return ipseval.evaluation.evaluate_ratings({"m": predictions}, RATINGS, **options)


def shown():
    log = frame([1, 1, 2, 2], [1, 2, 1, 3], clicked=[1, 0, 1, 1], p=0.5)
    return ipseval.ImpressionLog.from_frame(log, propensity="p")


CASES: dict[str, Callable[[], object]] = {  # what the error says -> the call
    r"expected a data frame.*list": lambda: ipseval.Interactions.from_frame([1, 2]),
    r"no rows": lambda: ipseval.Interactions.from_frame(frame([], [])),
    r"column 'user' is not in the frame; it has 'uid', 'item'": lambda: ipseval.Interactions.from_frame(
        pd.DataFrame({"uid": [1], "item": [2]})
    ),
    r"1 of 3 rows repeat.*first: 1, 5.*duplicates='drop'": lambda: ipseval.Interactions.from_frame(
        frame([1, 1, 2], [5, 5, 6])
    ),
    r"column 'value' must be numeric": lambda: ipseval.Interactions.from_frame(
        frame([1], [2], value=["x"]), value="value"
    ),
    r"non-empty mapping .*; got an empty one\.": lambda: ipseval.evaluate({}, SPLIT),
    r"It looks transposed": lambda: run(
        np.ones((4, 3)), ipseval.Split.from_frames(TRAIN, TEST, users=[0, 1, 2], items=[0, 1, 2, 3])
    ),
    r"als \(top-K lists\) has 2 problems.*ranks of 2 users are not 1, 2.*2 of 4 entries repeat an item": lambda: (
        run(pd.concat([LISTS, LISTS]))
    ),
    r"1 of 2 entries are training items.*seen='drop'.*Options go to ipseval.Lists": lambda: run(
        frame([0, 0], [0, 1], rank=[1, 2])
    ),
    r"1 of 1 entries have items unknown to the split .*unknown='drop'": lambda: run(
        frame([0], [7], rank=[1])
    ),
    r"unknown metric 'recal'. Did you mean 'recall'\?": lambda: run(metrics=["recal@10"]),
    r"metrics repeats auc": lambda: run(metrics=["auc", "auc"]),
    r"item must have 3 entries.*got 2": lambda: run(propensity=known([0.5, 1])),
    r"covers 2 items, the split has 3": lambda: run(propensity=power_law().fit(popularity=[1, 2])),
    r"no test positive has a propensity": lambda: run(propensity=known([np.nan, np.nan, 1])),
    r"as PowerLawPropensity\(gamma=0\) is; got type": lambda: run(propensity=ipseval.PowerLawPropensity),
    r"train must be Interactions; got Split\. Pass .*split\.train": lambda: ipseval.baselines.ease(SPLIT),
    r"at most 2\^53; 2 of 3 are not": lambda: power_law().fit(popularity=[1, -1, 2**54]),
    r"unknown value for unseen: 'ignore'": lambda: power_law(unseen="ignore"),
    r"scale must be None, 'max' .* or a number > 0; got -1": lambda: power_law(scale=-1),
    r"n_relevant must have 3 entries": lambda: by_ips([1, 2]),
    # Other ids, splits, labels and ranks than those that a caller may take them for.
    r"'b' and 'a' rank different test positives \(2 and 2\)": lambda: ipseval.evaluate_ranks(
        {"a": RANKED, "b": ipseval.rank_positives(SCORES, RENAMED)}
    ),
    r"'b' and 'a' rank different test positives \(2 and 2\); rank all recommenders on one split": lambda: (
        ipseval.evaluate_ranks({"a": RANKED, "b": replace(RANKED, item=RANKED.item[::-1])})
    ),
    r"'b' is ranked among other candidates \(.*\) than 'a' \(all items": lambda: ipseval.evaluate_ranks(
        {
            "a": RANKED,
            "b": ipseval.rank_positives(SCORES, SPLIT, candidates=ipseval.SampledCandidates(1, rng=0)),
        }
    ),
    r"'als' is ranked over 3 users and 3 items that are not the 3 and 3 of the split": lambda: run(
        ipseval.rank_positives(SCORES, RENAMED)
    ),
    r"'als': 2 of 2 ranked positives are not in the test part": lambda: run(
        ipseval.rank_positives(SCORES, SPLIT), ipseval.Split.from_frames(TRAIN, frame([0], [2]))
    ),
    r"'a' must be RankedPositives, made by rank_positives; got ndarray": lambda: ipseval.evaluate_ranks(
        {"a": SCORES}
    ),
    r"text as names; 1 of 2 are not \(1\)": lambda: ipseval.evaluate({1: SCORES, "b": SCORES}, SPLIT),
    r"split must be a Split; got tuple.*Split.from_frames": lambda: ipseval.evaluate(
        {"als": SCORES}, (TRAIN, TEST)
    ),
    r"got set.*KnownPropensity\(item=": lambda: run(propensity={0.5}),
    r"metrics must be labels or objects; got NoneType": lambda: run(metrics=None),
    r"'snips' or an Estimator object; got <class": lambda: run(estimators=[Ips]),
    r"several columns of one name \('user', 'user', 'item'\)": lambda: ipseval.Interactions.from_frame(
        pd.DataFrame([[1, 2, 3]], columns=["user", "user", "item"])
    ),
    r"user must be the name of a column of the frame; got None": lambda: ipseval.Interactions.from_frame(
        TRAIN, user=None
    ),
    r"popularity is read by position.*not sorted \(2, 0\).*sort_index": lambda: power_law().fit(
        popularity=pd.Series([2, 2, 0, 2]).value_counts()
    ),
    r"for other items, or the same in another order \(2, 1, 0\), than the split has \(0, 1, 2\)": lambda: run(
        propensity=power_law().fit(ipseval.Interactions.from_frame(TRAIN, items=[2, 1, 0]))
    ),
    r"exposure must have the items of the training log in the same order; it has 2, 1, 0, and": lambda: (
        ipseval.propensity.DirectPropensity(
            ipseval.RandomExposure.from_frame(
                frame([0, 1], [1, 0], positive=[0, 1]),
                ipseval.Interactions.from_frame(TRAIN, items=[2, 1, 0]),
            )
        ).fit(SPLIT.train)
    ),
    r"exposure must have the users of the training log in the same order; it has 'a', 'b', 'c', and": lambda: (
        ipseval.DensityRatioPropensity(
            ipseval.RandomExposure.from_frame(frame(["a"], [1], positive=[1]), RENAMED)
        ).fit(SPLIT.train)
    ),
    r"for other users, or the same in another order \('a', 'b', 'c'\)": lambda: run(
        propensity=ipseval.KnownPropensity(pair=frame(["a", "b"], [1, 0], propensity=[0.5, 0.5])).fit(RENAMED)
    ),
    r"covers 2 items, the split has 3; fit it to the training part": lambda: rated(
        SCORES, propensity=power_law().fit(popularity=[1, 2])
    ),
    r"1 of 2 labels of item are not ids of the split \(7": lambda: run(
        propensity=known(pd.Series([0.5, 0.5], index=[7, 1]))
    ),
    r"labels of item repeat ids": lambda: run(propensity=known(pd.Series([0.5, 0.5], index=[1, 1]))),
    r"no item or pair has a propensity: all values are NaN": lambda: run(propensity=known([np.nan] * 3)),
    r"n_relevant must be finite and >= 0; 1 of 3": lambda: by_ips(pd.Series([2, 2], index=[1, 0])),
    r"als is a masked array.*filled\(-np.inf\)": lambda: run(MASKED),
    r"unknown value for prior: 'empirical'": lambda: ipseval.metric("auc", sampled="bv", prior="empirical"),
    r"m: predictions is a masked array": lambda: rated(MASKED),
    r"propensity must be a Propensity; got KnownPropensity.*fit\(ratings\)": lambda: rated(
        SCORES, propensity=known(np.ones(3))
    ),
    r"als: user factors is a masked array.*filled\(-np.inf\)": lambda: run(FACTORS),
    r"als is a masked array": lambda: run(lambda users: MASKED[users]),
    r"is a masked array": lambda: ipseval.adapters.adapt(
        FACTORS,
        SPLIT,
        users=[0, 1, 2],
    ),
    r"popularity and recommendations must have the same labels.*'c'.*'d'.*ations.reindex\(popularity": lambda: (
        ipseval.fit_gamma(
            pd.Series([1, 2, 4], index=["a", "b", "c"]), pd.Series([1, 2, 4], index=["a", "b", "d"]), 9
        )
    ),
    r"n_exposed and n_positive must have the same labels": lambda: ipseval.fit_gamma_from_exposure(
        [1, 2, 4], pd.Series([5, 5, 5], index=[0, 1, 2]), pd.Series([1, 2, 4], index=[0, 1, 3])
    ),
    r"popularity and recommendations must have the same labels": lambda: ipseval.fit_gamma(
        range(1, 8), range(1, 8), 99, source="logging-policy"
    ).frequency(pd.Series([1, 2], index=["a", "b"]), pd.Series([1, 2], index=["a", "c"])),
    r"rng must be an integer >= 0.*got 0.5": lambda: run(interval="bca", rng=0.5),
    r"floor must be a finite number; got 'a'": lambda: known(np.ones(3)).fit(SPLIT).clip(floor="a"),
    r"smoothing must be a finite number > 0; got 'a'": lambda: power_law(smoothing="a"),
    r"factor must be a sequence of numbers": lambda: run().bounds("a"),
    r"keep must hold True or False for each of 2 rows; got int64 of shape \(2,\)": lambda: RANKED.select(
        np.arange(2)
    ),
    r"values must have one entry for each of 2 positives": lambda: RANKED.sum_by_user(np.ones(5)),
    r"n_pairs is above the number of items, 3, or smaller .*, for 3 users": lambda: rated(SCORES, n_pairs=99),
    r"item must be one-dimensional; got shape \(3, 2\)": lambda: ipseval.propensity.Propensity(
        np.ones((3, 2)), True, "mine", 3
    ),
    r"item must have 3 entries, one for each id; got 2": lambda: ipseval.propensity.Propensity(
        np.ones(2), True, "mine", 3
    ),
    r"distribution must be one-dimensional; got shape \(\)": lambda: ipseval.SampledCandidates(
        2, distribution=-1
    ),
    r"ranks is a masked array": lambda: ipseval.expected_sampled(
        np.ma.array([1, 2], mask=[0, 1]), 10, 5, "recall@2"
    ),
    r"name must be str; got int": lambda: ipseval.rank_positives(SCORES, SPLIT, name=5),
    r"lists of 4,611,686,018,427,387,904 items for 2 users need too much memory": lambda: (
        ipseval.rank_positives(SCORES, SPLIT, top_k=2**62)
    ),
    r"50 of 50 are negative": lambda: pareto_k(-np.ones(50)),
    r"samples must not be empty": lambda: inference.bounds({}, [], [], factors=[2.0]),
    r"ax must be matplotlib axes": lambda: ipseval.plots.plot_estimates(run(), ax="a"),
    # What is no truth value, no number, no option, no column.
    "n_pairs must be finite": lambda: rated(SCORES, n_pairs=np.nan),
    r"unknown option 'tie'\. Did you mean 'ties'\?": lambda: ipseval.evaluate_ranks(
        {"als": RANKED}, tie="mean"
    ),
    "must not repeat a column": lambda: run(pd.DataFrame(SCORES, columns=[0, 1, 1])),
    "held_out must be finite counts >= 0 and at most 2.53; 1 of 3": lambda: ipseval.fit_gamma_from_exposure(
        [1, 2, 3], [9, 9, 9], [1, 2, 3], held_out=[1e300, 1, 2]
    ),
    r"evaluate has no option unknown=\. Use ipseval\.read_lists\(path, unknown='drop'\)": lambda: (
        ipseval.evaluate({"als": SCORES}, SPLIT, unknown="drop")
    ),
    "masked": lambda: ipseval.Lists(np.ma.array([[1, 2]], mask=[[False, True]])),
    r"scores 1 item of 4 .*first: query and item 2, 'y'": lambda: ipseval.evaluate_slates(
        {"m": frame([1, 1, 2, 2], list("xyxy"), score=1.0).rename(columns={"user": "query"})},
        frame([1, 1, 2], list("xyx"), label=[1, 0, 1]).rename(columns={"user": "query"}),
    ),
    # What once ended in an error of another library, or ended the process.
    "must be an integer": lambda: k_core(RATINGS, DAYS),
    "must be": lambda: ipseval.order_agreement([1, 2, 3], [1, 2, 3], k=DAYS),
    "a must contain": lambda: ipseval.order_agreement(scipy.sparse.csr_matrix([1.0, 2]), [1, 2]),
    "one entry for each": lambda: RANKED.mean_by_user(np.ones(2), weights=np.ones((2, 9))),
    "estimators is empty": lambda: evaluate_policies(shown(), {"a": np.full((3, 1), 1 / 3)}, estimators=[]),
    "digits must be an integer >= 1": lambda: run().to_markdown(digits=-3),
    "a list inside a list": lambda: run().by(endless()),
    "start must be within 64 bits": lambda: split_sliding(RATINGS, start=-(10**30), test=1),
    "n_sampled must be at most": lambda: ipseval.expected_sampled([1], 10, 10**30, "recall@1"),
    r"coat: .* truncated or damaged": lambda: load_coat("/proc/self/mem"),
    r"movielens: .* truncated or damaged": lambda: load_movielens("/proc/self/mem"),
}


@pytest.mark.parametrize("pattern", CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_wrong_input_gets_an_error_that_says_what_came_and_what_to_do(pattern):
    with pytest.raises(ipseval.IpsevalError) as caught:
        CASES[pattern]()
    assert re.search(pattern, str(caught.value), flags=re.DOTALL), str(caught.value)


@pytest.mark.parametrize(
    "rng", [np.asmatrix([[3]]), endless(), [1, 2], np.arange(3), "0", 1.5, -1, DAYS, {"seed": 1}]
)
def test_nothing_but_a_seed_is_a_seed(rng):
    with pytest.raises(ipseval.InputError, match="rng must be an integer >= 0"):
        ipseval.SampledCandidates(3, rng=rng)


def test_every_error_is_also_a_value_error():
    with pytest.raises(ValueError, match="unknown metric"):
        ipseval.metric("nothing@5")


@pytest.mark.parametrize(
    "options",
    [
        {"metrics": ["recal@10"]},
        {"estimators": ["snip"]},
        {"confidence_level": 95},
        {"interval": "bootstrap"},
        {"propensity": np.ones((2, 2, 2))},
        {"propensity": known(np.ones(3)), "estimators": ["ips"]},
        {"propensity": ipseval.PowerLawPropensity(gamma=0), "estimators": ["ips"], "metrics": ["dcg"]},
        {"propensity": known(np.ones(3)).fit(RENAMED).clip(floor=0.5), "candidates": "all", "ties": "none"},
        {"propensity": ipseval.PowerLawPropensity(gamma=0).fit(popularity=[1, 2])},
    ],
)
def test_a_mistake_in_the_options_is_found_before_anything_is_ranked(options):
    def scorer(users):
        raise AssertionError("ranked")

    with pytest.raises(ipseval.IpsevalError):
        run(scorer, **options)


def test_one_metric_or_estimator_needs_no_list_around_it():
    result = run(metrics=ipseval.metric("recall@2"), estimators=Aoa())
    assert (result.metrics, result.estimators) == (["recall@2"], ["aoa"])


def test_errors_travel_between_processes():
    with pytest.raises(ipseval.errors.UnknownNameError) as caught:
        ipseval.metric("recal@10")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.name, again.choices) == (caught.value.name, caught.value.choices)
