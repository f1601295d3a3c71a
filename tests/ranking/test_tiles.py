"""Catalogues that take several tiles, of uneven width, and every way of counting in them."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipseval import ComputeOptions, rank_positives
from ipseval.ranking.kernels import numpy_count
from tests.golden.ranking_oracle import inner_product, rank_all
from tests.inside.ranking import _factors, kernels_for
from tests.ranking.worlds import ENGINES, INSTALLED, World, random_world, rows, world_of

KERNELS: dict[str, tuple[ModuleType, ...]] = {
    engine: (kernels_for(engine, 0), _factors) for engine in INSTALLED
}
KERNELS["numpy"] += (numpy_count,)

COMPILED = ("ROWS", "FEW")  # what Numba takes as it is when it compiles

engines = pytest.mark.parametrize("engine", ENGINES)
sizes = st.fixed_dictionaries(
    {
        "TILE": st.integers(1, 23),
        "SLOTS": st.integers(0, 4),
        "MASK_BYTES": st.sampled_from((1, 60, 2**19)),
        "COPIED": st.integers(1, 3),
        "LANES": st.sampled_from((8, 16, 2040)),
        "SORT_ROWS": st.integers(1, 4),
        "PAIRS": st.integers(1, 9),
        "FEW": st.integers(1, 99),
        "ROWS_BYTES": st.sampled_from((1, 500, 2**19)),
        "TRANSPOSED": st.integers(1, 9),
        "COLUMNS_BYTES": st.sampled_from((1, 100, 2**19)),
    }
)


def set_sizes(patch: pytest.MonkeyPatch, engine: str, values: dict[str, int]) -> None:
    for name, value in values.items():
        for module in KERNELS[engine]:
            if hasattr(module, name) and (engine == "numpy" or name not in COMPILED):
                patch.setattr(module, name, value)


def exact(user: np.ndarray, item: np.ndarray, bias: np.ndarray | None) -> list[list[float]]:
    return [
        [inner_product(u, v, None if bias is None else bias[i]) for i, v in enumerate(item.tolist())]
        for u in user.tolist()
    ]


def expected(world: World, scores: list[list[float]]) -> list[tuple[int, int, int, int]]:
    return rank_all(scores, world.train, world.test)


@engines
@given(
    seed=st.integers(0, 2**32 - 1),
    n_users=st.integers(1, 9),
    n_items=st.integers(1, 70),
    d=st.integers(1, 9),
    block_size=st.integers(1, 5),
    values=sizes,
)
def test_factors_are_ranked_alike_in_tiles_of_any_size(engine, seed, n_users, n_items, d, block_size, values):
    rng = np.random.default_rng(seed)
    world = random_world(rng, n_users, n_items)
    user = rng.integers(-2, 3, size=(world.n_users, d)) * 0.37
    item = rng.integers(-2, 3, size=(n_items, d)) * 0.37
    bias = np.where(rng.random(n_items) < 0.2, -np.inf, 0.1) if rng.random() < 0.5 else None
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, engine, values)
        ranked = rank_positives(
            (user, item, bias), world.split, compute=ComputeOptions(engine=engine, block_size=block_size)
        )
    assert rows(ranked) == expected(world, exact(user, item, bias))


@engines
@given(seed=st.integers(0, 2**32 - 1), n_users=st.integers(1, 9), n_items=st.integers(1, 70), values=sizes)
def test_stored_scores_are_ranked_alike_in_tiles_of_any_size(engine, seed, n_users, n_items, values):
    rng = np.random.default_rng(seed)
    world = random_world(rng, n_users, n_items)
    scores = rng.integers(0, 5, size=(world.n_users, n_items)).astype(rng.choice(["float32", "int64"]))
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, engine, values)
        ranked = rank_positives(scores, world.split, compute=ComputeOptions(engine=engine))
    assert rows(ranked) == expected(world, scores.tolist())


@engines
@pytest.mark.parametrize("n_positives", [1, 5, 40])
def test_a_catalogue_of_several_tiles_is_ranked_as_its_scores_are(engine, n_positives):
    # 20,002 items: three tiles of NumPy and twenty of Numba, the last one narrower. Scores are sums of
    # products of small integers, so that a double-precision product of NumPy is exact.
    rng = np.random.default_rng(n_positives)
    n_users, n_items = 37, 20_002
    user, item = rng.integers(-50, 51, size=(n_users, 6)), rng.integers(-50, 51, size=(n_items, 6))
    picked = [rng.choice(n_items, n_positives + 30, replace=False) for _ in range(n_users)]
    test = {(u, int(i)) for u, items in enumerate(picked) for i in items[:n_positives]}
    train = {(u, int(i)) for u, items in enumerate(picked) for i in items[n_positives:]}
    world = world_of(n_users, n_items, train, test)
    factors = (user.astype(np.float32) * 0.5, item.astype(np.float32))
    ranked = rank_positives(factors, world.split, compute=ComputeOptions(engine=engine))
    scores = user * 0.5 @ item.T
    for u, items in enumerate(picked):
        scores[u, items[n_positives:]] = np.nan
    mine = scores[ranked.user, ranked.item][:, None]
    np.testing.assert_array_equal(ranked.n_above, (scores[ranked.user] > mine).sum(axis=1))
    np.testing.assert_array_equal(ranked.n_tied, (scores[ranked.user] == mine).sum(axis=1) - 1)
    stored = rank_positives(
        np.asarray(user * 0.5 @ item.T), world.split, compute=ComputeOptions(engine=engine)
    )
    np.testing.assert_array_equal(stored.n_above, ranked.n_above)
    np.testing.assert_array_equal(stored.n_tied, ranked.n_tied)


@engines
def test_factors_without_dimensions_are_ranked_by_their_biases(engine):
    world = world_of(2, 3, {(0, 0), (1, 1)}, {(0, 1), (1, 0)})
    nothing = (np.zeros((2, 0)), np.zeros((3, 0)))
    tied = rank_positives(nothing, world.split, compute=ComputeOptions(engine=engine))
    assert (tied.n_above.tolist(), tied.n_tied.tolist()) == ([0, 0], [1, 1])
    ranked = rank_positives(
        (*nothing, np.array([1.0, 2.0, 3.0])), world.split, compute=ComputeOptions(engine=engine)
    )
    assert (ranked.n_above.tolist(), ranked.n_tied.tolist()) == ([1, 1], [0, 0])
