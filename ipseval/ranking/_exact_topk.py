"""Exact top-k lists from approximate scores, and items with equal factors."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from ipseval._base.types import AnyArray, BoolArray, FloatArray, IntArray
from ipseval.ranking._factors import Factors, twins
from ipseval.ranking._top_lists import ENTRIES, TopK, reached_by, reaching
from ipseval.ranking.kernels.blocks import Batch, Block, Gathered

FEWEST = 16  # items of a class that is worth the exact score for every user
MOST = 32  # classes


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


NONE = np.zeros(0, dtype=np.int64)
WORTH = 8  # times k: a shorter catalogue is settled as a whole


@dataclass(frozen=True, eq=False)
class ExactTopK:
    """Hands on the best items of a block of users once all its products have been seen."""

    factors: Factors
    rest: Factors  # of the items that are multiplied
    kept: IntArray | None  # which these are; None: all
    duplicates: DuplicateItems | None  # the classes of the others
    kernels: ModuleType
    top: TopK

    @property
    def top_k(self) -> int:
        """How many items of each user the pass over the products keeps; 0: all are settled afterwards."""
        return self.top.k if WORTH * self.top.k <= self.rest.n_items else 0

    def finish(self, part: Batch, chosen: Batch, block: Block, gathered: Gathered, slack: FloatArray) -> None:
        """Hand on the best items of `part`, which is `chosen` in the catalogue that is multiplied."""
        n_users = part.users.size
        crowded = np.zeros(n_users, dtype=bool)
        crowded[gathered.crowded if self.top_k else slice(None)] = True
        if not crowded.any():
            self._put(part, gathered, slack)
            return
        if not crowded.all():
            place = np.cumsum(~crowded) - 1
            rest = part.choose(~crowded)[1]
            fewer = gathered._replace(row=place[gathered.row], low=gathered.low[~crowded])
            self._put(rest, fewer, slack[~crowded])
        step = max(1, ENTRIES // max(self.factors.n_items, 1))
        rows = np.flatnonzero(crowded)
        for first in range(0, rows.size, step):
            mine = np.zeros(n_users, dtype=bool)
            mine[rows[first : first + step]] = True
            again = self._again(chosen.choose(mine)[1], block.fast_user[mine], slack[mine])
            self._put(part.choose(mine)[1], again, slack[mine])

    def _again(self, chosen: Batch, fast_user: AnyArray, slack: FloatArray) -> Gathered:
        """Return what may be among the k best of some users, from their products."""
        products = fast_user @ self.rest.fast_item.T
        infinite = self.rest.infinite
        products[:, infinite] = self.rest.bias[infinite]
        owner = np.repeat(np.arange(chosen.users.size), np.diff(chosen.excluded_start))
        products[owner, chosen.excluded] = np.nan
        low = reached_by(products, self.top.k) - slack.astype(products.dtype)
        return Gathered(*reaching(products, low), low, NONE)

    def _put(self, part: Batch, found: Gathered, slack: FloatArray) -> None:
        """Hand on the best of what was found and of the classes."""
        row = found.row
        item = found.item if self.kept is None else self.kept[found.item]
        if self.duplicates is None:
            score = found.product.astype(np.float64)
            close = np.flatnonzero(self.kernels.close_in_rows(row, found.product, slack))
            score[close] = self._exact(part, row[close], item[close])  # the others are in order as they are
            self.top.of_users(part.users).put(row, item, score, self.kernels.ranks_in_rows)
            return
        step = max(1, ENTRIES // self.factors.n_items)
        reaches = self.duplicates.scores(self.factors, part.users, self.kernels) >= found.low[:, None]
        most = self.factors.n_items if self.top.all_ties else self.top.k
        for first in range(0, part.users.size, step):
            last = min(first + step, part.users.size)
            pairs = slice(*np.searchsorted(row, [first, last]))
            some = part.part(first, last)
            own = self.duplicates.with_members(
                some, row[pairs] - first, item[pairs], reaches[first:last], most
            )
            self.top.of_users(some.users).put(*own, self._exact(some, *own), self.kernels.ranks_in_rows)

    def _exact(self, part: Batch, row: IntArray, item: IntArray) -> FloatArray:
        """Return the exact scores of pairs."""
        return self.factors.scores(part.users[row], item, self.kernels)
