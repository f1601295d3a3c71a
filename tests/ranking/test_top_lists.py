"""Top-k lists: the same as sorting all exact scores, whatever the engine, the scorer and the block size."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import ipseval
from tests.conftest import examples
from tests.ranking.worlds import INSTALLED
from tests.worlds import random_world, small_world

K = 5
COMPUTE = [
    ipseval.ComputeOptions(engine=engine, n_threads=threads, block_size=block)
    for engine, (threads, block) in itertools.product(INSTALLED, ((1, None), (2, 3)))
]


def oracle(scores, split, k=K, allowed=None):
    """Sort every candidate of every user with positives by score, then by item."""
    seen = set(zip(split.train.user.tolist(), split.train.item.tolist(), strict=True))
    lists = {}
    for user in np.unique(split.test.user).tolist():
        may = [i for i in range(split.n_items) if (user, i) not in seen and (allowed is None or i in allowed)]
        best = sorted(may, key=lambda item: (-scores[user, item], item))[:k]
        lists[user] = best + [-1] * (k - len(best))
    return lists


def kept(ranked):
    return dict(zip(ranked.top.users.tolist(), ranked.top.item.tolist(), strict=True))


def exact_products(user, item, bias=None):
    products = user[:, None, :].astype(np.float64) * item[None].astype(np.float64)
    total = np.zeros(products.shape[:2])
    for place in range(products.shape[2]):
        total += products[:, :, place]
    return total if bias is None else total + bias


@pytest.mark.parametrize("compute", COMPUTE, ids=lambda one: f"{one.engine}-{one.n_threads}")
@pytest.mark.parametrize("seed", range(examples(20)))
def test_lists_of_factors_are_those_of_the_exact_scores(compute, seed):
    rng = np.random.default_rng(seed)
    world = random_world(seed, n_users=30, n_items=500 if seed % 2 else 60, density=0.1)
    split, n_items = world.split, world.split.n_items
    user = rng.normal(size=(split.n_users, 4)).astype(np.float32)
    item = rng.normal(size=(n_items, 4)).astype(np.float32)
    if seed % 3 == 0:  # ties: few values, many items alike, users and items without factors
        user, item = np.round(user), np.round(item)
        item[rng.random(n_items) < 0.4] = 0
        user[:3] = 0
    bias = rng.normal(size=n_items) if seed % 4 == 1 else None
    if bias is not None:
        bias[:3] = [-np.inf, np.inf, -np.inf]
    model = (user, item) if bias is None else (user, item, bias)
    ranked = ipseval.rank_positives(model, split, compute=compute, top_k=K)
    assert kept(ranked) == oracle(exact_products(user, item, bias), split)
    plain = ipseval.rank_positives(model, split, compute=compute)
    assert (ranked.n_above == plain.n_above).all()
    assert plain.top is None


@pytest.mark.parametrize("compute", COMPUTE, ids=lambda one: f"{one.engine}-{one.n_threads}")
def test_near_ties_beyond_the_precision_of_the_products_are_settled(compute):
    # 400 items whose scores differ in the tenth digit: single precision cannot tell them apart.
    rng = np.random.default_rng(0)
    world = random_world(0, n_users=12, n_items=400, density=0.1)
    user = np.ones((world.split.n_users, 3))
    item = 1 + 1e-10 * rng.normal(size=(world.split.n_items, 3))
    ranked = ipseval.rank_positives((user, item), world.split, compute=compute, top_k=K)
    assert kept(ranked) == oracle(exact_products(user, item), world.split)


@pytest.mark.parametrize("compute", COMPUTE, ids=lambda one: f"{one.engine}-{one.n_threads}")
def test_users_whose_best_are_clear_are_settled_beside_users_whose_best_are_not(compute):
    # Every other user reads the first factor, which differs in the tenth digit; the others the second.
    rng = np.random.default_rng(0)
    world = random_world(0, n_users=12, n_items=400, density=0.1)
    user = np.array([[1.0, 0.0], [0.0, 1.0]])[np.arange(world.split.n_users) % 2]
    n_items = world.split.n_items
    item = np.column_stack([1 + 1e-10 * rng.normal(size=n_items), rng.normal(size=n_items)])
    ranked = ipseval.rank_positives((user, item), world.split, compute=compute, top_k=K)
    assert kept(ranked) == oracle(exact_products(user, item), world.split)


KINDS = {
    "dense": lambda s: s,
    "float16": lambda s: s.astype(np.float16),
    "whole numbers": lambda s: (10 * s).astype(np.int64),
    "small whole numbers": lambda s: (10 * s).astype(np.int8),
    "function": lambda s: lambda users: s[users],
    "sparse": lambda s: csr_matrix(s),
    "one score per item": lambda s: np.broadcast_to(s[0], s.shape),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compute", COMPUTE[1::2], ids=lambda one: one.engine)
@pytest.mark.parametrize("n_items", [20, 700])
def test_lists_of_all_kinds_of_scores_are_those_of_sorting_them(kind, compute, n_items):
    world = random_world(1, n_users=25, n_items=n_items, density=0.15)
    split = world.split
    scores = world.scores.copy()
    scores[2, :4] = -np.inf if kind in ("dense", "function") else -3
    model = KINDS[kind](scores)
    ranked = ipseval.rank_positives(model, split, compute=compute, top_k=K)
    seen = {"one score per item": np.repeat(scores[:1], split.n_users, axis=0)}.get(kind, scores)
    if "numbers" in kind or kind == "float16":
        seen = np.asarray(model).astype(np.float64)
    assert kept(ranked) == oracle(seen, split)


def test_users_with_fewer_candidates_than_k_have_shorter_lists():
    world = small_world(3)
    ranked = ipseval.rank_positives(world.scores, world.split, top_k=6)
    assert kept(ranked) == oracle(world.scores, world.split, k=6)
    assert (ranked.top.length == (ranked.top.item >= 0).sum(axis=1)).all()
    assert ranked.top.length.min() < 6
    assert ranked.top.first(2).item.tolist() == ranked.top.item[:, :2].tolist()


def test_allowed_items_and_lists_of_candidates_restrict_the_lists():
    world = random_world(4, n_users=20, n_items=50)
    split = world.split
    allowed = [i for i in range(split.n_items) if i % 3]
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(split.n_users, 3)), rng.normal(size=(split.n_items, 3))
    for model, scores in ((world.scores, world.scores), (factors, exact_products(*factors))):
        with pytest.warns(ipseval.errors.DataWarning, match="not among the allowed items"):
            ranked = ipseval.rank_positives(model, split, candidates=split.item_ids[allowed], top_k=K)
        expected = oracle(scores, split, allowed=set(allowed))
        assert kept(ranked) == {user: expected[user] for user in ranked.top.users.tolist()}
        user, item = np.nonzero(
            np.isin(np.arange(split.n_items), allowed) & np.ones((split.n_users, 1), bool)
        )
        frame = pd.DataFrame({"user": split.user_ids[user], "item": split.item_ids[item]})
        with pytest.warns(ipseval.errors.DataWarning, match="not among their user's candidates"):
            own = ipseval.rank_positives(model, split, candidates=frame, top_k=K)
        assert kept(own) == kept(ranked)


def test_top_k_frames_keep_their_own_first_items():
    world = random_world(5, n_users=15, n_items=40)
    expected = oracle(world.scores, world.split, k=8)
    frame = pd.DataFrame(
        [(user, item, rank + 1) for user, own in expected.items() for rank, item in enumerate(own)],
        columns=["user", "item", "rank"],
    )
    frame["user"], frame["item"] = world.split.user_ids[frame["user"]], world.split.item_ids[frame["item"]]
    ranked = ipseval.rank_positives(frame, world.split, top_k=K)
    assert kept(ranked) == {user: own[:K] for user, own in expected.items()}
    assert "first 5 items" in repr(ranked.top)


def test_what_has_no_lists_says_so():
    world = random_world(6)
    ranked = ipseval.rank_positives(world.scores, world.split)
    with pytest.raises(ipseval.InputError, match=r"without its first 5 items.*top_k=5"):
        ipseval.rank_positives(ranked, world.split, top_k=5)
    sampled = ipseval.SampledCandidates(5, rng=0)
    with pytest.raises(ipseval.InputError, match="a sample of candidates has no lists"):
        ipseval.rank_positives(world.scores, world.split, candidates=sampled, top_k=5)
    with pytest.raises(ipseval.InputError, match="top_k must be an integer >= 1"):
        ipseval.rank_positives(world.scores, world.split, top_k=0)
