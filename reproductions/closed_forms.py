"""Recommenders in closed form with one setting each to tune; they return scores of users × items."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from ipseval.data.interactions import Interactions
from ipseval.ranking import baselines
from ipseval.studies.protocols import Tuned

Scores = Any
PLACES = 2.0**30  # another processor rounds products in another way; near ties must not be decided by it


def _matrix(train: Interactions) -> Any:
    shape = (train.n_users, train.n_items)
    return sp.csr_array((np.ones(len(train)), (train.user, train.item)), shape=shape)


def _rounded(scores: Any) -> Any:
    return np.rint(scores * PLACES) / PLACES + 0.0


def item_knn(train: Interactions, *, n_neighbors: int) -> Scores:
    """Item-based nearest neighbours by the cosine."""
    return baselines.item_knn(train, n_neighbors=n_neighbors)(np.arange(train.n_users))


def user_knn(train: Interactions, *, n_neighbors: int) -> Scores:
    """User-based nearest neighbours: items of the users with the largest cosine, weighted by it."""
    matrix = _matrix(train)
    size = np.maximum(train.activity, 1).astype(np.float64)
    similar = (matrix @ matrix.T).toarray() / np.sqrt(size[:, None] * size[None, :])
    np.fill_diagonal(similar, 0.0)
    if n_neighbors < train.n_users:
        least = np.partition(similar, -n_neighbors, axis=1)[:, -n_neighbors]
        similar[similar < least[:, None]] = 0.0
    return _rounded(sp.csr_array(similar) @ matrix.toarray())


def ease(train: Interactions, *, regularization: float) -> Scores:
    """EASE (Steck 2019, doi 10.1145/3308558.3313710)."""
    return baselines.ease(train, regularization=regularization)(np.arange(train.n_users))


def pure_svd(train: Interactions, *, n_factors: int) -> Scores:
    """PureSVD (Cremonesi et al. 2010, doi 10.1145/1864708.1864721)."""
    users, items = baselines.pure_svd(train, n_factors=min(n_factors, min(train.n_users, train.n_items) - 1))
    return _rounded(users @ items.T)


def walk(train: Interactions, *, beta: float) -> Scores:
    """RP3β, a walk user, item, user, item over popularity^β (Paudel et al. 2016, doi 10.1145/2955101)."""
    matrix = _matrix(train)
    of_user = 1 / np.maximum(train.activity, 1)
    of_item = 1 / np.maximum(train.popularity, 1)
    step = sp.diags_array(of_item) @ matrix.T @ sp.diags_array(of_user) @ matrix
    scores = (sp.diags_array(of_user) @ matrix @ step).toarray()
    return _rounded(scores * np.maximum(train.popularity, 1.0) ** -beta)


def dropout(train: Interactions, *, share: float) -> Scores:
    """DLAE: a linear autoencoder under dropout of a share of the input (Steck 2020, NeurIPS 33)."""
    matrix = _matrix(train)
    gram = (matrix.T @ matrix).toarray()
    penalty = share / (1 - share) * np.diagonal(gram) + 20.0
    factor = cho_factor(gram + np.diag(penalty), lower=True)
    weights = np.rint(cho_solve(factor, gram) * PLACES) / PLACES
    return matrix @ weights


TUNED = {
    "item-kNN": Tuned(item_knn, {"n_neighbors": [5, 15, 50, 100, 300]}, budget=3),
    "user-kNN": Tuned(user_knn, {"n_neighbors": [10, 30, 80, 160, 320]}, budget=3),
    "EASE": Tuned(ease, {"regularization": [5.0, 30.0, 200.0, 1000.0, 5000.0]}, budget=3),
    "PureSVD": Tuned(pure_svd, {"n_factors": [2, 5, 12, 30, 64]}, budget=3),
    "RP3beta": Tuned(walk, {"beta": [0.0, 0.25, 0.5, 0.75, 1.0]}, budget=3),
    "DLAE": Tuned(dropout, {"share": [0.05, 0.2, 0.4, 0.65, 0.9]}, budget=3),
}
# Middling values, the same on every log: what one would take without looking.
DEFAULTS = {
    "item-kNN": {"n_neighbors": 100},
    "user-kNN": {"n_neighbors": 80},
    "EASE": {"regularization": 200.0},
    "PureSVD": {"n_factors": 64},
    "RP3beta": {"beta": 0.5},
    "DLAE": {"share": 0.4},
}
UNTUNED = {name: partial(one.fit, **DEFAULTS[name]) for name, one in TUNED.items()}
