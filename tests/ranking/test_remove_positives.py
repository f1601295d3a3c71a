"""Removal of positives: the remaining ranks equal the ranks in a catalogue without the removed items."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ipseval import InputError, RankedPositives, SampledCandidates, rank_positives
from tests.conftest import examples
from tests.golden.ranking_oracle import rank
from tests.inside.ranking import Drawer, HeldOutPositives
from tests.ranking.worlds import World, frame, make_world, random_world

KINDS = ("array", "sparse", "factors", "function", "allowed", "candidates")
seeds = st.integers(0, 2**32 - 1)


def random_mask(rng: np.random.Generator, ranked: RankedPositives) -> np.ndarray:
    return rng.random(len(ranked)) < rng.choice([0.1, 0.4, 0.9, 1.0])


def integer_factors(rng: np.random.Generator, world: World, n_items: int) -> tuple[np.ndarray, np.ndarray]:
    return tuple(rng.integers(-2, 3, size=(n, 2)).astype(float) for n in (world.n_users, n_items))


def expected(world: World, scores, ranked: RankedPositives, mask, pools) -> list[tuple[int, ...]]:
    """Return the ranks of the remaining positives among the remaining candidates, by the definition."""
    training = {}
    leaving = {}
    for user, item in world.train:
        training.setdefault(user, set()).add(item)
    for user, item in zip(ranked.user[mask].tolist(), ranked.item[mask].tolist(), strict=True):
        leaving.setdefault(user, set()).add(item)
    result = []
    for user, item in zip(ranked.user[~mask].tolist(), ranked.item[~mask].tolist(), strict=True):
        excluded = training.get(user, set()) | leaving.get(user, set())
        row = {i: s for i, s in enumerate(scores[user].tolist()) if i in pools[user] and i not in excluded}
        result.append((user, item, *rank(row, item, ()), len(row)))
    return result


def rows(ranked: RankedPositives) -> list[tuple[int, ...]]:
    columns = (ranked.user, ranked.item, ranked.n_above, ranked.n_tied, ranked.n_candidates)
    return [tuple(int(x) for x in row) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(100))
@given(seed=seeds)
def test_remaining_positives_are_ranked_without_the_removed_items(kind, seed):
    rng = np.random.default_rng(seed)
    n_items = int(rng.integers(2, 15))
    world = random_world(rng, int(rng.integers(1, 6)), n_items)
    factors = integer_factors(rng, world, n_items)
    scores = factors[0] @ factors[1].T
    all_items = set(range(n_items))
    pools = dict.fromkeys(range(world.n_users), all_items)
    options = {}
    if kind == "allowed":
        allowed = all_items - {int(rng.integers(n_items))} | {item for _, item in world.test}
        options["candidates"] = sorted(allowed)
        pools = dict.fromkeys(pools, allowed)
    if kind == "candidates":
        pools = {u: {i for i in all_items if rng.random() < 0.6} for u in pools}
        for user, item in world.test:
            pools[user].add(item)
        options["candidates"] = frame(sorted((u, i) for u in pools for i in pools[u]))
    models = {"sparse": sp.csr_matrix(scores), "factors": factors, "function": lambda users: scores[users]}
    ranked = rank_positives(models.get(kind, scores), world.split, **options)
    mask = random_mask(rng, ranked)
    remaining = ranked.remove_positives(mask)
    assert rows(remaining) == expected(world, scores, ranked, mask, pools)
    n_removed = np.bincount(ranked.user[mask], minlength=world.n_users)
    assert remaining.candidates_by_user.tolist() == (ranked.candidates_by_user - n_removed).tolist()


@settings(max_examples=examples(200))
@given(seed=seeds)
def test_removed_items_leave_a_list_and_lower_items_move_up(seed):
    rng = np.random.default_rng(seed)
    n_items = int(rng.integers(4, 25))
    depth = int(rng.integers(1, 6))
    world = random_world(rng, int(rng.integers(1, 8)), n_items)
    scores = rng.integers(0, 9, size=(world.n_users, n_items))  # some tie
    entries = []
    for user in range(world.n_users):
        best = [i for i in np.argsort(-scores[user]).tolist() if (user, i) not in world.train]
        entries += [(user, i, int(scores[user, i])) for i in best[: rng.integers(depth + 1)]]
    if not entries:
        return
    lists = pd.DataFrame(entries, columns=["user", "item", "score"])
    ranked = rank_positives(lists, world.split)
    mask = random_mask(rng, ranked)
    remaining = ranked.remove_positives(mask)
    removed_pairs = set(zip(ranked.user[mask].tolist(), ranked.item[mask].tolist(), strict=True))
    entries_left = [entry for entry in entries if entry[:2] not in removed_pairs]
    length = [sum(u == user for u, *_ in entries_left) for user in range(world.n_users)]
    assert remaining.max_rank is None or remaining.list_length.tolist() == length
    for user, item, above, tied in zip(
        remaining.user, remaining.item, remaining.n_above, remaining.n_tied, strict=True
    ):
        score_by_item = {i: score for u, i, score in entries_left if u == user}
        if item in score_by_item:
            levels = list(score_by_item.values())
            assert above == sum(level > score_by_item[item] for level in levels)
            assert tied == levels.count(score_by_item[item]) - 1
        elif ranked.max_rank is not None:
            assert (above, tied) == (ranked.max_rank, 0)


def test_lists_of_unknown_length_are_taken_to_be_full():
    ranked = RankedPositives(
        [0, 0, 1], [1, 2, 1], [0, 3, 1], [0, 0, 0], [9, 9, 9], [0, 1], range(9), max_rank=3
    )
    remaining = ranked.remove_positives(np.array([True, False, False]))
    assert remaining.n_above.tolist() == [3, 1]
    assert remaining.list_length.tolist() == [2, 3]


SCHEMES = [
    {"per": per, "replacement": replacement, "distribution": distribution, "pool": pool}
    for per in ("user", "positive")
    for replacement in (True, False)
    for distribution in ("uniform", "popularity")
    for pool in ("candidates", "unobserved", "unobserved+positives")
]


@pytest.mark.filterwarnings("ignore::ipseval.errors.IdentificationWarning")
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda one: "-".join(str(value) for value in one.values()))
def test_removed_positives_count_as_never_drawn(scheme):
    rng = np.random.default_rng(0)
    state = rng.choice(3, p=[0.6, 0.2, 0.2], size=(5, 25))
    state[0, :20] = [2] * 3 + [0] * 17
    state[4] = 1  # every item is known to training
    log = [[(int(u), int(i)) for u, i in np.argwhere(state == kind)] for kind in (1, 2)]
    world = make_world(5, 25, *log)
    scores = rng.integers(0, 8, size=(5, 25)).astype(float)
    sampler = SampledCandidates(4, rng=3, **scheme)
    ranked = rank_positives(scores, world.split, candidates=sampler)
    mask = rng.random(len(ranked)) < 0.4
    remaining = ranked.remove_positives(mask)
    is_selected = ranked.user < 2  # the record follows a selection
    assert rows(ranked.select(is_selected).remove_positives(mask[is_selected])) == rows(
        remaining.select(is_selected[~mask])
    )
    check_draws(ranked, np.zeros(len(ranked), dtype=bool), ranked, world, scores, sampler)
    check_draws(ranked, mask, remaining, world, scores, sampler)


def check_draws(ranked, mask, remaining, world, scores, sampler) -> None:
    """Check, draw by draw, the ranks that remain after the positives of a mask are removed."""
    targets = HeldOutPositives.from_split(world.split)
    drawer = Drawer(sampler, targets, sampler.weights(world.split))
    expected_rows = []
    above_estimate = []
    sizes = []
    for user in np.unique(ranked.user).tolist():
        is_user = ranked.user == user
        items = ranked.item[is_user]
        removed_items = set(ranked.item[is_user & mask].tolist())
        size, (competitors, inverse) = drawer.draw(user, items)
        for row, item in enumerate(items.tolist()):
            if item in removed_items:
                continue
            competing = [int(i) for i in competitors[row]]
            if sampler.pool == "unobserved+positives":
                competing += [int(i) for i in items if i != item]
            competing = [i for i in competing if i not in removed_items]
            above = sum(scores[user, i] > scores[user, item] for i in competing)
            tied = sum(scores[user, i] == scores[user, item] for i in competing)
            expected_rows.append((user, item, above, tied, len(competing) + 1))
            sizes.append(size - len(removed_items) * (sampler.pool == "candidates"))
            if inverse is not None:
                pairs = zip(competitors[row].tolist(), inverse[row].tolist(), strict=True)
                better = [
                    w for i, w in pairs if i not in removed_items and scores[user, i] > scores[user, item]
                ]
                above_estimate.append(sum(better))
    assert rows(remaining) == expected_rows
    assert remaining.sampling.n_candidates.tolist() == sizes
    if sampler.distribution != "uniform":
        np.testing.assert_allclose(remaining.sampling.above_estimate, above_estimate, rtol=1e-12, atol=1e-9)


def test_an_invalid_mask_is_refused():
    ranked = RankedPositives([0, 0], [1, 2], [0, 1], [0, 0], [5, 5], ["a"], list("vwxyz"))
    assert ranked.remove_positives(np.array([False, False])) is ranked
    for mask in ([0, 1], [True], [[True, False]]):
        with pytest.raises(InputError, match="mask must hold True or False for each of 2 rows"):
            ranked.remove_positives(np.array(mask))


GOOD = {
    "user": [0, 0],
    "item": [1, 2],
    "n_above": [0, 1],
    "n_tied": [0, 0],
    "n_candidates": [5, 5],
    "user_ids": ["a"],
    "item_ids": list("vwxyz"),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": [0, 1]}, "user must hold codes from 0 to 0; 1 of 2 are not"),
        ({"user": [-1, 0]}, "user must hold codes from 0 to 0; 1 of 2 are not"),
        ({"item": [1, 5]}, "item must hold codes from 0 to 4; 1 of 2 are not"),
        ({"item": [2, 1]}, "must be sorted by user, then item"),
        ({"item": [1]}, r"item must have shape \(2,\) like user; got \(1,\)"),
        ({"n_above": [-1, 0]}, "n_above and n_tied must be >= 0 .* 1 of 2 positives break this"),
        ({"n_above": [0, 4], "n_tied": [0, 1]}, "together, below n_candidates; 1 of 2 positives"),
        ({"n_above": [0, 4], "max_rank": 3}, "at most max_rank = 3; 1 of 2 positives"),
        ({"max_rank": 2.5}, "max_rank must be an integer >= 0; got 2.5"),
        ({"gain": [1.0, np.nan]}, "gain must be finite; 1 of 2"),
        ({"user_ids": ["a", "a"]}, "user_ids repeats 1 of 2 ids"),
        (
            {"candidates_by_user": [5, 5]},
            r"candidates_by_user must have shape \(1,\) like user_ids",
        ),
        ({"list_length": [1.5]}, "list_length must hold whole numbers"),
    ],
)
def test_ranks_that_contradict_themselves_are_refused(change, message):
    RankedPositives(**GOOD)
    with pytest.raises(InputError, match=message):
        RankedPositives(**GOOD | change)


def test_the_arrays_of_the_caller_are_not_shared():
    user = np.array([0, 0])
    ranked = RankedPositives(**GOOD | {"user": user})
    user[0] = 7
    assert ranked.user.tolist() == [0, 0]
