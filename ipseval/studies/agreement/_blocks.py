"""Blocks of what agrees: the order in which a heat map shows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ipseval._base.checks import check_positive_int
from ipseval._base.types import FloatArray, IntArray
from ipseval.errors import InputError


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


def blocks(agreement: npt.ArrayLike, n_blocks: int | None = None) -> Blocks:
    """Return the order and the blocks of a square matrix of agreement, by hierarchical clustering.

    Average linkage of the distance (largest entry − agreement), leaves in the optimal order (neighbours in
    the order are as alike as the tree allows).

    Parameters
    ----------
    agreement : (n, n) array
        Symmetric; larger means more alike, such as Spearman's correlation of orders. The diagonal is not
        read.
    n_blocks : int, optional
        Default: the number from 2 to n − 1 with the largest mean silhouette; 1 where n < 3 or none is
        positive.

    Raises
    ------
    InputError
        For a matrix that is not square and symmetric, undefined entries, or a number outside 1 … n.

    References
    ----------
    Bar-Joseph, Gifford and Jaakkola, Fast optimal leaf ordering for hierarchical clustering, Bioinformatics
    17 (2001), doi 10.1093/bioinformatics/17.suppl_1.S22; Rousseeuw, Silhouettes, J. Comput. Appl. Math. 20
    (1987), doi 10.1016/0377-0427(87)90125-7

    Examples
    --------
    >>> found = blocks([[1, 0.1, 0.9], [0.1, 1, 0.2], [0.9, 0.2, 1]])
    >>> found.order, found.label
    (array([1, 2, 0]), array([1, 0, 1]))
    """
    # It takes longer to import than all that counts agreement.
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    matrix = _checked(agreement)
    n = len(matrix)
    if n_blocks is not None and check_positive_int("n_blocks", n_blocks) > n:
        raise InputError(f"n_blocks must be at most {n}, the number of rows; got {n_blocks}.")
    if n == 1:
        return Blocks(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), np.nan)
    off = ~np.eye(n, dtype=bool)
    distance = np.where(off, matrix[off].max() - matrix, 0.0)
    flat = squareform(distance, checks=False)
    tree = optimal_leaf_ordering(linkage(flat, method="average"), flat)
    order = np.asarray(leaves_list(tree), dtype=np.int64)
    best: tuple[float, IntArray] = (np.nan, np.zeros(n, dtype=np.int64))
    for label in _cuts(tree, n, n_blocks):
        score = silhouette(distance, label)
        if n_blocks is not None or (score > 0 and not score <= best[0]):
            best = (score, label)
    score, label = best
    shown = dict.fromkeys(label[order].tolist())
    numbers = {old: new for new, old in enumerate(shown)}
    return Blocks(order, np.array([numbers[one] for one in label.tolist()], dtype=np.int64), float(score))


def silhouette(distance: FloatArray, label: IntArray) -> float:
    """Return the mean of (b − a)/max(a, b) of distances to own and nearest other block; 0 alone, NaN: one."""
    found = np.unique(label)
    if found.size < 2:
        return float("nan")
    members = [np.flatnonzero(label == one) for one in found]
    values = []
    for row, own in enumerate(label):
        to = {int(one): distance[row, part[part != row]] for one, part in zip(found, members, strict=True)}
        inside = to.pop(int(own))
        b = min(float(one.mean()) for one in to.values())
        a = float(inside.mean()) if inside.size else np.nan
        values.append((b - a) / max(a, b) if inside.size and max(a, b) > 0 else 0.0)
    return float(np.mean(values))


def _cuts(tree: FloatArray, n: int, n_blocks: int | None) -> Iterator[IntArray]:
    from scipy.cluster.hierarchy import cut_tree

    for count in range(2, n) if n_blocks is None else [n_blocks]:
        yield np.asarray(cut_tree(tree, n_clusters=[count])[:, 0], dtype=np.int64)


def _checked(agreement: npt.ArrayLike) -> FloatArray:
    try:
        matrix = np.array(agreement, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("agreement must be a square matrix of numbers.") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InputError(f"agreement must be a square matrix; got shape {matrix.shape}.")
    off = ~np.eye(len(matrix), dtype=bool)
    n_unknown = int((~np.isfinite(matrix[off])).sum())
    if n_unknown or not np.allclose(matrix[off], matrix.T[off], rtol=1e-9, atol=1e-12):
        problem = f"{n_unknown} entries are undefined" if n_unknown else "it differs from its transpose"
        raise InputError(f"agreement must be symmetric and finite off the diagonal; {problem}.")
    return matrix
