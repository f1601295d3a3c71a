"""Do 95 % intervals over users hold when users have 1 to 50 queries, and do those over queries fail?

A population of users is evaluated once: the queries of a user share how well the recommender knows it, and
users with many queries are known better. A data set is a draw of users with all their queries; what it
estimates is the value in the population. Seed, numbers of users and of data sets were fixed before the first
run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from ipseval.estimators import UserSums
from ipseval.evaluation.slates import Slates, evaluate_slates
from ipseval.metrics import metric
from tests.inside.estimators import resolve_estimator

SEED, N_POPULATION, N_USERS, N_DATA_SETS = 20261122, 3000, 300, 4000
N_ITEMS, SLATE = 60, 10
CELLS = [("rr", "aoa"), ("auc", "aoa"), ("recall@3", "snips-global"), ("recall@3", "snips-pooled")]
CELLS += [("dcg", "snips-pooled"), ("dcg", "ips")]
# How many queries a user has.
DESIGNS = {
    "one": lambda rng, n: np.ones(n, dtype=int),
    "1 to 5": lambda rng, n: rng.integers(1, 6, n),
    "1 to 50": lambda rng, n: rng.integers(1, 51, n),
    "1 or 50": lambda rng, n: rng.choice([1, 50], n),
}


@dataclass(frozen=True)
class Population:
    """The sums of every query, by model, metric and estimator; the queries of a user stand together."""

    sums: dict[tuple[str, str, str], UserSums]
    starts: np.ndarray
    counts: np.ndarray

    @classmethod
    def simulate(cls, design: str) -> Population:
        rng = np.random.default_rng([SEED, list(DESIGNS).index(design)])
        counts = DESIGNS[design](rng, N_POPULATION)
        user = np.repeat(np.arange(N_POPULATION), counts)
        skill = rng.normal(0.3, 1.0, N_POPULATION) + 0.3 * np.log(counts)
        n = user.size
        propensity = np.linspace(0.2, 1.0, N_ITEMS)
        item = rng.permuted(np.tile(np.arange(N_ITEMS), (n, 1)), axis=1)[:, :SLATE]
        relevant = np.zeros((n, SLATE), dtype=bool)
        relevant[:, :4] = rng.random((n, 4)) < [1.0, 0.6, 0.4, 0.2]
        observed = relevant & (rng.random((n, SLATE)) < propensity[item])
        observed[:, 0] |= ~observed.any(axis=1)  # a query without a positive tells nothing
        scores = {name: relevant * skill[user, None] + rng.normal(size=(n, SLATE)) for name in ("one", "two")}
        frame = pd.DataFrame(
            {
                "query": np.repeat(np.arange(n), SLATE),
                "user": np.repeat(user, SLATE),
                "item": item.ravel(),
                "label": observed.ravel().astype(int),
                "propensity": propensity[item].ravel(),
            }
        )
        slates = Slates.from_frame(frame)
        evaluation = evaluate_slates(
            {name: score_matrix.ravel() for name, score_matrix in scores.items()},
            slates,
            metrics=list(dict.fromkeys(cell[0] for cell in CELLS)),
            estimators=["aoa"],
        )
        sums = {}
        for name in scores:
            sample = evaluation.samples[name].under(propensity[evaluation.samples[name].ranked.item], True)
            for label, estimator in CELLS:
                sums[name, label, estimator] = resolve_estimator(estimator).sums(sample, metric(label))
        return cls(sums, np.cumsum(counts) - counts, counts)

    def data_sets(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows of the queries of users that are drawn, and whose draw each belongs to."""
        rng = np.random.default_rng([SEED, 99])
        for _ in range(N_DATA_SETS):
            users = rng.integers(N_POPULATION, size=N_USERS)
            size = self.counts[users]
            owner = np.repeat(np.arange(N_USERS), size)
            rows = np.arange(owner.size) + np.repeat(self.starts[users] - np.cumsum(size) + size, size)
            yield rows, owner


def part(sums: UserSums, rows: np.ndarray) -> UserSums:
    volume = None if sums.volume is None else sums.volume[rows]
    return UserSums(np.arange(rows.size), sums.numerator[rows], sums.denominator[rows], volume)


@pytest.mark.slow
@pytest.mark.parametrize("design", list(DESIGNS))
def test_intervals_over_users_cover_in_95_percent_and_those_over_queries_do_not(design: str):
    population = Population.simulate(design)
    truth = {key: user_sums.value() for key, user_sums in population.sums.items()}
    clustered, apart = (dict.fromkeys(CELLS, 0) for _ in range(2))
    rejected = dict.fromkeys(CELLS, 0)
    for rows, owner in population.data_sets():
        for cell in CELLS:
            first_part, two = (part(population.sums[name, *cell], rows) for name in ("one", "two"))
            over_users = first_part.by_cluster(owner)
            miss = abs(first_part.value() - truth["one", *cell])
            clustered[cell] += miss <= 1.96 * over_users.standard_error()
            apart[cell] += miss <= 1.96 * first_part.standard_error()
            error, n, _ = over_users.paired_error(two.by_cluster(owner))
            gap = first_part.value() - two.value() - (truth["one", *cell] - truth["two", *cell])
            assert n == N_USERS
            rejected[cell] += abs(gap) > 1.96 * error
    for cell in CELLS:
        assert 0.935 <= clustered[cell] / N_DATA_SETS <= 0.965, (cell, clustered[cell] / N_DATA_SETS)
        assert 0.035 <= rejected[cell] / N_DATA_SETS <= 0.065, (cell, rejected[cell] / N_DATA_SETS)
        if design == "one":
            assert apart[cell] == clustered[cell]
        elif "50" in design:
            assert apart[cell] / N_DATA_SETS < 0.85, (cell, apart[cell] / N_DATA_SETS)


def test_a_data_set_of_the_whole_population_gives_its_value():
    population = Population.simulate("1 to 5")
    rows = np.arange(population.counts.sum())
    owner = np.repeat(np.arange(N_POPULATION), population.counts)
    for user_sums in population.sums.values():
        whole = part(user_sums, rows).by_cluster(owner)
        assert whole.value() == pytest.approx(user_sums.value(), rel=1e-12)
        assert whole.n_users == N_POPULATION
