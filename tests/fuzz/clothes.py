"""The same data in other clothes: containers, dtypes, orders of labels and rows.

Values are multiples of 1/8, which every type of number holds exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

Clothes = Iterator[tuple[str, Any]]


def orders(length: int) -> Iterator[tuple[str, np.ndarray]]:
    yield "reversed", np.arange(length)[::-1]
    yield "shuffled", np.random.default_rng(0).permutation(length)


def universe(ids: pd.Index) -> Clothes:
    """Yield the ids of all users, or of all items, in other orders."""
    yield from ((name, ids[order]) for name, order in orders(len(ids)))
    yield "sorted", ids.sort_values()


def dtypes(one: Any) -> Clothes:
    """Yield a Series in other types; those that cannot hold its values are left out."""
    kinds = [
        "float32",
        "float16",
        "Float64",
        "int8",
        "int64",
        "Int64",
        "boolean",
        ">f8",
        "object",
        "category",
    ]
    for kind in [*kinds, "string", "double[pyarrow]", "int64[pyarrow]", "string[pyarrow]", "Sparse[float64]"]:
        try:
            changed = one.astype(kind)
            same = bool((changed.astype(one.dtype) == one).all()) and (
                "str" not in kind or not pd.api.types.is_numeric_dtype(one)
            )
        except Exception:
            continue
        if same:
            yield kind, changed


def by_id(one: pd.Series) -> Clothes:
    """Yield a Series whose labels are ids."""
    for name, order in orders(len(one)):
        yield name, one.iloc[order]
    yield "by value", one.sort_values()
    yield "by label", one.sort_index()
    yield from dtypes(one)


def by_row(one: pd.Series) -> Clothes:
    """Yield values of rows, as a Series that is numbered or labelled as the rows are, or without labels."""
    yield from by_id(one)
    yield "array", one.to_numpy()
    yield "list", one.tolist()
    yield "tuple", tuple(one.tolist())
    yield "strided", np.repeat(one.to_numpy(), 2)[::2]
    yield "polars", pl.Series(one.to_numpy())
    yield "arrow", pa.array(one.to_numpy())


def matrix(frame: pd.DataFrame) -> Clothes:
    """Yield a frame whose rows and columns are ids, or only its rows."""
    for name, order in orders(len(frame)):
        yield f"rows {name}", frame.iloc[order]
    for name, order in orders(frame.shape[1]):
        yield f"columns {name}", frame.iloc[:, order]
        yield f"both {name}", frame.iloc[np.random.default_rng(9).permutation(len(frame)), order]
    for kind in ("float32", "Float64", "object", "double[pyarrow]", "Sparse[float64]"):
        yield kind, frame.astype(kind)
    yield "fortran", pd.DataFrame(np.asfortranarray(frame.to_numpy()), frame.index, frame.columns)


def labelled_rows(frame: pd.DataFrame) -> Clothes:
    """Yield a frame whose rows alone are labelled."""
    yield from (
        (name, clothed_frame)
        for name, clothed_frame in matrix(frame)
        if not name.startswith(("columns", "both"))
    )


def reordered(frame: pd.DataFrame) -> Clothes:
    """Yield the rows of a data frame in other orders."""
    yield from ((name, frame.iloc[order]) for name, order in orders(len(frame)))


def table(frame: pd.DataFrame) -> Clothes:
    """Yield a data frame with one row for each thing, whose row labels stay with it."""
    yield from reordered(frame)
    yield "columns reversed", frame[frame.columns[::-1]]
    for column in frame:
        for kind, changed in dtypes(frame[column]):
            yield f"{column} {kind}", frame.assign(**{column: changed})
    yield "polars", pl.from_pandas(frame)
    yield "lazy", pl.from_pandas(frame).lazy()
    yield "arrow", pa.Table.from_pandas(frame, preserve_index=False)


def whole_table(frame: pd.DataFrame) -> Clothes:
    """Yield a data frame with one row for each thing, to which nothing else goes by row."""
    yield from table(frame)
    shuffled = frame.sample(frac=1, random_state=5)
    yield "renumbered", shuffled.reset_index(drop=True)
    yield "labels shuffled", frame.set_axis(np.random.default_rng(1).permutation(len(frame)))
    yield "labels repeat", frame.set_axis(np.zeros(len(frame), int))
    yield "labels of text", shuffled.set_axis([f"row {code}" for code in range(len(frame))])
    yield "shuffled polars", pl.from_pandas(shuffled)


def in_lists(frame: pd.DataFrame) -> Clothes:
    """Yield a log as a row for each user, whose other columns hold lists; and as mappings."""
    lists = frame.groupby("user", sort=False).agg(list).reset_index()
    yield "lists", lists
    yield "arrays", lists.set_index("user").map(np.array).reset_index()
    yield "lists of polars", pl.from_pandas(lists)
    yield "lists of arrow", pa.Table.from_pandas(lists, preserve_index=False)
    yield "names in the plural", lists.rename(columns=lambda name: name if name == "user" else f"{name}s")
    yield "columns", frame.to_dict("list")
    yield "columns of columns", frame.to_dict()


def renamed(mapping: dict[str, Any]) -> Clothes:
    """Yield a mapping of names in other orders."""
    names = list(mapping)
    for name, order in orders(len(names)):
        yield name, {names[place]: mapping[names[place]] for place in order}
        yield f"series {name}", pd.Series(mapping).iloc[order]
