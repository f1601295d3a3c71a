"""The contract of estimators: a copy under another label, passed as a user's own, gives the same rows."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.data import Interactions
from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators import ESTIMATORS, Estimator
from ipseval.policies import evaluate_rewards
from ipseval.validation.datasets import RandomExposureStudy
from tests.inside.estimators import resolve_estimator
from tests.inside.metrics import Auc
from tests.worlds import random_world

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

COPY = "mine"
MEANS, ALL = ("recall@5", "atop"), ("recall@5", "atop", "dcg", "auc", "ap", "ndcg@5", "rr")
# What every estimator of the registry can be asked: its own label, a parameter, another case.
LABELS = [*ESTIMATORS, "snips-shrunk(0.5)"]
MODELS = ("a", "b")


class Copy(Estimator):
    """Another class with another label that does what one of the registry does, asked and told."""

    def __init__(self, one: Estimator) -> None:
        self.label, self._one = COPY, one
        self.weighted, self.weighting, self.target = one.weighted, one.weighting, one.target
        self.separable = one.separable

    @property
    def counts_all_users(self):
        return self._one.counts_all_users

    @property
    def needs_rewards(self):
        return self._one.needs_rewards

    def sums(self, sample, metric):
        return self._one.sums(sample, metric)

    def positive_weights(self, sample):
        return self._one.positive_weights(sample)

    def claim(self, metric, **known):
        return self._one.claim(metric, **known)

    def check(self, metric, **known):
        self._one.check(metric, **known)

    def linear_form(self, metric, ranked, **known):
        return self._one.linear_form(metric, ranked, **known)

    def notes(self, **known):
        return self._one.notes(**known)

    def log_products(self, sample, metric):
        return self._one.log_products(sample, metric)

    def caution(self, counts):
        return self._one.caution(counts)


NEED_REWARDS = {label for label in LABELS if resolve_estimator(label).needs_rewards}


def metrics_of(label):
    return MEANS if label in NEED_REWARDS else ALL


@cache
def evaluated(label, copied, metrics=None):
    world = random_world(4)
    one = resolve_estimator(label)
    models = {"a": world.scores, "b": np.roll(world.scores, 1, axis=1)}
    options = {
        "propensity": ipseval.PowerLawPropensity(gamma=0.5, scale="max"),
        "metrics": metrics or metrics_of(label),
        "estimators": [Copy(one) if copied else one],
    }
    if one.needs_rewards:
        return evaluate_rewards(models, world.split, world.rewards(), **options)
    return ipseval.evaluate(models, world.split, n_relevant=20, **options)


def assert_same(found: pd.DataFrame, expected: pd.DataFrame, label: str) -> None:
    """Assert that two tables are equal once the copy's label is read as the original's."""
    expected = expected.replace({"estimator": {resolve_estimator(label).label: COPY}})
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True), expected.reset_index(drop=True), check_exact=True
    )


TABLES = {
    "evaluate": lambda one: one.frame,
    "compare": lambda one: one.compare(),
    "bounds": lambda one: one.bounds([1.0, 2.0]),
    "tipping factors": lambda one: one.tipping_factors(),
    "sensitivity": lambda one: one.sensitivity(np.linspace(-1, 1, 5)).frame,
    "tipping points": lambda one: one.tipping_points(np.linspace(-1, 1, 9)),
    "diagnostics": lambda one: one.diagnostics.reset_index(drop=True),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("label", LABELS)
def test_a_copy_of_an_estimator_has_the_rows_of_the_original(label, table):
    mine, original = (TABLES[table](evaluated(label, copied)) for copied in (True, False))
    assert_same(mine, original, label)


def small_study():
    rng = np.random.default_rng(5)
    n_users, n_items = 40, 25
    seen = rng.random((n_users, n_items)) < np.linspace(0.6, 0.2, n_items)
    shown = rng.random((n_users, n_items)) < 0.4
    log = [
        Interactions(
            *np.nonzero(one), np.arange(n_users), np.arange(n_items), value=rng.integers(1, 6, one.sum())
        )
        for one in (seen, shown)
    ]
    return RandomExposureStudy("small", *log, threshold=3)


@pytest.mark.parametrize("label", LABELS)
def test_a_copy_is_validated_as_the_original(label):
    study, rng = small_study(), np.random.default_rng(1)
    scores = {name: rng.normal(size=(40, 25)) for name in MODELS}
    one = resolve_estimator(label)
    if not one.weighted or label == "ips" or one.needs_rewards:
        pytest.skip("validate compares weighted estimators of positives that need no s_u with the average")
    found = [
        ipseval.validate(
            {name: (lambda train, x=x: x) for name, x in scores.items()},
            study,
            propensities={"popularity": ipseval.PowerLawPropensity(gamma=0.0)},
            metrics=MEANS,
            estimators=[each],
            n_resamples=20,
            rng=0,
        )
        for each in (Copy(one), one)
    ]
    mine, original = (one.frame for one in found)
    assert_same(mine, original, label)


@pytest.mark.parametrize("label", LABELS)
def test_dask_takes_a_copy_as_it_takes_the_original(label):
    dd = pytest.importorskip("dask.dataframe")
    world = random_world(4)
    frames = [
        pd.DataFrame({"user": log.user_ids[log.user], "item": log.item_ids[log.item]})
        for log in (world.split.train, world.split.test)
    ]
    rng = np.random.default_rng(0)
    users, items = world.split.user_ids, world.split.item_ids
    factors = {"m": (rng.normal(size=(users.size, 3)), rng.normal(size=(items.size, 3)))}
    one = resolve_estimator(label)

    def run(each):
        return ipseval.clusters.evaluate_dask(
            factors,
            *(dd.from_pandas(frame, npartitions=2) for frame in frames),
            users=users,
            items=items,
            propensity=ipseval.PowerLawPropensity(gamma=0.5, scale="max"),
            metrics=("recall@5", "dcg"),
            estimators=[each],
            n_relevant=20,
        ).frame

    if one.separable:
        assert_same(run(Copy(one)), run(one), label)
        return
    with pytest.raises(InputError, match=f"{COPY} read all users at once"):
        run(Copy(one))


@pytest.mark.parametrize("label", LABELS)
def test_labels_parse_back_in_any_case(label):
    one = resolve_estimator(label)
    assert resolve_estimator(one.label.upper()) == one
    assert resolve_estimator(f" {one.label} ").label == one.label


def test_a_label_that_is_nearly_right_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="Did you mean 'snips-global'"):
        resolve_estimator("snips-globall")
    with pytest.raises(InputError, match=r"snips takes no parameter; got '0\.5'"):
        resolve_estimator("snips(0.5)")
    for bad in ("snips-shrunk()", "snips-shrunk(two)", "snips-shrunk(2)"):
        with pytest.raises(InputError):
            resolve_estimator(bad)
    with pytest.raises(InputError, match=r"the one other form is dr\(normalised\)"):
        resolve_estimator("dr(clipped)")
    with pytest.raises(InputError, match="does not parse"):
        resolve_estimator("snips-shrunk(0.5")


@pytest.mark.parametrize("label", sorted(set(LABELS) - NEED_REWARDS))
def test_with_equal_propensities_it_estimates_the_average_that_it_names(label):
    # Users 0 and 1 have one and three positives, on places 1, and 1, 6 and 7: recall@5 is 1 and 1/3.
    ranked = ipseval.RankedPositives(
        [0, 1, 1, 1], [0, 0, 5, 6], [0, 0, 5, 6], [0] * 4, [9] * 4, range(2), range(9),
        candidates_by_user=[9, 9],
    )  # fmt: skip
    one = resolve_estimator(label)
    result = ipseval.evaluate_ranks(
        {"m": ranked},
        propensity=ipseval.KnownPropensity(item=np.ones(9)).fit(ranked),
        metrics=["recall@5"],
        estimators=[one],
        n_relevant=[1, 3],
    )
    expected = {"user": (1 + 1 / 3) / 2, "pooled": 2 / 4}[one.target]
    assert result.frame["estimate"].tolist() == pytest.approx([expected], rel=1e-14)


def test_a_pair_ratio_has_no_bounds_under_any_label_of_the_metric():
    world = random_world(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ipseval.evaluate(
            {"a": world.scores},
            world.split,
            propensity=ipseval.PowerLawPropensity(gamma=0.5, scale="max"),
            metrics=["auc", Auc(label="area")],
            estimators=["snips-pooled"],
        )
    rows = result.bounds(1.0)
    assert rows["estimate"].tolist() == result.frame["estimate"].tolist()
    assert rows["lower"].isna().all()
    assert rows["note"].nunique() == 1
    assert result.frame["claim"].nunique() == 1
    assert "consistent given the propensities and independent observations" in result.frame["claim"][0]


def test_a_perfect_ranker_stays_perfect_when_positives_have_no_propensity():
    # Items 1 and 2 are the positives of user 0, on top in this order or the other; item 2 has n* = 0.
    frames = ([9], [1]), ([0, 0], [1, 2])
    split = ipseval.Split.from_frames(
        *(pd.DataFrame(dict(zip(("user", "item"), one, strict=True))) for one in frames),
        users=[0, 9],
        items=range(5),
    )
    scores = {"cold first": np.array([[0, 8, 9, 1, 2.0], [0] * 5]), "cold last": [[0, 9, 8, 1, 2], [0] * 5]}
    result = ipseval.evaluate(
        {name: np.asarray(one, dtype=float) for name, one in scores.items()},
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0, scale="max"),
        metrics=["auc", "ndcg@5", "ap", "rr", "recall@1"],
        estimators=["aoa", "snips", "snips-global", "aoa-pooled"],
    )
    assert result.frame["estimate"].tolist() == [1.0] * 40
    assert result.frame["note"].str.contains("1 positive without a propensity left out").all()
    assert result.samples["cold first"].ranked.n_candidates.tolist() == [4]


def test_a_pair_that_leaves_is_no_relevant_item_of_its_user():
    # s = 2, one of them without a propensity: (1/1) · (1/.5) of the other, over two users.
    ranked = ipseval.RankedPositives([0, 0], [1, 2], [1, 0], [0, 0], [5, 5], [0, 9], range(5))
    p = ipseval.KnownPropensity(item=[0.5, 0.5, np.nan, 0.5, 0.5], is_probability=True).fit(ranked)
    result = ipseval.evaluate_ranks(
        {"m": ranked},
        propensity=p,
        metrics=["recall@1"],
        estimators=["ips"],
        n_relevant=2,
        on_low_ess="ignore",
    )
    assert result.frame["estimate"].tolist() == [1.0]


def test_shrinkage_of_zero_is_the_global_form_also_when_users_are_undefined():
    # User 1 has one candidate: atop is undefined. Users 0 and 2 have mean weights 1 and 3, values 1 and 0.
    ranked = ipseval.RankedPositives([0, 1, 2], [0, 1, 2], [0, 0, 4], [0] * 3, [5, 1, 5], range(3), range(5))
    p = ipseval.KnownPropensity(item=[1, 0.01, 1 / 3, 1, 1]).fit(ranked)
    result = ipseval.evaluate_ranks(
        {"m": ranked},
        propensity=p,
        metrics=["atop"],
        estimators=["snips-shrunk(0)", "snips-global"],
        on_low_ess="ignore",
    )
    assert result.frame["estimate"].tolist() == pytest.approx([1 / 4] * 2, rel=1e-14)
    assert result.frame["std_error"][0] == pytest.approx(result.frame["std_error"][1], rel=1e-13)


def test_a_pair_ratio_names_itself_where_a_tie_rule_cannot_be_kept():
    ranked = ipseval.RankedPositives([0, 0], [0, 1], [0, 0], [1, 1], [5, 5], range(2), range(5))
    p = ipseval.KnownPropensity(item=[0.5] * 5).fit(ranked)
    with pytest.raises(InputError, match=r"snips-pooled of auc .* counts pairs"):
        ipseval.evaluate_ranks(
            {"m": ranked}, propensity=p, metrics=["auc"], estimators=["snips-pooled"], ties="min"
        )
