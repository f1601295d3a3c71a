"""γ on citeulike-a: four methods on the top-50 lists of several recommenders, beside Yang et al.

Run: python -m reproductions.gamma_citeulike PATH [seed]
PATH is the folder with users.dat. Needs cornac and implicit (extra `recommenders`); about three minutes.

The split is random per user, 70:15:15. Yang et al. (RecSys 2018, doi 10.1145/3240323.3240355) give the
smallest, mean and largest γ over BPR, PMF, U-CML and A-CML: 1.55, 1.69 and 1.89.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ipseval.data.interactions import Interactions
from ipseval.data.splits import split_random
from ipseval.errors import InputError
from ipseval.propensity import count_recommendations, fit_gamma, fit_popularity_exponent
from ipseval.ranking import baselines, top_items
from reproductions.data import load_citeulike_a

METHODS = ("level-ols", "poisson", "negative-binomial", "cloglog")
DIMENSIONS = 50


def bpr_uniform(train: Interactions, seed: int) -> Any:
    """Return factors of cornac's BPR, whose negatives are uniform over the items."""
    import cornac

    triples = list(zip(train.user.tolist(), train.item.tolist(), [1.0] * len(train), strict=True))
    data = cornac.data.Dataset.build(triples, seed=seed)
    model = cornac.models.BPR(
        k=DIMENSIONS, max_iter=200, learning_rate=0.05, lambda_reg=0.001, num_threads=1, seed=seed
    ).fit(data)
    users = np.zeros((train.n_users, DIMENSIONS))
    items = np.zeros((train.n_items, DIMENSIONS))
    bias = np.zeros(train.n_items)
    users[list(data.uid_map)] = model.u_factors[list(data.uid_map.values())]
    items[list(data.iid_map)] = model.i_factors[list(data.iid_map.values())]
    bias[list(data.iid_map)] = model.i_biases[list(data.iid_map.values())]
    unseen = train.popularity == 0
    bias[unseen] = bias[~unseen].min()  # never trained: after every item that was
    return users, items, bias


def implicit_factors(name: str, train: Interactions, seed: int) -> Any:
    """Return factors of a model of the implicit package; its BPR draws negatives by popularity."""
    import implicit
    from scipy import sparse

    shape = (train.n_users, train.n_items)
    seen = sparse.csr_matrix((np.ones(len(train), np.float32), (train.user, train.item)), shape=shape)
    if name == "bpr":
        model = implicit.cpu.bpr.BayesianPersonalizedRanking(
            factors=DIMENSIONS, iterations=200, random_state=seed, num_threads=1
        )
    else:
        model = implicit.cpu.als.AlternatingLeastSquares(
            factors=DIMENSIONS, iterations=15, alpha=10.0, random_state=seed, num_threads=1
        )
    model.fit(seen, show_progress=False)
    return np.asarray(model.user_factors), np.asarray(model.item_factors)


def recommenders(train: Interactions, seed: int) -> dict[str, Callable[[], Any]]:
    """Return what makes each recommender."""
    return {
        "Popularity": lambda: np.array(baselines.popularity(train), dtype=np.float32),
        "Item-kNN": lambda: baselines.item_knn(train),
        "EASE": lambda: baselines.ease(train),
        "Pure SVD": lambda: baselines.pure_svd(train, n_factors=DIMENSIONS),
        "BPR, uniform negatives (cornac)": lambda: bpr_uniform(train, seed),
        "BPR, popular negatives (implicit)": lambda: implicit_factors("bpr", train, seed),
        "Implicit ALS (implicit)": lambda: implicit_factors("als", train, seed),
    }


def cell(train: Interactions, counts: Any, method: Any) -> str:
    """Return γ ± its standard error; a dash where no item outside the top 0.5% is ever recommended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit = fit_gamma(train.popularity, counts, method=method, source="logging-policy")
        except InputError:
            return "–"
    return f"{fit.gamma:.2f} ± {fit.standard_error:.2f}"


def main(path: str, seed: int) -> None:
    """Print a Markdown table."""
    log = load_citeulike_a(Path(path))
    split = split_random(log, test_fraction=0.15, validation_fraction=0.15, rng=seed)
    train = split.train
    seen = int((train.popularity > 0).sum())
    print(f"{train}; {seen:,} items with n* > 0; seed {seed}\n")
    print(f"| top-50 lists of | {' | '.join(METHODS)} | items recommended |")
    print(f"|---|{'---|' * (len(METHODS) + 1)}")
    for name, make in recommenders(train, seed).items():
        start = time.perf_counter()
        counts = count_recommendations(top_items(make(), split, k=50), train, rng=seed)
        cells = [cell(train, counts, method) for method in METHODS]
        print(f"| {name} | {' | '.join(cells)} | {int((counts.sum(axis=0) > 0).sum()):,} |", flush=True)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    print(f"\nExponent of the popularity distribution: {fit_popularity_exponent(train.popularity)}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
