"""The contract of members: copies under labels of their own, as a user passes them, give the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.data import Interactions
from ipseval.errors import InputError
from ipseval.estimators import ESTIMATORS, Estimator
from ipseval.metrics import METRICS
from ipseval.policies import evaluate_rewards
from ipseval.validation.datasets import RandomExposureStudy
from tests.inside.estimators import resolve_estimator
from tests.worlds import random_world

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MINE = "mine-"


class Copy(Estimator):
    """Another class with another label that does what one of the registry does, asked and told."""

    def __init__(self, one: Estimator) -> None:
        self.label, self._one = MINE + one.label, one
        self.weighted, self.weighting, self.target = one.weighted, one.weighting, one.target
        self.separable = one.separable

    @property
    def counts_all_users(self):
        return self._one.counts_all_users

    @property
    def needs_rewards(self):
        return self._one.needs_rewards

    @property
    def uses_unbiased_form(self):
        return self._one.uses_unbiased_form

    def sums(self, sample, metric):
        return self._one.sums(sample, metric)

    def weight_positives(self, sample):
        return self._one.weight_positives(sample)

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


MEMBERS = [resolve_estimator(label) for label in (*ESTIMATORS, "snips-shrunk(0.5)")]
PLAIN = [member for member in MEMBERS if not member.needs_rewards]
EVERY_METRIC = [
    ipseval.metric(name if made.takes_cutoff == "none" else f"{name}@5") for name, made in METRICS.items()
]
RATIOS = [metric for metric in EVERY_METRIC if metric.is_ratio_of_sums]
AVERAGES = [metric for metric in EVERY_METRIC if not metric.is_ratio_of_sums]
MEANS, ALL = ("recall@5", "atop"), ("recall@5", "dcg", "auc", "ap", "ndcg@5")
SOME = ("aoa", "ips", "snips-global", "snips-pooled")  # the others are there for the copied estimators
# Which metrics by which estimators: in each family one of the two is copied.
FAMILIES = {
    "metrics": (AVERAGES, SOME),
    "metrics that are ratios": (RATIOS, ("aoa", "snips-global", "snips-pooled")),
    "estimators": (ALL, PLAIN),
    "estimators with rewards": (MEANS, [member for member in MEMBERS if member.needs_rewards]),
}
OPTIONS = {"propensity": ipseval.PowerLawPropensity(gamma=0.5, scale="max")}


def tables_of(one):
    """Return every table of an evaluation, by its name."""
    curves = one.sensitivity([-1.0, 1.0])
    return {
        "evaluate": one.frame,
        "compare": one.compare(),
        "bounds": one.bounds(2.0),
        "sensitivity": curves.frame,
        "tipping points": curves.tipping_points(),
        "diagnostics": one.diagnostics.reset_index(drop=True),
    }


def copied(members):
    """Return members with copies in the place of objects."""

    def copy(one):
        return Copy(one) if isinstance(one, Estimator) else replace(one, label=MINE + one.label)

    return [member if isinstance(member, str) else copy(member) for member in members]


def evaluated(family, own):
    world = random_world(4)
    models = {"a": world.scores, "b": np.roll(world.scores, 1, axis=1)}
    metrics, estimators = (copied(part) if own else part for part in FAMILIES[family])
    options = {**OPTIONS, "metrics": metrics, "estimators": estimators}
    if "rewards" in family:
        return evaluate_rewards(models, world.split, world.rewards(), **options)
    return ipseval.evaluate(models, world.split, n_relevant=20, **options)


def assert_same(found: pd.DataFrame, expected: pd.DataFrame, name: str = "DataFrame") -> None:
    """Assert that two tables are equal once the labels of copies are read as those of the originals."""
    assert len(expected), name
    texts = found.select_dtypes(exclude="number")  # pandas 2.2 makes floats of whole numbers with gaps
    found = found.assign(**texts.map(lambda one: one.replace(MINE, "") if isinstance(one, str) else one))
    pd.testing.assert_frame_equal(
        found.rename(columns=lambda one: one.replace(MINE, "")).reset_index(drop=True),
        expected.reset_index(drop=True),
        check_exact=True,
        obj=name,
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_copies_have_the_rows_of_the_originals(family):
    mine, original = (tables_of(evaluated(family, is_own)) for is_own in (True, False))
    labels = mine["evaluate"]["metric" if family.startswith("metrics") else "estimator"]
    assert labels.str.startswith(MINE).all()
    for name, table in original.items():
        assert_same(mine[name], table, name)


def small_study():
    rng = np.random.default_rng(5)
    n_users, n_items = 20, 15
    seen = rng.random((n_users, n_items)) < np.linspace(0.6, 0.2, n_items)
    shown = rng.random((n_users, n_items)) < 0.4
    log = [
        Interactions(
            *np.nonzero(mask), np.arange(n_users), np.arange(n_items), value=rng.integers(1, 6, mask.sum())
        )
        for mask in (seen, shown)
    ]
    return RandomExposureStudy("small", *log, threshold=3)


# What validation compares with the average: means, by weighted estimators of positives that need no s_u.
VALIDATED = {
    "metrics": ([one for one in EVERY_METRIC if one.kind == "mean"], ["snips-global", "snips-pooled"]),
    "estimators": (MEANS, [member for member in PLAIN if member.weighted and member.label != "ips"]),
}


@pytest.mark.parametrize("family", VALIDATED)
def test_copies_are_validated_as_the_originals(family):
    study, rng = small_study(), np.random.default_rng(1)
    scores = {name: rng.normal(size=(20, 15)) for name in ("a", "b")}

    def validated(metrics, estimators):
        return ipseval.validate(
            {name: (lambda train, x=x: x) for name, x in scores.items()},
            study,
            propensities={"popularity": ipseval.PowerLawPropensity(gamma=0.0)},
            metrics=metrics,
            estimators=estimators,
            n_resamples=5,
            rng=0,
        ).frame

    parts = VALIDATED[family]
    assert_same(validated(*map(copied, parts)), validated(*parts))


def on_dask(metrics, estimators):
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed: pip install 'ipseval[dask]'")
    world, rng = random_world(4), np.random.default_rng(0)
    frames = [
        pd.DataFrame({"user": log.user_ids[log.user], "item": log.item_ids[log.item]})
        for log in (world.split.train, world.split.test)
    ]
    users, items = world.split.user_ids, world.split.item_ids
    return ipseval.distributed.evaluate_dask(
        {"m": (rng.normal(size=(users.size, 3)), rng.normal(size=(items.size, 3)))},
        *(dd.from_pandas(frame, npartitions=2) for frame in frames),
        users=users,
        items=items,
        metrics=metrics,
        estimators=estimators,
        n_relevant=20,
        **OPTIONS,
    ).frame


@pytest.mark.parametrize(
    "parts",
    [
        (EVERY_METRIC, ["aoa", "snips-global", "snips-pooled"]),
        (("recall@5", "dcg"), [member for member in MEMBERS if member.separable]),
    ],
    ids=["metrics", "estimators"],
)
@pytest.mark.slow
def test_dask_takes_copies_as_it_takes_the_originals(parts):
    assert_same(on_dask(*map(copied, parts)), on_dask(*parts))


@pytest.mark.parametrize("one", [member for member in MEMBERS if not member.separable], ids=str)
def test_dask_refuses_a_copy_of_what_reads_all_users_at_once(one):
    with pytest.raises(InputError, match=f"{MINE}.* read all users at once"):
        on_dask(["recall@5"], [Copy(one)])


def test_sampled_metrics_are_corrected_for_a_copy_as_for_the_original():
    ranks = np.array([1, 1, 2, 4, 9, 3, 1, 6])
    n_corrected = 0
    for metric in EVERY_METRIC:
        (mine,) = copied([metric])
        try:
            expected = ipseval.expected_sampled(ranks, 30, 10, metric)
        except InputError:  # it has no value of a single target
            continue
        n_corrected += 1
        assert np.array_equal(ipseval.expected_sampled(ranks, 30, 10, mine), expected)
        found, original = (
            ipseval.correct_sampled(ranks, 30, 10, metric=variant, method="bv", n_iterations=5)
            for variant in (mine, metric)
        )
        assert (found.estimate, found.standard_error) == (original.estimate, original.standard_error)
    assert n_corrected > 8
