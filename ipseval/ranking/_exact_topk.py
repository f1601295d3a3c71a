"""Exact lists of the best items from approximate scores, and items with equal factors."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from ipseval.ranking._factors import Factors
from ipseval.ranking.kernels.blocks import Batch
from ipseval.ranking.top_lists import TopK, reached_by, reaching
from ipseval.utils.types import AnyArray, FloatArray, IntArray

FEWEST = 16  # items of a class that is worth the exact score for every user
MOST = 128  # classes
ENTRIES = 2**20  # products that are held at once
SLACK = 2.25  # two products are each off by at most the bound, which is five units or more of their rounding


@dataclass(frozen=True, eq=False)
class DuplicateItems:
    """The largest classes of items that have the same factors and bias, and so the same score for a user."""

    # The products could not tell such items apart, and each pair would be settled by itself. Items that
    # training has never seen, which many libraries give factors of 0, are one class.

    number: IntArray  # (n_items,) class of each item, -1 for an item outside
    first: IntArray  # (g,) one item of each class
    size: IntArray  # (g,)

    @classmethod
    def of(cls, factors: Factors) -> DuplicateItems | None:
        """Return the classes of at least `FEWEST` items, None where there are none."""
        ordered = np.sort(factors.item_norms)  # equal factors have equal norms, which tells at little cost
        common = ordered[FEWEST - 1 :][ordered[FEWEST - 1 :] == ordered[: 1 - FEWEST]]
        if not common.size:
            return None
        found = np.flatnonzero(np.isin(factors.item_norms, common))
        twin = twins(factors.item[found], factors.bias[found] if factors.bias.size else factors.bias)
        size = np.bincount(twin)
        largest = np.argsort(-size, kind="stable")[:MOST]
        largest = largest[size[largest] >= FEWEST]
        if not largest.size:
            return None
        new = np.full(size.size, -1)
        new[largest] = np.arange(largest.size)
        number = np.full(factors.n_items, -1)
        number[found] = new[twin]
        _, first = np.unique(number, return_index=True)
        return cls(number, first[-largest.size :], size[largest])

    def counts(
        self, factors: Factors, batch: Batch, exact: FloatArray, kernels: ModuleType
    ) -> tuple[IntArray, IntArray]:
        """Return how many items of the classes stand above, and tie with, each positive of the batch."""
        n_users, n_classes, row = batch.users.size, self.first.size, batch.row
        hidden = self.number[batch.excluded]
        of_user = np.repeat(np.arange(n_users), np.diff(batch.excluded_start))[hidden >= 0]
        key = of_user * n_classes + hidden[hidden >= 0]
        size = self.size - np.bincount(key, minlength=n_users * n_classes).reshape(n_users, n_classes)
        score = factors.scores(np.repeat(batch.users, n_classes), np.tile(self.first, n_users), kernels)
        by_class = score.reshape(n_users, n_classes)
        n_above, n_tied = np.zeros(row.size, np.int64), -(self.number[batch.item] >= 0).astype(np.int64)
        for one in range(n_classes):
            mine, others = by_class[row, one], size[row, one]
            n_above += others * (mine > exact)
            n_tied += others * (mine == exact)
        return n_above, n_tied


def twins(item: AnyArray, bias: FloatArray) -> IntArray:
    """Return a number for each item that is shared exactly by the items of equal factors and bias."""
    columns = [item + item.dtype.type(0)]  # + 0: -0.0 equals 0.0
    if bias.size:
        columns.append(bias[:, None] + 0.0)
    rows = np.hstack([np.ascontiguousarray(one).view(np.uint8) for one in columns])
    twin = np.unique(rows.view(np.dtype((np.void, rows.shape[1]))).ravel(), return_inverse=True)[1]
    return twin.astype(np.int64)


def hand_on_best(factors: Factors, batch: Batch, kernels: ModuleType, top: TopK) -> None:
    """Hand on the best items of the users of a batch: those whose products may be, by their exact scores."""
    slack = SLACK * factors.error_bound(batch.users)
    step = min(max(1, ENTRIES // max(factors.n_items, 1)), batch.users.size)
    memory = np.empty((step, factors.n_items), dtype=factors.fast_item.dtype)
    for first in range(0, batch.users.size, step):
        part = batch.part(first, min(first + step, batch.users.size))
        products = memory[: part.users.size]
        np.matmul(factors.fast_users(part.users), factors.fast_item.T, out=products)
        products[:, factors.infinite] = factors.bias[factors.infinite]
        products[np.repeat(np.arange(part.users.size), np.diff(part.excluded_start)), part.excluded] = np.nan
        low = reached_by(products, top.k) - slack[first : first + step].astype(products.dtype)
        row, item, _ = reaching(products, low)
        top.of_users(part.users).put(row, item, factors.scores(part.users[row], item, kernels))
