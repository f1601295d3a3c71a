"""Capture and recapture: by hand, where its condition holds, and where it is stated to fail."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import ipseval
from ipseval import Interactions
from ipseval.errors import InputError, PropensityError
from ipseval.propensity import RecapturePropensity
from ipseval.simulation import World


def two_periods(world: World, rng: np.random.Generator) -> tuple[Interactions, Interactions]:
    """Return the relevant pairs that are met in either period, independently given the pair."""
    first, second = (rng.random(len(world.relevant)) < world.relevant_propensity for _ in range(2))
    return world.relevant.select(first), world.relevant.select(second)


def a_world(**changed) -> World:
    return World(n_users=2000, n_items=60, mean_relevant=20, max_propensity=0.8, rng=0, **changed)


def test_it_is_the_share_met_again_shrunk_to_popularity():
    taken, met = np.array([10, 4, 20, 7, 12]), np.array([5, 1, 16, 1, 9])
    frame = pd.DataFrame(
        {"user": np.concatenate([*map(np.arange, taken)]), "item": np.repeat([*"abcde"], taken)}
    )
    train = Interactions.from_frame(frame)
    again = train.select(np.concatenate([np.arange(n) < m for n, m in zip(taken, met, strict=True)]))
    strict, loose = (RecapturePropensity(again, shrinkage=k).fit(train) for k in (1e-9, 6.0))
    np.testing.assert_allclose(strict.item, met / taken, atol=1e-6)
    assert strict.is_probability
    assert (strict.fit.n_again, strict.fit.n_pairs) == (32, 53)
    # P = (m + 6 λ)/(n + 6), and λ is a logistic regression on log(n + ½) and its square, the square with a
    # normal prior.
    x = np.log(taken + 0.5)
    x = (x - x.mean()) / x.std()

    def loss(slope):
        line = slope[0] + slope[1] * x + slope[2] * x**2
        return (taken * np.log1p(np.exp(line)) - met * line).sum() + slope[2] ** 2 / 2

    slope = minimize(loss, np.zeros(3)).x
    chance = 1 / (1 + np.exp(-(slope[0] + slope[1] * x + slope[2] * x**2)))
    np.testing.assert_allclose(loose.item, (met + 6 * chance) / (taken + 6), atol=2e-4)


def test_repeated_rows_of_a_period_count_once():
    frame = pd.DataFrame({"user": [1, 1, 2, 3, 4], "item": ["a"] * 5})
    train = Interactions.from_frame(frame, duplicates="keep")
    found = RecapturePropensity(train.select([0, 1]), shrinkage=1e-9).fit(train)
    assert found.item[0] == pytest.approx(1 / 4)


def test_it_finds_the_chances_of_the_items_on_their_true_scale():
    world = a_world(gamma=0.5)
    first, second = two_periods(world, np.random.default_rng(1))
    truth, seen = world.item_propensity, first.popularity
    some = seen > 30
    for shrinkage in (1e-9, "fit"):
        found = RecapturePropensity(second, shrinkage=shrinkage).fit(first).item
        # 4 standard errors of the share of n users.
        error = np.sqrt(truth * (1 - truth) / np.maximum(seen, 1))
        assert (np.abs(found - truth)[some] < 4 * error[some]).all()


def removed(world: World, rng: np.random.Generator) -> float:
    """Return the share of AOA's error of the level that the weights remove, mean over recommenders."""
    first, second = two_periods(world, rng)
    new = second.select(~np.isin(second.pair_key, first.pair_key))
    split = ipseval.Split(first, new)
    models = world.example_models(split, rng=2)
    found = ipseval.evaluate(
        models,
        split,
        propensity=RecapturePropensity(second),
        metrics=["recall@5"],
        estimators=["aoa-pooled", "snips-pooled"],
        on_low_ess="ignore",
    ).frame.set_index(["model", "metric"])
    truth = world.truth(models, ["recall@5"], split).set_index(["model", "metric"])["ideal_pooled"]
    error = {
        name: (part["estimate"] - truth.loc[part.index]).abs().mean()
        for name, part in found.groupby("estimator")
    }
    return 1 - error["snips-pooled"] / error["aoa-pooled"]


def test_the_bias_goes_where_periods_are_independent_given_the_item_and_stays_where_they_are_not():
    rng = np.random.default_rng(3)
    assert removed(a_world(gamma=0.5), rng) > 0.85
    # Personal selection: who meets an item once meets it again, beyond what the item says.
    personal = a_world(gamma=0.5, selection=2.5)
    assert removed(personal, rng) < 0.7
    first, second = two_periods(personal, rng)
    found = RecapturePropensity(second).fit(first).item
    true = personal.relevant_propensity
    assert found[personal.relevant.item].mean() > 1.3 * true.mean()  # too high, as stated


@pytest.mark.parametrize(
    ("again", "error", "message"),
    [
        ([], InputError, "0 of 3 pairs"),
        ([0, 1, 2], InputError, "3 of 3 pairs"),
    ],
)
def test_without_some_that_repeat_and_some_that_do_not_it_says_so(again, error, message):
    train = Interactions.from_frame(pd.DataFrame({"user": [1, 2, 3], "item": ["a", "a", "b"]}))
    with pytest.raises(error, match=message):
        RecapturePropensity(train.select(np.array(again, dtype=int))).fit(train)


def test_other_ids_and_other_things_are_refused():
    train = Interactions.from_frame(pd.DataFrame({"user": [1, 2, 3], "item": ["a", "a", "b"]}))
    other = Interactions.from_frame(pd.DataFrame({"user": [1, 2, 3], "item": ["a", "a", "c"]}))
    with pytest.raises(PropensityError, match="same item ids"):
        RecapturePropensity(other).fit(train)
    with pytest.raises(InputError, match="again"):
        RecapturePropensity("log.csv")
    with pytest.raises(InputError, match="shrinkage"):
        RecapturePropensity(train, shrinkage=-1.0)
