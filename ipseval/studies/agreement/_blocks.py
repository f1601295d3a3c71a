"""Blocks of what agrees: the order in which a heat map shows them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Blocks:
    """An order in which what agrees stands side by side, and where one block ends.

    Attributes
    ----------
    order : (n,) int array
        Rows and columns of the matrix, in the order in which they are shown.
    label : (n,) int array
        Block of each row, in the order of the matrix; blocks are numbered as they are shown.
    silhouette : float
        Mean silhouette of the blocks, in [-1, 1]; near 0: there are hardly any. NaN with one block.
    """

    order: IntArray
    label: IntArray
    silhouette: float

    def __repr__(self) -> str:
        sizes = ", ".join(str(size) for size in np.bincount(self.label))
        return f"Blocks(sizes {sizes}; silhouette {self.silhouette:.2f})"

    @property
    def ends(self) -> list[int]:
        """Places in `order` where a new block begins, without 0."""
        shown = self.label[self.order]
        return [place for place, (a, b) in enumerate(pairwise(shown.tolist()), start=1) if a != b]


def blocks(agreement: FloatArray) -> Blocks:
    """Return the order and the blocks of a symmetric matrix of agreement, (n, n); larger is more alike.

    Average linkage of the distance (largest entry − agreement), leaves in the optimal order (neighbours in
    the order are as alike as the tree allows). The number of blocks is that from 2 to n − 1 with the largest
    mean silhouette; 1 where n < 3 or none is positive. The diagonal is not read.

    Raises
    ------
    InputError
        For undefined entries.

    References
    ----------
    Bar-Joseph, Gifford and Jaakkola, Fast optimal leaf ordering for hierarchical clustering, Bioinformatics
    17 (2001), doi 10.1093/bioinformatics/17.suppl_1.S22; Rousseeuw, Silhouettes, J. Comput. Appl. Math. 20
    (1987), doi 10.1016/0377-0427(87)90125-7
    """
    # It takes longer to import than all that counts agreement.
    from scipy.cluster.hierarchy import cut_tree, leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    n = len(agreement)
    off = ~np.eye(n, dtype=bool)
    n_unknown = int(np.isnan(agreement[off]).sum())
    if n_unknown:
        raise InputError(f"{n_unknown} entries of the agreement are undefined, so that it has no blocks.")
    if n < 2:
        return Blocks(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.nan)
    distance = np.where(off, agreement[off].max() - agreement, 0.0)
    flat = squareform(distance)
    tree = optimal_leaf_ordering(linkage(flat, method="average"), flat)
    order = np.asarray(leaves_list(tree), dtype=np.int64)
    score, label = np.nan, np.zeros(n, dtype=np.int64)
    for cut in cut_tree(tree, n_clusters=range(2, n)).T.astype(np.int64):
        found = silhouette(distance, cut)
        if found > 0 and not found <= score:
            score, label = found, cut
    numbers = {old: new for new, old in enumerate(dict.fromkeys(label[order].tolist()))}
    return Blocks(order, np.array([numbers[one] for one in label.tolist()], dtype=np.int64), score)


def silhouette(distance: FloatArray, label: IntArray) -> float:
    """Return the mean of (b − a)/max(a, b) of distances to own and nearest other block; 0 where alone."""
    member = np.eye(int(label.max()) + 1)[label]
    total, size, row = distance @ member, member.sum(axis=0), np.arange(label.size)
    fellows = size[label] - 1
    inside = total[row, label] / np.maximum(fellows, 1)
    other = total / size
    other[row, label] = np.inf
    nearest = other.min(axis=1)
    largest = np.maximum(inside, nearest)
    known = (fellows > 0) & (largest > 0)
    share = np.divide(nearest - inside, largest, out=np.zeros(label.size), where=known)
    return float(np.mean(share))
