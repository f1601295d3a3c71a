"""The flag of an estimate appears in every table that uses the estimate."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

import ipseval
from ipseval.errors import PositivityWarning, PropensityError
from ipseval.estimators import Sample
from ipseval.inference import bounds
from ipseval.ranking import baselines
from ipseval.validation.simulation import World
from tests.inference.worlds import random_ranks, ranked
from tests.inside.estimators import resolve_estimator

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@cache
def steep(low_ess="ignore", estimators=("aoa", "snips-pooled"), **options):
    """Evaluation with an effective sample size far below 50."""
    ranks, popularity = random_ranks(1)
    # One item is rare, all others are not: its few positives weigh as much as hundreds of others.
    popularity = np.append(popularity[:-1] + 20, 1)
    propensity = ipseval.PowerLawPropensity(gamma=3.0, unseen="drop").fit(popularity=popularity)
    return ipseval.evaluate_ranks(
        ranks,
        propensity=propensity,
        metrics=("recall@10",),
        estimators=estimators,
        low_ess=low_ess,
        **options,
    )


TABLES = {
    "compare": lambda evaluation: evaluation.compare(),
    "bounds": lambda evaluation: evaluation.bounds([1.0, 2.0]),
    "tipping points": lambda evaluation: evaluation.tipping_points([-1, 0, 1, 2]),
}
NUMBERS = ["difference", "p_value", "estimate", "lower", "upper"]


@pytest.mark.parametrize("table", TABLES)
def test_every_table_notes_the_flags_of_estimates(table):
    rows = TABLES[table](steep()).set_index("estimator")
    assert rows.loc["snips-pooled", "note"].str.contains("effective sample size").all()
    assert (rows.loc["aoa", "note"] == "").all()


@pytest.mark.parametrize("table", TABLES)
def test_no_table_shows_numbers_of_suppressed_estimates(table):
    rows = TABLES[table](steep("nan")).set_index("estimator")
    suppressed = rows.loc["snips-pooled"]
    assert suppressed["note"].str.startswith("suppressed: effective sample size").all()
    number_columns = [name for name in NUMBERS if name in rows]
    assert suppressed[number_columns].isna().all(axis=None)
    assert rows.loc["aoa", number_columns].notna().all(axis=None)
    if "statement" in rows:
        assert (suppressed["statement"] == "").all()


def test_products_of_weights_are_weighed_by_user():
    # ŷ = 2, 4 of user 0 and 1 of user 1. Multilinear terms: (2 + 1)(4 + 3) = 21 against (1 + 0) = 1; pairs:
    # 2 + 4 + 2 · 4 = 14 against 1.
    positives = ranked([0, 0, 1], [0, 1, 2], [0, 1, 0], n_users=2, n_items=5)
    sample = Sample(positives, np.array([0.5, 0.25, 1.0]), True)
    ips = resolve_estimator("ips")
    for label, expected in (("rr", [21, 1]), ("ndcg@3", [21, 1]), ("ap", [14, 1])):
        assert np.exp(ips.log_products(sample, ipseval.metric(label))) == pytest.approx(expected, rel=1e-14)
    assert ips.log_products(sample, ipseval.metric("recall@1")) is None
    assert resolve_estimator("snips").log_products(sample, ipseval.metric("rr")) is None


@cache
def world_and_ranks():
    world = World(n_users=200, n_items=300, rng=1)
    split = world.split(rng=2)
    models = {"popularity": baselines.popularity(split.train), "random": baselines.random(split.train, rng=0)}
    return world, split, {name: ipseval.rank_positives(model, split) for name, model in models.items()}


def default_world(low_ess):
    world, split, ranks = world_and_ranks()
    return ipseval.evaluate(
        ranks,
        split,
        propensity=world.propensity,
        metrics=["ndcg@10", "recall@10"],
        estimators=["ips"],
        n_relevant=world.n_relevant - split.train.activity,
        low_ess=low_ess,
    )


def test_an_unbiased_estimate_with_a_useless_error_is_suppressed():
    with pytest.warns(
        PositivityWarning, match="ndcg@10 by ips: products of weights: effective sample size 1 of"
    ):
        result = default_world("warn")
    rows = result.frame.set_index(["metric", "model"])
    assert rows.loc["ndcg@10", "estimate"].isna().all()
    assert (
        rows.loc["ndcg@10", "note"]
        .str.contains(r"standard error .* beyond the range of ndcg@10, 0 to 1")
        .all()
    )
    assert rows.loc["recall@10", "estimate"].between(0, 1).all()
    assert (rows.loc["recall@10", "note"] == "").all()
    rows_without_check = default_world("ignore").frame.set_index("metric")
    assert (rows_without_check.loc["ndcg@10", "std_error"] > 1).all()
    with pytest.raises(PropensityError, match="ndcg@10 by ips"):
        default_world("raise")


def swapped(seed):
    """Two recommenders that are equal at every γ: the rows of two users with the same items are exchanged."""
    rng = np.random.default_rng(seed)
    n_users = 20
    n_items = 12
    user = np.repeat(np.arange(n_users), 4)
    item = np.concatenate([np.sort(rng.choice(n_items, 4, replace=False)) for _ in range(n_users // 2)] * 2)
    n_above = np.concatenate([rng.permutation(n_items)[:4] for _ in range(n_users)])
    models = {"a": n_above, "b": np.roll(n_above, n_above.size // 2)}
    sizes = {"n_users": n_users, "n_items": n_items}
    ranks = {name: ranked(user, item, model_ranks, **sizes) for name, model_ranks in models.items()}
    return ranks, 1.0 + rng.integers(1, 60, n_items)


@pytest.mark.parametrize("seed", range(2))
def test_equal_recommenders_have_no_tipping_point(seed):
    ranks, popularity = swapped(seed)
    result = ipseval.evaluate_ranks(
        ranks,
        propensity=ipseval.PowerLawPropensity(gamma=0.0, unseen="drop").fit(popularity=popularity),
        metrics=["atop", "recall@5", "mean_dcg"],
        estimators=["aoa", "snips", "snips-global", "snips-pooled"],
        low_ess="ignore",
    )
    rows = result.tipping_points()
    assert (rows["n_tipping"] == 0).all()
    assert rows["statement"].str.contains("a = b for all γ").all()


@pytest.mark.parametrize("gap", [0.1, 0.5])
def test_a_difference_that_is_the_same_for_every_user_has_no_effect_size(gap):
    # Values .3, .3, … against .3 + gap: .1 is not exact in binary.
    from ipseval.estimators import Claim, Estimate, UserSums

    users = np.arange(7)
    ones = np.ones(7)
    base = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    estimates = {
        (name, "m", "e"): Estimate("m", "e", UserSums(users, values, ones), 7, Claim("no guarantee"))
        for name, values in (("a", base + gap), ("b", base))
    }
    row = ipseval.inference.compare(estimates).iloc[0]
    assert (row["std_error"], row["p_value"], row["note"]) == (0.0, 0.0, "the same difference for every user")
    assert np.isnan(row["effect_size"])


def test_bounds_of_estimates_without_flags_are_those_of_the_function():
    result = steep(estimators=("aoa",))
    table = result.bounds(2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.equals(bounds(result.samples, *result.definitions, factors=[2.0]))
