"""Small random splits and score arrays for the ranking tests."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from ipseval import Interactions, RankedPositives, Split

has_numba = find_spec("numba") is not None
needs_numba = pytest.mark.skipif(not has_numba, reason="Numba is not installed: pip install numba")
ENGINES = ("numpy", pytest.param("numba", marks=needs_numba))
INSTALLED = ("numpy", *(("numba",) if has_numba else ()))


@dataclass(frozen=True)
class World:
    n_users: int
    n_items: int
    train: set[tuple[int, int]]
    test: set[tuple[int, int]]
    split: Split


def frame(pairs) -> pd.DataFrame:
    pairs = list(pairs)
    return pd.DataFrame({"user": [u for u, _ in pairs], "item": [i for _, i in pairs]}, dtype=np.int64)


def make_world(n_users: int, n_items: int, train, test) -> World:
    """Return a split of the given pairs; ids are the codes."""
    ids = np.arange(n_users), np.arange(n_items)
    columns = (np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T for pairs in (train, test))
    split = Split(*(Interactions(*column, *ids) for column in columns))
    return World(n_users, n_items, set(train), set(test), split)


def random_world(rng: np.random.Generator, n_users: int, n_items: int) -> World:
    """Return a random split in which some users have no pairs, and some train on all items but one."""
    state = rng.choice(3, p=[0.5, 0.3, 0.2], size=(n_users, n_items))
    greedy = rng.random(n_users) < 0.15
    state[greedy] = 1
    state[greedy, rng.integers(n_items, size=int(greedy.sum()))] = 2
    state[rng.random(n_users) < 0.2] = 0
    if not (state == 2).any():
        state[0, 0] = 2
    if not (state == 1).any():  # training must not be empty; one more user holds it
        state = np.vstack([state, np.ones((1, n_items), dtype=state.dtype)])
    # The rows reach the library in no order at all.
    train = rng.permutation(np.argwhere(state == 1))
    test = rng.permutation(np.argwhere(state == 2))
    return make_world(state.shape[0], n_items, to_pairs(train), to_pairs(test))


def to_pairs(array: np.ndarray) -> list[tuple[int, int]]:
    """Return the rows of an array as pairs of integers."""
    return [(int(user), int(item)) for user, item in array]


def rows(ranked: RankedPositives) -> list[tuple[int, int, int, int]]:
    columns = (ranked.user, ranked.item, ranked.n_above, ranked.n_tied)
    return [tuple(int(x) for x in row) for row in zip(*columns, strict=True)]
