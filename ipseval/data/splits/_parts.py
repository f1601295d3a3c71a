"""The parts of a split made elsewhere, as people hold them: frames, logs, mappings and sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Duplicates, Interactions
from ipseval.data.reading import read
from ipseval.data.reading.column_names import choose
from ipseval.data.sparse import is_sparse_matrix, read_sparse_matrix
from ipseval.errors import InputError, ProblemsError
from ipseval.utils.columns import as_frame


def read_parts(
    parts: Mapping[str, Any],
    columns: Mapping[str, str | None],
    *,
    users: Any | None,
    items: Any | None,
    duplicates: Duplicates,
) -> list[Interactions]:
    """Return the interactions of each part, over ids of its own.

    Parameters
    ----------
    parts : mapping
        "train", "test" and perhaps "validation" -> what the caller passed.
    columns : mapping
        "user", "item", "value" and "timestamp" -> the name of a column, or None.
    users, items : array-like of ids, optional
        Ids of the rows and columns of sparse matrices.
    duplicates : {"raise", "drop", "keep"}
        As in `Interactions.from_frame`.
    """
    _check_shapes(parts)
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
    part: Any, name: str, columns: Mapping[str, str | None], duplicates: Duplicates
) -> Interactions:
    frame = as_frame(part)
    if frame is None:  # `from_frame` says what is expected
        return Interactions.from_frame(part, duplicates=duplicates)
    ids = find_id_columns(list(frame.columns), columns, name)
    return Interactions.from_frame(
        frame.to_native(),
        user=ids["user"],
        item=ids["item"],
        value=columns["value"],
        timestamp=columns["timestamp"],
        duplicates=duplicates,
    )


def find_id_columns(have: list[str], columns: Mapping[str, str | None], part: str) -> dict[str, str]:
    """Return the columns of ids: those that are named, else "user" and "item", else the usual names."""
    named: dict[str, str | None] = {}
    for role in ("user", "item"):
        if columns[role] is not None:
            named[role] = columns[role]
        elif role in have:
            named[role] = role
    chosen = choose(have, named, ("user", "item"))
    if chosen.problems:
        raise ProblemsError(f"the {part} frame", chosen.problems, "Split.from_frames")
    return chosen.columns


def _read_matrix(matrix: Any, users: Any | None, items: Any | None, duplicates: Duplicates) -> Interactions:
    table = read_sparse_matrix(matrix, users, items)
    log = Interactions.from_frame(
        table.frame,
        value="value" if "value" in table.frame else None,
        users=table.users,
        items=table.items,
        duplicates=duplicates,
    )
    return replace(log, counted=(*log.counted, *table.counts))


def _check_shapes(parts: Mapping[str, Any]) -> None:
    """Raise `InputError` where sparse matrices differ in shape: their rows would be other users."""
    shapes = {name: part.shape for name, part in parts.items() if is_sparse_matrix(part)}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(
            f"the sparse matrices of a split must have one shape, users × items; got {listed}. Build them "
            "over the same rows and columns."
        )
