"""Blocks of similar levels: an order for a heat map, found by hierarchical clustering."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, IntArray


@public_class
@dataclass(frozen=True, eq=False)
class Blocks:
    """An order in which similar rows are neighbours, and the blocks that they form.

    Parameters
    ----------
    order : (n,) int array
        Rows and columns of the matrix, in the order in which they are shown.
    label : (n,) int array
        Block of each row, in the order of the matrix; blocks are numbered as they are shown.
    silhouette : float
        Mean silhouette of the blocks, in [-1, 1]; values near 0 mean that there are hardly any blocks. NaN
        with one block.

    See Also
    --------
    OrderAgreement : The agreement of two rankings, which fills a matrix of agreement.

    Examples
    --------
    Rows 0 and 2 are similar, and so are rows 1 and 3:

    >>> import numpy as np
    >>> blocks = Blocks(np.array([0, 2, 1, 3]), np.array([0, 1, 0, 1]), silhouette=0.8)
    >>> blocks
    Blocks(sizes 2, 2; silhouette 0.80)
    >>> blocks.ends
    [2]
    """

    order: IntArray
    label: IntArray
    silhouette: float

    def __repr__(self) -> str:
        sizes = ", ".join(str(size) for size in np.bincount(self.label))
        return f"Blocks(sizes {sizes}; silhouette {self.silhouette:.2f})"

    @property
    def ends(self) -> list[int]:
        """Positions in `order` where a new block begins, without 0."""
        ordered_labels = self.label[self.order]
        is_new_block = ordered_labels[1:] != ordered_labels[:-1]
        positions: list[int] = (np.flatnonzero(is_new_block) + 1).tolist()
        return positions


def blocks(agreement: FloatArray) -> Blocks:
    """Return the order and the blocks of a symmetric matrix of agreement, (n, n); larger is more similar.

    Average linkage of the distance (largest entry − agreement), leaves in the optimal order (neighbours in
    the order are as similar as the tree allows). The number of blocks, from 2 to n − 1, has the largest mean
    silhouette; it is 1 where n < 3 or no silhouette is positive. The diagonal is not read.

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
    # Imported here because it takes longer to import than everything that counts agreement.
    from scipy.cluster.hierarchy import cut_tree, leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    n_rows = len(agreement)
    is_off_diagonal = ~np.eye(n_rows, dtype=bool)
    n_undefined = int(np.isnan(agreement[is_off_diagonal]).sum())
    if n_undefined:
        raise InputError(f"{n_undefined} entries of the agreement are undefined, so that it has no blocks.")
    one_block = np.zeros(n_rows, dtype=np.int64)
    if n_rows < 2:
        return Blocks(one_block, one_block, np.nan)
    distance = np.where(is_off_diagonal, agreement[is_off_diagonal].max() - agreement, 0.0)
    condensed_distance = squareform(distance)
    tree = optimal_leaf_ordering(linkage(condensed_distance, method="average"), condensed_distance)
    order = np.asarray(leaves_list(tree), dtype=np.int64)
    best_score = np.nan
    best_label = one_block
    for label in cut_tree(tree, n_clusters=range(2, n_rows)).T.astype(np.int64):
        score = compute_silhouette(distance, label)
        if score > 0 and not score <= best_score:
            best_score = score
            best_label = label
    return Blocks(order, _number_in_order(best_label, order), best_score)


def _number_in_order(label: IntArray, order: IntArray) -> IntArray:
    """Return labels that are numbered in the order in which they first occur."""
    ordered_labels = dict.fromkeys(label[order].tolist())
    number_of_label = {old_label: number for number, old_label in enumerate(ordered_labels)}
    return np.array([number_of_label[old_label] for old_label in label.tolist()], dtype=np.int64)


def compute_silhouette(distance: FloatArray, label: IntArray) -> float:
    """Return the mean of (b − a)/max(a, b), 0 for rows that are alone in their block.

    a is the mean distance of a row to the other rows of its block, b to the rows of the nearest other block.
    """
    membership = np.eye(int(label.max()) + 1)[label]
    block_distance_sums = distance @ membership
    block_sizes = membership.sum(axis=0)
    rows = np.arange(label.size)
    n_neighbours = block_sizes[label] - 1
    within = block_distance_sums[rows, label] / np.maximum(n_neighbours, 1)
    block_distance_means = block_distance_sums / block_sizes
    block_distance_means[rows, label] = np.inf
    nearest = block_distance_means.min(axis=1)
    largest = np.maximum(within, nearest)
    is_defined = (n_neighbours > 0) & (largest > 0)
    silhouettes = np.divide(nearest - within, largest, out=np.zeros(label.size), where=is_defined)
    return float(np.mean(silhouettes))
