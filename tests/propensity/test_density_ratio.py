"""User × item weights from random exposure: features, odds, cross-fitting, and what they repair."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import ipseval
from ipseval.errors import DataWarning, InputError, PositivityWarning
from ipseval.interactions import Interactions
from ipseval.propensity import (
    DensityRatioPropensity,
    Exposure,
    KnownPropensity,
    TemperedDensityRatioPropensity,
    profile_features,
)
from ipseval.propensity._pair_features import mean_similarity
from ipseval.propensity._ratio import Sample, weighted_auc
from ipseval.simulation import World
from ipseval.splits import Split


def random_log(seed: int, n_users: int = 40, n_items: int = 25) -> Interactions:
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.15)
    frame = pd.DataFrame({"user": user, "item": item})
    return Interactions.from_frame(frame, users=np.arange(n_users), items=np.arange(n_items))


# Features -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gather", [8_000_000, 7])
@pytest.mark.parametrize("block", [256, 3])
def test_mean_similarity_equals_plain_loops_over_item_pairs(gather, block, monkeypatch):
    monkeypatch.setattr("ipseval.propensity._pair_features.BLOCK_GATHER", gather)
    monkeypatch.setattr("ipseval.propensity._pair_features.BLOCK_USERS", block)
    log = random_log(1)
    of_item = [set(log.user[log.item == i].tolist()) for i in range(25)]
    rng = np.random.default_rng(2)
    user, item = rng.integers(0, 40, 200), rng.integers(0, 25, 200)
    found = mean_similarity(log, user, item)
    for u, i, value in zip(user, item, found, strict=True):
        profile = log.item[log.user == u]
        cosines = [
            len(of_item[i] & of_item[j]) / np.sqrt(max(len(of_item[i]), 1) * len(of_item[j])) for j in profile
        ]
        assert value == pytest.approx(np.mean(cosines) if cosines else 0.0)


def test_features_worked_by_hand():
    # Items 0 and 1 are both in the profiles of users 0 and 1, item 2 only in that of user 0; user 2 has none.
    frame = pd.DataFrame({"user": [0, 0, 1, 1, 0], "item": [0, 1, 0, 1, 2]})
    log = Interactions.from_frame(frame, users=[0, 1, 2, 3], items=[0, 1, 2])
    p, pair = np.log(2), 1 / np.sqrt(2)  # item 2: log(1 + 1); cos(2, 0) = cos(2, 1) = 1/√(1·2)
    s, size, profile = np.log(pair + 1 / 4), np.log(3), np.log(3)  # user 1 has two items, each with n* = 2
    found = profile_features(log, np.array([1]), np.array([2]))
    assert found[0] == pytest.approx([p, p * p, s, s * s, p * s, profile * p, size * p, size * s])
    empty = profile_features(log, np.array([2]), np.array([2]))
    assert empty[0, [0, 2, 5, 6, 7]] == pytest.approx([p, np.log(1 / 4), 0, 0, 0])


# Odds -----------------------------------------------------------------------------------------------------


def two_samples(n_users: int = 60, seed: int = 0):
    """Every user has training items, held-out positives and exposures, so that nobody is left out."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(n_users):
        items = rng.permutation(30)
        rows += [(user, i, "train") for i in items[:4]] + [(user, i, "test") for i in items[4:8]]
        rows += [(user, i, "shown") for i in items[8:16]]
    table = pd.DataFrame(rows, columns=["user", "item", "part"])
    parts = {name: part[["user", "item"]] for name, part in table.groupby("part")}
    split = Split.from_frames(parts["train"], parts["test"], users=np.arange(n_users), items=np.arange(30))
    shown = parts["shown"].assign(positive=rng.random(len(parts["shown"])) < 0.6)
    return split, Exposure.from_frame(shown, split)


def is_low(train, user, item):
    """One feature: whether the item's code is below 10."""
    return (item < 10).astype(float)[:, None]


def weighted_rate(user, item):
    share = 1 / np.bincount(user)[user]
    return share[item < 10].sum() / share.sum()


def test_one_binary_feature_gives_the_ratio_of_the_user_weighted_rates():
    # With one indicator the logistic regression is saturated, so that its odds are p_random/p_log of the
    # indicator, every user having the same weight. Folds: each user's model has seen the other fold only.
    split, exposure = two_samples()
    found = DensityRatioPropensity(features=is_low, rng=3).fit(split, exposure)
    members = np.random.default_rng(3).permutation(60)
    fold = np.empty(60, dtype=int)
    fold[members] = np.arange(60) % 2
    random = exposure.select(exposure.positive)
    for number in (0, 1):
        seen_random, seen_biased = fold[random.user] != number, fold[split.test.user] != number
        high = weighted_rate(random.user[seen_random], random.item[seen_random])
        low = weighted_rate(split.test.user[seen_biased], split.test.item[seen_biased])
        own = fold[split.test.user] == number
        user, item = split.test.user[own], split.test.item[own]
        expected = np.where(item < 10, low / high, (1 - low) / (1 - high))
        assert found.at(user, item) == pytest.approx(expected, rel=1e-5)
    assert not found.is_probability


def test_weights_give_every_user_the_same_share_and_both_samples_the_same_total():
    sample = Sample(
        user=np.array([0, 0, 1, 0, 1, 1, 1]),
        item=np.zeros(7, dtype=int),
        is_random=np.array([True, True, True, False, False, False, False]),
    )
    # 3.5 for either sample, half of it for each of its two users.
    assert sample.weights() == pytest.approx([0.875, 0.875, 1.75, 1.75, 1.75 / 3, 1.75 / 3, 1.75 / 3])


def test_statsmodels_result_is_the_weighted_logistic_regression_on_standardised_features():
    split, exposure = two_samples(seed=4)
    fit = DensityRatioPropensity(limit=None).fit(split, exposure).fit
    random = exposure.select(exposure.positive)
    user = np.concatenate([random.user, split.test.user])
    item = np.concatenate([random.item, split.test.item])
    sample = Sample(user, item, np.arange(user.size) < len(random))
    x, weight = profile_features(split.train, user, item), sample.weights()
    mean = np.average(x, axis=0, weights=weight)
    x = (x - mean) / np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight))
    x = x[:, :6]  # every user has four training items, so that profile size × popularity is popularity again
    plain = sm.GLM(
        sample.is_random.astype(float), sm.add_constant(x), family=sm.families.Binomial(), freq_weights=weight
    ).fit()
    assert fit.results[-1].fittedvalues == pytest.approx(plain.fittedvalues, abs=1e-6)
    assert fit.results[-1].model.exog_names[1:3] == ["popularity", "popularity^2"]


def test_users_without_exposure_are_weighted_by_the_model_of_all_that_have_it():
    split, exposure = two_samples()
    some = exposure.select(exposure.user < 30)
    found = DensityRatioPropensity(features=is_low).fit(split, some)
    random = some.select(some.positive)
    early = split.test.user < 30
    high = weighted_rate(random.user, random.item)
    low = weighted_rate(split.test.user[early], split.test.item[early])
    user, item = split.test.user[~early], split.test.item[~early]
    assert found.at(user, item) == pytest.approx(
        np.where(item < 10, low / high, (1 - low) / (1 - high)), rel=1e-5
    )
    assert found.fit.n_biased == early.sum()
    everyone = DensityRatioPropensity(features=is_low, biased_users="all").fit(split, some)
    assert everyone.fit.n_biased == len(split.test)


def test_exposures_that_are_training_pairs_are_left_out_and_counted():
    split, exposure = two_samples()
    more = Exposure(
        np.concatenate([exposure.user, split.train.user[:5]]),
        np.concatenate([exposure.item, split.train.item[:5]]),
        np.concatenate([exposure.positive, np.ones(5, dtype=bool)]),
        split.n_users,
        split.n_items,
    )
    one = DensityRatioPropensity(features=is_low).fit(split, exposure)
    other = DensityRatioPropensity(features=is_low).fit(split, more)
    assert other.fit.n_dropped == 5
    assert np.array_equal(one.pair, other.pair)
    assert "5 exposures left out" in repr(other.fit)


def test_fit_repeats_with_its_seed_and_covers_exactly_the_held_out_pairs():
    split, exposure = two_samples()
    one = DensityRatioPropensity(rng=1).fit(split, exposure)
    two = DensityRatioPropensity(rng=1).fit(split, exposure)
    assert np.array_equal(one.pair, two.pair)
    assert np.array_equal(one.pair_key, np.sort(split.test.pair_key))


def test_samples_that_do_not_differ_have_odds_of_one_and_an_auc_of_one_half():
    # Held-out and random positives are drawn alike: the slopes are noise only. 300 users.
    split, exposure = two_samples(300)
    found = DensityRatioPropensity(features=is_low).fit(split, exposure)
    assert found.pair == pytest.approx(1, abs=0.35)
    # Out of fold a noise slope is as often wrong as right: 1/2 ± 4·sqrt(1/12·(1/1200 + 1/1440)) or so.
    assert found.fit.auc == pytest.approx(0.5, abs=0.05)
    assert found.fit.uncovered <= 0.05
    assert found.fit.ess_share > 0.9


def test_auc_counts_ties_one_half():
    score = np.array([1.0, 2.0, 2.0, 3.0])
    positive = np.array([False, True, False, True])
    # Pairs: (2, 1) won, (2, 2) tied, (3, 1) and (3, 2) won: 3.5 of 4.
    assert weighted_auc(score, positive, np.ones(4)) == pytest.approx(3.5 / 4)


def test_odds_are_held_at_the_quantile_and_the_number_is_reported():
    split, exposure = two_samples(seed=5)
    free = DensityRatioPropensity(limit=None).fit(split, exposure)
    held = DensityRatioPropensity(limit=0.8).fit(split, exposure)
    changed = held.pair != free.pair
    assert changed.sum() == held.fit.n_limited > 0
    assert np.all(held.pair[changed] > free.pair[changed])  # smaller weights
    assert free.fit.n_limited == 0


def test_separable_samples_get_a_ridge_penalty_and_warnings():
    split, exposure = two_samples()
    keys = np.sort(split.test.pair_key)

    def tell_apart(train, user, item):
        return np.isin(user * 30 + item, keys).astype(float)[:, None]

    with (
        pytest.warns(DataWarning, match="ridge penalty keeps the odds finite"),
        pytest.warns(PositivityWarning, match="covers the random positives poorly"),
    ):
        found = DensityRatioPropensity(features=tell_apart).fit(split, exposure)
    assert found.fit.penalty > 0
    assert np.isfinite(found.pair).all()


def test_tempered_weights_are_a_power_of_the_odds_and_say_that_they_are_experimental():
    split, _ = two_samples()
    full = TemperedDensityRatioPropensity(power=1.0, features=is_low, rng=1).fit(split)
    half = TemperedDensityRatioPropensity(power=0.5, features=is_low, rng=1).fit(split)
    assert half.pair == pytest.approx(np.sqrt(full.pair))
    assert "experimental" in repr(half)
    assert "EXPERIMENTAL" in TemperedDensityRatioPropensity.__doc__


SPLIT, EXPOSURE = two_samples()
NOBODY = Exposure(EXPOSURE.user, EXPOSURE.item, np.zeros(len(EXPOSURE), dtype=bool), 60, 30)
BAD = {
    "one fold": (lambda: DensityRatioPropensity(cross_fit=1), r"cross_fit must be an integer >= 2"),
    "features that are no function": (lambda: DensityRatioPropensity(features="n*"), r"callable"),
    "unknown users": (lambda: DensityRatioPropensity(biased_users="some"), r"unknown value for biased_users"),
    "limit of 0": (lambda: DensityRatioPropensity(limit=0), r"limit must be in \(0, 1\]"),
    "power of 2": (lambda: TemperedDensityRatioPropensity(power=2), r"power must be in \(0, 1\]"),
    "another universe": (
        lambda: DensityRatioPropensity().fit(SPLIT, Exposure(*np.zeros((2, 1), int), np.array([True]), 1, 1)),
        r"the exposure has 1 users and 1 items, the split 60 and 30",
    ),
    "nothing liked": (
        lambda: DensityRatioPropensity().fit(SPLIT, NOBODY),
        r"leaves 0 random-exposure positives and \d+ held-out",
    ),
    "features of a wrong shape": (
        lambda: DensityRatioPropensity(features=lambda t, u, i: i).fit(SPLIT, EXPOSURE),
        r"features gave shape",
    ),
    "NaN features": (
        lambda: DensityRatioPropensity(features=lambda t, u, i: np.full((i.size, 1), np.nan)).fit(
            SPLIT, EXPOSURE
        ),
        r"features must be finite; (\d+) of \1 values",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_says_what_came(case):
    call, text = BAD[case]
    with pytest.raises(InputError, match=re.compile(text)):
        call()


# What the weights repair ----------------------------------------------------------------------------------

WORLDS = {
    "weak popularity bias": {
        "mean_relevant": 100,
        "gamma": -0.5,
        "max_propensity": 0.8,
        "popularity_skew": 0.5,
    },
    "strong popularity bias": {
        "mean_relevant": 120,
        "gamma": 0.2,
        "max_propensity": 1.0,
        "popularity_skew": 0.4,
    },
}
METRICS = ("atop", "recall@10")


def bias_left(options, seed: int, n_users: int = 2000) -> pd.DataFrame:
    """Return |estimate − truth| under snips-global by metric (mean over six recommenders) and weights."""
    world = World(n_users=n_users, n_items=400, n_factors=3, selection=1.5, rng=seed, **options)
    split = world.split(rng=seed + 100)
    shown = Exposure.from_ratings(world.expose(40, rng=seed + 200), threshold=4)
    tenth = np.random.default_rng(seed).choice(n_users, n_users // 10, replace=False)
    shown = shown.select(np.isin(shown.user, tenth))
    # The best that an item weight can do: each item's true mean propensity over the users who like it.
    n_relevant = np.bincount(world.relevant.item, minlength=400)
    with np.errstate(invalid="ignore"):
        by_item = np.bincount(world.relevant.item, world.relevant_propensity, 400) / n_relevant
    models = world.example_models(split, rng=1)
    truth = world.truth(models, METRICS, split)
    weights = {
        "item": KnownPropensity(item=by_item).fit(split),
        "pair": DensityRatioPropensity(rng=seed).fit(split, shown),
    }
    out = {}
    for name, propensity in weights.items():
        frame = ipseval.evaluate(
            models,
            split,
            propensity=propensity,
            metrics=METRICS,
            estimators=["snips-global"],
            on_low_ess="ignore",
        ).frame.merge(truth, on=["model", "metric"])
        out[name] = (frame.estimate - frame.ideal).abs().groupby(frame.metric).mean()
    return pd.DataFrame(out)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_exposure_of_a_tenth_of_the_users_halves_the_bias_that_true_item_weights_leave(world):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositivityWarning)
        tables = [bias_left(WORLDS[world], seed) for seed in range(6)]
    mean = sum(tables) / len(tables)
    assert (mean.pair < 0.5 * mean.item).all(), mean
    assert all((table.pair < table.item).all() for table in tables), tables


def test_exposure_of_a_tenth_of_the_users_lowers_the_bias_in_one_small_world():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositivityWarning)
        table = bias_left(WORLDS["weak popularity bias"], 0, n_users=1000)
    assert (table.pair < table.item).all(), table


def test_random_positives_have_the_propensity_that_other_users_give_to_their_kind():
    split, exposure = two_samples(seed=5)
    found = DensityRatioPropensity(features=is_low).fit(split, exposure)
    random = exposure.without(split.train)
    key = np.sort(random.pair_key[random.positive])
    assert np.array_equal(found.fit.random_key, key)
    # One feature of the item and one model per fold of users: held-out and random pairs of a user with the
    # same feature share their propensity.
    of_test = is_low(split.train, split.test.user, split.test.item)[:, 0]
    at_test = found.at(split.test.user, split.test.item)
    known = dict(zip(zip(split.test.user, of_test, strict=True), at_test, strict=True))
    user, item = key // split.n_items, key % split.n_items
    of_random = zip(user, is_low(split.train, user, item)[:, 0], strict=True)
    pairs = [
        (value, known[kind])
        for kind, value in zip(of_random, found.fit.random_propensity, strict=True)
        if kind in known
    ]
    assert len(pairs) > 20
    assert all(one == pytest.approx(other, rel=1e-12) for one, other in pairs)
