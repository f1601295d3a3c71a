"""The workloads of the ranking benchmarks: logs with power-law popularity and a factor model of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ipseval import Split

BLOCK = 512  # users
Factors = tuple[np.ndarray, np.ndarray]
SIZES = {  # users, items, dimensions
    "W1": (20_000, 20_000, 64),
    "W2": (2_000, 200_000, 64),
    "W3": (100_000, 5_000, 32),
    "small": (1_000, 30_000, 64),  # for `run.py --against`
}


@dataclass(frozen=True)
class Workload:
    """A split, and factors under which the held-out positives rank high, as under a real recommender."""

    name: str
    split: Split
    user_factors: np.ndarray
    item_factors: np.ndarray


def make(name: str, *, scale_users: float = 1.0, scale_items: float = 1.0, n_positives: int = 10) -> Workload:
    """Return a workload of SIZES, or a multiple, with `n_positives` and about 70 training items per user."""
    n_users, n_items, d = SIZES[name]
    return build(name, int(n_users * scale_users), int(n_items * scale_items), d, n_positives)


def build(name: str, n_users: int, n_items: int, d: int, n_positives: int = 10) -> Workload:
    """Return a workload of any size, the same for the same arguments."""
    rng = np.random.default_rng(0)
    weight = (1.0 + np.arange(n_items)) ** -0.8
    cumulative = np.cumsum(rng.permutation(weight))
    popularity = np.diff(cumulative, prepend=0.0)
    user = rng.normal(size=(n_users, d)).astype(np.float32)
    item = rng.normal(size=(n_items, d)).astype(np.float32)
    user[:, 0] = 2.0  # one dimension is popularity, as in trained models
    item[:, 0] = np.log(popularity / popularity.mean())
    pairs = draw_pairs(rng, cumulative, n_users, 80 + 3 * n_positives, n_items)
    score = np.einsum("nd,nd->n", user[pairs[:, 0]], item[pairs[:, 1]])
    test = choose_best(pairs, score, n_positives)
    train = pairs[~test][rng.random(int((~test).sum())) < 0.75]
    split = Split.from_frames(
        pd.DataFrame(train, columns=["user", "item"]),
        pd.DataFrame(pairs[test], columns=["user", "item"]),
        users=np.arange(n_users),
        items=np.arange(n_items),
    )
    return Workload(name, split, user, item)


def draw_pairs(
    rng: np.random.Generator, cumulative: np.ndarray, n_users: int, per_user: int, n_items: int
) -> np.ndarray:
    """Return distinct (user, item) pairs, items by popularity, sorted by user."""
    drawn = np.searchsorted(cumulative, rng.random(n_users * per_user) * cumulative[-1])
    owner = np.repeat(np.arange(n_users), per_user)
    key = np.unique(owner * np.int64(n_items) + np.minimum(drawn, n_items - 1))
    return np.column_stack([key // n_items, key % n_items])


def choose_best(pairs: np.ndarray, score: np.ndarray, n_positives: int) -> np.ndarray:
    """Return a mask of each user's best-scored pairs, about one in three of those that could be chosen."""
    order = np.lexsort((-score, pairs[:, 0]))
    start = np.flatnonzero(np.diff(pairs[order, 0], prepend=-1))
    place = np.arange(len(pairs)) - np.repeat(start, np.diff(np.append(start, len(pairs))))
    chosen = np.zeros(len(pairs), dtype=bool)
    chosen[order[(place < 3 * n_positives) & (place % 3 == 0)]] = True
    return chosen


class Product:
    """The products of blocks of users with all items, always written into the same memory."""

    def __init__(self, factors: list[Factors]) -> None:
        self.factors = factors
        n_items = max(item.shape[0] for _, item in factors)
        self.out = np.zeros((BLOCK, n_items), dtype=factors[0][0].dtype)

    def multiply(self, n_threads: int) -> None:
        """Multiply all blocks with so many threads of BLAS."""
        with threadpool_limits(n_threads, user_api="blas"):
            for user, item in self.factors:
                for first in range(0, user.shape[0], BLOCK):
                    block = user[first : first + BLOCK]
                    np.matmul(block, item.T, out=self.out[: block.shape[0]])
