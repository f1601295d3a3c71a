"""The allocation of an exposure experiment: draws, batches, reproducibility, and what reads its weights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import InputError, RandomExposure
from ipseval.correction import RANDOM_SAMPLE
from ipseval.propensity import (
    DensityRatioPropensity,
    DirectPropensity,
    PowerLawPropensity,
    StratifiedPropensity,
)
from ipseval.ranking import top_items
from ipseval.validation.validation_study import calibrate_gamma

DEPTH = 5
SLOTS = 8
POOLED = {"estimators": ["snips-pooled"], "metrics": ["atop", "recall@5"], "rng": 0, "n_resamples": 20}


@pytest.fixture(name="world", scope="module")
def fixture_world():
    return ipseval.simulation.World(n_users=120, n_items=40, mean_relevant=10, rng=1)


@pytest.fixture(name="split", scope="module")
def fixture_split(world):
    return world.split(rng=2)


@pytest.fixture(name="models", scope="module")
def fixture_models(world, split):
    examples = world.example_models(split, rng=3)
    return {name: examples[name] for name in ("popular", "appeal", "random")}


def plan(own_split, own_models, **options):
    arguments = {
        "design": "lists",
        "models": own_models,
        "split": own_split,
        "depth": DEPTH,
        "n_items": SLOTS,
    }
    arguments["rng"] = 0
    return ipseval.plan_exposure(**arguments | options)


def answer(allocation: pd.DataFrame, world) -> RandomExposure:
    """Return the true answers to an allocation."""
    liked = set(zip(world.relevant.user.tolist(), world.relevant.item.tolist(), strict=True))
    pairs = zip(allocation["user"], allocation["item"], strict=True)
    answers = allocation.assign(positive=[pair in liked for pair in pairs])
    return RandomExposure.from_frame(answers, world.relevant, inclusion_probability="inclusion_probability")


def test_every_user_gets_all_slots_once_outside_training_and_half_of_them_from_the_lists(split, models):
    allocation = plan(split, models, n_users=30)
    assert allocation.groupby("user").size().eq(SLOTS).all()
    assert not allocation.duplicated(["user", "item"]).any()
    keys = allocation["user"] * split.n_items + allocation["item"]
    assert not np.isin(keys, split.train.pair_key).any()
    n_listed = allocation["n_listed"]
    assert (allocation.groupby("user")["is_listed"].sum() >= SLOTS // 2).all()
    assert n_listed.between(DEPTH, 3 * DEPTH).all()
    assert (split.n_items - split.train.activity[allocation["user"]] == allocation["n_candidates"]).all()


def test_the_listed_items_are_the_union_of_the_first_items_of_all_models(split, models):
    allocation = plan(split, models, n_users=30)
    union = set()
    for model in models.values():
        top = top_items(model, split, k=DEPTH)
        union.update((top.user * split.n_items + top.item).tolist())
    keys = allocation["user"] * split.n_items + allocation["item"]
    assert [key in union for key in keys.tolist()] == allocation["is_listed"].tolist()


def test_a_seed_gives_the_same_allocation_and_shown_items_have_the_planned_frequencies(split, models):
    first = plan(split, models, n_users=120)
    pd.testing.assert_frame_equal(first, plan(split, models, n_users=120))
    assert not first.equals(plan(split, models, n_users=120, rng=1))
    n_draws = 24
    shown = np.zeros((120, 40))
    for seed in range(n_draws):
        allocation = plan(split, models, n_users=120, rng=seed)
        np.add.at(shown, (allocation["user"], allocation["item"]), 1)
        probability = np.zeros((120, 40))
        probability[allocation["user"], allocation["item"]] = allocation["inclusion_probability"]
        is_known = probability > 0
    expected = n_draws * probability[is_known]
    z = (shown[is_known] - expected) / np.sqrt(expected * (1 - probability[is_known]))
    # Pairs of the last draw are known; without their own draw each count is binomial.
    z -= (1 - probability[is_known]) / np.sqrt(expected * (1 - probability[is_known]))
    assert abs(z.mean()) < 0.06  # a probability that is wrong by 3%
    assert z.std() == pytest.approx(1, abs=0.1)


def test_a_further_batch_has_new_users_and_keeps_the_rows_before(split, models):
    first = plan(split, models, n_users=20)
    second = plan(split, {"popular": models["popular"]}, n_users=15, n_items=6, previous=first)
    pd.testing.assert_frame_equal(second.iloc[: len(first)], first)
    added = second.iloc[len(first) :]
    assert added["batch"].eq(2).all()
    assert added["user"].nunique() == 15
    assert not set(added["user"]) & set(first["user"])


def test_a_further_draw_for_the_same_users_has_the_probability_of_both_draws(split, models):
    first = plan(split, models, n_users=20)
    second = plan(split, models, previous=first, same_users=True)
    assert not second.duplicated(["user", "item"]).any()
    assert second["n_draws"].eq(2).all()
    assert len(first) < len(second) < 2 * len(first)
    both = second.iloc[: len(first)]["inclusion_probability"]
    np.testing.assert_allclose(both, 1 - (1 - first["inclusion_probability"]) ** 2, rtol=1e-12)
    new_users = plan(split, models, n_users=5, previous=second)
    assert new_users["n_draws"].tolist() == [2] * len(second) + [1] * (5 * SLOTS)


def test_an_allocation_survives_a_file(split, models, tmp_path, world):
    first = plan(split, models, n_users=20)
    first.to_csv(tmp_path / "allocation.csv", index=False)
    stored = pd.read_csv(tmp_path / "allocation.csv")
    second = plan(split, models, previous=stored, same_users=True)
    pd.testing.assert_frame_equal(second, plan(split, models, previous=first, same_users=True))
    assert answer(second, world).is_designed


def test_other_lists_for_the_same_users_are_refused_with_the_reason(split, models):
    first = plan(split, models, n_users=20)
    with pytest.raises(InputError, match="lists must be fixed before any answer is seen"):
        plan(split, {"popular": models["popular"]}, previous=first, same_users=True)
    with pytest.raises(InputError, match="n_items must be the number of the earlier batches"):
        plan(split, models, previous=first, same_users=True, n_items=6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": None}, "requires split"),
        ({"models": None}, "requires models"),
        ({"design": "uniform"}, "models must be left out"),
        ({"design": "other"}, "design"),
        ({"n_users": 121}, "n_users must be at most 120"),
        ({"n_users": [10, 20]}, "n_users must be one number"),
        ({"same_users": True}, "requires previous"),
        ({"previous": 3}, "previous must be a pandas data frame"),
        ({"previous": pd.DataFrame({"user": [1]})}, "'item' is missing"),
        ({"depth": 0}, "depth"),
    ],
)
def test_arguments_that_do_not_fit_raise_an_error(split, models, options, message):
    with pytest.raises(InputError, match=message):
        plan(split, models, **options)


def test_a_plan_without_a_design_needs_a_correction():
    with pytest.raises(InputError, match="correction"):
        ipseval.plan_exposure()


def weighted_mean(exposure, contributions):
    """Return Σ c/π / Σ 1/π over the positive pairs, and its error from the sums of users."""
    weight = exposure.weight[exposure.positive]
    user = exposure.user[exposure.positive]
    mean = weight @ contributions / weight.sum()
    sums = np.bincount(user, weight * (contributions - mean))
    users = np.unique(user)
    variance = (sums**2).sum() / weight.sum() ** 2 * users.size / (users.size - 1)
    return mean, np.sqrt(variance)


def test_the_row_of_the_random_sample_is_the_ratio_of_weighted_totals(world, split, models):
    exposure = answer(plan(split, models, n_users=60), world)
    result = ipseval.correct(models, split, random_exposure=exposure, metrics=["atop", "recall@5"], rng=0)
    shown = exposure.exclude(split.train).select(exposure.exclude(split.train).positive)
    ranks = ipseval.rank_positives(
        models["popular"],
        ipseval.Split(
            split.train, ipseval.Interactions(shown.user, shown.item, split.user_ids, split.item_ids)
        ),
    )
    order = np.argsort(shown.pair_key)
    for label in ("atop", "recall@5"):
        contributions = ipseval.metrics.metric(label).contributions(ranks)
        mean, _ = weighted_mean(shown.select(order), contributions)
        frame = result.frame
        is_row = (
            (frame["model"] == "popular") & (frame["metric"] == label) & (frame["estimator"] == RANDOM_SAMPLE)
        )
        assert frame.loc[is_row, "estimate"].item() == pytest.approx(mean, rel=1e-12)
    assert "lose precision by the design" in result.frame.loc[is_row, "note"].item()
    assert "lose precision by the design" in repr(result)
    assert "ppi" not in set(result.frame["estimator"])


def test_validate_compares_with_the_ratio_of_weighted_totals_and_its_error(world, split, models):
    exposure = answer(plan(split, models, n_users=60), world)
    result = ipseval.validate(
        models,
        split=split,
        random_exposure=exposure,
        propensities={"0": ipseval.PowerLawPropensity(gamma=0, unseen="drop")},
        **POOLED,
    )
    shown = exposure.exclude(split.train).select(exposure.exclude(split.train).positive)
    shown = shown.select(np.argsort(shown.pair_key))
    pairs = ipseval.Interactions(shown.user, shown.item, split.user_ids, split.item_ids)
    ranks = ipseval.rank_positives(models["popular"], ipseval.Split(split.train, pairs))
    contributions = ipseval.metrics.metric("recall@5").contributions(ranks)
    mean, error = weighted_mean(shown, contributions)
    frame = result.frame
    row = frame[
        (frame["model"] == "popular") & (frame["metric"] == "recall@5") & (frame["propensity"] == "0")
    ]
    assert row["reference"].item() == pytest.approx(mean, rel=1e-12)
    assert row["reference_se"].item() == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimators": ["snips"]}, "must average over pairs"),
        ({"estimators": ["snips-pooled", "ppi"]}, "must not contain 'ppi'"),
        ({"propensities": {"ratio": DensityRatioPropensity(rng=0)}}, "must have equal weights"),
        ({"propensities": {"gamma": calibrate_gamma}}, "must have equal weights"),
    ],
)
def test_what_cannot_read_weights_is_refused_with_the_reason(world, split, models, options, message):
    exposure = answer(plan(split, models, n_users=60), world)
    arguments = {"propensities": {"0": ipseval.PowerLawPropensity(gamma=0, unseen="drop")}, **POOLED}
    with pytest.raises(InputError, match=message):
        ipseval.validate(models, split=split, random_exposure=exposure, **arguments | options)
    with pytest.raises(InputError, match="count exposures and likes"):
        DirectPropensity(exposure)


@pytest.mark.parametrize(
    "build",
    [
        DirectPropensity,
        lambda exposure: StratifiedPropensity(exposure=exposure, n_strata=5),
        lambda exposure: DensityRatioPropensity(exposure=exposure),
        lambda exposure: PowerLawPropensity(gamma="fit", exposure=exposure),
        lambda exposure: PowerLawPropensity(gamma=0, scale="calibrated", exposure=exposure),
    ],
)
def test_propensities_from_random_exposure_refuse_its_weights_with_the_reason(world, split, models, build):
    exposure = answer(plan(split, models, n_users=60), world)
    with pytest.raises(InputError, match="exposure must have equal weights, because propensity models count"):
        build(exposure)


def test_a_pilot_with_weights_gives_the_weighted_share_of_positives(world, split, models):
    exposure = answer(plan(split, models, n_users=60), world)
    result = ipseval.correct(models, split, random_exposure=exposure, metrics=["recall@5"], rng=0)
    share = exposure.weight @ exposure.positive / exposure.weight.sum()
    assert share < exposure.positive.mean()
    table = ipseval.plan_exposure(result, n_users=[70], n_items=[10])
    assert table["n_positives"].item() == pytest.approx(result.sample.n_positives + 100 * share)
