"""Ranked positives that are built without a recommender."""

from __future__ import annotations

import numpy as np

from ipseval.ranking import RankedPositives


def ranked(
    user: list[int] | np.ndarray,
    item: list[int] | np.ndarray,
    above: list[int] | np.ndarray,
    *,
    n_users: int,
    n_items: int,
) -> RankedPositives:
    """Return positives with `above` candidates ranked above each, without ties; all items are candidates."""
    user, item, above = (np.asarray(column, dtype=np.int64) for column in (user, item, above))
    order = np.lexsort((item, user))
    n = np.full(user.size, n_items)
    return RankedPositives(
        user[order], item[order], above[order], 0 * n, n, np.arange(n_users), np.arange(n_items)
    )


def random_ranks(
    seed: int, *, models: int = 3, n_users: int = 60, n_items: int = 40
) -> tuple[dict[str, RankedPositives], np.ndarray]:
    """Return ranks by recommenders "m0", "m1", … that differ in popularity bias, and n*."""
    rng = np.random.default_rng(seed)
    popularity = np.sort(1 + np.floor(50 * rng.random(n_items) ** 4))[::-1].copy()
    is_positive = rng.random((n_users, n_items)) < 0.12 + 0.3 * popularity / popularity.max()
    user, item = np.nonzero(is_positive)
    ranks = {}
    for number in range(models):
        fondness = number - 1
        rank = (popularity.argsort()[::-1].argsort() - n_items / 2) * fondness / 2
        expected_above = rank[item] + n_items / 3 + rng.normal(0, n_items / 6, user.size)
        ranks[f"m{number}"] = ranked(
            user, item, np.clip(expected_above, 0, n_items - 1).astype(int), n_users=n_users, n_items=n_items
        )
    return ranks, popularity
