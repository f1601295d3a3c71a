"""Interactions from a scipy sparse matrix of users × items, the input of implicit and LightFM."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.errors import InputError
from ipseval.utils.artefacts import open_archive, read_arrays, reading
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


def _load_sparse_matrix(path: str | os.PathLike[str]) -> SparseMatrix | None:
    """Return the matrix in a file that `scipy.sparse.save_npz` has written, and None for other files."""
    location = Path(path)
    try:
        is_archive = location.suffix.lower() == ".npz" and location.is_file()
    except (OSError, ValueError):  # the name is too long, or contains a zero
        return None
    if not is_archive:
        return None
    with reading(location):
        with open_archive(location) as archive:
            names = set(archive.namelist())
        if not {"format.npy", "shape.npy", "data.npy"} <= names:
            return None
        return _build_sparse_matrix(read_arrays(location))


def _build_sparse_matrix(arrays: Mapping[str, AnyArray]) -> SparseMatrix:
    """Return the matrix of the arrays of a file, after a check of its indices."""
    from scipy.sparse import coo_matrix, csc_matrix, csr_matrix

    matrix_format = np.char.decode(arrays["format"].astype(bytes)).item()
    shape = tuple(arrays["shape"].tolist())
    if matrix_format == "coo":
        return coo_matrix((arrays["data"], (arrays["row"], arrays["col"])), shape=shape)
    if matrix_format not in ("csr", "csc"):
        raise InputError(
            f"a sparse matrix in a file must be in the format csr, csc or coo; got {matrix_format!r:.20}. Write "
            "matrix.tocsr()."
        )
    build_matrix = csr_matrix if matrix_format == "csr" else csc_matrix
    matrix = build_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def load_pairs_or_matrix(source: object) -> Any:
    """Return an array of pairs as a list of tuples, the path of a matrix as the matrix, and others unchanged."""
    if not isinstance(source, (str, os.PathLike)):
        return _convert_pairs(source)
    matrix = _load_sparse_matrix(source)
    if matrix is None:
        return source
    return matrix


MOST_ZEROS = 0.1  # largest share of zeros in two rows of ids, whereas a row of a matrix has more


def _convert_pairs(source: object) -> object:
    """Return an array of pairs (user, item) as a list of tuples, and every other object unchanged.

    An array with text may have further columns of values and times. An array of whole numbers with two columns
    holds pairs if a number exceeds 1. Otherwise, it may be a matrix of users × two items.
    """
    if not isinstance(source, np.ndarray) or source.ndim != 2 or np.ma.isMaskedArray(source):
        return source
    if not _may_hold_ids(source):
        return source
    n_rows, n_columns = source.shape
    holds_text = source.dtype.kind in "USO"  # no matrix does
    if n_columns == 2 or (holds_text and n_columns in (3, 4)):
        return list(map(tuple, source.tolist()))
    if n_rows == 2 and bool((source == 0).mean() <= MOST_ZEROS):
        raise InputError(
            f"an array of pairs must have the shape (n, 2); got {source.shape}, two rows of ids. Pass array.T."
        )
    return source


def _may_hold_ids(array: AnyArray) -> bool:
    """Return whether an array holds text, or whole numbers of which one exceeds 1."""
    if array.dtype.kind in "US":
        return True
    if array.dtype.kind == "O":
        return array.size > 0 and any(isinstance(entry, str) for entry in array[0])
    return array.dtype.kind in "iu" and array.size > 0 and bool(array.max() > 1 and array.min() >= 0)


def refuse_plain_array(source: object) -> None:
    """Raise `InputError` for an array without column names, which may hold pairs or be a matrix."""
    if not isinstance(source, np.ndarray) or np.ma.isMaskedArray(source):
        return
    if source.dtype.names is None:
        columns = ["user", "item", "rating", "timestamp"]
        if source.ndim == 2 and source.shape[1] in (3, 4):
            columns = columns[: source.shape[1]]
        else:
            columns = columns[:2]
        raise InputError(
            f"`source` must be a path, a data frame, a mapping or a sparse matrix; got an array of shape "
            f"{source.shape}. Pass pandas.DataFrame(source, columns={columns}) if its rows are interactions, "
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
