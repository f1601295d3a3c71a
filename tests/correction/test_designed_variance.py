"""The variance of a random sample with weights of an exposure design, against sums over its positives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ipseval
from ipseval.correction import correction_path
from tests.inside.correction import RandomSample

DEPTH = 5


@pytest.fixture(name="ranks", scope="module")
def fixture_ranks():
    world = ipseval.simulation.World(n_users=120, n_items=40, mean_relevant=10, rng=1)
    split = world.split(rng=2)
    model = world.example_models(split, rng=3)["appeal"]
    return split, {"appeal": ipseval.rank_positives(model, split, name="appeal")}


@pytest.fixture(name="path", scope="module")
def fixture_path(ranks):
    split, ranks_by_name = ranks
    return correction_path(ranks_by_name, split, metrics=["recall@5", "atop"], rng=0)


@pytest.fixture(name="ranked", scope="module")
def fixture_ranked(ranks):
    return ranks[1]["appeal"]


@pytest.fixture(name="hit", scope="module")
def fixture_hit(ranked):
    return ipseval.metric("recall@5").contributions(ranked)


@pytest.fixture(name="weight", scope="module")
def fixture_weight(hit):
    """Hits are shown seven times as often as misses, and the weights of both vary."""
    rng = np.random.default_rng(4)
    return np.where(hit > 0, 1.0, 7.0) * rng.uniform(0.5, 1.5, hit.size)


@pytest.fixture(name="sample", scope="module")
def fixture_sample(ranks, path, weight):
    return RandomSample.from_ranks(ranks[1], path, weight, is_designed=True)


def compute_moments(hit, weight):
    mean = weight @ hit / weight.sum()
    return mean, weight @ (hit - mean) ** 2 / weight.sum()


def test_positives_add_their_squared_weighted_deviations(path, sample, hit, weight):
    assert set(np.unique(hit)) == {0.0, 1.0}
    mean, spread = compute_moments(hit, weight)
    without_pairs = replace(path, within=np.zeros(2))
    variance = sample._designed_covariance(without_pairs, np.full((2, 2), spread), np.full(2, mean))[0, 0]
    expected = (weight**2 @ (hit - mean) ** 2) / weight.sum() ** 2
    assert variance == pytest.approx(expected, rel=1e-12)


def test_pairs_of_one_user_add_the_product_of_their_weights(path, sample, ranked, weight):
    spread = np.array([[0.2, 0.05], [0.05, 0.1]])
    value = np.full(2, 0.3)
    correlation = np.array([0.3, 0.12])
    with_pairs = sample._designed_covariance(replace(path, within=correlation), spread, value)
    without_pairs = sample._designed_covariance(replace(path, within=np.zeros(2)), spread, value)
    products = 0.0
    for user in ranked.users:
        user_weights = weight[ranked.user == user]
        for first in range(user_weights.size):
            for second in range(user_weights.size):
                if first != second:
                    products += user_weights[first] * user_weights[second]
    expected = spread * np.sqrt(np.outer(correlation, correlation)) * products / weight.sum() ** 2
    np.testing.assert_allclose(with_pairs - without_pairs, expected, rtol=1e-9)


def test_the_weight_of_a_hit_is_weighted_by_squared_contributions(path, sample, hit, weight):
    relative = weight / weight.mean()
    expected = (relative**2 @ hit**2) / (relative @ hit**2)
    np.testing.assert_allclose(sample.hit_weight, [expected, (relative @ relative) / relative.sum()])
    np.testing.assert_allclose(sample.cell_sizes(path), hit.size / sample.hit_weight)
    assert sample.cell_sizes(path)[1] == pytest.approx(sample.ess)


def test_ties_that_reach_into_a_list_with_a_small_part_do_not_widen_the_interval(ranks, path, hit, weight):
    ranked = ranks[1]["appeal"]
    is_miss = np.flatnonzero(hit == 0)[:60]
    n_tied = ranked.n_tied.copy()
    n_above = ranked.n_above.copy()
    # Each of 60 misses is tied with 30 items at the end of the list, so that 0.03 of it is in the list.
    n_above[is_miss] = DEPTH - 1
    n_tied[is_miss] = 30
    tied = {"appeal": replace(ranked, n_above=n_above, n_tied=n_tied, candidates_by_user=None)}
    contributions = ipseval.metric("recall@5").contributions(tied["appeal"])
    assert 0 < contributions[is_miss].max() < 0.05
    sizes = []
    for rank in (ranks[1], tied):
        sizes.append(RandomSample.from_ranks(rank, path, weight, is_designed=True).cell_sizes(path)[0])
    assert sizes[1] == pytest.approx(sizes[0], rel=0.05)


def test_equal_weights_have_the_variance_of_a_uniform_sample(ranks, path):
    n_positives = len(ranks[1]["appeal"])
    designed = RandomSample.from_ranks(ranks[1], path, np.ones(n_positives), is_designed=True)
    uniform = RandomSample.from_ranks(ranks[1], path)
    mass = np.zeros(path.alpha.size)
    mass[3] = 1
    np.testing.assert_allclose(
        np.diag(designed.covariance(path, mass)), np.diag(uniform.covariance(path, mass)), rtol=1e-12
    )


def test_the_covariance_is_positive_where_hits_weigh_more_than_misses(ranks, path, hit):
    weight = np.where(hit > 0, 20.0, 1.0)
    sample = RandomSample.from_ranks(ranks[1], path, weight, is_designed=True)
    for grid_point in range(0, path.alpha.size, 6):
        mass = np.zeros(path.alpha.size)
        mass[grid_point] = 1
        assert np.linalg.eigvalsh(sample.covariance(path, mass)).min() > 0
