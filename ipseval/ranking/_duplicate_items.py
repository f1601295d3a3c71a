"""Items with equal factors, which have the same score for every user."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from ipseval.ranking._factors import Factors
from ipseval.ranking.candidates import Batch
from ipseval.utils.types import AnyArray, FloatArray, IntArray

FEWEST = 16  # items of a class for which one exact score for every user is worth its time
MOST = 128  # classes


@dataclass(frozen=True, eq=False)
class DuplicateItems:
    """The largest classes of items that have the same factors and bias, and so the same score for a user."""

    # Approximate products cannot order such items, so each pair would need an exact score of its own. For
    # example, many libraries give factors of 0 to all items that do not occur in training.

    class_of_item: IntArray  # (n_items,) number of each item's class, -1 for an item of no class
    representative: IntArray  # (n_classes,) one item of each class
    size: IntArray  # (n_classes,)

    @classmethod
    def from_factors(cls, factors: Factors) -> DuplicateItems | None:
        """Return the classes of at least `FEWEST` items; None if there are none."""
        # Equal factors have equal norms, and norms are quickly compared.
        sorted_norms = np.sort(factors.item_norms)
        is_common = sorted_norms[FEWEST - 1 :] == sorted_norms[: 1 - FEWEST]
        common_norms = sorted_norms[FEWEST - 1 :][is_common]
        if not common_norms.size:
            return None

        items = np.flatnonzero(np.isin(factors.item_norms, common_norms))
        bias = factors.bias
        if bias.size:
            bias = bias[items]
        group = group_equal_rows(factors.item[items], bias)
        group_size = np.bincount(group)
        largest = np.argsort(-group_size, kind="stable")[:MOST]
        largest = largest[group_size[largest] >= FEWEST]
        if not largest.size:
            return None

        class_of_group = np.full(group_size.size, -1)
        class_of_group[largest] = np.arange(largest.size)
        class_of_item = np.full(factors.n_items, -1)
        class_of_item[items] = class_of_group[group]
        _, first_item = np.unique(class_of_item, return_index=True)
        return cls(class_of_item, first_item[-largest.size :], group_size[largest])

    def count(
        self, factors: Factors, batch: Batch, exact: FloatArray, kernels: ModuleType
    ) -> tuple[IntArray, IntArray]:
        """Return how many items of the classes are above, and tied with, each positive of the batch."""
        n_users = batch.users.size
        n_classes = self.representative.size
        row = batch.row

        # Number of candidates (n_users, n_classes): excluded items do not compete.
        excluded_class = self.class_of_item[batch.excluded_items]
        excluded_row = np.repeat(np.arange(n_users), np.diff(batch.excluded_start))
        is_duplicate = excluded_class >= 0
        key = excluded_row[is_duplicate] * n_classes + excluded_class[is_duplicate]
        n_excluded = np.bincount(key, minlength=n_users * n_classes).reshape(n_users, n_classes)
        n_candidates = self.size - n_excluded

        pair_user = np.repeat(batch.users, n_classes)
        pair_item = np.tile(self.representative, n_users)
        score = factors.scores(pair_user, pair_item, kernels).reshape(n_users, n_classes)

        n_above = np.zeros(row.size, np.int64)
        n_tied = -(self.class_of_item[batch.item] >= 0).astype(
            np.int64
        )  # a positive does not tie with itself
        for number in range(n_classes):
            class_score = score[row, number]
            class_candidates = n_candidates[row, number]
            n_above += class_candidates * (class_score > exact)
            n_tied += class_candidates * (class_score == exact)
        return n_above, n_tied


def group_equal_rows(item: AnyArray, bias: FloatArray) -> IntArray:
    """Return a number for each item, which is the same exactly for items of equal factors and bias."""
    columns = [item + item.dtype.type(0)]  # + 0: -0.0 equals 0.0
    if bias.size:
        columns.append(bias[:, None] + 0.0)
    byte_rows = np.hstack([np.ascontiguousarray(column).view(np.uint8) for column in columns])
    records = byte_rows.view(np.dtype((np.void, byte_rows.shape[1]))).ravel()
    _, group = np.unique(records, return_inverse=True)
    return group.astype(np.int64)
