"""Counting kernels on PyTorch: on a GPU where there is one (CUDA), on the processor otherwise.

The twin of `_kernels` for factors, with the same integers: the products and comparisons of a block of users
with a tile of items are made on the device, in single precision as IEEE 754 has it, with the same bounds
around each positive. What is too close to call is settled on the processor, by the exact score. Scores that
are stored lie in the processor's memory and are compared there.
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
from ipseval._types import AnyArray, FloatArray, IntArray
from ipseval.ranking import _kernels
from ipseval.ranking._batches import Block, Catalogue, Gathered, Shape, Tile
from ipseval.ranking._kernels import close_in_rows, count_stored, pair_scores, ranks_in_rows

__all__ = ["close_in_rows", "count_stored", "pair_scores", "ranks_in_rows"]

NAME = "torch"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BLOCK_BYTES = (256 if DEVICE.type == "cuda" else 6) * 2**20  # products of a block with a tile
TILE = 2**16 if DEVICE.type == "cuda" else 2**13  # items; counts in single precision are exact below 2**24
SLOTS = 64  # positives per user up to which comparing is faster than sorting
SORT_ROWS = 64  # rows that are sorted and searched at once


def placed(fast_item: AnyArray) -> Any:
    """Return the factors of all items on the device: a copy on a GPU, the same memory on the processor."""
    with warnings.catch_warnings():  # of arrays that must not be written to: nothing writes to them
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return _on_device(fast_item)


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
    """Counts for the blocks of one thread, tile by tile, on the device."""

    def __init__(self, shape: Shape) -> None:
        size = shape.n_users * shape.n_items
        dtype = torch.float32 if shape.dtype == np.float32 else torch.float64
        self._memory, self._mask = (torch.empty(size, dtype=dtype, device=DEVICE) for _ in range(2))
        self._k, self._room = shape.top_k, shape.room
        self._settled = min(_kernels.SETTLED, shape.n_users)

    def begin(self, block: Block, slack: FloatArray) -> None:
        """Take up a block of users, the ones with most positives first; the rest is as in `_kernels`."""
        self._block = block
        self._slack, self._low = slack, np.full(slack.size, -np.inf)  # NaN: too many are too close to call
        self._found = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
        size = np.diff(block.start)
        self._order = np.argsort(-size, kind="stable")  # the user in each row of the products
        place = np.empty_like(self._order)
        place[self._order] = np.arange(size.size)
        self._row = np.repeat(np.arange(size.size), size)
        self._place = place[self._row]
        self._user = _on_device(block.fast_user[self._order])
        self._lo, self._hi = _on_device(block.lo), _on_device(block.hi)
        most = int(size.max(initial=0))
        # The j-th positive of the users with more than j, for j up to SLOTS; their rows are the first ones.
        self._slots = []
        few = np.where(size > SLOTS, 0, size)[self._order]
        self._n_many = int((size > SLOTS).sum())
        for j in range(min(most, SLOTS)):
            rows = np.arange(self._n_many, self._n_many + int((few > j).sum()))
            chosen = block.start[self._order[rows]] + j
            bounds = _on_device(chosen)
            self._slots.append(
                (
                    slice(self._n_many, self._n_many + rows.size),
                    chosen,
                    self._lo[bounds, None],
                    self._hi[bounds, None],
                )
            )
        excluded_row = np.repeat(np.arange(size.size), np.diff(block.excluded_start))
        by_item = np.argsort(block.excluded, kind="stable")
        self._excluded = block.excluded[by_item]
        self._excluded_place = place[excluded_row[by_item]]

    def count(self, catalogue: Catalogue, tile: Tile) -> tuple[int, int]:
        """Add the counts of the tile's items; what is returned is as in `_kernels`."""
        block, first, width = self._block, tile.first, int(tile.fast_item.shape[0])
        scores = self._products(tile, first, width)
        above, reach = self._counts(scores)
        block.n_above[:] += above
        if self._k:
            self._keep(scores, first)
        own = (block.item >= first) & (block.item < first + width)
        close = np.flatnonzero(reach - above > own)
        for part in np.split(close, range(self._settled, close.size, self._settled)):
            positive, item = self._near(scores, part)
            self._decide(positive, item + first, catalogue)
        return int((reach - above < own).sum()), int((reach - above)[close].sum())

    def _products(self, tile: Tile, first: int, width: int) -> torch.Tensor:
        """Return the products of the block with a tile, NaN for the excluded items."""
        n_users = self._user.shape[0]
        scores = self._memory[: n_users * width].view(n_users, width)
        with torch.autocast(DEVICE.type, enabled=False), torch.no_grad():
            torch.mm(self._user, tile.fast_item.T, out=scores)
        if tile.infinite.size:
            scores[:, _on_device(tile.infinite)] = _on_device(tile.bias).to(scores.dtype)
        hidden = slice(*np.searchsorted(self._excluded, (first, first + width)))
        key = self._excluded_place[hidden] * np.int64(width) + (self._excluded[hidden] - first)
        scores.view(-1).index_fill_(0, _on_device(key), np.nan)
        return scores

    def _counts(self, scores: torch.Tensor) -> tuple[IntArray, IntArray]:
        """Return #{x > hi} and #{x >= lo} in the row of each positive; NaN is never counted."""
        above, reach = (np.zeros(self._block.item.size, dtype=np.int64) for _ in range(2))
        parts = []
        for rows, _, lo, hi in self._slots:
            some = scores[rows]
            mask = self._mask[: some.numel()].view(some.shape)
            for compare, bound in ((torch.gt, hi), (torch.ge, lo)):
                compare(some, bound, out=mask)
                parts.append(mask.sum(dim=1))
        if parts:  # brought back at once
            chosen = np.concatenate([one for _, one, _, _ in self._slots])
            found = [torch.cat(parts[number::2]).cpu().numpy() for number in (0, 1)]
            above[chosen], reach[chosen] = (one.astype(np.int64) for one in found)
        for begin in range(0, self._n_many, SORT_ROWS):
            end = min(begin + SORT_ROWS, self._n_many)
            self._search(scores[begin:end], self._order[begin:end], above, reach)
        return above, reach

    def _search(self, scores: torch.Tensor, users: IntArray, above: IntArray, reach: IntArray) -> None:
        """Write the counts of users with many positives, by a search among their sorted products."""
        size = np.diff(self._block.start)[users]
        chosen = self._block.start[users][:, None] + np.minimum(np.arange(size.max()), size[:, None] - 1)
        n_valid = (~scores.isnan()).sum(dim=1, keepdim=True)
        ordered = scores.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf).sort(dim=1).values
        bounds = _on_device(chosen)
        up_to_hi = torch.searchsorted(ordered, self._hi[bounds], right=True)
        below_lo = torch.searchsorted(ordered, self._lo[bounds])
        for place, counts in ((up_to_hi, above), (below_lo, reach)):  # what was NaN stands at the end
            counts[chosen] = (n_valid - torch.minimum(place, n_valid)).cpu().numpy()

    def _near(self, scores: torch.Tensor, part: IntArray) -> tuple[IntArray, IntArray]:
        """Return the pairs (positive, place in the tile) whose product is too close to call."""
        mine, bounds = scores[_on_device(self._place[part])], _on_device(part)
        near = (mine >= self._lo[bounds, None]) & (mine <= self._hi[bounds, None])
        place, item = near.nonzero().T.cpu().numpy()
        return part[place], item

    def _keep(self, scores: torch.Tensor, first: int) -> None:
        """Take up the items of the tile that may be among the k best of a user."""
        low = self._low[self._order]
        if self._k < scores.shape[1]:
            known = scores.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
            reached = known.topk(self._k, dim=1).values[:, -1].cpu().numpy()
            low = np.maximum(low, reached - self._slack[self._order])
        place, column = (scores >= _on_device(self._rounded_down(low))[:, None]).nonzero().T
        found = (
            self._order[place.cpu().numpy()],
            column.cpu().numpy() + first,
            scores[place, column].cpu().numpy(),
        )
        row, item, score = (np.concatenate(both) for both in zip(self._found, found, strict=True))
        order = np.lexsort((-score, row))
        row, item, score = row[order], item[order], score[order]
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        last = starts[np.diff(starts, append=row.size) >= self._k] + self._k - 1
        self._low[row[last]] = np.maximum(self._low[row[last]], score[last] - self._slack[row[last]])
        size = np.bincount(row[score >= self._low[row]], minlength=self._slack.size)
        self._low[size > self._room] = np.nan
        kept = score >= self._low[row]
        self._found = row[kept], item[kept], score[kept]

    def _rounded_down(self, low: FloatArray) -> AnyArray:
        """Return bounds in the type of the products."""
        fast = low.astype(self._block.lo.dtype)
        return np.where(fast > low, np.nextafter(fast, fast.dtype.type(-np.inf)), fast)

    def gathered(self) -> Gathered:
        """Return all items that may be among the k best of a user."""
        row, item, score = self._found
        order = np.lexsort((item, row))
        crowded = np.flatnonzero(np.isnan(self._low))
        return Gathered(row[order], item[order], score[order], self._low, crowded)


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


def _on_device(array: AnyArray) -> Any:
    """Return an array as a tensor: a copy on a GPU, a view of the same memory on the processor."""
    return torch.from_numpy(array).to(DEVICE)
