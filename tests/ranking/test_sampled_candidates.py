"""Draws of competitors, computed by hand: drawable items, probabilities, and invalid requests."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval import InputError, SampledCandidates, rank_positives
from tests.inside.ranking import Drawer, HeldOutPositives, positions_to_items
from tests.ranking.worlds import make_world

WEIGHTS = np.array([0.5, 0.25, 0.0, 1.0, 0.125, 2.0, 0.125])
# User 0 has trained on items 1 and 5, and its positives are 0 and 3; user 1 has one positive.
WORLD = make_world(2, 7, {(0, 1), (0, 5)}, {(0, 0), (0, 3), (1, 6)})
TARGETS = HeldOutPositives.from_split(WORLD.split)


def draw(user: int, items: list[int], n_sampled: int, **options):
    """Return n, the items that were drawn for each positive, and their inverse probabilities."""
    candidates = SampledCandidates(n_sampled, rng=0, **options)
    drawer = Drawer(candidates, TARGETS, candidates.weights(WORLD.split))
    n, (competitors, inverse) = drawer.draw(user, np.array(items))
    return n, competitors, inverse


def compute_keys(user: int, excluded: list[int]) -> np.ndarray:
    """Return E / weight of each item, from the generator of the seed and the user."""
    key = SampledCandidates(1, rng=0).key
    generator = np.random.Generator(np.random.Philox(key=np.array([key, user], dtype=np.uint64)))
    with np.errstate(divide="ignore"):
        keys = generator.standard_exponential(WEIGHTS.size) / WEIGHTS
    keys[excluded] = np.inf
    return keys


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("pool", ["candidates", "unobserved"])
def test_without_replacement_the_items_of_the_smallest_keys_are_drawn(m, pool):
    user = 0
    items = [0, 3]
    training = [1, 5]
    if pool == "unobserved":  # two items are left that can be drawn, of weight 1/8 each
        m = min(m, 2)
    keys = compute_keys(user, training + (items if pool == "unobserved" else []))
    n, competitors, inverse = draw(user, items, m, distribution=WEIGHTS, replacement=False, pool=pool)
    assert n == {"candidates": 5, "unobserved": 4}[pool]
    for row, item in enumerate(items):
        ordered_keys = sorted((key, i) for i, key in enumerate(keys) if i != item)
        assert competitors[row].tolist() == [i for _, i in ordered_keys[:m]]
        threshold = ordered_keys[m][0]  # the next key: chance 1 - exp(-weight · key) to be below
        chance = [1 - np.exp(-WEIGHTS[i] * threshold) for _, i in ordered_keys[:m]]
        np.testing.assert_allclose(inverse[row], 1 / np.array(chance), rtol=1e-12)


def test_each_positive_may_have_separate_draws():
    options = {"distribution": WEIGHTS, "replacement": False, "per": "positive"}
    n, competitors, inverse = draw(0, [0, 3], 2, **options)
    assert (n, competitors.shape, inverse.shape) == (5, (2, 2), (2, 2))
    n, competitors, inverse = draw(0, [0, 3], 2, per="positive")
    assert (n, competitors.shape, inverse) == (5, (2, 2), None)
    for law, is_uniform in (("uniform", True), (np.ones(7), False)):
        candidates = SampledCandidates(2, distribution=law, rng=0)
        record = rank_positives(np.zeros((2, 7)), WORLD.split, candidates=candidates).sampling
        assert (record.uniform, record.rank_estimate is None) == (is_uniform, is_uniform)
    first = draw(0, [0], 2, **options)[1]  # its sequence is the first, whatever follows
    assert draw(0, [0, 3], 2, **options)[1][0].tolist() == first[0].tolist()


@pytest.mark.parametrize(
    ("pool", "totals"),
    [
        # 4 in all, less 2.25 of training items: 1.75. Less the positive's own 0.5 or 1.
        ("candidates", [1.25, 0.75]),
        ("unobserved", [0.25, 0.25]),  # less both
    ],
)
def test_a_draw_with_replacement_has_a_probability_in_proportion_to_its_weight(pool, totals):
    n, competitors, inverse = draw(0, [0, 3], 6, distribution=WEIGHTS, pool=pool)
    assert competitors.shape == (2, 6)
    assert n == {"candidates": 5, "unobserved": 4}[pool]
    expected = np.array(totals)[:, None] / (6 * WEIGHTS[competitors])
    np.testing.assert_allclose(inverse, expected, rtol=1e-12)


def test_with_replacement_a_users_draws_are_one_sequence_without_the_positive():
    # Items 0, 2, 3, 4 and 6 can be drawn for user 0. What stands in one row stands in the other, in order.
    _, competitors, _ = draw(0, [0, 3], 40)
    assert set(competitors.ravel().tolist()) == {0, 2, 3, 4, 6}
    common_items = [[item for item in row if item not in (0, 3)] for row in competitors.tolist()]
    length = min(map(len, common_items))
    assert length > 10
    assert common_items[0][:length] == common_items[1][:length]


def test_uniform_draws_without_replacement_may_exhaust_the_candidates():
    n, competitors, inverse = draw(0, [0, 3], 4, replacement=False)
    assert (n, inverse) == (5, None)
    assert [sorted(row) for row in competitors.tolist()] == [[2, 3, 4, 6], [0, 2, 4, 6]]
    n, competitors, _ = draw(0, [0, 3], 3, replacement=False, pool="unobserved")
    assert (n, [sorted(row) for row in competitors.tolist()]) == (4, [[2, 4, 6]] * 2)


@pytest.mark.parametrize(
    ("options", "n_drawable"),
    [
        ({}, 4),  # of five candidates one is the positive
        ({"pool": "unobserved"}, 3),
        ({"distribution": WEIGHTS}, 3),  # and item 2 is never drawn
        ({"distribution": WEIGHTS, "pool": "unobserved"}, 2),
        ({"distribution": 1e-3 * WEIGHTS, "pool": "unobserved+positives"}, 2),
    ],
)
def test_more_draws_than_candidates_are_refused(options, n_drawable):
    _, competitors, _ = draw(0, [0, 3], n_drawable, replacement=False, **options)
    assert [len(set(row)) for row in competitors.tolist()] == [n_drawable] * 2
    with pytest.raises(InputError) as refused:
        draw(0, [0, 3], n_drawable + 1, replacement=False, **options)
    assert str(refused.value) == (
        f"user 0 has {n_drawable} other candidates that can be drawn, but {n_drawable + 1} are needed. "
        "Use a smaller number of candidates, or SampledCandidates(…, replacement=True)."
    )
    assert draw(0, [0, 3], n_drawable + 1, **options)[1].shape == (2, n_drawable + 1)  # replacement needs one


def test_with_replacement_one_drawable_candidate_is_enough():
    weights = np.array([1.0, 0, 0, 0, 0, 0, 2.0])  # for user 0: item 6 beside its positive 0
    assert draw(0, [0], 3, distribution=weights)[1].tolist() == [[6, 6, 6]]
    weights[0] = 0.0
    with pytest.raises(InputError, match=r"user 0 has 0 other candidates .*, but 1 are needed"):
        draw(0, [0], 3, distribution=weights)


@pytest.mark.parametrize("share", [0.001, 1.0, 7.0])
def test_weights_need_no_sum(share):
    draws, scaled_draws = (draw(1, [6], 5, distribution=factor * WEIGHTS)[1] for factor in (1.0, share))
    assert draws.tolist() == scaled_draws.tolist()


@pytest.mark.parametrize(
    ("weights", "n_negative"),
    [([0.0] * 7, 0), ([-0.5, 1, 1, 1, 1, 1, 1], 1), ([-1.0, -1.0, 5, 0, 0, 0, 0], 2)],
)
def test_weights_below_zero_or_all_zero_are_refused(weights, n_negative):
    with pytest.raises(InputError) as refused:
        SampledCandidates(1, distribution=weights).weights(WORLD.split)
    assert str(refused.value) == (
        f"distribution must be >= 0 with a positive sum; {n_negative} entries are below 0."
    )


def test_the_description_of_a_draw_names_its_options():
    for options, description in (
        ({"rng": 3}, "5 drawn uniformly, with replacement, per user, seed 3"),
        (
            {"rng": np.int64(3), "replacement": False},
            "5 drawn uniformly, without replacement, per user, seed 3",
        ),
        (
            {"rng": 3, "distribution": "popularity", "per": "positive"},
            "5 drawn by popularity, with replacement, per positive, seed 3",
        ),
        (
            {"rng": 3, "distribution": [1.0], "pool": "unobserved"},
            "5 drawn by given probabilities from pool 'unobserved', with replacement, per user, seed 3",
        ),
    ):
        assert SampledCandidates(5, **options).description == description
    candidates = SampledCandidates(5, rng=np.random.default_rng(0))
    assert candidates.description.endswith(f", key {candidates.key}")
    assert 0 <= candidates.key < 2**63  # a generator is read once


def test_positions_skip_the_excluded_items():
    excluded = np.array([0, 1, 4, 6])
    assert positions_to_items(np.arange(4), excluded).tolist() == [2, 3, 5, 7]
    assert positions_to_items(np.arange(3), np.zeros(0, dtype=np.int64)).tolist() == [0, 1, 2]
