"""Simulated logs in another style than `ipseval.simulation`: ratings, shelves, regions, and feedback loops.

A user's rating of an item is the item's quality, the user's liking of its category and of two hidden tastes,
and noise, cut into one to five; four and five are positive. What is met differs by kind: `loop` and `explore`
are rounds in which a recommender that learns from its own log fills slates, with a share of random slots;
`slate` is one round of popular and liked items; `category` shows shelves and `region` a part of the
catalogue that have nothing to do with liking; `arrival` has items that come and fade; `reporting` depends on
the rating, `taste` on the liking, and `uniform` on nothing. Rounds and arrivals are split by time, the others
at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ipseval import Interactions, RandomExposure, Split, metric, rank_positives
from ipseval.correction import correction_path
from ipseval.ranking import baselines
from reproductions.correction_family import METRICS, Simulated

KINDS = ("loop", "explore", "slate", "category", "region", "arrival", "reporting", "taste", "uniform")
HARD = ("loop", "explore", "region")  # the log leaves no trace of a part of its exposure
POSITIVE = 4
ROUNDS, LAST = 8, 6  # the last two rounds are the test period
SLATE = 10
# Chance to report a rating of one to five: the ends more often, or the more the better.
REPORTED = ((0.5, 0.25, 0.1, 0.3, 0.7), (0.1, 0.15, 0.2, 0.4, 0.7))


@dataclass(frozen=True)
class Sizes:
    """What the worlds of a family have in common: sizes, and settings of the recommenders."""

    n_users: tuple[int, ...] = (800, 1200, 1800)
    n_items: tuple[int, ...] = (200, 300)
    positive_share: tuple[float, ...] = (0.05, 0.1)
    neighbours: tuple[int, int] = (10, 80)
    ridges: tuple[float, float] = (20.0, 400.0)
    factors: tuple[int, int] = (4, 24)


TRAINING = Sizes()
HELD_OUT = Sizes((1000, 1600, 2200), (250, 400), (0.04, 0.08, 0.12), (30, 60), (50.0, 200.0), (8, 16))


@dataclass(frozen=True, eq=False)
class Tastes:
    """What a world is: ratings of every pair, and what they are made of."""

    rating: np.ndarray  # (n_users, n_items), 1 to 5
    liking: np.ndarray  # (n_users, n_items), in standard deviations, without noise
    quality: np.ndarray
    category: np.ndarray
    affinity: np.ndarray  # (n_users, n_categories)

    @classmethod
    def draw(cls, n_users: int, n_items: int, share: float, rng: np.random.Generator) -> Tastes:
        """Return the tastes of a world in which such a share of all pairs is positive."""
        n_categories = int(rng.integers(4, 13))
        category = rng.integers(n_categories, size=n_items)
        quality = rng.gumbel(size=n_items) / 1.28
        affinity = rng.standard_normal((n_users, n_categories)) ** 3 / 3.9
        hidden = rng.laplace(size=(n_users, 2)) @ rng.laplace(size=(2, n_items)) / 2.8
        weight = rng.uniform([0.3, 0.3, 0.2], [1.2, 1.3, 1.0])
        liking = weight[0] * quality + weight[1] * affinity[:, category] + weight[2] * hidden
        liking = (liking - liking.mean()) / liking.std()
        felt = liking + rng.uniform(0.3, 1.0) * rng.standard_normal(liking.shape)
        ends = np.quantile(felt, [0.35, 0.65, 1 - share, 1 - 0.4 * share])
        return cls(1 + np.searchsorted(ends, felt), liking, quality, category, affinity)


@dataclass(frozen=True, eq=False)
class FeedbackWorld:
    """A log with its recommenders, and the rating of every pair.

    `test_propensity` is the probability of every pair that is not in training to be in the test part if it is
    positive; None where exposure depends on the log itself or on time.
    """

    kind: str
    split: Split
    models: dict[str, Any]
    interactions: Interactions
    liked: np.ndarray  # (n_users, n_items) bool
    test_propensity: np.ndarray | None = None
    rounds: Rounds | None = None  # of `loop` and `explore`

    def left(self) -> Interactions:
        """Return every positive pair outside training: what the truth is the mean over."""
        found = self.liked.copy()
        found[self.split.train.user, self.split.train.item] = False
        return log_of(found)

    def random_exposure(self, n_users: int, n_shown: int, rng: np.random.Generator) -> RandomExposure:
        """Return random exposure of so many users and items each."""
        chosen = rng.choice(len(self.liked), n_users, replace=False)
        items = rng.random((n_users, self.liked.shape[1])).argsort(axis=1)[:, :n_shown]
        user, item = np.repeat(chosen, items.shape[1]), items.ravel()
        ids = self.split.user_ids, self.split.item_ids
        return RandomExposure(user, item, self.liked[user, item], *self.liked.shape, 0, *ids)

    def expose_random_slots(self, share: float, *, test_only: bool) -> RandomExposure:
        """Return what users saw in random slots, of which there is such a share, without training pairs.

        Clicks are the answers: users click everything that they see and like. Pairs have the weight 1/probability to
        be in a random slot. With `test_only`, the slots are those of the test period.
        """
        assert self.rounds is not None  # a world of rounds
        periods = [1] if test_only else [0, 1]
        is_seen = self.rounds.seen_in_random[periods].any(axis=0)
        is_seen[self.split.train.user, self.split.train.item] = False
        user, item = np.nonzero(is_seen)
        n_rows = self.rounds.n_rows[periods].sum(axis=0)
        n_users, n_items = self.liked.shape
        weight = -1 / np.expm1(n_rows[user] * np.log1p(-share / n_items))
        ids = self.split.user_ids, self.split.item_ids
        return RandomExposure(user, item, self.liked[user, item], n_users, n_items, 0, *ids, weight=weight)

    def truth(self, metrics: Sequence[str] = METRICS) -> np.ndarray:
        """Return the pooled mean over all positive pairs outside training, (n_metrics · n_models,)."""
        means = [metric(one).contributions(own) for one in metrics for own in self.ranks.values()]
        return np.array([one.mean() for one in means if one is not None])

    @cached_property
    def ranks(self) -> dict[str, Any]:
        """Every positive pair outside training, ranked by each recommender."""
        everything = Split(self.split.train, self.left())
        return {name: rank_positives(one, everything, name=name) for name, one in self.models.items()}

    def simulated(self, rng: np.random.Generator) -> Simulated:
        """Return the world with its paths and ranks, from which many samples can be drawn."""
        held_out = np.isin(self.left().pair_key, self.split.test.pair_key)
        test = {name: one.select(held_out) for name, one in self.ranks.items()}
        seed = int(rng.integers(2**31))  # the same uniform pairs for both paths
        paths = [
            correction_path(test, self.split, metrics=METRICS, interactions=one, rng=seed)
            for one in (None, self.interactions)
        ]
        return Simulated(self.kind, paths[0], paths[1], self.truth(), self.ranks, self.liked.shape[1])


def world_of(number: int, seed: int, sizes: Sizes) -> FeedbackWorld:
    """Return one world of the family of a seed; numbers go through the kinds in turn."""
    rng = np.random.default_rng([seed, number])
    return build(KINDS[number % len(KINDS)], sizes, rng)


def build(
    kind: str,
    sizes: Sizes,
    rng: np.random.Generator,
    explored: float | None = None,
    *,
    removes_random: bool = False,
    hides_shown: bool = False,
) -> FeedbackWorld:
    """Return a world of a kind, with recommenders trained on its log.

    `explored` is the share of random slots of `loop` and `explore`; None for the share of the kind. With
    `removes_random`, the log does not contain what was met in a random slot. The recommender that fills the slates
    learns from it nevertheless. With `hides_shown`, it does not repeat what it has shown, even if the user has not met
    it.
    """
    n_users, n_items = int(rng.choice(sizes.n_users)), int(rng.choice(sizes.n_items))
    tastes = Tastes.draw(n_users, n_items, float(rng.choice(sizes.positive_share)), rng)
    test_propensity = None
    found = None
    if kind in ("loop", "explore"):
        share = 0.015 if kind == "loop" else float(rng.choice([0.05, 0.1]))
        found = rounds(tastes, share if explored is None else explored, rng, hides_shown=hides_shown)
        met = found.met & ~found.met_in_random if removes_random else found.met
        early = found.early & met
    elif kind == "arrival":
        met, early = arrivals(tastes, rng)
    else:
        uniform = rng.random(tastes.rating.shape)
        chance = chances(kind, tastes, rng)
        met = uniform < chance
        early = rng.random(met.shape) < 0.8
        test_propensity = 0.2 * chance / (1 - 0.8 * chance)
    positive = tastes.rating >= POSITIVE
    split = Split(log_of(met & early & positive), log_of(met & ~early & positive))
    models = recommenders(tastes, split, sizes, rng)
    return FeedbackWorld(kind, split, models, log_of(met), positive, test_propensity, found)


def log_of(pairs: np.ndarray) -> Interactions:
    """Return the pairs that are true in a (n_users, n_items) matrix."""
    return Interactions(*np.nonzero(pairs), *(np.arange(size) for size in pairs.shape))


def activity(n_users: int, rng: np.random.Generator) -> np.ndarray:
    """Return how much each user meets, (n_users, 1): gamma distributed with mean 1."""
    shape = float(rng.uniform(1.0, 6.0))
    return rng.gamma(shape, 1 / shape, (n_users, 1))


def chances(kind: str, tastes: Tastes, rng: np.random.Generator) -> np.ndarray:
    """Return the probability of each pair to be met and logged, where exposure has no memory."""
    n_users, n_items = tastes.rating.shape
    if kind == "slate":
        return shelf_chances(tastes, rng)
    if kind == "category":
        n_categories = tastes.affinity.shape[1]
        shelves = rng.random((n_users, n_categories)).argsort(axis=1) < rng.integers(1, 4)
        form = np.where(shelves[:, tastes.category], 1.0, float(rng.uniform(0.02, 0.1)))
    elif kind == "region":
        n_regions = int(rng.integers(2, 5))
        of_user, of_item = rng.integers(n_regions, size=n_users), rng.integers(n_regions, size=n_items)
        form = np.where(of_user[:, None] == of_item, 1.0, float(rng.uniform(0.02, 0.15)))
    elif kind == "reporting":
        form = np.asarray(REPORTED[rng.integers(len(REPORTED))])[tastes.rating - 1]
    elif kind == "taste":
        form = np.exp(float(rng.uniform(0.4, 1.2)) * tastes.liking.clip(-2.5, 2.5))
    else:
        form = np.ones((n_users, n_items))
    level = float(rng.uniform(0.08, 0.25))
    return np.minimum(level * activity(n_users, rng) * form / form.mean(), 0.9)


def shelf_chances(tastes: Tastes, rng: np.random.Generator) -> np.ndarray:
    """Return the chance to be looked at in one long slate of popular and liked items."""
    weight = rng.uniform(0, 1.5, 2)
    score = weight[0] * tastes.quality + weight[1] * tastes.liking + rng.gumbel(size=tastes.liking.shape)
    place = (-score).argsort(axis=1).argsort(axis=1)
    return np.minimum(activity(len(place), rng) * (1 + place / SLATE) ** -float(rng.uniform(1, 2)), 0.95)


def arrivals(tastes: Tastes, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return what is met and whether before the split, where items and users come and hype fades."""
    n_users, n_items = tastes.rating.shape
    born, joined = rng.uniform(-1, 0.9, n_items), rng.uniform(-0.5, 0.6, n_users).clip(0)
    hype = np.exp(float(rng.uniform(0.3, 1.0)) * rng.standard_normal(n_items))
    fade, level = float(rng.uniform(0.3, 1.5)), float(rng.uniform(0.1, 0.3))
    busy, steps = activity(n_users, rng), 10
    met, early = np.zeros((2, n_users, n_items), dtype=bool)
    for step in range(steps):
        now = (step + 0.5) / steps
        pull = np.where(born <= now, hype * np.exp(-np.maximum(now - born, 0) / fade), 0.0)
        here = busy * (joined[:, None] <= now) * (0.05 + pull / pull.mean())
        new = (rng.random(met.shape) < np.minimum(level / steps * here, 0.9)) & ~met
        met |= new
        early |= new & (now < 0.8)
    return met, early


@dataclass(frozen=True, eq=False)
class Rounds:
    """What users met in rounds of slates, as (n_users, n_items) bool matrices.

    `early` states whether before the last two rounds, which are the test period, and `met_in_random` whether a pair
    was met in a random slot first. `seen_in_random` has two matrices, before and in the test period, of what was
    seen in random slots, and `n_rows` the number of slots of each user in these periods.
    """

    met: np.ndarray
    early: np.ndarray
    met_in_random: np.ndarray
    seen_in_random: np.ndarray  # (2, n_users, n_items)
    n_rows: np.ndarray  # (2, n_users)


def rounds(tastes: Tastes, explored: float, rng: np.random.Generator, *, hides_shown: bool = False) -> Rounds:
    """Return what is met in rounds of slates, and whether before the last two.

    The recommender learns from the positives of its own log; a share of slots is filled at random. It does not repeat
    what a user has met, and with `hides_shown` nothing that it has shown.
    """
    n_users, n_items = tastes.rating.shape
    look = (1 + np.arange(SLATE)) ** -float(rng.uniform(0.3, 1.0))
    personal, n_factors = bool(rng.integers(2)), int(rng.choice([4, 12]))
    come = np.minimum(0.7 * activity(n_users, rng)[:, 0], 1)
    positive = tastes.rating >= POSITIVE
    met = rng.random((n_users, n_items)) < 0.01  # what is known at the start
    early = met.copy()
    is_hidden = met.copy()
    met_in_random = np.zeros_like(met)
    seen_in_random = np.zeros((2, n_users, n_items), dtype=bool)
    n_rows = np.zeros((2, n_users))
    for number in range(ROUNDS):
        log = (met & positive).astype(float)
        score = log.sum(axis=0) + 0.3 * rng.random((n_users, n_items))
        if personal and log.any():
            directions = np.linalg.eigh(log.T @ log)[1][:, -n_factors:]
            score = log @ directions @ directions.T + 1e-3 * score
        score[is_hidden] = -np.inf
        slate = np.argpartition(-score, SLATE, axis=1)[:, :SLATE]
        slate = np.take_along_axis(slate, (-np.take_along_axis(score, slate, 1)).argsort(1), 1)
        random = rng.random(slate.shape) < explored
        slate = np.where(random, rng.integers(n_items, size=slate.shape), slate)
        is_looking = rng.random(slate.shape) < look
        is_here = rng.random(n_users) < come
        seen = is_looking & is_here[:, None]
        new = np.zeros_like(met)
        new[np.nonzero(seen)[0], slate[seen]] = True
        new_in_random = np.zeros_like(met)
        new_in_random[np.nonzero(seen & random)[0], slate[seen & random]] = True
        met_in_random |= new_in_random & ~met
        period = int(number >= LAST)
        seen_in_random[period] |= new_in_random
        n_rows[period] += SLATE * is_here
        met |= new
        is_hidden |= new
        if hides_shown:
            np.put_along_axis(is_hidden, slate, True, axis=1)
        early |= met & (number < LAST)
    return Rounds(met, early, met_in_random, seen_in_random, n_rows)


def recommenders(tastes: Tastes, split: Split, sizes: Sizes, rng: np.random.Generator) -> dict[str, Any]:
    """Return ten: two that know nothing of the log, two without users, six trained on the log."""
    train, (n_users, n_items) = split.train, tastes.rating.shape
    shelf = np.eye(tastes.affinity.shape[1])[tastes.category]
    noise = rng.standard_normal(n_items)
    models: dict[str, Any] = {
        "popularity": baselines.popularity(train),
        "chance": (rng.standard_normal((n_users, 2)), rng.standard_normal((n_items, 2))),
        "critic": (np.ones((n_users, 1)), (tastes.quality + noise)[:, None]),
        "content": (tastes.affinity + rng.standard_normal(tastes.affinity.shape), shelf),
    }
    for k in sizes.neighbours:
        models[f"item-kNN {k}"] = baselines.item_knn(train, n_neighbors=k)
    for ridge in sizes.ridges:
        models[f"EASE {ridge:g}"] = baselines.ease(train, regularization=ridge)
    for k in sizes.factors:
        models[f"SVD {k}"] = baselines.pure_svd(train, n_factors=k)
    return models
