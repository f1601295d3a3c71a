"""Does an additive control variate (β*-IPS) beat `snips-global` where the number of relevant items is known?

    python -m reproductions.control_variate [--worlds 60] [--logs 300]

With s_u known, Σ w/s_u has mean 1 over users, and θ̂ = mean(x) − β (mean(y) − 1) with x_u = Σ w c/s_u and
y_u = Σ w/s_u is unbiased for every β. β* = Cov(x, y)/Var(y) has the least variance. Ranks and propensities of
a world stay, and logs are drawn again: so standard errors are those that are seen, not those that are stated.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from ipseval import Split, metric, rank_positives
from ipseval.validation.simulation import World
from reproductions.correction_family import METRICS
from reproductions.tables import markdown

KINDS = {
    "items": {},
    "items and tastes": {"selection": 1.0},
    "items and ratings": {"self_selection": 0.8},
}
COLUMNS = ("relevant items per user", "propensity", "worlds", "cells with the smaller standard error, %")
COLUMNS += ("ratio of standard errors, median", "coverage of β*-IPS, %", "coverage of snips-global, %")


def judge(number: int, mean_relevant: int, kind: str, n_logs: int) -> np.ndarray:
    """Return of each recommender and metric: ratio of standard errors, and both coverages, (n_cells, 3)."""
    rng = np.random.default_rng([41, number])
    given = {"gamma": float(rng.uniform(-0.8, 0.6)), "max_propensity": float(rng.choice([0.3, 0.6]))}
    world = World(
        600, 250, mean_relevant, popularity_skew=float(rng.uniform(0.4, 1.2)), rng=rng, **given, **KINDS[kind]
    )
    split = world.split(rng, train_scale=0.5, test_scale=0.5)
    seen = np.isin(world.relevant.pair_key, split.train.pair_key)
    left = world.relevant.select(~seen)
    chance = 0.5 * world.relevant_propensity[~seen]
    models = world.example_models(split, rng)
    ranks = [rank_positives(one, Split(split.train, left)) for one in models.values()]
    made = [metric(name).contributions(one) for name in METRICS for one in ranks]
    values = np.column_stack([one for one in made if one is not None])
    users, place, size = np.unique(left.user, return_inverse=True, return_counts=True)

    def by_user(of: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(place, column, users.size) for column in of.T], axis=1)

    truth = (by_user(values) / size[:, None]).mean(axis=0)
    estimate, covered = np.empty((2, n_logs, truth.size)), np.empty((2, n_logs, truth.size))
    for log in range(n_logs):
        weight = (rng.random(chance.size) < chance) / chance
        sums = by_user(weight[:, None] * np.column_stack([values, np.ones(len(values))]))
        x, y = sums[:, :-1] / size[:, None], sums[:, -1:] / size[:, None]
        apart = y - y.mean(axis=0)
        slope = (apart * x).sum(axis=0) / (apart**2).sum(axis=0)
        number_of = np.maximum(np.bincount(place, weight > 0, users.size), 1)[:, None]
        above, below = sums[:, :-1] / number_of, sums[:, -1:] / number_of
        ratio = above.sum(axis=0) / below.sum(axis=0)
        found = (
            (x.mean(axis=0) - slope * (y.mean(axis=0) - 1), x - slope * apart),
            (ratio, (above - ratio * below) / below.mean()),
        )
        for which, (own, influence) in enumerate(found):
            error = influence.std(axis=0, ddof=1) / np.sqrt(users.size)
            estimate[which, log], covered[which, log] = own, np.abs(own - truth) <= 1.96 * error
    spread = estimate.std(axis=1)
    return np.stack([spread[0] / np.maximum(spread[1], 1e-12), *covered.mean(axis=1)], axis=1)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=60)
    parser.add_argument("--logs", type=int, default=300)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    rows, settings = [], [(size, kind) for size in (6, 25) for kind in KINDS]
    for place, (size, kind) in enumerate(settings):
        numbers = range(place, options.worlds, len(settings))
        found = np.concatenate([judge(one, size, kind, options.logs) for one in numbers])
        smaller, middle = 100 * (found[:, 0] < 1).mean(), np.median(found[:, 0])
        covered = (f"{100 * one:.0f}" for one in found[:, 1:].mean(axis=0))
        rows.append((f"{size}", kind, f"{len(numbers)}", f"{smaller:.0f}", f"{middle:.2f}", *covered))
    print(markdown(COLUMNS, rows))


if __name__ == "__main__":
    main()
