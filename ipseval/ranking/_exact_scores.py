"""The best items of users from products that are off by at most a bound: settled by exact scores."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from ipseval._base.types import AnyArray, FloatArray, IntArray
from ipseval.ranking._equal_items import Alike
from ipseval.ranking._factors import Factors
from ipseval.ranking._top_lists import ENTRIES, TopK, reached_by, reaching
from ipseval.ranking.kernels.blocks import Batch, Block, Gathered

NONE = np.zeros(0, dtype=np.int64)
WORTH = 8  # times k: a shorter catalogue is settled as a whole


@dataclass(frozen=True, eq=False)
class Settler:
    """Hands on the best items of a block of users once all its products have been seen."""

    factors: Factors
    rest: Factors  # of the items that are multiplied
    kept: IntArray | None  # which these are; None: all
    alike: Alike | None  # the classes of the others
    kernels: ModuleType
    top: TopK

    @property
    def top_k(self) -> int:
        """How many items of each user the pass over the products keeps; 0: all are settled afterwards."""
        return self.top.k if WORTH * self.top.k <= self.rest.n_items else 0

    def settle(self, part: Batch, chosen: Batch, block: Block, gathered: Gathered, slack: FloatArray) -> None:
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
        if self.alike is None:
            score = found.product.astype(np.float64)
            close = np.flatnonzero(self.kernels.close_in_rows(row, found.product, slack))
            score[close] = self._exact(part, row[close], item[close])  # the others are in order as they are
            self.top.of_users(part.users).put(row, item, score, self.kernels.ranks_in_rows)
            return
        step = max(1, ENTRIES // self.factors.n_items)
        reaches = self.alike.scores(self.factors, part.users, self.kernels) >= found.low[:, None]
        most = self.factors.n_items if self.top.all_ties else self.top.k
        for first in range(0, part.users.size, step):
            last = min(first + step, part.users.size)
            pairs = slice(*np.searchsorted(row, [first, last]))
            some = part.part(first, last)
            own = self.alike.with_members(some, row[pairs] - first, item[pairs], reaches[first:last], most)
            self.top.of_users(some.users).put(*own, self._exact(some, *own), self.kernels.ranks_in_rows)

    def _exact(self, part: Batch, row: IntArray, item: IntArray) -> FloatArray:
        """Return the exact scores of pairs."""
        return self.factors.scores(part.users[row], item, self.kernels)
