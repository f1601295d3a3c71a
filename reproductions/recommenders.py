"""Trainers of recommenders from implicit and cornac, for the reproductions: train -> (user, item) factors.

Learning rates, regularisation and iterations were chosen once by AOA on held-out biased
positives of Coat (a split of its own), never by what random exposure shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ipseval.data.interactions import Interactions

N_FACTORS = 50
SEED = 0


def sparse(train: Interactions) -> Any:
    """Return the users × items matrix of ones."""
    ones = np.ones(len(train), dtype=np.float32)
    return sp.csr_matrix((ones, (train.user, train.item)), shape=(train.n_users, train.n_items))


def implicit_bpr(train: Interactions) -> Any:
    """BPR of implicit: negatives drawn by popularity."""
    from implicit.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(
        factors=N_FACTORS, learning_rate=0.01, regularization=0.1, iterations=300, num_threads=1,
        random_state=SEED,
    )  # fmt: skip
    model.fit(sparse(train), show_progress=False)
    return model.user_factors, model.item_factors


def implicit_als(train: Interactions) -> Any:
    """Weighted matrix factorisation by alternating least squares, of implicit."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=N_FACTORS, regularization=50.0, alpha=20.0, iterations=20, num_threads=1, random_state=SEED
    )
    model.fit(sparse(train), show_progress=False)
    return model.user_factors, model.item_factors


def cornac_bpr(train: Interactions) -> Any:
    """BPR of cornac: negatives drawn uniformly from the items a user has not seen."""
    from cornac.data import Dataset
    from cornac.models import BPR

    data = Dataset.from_uir(zip(train.user, train.item, np.ones(len(train)), strict=True), seed=SEED)
    model = BPR(k=N_FACTORS, max_iter=300, learning_rate=0.05, lambda_reg=0.1, num_threads=1, seed=SEED).fit(
        data
    )
    return _factors(train, data, model.u_factors, model.i_factors, model.i_biases)


def cornac_pmf(train: Interactions) -> Any:
    """PMF of cornac on the positives (1) and four uniformly drawn other items per positive (0)."""
    from cornac.data import Dataset
    from cornac.models import PMF

    rng = np.random.default_rng(SEED)
    user = np.repeat(train.user, 4)
    item = rng.integers(train.n_items, size=user.size)
    key = user * np.int64(train.n_items) + item
    _, first = np.unique(key, return_index=True)
    keep = first[~np.isin(key[first], train.pair_key)]
    triples = [
        *zip(train.user, train.item, np.ones(len(train)), strict=True),
        *zip(user[keep], item[keep], np.zeros(keep.size), strict=True),
    ]
    data = Dataset.from_uir(triples, seed=SEED)
    model = PMF(
        k=N_FACTORS, max_iter=100, learning_rate=0.001, lambda_reg=0.1, variant="linear", seed=SEED
    ).fit(data)
    return _factors(train, data, model.U, model.V, None)


def _factors(train: Interactions, data: Any, users: Any, items: Any, bias: Any) -> Any:
    """Return factors in the order of the log; cornac numbers users and items as it meets them."""
    user_factors = np.zeros((train.n_users, users.shape[1]))
    item_factors = np.zeros((train.n_items, items.shape[1]))
    user_factors[np.array(list(data.uid_map), dtype=int)] = users[list(data.uid_map.values())]
    item_factors[np.array(list(data.iid_map), dtype=int)] = items[list(data.iid_map.values())]
    if bias is None:
        return user_factors, item_factors
    item_bias = np.full(train.n_items, bias.min())  # items without a training interaction come last
    item_bias[np.array(list(data.iid_map), dtype=int)] = bias[list(data.iid_map.values())]
    return user_factors, item_factors, item_bias


TRAINERS = {
    "BPR (implicit)": implicit_bpr,
    "ALS (implicit)": implicit_als,
    "BPR (cornac)": cornac_bpr,
    "PMF (cornac)": cornac_pmf,
}
