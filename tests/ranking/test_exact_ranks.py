"""Exact ranks and the best items against the definition, for every scorer, engine and size of the work."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from functools import cache
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ipseval import ComputeOptions, rank_positives
from ipseval.errors import DataWarning
from ipseval.ranking import top_items
from ipseval.ranking.kernels import numpy_kernels as numpy_count
from tests.conftest import examples
from tests.golden.ranking_oracle import rank_all
from tests.inside.ranking import _factor_topk, _factors, select_kernels, top_lists
from tests.ranking.adapters.checks import exact_scores
from tests.ranking.worlds import ENGINES, INSTALLED, World, frame, make_world, random_world, rows

DTYPES = ("float16", "float32", "float64", "int8", "int64", "uint64", ">f4", ">i8")

KERNELS: dict[str, tuple[ModuleType, ...]] = {
    engine: (select_kernels(engine, 0), _factors, _factor_topk, top_lists) for engine in INSTALLED
}
KERNELS["numpy"] += (numpy_count,)
COMPILED = ("ROWS", "FEW")  # what Numba takes as it is when it compiles

engines = pytest.mark.parametrize("engine", ENGINES)
seeds = st.integers(0, 2**32 - 1)
# How the work is cut into pieces: constants of the modules, and options. None of them may change a rank.
sizes = st.fixed_dictionaries(
    {
        "TILE": st.integers(1, 200),
        "SLOTS": st.integers(0, 4),
        "MASK_BYTES": st.sampled_from((1, 60, 2**19)),
        "COPIED": st.integers(1, 3),
        "LANES": st.sampled_from((8, 16, 2040)),
        "PAIRS": st.integers(1, 9),
        "FEW": st.integers(1, 99),
        "ROWS_BYTES": st.sampled_from((1, 500, 2**19)),
        "COLUMNS_BYTES": st.sampled_from((1, 100, 2**19)),
        "FEWEST": st.integers(2, 16),
        "MOST": st.integers(1, 3),
        "ENTRIES": st.sampled_from((1, 100, 2**18)),
        "SHARED": st.integers(1, 5),
        "GROUPS": st.sampled_from((1, 5, 64)),
    }
)
options = st.fixed_dictionaries({"n_threads": st.integers(1, 3), "block_size": st.integers(1, 9)})


def set_sizes(patch: pytest.MonkeyPatch, engine: str, values: dict[str, int]) -> None:
    for name, value in values.items():
        for module in KERNELS[engine]:
            if hasattr(module, name) and (engine == "numpy" or name not in COMPILED):
                patch.setattr(module, name, value)


def find_best(scores, split, k: int, pool=None) -> dict[tuple[int, int], tuple[int, int]]:
    """Return {(user, item): (above, tied)} of each user's best items, by comparing every pair of scores."""
    hidden = set(zip(split.train.user.tolist(), split.train.item.tolist(), strict=True))
    best = {}
    for user, row in enumerate(scores):
        items = [
            i for i in range(row.size) if (user, i) not in hidden and (pool is None or (user, i) in pool)
        ]
        item_scores = row[items]
        above = (item_scores > item_scores[:, None]).sum(axis=1)
        tied = (item_scores == item_scores[:, None]).sum(axis=1)
        best |= {
            (user, i): (a, n - 1)
            for i, a, n in zip(items, above.tolist(), tied.tolist(), strict=True)
            if a < k
        }
    return best


def check_ranks(
    model, world: World, scores, compute: ComputeOptions, k: int, pool=None, candidates="all"
) -> None:
    """Check ranks, lists of the first k and the best items of all users against the scores of all pairs."""
    n_items = scores.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of positives that are not candidates
        ranked = rank_positives(model, world.split, compute=compute, top_k=k, candidates=candidates)
    assert rows(ranked) == rank_all(scores.tolist(), world.train, world.test, candidates=pool)
    assert ranked.n_not_candidates == len(world.test) - len(ranked)
    competing = itertools.product(range(world.n_users), range(n_items)) if pool is None else pool
    size = Counter(user for user, item in competing if (user, item) not in world.train)
    assert ranked.n_candidates.tolist() == [size[user] for user in ranked.user.tolist()]
    best = find_best(scores, world.split, k, pool)
    assert ranked.top.users.tolist() == sorted(set(ranked.user.tolist()))
    for user, items in zip(ranked.top.users.tolist(), ranked.top.item.tolist(), strict=True):
        first = sorted((above, item) for (u, item), (above, _) in best.items() if u == user)[:k]
        assert items == [item for _, item in first] + [-1] * (k - len(first))
    if pool is None:
        top = top_items(model, world.split, k=k, compute=compute)
        assert rows(top) == [(*pair, *rank) for pair, rank in sorted(best.items())]


def make_noise(rng, shape, dtype):
    return 1 + np.finfo(dtype).eps * rng.integers(-2, 3, size=shape)


def differ_by_noise(rng, item):
    return item[:1] * make_noise(rng, item.shape, item.dtype)


def copy_rows(rng, item):
    return item[rng.integers(min(6, len(item)), size=item.shape[0])]


def copy_rows_with_noise(rng, item):
    return copy_rows(rng, item) * make_noise(rng, item.shape, item.dtype)


def shorten_rows(rng, item):
    return item * np.where(rng.random((item.shape[0], 1)) < 0.8, 1e-9, 1)


def align_rows(rng, item):
    return item[:1] * rng.integers(1, 20, size=(item.shape[0], 1))


def round_values(rng, item):
    return np.round(2 * item)


def round_to_tenths(rng, item):
    return np.round(2 * item) * 0.1


def mix_kinds(rng, item):
    """Return rows with some copies, some differences in the last bits, and some zeros."""
    item = np.where(rng.random((len(item), 1)) < 0.5, copy_rows(rng, item), item)
    is_near = rng.random(len(item)) < 0.3
    item[is_near] = item[0] + rng.choice([0.0, 1e-9, 1e-16], size=(int(is_near.sum()), item.shape[1]))
    item[rng.random(len(item)) < 0.2] = 0.0
    item[rng.random(len(item)) < 0.1] *= 1e-17
    return item


KINDS = (
    differ_by_noise,
    copy_rows,
    copy_rows_with_noise,
    shorten_rows,
    align_rows,
    round_values,
    round_to_tenths,
    mix_kinds,
)


@engines
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(40))
@given(
    seed=seeds,
    n_users=st.integers(1, 8),
    n_items=st.integers(1, 60),
    d=st.integers(1, 9),
    dtype=st.sampled_from(("float16", "float32", "float64", "int32")),
    scale=st.sampled_from((1e-30, 1e-12, 1.0, 1e12, 1e35)),
    bias=st.sampled_from(("none", "finite", "infinite")),
    k=st.integers(1, 9),
    values=sizes,
    compute=options,
)
def test_factors_are_ranked_by_their_exact_sums(
    engine, kind, seed, n_users, n_items, d, dtype, scale, bias, k, values, compute
):
    rng = np.random.default_rng(seed)
    world = random_world(rng, n_users, n_items)
    user = rng.normal(size=(world.n_users, d))
    item = kind(rng, rng.normal(size=(n_items, d)))
    if kind in (round_values, round_to_tenths, mix_kinds):
        user = kind(rng, user)
    # Of 1e35 · 1e5 the product leaves the range of single precision.
    user, item = (user * scale, item * max(1, scale / 1e30)) if dtype == "float64" else (user, item)
    user = user.astype(dtype)
    item = item.astype(dtype)
    offset = rng.choice([0.0, 0.0, 0.5, 0.1], size=n_items)
    if bias == "infinite":
        offset[rng.random(n_items) < 0.2] = -np.inf
        offset[rng.random(n_items) < 0.1] = np.inf
    model = (user, item) if bias == "none" else (user, item, offset)
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, engine, values)
        check_ranks(model, world, exact_scores(*model), ComputeOptions(engine=engine, **compute), k)


def make_tied_scores(rng: np.random.Generator, shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Return few distinct values with many ties, and infinities if the type has them."""
    scores = rng.integers(0, rng.integers(1, 6) + 1, size=shape).astype(dtype)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        scores[rng.random(shape) < 0.1] = -np.inf
        scores[rng.random(shape) < 0.05] = np.inf
        scores[rng.random(shape) < 0.1] = -0.0
    elif kind.itemsize == 8:
        # Whole numbers that double precision does not tell apart; without a sign, on both sides of its bit.
        scores += kind.type(2**63 - 3 if kind.kind == "u" else 2**60)
    return scores


def leave_gaps(scores):
    buffer = np.zeros((2 * scores.shape[0], 3 * scores.shape[1]), dtype=scores.dtype)
    buffer[::2, ::3] = scores
    return buffer[::2, ::3]


def as_read_only(scores):
    copy = scores.copy()
    copy.flags.writeable = False
    return copy


FORMS = {
    "array": lambda scores: scores,
    "by columns": np.asfortranarray,
    "with gaps": leave_gaps,
    "backwards": lambda scores: scores[::-1].copy()[::-1],
    "read-only": as_read_only,
    "sparse rows": sp.csr_array,
    "sparse pairs": sp.coo_matrix,
    "function": lambda scores: lambda users: scores[users],
    "one for all": lambda scores: np.broadcast_to(scores[0], scores.shape),
}


@engines
@settings(max_examples=examples(300))
@given(
    seed=seeds,
    n_users=st.integers(1, 8),
    n_items=st.integers(1, 50),
    dtype=st.sampled_from(DTYPES),
    form=st.sampled_from(list(FORMS)),
    k=st.integers(1, 9),
    values=sizes,
    compute=options,
)
@example(0, 1, 1, "float32", "array", 1, {}, {})
def test_stored_scores_are_ranked_as_defined(engine, seed, n_users, n_items, dtype, form, k, values, compute):
    rng = np.random.default_rng(seed)
    world = random_world(rng, n_users, n_items)
    scores = make_tied_scores(rng, (world.n_users, n_items), dtype)
    if form.startswith("sparse") and dtype in ("float16", ">f4", ">i8"):
        scores = scores.astype("float32")  # SciPy holds no others
    model = FORMS[form](scores)
    if form == "one for all":
        scores = np.tile(scores[:1], (world.n_users, 1))
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, engine, values)
        check_ranks(model, world, scores, ComputeOptions(engine=engine, **compute), k)


def test_a_read_only_memmap_is_ranked_in_place(tmp_path):
    rng = np.random.default_rng(5)
    world = random_world(rng, 20, 50)
    scores = make_tied_scores(rng, (world.n_users, 50), "float32")
    scores.tofile(tmp_path / "scores.bin")
    memmap = np.memmap(tmp_path / "scores.bin", dtype=np.float32, mode="r", shape=scores.shape)
    check_ranks(memmap, world, scores, ComputeOptions(engine="numpy"), 3)


@engines
@settings(max_examples=examples(300))
@given(
    seed=seeds,
    n_items=st.integers(2, 25),
    model=st.sampled_from(("factors", *FORMS)),
    form=st.sampled_from(("ids", "mask", "lists")),
    k=st.integers(1, 9),
    compute=options,
)
def test_only_candidates_compete(engine, seed, n_items, model, form, k, compute):
    rng = np.random.default_rng(seed)
    world = random_world(rng, 6, n_items)
    factors = tuple(rng.integers(-2, 3, size=(n, 3)).astype(float) for n in (world.n_users, n_items))
    scores = factors[0] @ factors[1].T
    scorer = factors if model == "factors" else FORMS[model](scores)
    if model == "one for all":
        scores = np.tile(scores[:1], (world.n_users, 1))
    is_candidate = rng.random((world.n_users, n_items)) < 0.6
    if form != "lists":
        is_candidate[:] = is_candidate[0]
    user, item = min(world.test)
    is_candidate[user if form == "lists" else slice(None), item] = True  # one positive can be ranked
    pool = {(int(u), int(i)) for u, i in np.argwhere(is_candidate)}
    candidates = {
        "ids": np.flatnonzero(is_candidate[0])[::-1],
        "mask": is_candidate[0],
        "lists": frame(sorted(pool)),
    }
    check_ranks(scorer, world, scores, ComputeOptions(engine=engine, **compute), k, pool, candidates[form])


def keep_rows(rng, item):
    return item


@cache
def make_wide_world(kind, dtype):
    """Return a world wider than two tiles of Numba, factors, and the scores of all pairs."""
    rng = np.random.default_rng(7)
    n_users = 16
    n_items = 2600
    items_by_user = [rng.permutation(n_items)[: 20 + n] for n in (*range(1, 30, 2), 60)]  # up to 60 positives
    train = {(u, int(i)) for u, items in enumerate(items_by_user) for i in items[:20]}
    test = {(u, int(i)) for u, items in enumerate(items_by_user) for i in items[20:]}
    scale = {"float32": 1, "float64": 2.0**66}[dtype]  # products of 2^132 leave the range of single precision
    user = (scale * rng.normal(size=(n_users, 5))).astype(dtype)
    item = (scale * kind(rng, rng.normal(size=(n_items, 5)).astype(dtype))).astype(dtype)
    item[1000:1300] = item[999]
    item[2000:2300] = 0
    user[::7] = 0
    return make_world(n_users, n_items, train, test), (user, item), exact_scores(user, item)


@engines
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "kind", [keep_rows, differ_by_noise, copy_rows_with_noise, shorten_rows, round_to_tenths]
)
def test_catalogues_of_several_tiles_are_ranked_exactly(engine, kind, dtype, monkeypatch):
    if engine == "numpy":  # its tiles are eight times as wide
        monkeypatch.setattr(select_kernels(engine, 0), "TILE", 1000)
    world, factors, scores = make_wide_world(kind, dtype)
    hidden = scores.copy()
    hidden[world.split.train.user, world.split.train.item] = np.nan
    for model in (factors, scores):
        ranked = rank_positives(model, world.split, top_k=10, compute=ComputeOptions(engine=engine))
        positive_scores = scores[ranked.user, ranked.item][:, None]
        np.testing.assert_array_equal(ranked.n_above, (hidden[ranked.user] > positive_scores).sum(axis=1))
        np.testing.assert_array_equal(ranked.n_tied, (hidden[ranked.user] == positive_scores).sum(axis=1) - 1)
        first = np.argsort(-hidden, axis=1, kind="stable")[:, :10]  # NaN comes last, equal scores by item
        np.testing.assert_array_equal(ranked.top.item, first[ranked.top.users])


@engines
def test_factors_without_dimensions_are_ranked_by_their_biases(engine):
    world = make_world(2, 3, {(0, 0), (1, 1)}, {(0, 1), (1, 0)})
    for bias in (np.zeros(3), np.array([1.0, 2.0, 3.0])):
        model = np.zeros((2, 0)), np.zeros((3, 0)), bias
        check_ranks(model, world, np.tile(bias, (2, 1)), ComputeOptions(engine=engine), 2)
