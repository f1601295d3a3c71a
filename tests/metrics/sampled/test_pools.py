"""Sampled candidates: the pools that they are drawn from, and the resulting ranks."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval import ComputeOptions
from ipseval.data.splits import Split
from ipseval.errors import InputError, UnknownNameError
from ipseval.metrics import metric as find_metric
from ipseval.metrics.sampled import expected_sampled
from ipseval.ranking import SampledCandidates, rank_positives
from tests.inside.ranking import Drawer, HeldOutPositives
from tests.worlds import random_world

WORLD = random_world(1, n_users=30, n_items=60, density=0.25)
SPLIT = WORLD.split
SCORES = np.random.default_rng(0).normal(size=(SPLIT.n_users, SPLIT.n_items)) + np.linspace(
    1, 0, SPLIT.n_items
)
EXACT = rank_positives(SCORES, SPLIT)
POPULAR = np.linspace(5, 0.5, SPLIT.n_items)
SCHEMES = [
    {"per": per, "replacement": replacement, "distribution": distribution, "pool": pool}
    for per in ("user", "positive")
    for replacement in (True, False)
    for distribution in ("uniform", POPULAR)
    for pool in ("candidates", "unobserved")
]


def scheme_id(scheme):
    law = scheme["distribution"] if isinstance(scheme["distribution"], str) else "weights"
    return f"{scheme['per']}-{'with' if scheme['replacement'] else 'without'}-{law}-{scheme['pool']}"


def draws_of_all(candidates):
    """Yield (user, positives, drawn items (s, m)) for every user with positives."""
    targets = HeldOutPositives.from_split(SPLIT)
    drawer = Drawer(candidates, targets, candidates.weights(SPLIT))
    for user in np.unique(targets.user):
        items = targets.item[targets.user == user]
        yield int(user), items, drawer.draw(int(user), items)[1][0]


@pytest.mark.parametrize("scheme", SCHEMES, ids=scheme_id)
def test_draws_come_from_the_pool_and_from_nowhere_else(scheme):
    m = 12
    for user, items, drawn in draws_of_all(SampledCandidates(m, rng=0, **scheme)):
        assert drawn.shape == (items.size, m)
        train_items = SPLIT.train.item[SPLIT.train.user == user]
        assert not np.isin(drawn, train_items).any()
        for item, row in zip(items, drawn, strict=True):
            assert item not in row
            if scheme["pool"] == "unobserved":
                assert not np.isin(row, items).any()
            if not scheme["replacement"]:
                assert np.unique(row).size == m


def same_ranks(first, second):
    return np.array_equal(first.n_above, second.n_above) and np.array_equal(first.n_tied, second.n_tied)


def test_the_same_seed_draws_the_same_for_every_recommender_block_and_subset_of_users():
    candidates = SampledCandidates(9, rng=11)
    ranked = rank_positives(SCORES, SPLIT, candidates=candidates)
    assert same_ranks(ranked, rank_positives(SCORES, SPLIT, candidates=SampledCandidates(9, rng=11)))
    assert same_ranks(
        ranked, rank_positives(SCORES, SPLIT, candidates=candidates, compute=ComputeOptions(block_size=1))
    )
    assert same_ranks(
        ranked, rank_positives(SCORES, SPLIT, candidates=candidates, compute=ComputeOptions(n_threads=2))
    )
    assert same_ranks(ranked, rank_positives(2 * SCORES + 1, SPLIT, candidates=candidates))
    assert not same_ranks(ranked, rank_positives(SCORES, SPLIT, candidates=SampledCandidates(9, rng=12)))
    is_selected = SPLIT.test.user < 10
    part_split = Split(SPLIT.train, SPLIT.test.select(is_selected))
    part_ranks = rank_positives(SCORES, part_split, candidates=candidates)
    assert same_ranks(part_ranks, ranked.select(ranked.user < 10))


def test_factors_are_ranked_like_their_product():
    rng = np.random.default_rng(2)
    factors = rng.integers(-2, 3, (SPLIT.n_users, 4)), rng.integers(-2, 3, (SPLIT.n_items, 4))
    candidates = SampledCandidates(9, rng=0)
    product = rank_positives((factors[0] @ factors[1].T).astype(float), SPLIT, candidates=candidates)
    assert same_ranks(product, rank_positives(factors, SPLIT, candidates=candidates))


def monte_carlo(n_repeats, statistic, **scheme):
    """Return mean and standard error of a statistic of the ranks over draws."""
    values = np.array(
        [
            statistic(rank_positives(SCORES, SPLIT, candidates=SampledCandidates(rng=seed, **scheme)))
            for seed in range(n_repeats)
        ]
    )
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(n_repeats)


WAYS = pytest.mark.parametrize(("per", "replacement"), [("user", True), ("user", False), ("positive", False)])


@WAYS
def test_uniform_draws_agree_with_the_exact_expectation(replacement, per):
    m = 30
    exact = expected_sampled(EXACT.n_above + 1, EXACT.n_candidates, m, "recall@9", replacement).mean()
    mean, error = monte_carlo(
        12, lambda ranked: np.mean(ranked.n_above < 9), n_sampled=m, replacement=replacement, per=per
    )
    assert abs(mean - exact) < 4 * error


def chance_that_nobody_above_is_drawn(m):
    """r̃ − 1 ~ Binomial(m, F) with F the share of the others' probability that stands above."""
    chances = []
    for user, item in zip(EXACT.user, EXACT.item, strict=True):
        training = SPLIT.train.item[SPLIT.train.user == user]
        competitors = np.setdiff1d(np.arange(SPLIT.n_items), np.append(training, item))
        weight_above = POPULAR[competitors][SCORES[user, competitors] > SCORES[user, item]].sum()
        chances.append((1 - weight_above / POPULAR[competitors].sum()) ** m)
    return np.mean(chances)


@WAYS
def test_popularity_draws_agree_with_the_exact_expectation_and_their_weighted_rank_is_unbiased(
    replacement, per
):
    mean, error = monte_carlo(
        12,
        lambda ranked: [ranked.sampling.rank_estimate.mean(), np.mean(ranked.n_above < 1)],
        n_sampled=30,
        distribution=POPULAR,
        replacement=replacement,
        per=per,
    )
    deviation = np.abs(mean - [np.mean(EXACT.n_above + 1), chance_that_nobody_above_is_drawn(30)])
    assert (deviation < 4 * error)[: 1 + replacement].all()


@pytest.mark.slow
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("metric", ["auc", "ap", "ndcg@5", "recall@5"])
def test_monte_carlo_means_of_every_positive_agree_with_the_exact_expectation(metric, replacement):
    m = 20
    repeats = 500
    table = find_metric(metric, sampled="none").table(SPLIT.n_items, m)
    values = np.array(
        [
            table[
                rank_positives(
                    SCORES, SPLIT, candidates=SampledCandidates(m, replacement=replacement, rng=seed)
                ).n_above
            ]
            for seed in range(repeats)
        ]
    )
    exact = expected_sampled(EXACT.n_above + 1, EXACT.n_candidates, m, metric, replacement)
    total = values.mean(axis=1)
    assert abs(total.mean() - exact.mean()) < 4 * total.std(ddof=1) / np.sqrt(repeats)
    error = values.std(axis=0, ddof=1) / np.sqrt(repeats)
    varies = error > 1e-6
    assert (np.abs(values.mean(axis=0) - exact)[varies] < 5.5 * error[varies]).all()  # hundreds of positives


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SampledCandidates(0), "n_sampled must be an integer >= 1"),
        (lambda: SampledCandidates(5, distribution=[1.0]).weights(SPLIT), "must have 60 entries"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("option", ["per", "pool", "distribution"])
def test_unknown_choices_are_listed(option):
    with pytest.raises(UnknownNameError, match=f"{option}: 'everything'.*Choices"):
        SampledCandidates(5, **{option: "everything"})
