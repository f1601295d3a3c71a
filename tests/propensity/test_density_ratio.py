"""User × item weights from random exposure: features, odds, cross-fitting, and the bias they remove."""

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
def make_samples(n_users: int = 60, seed: int = 0):
    """Return a split and an exposure in which every user has training items, positives and exposures."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(n_users):
        items = rng.permutation(30)
        rows += [(user, i, "train") for i in items[:4]] + [(user, i, "test") for i in items[4:8]]
        rows += [(user, i, "shown") for i in items[8:16]]
    table = pd.DataFrame(rows, columns=["user", "item", "part"])
    parts = {name: part[["user", "item"]] for name, part in table.groupby("part")}
    split = Split.from_frames(parts["train"], parts["test"], users=np.arange(n_users), items=np.arange(30))
    exposures = parts["shown"].assign(positive=rng.random(len(parts["shown"])) < 0.6)
    return split, RandomExposure.from_frame(exposures, split)


def is_low(train, user, item):
    """Return one feature: whether the item's code is below 10."""
    return (item < 10).astype(float)[:, None]


def fit_ratio(split, exposure, **options):
    settings = {"rng": 0, "cross_fit": 4, **options}
    return DensityRatioPropensity(exposure, biased=split.test, **settings).fit(split.train)


@pytest.fixture(scope="module", name="fitted")
def fit_shared_propensity():
    return fit_ratio(*make_samples())


@pytest.fixture
def single_ridge(monkeypatch):
    """Fit with one ridge: seven of them take longer, and most tests do not depend on their number."""
    for file in ("cross_fitted_odds", "_density_ratio"):
        monkeypatch.setattr(f"ipseval.propensity.{file}.RIDGES", (1.0,))


def weights(propensity, log):
    return 1 / propensity.for_pairs(log.user, log.item)


def test_the_penalised_logistic_fit_equals_the_maximum_of_scipy():
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(200), rng.normal(size=(200, 3))])
    y = rng.random(200) < 0.4
    weight = rng.uniform(0.1, 3, 200)
    centre = np.array([0, 0.5, -0.5, 0])
    precision = np.array([1e-3, 4.0, 0.1, 30.0])

    def loss(b):
        return weight @ np.logaddexp(0, np.where(y, -1, 1) * (design @ b)) + precision @ (b - centre) ** 2 / 2

    expected = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-7}).x
    coefficients = fit_logistic(design, y, weight, centre, precision)
    assert coefficients == pytest.approx(expected, abs=1e-5)
    for start in (np.full(4, 3.0), np.full(4, -20.0)):  # so far away a whole step leads nowhere
        assert fit_logistic(design, y, weight, centre, precision, start) == pytest.approx(
            coefficients, abs=1e-9
        )


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
    (prior_slopes,) = fit_slopes(x, np.where(kind == RANDOM, UNIFORM, kind), np.ones(6000), (1.0,), None)
    assert (prior_slopes.slope.tolist(), prior_slopes.strength) == (
        (-0.4 * prior_slopes.odds[1:]).tolist(),
        0.4,
    )


@pytest.mark.usefixtures("single_ridge")  # the mixture of ridges reads all users
def test_no_user_is_weighted_by_a_model_that_was_fitted_to_its_exposure():
    split, exposure = make_samples()
    is_user = exposure.user == 7
    item = np.where(is_user, (exposure.item + 11) % 30, exposure.item)
    keep = ~np.isin(exposure.user * 30 + item, split.train.pair_key)
    changed_exposure = RandomExposure(exposure.user[keep], item[keep], exposure.positive[keep], 60, 30)
    propensity = fit_ratio(split, exposure)
    changed_propensity = fit_ratio(split, changed_exposure)
    is_user_pair = split.test.user == 7
    change = np.abs(weights(propensity, split.test) / weights(changed_propensity, split.test) - 1)
    assert change[is_user_pair].max() < 1e-12
    assert change[~is_user_pair].max() > 1e-4


@pytest.mark.usefixtures("single_ridge")
def test_the_models_of_all_folds_have_the_same_scale():
    split, exposure = make_samples()
    odds = fit_ratio(split, exposure, n_assignments=3, cross_fit=5).function
    x = odds.features(split.test.user, split.test.item)
    per_user = compute_user_weights(split.test.user, np.zeros(len(split.test), dtype=int))
    for assignment in range(3):
        for fold in range(5):
            free = np.minimum(x @ odds.slope[assignment, fold], odds.limit[assignment, fold])
            mean = np.average(np.exp(free - odds.level[assignment, fold]), weights=per_user)
            assert mean == pytest.approx(1)
            # The derivatives by the slopes: of the limit, the features of the pair at it; of the level, the
            # mean features of the pairs, or of that one beyond it, under the odds.
            limit_features = odds.limit_gradient[assignment, fold]
            assert limit_features @ odds.slope[assignment, fold] == pytest.approx(
                odds.limit[assignment, fold]
            )
            beyond = (x @ odds.slope[assignment, fold] > odds.limit[assignment, fold])[:, None]
            mean_features = np.average(
                np.where(beyond, limit_features, x), axis=0, weights=per_user * np.exp(free)
            )
            assert odds.level_gradient[assignment, fold] == pytest.approx(mean_features)


def test_exposures_that_are_training_pairs_are_left_out_and_counted(fitted):
    split, exposure = make_samples()
    larger_exposure = RandomExposure(
        np.concatenate([exposure.user, split.train.user[:5]]),
        np.concatenate([exposure.item, split.train.item[:5]]),
        np.concatenate([exposure.positive, np.ones(5, dtype=bool)]),
        split.n_users,
        split.n_items,
    )
    propensity = fit_ratio(split, larger_exposure)
    assert propensity.fit.n_dropped == 5
    assert np.array_equal(weights(fitted, split.test), weights(propensity, split.test))
    assert "5 exposures left out" in repr(propensity.fit)


def test_a_fit_is_reproducible_and_defined_for_every_pair(fitted):
    user, item = np.divmod(np.arange(60 * 30), 30)
    values = fitted.for_pairs(user, item)
    assert np.array_equal(fit_ratio(*make_samples()).for_pairs(user, item), values)
    assert np.isfinite(values).all()
    assert pickle.loads(pickle.dumps(fitted)).for_pairs(user, item) == pytest.approx(values)


@pytest.mark.usefixtures("single_ridge")
def test_without_held_out_positives_part_of_the_training_log_is_set_aside():
    split, exposure = make_samples()
    scores = np.random.default_rng(0).random((60, 30))
    options = {"metrics": ["recall@5"], "estimators": ["snips-global"]}
    model = DensityRatioPropensity(exposure, cross_fit=3, rng=0)
    inside = ipseval.evaluate({"m": scores}, split, propensity=model, **options).frame
    propensity = model.fit(split.train)
    ranks = {"m": ipseval.rank_positives(scores, split)}
    frame = ipseval.evaluate_ranks(ranks, propensity=propensity, **options).frame
    assert inside.estimate.item() == frame.estimate.item()
    assert propensity.fit.n_biased <= len(split.train)
    # Each of five parts has features of its own log, standardised over its own uniform pairs.
    problem = propensity.fit.problem
    part = np.cumsum(np.append(0, np.diff(problem.sample.kind) < 0))
    assert part[-1] == 4
    for number in range(5):
        features = problem.x[(part == number) & (problem.sample.kind == UNIFORM)]
        assert features.mean(axis=0) == pytest.approx(np.zeros(8), abs=1e-9)
        assert features.std(axis=0) == pytest.approx(np.ones(8))


def test_samples_that_do_not_differ_have_odds_of_one_and_an_auc_of_one_half():
    # Held-out and random positives are drawn alike: the slopes are noise only. 300 users.
    split, exposure = make_samples(300)
    propensity = fit_ratio(split, exposure, features=is_low)
    assert weights(propensity, split.test) == pytest.approx(1, abs=0.35)
    # Out of fold a noise slope is as often wrong as right: 1/2 ± 4·sqrt(1/12·(1/1200 + 1/1440)) or so.
    assert propensity.fit.auc == pytest.approx(0.5, abs=0.05)
    assert propensity.fit.uncovered_share <= 0.05
    assert propensity.fit.ess_share > 0.9


def test_the_calibration_gap_is_over_tenths_of_the_weight_in_the_order_of_the_odds():
    # Odds of 1, so that 1/2 of each tenth should be random. Of twenty equal pairs two make a tenth, which
    # has both kinds or, the other way round, two of one kind.
    log_odds = 1e-9 * np.arange(20.0)
    weight = np.full(20, 3.0)
    is_alternating = np.arange(20) % 2 == 0
    is_clustered = np.arange(20) % 4 < 2
    assert _compute_calibration_gap(log_odds, is_alternating, weight) == pytest.approx(0, abs=1e-8)
    assert _compute_calibration_gap(log_odds[::-1], is_clustered, weight) == pytest.approx(1 / 2, abs=1e-8)
    # Odds of 3 in the last tenth, 3/4 of which should be random, and all is: 1/4 of a tenth is missing.
    last = np.where(np.arange(20) < 18, log_odds, np.log(3))
    assert _compute_calibration_gap(last, is_alternating | (last > 1), weight) == pytest.approx(
        1 / 40, abs=1e-8
    )


def test_the_fit_describes_its_samples_and_its_weights():
    split, exposure = make_samples()
    biased = split.test.select((split.test.item + split.test.user) % 7 < 1 + split.test.user % 5)
    small_exposure = exposure.select(exposure.user < 31)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositivityWarning)
        propensity = DensityRatioPropensity(small_exposure, biased=biased, cross_fit=3, rng=0).fit(
            split.train
        )
    random_positives = small_exposure.select(small_exposure.positive)
    fit = propensity.fit
    biased_weights = weights(propensity, biased)
    random_weights = weights(propensity, random_positives)
    assert (fit.n_biased, fit.n_users) == (len(biased), np.unique(biased.user).size)
    assert (fit.n_random, fit.n_random_users) == (
        len(random_positives),
        np.unique(random_positives.user).size,
    )
    w, v = (
        1 / np.bincount(positives.user)[positives.user] / np.unique(positives.user).size
        for positives in (biased, random_positives)
    )
    share = (w @ biased_weights) ** 2 / ((w * biased_weights) ** 2).sum() * (w**2).sum()
    assert fit.ess_share == pytest.approx(share)
    assert fit.uncovered_share == pytest.approx(
        v @ (np.log(random_weights) > np.quantile(np.log(biased_weights), 0.99) + 1e-9)
    )
    all_weights = np.append(biased_weights, random_weights)
    kind = np.append(np.zeros(biased_weights.size), np.ones(random_weights.size)) > 0
    gap = _compute_calibration_gap(np.log(all_weights), kind, np.append(w, v))
    assert fit.calibration_gap == pytest.approx(gap)
    fold = fit.problem.fold[0]
    is_same_fold = fold[biased.user][:, None] == fold[random_positives.user]
    biased_score, random_score = np.round(np.log(biased_weights), 9), np.round(np.log(random_weights), 9)
    won = (random_score > biased_score[:, None]) + (random_score == biased_score[:, None]) / 2
    assert fit.auc == pytest.approx((w @ (won * is_same_fold) @ v) / (w @ is_same_fold @ v))
    models = fit.problem.solve()[1]
    assert fit.strength == pytest.approx(np.mean([model.strength for model in models]))
    assert fit.slope == pytest.approx(np.mean([model.slope for model in models], axis=0))
    assert np.log(fit.ridge) == pytest.approx(fit.problem.ridge_weights @ np.log(RIDGES))
    assert not propensity.is_probability
    assert len(fit.feature_names) == 8
    assert fit.feature_names[:4] == ("popularity", "popularity^2", "similarity", "similarity^2")


def test_a_fit_prints_its_samples_and_its_exclusions(fitted):
    numbers = {"n_random": 1200, "n_random_users": 30, "n_biased": 4000, "n_users": 1500, "strength": 0.456}
    shares = {
        "ridge": 12.34,
        "auc": 0.6789,
        "calibration_gap": 0.0123,
        "ess_share": 0.5,
        "uncovered_share": 0.034,
    }
    fit = replace(fitted.fit, **numbers, **shares, n_limited=0, n_dropped=0)
    lines = [
        "DensityRatioFit: 1,200 random positives of 30 users, 4,000 of the log of 1,500",
        "  strength 0.46, ridge 12.3; out of fold: AUC 0.679, calibration gap 0.012, effective share of the "
        "weights 50%, not covered 3.4%",
    ]
    assert repr(fit).splitlines() == lines
    extra_lines = repr(replace(fit, n_limited=1, n_dropped=2)).splitlines()[2:]
    assert extra_lines == [
        "  1 positives of the log held at the limit of the odds",
        "  2 exposures left out: also in the log",
    ]


@pytest.mark.usefixtures("single_ridge")
def test_uniform_pairs_are_drawn_for_each_user_of_the_log_outside_its_training_pairs(monkeypatch):
    split, exposure = make_samples()

    def count_pairs(model):
        sample = model.fit(split.train).fit.problem.sample
        key = (sample.user * 30 + sample.item)[sample.kind == UNIFORM]
        assert model.biased is None or not np.isin(key, split.train.pair_key).any()
        return [np.bincount(sample.user[sample.kind == number], minlength=60) for number in (0, 1, 2)]

    settings = {"features": is_low, "cross_fit": 2, "rng": 0}
    n_biased, n_random, n_uniform = count_pairs(
        DensityRatioPropensity(exposure, split.test, n_uniform=7, **settings)
    )
    assert (n_biased == 4).all()
    assert n_random.sum() == exposure.positive.sum()
    assert n_uniform.max() == 7  # less what falls on training pairs
    # A fifth of four positives is one, five times; and of six pairs a fifth, which is two, five times.
    n_biased, n_random_pairs, n_uniform = count_pairs(
        DensityRatioPropensity(exposure, n_uniform=6, **settings)
    )
    assert n_biased.sum() == pytest.approx(5 * 48, abs=60)
    assert n_random_pairs.tolist() == (5 * n_random).tolist()
    assert n_uniform.max() == 10
    for limit, n_pairs in ((180, 3), (1, 1)):  # of all users together
        monkeypatch.setattr("ipseval.propensity._density_ratio.MAX_UNIFORM", limit)
        assert count_pairs(DensityRatioPropensity(exposure, split.test, **settings))[2].max() == n_pairs


@pytest.mark.usefixtures("single_ridge")
def test_a_constant_feature_has_slope_zero_and_new_pairs_are_computed_again():
    split, exposure = make_samples()

    def with_constants(train, user, item):
        return np.column_stack([is_low(train, user, item), np.full(item.size, 0.1), np.zeros(item.size)])

    propensity, extended_propensity = (
        fit_ratio(split, exposure, features=make) for make in (is_low, with_constants)
    )
    assert propensity.fit.feature_names == ("x1",)
    assert extended_propensity.fit.feature_names == ("x1", "x2", "x3")
    assert extended_propensity.fit.slope[1:].tolist() == [0, 0]
    assert weights(extended_propensity, split.test) == pytest.approx(weights(propensity, split.test))
    user = np.array([0, 1])
    item = np.array([3, 12])
    queries = [(user, item), (user, item[::-1]), (user[::-1], item[::-1]), (user, item), (user, user)]
    answers = [propensity.for_pairs(*pairs).tolist() for pairs in queries]
    assert answers == [
        [propensity.for_pairs(*np.array([[u], [i]])).item() for u, i in zip(*pairs, strict=True)]
        for pairs in queries
    ]
    assert answers[0] != answers[1]


@pytest.mark.usefixtures("single_ridge")
def test_folds_are_balanced_separately_over_users_with_random_positives():
    split, exposure = make_samples()
    fold = fit_ratio(split, exposure.select(exposure.user < 22), n_assignments=2).fit.problem.fold
    assert fold.shape == (2, 60)
    for row in fold:
        assert sorted(np.bincount(row[:22])) == [5, 5, 6, 6]
        assert sorted(np.bincount(row[22:])) == [9, 9, 10, 10]
    assert (fold[0] != fold[1]).any()


@pytest.mark.usefixtures("single_ridge")
def test_odds_are_limited_at_the_quantile_of_the_log_and_the_number_is_reported():
    split, exposure = make_samples(seed=5)
    free, limited = (fit_ratio(split, exposure, limit=limit) for limit in (None, 0.8))
    odds = limited.function
    x = odds.features(split.test.user, split.test.item)
    n_above = n_at_least = 0
    for fold in range(4):
        values = x @ odds.slope[0, fold]
        limit = odds.limit[0, fold]
        # Every user has four held-out positives, so that all weigh alike: at most a fifth is above.
        assert (values > limit + 1e-12).mean() <= 0.2 <= (values > limit - 1e-12).mean()
        is_fold = odds.fold[0, split.test.user] == fold
        expected = np.exp(np.minimum(values, limit) - odds.level[0, fold])[is_fold]
        assert weights(limited, split.test)[is_fold] == pytest.approx(expected)
        n_above += int((values > limit + 1e-12)[is_fold].sum())
        n_at_least += int((values > limit - 1e-12)[is_fold].sum())
    assert 0.1 * len(split.test) < n_above <= limited.fit.n_limited <= n_at_least
    assert free.fit.n_limited == 0
    assert fit_ratio(split, exposure, limit=1.0).fit.n_limited <= 4  # in each fold the largest, by rounding
    # In two of three assignments, or in all of them.
    limited = fit_ratio(split, exposure, limit=0.8, n_assignments=3)
    odds = limited.function
    user = split.test.user
    x = odds.features(user, split.test.item)
    n_limited = np.zeros(len(split.test))
    for place in range(3):
        free = (x * odds.slope[place, odds.fold[place, user]]).sum(axis=1)
        n_limited += free > odds.limit[place, odds.fold[place, user]] + 1e-12
    assert (n_limited >= 2).sum() <= limited.fit.n_limited <= (n_limited >= 2).sum() + 12


@pytest.mark.usefixtures("single_ridge")
def test_samples_that_features_separate_warn_of_poor_overlap():
    split, exposure = make_samples(seed=1)

    def separate_samples(train, user, item):
        return (np.isin(user * 30 + item, split.test.pair_key) * 1.0 + 1e-3 * item)[:, None]

    with pytest.warns(PositivityWarning, match="covers the random positives poorly") as caught:
        propensity = fit_ratio(split, exposure, features=separate_samples)
    assert np.isfinite(weights(propensity, split.test)).all()
    assert caught[0].filename == __file__
    shares = [
        f"leave {propensity.fit.ess_share:.0%} of the",
        f"and {propensity.fit.uncovered_share:.0%} of the",
    ]
    assert all(share in str(caught[0].message) for share in shares)


@pytest.mark.filterwarnings("ignore::ipseval.errors.PositivityWarning")
@pytest.mark.parametrize("n_users", [1, 3])
def test_a_handful_of_users_with_exposure_or_of_the_log_gives_a_fit(n_users):
    split, exposure = make_samples()
    propensity = fit_ratio(split, exposure.select(exposure.user < n_users))
    assert np.isfinite(weights(propensity, split.test)).all()
    positives = split.test.select(split.test.user < n_users)
    model = DensityRatioPropensity(exposure, biased=positives, cross_fit=8, rng=0)
    propensity = model.fit(split.train)
    assert np.isfinite(weights(propensity, positives)).all()
    assert propensity.function.slope.any(axis=2).all()  # a single user of the log is in all models


def test_a_refit_to_the_same_users_is_the_fit_and_resamples_move_it(fitted):
    log = make_samples()[0].test
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


def compute_remaining_bias(options, seed: int, n_users: int = 2000, cross_fit: int = 20) -> pd.DataFrame:
    """Return |estimate − truth| under snips-global by metric (mean over six recommenders) and weights."""
    world = World(n_users=n_users, n_items=400, n_factors=3, selection=1.5, rng=seed, **options)
    split = world.split(rng=seed + 100)
    exposure = RandomExposure.from_ratings(world.expose(40, rng=seed + 200), threshold=4)
    tenth = np.random.default_rng(seed).choice(n_users, n_users // 10, replace=False)
    exposure = exposure.select(np.isin(exposure.user, tenth))
    # The best that an item weight can do: each item's true mean propensity over the users who like it.
    n_relevant = np.bincount(world.relevant.item, minlength=400)
    with np.errstate(invalid="ignore"):
        item_propensity = np.bincount(world.relevant.item, world.relevant_propensity, 400) / n_relevant
    models = world.example_models(split, rng=1)
    truth = world.truth(models, METRICS, split)
    weights = {
        "item": KnownPropensity(item=item_propensity).fit(split),
        "pair": fit_ratio(split, exposure, rng=seed, cross_fit=cross_fit),
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
        tables = [compute_remaining_bias(WORLDS[world], seed) for seed in range(6)]
    mean = sum(tables) / len(tables)
    assert (mean.pair < 0.5 * mean.item).all(), mean
    assert all((table.pair < table.item).all() for table in tables), tables


def test_exposure_of_a_tenth_of_the_users_lowers_the_bias_in_one_small_world():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositivityWarning)
        table = compute_remaining_bias(WORLDS["weak popularity bias"], 0, n_users=200, cross_fit=3)
    assert (table.pair < table.item).all(), table
