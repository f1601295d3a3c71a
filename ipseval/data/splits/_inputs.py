"""Checks and conversions of the arguments of split functions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from narwhals.typing import IntoDataFrame

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Interactions, check_interactions
from ipseval.data.reading import read
from ipseval.data.reading.held_tables import unpack_table
from ipseval.data.reading.rating_scale import Threshold
from ipseval.data.reading.record_source import are_records
from ipseval.data.sparse import SparseMatrix, is_sparse_matrix
from ipseval.errors import InputError, ProblemsError
from ipseval.utils.checks import check_fraction
from ipseval.utils.types import AnyArray, IntArray

# A log, an impression log, or a data frame, mapping, sparse matrix or file that `read` understands.
LogLike: TypeAlias = (
    Interactions
    | ImpressionLog
    | IntoDataFrame
    | SparseMatrix
    | Mapping[Any, Any]
    | list[Any]
    | str
    | os.PathLike[str]
)


def to_interactions(log: LogLike, threshold: Threshold | None = None) -> Interactions:
    """Return a log, the positives of an impression log, or the log that `read` finds in other data.

    `threshold`: as in `read`, for data that are read here.
    """
    table: Any = unpack_table(log)
    interactions: object = table
    if not isinstance(table, (Interactions, ImpressionLog)) and _is_readable(table):
        try:
            interactions = read(table, threshold=threshold)
        except ProblemsError as error:
            raise ProblemsError(error.source, error.problems, "ipseval.read") from None
    if threshold is not None and interactions is table:
        raise InputError(
            "threshold applies to data that are read; got a log. Read it by ipseval.read(…, threshold=…)."
        )
    if isinstance(interactions, ImpressionLog):
        interactions = interactions.positives
    check_interactions(interactions, "log")
    assert isinstance(interactions, Interactions)
    return interactions


def _is_readable(log: object) -> bool:
    """Return whether `read` can find a log in an object: a table, a mapping, tuples, a matrix or a file."""
    if isinstance(log, (Mapping, np.ndarray, str, os.PathLike)):
        return True
    return hasattr(log, "columns") or is_sparse_matrix(log) or are_records(log)


def check_shares(test_fraction: float, validation_fraction: float) -> None:
    """Raise `InputError` unless both are shares and leave interactions for training."""
    check_fraction("test_fraction", test_fraction)
    check_fraction("validation_fraction", validation_fraction, low_open=False)
    check_fraction("test_fraction + validation_fraction", test_fraction + validation_fraction)


def count_share(counts: IntArray, fraction: float) -> IntArray:
    """Return ⌊counts·fraction + ½⌋."""
    return np.asarray(np.floor(np.round(counts * fraction, 6) + 0.5), dtype=np.int64)


def get_timestamps(log: Interactions, purpose: str) -> AnyArray:
    """Return the timestamps of a log, or raise `InputError` if it has no timestamps or no rows."""
    if log.timestamp is None:
        raise InputError(
            f"{purpose} requires the time of each interaction, and this log has none.",
            advice="Name the column of times by {timestamp} where the log is read",
        )
    if not len(log):
        raise InputError(f"{purpose} needs at least one interaction, and this log has none.")
    return log.timestamp
