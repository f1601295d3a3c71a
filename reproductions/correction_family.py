"""Simulated worlds for the correction strength: a family of exposures, and what is needed of each world.

Kinds of exposure: uniform; by popularity; by taste; by self-selection (what is rated highly is reported);
by activity (users differ in how much they are observed) and popularity; mixtures of all; and time (the
popularity of exposure changes between the training and the test period).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipseval import Interactions, Split, metric, rank_positives
from ipseval.correction import CorrectionPath, correction_path
from ipseval.ranking import RankedPositives, baselines
from ipseval.validation.simulation import World

METRICS = ("atop", "recall@5", "mean_dcg@10")
KINDS = ("uniform", "popularity", "taste", "self-selection", "activity", "mixture", "time")


@dataclass(frozen=True)
class Setting:
    """Sizes and recommenders of a family of worlds."""

    n_users: tuple[int, ...]
    n_items: tuple[int, ...]
    relevant_share: tuple[float, ...]
    neighbours: tuple[int, int]
    ridges: tuple[float, float]
    factors: tuple[int, int]
    kinds: tuple[str, ...]


SHARES = (0.04, 0.07, 0.12)
PRIOR = Setting((800, 1600, 3200), (200, 300, 500), SHARES, (10, 100), (10.0, 500.0), (4, 32), KINDS[:-1])
HELD_OUT = Setting((2000, 2500, 4000), (250, 400), (0.05, 0.1), (20, 60), (30.0, 200.0), (8, 16), KINDS)


@dataclass(frozen=True, eq=False)
class Simulated:
    """One world: its paths from positives and from all interactions, the truth, and the ranks.

    Ranked is every relevant pair outside training.
    """

    kind: str
    path: CorrectionPath
    path_with_skipped: CorrectionPath
    truth: np.ndarray
    ranks: dict[str, RankedPositives]
    n_items: int

    def expose(self, n_users: int, n_shown: int, rng: np.random.Generator) -> dict[str, RankedPositives]:
        """Return the ranks of what users drawn at random like of items drawn at random."""
        first = next(iter(self.ranks.values()))
        chosen = rng.choice(first.n_population, n_users, replace=False)
        place = np.full(first.n_population, -1)
        place[chosen] = np.arange(n_users)
        shown = rng.random((n_users, self.n_items)).argsort(axis=1).argsort(axis=1) < n_shown
        liked = (place[first.user] >= 0) & shown[place[first.user], first.item]
        return {name: ranked.select(liked) for name, ranked in self.ranks.items()}


def world_of(number: int, seed: int, setting: Setting) -> Simulated:
    """Return one world of the family of a seed; numbers go through the kinds in turn."""
    rng = np.random.default_rng([seed, number])
    kind = setting.kinds[number % len(setting.kinds)]
    return build(kind, exposure(kind, rng), setting, rng)


def exposure(kind: str, rng: np.random.Generator) -> dict[str, float]:
    """Return the parameters of exposure of one world; `activity` and `drift` are log standard deviations."""
    found = {"gamma": -1.0, "max_propensity": float(rng.choice([0.5, 0.8]))}
    popularity = float(rng.choice([-0.5, 0.0, 0.3, 0.5]))
    weak = float(rng.choice([-1.0, -0.5, 0.0]))
    own: dict[str, dict[str, float]] = {
        "uniform": {"max_propensity": float(rng.choice([0.15, 0.3]))},
        "popularity": {"gamma": popularity},
        "taste": {"gamma": weak, "selection": float(rng.uniform(0.7, 2.5))},
        "self-selection": {"gamma": popularity, "self_selection": float(rng.uniform(0.5, 1.5))},
        "activity": {"gamma": popularity, "activity": float(rng.uniform(0.5, 1.2))},
        "mixture": {
            "gamma": float(rng.uniform(-1, 0.5)),
            "selection": float(rng.uniform(0, 2)),
            "self_selection": float(rng.uniform(0, 1)),
            "activity": float(rng.uniform(0, 0.8)),
        },
        "time": {"gamma": popularity, "drift": float(rng.uniform(0.3, 1.0))},
    }
    return found | own[kind]


@dataclass(frozen=True, eq=False)
class Logged:
    """A world with its log: the split, what is met and not liked, and recommenders trained on the log.

    `test_propensity` is the probability to be in the test part of each pair of `world.relevant` that is not in
    training.
    """

    world: World
    split: Split
    skipped: Interactions
    models: dict[str, Any]
    test_propensity: np.ndarray


def logged(given: dict[str, float], setting: Setting, rng: np.random.Generator) -> Logged:
    """Return one world with its log, and recommenders trained on it."""
    given = dict(given)
    activity, drift = given.pop("activity", 0.0), given.pop("drift", 0.0)
    n_items = int(rng.choice(setting.n_items))
    world = World(
        n_users=int(rng.choice(setting.n_users)),
        n_items=n_items,
        mean_relevant=float(rng.choice(setting.relevant_share)) * n_items,
        relevant_spread=float(rng.uniform(0.3, 1.0)),
        popularity_skew=float(rng.uniform(0.3, 1.2)),
        affinity=float(rng.uniform(1, 3.5)),
        rng=rng,
        **given,
    )
    pairs = world.relevant
    busy = np.exp(activity * rng.standard_normal(world.n_users) - activity**2 / 2)
    later = np.exp(drift * rng.standard_normal(world.n_items) - drift**2 / 2)
    chance = np.minimum(world.relevant_propensity * busy[pairs.user], 0.95)
    skipped = not_positive(world, busy, later, rng.spawn(1)[0])
    in_train = rng.random(len(pairs)) < 0.8 * chance
    test_propensity = 0.2 * np.minimum(chance * later[pairs.item], 0.95)
    in_test = (rng.random(len(pairs)) < test_propensity) & ~in_train
    split = Split(pairs.select(in_train), pairs.select(in_test))
    return Logged(world, split, skipped, recommenders(world, split, setting, rng), test_propensity)


def build(kind: str, given: dict[str, float], setting: Setting, rng: np.random.Generator) -> Simulated:
    """Return one world, with recommenders trained on its log."""
    one = logged(given, setting, rng)
    pairs, split = one.world.relevant, one.split
    rest = ~np.isin(pairs.pair_key, split.train.pair_key)
    everything = Split(split.train, pairs.select(rest))
    ranks = {name: rank_positives(model, everything) for name, model in one.models.items()}
    held_out = np.isin(everything.test.pair_key, split.test.pair_key)
    test = {name: ranked.select(held_out) for name, ranked in ranks.items()}
    state = rng.bit_generator.state
    path = correction_path(test, split, metrics=METRICS, rng=rng)
    rng.bit_generator.state = state  # the same uniform pairs for both
    with_skipped = correction_path(test, split, metrics=METRICS, interactions=one.skipped, rng=rng)
    means = [metric(each).contributions(ranked) for each in METRICS for ranked in ranks.values()]
    truth = np.array([each.mean() for each in means if each is not None])
    return Simulated(kind, path, with_skipped, truth, ranks, one.world.n_items)


def not_positive(world: World, busy: np.ndarray, later: np.ndarray, rng: np.random.Generator) -> Interactions:
    """Return what is met, not liked and logged, in training or in the test period, as positives are."""
    user, item = np.divmod(np.arange(world.n_users * world.n_items), world.n_items)
    chance = np.minimum(world.propensity_at(user, item) * busy[user], 0.95)
    met = rng.random(user.size) < 0.8 * chance
    met |= rng.random(user.size) < 0.2 * np.minimum(chance * later[item], 0.95)
    met &= ~np.isin(np.arange(user.size), world.relevant.pair_key)
    return Interactions(user[met], item[met], world.relevant.user_ids, world.relevant.item_ids)


def recommenders(world: World, split: Split, setting: Setting, rng: np.random.Generator) -> dict[str, Any]:
    """Return ten: four of the world's examples, and six trained on the log."""
    examples, train = world.example_models(split, rng), split.train
    models = {name: examples[name] for name in ("random", "popular", "appeal", "noisy")}
    for k in setting.neighbours:
        models[f"item-kNN {k}"] = baselines.item_knn(train, n_neighbors=k)
    for ridge in setting.ridges:
        models[f"EASE {ridge:g}"] = baselines.ease(train, regularization=ridge)
    for k in setting.factors:
        models[f"SVD {k}"] = baselines.pure_svd(train, n_factors=k)
    return models
