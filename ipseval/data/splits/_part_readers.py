"""Reading of the parts of a split that was made elsewhere: frames, logs, mappings and sparse matrices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from narwhals.typing import IntoFrame

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Duplicates, Interactions
from ipseval.data.reading import read
from ipseval.data.reading.column_names import match_columns
from ipseval.data.reading.held_tables import holds_lists, unpack_table
from ipseval.data.reading.rating_scale import Threshold, find_rating_scale, means_ratings
from ipseval.data.reading.record_source import are_records
from ipseval.data.sparse import (
    SparseMatrix,
    is_sparse_matrix,
    load_pairs_or_matrix,
    read_sparse_matrix,
    refuse_plain_array,
    to_sparse_matrix,
)
from ipseval.errors import InputError, ProblemsError
from ipseval.utils.columns import as_frame
from ipseval.utils.types import AnyArray

# A part of a split: a log, a frame, {user: [item, …]}, a users × items matrix, tuples, or a file.
PartLike: TypeAlias = (
    Interactions
    | ImpressionLog
    | IntoFrame
    | Mapping[Any, Any]
    | SparseMatrix
    | AnyArray
    | list[Any]
    | str
    | os.PathLike[str]
)
MOST_COLUMNS_OF_PAIRS = (
    4  # an array with more columns is a matrix users × items, with fewer it may hold pairs
)


def read_parts(
    parts: Mapping[str, PartLike],
    columns: Mapping[str, str | None],
    *,
    threshold: Threshold | None,
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
    threshold : float, "all" or None
        As in `read`.
    users, items : array-like of ids, optional
        Ids of the rows and columns of sparse matrices.
    duplicates : {"raise", "drop", "keep"}
        As in `Interactions.from_frame`.
    """
    converted_parts: dict[str, PartLike] = {}
    for name, part in parts.items():
        converted_parts[name] = _convert_part(part)

    _check_matrix_shapes(converted_parts)
    logs = []
    for name, part in converted_parts.items():
        if isinstance(part, (Interactions, ImpressionLog)):
            if threshold is not None:
                raise InputError(
                    f"threshold applies to data that are read; got a log as {name}. Read it by "
                    "ipseval.read(…, threshold=…)."
                )
            logs.append(part.positives)
        elif is_sparse_matrix(part) and threshold is None:
            logs.append(_read_matrix(part, users, items, duplicates))
        elif isinstance(part, (Mapping, str, os.PathLike)) or is_sparse_matrix(part) or are_records(part):
            logs.append(_read_source(part, columns, threshold, users, items, duplicates))
        else:
            logs.append(_read_frame(part, name, columns, threshold, duplicates))
    return logs


def _convert_part(part: PartLike) -> PartLike:
    """Return a dense matrix as a sparse one, pairs in a container as a table, and other parts unchanged."""
    part = load_pairs_or_matrix(unpack_table(part))
    if isinstance(part, np.ndarray) and part.ndim == 2 and part.shape[1] > MOST_COLUMNS_OF_PAIRS:
        return to_sparse_matrix(part)
    refuse_plain_array(part)
    if type(part).__module__.startswith("ranx."):
        judgements: dict[str, dict[str, int]] = part.to_dict()  # type: ignore[union-attr]  # of ranx
        return judgements
    return part


def _read_source(
    source: Any,
    columns: Mapping[str, str | None],
    threshold: Threshold | None,
    users: npt.ArrayLike | None,
    items: npt.ArrayLike | None,
    duplicates: Duplicates,
) -> Interactions:
    """Return the interactions that `read` finds in a file, a mapping, a matrix or a list of tuples."""
    options: dict[str, Any] = {}
    if isinstance(source, (str, os.PathLike)):
        options = dict(columns)
    if is_sparse_matrix(source):
        options = {"users": users, "items": items}
    try:
        log = read(source, threshold=threshold, duplicates=duplicates, **options)
    except ProblemsError as error:
        raise ProblemsError(error.source, error.problems, "ipseval.read") from None
    return log.positives


def _read_frame(
    part: PartLike,
    name: str,
    columns: Mapping[str, str | None],
    threshold: Threshold | None,
    duplicates: Duplicates,
) -> Interactions:
    """Return the interactions of a frame; its columns of ids may have usual names."""
    frame = as_frame(part)
    if frame is None:  # `from_frame` raises the error
        return Interactions.from_frame(part, duplicates=duplicates)  # type: ignore[arg-type]  # raises
    id_columns = _find_id_columns(list(frame.columns), columns, name)
    if threshold is not None or holds_lists(frame, id_columns["item"]):
        names: dict[str, Any] = {**columns, **id_columns}
        log = read(frame.to_native(), **names, threshold=threshold, duplicates=duplicates)
        return log.positives
    if columns["value"] is None:
        _refuse_ratings(frame, id_columns, name)
    return Interactions.from_frame(
        frame.to_native(),
        user=id_columns["user"],
        item=id_columns["item"],
        value=columns["value"],
        timestamp=columns["timestamp"],
        duplicates=duplicates,
    )


def _refuse_ratings(frame: Any, id_columns: Mapping[str, str], part_name: str) -> None:
    """Raise `InputError` for a frame with ratings, all of which would count as positives."""
    for column in frame.columns:
        if column in id_columns.values() or means_ratings(str(column), "name") != "yes":
            continue
        values = frame[column]
        if not values.dtype.is_numeric():
            continue
        numbers = values.drop_nulls().to_numpy()
        scale = find_rating_scale(numbers, str(column))
        if scale is not None:
            raise ProblemsError(f"the {part_name} frame", [scale.to_problem()])


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
