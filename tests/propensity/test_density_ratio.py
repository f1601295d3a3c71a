"""User × item weights from random exposure: features, odds, cross-fitting, and what they repair."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import ipseval
from ipseval.data import RandomExposure
from ipseval.data.splits import Split
from ipseval.errors import PositivityWarning
from ipseval.propensity import DensityRatioPropensity, KnownPropensity
from ipseval.validation.simulation import World
from tests.inside.propensity import (
    BIASED,
    RANDOM,
    RIDGES,
    UNIFORM,
    _compute_calibration_gap,
    compute_user_weights,
    fit_logistic,
    fit_slopes,
)

# Odds -----------------------------------------------------------------------------------------------------


@cache
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
    return split, RandomExposure.from_frame(shown, split)


def is_low(train, user, item):
    """One feature: whether the item's code is below 10."""
    return (item < 10).astype(float)[:, None]


def ratio(split, exposure, **options):
    given = {"rng": 0, "cross_fit": 4, **options}
    return DensityRatioPropensity(exposure, biased=split.test, **given).fit(split.train)


@pytest.fixture(scope="module", name="fitted")
def fitted_weights():
    return ratio(*two_samples())


@pytest.fixture
def one_ridge(monkeypatch):
    """Seven of them take longer, and say nothing of what is read, dealt, held or scaled."""
    for file in ("cross_fitted_odds", "_density_ratio"):
        monkeypatch.setattr(f"ipseval.propensity.{file}.RIDGES", (1.0,))


def weights(found, log):
    return 1 / found.at(log.user, log.item)


def test_the_penalised_logistic_fit_is_the_maximum_that_scipy_finds():
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(200), rng.normal(size=(200, 3))])
    y, weight = rng.random(200) < 0.4, rng.uniform(0.1, 3, 200)
    centre, precision = np.array([0, 0.5, -0.5, 0]), np.array([1e-3, 4.0, 0.1, 30.0])

    def loss(b):
        return weight @ np.logaddexp(0, np.where(y, -1, 1) * (design @ b)) + precision @ (b - centre) ** 2 / 2

    expected = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-7}).x
    found = fit_logistic(design, y, weight, centre, precision)
    assert found == pytest.approx(expected, abs=1e-5)
    for start in (np.full(4, 3.0), np.full(4, -20.0)):  # so far away a whole step leads nowhere
        assert fit_logistic(design, y, weight, centre, precision, start) == pytest.approx(found, abs=1e-9)


def test_a_large_ridge_leaves_the_tempered_direction_and_a_small_one_the_free_fit():
    rng = np.random.default_rng(3)
    kind = np.repeat([BIASED, RANDOM, UNIFORM], 2000)
    x = rng.normal(size=(6000, 2)) + np.array([[1.0, 0.0], [0.5, 0.8], [0.0, 0.0]])[kind]
    stiff, free = fit_slopes(x, kind, np.ones(6000), (1e8, 1e-6), None)
    assert stiff.slope == pytest.approx(-stiff.strength * stiff.odds[1:], abs=1e-4)
    # Normal samples of equal variance: the log odds have the difference of means, (−.5, .8), as slopes.
    assert free.slope == pytest.approx([-0.5, 0.8], abs=0.15)
    # So do those of the log against uniform pairs, (1, 0), with −1²/2; along them the random ones have −.5.
    assert stiff.odds == pytest.approx([-0.5, 1, 0], abs=0.15)
    assert stiff.strength == pytest.approx(0.5, abs=0.15)
    (alone,) = fit_slopes(x, np.where(kind == RANDOM, UNIFORM, kind), np.ones(6000), (1.0,), None)
    assert (alone.slope.tolist(), alone.strength) == ((-0.4 * alone.odds[1:]).tolist(), 0.4)


@pytest.mark.usefixtures("one_ridge")  # the mixture of ridges reads all users
def test_no_user_is_weighted_by_a_model_that_has_seen_its_exposure():
    split, exposure = two_samples()
    own = exposure.user == 7
    item = np.where(own, (exposure.item + 11) % 30, exposure.item)
    keep = ~np.isin(exposure.user * 30 + item, split.train.pair_key)
    moved = RandomExposure(exposure.user[keep], item[keep], exposure.positive[keep], 60, 30)
    one, other = ratio(split, exposure), ratio(split, moved)
    of_user = split.test.user == 7
    change = np.abs(weights(one, split.test) / weights(other, split.test) - 1)
    assert change[of_user].max() < 1e-12
    assert change[~of_user].max() > 1e-4


@pytest.mark.usefixtures("one_ridge")
def test_all_models_are_on_one_scale():
    split, exposure = two_samples()
    odds = ratio(split, exposure, n_assignments=3, cross_fit=5).function
    x = odds.features(split.test.user, split.test.item)
    per_user = compute_user_weights(split.test.user, np.zeros(len(split.test), dtype=int))
    for assignment in range(3):
        for fold in range(5):
            free = np.minimum(x @ odds.slope[assignment, fold], odds.limit[assignment, fold])
            mean = np.average(np.exp(free - odds.level[assignment, fold]), weights=per_user)
            assert mean == pytest.approx(1)
            # The derivatives by the slopes: of the limit, the features of the pair at it; of the level, the
            # mean features of the pairs, or of that one beyond it, under the odds.
            bound = odds.limit_gradient[assignment, fold]
            assert bound @ odds.slope[assignment, fold] == pytest.approx(odds.limit[assignment, fold])
            beyond = (x @ odds.slope[assignment, fold] > odds.limit[assignment, fold])[:, None]
            moved = np.average(np.where(beyond, bound, x), axis=0, weights=per_user * np.exp(free))
            assert odds.level_gradient[assignment, fold] == pytest.approx(moved)


def test_exposures_that_are_training_pairs_are_left_out_and_counted(fitted):
    split, exposure = two_samples()
    more = RandomExposure(
        np.concatenate([exposure.user, split.train.user[:5]]),
        np.concatenate([exposure.item, split.train.item[:5]]),
        np.concatenate([exposure.positive, np.ones(5, dtype=bool)]),
        split.n_users,
        split.n_items,
    )
    other = ratio(split, more)
    assert other.fit.n_dropped == 5
    assert np.array_equal(weights(fitted, split.test), weights(other, split.test))
    assert "5 exposures left out" in repr(other.fit)


def test_fit_repeats_with_its_seed_and_knows_every_pair(fitted):
    user, item = np.divmod(np.arange(60 * 30), 30)
    found = fitted.at(user, item)
    assert np.array_equal(ratio(*two_samples()).at(user, item), found)
    assert np.isfinite(found).all()
    assert pickle.loads(pickle.dumps(fitted)).at(user, item) == pytest.approx(found)


@pytest.mark.usefixtures("one_ridge")
def test_without_held_out_positives_a_part_of_the_training_log_stands_for_them():
    split, exposure = two_samples()
    scores = np.random.default_rng(0).random((60, 30))
    options = {"metrics": ["recall@5"], "estimators": ["snips-global"]}
    model = DensityRatioPropensity(exposure, cross_fit=3, rng=0)
    inside = ipseval.evaluate({"m": scores}, split, propensity=model, **options).frame
    fitted, ranks = model.fit(split.train), {"m": ipseval.rank_positives(scores, split)}
    before = ipseval.evaluate_ranks(ranks, propensity=fitted, **options).frame
    assert inside.estimate.item() == before.estimate.item()
    assert fitted.fit.n_biased <= len(split.train)
    # Each of five parts has features of its own log, standardised over its own uniform pairs.
    problem = fitted.fit.problem
    part = np.cumsum(np.append(0, np.diff(problem.sample.kind) < 0))
    assert part[-1] == 4
    for number in range(5):
        own = problem.x[(part == number) & (problem.sample.kind == UNIFORM)]
        assert own.mean(axis=0) == pytest.approx(np.zeros(8), abs=1e-9)
        assert own.std(axis=0) == pytest.approx(np.ones(8))


def test_samples_that_do_not_differ_have_odds_of_one_and_an_auc_of_one_half():
    # Held-out and random positives are drawn alike: the slopes are noise only. 300 users.
    split, exposure = two_samples(300)
    found = ratio(split, exposure, features=is_low)
    assert weights(found, split.test) == pytest.approx(1, abs=0.35)
    # Out of fold a noise slope is as often wrong as right: 1/2 ± 4·sqrt(1/12·(1/1200 + 1/1440)) or so.
    assert found.fit.auc == pytest.approx(0.5, abs=0.05)
    assert found.fit.uncovered <= 0.05
    assert found.fit.ess_share > 0.9


def test_the_calibration_gap_is_over_tenths_of_the_weight_in_the_order_of_the_odds():
    # Odds of 1, so that 1/2 of each tenth should be random. Of twenty equal pairs two make a tenth, which
    # has both kinds or, the other way round, two of one kind.
    rising, weight = 1e-9 * np.arange(20.0), np.full(20, 3.0)
    mixed, apart = np.arange(20) % 2 == 0, np.arange(20) % 4 < 2
    assert _compute_calibration_gap(rising, mixed, weight) == pytest.approx(0, abs=1e-8)
    assert _compute_calibration_gap(rising[::-1], apart, weight) == pytest.approx(1 / 2, abs=1e-8)
    # Odds of 3 in the last tenth, 3/4 of which should be random, and all is: 1/4 of a tenth is missing.
    last = np.where(np.arange(20) < 18, rising, np.log(3))
    assert _compute_calibration_gap(last, mixed | (last > 1), weight) == pytest.approx(1 / 40, abs=1e-8)


def test_the_fit_describes_its_samples_and_how_far_the_weights_go():
    split, exposure = two_samples()
    few = split.test.select((split.test.item + split.test.user) % 7 < 1 + split.test.user % 5)
    shown = exposure.select(exposure.user < 31)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositivityWarning)
        found = DensityRatioPropensity(shown, biased=few, cross_fit=3, rng=0).fit(split.train)
    liked = shown.select(shown.positive)
    fit, own, random = found.fit, weights(found, few), weights(found, liked)
    assert (fit.n_biased, fit.n_users) == (len(few), np.unique(few.user).size)
    assert (fit.n_random, fit.n_random_users) == (len(liked), np.unique(liked.user).size)
    w, v = (1 / np.bincount(one.user)[one.user] / np.unique(one.user).size for one in (few, liked))
    share = (w @ own) ** 2 / ((w * own) ** 2).sum() * (w**2).sum()
    assert fit.ess_share == pytest.approx(share)
    assert fit.uncovered == pytest.approx(v @ (random > np.exp(np.quantile(np.log(own), 0.99))))
    both, kind = np.append(own, random), np.append(np.zeros(own.size), np.ones(random.size)) > 0
    gap = _compute_calibration_gap(np.log(both), kind, np.append(w, v))
    assert fit.calibration_gap == pytest.approx(gap)
    fold = fit.problem.fold[0]
    same = fold[few.user][:, None] == fold[liked.user]
    won = (random > own[:, None]) + (random == own[:, None]) / 2
    assert fit.auc == pytest.approx((w @ (won * same) @ v) / (w @ same @ v))
    models = fit.problem.solve()[1]
    assert fit.strength == pytest.approx(np.mean([one.strength for one in models]))
    assert fit.slope == pytest.approx(np.mean([one.slope for one in models], axis=0))
    assert np.log(fit.ridge) == pytest.approx(fit.problem.ridge_weights @ np.log(RIDGES))
    assert not found.is_probability
    assert len(fit.feature_names) == 8
    assert fit.feature_names[:4] == ("popularity", "popularity^2", "similarity", "similarity^2")


def test_a_fit_prints_what_it_read_and_what_it_left_out(fitted):
    numbers = {"n_random": 1200, "n_random_users": 30, "n_biased": 4000, "n_users": 1500, "strength": 0.456}
    shares = {"ridge": 12.34, "auc": 0.6789, "calibration_gap": 0.0123, "ess_share": 0.5, "uncovered": 0.034}
    fit = replace(fitted.fit, **numbers, **shares, n_limited=0, n_dropped=0)
    lines = [
        "DensityRatioFit: 1,200 random positives of 30 users, 4,000 of the log of 1,500",
        "  strength 0.46, ridge 12.3; out of fold: AUC 0.679, calibration gap 0.012, effective share of the "
        "weights 50%, not covered 3.4%",
    ]
    assert repr(fit).splitlines() == lines
    more = repr(replace(fit, n_limited=1, n_dropped=2)).splitlines()[2:]
    assert more == [
        "  1 positives of the log held at the limit of the odds",
        "  2 exposures left out: also in the log",
    ]


@pytest.mark.usefixtures("one_ridge")
def test_uniform_pairs_are_drawn_for_each_user_of_the_log_outside_its_training_pairs(monkeypatch):
    split, exposure = two_samples()

    def drawn(model):
        sample = model.fit(split.train).fit.problem.sample
        key = (sample.user * 30 + sample.item)[sample.kind == UNIFORM]
        assert model.biased is None or not np.isin(key, split.train.pair_key).any()
        return [np.bincount(sample.user[sample.kind == one], minlength=60) for one in (0, 1, 2)]

    given = {"features": is_low, "cross_fit": 2, "rng": 0}
    biased, random, uniform = drawn(DensityRatioPropensity(exposure, split.test, n_uniform=7, **given))
    assert (biased == 4).all()
    assert random.sum() == exposure.positive.sum()
    assert uniform.max() == 7  # less what falls on training pairs
    # A fifth of four positives is one, five times; and of six pairs a fifth, which is two, five times.
    biased, twice, uniform = drawn(DensityRatioPropensity(exposure, n_uniform=6, **given))
    assert biased.sum() == pytest.approx(5 * 48, abs=60)
    assert twice.tolist() == (5 * random).tolist()
    assert uniform.max() == 10
    for most, each in ((180, 3), (1, 1)):  # of all users together
        monkeypatch.setattr("ipseval.propensity._density_ratio.MAX_UNIFORM", most)
        assert drawn(DensityRatioPropensity(exposure, split.test, **given))[2].max() == each


@pytest.mark.usefixtures("one_ridge")
def test_a_feature_that_does_not_vary_has_no_slope_and_pairs_are_asked_for_anew():
    split, exposure = two_samples()

    def with_constants(train, user, item):
        return np.column_stack([is_low(train, user, item), np.full(item.size, 0.1), np.zeros(item.size)])

    one, more = (ratio(split, exposure, features=make) for make in (is_low, with_constants))
    assert one.fit.feature_names == ("x1",)
    assert more.fit.feature_names == ("x1", "x2", "x3")
    assert more.fit.slope[1:].tolist() == [0, 0]
    assert weights(more, split.test) == pytest.approx(weights(one, split.test))
    user, item = np.array([0, 1]), np.array([3, 12])
    asked = [(user, item), (user, item[::-1]), (user[::-1], item[::-1]), (user, item), (user, user)]
    found = [one.at(*pairs).tolist() for pairs in asked]
    assert found == [
        [one.at(*np.array([[u], [i]])).item() for u, i in zip(*pairs, strict=True)] for pairs in asked
    ]
    assert found[0] != found[1]


@pytest.mark.usefixtures("one_ridge")
def test_users_are_dealt_evenly_into_folds_those_with_random_positives_for_themselves():
    split, exposure = two_samples()
    fold = ratio(split, exposure.select(exposure.user < 22), n_assignments=2).fit.problem.fold
    assert fold.shape == (2, 60)
    for row in fold:
        assert sorted(np.bincount(row[:22])) == [5, 5, 6, 6]
        assert sorted(np.bincount(row[22:])) == [9, 9, 10, 10]
    assert (fold[0] != fold[1]).any()


@pytest.mark.usefixtures("one_ridge")
def test_odds_are_held_at_the_quantile_of_the_log_and_the_number_is_reported():
    split, exposure = two_samples(seed=5)
    free, held = (ratio(split, exposure, limit=limit) for limit in (None, 0.8))
    odds = held.function
    x = odds.features(split.test.user, split.test.item)
    n_above = n_at_least = 0
    for fold in range(4):
        values, limit = x @ odds.slope[0, fold], odds.limit[0, fold]
        # Every user has four held-out positives, so that all weigh alike: at most a fifth is above.
        assert (values > limit + 1e-12).mean() <= 0.2 <= (values > limit - 1e-12).mean()
        own = odds.fold[0, split.test.user] == fold
        expected = np.exp(np.minimum(values, limit) - odds.level[0, fold])[own]
        assert weights(held, split.test)[own] == pytest.approx(expected)
        n_above += int((values > limit + 1e-12)[own].sum())
        n_at_least += int((values > limit - 1e-12)[own].sum())
    assert 0.1 * len(split.test) < n_above <= held.fit.n_limited <= n_at_least
    assert free.fit.n_limited == 0
    assert ratio(split, exposure, limit=1.0).fit.n_limited <= 4  # in each fold the largest, by rounding
    # In two of three assignments, or in all of them.
    held = ratio(split, exposure, limit=0.8, n_assignments=3)
    odds, user = held.function, split.test.user
    x, above = odds.features(user, split.test.item), np.zeros(len(split.test))
    for place in range(3):
        free = (x * odds.slope[place, odds.fold[place, user]]).sum(axis=1)
        above += free > odds.limit[place, odds.fold[place, user]] + 1e-12
    assert (above >= 2).sum() <= held.fit.n_limited <= (above >= 2).sum() + 12


@pytest.mark.usefixtures("one_ridge")
def test_samples_that_features_tell_apart_warn_of_poor_overlap():
    split, exposure = two_samples(seed=1)

    def tell_apart(train, user, item):
        return (np.isin(user * 30 + item, split.test.pair_key) * 1.0 + 1e-3 * item)[:, None]

    with pytest.warns(PositivityWarning, match="covers the random positives poorly") as caught:
        found = ratio(split, exposure, features=tell_apart)
    assert np.isfinite(weights(found, split.test)).all()
    assert caught[0].filename == __file__
    shares = [f"leave {found.fit.ess_share:.0%} of the", f"and {found.fit.uncovered:.0%} of the"]
    assert all(share in str(caught[0].message) for share in shares)


@pytest.mark.filterwarnings("ignore::ipseval.errors.PositivityWarning")
@pytest.mark.parametrize("n_users", [1, 3])
def test_a_handful_of_users_with_exposure_or_of_the_log_gives_a_fit(n_users):
    split, exposure = two_samples()
    found = ratio(split, exposure.select(exposure.user < n_users))
    assert np.isfinite(weights(found, split.test)).all()
    few = split.test.select(split.test.user < n_users)
    model = DensityRatioPropensity(exposure, biased=few, cross_fit=8, rng=0)
    found = model.fit(split.train)
    assert np.isfinite(weights(found, few)).all()
    assert found.function.slope.any(axis=2).all()  # a single user of the log is in all models


def test_a_refit_to_the_same_users_is_the_fit_and_resamples_move_it(fitted):
    log = two_samples()[0].test
    again = fitted.fit.refit(np.ones(60, dtype=int))
    assert weights(again, log) == pytest.approx(weights(fitted, log), rel=1e-6)
    counts = np.random.default_rng(0).multinomial(60, np.full(60, 1 / 60))
    assert np.abs(weights(fitted.fit.refit(counts), log) / weights(fitted, log) - 1).max() > 0.01


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


def bias_left(options, seed: int, n_users: int = 2000, cross_fit: int = 20) -> pd.DataFrame:
    """Return |estimate − truth| under snips-global by metric (mean over six recommenders) and weights."""
    world = World(n_users=n_users, n_items=400, n_factors=3, selection=1.5, rng=seed, **options)
    split = world.split(rng=seed + 100)
    shown = RandomExposure.from_ratings(world.expose(40, rng=seed + 200), threshold=4)
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
        "pair": ratio(split, shown, rng=seed, cross_fit=cross_fit),
    }
    ranks = {name: ipseval.rank_positives(model, split) for name, model in models.items()}
    out = {}
    for name, propensity in weights.items():
        frame = ipseval.evaluate_ranks(
            ranks, propensity=propensity, metrics=METRICS, estimators=["snips-global"], low_ess="ignore"
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
        table = bias_left(WORLDS["weak popularity bias"], 0, n_users=200, cross_fit=3)
    assert (table.pair < table.item).all(), table
