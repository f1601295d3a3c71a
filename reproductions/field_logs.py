"""Twenty real logs, and seven recommenders that can be trained on all of them, for the study of protocols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

import ipseval
from ipseval import Interactions
from ipseval.ranking import baselines
from ipseval.validation.datasets import load_adjacency
from reproductions.data import load_citeulike_a
from reproductions.recommenders import sparse

METRICS = ("precision@10", "recall@10", "ap", "auc")
AMAZON = (
    "Amazon_Instant_Video", "Office_Products", "Tools_and_Home_Improvement", "Baby", "Toys_and_Games",
    "Cell_Phones_and_Accessories", "Beauty", "Video_Games", "Clothing_Shoes_and_Jewelry",
    "Sports_and_Outdoors", "Health_and_Personal_Care", "Home_and_Kitchen", "Apps_for_Android",
)  # fmt: skip
TRAINED_USERS = {"Gowalla": 8_000, "KuaiRand": 5_000, "MovieLens 1M": 2_000}  # drawn once
EVALUATED_USERS = 2_500  # drawn once a log; every user trains
PLACES = 2.0**30  # what is equal in theory is equal, on every processor


def _joined(folder: Path, *names: str) -> Interactions:
    frames = [load_adjacency(folder / f"{name}.txt").to_frame() for name in names]
    return Interactions.from_frame(pd.concat(frames, ignore_index=True))


def some_users(log: Interactions, n_users: int) -> Interactions:
    """Return the interactions of users drawn at random."""
    return log.select(np.isin(log.user, np.random.default_rng(0).choice(log.n_users, n_users, replace=False)))


def loaders(folder: Path) -> dict[str, Callable[[], Interactions]]:
    """Return, by name, what reads each log; every row is a positive, as every review is in the paper."""
    amazon = folder / "amazon14-5core"
    return {
        "Coat": lambda: ipseval.datasets.load_coat(folder / "coat").biased,
        "MovieLens 100K": lambda: ipseval.datasets.load_movielens(folder / "ml-100k"),
        "MovieLens latest-small": lambda: ipseval.datasets.load_movielens(folder / "ml-latest-small"),
        **{
            name.replace("_", " "): partial(load_adjacency, amazon / f"{name}.txt", ordered=True)
            for name in AMAZON
        },
        "citeulike-a": lambda: load_citeulike_a(folder / "citeulike-a"),
        "Gowalla": lambda: _joined(folder / "gowalla", "train", "valid", "test"),
        "KuaiRand": lambda: _joined(folder / "kuairand", "train", "valid"),
        "MovieLens 1M": lambda: _joined(folder / "ml-1m", "train", "test"),
    }


def read_log(name: str, folder: Path) -> Interactions:
    """Return a log without its values, of the users that are trained on."""
    log = replace(loaders(folder)[name](), value=None)
    return some_users(log, TRAINED_USERS[name]) if name in TRAINED_USERS else log


def evaluated(n_users: int) -> np.ndarray:
    """Return the users of a log that are evaluated, ascending."""
    order = np.random.default_rng(0).permutation(n_users)
    return np.sort(order[:EVALUATED_USERS])


class Kept:
    """Scores of the evaluated users, computed once for all choices of candidates."""

    def __init__(self, score: Callable[[np.ndarray], np.ndarray], n_users: int) -> None:
        self.users = evaluated(n_users)
        parts = np.array_split(self.users, max(1, self.users.size // 250))
        self.scores = np.vstack([np.rint(score(part) * PLACES) / PLACES + 0.0 for part in parts])

    def __call__(self, users: np.ndarray) -> np.ndarray:
        """Return the scores of these users."""
        found: np.ndarray = self.scores[np.searchsorted(self.users, users)]
        return found


def item_knn(train: Interactions, *, n_neighbors: int) -> Any:
    """Item-based nearest neighbours by the cosine."""
    return Kept(baselines.item_knn(train, n_neighbors=n_neighbors), train.n_users)


def user_knn(train: Interactions, *, n_neighbors: int) -> Any:
    """Items of the users with the largest cosine, weighted by it."""
    matrix = sparse(train).astype(np.float64)
    unit = sp.diags_array(1 / np.sqrt(np.maximum(train.activity, 1))) @ matrix

    def score(users: np.ndarray) -> np.ndarray:
        similar = sp.csr_array(unit[users] @ unit.T)
        own = np.repeat(users, np.diff(similar.indptr)) == similar.indices
        similar.data[own] = 0.0
        for first, last in zip(similar.indptr, similar.indptr[1:], strict=False):
            values = similar.data[first:last]
            if values.size > n_neighbors:
                values[values < np.partition(values, -n_neighbors)[-n_neighbors]] = 0.0
        similar.eliminate_zeros()
        return np.asarray((similar @ matrix).toarray())

    return Kept(score, train.n_users)


def walk(train: Interactions, *, beta: float) -> Any:
    """RP3β, a walk user, item, user, item over popularity^β (Paudel et al. 2016, doi 10.1145/2955101)."""
    matrix = sparse(train).astype(np.float64)
    by_user, by_item = (sp.diags_array(1 / np.maximum(n, 1)) for n in (train.activity, train.popularity))
    last = sp.diags_array(np.maximum(train.popularity, 1.0) ** -beta)
    step = sp.csr_array(by_item @ matrix.T @ by_user @ matrix @ last)
    start = sp.csr_array(by_user @ matrix)
    return Kept(lambda users: (start[users] @ step).toarray(), train.n_users)


def pure_svd(train: Interactions, *, n_factors: int) -> Any:
    """PureSVD (Cremonesi et al. 2010, doi 10.1145/1864708.1864721)."""
    return baselines.pure_svd(train, n_factors=n_factors)


def als(train: Interactions, *, regularization: float, alpha: float) -> Any:
    """Weighted matrix factorisation by alternating least squares, of implicit."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=32, regularization=regularization, alpha=alpha, iterations=10, num_threads=1, random_state=0
    )
    model.fit(sparse(train), show_progress=False)
    return model.user_factors, model.item_factors


def bpr(train: Interactions, *, learning_rate: float, regularization: float) -> Any:
    """Bayesian personalised ranking, of implicit."""
    from implicit.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(
        factors=32, learning_rate=learning_rate, regularization=regularization, iterations=25, num_threads=1,
        random_state=0,
    )  # fmt: skip
    model.fit(sparse(train), show_progress=False)
    return model.user_factors, model.item_factors


# Recommender -> fit function and the settings that are tried on each log.
GRID: dict[str, tuple[Callable[..., Any], list[dict[str, Any]]]] = {
    "popularity": (baselines.popularity, [{}]),
    "item-kNN": (item_knn, [{"n_neighbors": n} for n in (20, 100, 500)]),
    "user-kNN": (user_knn, [{"n_neighbors": n} for n in (50, 200, 800)]),
    "RP3beta": (walk, [{"beta": beta} for beta in (0.0, 0.2, 0.5)]),
    "PureSVD": (pure_svd, [{"n_factors": n} for n in (4, 16, 64)]),
    "ALS": (als, [{"regularization": x, "alpha": x} for x in (5.0, 20.0, 80.0)]),
    "BPR": (bpr, [{"learning_rate": 0.1, "regularization": r} for r in (0.003, 0.02)]),
}  # fmt: skip
