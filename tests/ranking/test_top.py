"""The best items of every user: the same ranks as a full sort, for every kind of scorer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipseval import ComputeOptions, InputError, Split, rank_positives
from ipseval.ranking import top_items
from tests.inside.ranking import Best, _exact_topk, _top_lists, rank_with_best
from tests.ranking.test_duplicate_items import tied_factors
from tests.ranking.test_exact import exact_scores
from tests.ranking.worlds import ENGINES, random_world


def world(seed, n_users, n_items):
    rng = np.random.default_rng(seed)
    train = np.argwhere(rng.random((n_users, n_items)) < 0.05)
    test = np.argwhere(rng.random((n_users, n_items)) < 0.05)
    seen = {tuple(pair) for pair in train.tolist()}
    test = [pair for pair in test.tolist() if tuple(pair) not in seen]
    frames = [pd.DataFrame(one, columns=["user", "item"]) for one in (train, test)]
    return rng, Split.from_frames(*frames, users=np.arange(n_users), items=np.arange(n_items))


def by_sorting(scores, split, k):
    """Return {(user, item): (above, tied)} by comparing every score with every other."""
    hidden = set(zip(split.train.user.tolist(), split.train.item.tolist(), strict=True))
    found = {}
    for user, row in enumerate(scores):
        items = [item for item in range(row.size) if (user, item) not in hidden]
        for item in items:
            above = sum(row[other] > row[item] for other in items)
            if above < k:
                found[user, item] = above, sum(row[other] == row[item] for other in items) - 1
    return found


def as_dict(top):
    pairs = zip(top.user.tolist(), top.item.tolist(), strict=True)
    return dict(zip(pairs, zip(top.n_above.tolist(), top.n_tied.tolist(), strict=True), strict=True))


@pytest.mark.parametrize("k", [1, 3, 25, 60])
@pytest.mark.parametrize("kind", ["dense", "ties", "integers", "infinite", "callable", "shared"])
def test_stored_scores(kind, k):
    rng, split = world(1, 9, 40)
    scores = rng.normal(size=(9, 40))
    if kind in ("ties", "callable"):
        scores = np.round(scores)
    if kind == "integers":
        scores = rng.integers(-3, 3, (9, 40))
    if kind == "infinite":
        scores[rng.random(scores.shape) < 0.7] = -np.inf
    if kind == "shared":
        scores = np.broadcast_to(np.round(scores[0]), scores.shape)
    model = (lambda users: scores[users]) if kind == "callable" else scores
    assert as_dict(top_items(model, split, k=k)) == by_sorting(scores, split, k)


@pytest.mark.parametrize("k", [1, 3, 25, 60])
@pytest.mark.parametrize("bias", [None, "finite", "infinite"])
def test_factors(bias, k):
    rng, split = world(2, 9, 40)
    # Whole numbers: products are exact in any order, and ties abound.
    user, item = (rng.integers(-2, 3, (n, 3)).astype(float) for n in (9, 40))
    offset = None if bias is None else rng.integers(-1, 2, 40).astype(float)
    if bias == "infinite":
        offset[:30] = -np.inf
        offset[35] = np.inf
    scores = user @ item.T + (0 if offset is None else offset)
    assert as_dict(top_items((user, item, offset), split, k=k)) == by_sorting(scores, split, k)


@pytest.mark.parametrize("single", [False, True])
def test_a_long_catalogue_and_any_number_of_threads(single):
    rng, split = world(3, 30, 3000)
    user, item = rng.normal(size=(30, 8)), rng.normal(size=(3000, 8))
    item[1500:] = item[:1500]  # every item has a twin, which ties
    if single:
        user, item = user.astype(np.float32), item.astype(np.float32)
    top = top_items((user, item), split, k=10, compute=ComputeOptions(n_threads=1, block_size=7))
    again = top_items((user, item), split, k=10, compute=ComputeOptions(n_threads=3))
    assert as_dict(top) == as_dict(again)
    # In order and in double precision, as the score is defined.
    scores = np.zeros((30, 3000))
    for u, v in zip(user.T.astype(float), item.T.astype(float), strict=True):
        scores += u[:, None] * v
    scores[split.train.user, split.train.item] = np.nan
    for one in range(30):
        expected = {}
        for place in np.flatnonzero(~np.isnan(scores[one])):
            above = int((scores[one] > scores[one, place]).sum())
            if above < 10:
                expected[one, int(place)] = above, int((scores[one] == scores[one, place]).sum()) - 1
        assert {pair: rank for pair, rank in as_dict(top).items() if pair[0] == one} == expected


@pytest.mark.parametrize("engine", ENGINES)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_users=st.integers(1, 12),
    n_items=st.integers(1, 60),
    k=st.integers(1, 9),
    dtype=st.sampled_from(["float32", "float64"]),
    with_bias=st.booleans(),
    sizes=st.fixed_dictionaries(
        {
            "_exact_topk.ENTRIES": st.sampled_from((1, 100, 2**18)),
            "_top_lists.ENTRIES": st.sampled_from((1, 100, 2**18)),
            "_exact_topk.FEWEST": st.integers(2, 5),
        }
    ),
)
def test_copies_and_near_copies_of_items_are_among_the_best_as_defined(
    engine, seed, n_users, n_items, k, dtype, with_bias, sizes
):
    rng = np.random.default_rng(seed)
    world = random_world(rng, n_users, n_items)
    user, item = (tied_factors(rng, n, 3, dtype) for n in (world.n_users, n_items))
    bias = (
        rng.choice([0.0, 0.5, -np.inf, np.inf], p=[0.5, 0.3, 0.1, 0.1], size=n_items) if with_bias else None
    )
    compute = ComputeOptions(engine=engine, block_size=5)
    modules = {one.__name__.rpartition(".")[2]: one for one in (_exact_topk, _top_lists)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in sizes.items():
            module, constant = name.split(".")
            patch.setattr(modules[module], constant, value)
        top = top_items((user, item, bias), world.split, k=k, compute=compute)
        lists = rank_positives((user, item, bias), world.split, top_k=k, compute=compute).top
    scores = np.array(exact_scores(user, item, bias), dtype=float).reshape(world.n_users, n_items)
    expected = by_sorting(scores, world.split, k)
    assert as_dict(top) == expected
    for one, own in zip(lists.users.tolist(), lists.item.tolist(), strict=True):
        best = sorted((above, i) for (user_, i), (above, _) in expected.items() if user_ == one)[:k]
        assert own == [i for _, i in best] + [-1] * (k - len(best))


@pytest.mark.parametrize("engine", ENGINES)
def test_ranks_and_the_best_of_all_users_come_from_one_pass(engine):
    rng, split = world(6, 40, 300)
    few = Split.from_frames(
        pd.DataFrame({"user": split.train.user, "item": split.train.item}),
        pd.DataFrame({"user": split.test.user[:30], "item": split.test.item[:30]}),
        users=np.arange(40),
        items=np.arange(300),
    )
    model = rng.normal(size=(40, 5)), rng.normal(size=(300, 5))
    found = []
    ranked = rank_with_best(
        model,
        few,
        name="m",
        top_k=3,
        compute=ComputeOptions(engine=engine, n_threads=1),
        best=Best(7, lambda *part: found.append(part), all_users=True),
    )
    assert np.unique(few.test.user).size < 40
    top = top_items(model, few, k=7)
    for column, name in enumerate(("user", "item", "n_above", "n_tied")):
        assert np.concatenate([part[column] for part in found]).tolist() == getattr(top, name).tolist()
    alone = rank_positives(model, few, top_k=3)
    assert ranked.n_above.tolist() == alone.n_above.tolist()
    assert ranked.top.item.tolist() == alone.top.item.tolist()


def test_best_items_of_which_one_lies_apart_are_found():
    _, split = world(4, 5, 4096)
    scores = np.tile(np.where(np.arange(4096) % 16 == 0, 1.0, 0.0), (5, 1)) + np.arange(4096) * 1e-6
    scores[:, 3] = 9.0
    found = as_dict(top_items(scores, split, k=2))
    for user in range(5):
        row = scores[user].copy()
        row[split.train.item[split.train.user == user]] = -1
        best = np.argsort(-row)[:2]
        assert [found[user, int(item)] for item in best] == [(0, 0), (1, 0)]


def test_what_has_no_scores_of_all_items_is_refused():
    _, split = world(5, 4, 20)
    lists = pd.DataFrame({"user": [0], "item": [1], "rank": [1]})
    with pytest.raises(InputError, match="need scores of all items"):
        top_items(lists, split, k=2)
    with pytest.raises(InputError, match="80 of 80 scores are NaN"):
        top_items(np.full((4, 20), np.nan), split, k=2)
