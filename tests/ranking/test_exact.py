"""Exact ranks against the definition, by both engines."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

from ipseval import ComputeOptions, rank_positives
from tests.golden.ranking_oracle import inner_product, rank_all
from tests.ranking.worlds import ENGINES, INSTALLED, World, random_world, rows, world_of

DTYPES = ("float16", "float32", "float64", "int8", "int64", "uint64", ">f4", ">i8")

seeds = st.integers(0, 2**32 - 1)
engines = pytest.mark.parametrize("engine", ENGINES)


def tied_scores(rng: np.random.Generator, shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Return few distinct values, so that ties abound; with infinities where the type has them."""
    scores = rng.integers(0, rng.integers(1, 6) + 1, size=shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        scores[rng.random(shape) < 0.1] = -np.inf
        scores[rng.random(shape) < 0.05] = np.inf
    return scores


def expected(world: World, scores, **options) -> list[tuple[int, int, int, int]]:
    return rank_all(scores.tolist(), world.train, world.test, **options)


def exact_scores(user_factors, item_factors, bias=None) -> np.ndarray:
    return np.array(
        [
            [
                inner_product(u, v, None if bias is None else bias[i])
                for i, v in enumerate(item_factors.tolist())
            ]
            for u in user_factors.tolist()
        ]
    )


@engines
@given(seed=seeds, n_users=st.integers(1, 12), n_items=st.integers(1, 40), dtype=st.sampled_from(DTYPES))
@example(seed=0, n_users=1, n_items=1, dtype="float32")
def test_stored_scores_are_ranked_as_defined(engine, seed, n_users, n_items, dtype):
    rng = np.random.default_rng(seed)
    world = random_world(rng, n_users, n_items)
    scores = tied_scores(rng, (world.n_users, n_items), dtype)
    assert rows(rank_positives(scores, world.split, compute=ComputeOptions(engine=engine))) == expected(
        world, scores
    )


@engines
@given(
    seed=seeds,
    n_users=st.integers(1, 12),
    n_items=st.integers(1, 40),
    d=st.integers(1, 9),
    dtype=st.sampled_from(("float16", "float32", "float64", "int32")),
    with_bias=st.booleans(),
    coarse=st.booleans(),
)
def test_factors_are_ranked_by_their_inner_products(
    engine, seed, n_users, n_items, d, dtype, with_bias, coarse
):
    rng = np.random.default_rng(seed)
    world = random_world(rng, n_users, n_items)
    scale = 1 if coarse or dtype == "int32" else 0.37
    user = (rng.integers(-2, 3, size=(world.n_users, d)) * scale).astype(dtype)
    item = (rng.integers(-2, 3, size=(n_items, d)) * scale).astype(dtype)
    bias = None
    if with_bias:
        bias = np.where(rng.random(n_items) < 0.2, -np.inf, rng.integers(-1, 2, size=n_items) * 0.1)
    ranked = rank_positives((user, item, bias), world.split, compute=ComputeOptions(engine=engine))
    assert rows(ranked) == expected(world, exact_scores(user, item, bias))


@engines
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12, 1e25])
def test_scores_that_differ_in_the_last_bits_only_are_told_apart(engine, dtype, scale):
    # 3,000 items within a few units in the last place of one another: a single-precision product puts many
    # of them in the wrong order, whatever its block shape.
    rng = np.random.default_rng(7)
    n_users, n_items, d = 6, 3000, 24
    base = rng.normal(size=d)
    item = (base * (1 + rng.integers(-3, 4, size=(n_items, d)) * 1e-7)).astype(dtype)
    user = (rng.normal(size=(n_users, d)) * scale).astype(dtype)
    item[100:500] = item[0]
    test = {(u, i) for u in range(n_users) for i in (0, 17, 999, 2999)}
    train = {(u, i) for u in range(n_users) for i in (3, 4, 2998)}
    world = world_of(n_users, n_items, train, test)
    ranked = rank_positives((user, item), world.split, compute=ComputeOptions(engine=engine))
    assert rows(ranked) == expected(world, exact_scores(user, item))
    assert ranked.n_tied[ranked.item == 0].min() >= 400


@engines
def test_items_with_the_same_factors_tie_wherever_they_stand(engine):
    # The trap: in a BLAS product the last bit of an entry may depend on its row and column.
    rng = np.random.default_rng(3)
    n_users, n_items = 70, 4500
    user = rng.normal(size=(n_users, 50)).astype(np.float32)
    item = np.tile(rng.normal(size=50).astype(np.float32), (n_items, 1))
    world = world_of(n_users, n_items, {(0, 0)}, {(u, (u * 61) % n_items) for u in range(1, n_users)})
    ranked = rank_positives((user, item), world.split, compute=ComputeOptions(engine=engine))
    assert (ranked.n_above == 0).all()
    assert (ranked.n_tied == n_items - 1).all()


@engines
def test_integers_beyond_two_to_the_53_keep_their_order(engine):
    world = world_of(1, 4, {(0, 3)}, {(0, 0), (0, 1), (0, 2)})
    scores = np.array([[2**60, 2**60 + 1, 2**60 + 1, 0]])
    assert rows(rank_positives(scores, world.split, compute=ComputeOptions(engine=engine))) == [
        (0, 0, 2, 0),
        (0, 1, 0, 1),
        (0, 2, 0, 1),
    ]
    unsigned = scores.astype(np.uint64) + np.uint64(2**63)
    assert rank_positives(unsigned, world.split, compute=ComputeOptions(engine=engine)).n_above.tolist() == [
        2,
        0,
        0,
    ]


@engines
@given(seed=seeds, n_items=st.integers(1, 30))
def test_the_layout_of_the_array_does_not_matter(engine, seed, n_items):
    rng = np.random.default_rng(seed)
    world = random_world(rng, 6, n_items)
    scores = tied_scores(rng, (world.n_users, n_items), "float32")
    want = expected(world, scores)
    padded = np.zeros((2 * world.n_users, 3 * n_items), dtype=np.float32)
    padded[::2, ::3] = scores
    frozen = scores.copy()
    frozen.flags.writeable = False
    for same in (np.asfortranarray(scores), padded[::2, ::3], frozen, scores[::-1].copy()[::-1]):
        assert rows(rank_positives(same, world.split, compute=ComputeOptions(engine=engine))) == want
    assert (
        rows(rank_positives(sp.csr_array(scores), world.split, compute=ComputeOptions(engine=engine))) == want
    )
    assert (
        rows(rank_positives(sp.coo_matrix(scores), world.split, compute=ComputeOptions(engine=engine)))
        == want
    )
    assert (
        rows(rank_positives(lambda users: scores[users], world.split, compute=ComputeOptions(engine=engine)))
        == want
    )


@engines
def test_a_read_only_memmap_is_ranked_in_place(engine, tmp_path):
    rng = np.random.default_rng(5)
    world = random_world(rng, 20, 50)
    scores = tied_scores(rng, (world.n_users, 50), "float32")
    scores.tofile(tmp_path / "scores.bin")
    mapped = np.memmap(tmp_path / "scores.bin", dtype=np.float32, mode="r", shape=scores.shape)
    assert rows(rank_positives(mapped, world.split, compute=ComputeOptions(engine=engine))) == expected(
        world, scores
    )


@engines
def test_a_missing_entry_of_a_sparse_matrix_is_a_score_of_zero(engine):
    world = world_of(1, 4, {(0, 3)}, {(0, 0), (0, 1)})
    scores = sp.csr_array(np.array([[-1.0, 0.0, 2.0, 5.0]]))
    assert rows(rank_positives(scores, world.split, compute=ComputeOptions(engine=engine))) == [
        (0, 0, 2, 0),
        (0, 1, 1, 0),
    ]


@engines
@given(seed=seeds, block_size=st.integers(1, 9), n_threads=st.integers(1, 3))
def test_ranks_depend_on_neither_threads_nor_blocks(engine, seed, block_size, n_threads):
    rng = np.random.default_rng(seed)
    world = random_world(rng, 15, 23)
    user = rng.normal(size=(world.n_users, 5)).astype(np.float32)
    item = rng.normal(size=(23, 5)).astype(np.float32)
    options = {"compute": ComputeOptions(engine=engine, n_threads=n_threads, block_size=block_size)}
    for model, scores in (((user, item), exact_scores(user, item)), (user @ item.T, user @ item.T)):
        assert rows(rank_positives(model, world.split, **options)) == expected(world, scores)
        callback = rank_positives(lambda users, s=scores: s[users], world.split, **options)
        assert rows(callback) == expected(world, scores)


def wide_world(n_users: int = 60, n_items: int = 4100, per_user: int = 12) -> World:
    """Return a world wider than two tiles, with from 1 to `per_user` positives per user."""
    rng = np.random.default_rng(11)
    train, test = set(), set()
    for u in range(n_users):
        items = rng.permutation(n_items)
        test |= {(u, int(i)) for i in items[: 1 + u % per_user]}
        train |= {(u, int(i)) for i in items[per_user : per_user + rng.integers(0, 90)]}
    return world_of(n_users, n_items, train, test)


def test_both_engines_give_the_same_integers_over_several_tiles():
    world = wide_world()
    rng = np.random.default_rng(12)
    user = rng.normal(size=(world.n_users, 33)).astype(np.float32)
    item = rng.normal(size=(world.n_items, 33)).astype(np.float32)
    item[1000:1300] = item[999]
    item[3000:3300] = 0
    want = expected(world, exact_scores(user, item))
    stored = user @ item.T
    want_stored = expected(world, stored)
    for engine in INSTALLED:
        for block_size in (None, 1, 13, 64):
            options = {"compute": ComputeOptions(engine=engine, block_size=block_size)}
            assert rows(rank_positives((user, item), world.split, **options)) == want
            assert rows(rank_positives(stored, world.split, **options)) == want_stored


@engines
def test_users_with_one_positive_are_compared_over_several_tiles(engine):
    world = wide_world(per_user=1)
    rng = np.random.default_rng(13)
    scores = rng.integers(0, 50, size=(world.n_users, world.n_items)).astype(np.float32)
    assert rows(rank_positives(scores, world.split, compute=ComputeOptions(engine=engine))) == expected(
        world, scores
    )
    factors = rng.normal(size=(world.n_users, 8)), rng.normal(size=(world.n_items, 8))
    want = expected(world, exact_scores(*factors))
    assert rows(rank_positives(factors, world.split, compute=ComputeOptions(engine=engine))) == want


@engines
def test_a_constant_scorer_ties_everything(engine):
    world = wide_world()
    scores = np.zeros((world.n_users, world.n_items), dtype=np.float32)
    zero = np.zeros((world.n_users, 4)), np.zeros((world.n_items, 4))
    for model in (scores, zero):
        ranked = rank_positives(model, world.split, compute=ComputeOptions(engine=engine))
        assert (ranked.n_above == 0).all()
        assert (ranked.n_tied == ranked.n_candidates - 1).all()


@engines
def test_a_bias_alone_ranks_by_the_bias(engine):
    # Zero factors and a popularity bias: thousands of exact ties in one catalogue.
    world = wide_world()
    rng = np.random.default_rng(2)
    popularity = rng.integers(0, 7, size=world.n_items) / 3
    popularity[::50] = -np.inf
    popularity[7] = np.inf
    model = np.zeros((world.n_users, 3)), rng.normal(size=(world.n_items, 3)), popularity
    want = expected(world, np.tile(popularity, (world.n_users, 1)))
    assert rows(rank_positives(model, world.split, compute=ComputeOptions(engine=engine))) == want


@engines
@pytest.mark.parametrize("kind", ["dense", "factors", "callable", "sparse"])
def test_only_allowed_items_compete(engine, kind):
    rng = np.random.default_rng(4)
    world = random_world(rng, 10, 30)
    user = rng.integers(-2, 3, size=(world.n_users, 3)).astype(np.float64)
    item = rng.integers(-2, 3, size=(30, 3)).astype(np.float64)
    scores = user @ item.T
    model = {
        "dense": scores,
        "factors": (user, item),
        "callable": lambda users: scores[users],
        "sparse": sp.csr_array(scores),
    }[kind]
    allowed = {int(i) for i in rng.permutation(30)[:17]}
    mask = np.isin(np.arange(30), list(allowed))
    want = expected(world, scores, allowed=allowed)
    n_outside = len(world.test) - len(want)
    assert n_outside > 0
    for given_items in (mask, sorted(allowed)):
        with pytest.warns(UserWarning, match=rf"^{n_outside} of {len(world.test)} test positives"):
            ranked = rank_positives(
                model, world.split, candidates=given_items, compute=ComputeOptions(engine=engine)
            )
        assert rows(ranked) == want
        assert ranked.n_not_candidates == n_outside
        own = [17 - len({i for u, i in world.train if u == v} & allowed) for v in ranked.user]
        assert ranked.n_candidates.tolist() == own


@engines
@pytest.mark.parametrize("kind", ["dense", "factors", "callable"])
def test_each_user_may_have_candidates_of_its_own(engine, kind):
    from tests.ranking.worlds import frame

    rng = np.random.default_rng(6)
    world = random_world(rng, 12, 40)
    user = rng.integers(-2, 3, size=(world.n_users, 3)).astype(np.float64)
    item = rng.integers(-2, 3, size=(40, 3)).astype(np.float64)
    scores = user @ item.T
    model = {"dense": scores, "factors": (user, item), "callable": lambda users: scores[users]}[kind]
    lists = {(u, i) for u in range(world.n_users) for i in range(40) if rng.random() < 0.4}
    want = expected(world, scores, candidates=lists)
    with pytest.warns(UserWarning, match="are not among their user's candidates"):
        ranked = rank_positives(
            model, world.split, candidates=frame(lists), compute=ComputeOptions(engine=engine)
        )
    assert rows(ranked) == want
    own = [len({i for u, i in lists - world.train if u == v}) for v in ranked.user]
    assert ranked.n_candidates.tolist() == own
