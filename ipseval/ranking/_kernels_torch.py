"""Counting kernels on PyTorch: on a GPU where there is one (CUDA), on the processor otherwise.

The twin of `_kernels` for factors, with the same integers: the products and comparisons of a block of users
with a tile of items are made on the device, in single precision as IEEE 754 has it, with the same bounds
around each positive. A few that are too close to call are settled on the processor, by the exact score; of
users who have many, all scores are made in double precision on the device. Scores that are stored lie in the
processor's memory and are compared there.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ipseval._compute import one_blas_thread
from ipseval._types import AnyArray, IntArray
from ipseval.ranking import _kernels
from ipseval.ranking._batches import Catalogue, Shape, Tile
from ipseval.ranking._close import Part
from ipseval.ranking._device_torch import (
    DEVICE,
    DeviceCounter,
    DeviceKept,
    DevicePart,
    on_device,
    wide_scores,
)
from ipseval.ranking._kernels import close_in_rows, count_stored, pair_scores, ranks_in_rows

__all__ = ["close_in_rows", "count_stored", "pair_scores", "ranks_in_rows"]

NAME = "torch"
BLOCK_BYTES = (256 if DEVICE.type == "cuda" else 6) * 2**20  # products of a block with a tile
TILE = 2**16 if DEVICE.type == "cuda" else 2**13  # items; counts in single precision are exact below 2**24


def placed(fast_item: AnyArray) -> Any:
    """Return the factors of all items on the device: a copy on a GPU, the same memory on the processor."""
    with warnings.catch_warnings():  # of arrays that must not be written to: nothing writes to them
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return on_device(fast_item)


class _Precision:
    """Products as IEEE 754 has them, on one thread each, counted by reference over all threads.

    TF32 and bfloat16, which a program may have allowed for its own products, break the bound on the error.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_holders = 0
        self._before: list[str] = []
        self._n_threads = 1

    def take(self) -> None:
        with self._lock:
            if self._n_holders == 0:
                self._before = [one.fp32_precision for one in _products()]
                self._n_threads = torch.get_num_threads()
                for one in _products():
                    one.fp32_precision = "ieee"
                torch.set_num_threads(1)
            self._n_holders += 1

    def give(self) -> None:
        with self._lock:
            self._n_holders -= 1
            if self._n_holders == 0:
                for one, before in zip(_products(), self._before, strict=True):
                    one.fp32_precision = before
                torch.set_num_threads(self._n_threads)


_PRECISION = _Precision()


def _products() -> list[Any]:
    """Return what holds the precision of products: of cuBLAS, and of oneDNN on the processor."""
    return [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]


@contextmanager
def held() -> Iterator[None]:
    """Hold what a ranking needs while it runs, and restore it."""
    _PRECISION.take()
    try:
        with one_blas_thread():
            yield
    finally:
        _PRECISION.give()


class Worker(_kernels.Worker):
    """Counts for the blocks of one thread, tile by tile, on the device; the rest is as in `_kernels`."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape._replace(top_k=0))
        self._top_k, self._best = shape.top_k, DeviceKept(shape)
        self._scores = torch.empty(self._room, dtype=torch.float64, device=DEVICE)
        self._mask = torch.empty_like(self._scores)

    def _part(self, level: int, rows: IntArray) -> DevicePart:
        return DevicePart.of(level, self._block, rows, DeviceCounter(self._mask))

    def _scores_of(
        self, part: Part, catalogue: Catalogue, tile: Tile, hidden: tuple[IntArray, IntArray]
    ) -> torch.Tensor:
        n_users, width = part.rows.size, int(tile.fast_item.shape[0])
        scores = self._scores.view(part.user.dtype)[: n_users * width].view(n_users, width)
        with torch.autocast(DEVICE.type, enabled=False), torch.no_grad():
            if part.level == 0:
                torch.mm(part.user, tile.fast_item.T, out=scores)
                if tile.infinite.size:
                    scores[:, on_device(tile.infinite)] = on_device(tile.bias).to(scores.dtype)
            else:
                wide_scores(part.user, catalogue, tile.first, scores, in_order=part.level == 2)
        key = hidden[0] * np.int64(width) + hidden[1]
        scores.view(-1).index_fill_(0, on_device(key), np.nan)
        return scores


def tile_width(shape: Shape) -> int:
    """Return the number of items whose products with a block are made and counted at once."""
    n_tiles = -(-shape.n_items // TILE)
    return -(-shape.n_items // n_tiles)


def block_users(shape: Shape) -> int:
    """Return the number of users whose products with a tile are made at once."""
    return max(1, BLOCK_BYTES // shape.row_bytes)


def block_bytes(shape: Shape) -> tuple[int, int]:
    """Return the memory of a worker in bytes: what it needs at all, and for each user of a block."""
    return 0, 6 * shape.row_bytes  # products, masks, sorted copies with their places
