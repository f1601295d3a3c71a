"""Gains of graded metrics are finite and at least 0, and every metric stays in its range."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ipseval
from ipseval.errors import InputError
from ipseval.metrics import metric
from ipseval.ranking import RankedPositives

N_ITEMS = 8
GRADED = ("ndcg(gain=linear)", "ndcg(gain=exponential)@3", "dcg(gain=linear)", "cg(gain=exponential)@3")
LABELS = (
    *GRADED,
    *(
        "recall@3",
        "precision@3",
        "hit@3",
        "rr",
        "rr@3",
        "ap",
        "ap@3",
        "auc",
        "atop",
        "mean_dcg",
        "mean_dcg@3",
    ),
    *("ndcg", "ndcg@3", "dcg@3", "cg@3", "rbp(0.9)", "hits@3"),
)


def rank(scores: list[list[float]], grades: list[dict[int, float]]) -> RankedPositives:
    """Return ranks of the graded items of each user among all items, counted one by one."""
    rows = []
    for user, (values, items) in enumerate(zip(scores, grades, strict=True)):
        for item, grade in sorted(items.items()):
            n_above = sum(value > values[item] for value in values)
            n_tied = sum(value == values[item] for value in values) - 1
            rows.append((user, item, n_above, n_tied, grade))
    user, item, n_above, n_tied, gain = zip(*rows, strict=True)
    return RankedPositives(
        np.array(user),
        np.array(item),
        np.array(n_above),
        np.array(n_tied),
        np.full(len(rows), N_ITEMS),
        np.arange(len(scores)),
        np.arange(N_ITEMS),
        gain=np.array(gain, dtype=float),
        candidates_by_user=np.full(len(scores), N_ITEMS),
    )


@st.composite
def worlds(draw):
    n_users = draw(st.integers(1, 3))
    score = st.integers(0, 4).map(float)
    grade = st.floats(1e-9, 60) | st.sampled_from([0.0, 1.0, 1e-9, 120.0])
    scores = [draw(st.lists(score, min_size=N_ITEMS, max_size=N_ITEMS)) for _ in range(n_users)]
    items = st.dictionaries(st.integers(0, N_ITEMS - 1), grade, min_size=1, max_size=N_ITEMS)
    ranked = rank(scores, [draw(items) for _ in range(n_users)])
    weight = st.floats(1e-3, 1e3)
    weights = draw(st.none() | st.lists(weight, min_size=len(ranked), max_size=len(ranked)).map(np.array))
    return ranked, weights


# docs/metrics.md: with ties="mean" more positives than fit can be inside a cutoff, so no range is promised.
TIES = ("default", "expected", "min", "max")


def check_range(label: str, ties: str, ranked: RankedPositives, weights: np.ndarray | None) -> None:
    """Assert that the values of users are in the range of a metric, or undefined."""
    measure = metric(label)
    values = measure.user_values(ranked, weights, ties=ties)
    low, high = measure.value_range
    defined = values[~np.isnan(values)]
    assert (defined >= low - 1e-12).all(), (label, ties)
    assert (defined <= high + 1e-12).all(), (label, ties)
    n_undefined = int(np.isnan(values).sum())
    if measure.name == "ndcg" and label in GRADED:  # undefined only where all gains of a user are 0
        assert n_undefined == int((ranked.sum_by_user(ranked.gain) == 0).sum())


@settings(max_examples=25, deadline=None)
@given(world=worlds())
def test_each_metric_stays_in_its_range(world):
    for label, ties in itertools.product(LABELS, TIES):
        check_range(label, ties, *world)


SCORES = [[float(N_ITEMS - item) for item in range(N_ITEMS)]]


@pytest.mark.parametrize("label", GRADED)
@pytest.mark.parametrize("grade", [-1.0, -1e-300])
def test_a_negative_gain_is_refused_by_each_graded_metric(label, grade):
    ranked = rank(SCORES, [{0: 1.0, 3: grade}])
    with pytest.raises(
        InputError, match=r"the gain of .* must be finite and at least 0; got -1.* \(in 1 of 2"
    ):
        metric(label).user_values(ranked)


@pytest.mark.parametrize(
    ("label", "grade", "requirement"),
    [
        ("ndcg(gain=exponential)", 2000.0, "at most 166; got 2000 .* Use gain=linear"),
        ("dcg(gain=exponential)@3", 167.0, "at most 166; got 167"),
        ("ndcg(gain=linear)", 1e300, r"at most 1e\+50; got 1e\+300 .* Divide all grades"),
        ("cg(gain=linear)@3", 1e-60, "0 or at least 1e-50; got 1e-60 .* Multiply all grades"),
    ],
)
def test_a_gain_beyond_the_range_of_numbers_is_refused(label, grade, requirement):
    ranked = rank(SCORES, [{0: 1.0, 3: grade}])
    with pytest.raises(InputError, match=requirement):
        metric(label).user_values(ranked)


def test_gains_at_the_limits_are_computed():
    ranked = rank(SCORES, [{0: 166.0, 3: 1e-17}])
    # The second gain is 2^1e-17 − 1 = 1e-17 ln 2, at rank 4, and the first is 2^166 − 1, at rank 1.
    tail = 1e-17 * np.log(2)
    for label, expected in (("dcg(gain=exponential)", 2.0**166), ("cg(gain=exponential)@9", 2.0**166)):
        assert metric(label).user_values(ranked) == pytest.approx([expected], rel=1e-12)
    single = rank(SCORES, [{3: 1e-17}])
    assert metric("cg(gain=exponential)@9").user_values(single) == pytest.approx([tail], rel=1e-12)
    assert metric("ndcg(gain=exponential)").user_values(single) == pytest.approx([1 / np.log2(5)], rel=1e-12)


def graded_split(grades: list[float]) -> ipseval.Split:
    train = pd.DataFrame({"user": [1, 2, 3], "item": [9, 9, 9]})
    test = pd.DataFrame({"user": [1, 1, 2, 3], "item": [1, 2, 2, 3], "grade": grades})
    log = ipseval.Interactions.from_frame(test, value="grade")
    return ipseval.Split.from_frames(train, log, items=[1, 2, 3, 4, 9])


@pytest.mark.parametrize("label", ["ndcg(gain=linear)@3", "dcg(gain=exponential)@3"])
def test_evaluate_refuses_wrong_grades_before_it_ranks(label):
    def never(users):
        raise AssertionError("the model was asked for scores")

    for grades in ([-1.0, 2.0, 1.0, 1.0], [1.0, 1e300, 1.0, 1.0]):
        with pytest.raises(InputError, match="the gain of"):
            ipseval.evaluate({"m": never}, graded_split(grades), metrics=[label])


def test_a_metric_without_gains_reads_no_grade():
    scores = np.tile(np.arange(5.0), (3, 1))
    evaluation = ipseval.evaluate({"m": scores}, graded_split([-1.0, 2.0, 1.0, 1.0]), metrics=["ndcg@3"])
    assert evaluation.frame["n_users"].tolist() == [3]


SCALES = [1e-99, 1e-60, 1.0, 1e60, 1e99]


@pytest.mark.filterwarnings("ignore:the median user has")
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("estimator", ["snips", "snips-global", "snips-pooled"])
def test_relative_propensities_of_any_accepted_scale_give_one_standard_error(scale, estimator):
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((40, 12)) < 0.5)
    split = ipseval.split_random(pd.DataFrame({"user": user, "item": item}), test_fraction=0.4, rng=0)
    scores = rng.random((40, 12))
    values = rng.uniform(0.1, 1, 12)

    def estimate(propensity):
        known = ipseval.KnownPropensity(item=propensity, is_probability=False)
        metrics = ["dcg@5", "recall@5"]
        options = {"estimators": [estimator], "metrics": metrics, "low_ess": "ignore"}
        frame = ipseval.evaluate({"m": scores}, split, propensity=known, **options).frame
        return frame[["estimate", "std_error"]].to_numpy()

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        scaled = estimate(values * scale)
    assert (scaled[:, 1] > 0).all()
    assert scaled == pytest.approx(estimate(values), rel=1e-9)
