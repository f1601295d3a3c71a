"""Interactions from a scipy sparse matrix of users × items, the input of implicit and LightFM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.errors import InputError
from ipseval.utils.ids import to_id_array
from ipseval.utils.notes import Count, drop_zero_counts
from ipseval.utils.types import AnyArray

if TYPE_CHECKING:
    from scipy.sparse import coo_array, coo_matrix


class SparseMatrix(Protocol):
    """Describe a sparse matrix or array of scipy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""

    def tocsr(self) -> Any:
        """Return the matrix in compressed sparse row format."""

    def tocoo(self) -> coo_array | coo_matrix:
        """Return the matrix in coordinate format."""


def is_sparse_matrix(source: object) -> TypeGuard[SparseMatrix]:
    """Return whether `source` is a sparse matrix or array of scipy, in any of its formats."""
    return hasattr(source, "tocsr") and hasattr(source, "nnz")


def to_sparse_matrix(array: AnyArray) -> SparseMatrix:
    """Return a dense users × items array as a sparse matrix; a 0 is not an interaction."""
    from scipy.sparse import csr_matrix

    return csr_matrix(array)


def refuse_plain_array(source: object) -> None:
    """Raise `InputError` for an array without column names, which may hold pairs or be a matrix."""
    if not isinstance(source, np.ndarray) or np.ma.isMaskedArray(source):
        return
    if source.dtype.names is None:
        raise InputError(
            f"`source` must be a path, a data frame, a mapping or a sparse matrix; got an array of shape "
            f"{source.shape}. Pass pandas.DataFrame(source, columns=['user', 'item']) if its rows are pairs, "
            "or scipy.sparse.csr_matrix(source) if it is a users × items matrix."
        )


@dataclass(frozen=True, eq=False)
class SparseTable:
    """Represent the entries of a sparse matrix as rows of a frame.

    Attributes
    ----------
    frame : DataFrame
        Columns user and item, and value unless every entry is 1.
    users, items : arrays
        Ids of all rows and columns of the matrix, including those without an entry.
    counts : tuple of Count
        Number of stored zeros, which are not interactions.
    """

    frame: pd.DataFrame
    users: AnyArray
    items: AnyArray
    counts: tuple[Count, ...]


def read_sparse_matrix(
    matrix: SparseMatrix,
    users: npt.ArrayLike | None,
    items: npt.ArrayLike | None,
    *,
    allow_negative: bool = False,
) -> SparseTable:
    """Return the entries of a users × items matrix as a table.

    Parameters
    ----------
    matrix : scipy sparse matrix or array
        A stored entry that is not 0 is an interaction; the values are kept unless all are 1.
    users, items : array-like of ids, optional
        Ids of the rows and columns. Default: their numbers, from 0.
    allow_negative : bool
        Whether values below 0 are accepted, because a threshold is applied afterwards. Default: False.

    Returns
    -------
    SparseTable
        One row per interaction.

    Raises
    ------
    InputError
        For ids that do not match the shape, and for negative entries.
    """
    entries = matrix.tocoo()
    n_users, n_items = entries.shape
    user_ids = _label_axis("users", "rows", users, n_users)
    item_ids = _label_axis("items", "columns", items, n_items)
    is_zero = np.asarray(entries.data == 0)
    values = entries.data[~is_zero]
    n_negative = int((values < 0).sum())
    if n_negative and not allow_negative:
        raise InputError(
            f"the sparse matrix must contain values above 0; {n_negative:,} of {values.size:,} entries are "
            "negative. Remove them with matrix.multiply(matrix > 0), or pass `threshold` to ipseval.read."
        )
    frame = pd.DataFrame({"user": user_ids[entries.row[~is_zero]], "item": item_ids[entries.col[~is_zero]]})
    if not bool((values == 1).all()):
        frame["value"] = values
    n_zeros = int(is_zero.sum())
    counts = drop_zero_counts(
        Count("stored zeros of the sparse matrix, left out", n_zeros, is_zero.size, code="exclusion")
    )
    return SparseTable(frame=frame, users=user_ids, items=item_ids, counts=counts)


def _label_axis(name: str, axis: str, ids: npt.ArrayLike | None, size: int) -> AnyArray:
    """Return the ids of rows or columns; their numbers if no ids are passed."""
    if ids is None:
        return np.arange(size)
    labels = to_id_array(ids, name)
    if labels.size != size:
        raise InputError(
            f"`{name}` must contain one id for each of {size:,} {axis} of the sparse matrix; got "
            f"{labels.size:,}. Pass the ids in the order of the {axis}."
        )
    return labels
