"""Scores that are equal or nearly so are ranked as their exact sums are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipseval import ComputeOptions, rank_positives
from tests.inside.ranking import Factors, common_step
from tests.ranking.test_tiles import set_sizes
from tests.ranking.worlds import ENGINES, rows, world_of

engines = pytest.mark.parametrize("engine", ENGINES)


def in_order(user, item, bias=None):
    """Return Σ_k u_k v_k (+ bias) of all pairs, added in order in double precision."""
    scores = np.zeros((user.shape[0], item.shape[0]))
    for u, v in zip(user.T.astype(float), item.T.astype(float), strict=True):
        scores += u[:, None] * v
    return scores if bias is None else scores + bias


def noise(rng, shape, dtype):
    return 1 + np.finfo(dtype).eps * rng.integers(-2, 3, size=shape)


def one_place(rng, item):
    return item[:1] * noise(rng, item.shape, item.dtype)


def copies(rng, item):
    return item[rng.integers(6, size=item.shape[0])]


def almost_copies(rng, item):
    return copies(rng, item) * noise(rng, item.shape, item.dtype)


def short(rng, item):
    return item * np.where(rng.random((item.shape[0], 1)) < 0.8, 1e-9, 1)


def one_direction(rng, item):
    return item[:1] * rng.integers(1, 20, size=(item.shape[0], 1))


def whole(rng, item):
    return np.round(item)


def tenths(rng, item):
    return np.round(item) * 0.1


KINDS = (one_place, copies, almost_copies, short, one_direction, whole, tenths)


def a_world(rng, n_users, n_items):
    held = [rng.permutation(n_items)[: 3 + 9 * (u % 3)] for u in range(n_users)]
    train = {(u, int(i)) for u, items in enumerate(held) for i in items[: items.size // 3]}
    test = {(u, int(i)) for u, items in enumerate(held) for i in items[items.size // 3 :]}
    return world_of(n_users, n_items, train, test)


def expected(world, scores):
    """Return what `rows` does, from the scores of all pairs."""
    scores = scores.copy()
    for pair in world.train:
        scores[pair] = np.nan
    return [
        (u, i, int((scores[u] > scores[u, i]).sum()), int((scores[u] == scores[u, i]).sum()) - 1)
        for u, i in sorted(world.test)
    ]


@engines
@pytest.mark.parametrize("kind", KINDS)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 9),
    dtype=st.sampled_from(["float32", "float64"]),
    with_bias=st.booleans(),
    with_top=st.booleans(),
    tile=st.integers(10, 200),
    few=st.integers(1, 99),
)
def test_near_ties_are_ranked_by_exact_sums(engine, kind, seed, d, dtype, with_bias, with_top, tile, few):
    rng = np.random.default_rng(seed)
    world = a_world(rng, 11, 150)
    user, item = rng.normal(size=(11, d)).astype(dtype), rng.normal(size=(150, d)).astype(dtype)
    if kind in (whole, tenths):
        user = kind(rng, 2 * user).astype(dtype)
    item = kind(rng, item).astype(dtype)
    bias = rng.choice([0.0, 0.5, 1e-9, -np.inf], size=150) if with_bias else None
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, engine, {"TILE": tile, "FEW": few})
        ranked = rank_positives(
            (user, item, bias),
            world.split,
            compute=ComputeOptions(engine=engine, block_size=int(rng.integers(1, 12))),
            top_k=3 if with_top else None,
        )
    scores = in_order(user, item, bias)
    assert rows(ranked) == expected(world, scores)
    if with_top:
        stored = rank_positives(scores, world.split, top_k=3)
        np.testing.assert_array_equal(ranked.top.item, stored.top.item)


@engines
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [one_place, almost_copies, short, tenths])
def test_near_ties_in_a_catalogue_of_several_tiles(engine, kind, dtype):
    rng = np.random.default_rng(7)
    world = a_world(rng, 40, 9000)
    user, item = rng.normal(size=(40, 5)).astype(dtype), rng.normal(size=(9000, 5)).astype(dtype)
    item = kind(rng, item).astype(dtype)
    ranked = rank_positives((user, item), world.split, compute=ComputeOptions(engine=engine))
    assert rows(ranked) == expected(world, in_order(user, item))


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([1.5, 2.0, 0.0], 0.5),
        ([-3.0, 6.0], 1.0),  # whole numbers: multiples of 3, which is no power of two
        ([96.0, 32.0], 32.0),
        ([0.0, 0.0], np.inf),
        ([], np.inf),
        ([2.0**30, 1.0], 0.0),  # 2**30 steps are more than single precision holds
        ([0.1], 0.0),
    ],
)
def test_the_common_step_is_the_largest_power_of_two_of_which_all_are_multiples(values, step):
    assert common_step(np.array(values)) == step


def test_products_of_whole_numbers_are_exact_until_they_need_more_digits():
    user, item = np.array([[1.0, 2.0], [3000.0, 5.0]]), np.array([[3.0, 4.0], [0.0, 5000.0]])
    factors = Factors.of(user, item, np.array([0.5, -np.inf]), "model")
    assert factors.step == 0.5
    # 2**24 steps of .5 are 8.4 million: norms of 2.2 and 5,000 stay below, 3,000 and 5,000 do not.
    assert (factors.error_bound(np.arange(2)) > 0).tolist() == [False, True]
