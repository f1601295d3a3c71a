"""The test of a property of pairs given users and items: its probabilities, its level, what it cannot see."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from reproductions.conditional_score import conditional_score, inclusion_probabilities


def enumerated(odds: np.ndarray, n_first: int) -> np.ndarray:
    """P(pair in the first sample | n_first of them are), over all subsets."""
    total, inside = 0.0, np.zeros(odds.size)
    for chosen in combinations(range(odds.size), n_first):
        weight = np.prod(odds[list(chosen)])
        total += weight
        inside[list(chosen)] += weight
    return inside / total


@pytest.mark.parametrize("n_first", [1, 2, 3, 4, 5, 6])
def test_inclusion_probabilities_equal_the_enumeration_of_all_subsets(n_first):
    rng = np.random.default_rng(n_first)
    log_odds = rng.normal(scale=2, size=(2, 7))
    probabilities = inclusion_probabilities(
        log_odds.ravel(), np.repeat([0, 1], 7), np.array([n_first, 7 - n_first])
    )
    expected = [enumerated(np.exp(log_odds[0]), n_first), enumerated(np.exp(log_odds[1]), 7 - n_first)]
    np.testing.assert_allclose(probabilities, np.concatenate(expected), rtol=1e-10)


def draw(rng, effect, *, n_users=400, n_items=40, size=12, user_spread=1.5):
    """Pairs whose odds of being in the first sample depend on user, item and `effect` times a property."""
    user = np.repeat(np.arange(n_users), size)
    item = np.concatenate([rng.permutation(n_items)[:size] for _ in range(n_users)])
    by_user, by_item = user_spread * rng.normal(size=n_users), 1.5 * rng.normal(size=n_items)
    # Two properties: one mostly of the pair, one that follows users and items closely.
    pair = rng.normal(size=user.size)
    close = 0.3 * rng.normal(size=user.size) + 0.7 * by_user[user] - 0.5 * by_item[item]
    log_odds = by_user[user] + by_item[item] + effect * pair
    first = rng.random(user.size) < 1 / (1 + np.exp(-log_odds))
    return user, item, first, np.column_stack([pair, close]), log_odds


def z_of(found):
    return found.value / np.sqrt((found.influence**2).sum(axis=0))


@pytest.mark.slow
def test_what_users_and_items_explain_is_rejected_no_more_often_than_stated():
    rng = np.random.default_rng(0)
    z = []
    for _ in range(200):
        user, item, first, f, _ = draw(rng, 0.0)
        z.append(z_of(conditional_score(user, item, first, f, n_users=400)))
    rejected = (np.abs(z) > 1.96).mean(axis=0)
    # 5 % of 200, four standard deviations of 1.5 % each.
    assert (rejected < 0.05 + 4 * 0.0154).all()
    # The mean of z is 0 within four standard errors 1/√200.
    assert (np.abs(np.mean(z, axis=0)) < 4 / np.sqrt(200)).all()


def test_an_effect_of_the_pair_is_found_and_its_size_is_about_right():
    score = [conditional_score(*draw(np.random.default_rng(seed), 0.4)[:4], n_users=400) for seed in range(6)]
    assert all(z_of(draw_score)[0] > 5 for draw_score in score)
    # One step from 0 underestimates large effects a little; .4 per standard deviation (which is 1).
    assert np.mean([draw_score.value[0] for draw_score in score]) == pytest.approx(0.4, abs=0.05)
    assert np.mean([np.abs(z_of(draw_score)[1]) for draw_score in score]) < 1.5


def test_a_known_part_of_the_odds_takes_its_effect_away():
    z = []
    for seed in range(8):
        user, item, first, f, _ = draw(np.random.default_rng(100 + seed), 0.4)
        score = conditional_score(user, item, first, f, n_users=400, offset=0.4 * f[:, 0])
        z.append(z_of(score)[0])
    assert abs(np.mean(z)) < 4 / np.sqrt(8)
    assert (np.abs(z) > 1.96).mean() < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 8)


def test_influences_add_up_to_the_value_times_the_correction_for_fitted_items():
    user, item, first, f, _ = draw(np.random.default_rng(3), 0.2)
    score = conditional_score(user, item, first, f, n_users=400)
    # Users of one sample alone drop out; all 40 items stay: 39 free effects, and one per user.
    share = np.bincount(user, first) / np.bincount(user)
    mixed = (share > 0) & (share < 1)
    freedom = 11 * mixed.sum()
    scale = np.sqrt(freedom / (freedom - 39))
    np.testing.assert_allclose(score.influence.sum(axis=0), score.value * scale, rtol=1e-12)


@pytest.mark.slow
def test_few_pairs_per_item_do_not_raise_the_rate_of_rejection():
    # 120 users with 4 pairs each over 150 items: a third of the degrees of freedom goes to items.
    z = []
    for seed in range(300):
        user, item, first, f, _ = draw(
            np.random.default_rng(seed), 0.0, n_users=120, n_items=150, size=4, user_spread=0.5
        )
        z.append(z_of(conditional_score(user, item, first, f, n_users=120)))
    rejected = (np.abs(z) > 1.96).mean(axis=0)
    assert (rejected < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 300)).all()


def test_a_property_of_users_and_items_alone_has_nothing_to_say():
    user, item, first, _, _ = draw(np.random.default_rng(4), 0.0)
    rng = np.random.default_rng(5)
    additive = rng.normal(size=400)[user] + rng.normal(size=40)[item]
    score = conditional_score(user, item, first, np.column_stack([additive, np.ones(user.size)]), n_users=400)
    assert np.isnan(score.value).all()
    assert (score.influence == 0).all()


def test_users_and_items_of_one_sample_alone_have_no_say():
    # Item 2 is in the first sample only; without it user 1 is in the second only, and so item 1 of user 0 is
    # left with the first sample only: nothing remains.
    user, item = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])
    first = np.array([False, True, False, True])
    score = conditional_score(user, item, first, np.arange(4.0)[:, None], n_users=2)
    assert (score.n_first, score.n_second) == (0, 0)
    assert np.isnan(score.value).all()


def test_item_effects_that_grow_without_limit_do_not_spoil_the_test():
    # Items 0 and 1 meet only in users who have 0 in the first and 1 in the second sample: separated.
    user = np.repeat(np.arange(30), 4)
    item = np.tile([0, 1, 2, 3], 30)
    rng = np.random.default_rng(6)
    last = rng.random(30) < 0.5
    first = np.column_stack([np.ones(30), np.zeros(30), last, ~last]).astype(bool).ravel()
    first[[0, 1]] = [False, True]  # so that both items have pairs of both samples
    score = conditional_score(user, item, first, rng.normal(size=(120, 1)), n_users=30)
    assert np.isfinite(score.value).all()
    assert np.isfinite(score.influence).all()
