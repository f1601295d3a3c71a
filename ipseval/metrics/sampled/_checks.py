"""Checks of ranks and of numbers of candidates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ipseval.errors import InputError
from ipseval.utils.checks import as_float_vector, refuse_masked
from ipseval.utils.ids import align_rows
from ipseval.utils.types import AnyArray, BoolArray, FloatArray


def check_ranks(
    ranks: npt.ArrayLike, n_candidates: npt.ArrayLike, n_sampled: int, replacement: bool
) -> tuple[FloatArray, FloatArray]:
    """Return ranks and n as float arrays of one shape (n_ranks,), or raise `InputError`."""
    refuse_masked(ranks, "ranks")
    rank = as_float_vector("ranks", np.atleast_1d(np.asarray(ranks)))
    n = check_sizes(align_rows(n_candidates, "n_candidates", ranks), rank.size, n_sampled, replacement)
    wrong_rows = np.flatnonzero(~is_whole_rank(rank, n))
    if wrong_rows.size:
        first = wrong_rows[0]
        raise InputError(
            f"ranks must be whole numbers in 1 … n_candidates; {wrong_rows.size} of {rank.size} are not "
            f"(first: rank {rank[first]:g} of {n[first]:g})."
        )
    return rank, n


def is_whole_rank(rank: FloatArray, max_rank: FloatArray | int) -> BoolArray:
    """Return which ranks are whole numbers in 1 … `max_rank`, (n_ranks,)."""
    return np.asarray((rank >= 1) & (rank <= max_rank) & (rank == np.floor(rank)))


def check_sizes(n_candidates: npt.ArrayLike, size: int, n_sampled: int, replacement: bool) -> FloatArray:
    """Return n as a float array (size,), or raise `InputError` when m cannot be drawn from n candidates."""
    sizes = np.asarray(n_candidates)
    if sizes.ndim > 1 or (sizes.ndim == 1 and sizes.size != size):
        raise InputError(f"n_candidates must be one number or {size}, one per rank; got shape {sizes.shape}.")
    if not _are_whole_numbers(sizes):
        raise InputError(f"n_candidates must be whole numbers; got {n_candidates!r:.80}.")
    n = np.broadcast_to(sizes.astype(np.float64), (size,))
    minimum = 2
    reason = ""
    if not replacement and n_sampled > 1:
        minimum = n_sampled + 1
        reason = f" to draw {n_sampled} others without replacement"
    if size and n.min() < minimum:
        raise InputError(f"n_candidates must be >= {minimum}{reason}; the smallest is {n.min():g}.")
    return n


def _are_whole_numbers(values: AnyArray) -> bool:
    if values.dtype.kind in "iu":
        return True
    if values.dtype.kind != "f":
        return False
    return bool((values == np.floor(values)).all() and np.isfinite(values).all())
