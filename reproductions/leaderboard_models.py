"""Ten recommenders that papers compare, each trained on one core: train -> scores or factors.

Six are closed forms. SLIM and, above 20,000 items, EASE look only at the items most similar to each item.
LightGCN is trained here by SciPy, with its published loss, for a stated number of passes over the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp

from ipseval import Interactions
from ipseval.ranking import baselines
from reproductions.models import _negatives as negatives
from reproductions.recommenders import sparse

DENSE_ITEMS = 20_000  # EASE inverts a matrix of items × items up to here
N_FACTORS = 64
Scorer = Callable[[np.ndarray], np.ndarray]


def linear(start: Any, weights: Any) -> Scorer:
    """Return the scores start · weights, a block of users at a time."""

    def score(users: np.ndarray) -> np.ndarray:
        found = start[users] @ weights
        return np.asarray(found.toarray() if sp.issparse(found) else found)

    return score


def walk(train: Interactions, *, beta: float) -> Scorer:
    """RP3β, a walk user, item, user, item over popularity^β (Paudel et al. 2016, doi 10.1145/2955101)."""
    matrix = sp.csr_array(sparse(train))
    by_user, by_item = (sp.diags_array(1 / np.maximum(n, 1)) for n in (train.activity, train.popularity))
    last = sp.diags_array(np.maximum(train.popularity, 1.0) ** -beta)
    step = (by_item @ matrix.T @ by_user @ matrix @ last).astype(np.float32)
    return linear(sp.csr_array(by_user @ matrix), sp.csr_array(step))


def als(train: Interactions, *, regularization: float, alpha: float) -> Any:
    """Weighted matrix factorisation by alternating least squares, of implicit (doi 10.1109/ICDM.2008.22)."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=128, regularization=regularization, alpha=alpha, iterations=15, num_threads=1, random_state=0
    )
    model.fit(sparse(train), show_progress=False)
    return model.user_factors, model.item_factors


def bpr(train: Interactions, *, regularization: float) -> Any:
    """Bayesian personalised ranking (Rendle et al. 2009), of implicit: 100 passes over the log."""
    from implicit.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(
        factors=N_FACTORS, learning_rate=0.05, regularization=regularization, iterations=100, num_threads=1,
        random_state=0,
    )  # fmt: skip
    model.fit(sparse(train), show_progress=False)
    return model.user_factors, model.item_factors


@numba.njit(cache=True)  # type: ignore[misc]
def _regressions(
    pointer: Any, index: Any, data: Any, size: Any, n_neighbors: int, ridge: float, lasso: float, sweeps: int
) -> Any:
    """Return, of each item, its most similar items and their weights: least squares on these alone."""
    n_items = pointer.size - 1
    found = np.full((n_items, n_neighbors), -1, dtype=np.int32)
    weight = np.zeros((n_items, n_neighbors), dtype=np.float32)
    place = np.full(n_items, -1, dtype=np.int32)
    for item in range(n_items):
        first, last = pointer[item], pointer[item + 1]
        near, both = index[first:last], data[first:last].astype(np.float64)
        similar = both / np.sqrt(size[near])
        similar[near == item] = -1.0
        chosen = np.argsort(-similar)[: min(n_neighbors, near.size - 1)]
        k = chosen.size
        if size[item] == 0 or k <= 0:
            continue
        place[near[chosen]] = np.arange(k)
        gram, wanted = np.zeros((k, k)), both[chosen]
        for row in range(k):
            other = near[chosen[row]]
            for at in range(pointer[other], pointer[other + 1]):
                column = place[index[at]]
                if column >= 0:
                    gram[row, column] = data[at]
            gram[row, row] += ridge
        if sweeps == 0:
            solution = np.linalg.solve(gram, wanted)
        else:
            solution, left = np.zeros(k), wanted.copy()
            for _ in range(sweeps):
                for one in range(k):
                    own = gram[one, one]
                    new = max(0.0, (left[one] + own * solution[one] - lasso) / own)
                    if new != solution[one]:
                        left -= gram[one] * (new - solution[one])
                        solution[one] = new
        place[near[chosen]] = -1
        found[item, :k], weight[item, :k] = near[chosen], solution
    return found, weight


def neighbour_regression(
    train: Interactions, n_neighbors: int, ridge: float, lasso: float, sweeps: int
) -> Scorer:
    """Return the scores of a linear model of each item on the items most similar to it, by the cosine."""
    matrix = sp.csr_array(sparse(train))
    gram = sp.csr_array(matrix.T @ matrix)
    gram.sort_indices()
    size = gram.diagonal().astype(np.float64)
    near, weight = _regressions(gram.indptr, gram.indices, gram.data, size, n_neighbors, ridge, lasso, sweeps)
    kept = (near >= 0) & (weight != 0)
    column = np.broadcast_to(np.arange(train.n_items)[:, None], near.shape)[kept]
    to_item = sp.csr_array((weight[kept], (near[kept], column)), shape=gram.shape)
    return linear(matrix, to_item)


def ease(train: Interactions, *, regularization: float) -> Scorer:
    """EASE (Steck 2019); above 20,000 items its least squares on the 200 most similar items of each item."""
    if train.n_items <= DENSE_ITEMS:
        return baselines.ease(train, regularization=regularization, dtype=np.float32)
    return neighbour_regression(train, 200, regularization, 0.0, 0)


def slim(train: Interactions, *, ridge: float, lasso: float) -> Scorer:
    """fsSLIM, weights ≥ 0 on the 100 most similar items (Ning & Karypis 2011, doi 10.1109/ICDM.2011.134)."""
    return neighbour_regression(train, 100, ridge, lasso, 30)


def _normalised(train: Interactions) -> Any:
    by_user, by_item = (
        sp.diags_array(1 / np.sqrt(np.maximum(n, 1))) for n in (train.activity, train.popularity)
    )
    return sp.csr_array(by_user @ sp.csr_array(sparse(train)) @ by_item).astype(np.float32)


def gf_cf(train: Interactions, *, alpha: float) -> Scorer:
    """GF-CF: neighbours plus an ideal low pass (Shen et al. 2021, doi 10.1145/3459637.3482264)."""
    from sklearn.utils.extmath import randomized_svd

    matrix, unit = sp.csr_array(sparse(train)), _normalised(train)
    near = sp.csr_array(unit.T @ unit)
    if not alpha:
        return linear(matrix, near)
    basis = randomized_svd(unit, 256, n_iter=8, random_state=0)[2].astype(np.float32)
    root = np.sqrt(np.maximum(train.popularity, 1)).astype(np.float32)
    before, after = (basis / root).T, np.float32(alpha) * basis * root

    def score(users: np.ndarray) -> np.ndarray:
        return np.asarray((matrix[users] @ near).toarray() + (matrix[users] @ before) @ after)

    return score


def light_gcn(
    train: Interactions, *, l2: float, passes: int = 20, steps: int = 11, layers: int = 3, rate: float = 0.02
) -> Any:
    """LightGCN (He et al. 2020, doi 10.1145/3397271.3401063): mean of the layers, loss of BPR, Adam.

    A pass over the log has so many steps, as each step costs a pass through the graph.
    """
    rng = np.random.default_rng(0)
    unit = _normalised(train)
    back = sp.csr_array(unit.T)
    split, batch = train.n_users, len(train) // steps
    own = (0.1 * rng.standard_normal((split + train.n_items, N_FACTORS))).astype(np.float32)
    keys = np.sort(train.pair_key)
    moment, square = np.zeros_like(own), np.zeros_like(own)

    def smoothed(values: Any) -> Any:
        total, users, items = values.copy(), values[:split], values[split:]
        for _ in range(layers):
            users, items = unit @ items, back @ users
            total[:split] += users
            total[split:] += items
        return total / np.float32(layers + 1)

    for step in range(1, passes * steps + 1):
        final = smoothed(own)
        row = rng.integers(len(train), size=batch)
        user, liked = train.user[row], train.item[row]
        other = negatives(rng, train, keys, user, 1)[:, 0]
        x, y, z = final[user], final[split + liked], final[split + other]
        pull = 1 / (1 + np.exp(np.einsum("ij,ij->i", x, y - z))) / np.float32(batch)
        sums = sp.csr_array(
            (np.r_[-pull, pull], (np.r_[user, user], np.r_[liked, other])), shape=unit.shape
        ).astype(np.float32)
        slope = smoothed(np.vstack([sums @ final[split:], sums.T @ final[:split]]))
        slope += np.float32(l2 / len(own)) * own
        moment += np.float32(0.1) * (slope - moment)
        square += np.float32(0.001) * (slope**2 - square)
        own -= (
            np.float32(rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)) * moment / (np.sqrt(square) + 1e-8)
        )
    final = smoothed(own)
    return final[:split], final[split:]


# Recommender -> fit function and the settings that are tried on each log.
GRID: dict[str, tuple[Callable[..., Any], list[dict[str, Any]]]] = {
    "popularity": (baselines.popularity, [{}]),
    "item-kNN": (baselines.item_knn, [{"n_neighbors": n} for n in (100, 300, 1000)]),
    "RP3beta": (walk, [{"beta": beta} for beta in (0.1, 0.3, 0.5)]),
    "PureSVD": (baselines.pure_svd, [{"n_factors": n} for n in (32, 128)]),
    "iALS": (als, [{"regularization": r, "alpha": 4 * r} for r in (5.0, 20.0)]),
    "BPR": (bpr, [{"regularization": r} for r in (0.002, 0.02)]),
    "EASE": (ease, [{"regularization": r} for r in (100.0, 400.0)]),
    "SLIM": (slim, [{"ridge": r, "lasso": s} for r, s in ((10.0, 0.5), (30.0, 1.0))]),
    "GF-CF": (gf_cf, [{"alpha": a} for a in (0.0, 0.3)]),
    "LightGCN": (light_gcn, [{"l2": 0.001}]),
}  # fmt: skip
