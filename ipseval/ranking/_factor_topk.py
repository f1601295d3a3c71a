"""The exact top-k lists of a factor model, from approximate products."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from ipseval.ranking._factors import Factors
from ipseval.ranking.candidates import Batch
from ipseval.ranking.top_lists import TopKCollector, entries_above_bound, topk_lower_bound

ENTRIES = 2**20  # products that are held at once
SLACK = 2.25  # two products are each off by at most the bound, which is five units or more of their rounding


def collect_topk(factors: Factors, batch: Batch, kernels: ModuleType, top: TopKCollector) -> None:
    """Pass the best items of the users of a batch to `top`, with exact scores."""
    # An item is among the k best by its exact score only if its product is within the slack of the k-th best
    # product. Exact scores are computed for these items alone.
    slack = SLACK * factors.error_bound(batch.users)
    n_users = batch.users.size
    step = min(max(1, ENTRIES // max(factors.n_items, 1)), n_users)
    buffer = np.empty((step, factors.n_items), dtype=factors.fast_item.dtype)
    for first in range(0, n_users, step):
        part = batch.part(first, min(first + step, n_users))
        products = buffer[: part.users.size]
        np.matmul(factors.fast_users(part.users), factors.fast_item.T, out=products)
        products[:, factors.infinite] = factors.bias[factors.infinite]
        excluded_row = np.repeat(np.arange(part.users.size), np.diff(part.excluded_start))
        products[excluded_row, part.excluded_items] = np.nan

        bound = topk_lower_bound(products, top.k) - slack[first : first + step].astype(products.dtype)
        row, item, _ = entries_above_bound(products, bound)
        score = factors.scores(part.users[row], item, kernels)
        top.with_users(part.users).add_candidates(row, item, score)
