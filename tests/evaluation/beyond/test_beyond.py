"""Measures of lists: values by hand, errors against resampling, and what the result offers."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.evaluation.beyond import MEASURES, measure
from ipseval.reporting import Report
from tests.inside.evaluation import Recommended, _measures
from tests.inside.ranking import TopLists
from tests.worlds import random_world

# Ann was trained on a, b; Bob on a. n*: a 2, b 1, c 0, d 0. Lists: Ann c, d; Bob b, c. Each first k is 2.
TRAIN = pd.DataFrame({"user": ["ann", "ann", "bob"], "item": ["a", "b", "a"]})
TEST = pd.DataFrame({"user": ["ann", "bob"], "item": ["c", "b"]})
LISTS = pd.DataFrame({"user": ["ann", "ann", "bob", "bob"], "item": list("cdbc"), "rank": [1, 2, 1, 2]})
SPLIT = ipseval.Split.from_frames(TRAIN, TEST, users=["ann", "bob", "cy"], items=list("abcd"))
VECTORS = np.array([[1.0, 0], [1, 0], [0, 2], [1, 1]])
BY_HAND = {
    "coverage@2": 3 / 4,
    "gini@2": (-3 * 0 - 1 * 1 + 1 * 1 + 3 * 2) / (4 * 4),  # exposures 0, 1, 1, 2
    "entropy@2": 1.5,  # shares 1/4, 1/4, 1/2
    "arp@2": (0 + 1 / 2) / 2,
    "popularity_lift@2": (0.25 - 1.75) / 1.75,  # histories: (2 + 1)/2 and 2
    "novelty@2": (1 + 1) / 2,  # U = 2: −log2(1/2) for n* = 1, and for n* = 0
    "ild@2": ((1 - np.sqrt(0.5)) + 1) / 2,
    "coverage@1": 2 / 4,
}


def result(labels, **options):
    ranked = ipseval.rank_positives(LISTS, SPLIT, top_k=2)
    return ipseval.beyond_accuracy({"m": ranked}, SPLIT, measures=labels, item_vectors=VECTORS, **options)


def test_values_by_hand():
    frame = result(list(BY_HAND)).frame.set_index("measure")["estimate"]
    assert frame.to_dict() == pytest.approx(BY_HAND, abs=1e-12)


def test_calibration_by_hand():
    # Groups by n*: c and d with 0, b with 1, a with 2. Ann: p = (0, 1/2, 1/2), q = (1, 0, 0).
    # Bob: p = (0, 0, 1), q = (1/2, 1/2, 0). Every group of p is met by the smoothing alone: −log2 .01 each.
    estimates = result(["calibration@2"]).frame["estimate"].iloc[0]
    assert estimates == pytest.approx(-np.log2(0.01), abs=1e-12)


@pytest.mark.parametrize(("n_items", "item", "listed", "same"), [(10, 5, 4, False), (11, 5, 6, True)])
def test_calibration_reads_ten_groups_of_items(n_items, item, listed, same):
    """n* of item i is 2i + 1. Of ten items each is a group; of eleven 5 and 6 are the sixth group."""
    rows = [(user, i) for i in range(n_items) for user in range(2 * i + 1)] + [(40, item)]
    user, codes = np.array(rows).T
    log = ipseval.Interactions(user, codes, np.arange(42), np.arange(n_items))
    # User 0 has no list, and 41 no history.
    data = Recommended(TopLists(np.array([0, 40, 41]), np.array([[-1], [listed], [0]])), log)
    sums = measure("calibration@1").rule(data)
    assert sums.value() == pytest.approx(0 if same else -np.log2(0.01), abs=1e-12)
    assert (sums.n_users, sums.n_undefined) == (1, 2)
    # Cy has no history. Ann's items have 2 and 1 training users, and b, which both are shown, has 1.
    lift = measure("popularity_lift@1").rule(
        Recommended(TopLists(np.array([0, 2]), np.array([[1], [1]])), SPLIT.train)
    )
    assert (lift.value(), lift.n_undefined) == (pytest.approx((1 - 1.5) / 1.5), 1)


def test_a_vector_of_zeros_is_like_no_other():
    ranked = ipseval.rank_positives(LISTS, SPLIT, top_k=2)
    vectors = np.array([[1.0, 0], [1, 0], [0, 0], [1, 0]])  # of c, which both lists hold
    accuracy = ipseval.beyond_accuracy({"m": ranked}, SPLIT, measures=["ild@2"], item_vectors=vectors)
    assert accuracy.frame["estimate"].item() == 1


@pytest.mark.parametrize(("name", "value"), [("coverage", 1 / 2), ("gini", 1 / 2), ("entropy", 1)])
def test_the_catalogue_by_a_single_user_has_a_value_without_an_error(name, value):
    data = Recommended(TopLists(np.array([1]), np.array([[2, 3]])), SPLIT.train)
    sums = measure(f"{name}@2").rule(data)
    assert sums.value() == pytest.approx(value, abs=1e-15)
    assert np.isnan(sums.standard_error())


@pytest.mark.parametrize("name", ["gini", "entropy"])
def test_exposure_that_nobody_has_is_undefined(name):
    lists = LISTS[:2].assign(user="cy")  # who has no positive
    ranked = ipseval.rank_positives(lists, SPLIT, top_k=2)
    frame = ipseval.beyond_accuracy({"m": ranked}, SPLIT, measures=[f"{name}@2"]).frame
    assert np.isnan(frame["estimate"].item())
    assert frame["n_users"].item() == 0


def test_vectors_are_added_up_a_few_users_at_a_time(monkeypatch):
    frame = result(["ild@2"]).frame
    for entries in (1, 4):
        monkeypatch.setattr(_measures, "CHUNK_ENTRIES", entries)
        pd.testing.assert_frame_equal(result(["ild@2"]).frame, frame, check_exact=True)


def lists_of(seed, n_users=400, n_items=60):
    world = random_world(seed, n_users=n_users, n_items=n_items, density=0.2)
    rng = np.random.default_rng(seed)
    # Popular items score higher, by different taste.
    scores = world.split.train.popularity / 20 + rng.gumbel(size=world.scores.shape)
    ranked = ipseval.rank_positives(scores, world.split, top_k=5)
    return world.split, ranked, rng.normal(size=(world.split.n_items, 3))


@pytest.mark.parametrize("name", MEASURES)
def test_the_standard_error_is_what_the_jackknife_gives(name):
    split, ranked, vectors = lists_of(1, n_users=60 if name == "popularity_lift" else 15)
    chosen_measure = measure(f"{name}@5")
    top = ranked.top

    def value(keep):
        data = Recommended(type(top)(top.users[keep], top.item[keep]), split.train, vectors)
        return chosen_measure.rule(data).value()

    n = top.users.size
    without = np.array([value(np.arange(n) != left_out) for left_out in range(n)])
    jackknife = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    accuracy = ipseval.beyond_accuracy({"m": ranked}, split, measures=[chosen_measure], item_vectors=vectors)
    # A ratio of means has the error of its derivative: the same up to terms of order 1/n.
    rel = 0.02 if name == "popularity_lift" else 1e-9
    assert accuracy.frame["std_error"].iloc[0] == pytest.approx(jackknife, rel=rel)
    assert accuracy.frame["estimate"].iloc[0] == pytest.approx(value(np.ones(n, bool)), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coverage", "gini", "entropy"])
def test_intervals_of_the_catalogue_hold_the_mean_over_samples_of_as_many_users(name):
    # The estimand is the expected value for lists of 200 users; samples are drawn from 4,000 users.
    split, ranked, _ = lists_of(2, n_users=4_000)
    top, rng = ranked.top, np.random.default_rng(3)
    chosen_measure, values, errors = measure(f"{name}@5"), [], []
    for _ in range(1_500):
        keep = rng.choice(top.users.size, 200, replace=False)
        sums = chosen_measure.rule(Recommended(type(top)(top.users[keep], top.item[keep]), split.train))
        values.append(sums.value())
        errors.append(sums.standard_error())
    values, errors = np.array(values), np.array(errors)
    is_covered = np.abs(values - values.mean()) <= 1.96 * errors
    assert 0.93 <= is_covered.mean() <= 0.99  # the jackknife errs on the large side (Efron and Stein 1981)


def test_lists_come_from_models_from_ranks_and_from_an_evaluation_alike():
    world = random_world(7, n_users=60, n_items=40)
    models = {"a": world.scores, "pop": ipseval.baselines.popularity(world.split.train)}
    labels = ["coverage@3", "arp@5", "novelty@5"]
    ranks = {name: ipseval.rank_positives(model, world.split, top_k=5) for name, model in models.items()}
    accuracy = ipseval.beyond_accuracy(ranks, world.split, measures=labels)
    evaluation = ipseval.evaluate(ranks, world.split, metrics=["recall@5"])
    for source in (models, evaluation):
        other_accuracy = ipseval.beyond_accuracy(source, world.split, measures=labels)
        pd.testing.assert_frame_equal(other_accuracy.frame, accuracy.frame)
    assert repr(accuracy) in repr(Report([evaluation, accuracy]))
    gaps = accuracy.compare().set_index("measure")
    frame = accuracy.frame.set_index(["measure", "model"])["estimate"]
    assert gaps.loc["arp@5", "difference"] == pytest.approx(frame["arp@5", "a"] - frame["arp@5", "pop"])
    assert "coverage: higher" in accuracy.to_markdown()
    percentile = ipseval.beyond_accuracy(ranks, world.split, measures=["arp@5"], interval="percentile", rng=0)
    assert (percentile.frame["ci_low"] < percentile.frame["estimate"]).all()


def test_users_without_a_list_and_short_lists_are_left_out_and_counted():
    short = LISTS[(LISTS["user"] == "ann") & (LISTS["rank"] == 1)]
    ranked = ipseval.rank_positives(short, SPLIT, top_k=2)
    frame = ipseval.beyond_accuracy(
        {"m": ranked}, SPLIT, measures=["coverage@2", "arp@2", "ild@2"], item_vectors=VECTORS
    ).frame.set_index("measure")
    assert frame.loc["coverage@2", "estimate"] == 0.25
    assert frame.loc["arp@2", "note"] == "1 user without a list left out; 1 list shorter than 2"
    assert "1 user left out: undefined for them" in frame.loc["ild@2", "note"]
    assert np.isnan(frame.loc["ild@2", "estimate"])


def test_the_report_has_digits_of_the_error_and_says_who_is_left_out():
    short = LISTS[(LISTS["user"] == "ann") & (LISTS["rank"] == 1)]
    ranks = {
        name: ipseval.rank_positives(lists, SPLIT, top_k=2) for name, lists in (("m", short), ("n", LISTS))
    }
    accuracy = ipseval.beyond_accuracy(
        ranks, SPLIT, measures=["arp@2", "ild@2", "arp@1", "length@2"], item_vectors=VECTORS
    )
    table, notes = repr(accuracy).split("\n\n")[1:]
    assert [line.split("  ") for line in re.sub("   +", "  ", table).splitlines()] == [
        ["lists", "arp@2", "ild@2", "arp@1", "length@2"],
        ["m", "0.000", "undefined", "0.000", "0.50 ± 0.50"],
        ["n", "0.25 ± 0.25", "0.65 ± 0.35", "0.50 ± 0.50", "2.000"],
    ]
    assert notes.splitlines() == [
        "arp: higher: more popular items are shown.",
        "ild: higher: the items of a list are less alike.",
        "length: higher: fewer lists end before k.",
        "arp@2: 1 user without a list left out.",
        "arp@2: 1 list shorter than 2.",
        "ild@2: 1 user without a list left out.",
        "ild@2: 1 user left out: undefined for them.",
        "ild@2: 1 list shorter than 2.",
        "arp@1: 1 user without a list left out.",
        "length@2: 1 user without a list.",
        "length@2: 1 list shorter than 2.",
    ]
    assert accuracy.frame["n_users"].tolist() == [1, 0, 1, 2, 2, 2, 2, 2]
    hints = [[cell.hint for cell in line[1:]] for line in accuracy.tables().parts[0].rows]
    assert "nan" not in str(hints)
    assert hints[1][0] == "interval -0.24 to 0.74"  # 1/4 ± 1.96/4


def test_a_gini_and_an_entropy_without_each_user_are_those_of_the_other_lists():
    """Lists with items of one, two and three users, one of items that are shown alike, and some that end."""
    item = np.array([[0, 1, 2], [0, 1, 3], [0, 4, -1], [5, -1, -1], [2, 3, 4]])
    log = ipseval.Interactions(np.zeros(1, int), np.zeros(1, int), np.arange(5), np.arange(7))

    def value(rule, keep):
        c = np.bincount(item[keep][item[keep] >= 0], minlength=7)
        if rule == "gini":
            return np.abs(c[:, None] - c).sum() / (2 * 7 * c.sum())
        p = c[c > 0] / c.sum()
        return -(p * np.log2(p)).sum()

    for rule in ("gini", "entropy"):
        data = Recommended(TopLists(np.arange(5), item), log)
        sums, n = measure(f"{rule}@3").rule(data), 5
        without = np.array([value(rule, np.arange(n) != user) for user in range(n)])
        expected = value(rule, np.arange(n))
        assert sums.value() == pytest.approx(expected, abs=1e-12)
        jackknife = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
        assert sums.standard_error() == pytest.approx(jackknife, abs=1e-12)


@pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning")
def test_users_that_an_evaluation_left_out_are_left_out_of_all_lists():
    # By n only Bob has a list, b (n* = 1) and c (0); Ann's list by m, c and d, leaves as well.
    lists = {"m": LISTS, "n": LISTS[LISTS["user"] == "bob"]}
    ranks = {name: ipseval.rank_positives(items, SPLIT, top_k=2) for name, items in lists.items()}
    evaluation = ipseval.evaluate(ranks, SPLIT, metrics=["recall@2"], missing_lists="drop")
    frame = ipseval.beyond_accuracy(evaluation, SPLIT, measures=["coverage@2", "arp@2"]).frame
    assert frame["estimate"].tolist() == [0.5] * 4
    assert frame["n_users"].tolist() == [1] * 4


def test_labels_are_read():
    assert measure("ILD@5").label == "ild@5"
    assert measure(measure("gini@3")).cutoff == 3
    for wrong, text in (
        ("coverage", r"a name with a cutoff, such as coverage@10; got 'coverage'"),
        (3, "got 3"),
        ("serendipity@5", "unknown measure 'serendipity'"),
        ("gini@5[rectools]", r"such as coverage@10; got 'gini@5\[rectools\]'"),
        ("gini@0", "must be an integer >= 1"),
    ):
        with pytest.raises(ipseval.InputError, match=text):
            measure(wrong)


def test_what_is_missing_is_named_before_anything_is_ranked():
    def vectors(values):
        return {"measures": ["ild@2"], "item_vectors": values}

    with pytest.raises(ipseval.InputError, match="Pass item_vectors="):
        ipseval.beyond_accuracy({"m": lambda users: 1 / 0}, SPLIT, measures=["ild@2"])
    with pytest.raises(ipseval.InputError, match=r"shape \(4, d\)"):
        ipseval.beyond_accuracy({"m": lambda users: 1 / 0}, SPLIT, **vectors(np.ones((3, 2))))
    for wrong in (np.ones(4), np.ones((5, 2)), np.ones((4, 1, 1)), np.empty((4, 0)), [["a"]] * 4):
        with pytest.raises(
            ipseval.InputError, match=r"^item_vectors must be numbers of shape \(4, d\), rows"
        ):
            ipseval.beyond_accuracy({"m": lambda users: 1 / 0}, SPLIT, **vectors(wrong))
    with pytest.raises(ipseval.InputError, match=r"^item_vectors must be finite"):
        ipseval.beyond_accuracy({"m": lambda users: 1 / 0}, SPLIT, **vectors([[1], [2], [3], [np.inf]]))
    with pytest.raises(ipseval.InputError, match="rows differ in length"):
        ipseval.beyond_accuracy({"m": lambda users: 1 / 0}, SPLIT, **vectors([[1], [1, 2]] * 2))
    plain = ipseval.rank_positives(LISTS, SPLIT)
    with pytest.raises(ipseval.InputError, match=r"m has no lists of the first 10.*top_k=10"):
        ipseval.beyond_accuracy({"m": plain}, SPLIT)
