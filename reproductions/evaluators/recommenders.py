"""Recommenders that are compared: those that papers compare with, in closed form or with a seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np

from ipseval import Interactions
from ipseval.ranking import baselines
from reproductions import leaderboard_models

Train = Callable[[Interactions], object]
# γ of lists is fitted to the recommenders that factorise the log, as Yang et al. (2018) do.
FACTOR_MODELS = ("PureSVD", "iALS", "BPR")


def train_ials(train: Interactions) -> object:
    """Train weighted matrix factorisation by alternating least squares, of implicit."""
    return leaderboard_models.als(train, regularization=5.0, alpha=20.0)


def train_bpr(train: Interactions) -> object:
    """Train Bayesian personalised ranking, of implicit."""
    return leaderboard_models.bpr(train, regularization=0.02)


def list_recommenders() -> dict[str, Train]:
    """Return the functions that train the recommenders; iALS and BPR only where implicit is installed."""
    recommenders: dict[str, Train] = {
        "popularity": baselines.popularity,
        "random": partial(baselines.random, rng=0),
        "item-kNN": partial(baselines.item_knn, n_neighbors=100),
        "PureSVD": partial(baselines.pure_svd, n_factors=32),
        "EASE": partial(baselines.ease, regularization=500.0, dtype=np.float32),
    }
    if find_spec("implicit") is not None:
        recommenders["iALS"] = train_ials
        recommenders["BPR"] = train_bpr
    return recommenders
