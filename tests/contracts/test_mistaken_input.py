"""What a caller may take for valid input: other ids, splits, labels and ranks; and what is checked first."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import ipseval
import ipseval.report.plots
from ipseval import inference
from tests.contracts.test_bad_input import SCORES, SPLIT, TEST, TRAIN, frame, known, run
from tests.inside.estimators import Average, Ips
from tests.inside.inference import pareto_k

RENAMED = ipseval.Split.from_frames(
    TRAIN.replace({"user": dict(enumerate("abc"))}), TEST.replace({"user": dict(enumerate("abc"))})
)
RATINGS = ipseval.Interactions.from_frame(TRAIN.assign(value=[1, 2, 3]), value="value")


def ranks_of(n_above):
    zeros = np.zeros(2, dtype=np.int64)
    return ipseval.RankedPositives(
        np.arange(2), zeros, np.array(n_above), zeros, zeros + 3, np.arange(2), np.arange(3)
    )


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "ranks of other users": (
        lambda: ipseval.evaluate_ranks(
            {"a": ipseval.rank_positives(SCORES, SPLIT), "b": ipseval.rank_positives(SCORES, RENAMED)}
        ),
        r"'b' and 'a' rank different test positives \(2 and 2\)",
    ),
    "ranks among other candidates": (
        lambda: ipseval.evaluate_ranks(
            {
                "a": ipseval.rank_positives(SCORES, SPLIT),
                "b": ipseval.rank_positives(SCORES, SPLIT, candidates=ipseval.SampledCandidates(1, rng=0)),
            }
        ),
        r"'b' is ranked among other candidates \(.*\) than 'a' \(all items",
    ),
    "ranks of another split": (
        lambda: run(ipseval.rank_positives(SCORES, RENAMED)),
        r"'als' is ranked over 3 users and 3 items that are not the 3 and 3 of the split",
    ),
    "ranks of another test part": (
        lambda: run(ipseval.rank_positives(SCORES, SPLIT), ipseval.Split.from_frames(TRAIN, frame([0], [2]))),
        r"'als': 2 of 2 ranked positives are not in the test part",
    ),
    "ranks that are no ranks": (
        lambda: ipseval.evaluate_ranks({"a": SCORES}),
        r"'a' must be RankedPositives, made by rank_positives; got ndarray",
    ),
    "name that is no text": (
        lambda: ipseval.evaluate({1: SCORES, "b": SCORES}, SPLIT),
        r"text as names; 1 of 2 are not \(1\)",
    ),
    "frames instead of a split": (
        lambda: ipseval.evaluate({"als": SCORES}, (TRAIN, TEST)),
        r"split must be a Split; got tuple.*Split.from_frames",
    ),
    "propensity as a bare array": (
        lambda: run(propensity=np.ones(3)),
        r"got ndarray.*KnownPropensity\(item=",
    ),
    "metrics is None": (lambda: run(metrics=None), r"metrics must be labels or objects; got NoneType"),
    "estimator that is a class": (
        lambda: run(estimators=[Ips]),
        r"'snips' or an Estimator object; got <class",
    ),
    "column named twice": (
        lambda: ipseval.Interactions.from_frame(pd.DataFrame([[1, 2, 3]], columns=["user", "user", "item"])),
        r"several columns of one name \('user', 'user', 'item'\)",
    ),
    "no column for users": (
        lambda: ipseval.Interactions.from_frame(TRAIN, user=None),
        r"user must be the name of a column of the frame; got None",
    ),
    "counts in the order of value_counts": (
        lambda: ipseval.PowerLawPropensity(gamma=0).fit(popularity=pd.Series([2, 2, 0, 2]).value_counts()),
        r"popularity is read by position.*not sorted \(2, 0\).*sort_index",
    ),
    "propensity of the same items in another order": (
        lambda: run(
            propensity=ipseval.PowerLawPropensity(gamma=0).fit(
                ipseval.Interactions.from_frame(TRAIN, items=[2, 1, 0])
            )
        ),
        r"for other items, or the same in another order \(2, 1, 0\), than the split has \(0, 1, 2\)",
    ),
    "exposure of the same items in another order": (
        lambda: ipseval.propensity.DirectPropensity(
            ipseval.Exposure.from_frame(
                frame([0, 1], [1, 0], positive=[0, 1]),
                ipseval.Interactions.from_frame(TRAIN, items=[2, 1, 0]),
            )
        ).fit(SPLIT.train),
        r"exposure is of other items, or the same in another order \(2, 1, 0\), than the training log has",
    ),
    "exposure of other users for a density ratio": (
        lambda: ipseval.DensityRatioPropensity(
            ipseval.Exposure.from_frame(frame(["a"], [1], positive=[1]), RENAMED)
        ).fit(SPLIT.train),
        r"exposure is of other users, or the same in another order \('a', 'b', 'c'\), than the training log",
    ),
    "propensity of pairs of other users": (
        lambda: run(
            propensity=ipseval.KnownPropensity(pair=frame(["a", "b"], [1, 0], propensity=[0.5, 0.5])).fit(
                RENAMED
            )
        ),
        r"for other users, or the same in another order \('a', 'b', 'c'\)",
    ),
    "rating propensity of other items": (
        lambda: ipseval.evaluation.evaluate_ratings(
            {"m": SCORES}, RATINGS, propensity=ipseval.PowerLawPropensity(gamma=0).fit(popularity=[1, 2])
        ),
        r"covers 2 items, the split has 3",
    ),
    "propensity labelled with other ids": (
        lambda: run(propensity=known(pd.Series([0.5, 0.5], index=[7, 1]))),
        r"1 of 2 labels of item are no ids of the split \(7",
    ),
    "propensity that labels an item twice": (
        lambda: run(propensity=known(pd.Series([0.5, 0.5], index=[1, 1]))),
        r"labels of item repeat ids",
    ),
    "propensity that knows nothing": (
        lambda: run(propensity=known([np.nan] * 3)),
        r"no item or pair has a propensity: all values are NaN",
    ),
    "n_relevant that lacks a user": (
        lambda: run(
            propensity=known(np.ones(3)), estimators=["ips"], n_relevant=pd.Series([2, 2], index=[1, 0])
        ),
        r"n_relevant must be finite and >= 0; 1 of 3",
    ),
    "masked scores": (
        lambda: run(np.ma.array(SCORES, mask=SCORES > 5)),
        r"als is a masked array.*filled\(-np.inf\)",
    ),
    "prior of another name": (
        lambda: ipseval.metric("auc", sampled="bv", prior="empirical"),
        r"unknown value for prior: 'empirical'",
    ),
    "rating predictions labelled twice": (
        lambda: ipseval.evaluation.evaluate_ratings({"m": pd.DataFrame(SCORES, index=[0, 0, 1])}, RATINGS),
        r"m: row or column labels of the predictions repeat",
    ),
    "masked predictions of ratings": (
        lambda: ipseval.evaluation.evaluate_ratings({"m": np.ma.array(SCORES, mask=SCORES > 5)}, RATINGS),
        r"m: predictions is a masked array",
    ),
    "ratings with a propensity to be fitted": (
        lambda: ipseval.evaluation.evaluate_ratings({"m": SCORES}, RATINGS, propensity=known(np.ones(3))),
        r"propensity must be a Propensity; got KnownPropensity.*fit\(ratings\)",
    ),
    "masked user factors": (
        lambda: run((np.ma.array(np.ones((3, 1)), mask=[[1], [0], [0]]), np.ones((3, 1)))),
        r"als: user factors is a masked array.*filled\(-np.inf\)",
    ),
    "function that gives masked scores": (
        lambda: run(lambda users: np.ma.array(SCORES[users], mask=SCORES[users] > 5)),
        r"als is a masked array",
    ),
    "masked factors with ids": (
        lambda: ipseval.adapters.adapt(
            (np.ma.array(np.ones((3, 1)), mask=[[1], [0], [0]]), np.ones((3, 1))),
            SPLIT,
            users=[0, 1, 2],
        ),
        r"is a masked array",
    ),
    "counts of other items": (
        lambda: ipseval.fit_gamma(
            pd.Series([1, 2, 4], index=["a", "b", "c"]), pd.Series([1, 2, 4], index=["a", "b", "d"]), 9
        ),
        r"popularity and recommended are read side by side.*'c'.*'d'.*recommended.reindex\(popularity.index",
    ),
    "exposures of other items": (
        lambda: ipseval.fit_gamma_from_exposure(
            [1, 2, 4], pd.Series([5, 5, 5], index=[0, 1, 2]), pd.Series([1, 2, 4], index=[0, 1, 3])
        ),
        r"n_exposed and n_positive are read side by side",
    ),
    "levels of other items": (
        lambda: ipseval.fit_gamma(range(1, 8), range(1, 8), 99, source="logger").frequency(
            pd.Series([1, 2], index=["a", "b"]), pd.Series([1, 2], index=["a", "c"])
        ),
        r"popularity and recommended are read side by side",
    ),
    "seed that is text": (
        lambda: ipseval.split_random(
            ipseval.Interactions.from_frame(frame([0, 0], [0, 1])), test_fraction=0.5, rng="a"
        ),
        r"rng must be an integer >= 0, a numpy Generator or SeedSequence, or None; got 'a'",
    ),
    "seed of a bootstrap": (lambda: run(interval="bca", rng=0.5), r"rng must be an integer >= 0.*got 0.5"),
    "floor that is text": (
        lambda: known(np.ones(3)).fit(SPLIT).clip(floor="a"),
        r"floor must be a finite number; got 'a'",
    ),
    "smoothing that is text": (
        lambda: ipseval.PowerLawPropensity(gamma=0, smoothing="a"),
        r"smoothing must be a finite number > 0; got 'a'",
    ),
    "bounds by a word": (lambda: run().bounds("a"), r"factor must be a sequence of numbers"),
    "positions for a mask": (
        lambda: ipseval.rank_positives(SCORES, SPLIT).select(np.arange(2)),
        r"keep must hold True or False for each of 2 rows; got int64 of shape \(2,\)",
    ),
    "values of other positives": (
        lambda: ipseval.rank_positives(SCORES, SPLIT).sum_by_user(np.ones(5)),
        r"values must have one entry for each of 2 positives",
    ),
    "more pairs than items": (
        lambda: ipseval.evaluation.evaluate_ratings({"a": SCORES}, RATINGS, n_pairs=99),
        r"n_pairs is above the number of items, 3, for 3 users",
    ),
    "table as propensities": (
        lambda: ipseval.propensity.Propensity(np.ones((3, 2)), True, "mine", 3),
        r"item must be one-dimensional; got shape \(3, 2\)",
    ),
    "propensities of fewer items": (
        lambda: ipseval.propensity.Propensity(np.ones(2), True, "mine", 3),
        r"item must have 3 entries, one for each id; got 2",
    ),
    "distribution of one number": (
        lambda: ipseval.SampledCandidates(2, distribution=-1),
        r"distribution must be one-dimensional; got shape \(\)",
    ),
    "lists counted twice": (
        lambda: ipseval.fit_gamma(np.arange(1.0, 5), np.array([[0, 1], [2, 3]]), n_lists=40),
        r"recommended holds 2 lists, and n_lists is 40; leave it out",
    ),
    "masked ranks": (
        lambda: ipseval.expected_sampled(np.ma.array([1, 2], mask=[0, 1]), 10, 5, "recall@2"),
        r"ranks is a masked array",
    ),
    "name that is a number": (
        lambda: ipseval.rank_positives(SCORES, SPLIT, name=5),
        r"name must be str; got int",
    ),
    "lists longer than memory": (
        lambda: ipseval.rank_positives(SCORES, SPLIT, top_k=2**62),
        r"lists of 4,611,686,018,427,387,904 items for 2 users need too much memory",
    ),
    "tail of negative values": (lambda: pareto_k(-np.ones(50)), r"50 of 50 are negative"),
    "no metric to bound": (
        lambda: inference.bounds({}, [], [], factors=[2.0]),
        r"samples must not be empty",
    ),
    "axes that are text": (
        lambda: ipseval.plots.plot_estimates(run(), ax="a"),
        r"ax must be matplotlib axes",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_mistaken_input_gets_an_error_that_says_what_came_and_what_to_do(case: str):
    call, pattern = CASES[case]
    with pytest.raises(ipseval.IpsevalError) as caught:
        call()
    assert re.search(pattern, str(caught.value), flags=re.DOTALL), str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"metrics": ["recal@10"]},
        {"estimators": ["snip"]},
        {"confidence_level": 95},
        {"interval": "bootstrap"},
        {"propensity": np.ones(3)},
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
    result = run(metrics=ipseval.metric("recall@2"), estimators=Average("aoa", "equal"))
    assert (result.metrics, result.estimators) == (["recall@2"], ["aoa"])


def test_errors_travel_between_processes():
    with pytest.raises(ipseval.errors.UnknownNameError) as caught:
        ipseval.metric("recal@10")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.name, again.choices) == (caught.value.name, caught.value.choices)
