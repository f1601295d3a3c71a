"""Exact ranks from scores as they are stored: arrays, memmaps, sparse matrices, what a function returns."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from ipseval._types import AnyArray, IntArray
from ipseval.errors import InputError
from ipseval.ranking._batches import Batch, frozen


def count_block(batch: Batch, scores: AnyArray, kernels: ModuleType) -> tuple[IntArray, IntArray, int]:
    """Return (n_above, n_tied) of the batch's positives and the number of NaN in the block."""
    block = frozen(comparable(scores))
    n_above, n_reach = np.zeros(batch.item.size, np.int64), np.zeros(batch.item.size, np.int64)
    score = block[batch.row, batch.item]
    n_nan = kernels.count_stored(
        block, batch.start, score, batch.excluded_start, batch.excluded, n_above, n_reach
    )
    return n_above, n_reach - n_above - 1, int(n_nan)


def comparable(scores: AnyArray) -> AnyArray:
    """Return scores in one of the types that the kernels compare, in the same order.

    float16 becomes float32, short integers float64, each without loss; 64-bit integers stay what they are.

    Raises
    ------
    InputError
        For scores that are not real numbers.
    """
    dtype = scores.dtype
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return scores.astype(np.float64 if dtype.itemsize == 8 else np.float32, copy=False)
    if dtype.kind in "iu":
        wide = np.float64 if dtype.itemsize < 8 else dtype.newbyteorder("=")
        return scores.astype(wide, copy=False)
    raise InputError(f"scores must be real numbers of at most 64 bits; got {dtype}.")


def check_nan(n_nan: int, n_scores: int, name: str) -> None:
    """Raise `InputError` when a score is NaN."""
    if n_nan:
        raise InputError(
            f"{name}: {n_nan:,} of {n_scores:,} scores are NaN; a NaN has no place in a ranking. "
            "Use -inf for items that should come last."
        )
