"""Reading of the parts of a split that was made elsewhere: frames, logs, mappings and sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy.typing as npt
from narwhals.typing import IntoFrame

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Duplicates, Interactions
from ipseval.data.reading import read
from ipseval.data.reading.column_names import match_columns
from ipseval.data.sparse import SparseMatrix, is_sparse_matrix, read_sparse_matrix
from ipseval.errors import InputError, ProblemsError
from ipseval.utils.columns import as_frame

# A part of a split: a log, a frame, {user: [item, …]}, or a users × items matrix.
PartLike: TypeAlias = Interactions | ImpressionLog | IntoFrame | Mapping[Any, Any] | SparseMatrix


def read_parts(
    parts: Mapping[str, PartLike],
    columns: Mapping[str, str | None],
    *,
    users: npt.ArrayLike | None,
    items: npt.ArrayLike | None,
    duplicates: Duplicates,
) -> list[Interactions]:
    """Return the interactions of each part, each over its own ids.

    Parameters
    ----------
    parts : mapping
        "train", "test" and perhaps "validation" -> the argument of the caller.
    columns : mapping
        "user", "item", "value" and "timestamp" -> the name of a column, or None.
    users, items : array-like of ids, optional
        Ids of the rows and columns of sparse matrices.
    duplicates : {"raise", "drop", "keep"}
        As in `Interactions.from_frame`.
    """
    _check_matrix_shapes(parts)
    logs = []
    for name, part in parts.items():
        if isinstance(part, Interactions):
            logs.append(part)
        elif isinstance(part, ImpressionLog):
            logs.append(part.positives)
        elif is_sparse_matrix(part):
            logs.append(_read_matrix(part, users, items, duplicates))
        elif isinstance(part, Mapping):
            logs.append(read(part, duplicates=duplicates).positives)
        else:
            logs.append(_read_frame(part, name, columns, duplicates))
    return logs


def _read_frame(
    part: PartLike, name: str, columns: Mapping[str, str | None], duplicates: Duplicates
) -> Interactions:
    """Return the interactions of a frame; its columns of ids may have usual names."""
    frame = as_frame(part)
    if frame is None:  # `from_frame` raises the error
        return Interactions.from_frame(part, duplicates=duplicates)  # type: ignore[arg-type]  # raises
    id_columns = _find_id_columns(list(frame.columns), columns, name)
    return Interactions.from_frame(
        frame.to_native(),
        user=id_columns["user"],
        item=id_columns["item"],
        value=columns["value"],
        timestamp=columns["timestamp"],
        duplicates=duplicates,
    )


def _find_id_columns(
    frame_columns: list[str], columns: Mapping[str, str | None], part_name: str
) -> dict[str, str]:
    """Return the columns of ids: named by the caller, or "user" and "item", or with usual names."""
    names: dict[str, str | None] = {}
    for role in ("user", "item"):
        if columns[role] is not None:
            names[role] = columns[role]
        elif role in frame_columns:
            names[role] = role
    match = match_columns(frame_columns, names, ("user", "item"))
    if match.problems:
        raise ProblemsError(f"the {part_name} frame", match.problems, "Split.from_frames")
    return match.columns


def _read_matrix(
    matrix: SparseMatrix, users: npt.ArrayLike | None, items: npt.ArrayLike | None, duplicates: Duplicates
) -> Interactions:
    """Return the interactions of a sparse matrix."""
    table = read_sparse_matrix(matrix, users, items)
    log = Interactions.from_frame(
        table.frame,
        value="value" if "value" in table.frame else None,
        users=table.users,
        items=table.items,
        duplicates=duplicates,
    )
    return replace(log, row_counts=(*log.row_counts, *table.counts))


def _check_matrix_shapes(parts: Mapping[str, PartLike]) -> None:
    """Raise `InputError` if sparse matrices differ in shape."""
    matrices = {}
    for name, part in parts.items():
        if is_sparse_matrix(part):
            matrices[name] = part

    shapes = {name: matrix.shape for name, matrix in matrices.items()}
    if len(set(shapes.values())) > 1:
        shape_list = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(
            f"the sparse matrices of a split must have one shape, users × items; got "
            f"{shape_list}. Build them over the same rows and columns."
        )
