"""Items with equal factors: one exact score for all of them, in the place of a product for each."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from ipseval._base.types import BoolArray, FloatArray, IntArray
from ipseval.ranking._factors import Factors, twins
from ipseval.ranking.kernels.blocks import Batch

FEWEST = 16  # items of a class that is worth the exact score for every user
MOST = 32  # classes


@dataclass(frozen=True, eq=False)
class Alike:
    """The largest classes of items that have the same factors and bias, and so the same score for a user."""

    # The products could not tell such items apart, and each pair would be settled by itself. Items that
    # training has never seen, which many libraries give factors of 0, are one class.

    number: IntArray  # (n_items,) class of each item, -1 for an item outside
    first: IntArray  # (g,) one item of each class
    size: IntArray  # (g,)

    @classmethod
    def of(cls, factors: Factors) -> Alike | None:
        """Return the classes of at least `FEWEST` items, None where there are none."""
        ordered = np.sort(factors.item_norms)  # equal factors have equal norms, which tells at little cost
        common = ordered[FEWEST - 1 :][ordered[FEWEST - 1 :] == ordered[: 1 - FEWEST]]
        if not common.size:
            return None
        found = np.flatnonzero(np.isin(factors.item_norms, common))
        for n_columns in (4, factors.item.shape[1]):  # norms may be equal because they are all 1
            bias = factors.bias[found] if factors.bias.size else factors.bias
            twin = twins(factors.item[found, :n_columns], bias)
            size = np.bincount(twin)
            found, twin = found[size[twin] >= FEWEST], twin[size[twin] >= FEWEST]
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

    def with_members(
        self, batch: Batch, row: IntArray, item: IntArray, reaches: BoolArray, most: int
    ) -> tuple[IntArray, IntArray]:
        """Return candidate pairs with those of the classes that may be among a user's k best, sorted."""
        # `reaches` (n_users, g): whether the score of a class may be. Of each class the first `most` items
        # that the user may be recommended.
        n_users = batch.users.size
        of_user = np.repeat(np.arange(n_users), np.diff(batch.excluded_start))
        rows, items = [row], [item]
        for number in np.flatnonzero(reaches.any(axis=0)):
            members = np.flatnonzero(self.number == number)
            hidden = self.number[batch.excluded] == number
            n_hidden = np.bincount(of_user[hidden], minlength=n_users)
            depth = min(members.size, most + int(n_hidden.max(initial=0)))
            left = np.repeat(reaches[:, number : number + 1], depth, axis=1)
            place = np.searchsorted(members, batch.excluded[hidden])
            near = place < depth
            left[of_user[hidden][near], place[near]] = False
            left &= np.cumsum(left, axis=1) <= most
            mine, column = np.nonzero(left)
            rows.append(mine)
            items.append(members[column])
        row, item = np.concatenate(rows), np.concatenate(items)
        order = np.lexsort((item, row))
        return row[order], item[order]

    def scores(self, factors: Factors, users: IntArray, kernels: ModuleType) -> FloatArray:
        """Return the score of the items of each class, (n_users, g)."""
        n_users, n_classes = users.size, self.first.size
        score = factors.scores(np.repeat(users, n_classes), np.tile(self.first, n_users), kernels)
        return score.reshape(n_users, n_classes)

    def counts(
        self, factors: Factors, batch: Batch, exact: FloatArray, kernels: ModuleType
    ) -> tuple[IntArray, IntArray]:
        """Return how many items of the classes stand above, and tie with, each positive of the batch."""
        n_users, n_classes, row = batch.users.size, self.first.size, batch.row
        hidden = self.number[batch.excluded]
        of_user = np.repeat(np.arange(n_users), np.diff(batch.excluded_start))[hidden >= 0]
        key = of_user * n_classes + hidden[hidden >= 0]
        size = self.size - np.bincount(key, minlength=n_users * n_classes).reshape(n_users, n_classes)
        by_class = self.scores(factors, batch.users, kernels)
        n_above, n_tied = np.zeros(row.size, np.int64), -(self.number[batch.item] >= 0).astype(np.int64)
        for one in range(n_classes):
            mine, others = by_class[row, one], size[row, one]
            n_above += others * (mine > exact)
            n_tied += others * (mine == exact)
        return n_above, n_tied
