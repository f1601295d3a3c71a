"""Exact ranks from factor matrices: fast products first, and exact scores where two products are close.

The score of a pair is s = Σ_k u_k v_k (+ bias), added in order in double precision. This definition does not
depend on the machine, its BLAS, the block size or the number of threads, and equal items tie exactly. (In a
BLAS product they may not tie: the last bit of an entry can depend on its position in the matrix.)

A BLAS product in single precision gives x with |x - s| <= ε, by the standard bound for inner products, γ_d
‖u‖ ‖v‖ with γ_d = d·2⁻²⁴/(1 - d·2⁻²⁴), which is valid for every order of summation. Hence an item with x >
s_positive + ε is above the positive and an item with x < s_positive - ε is below it, whatever the rounding.
The few items in between are decided by s itself. If they are many, s is computed for all items of the tile:
the same sums in the same order, one row at a time.

If factors are integer multiples of a power of two, as counts and flags are, so are all products and sums.
Below 2²⁴ times that step, single precision holds them without rounding: then x equals s, and ε is 0.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1. 10.1137/1.9780898718027
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType

import numpy as np

from ipseval.errors import InputError
from ipseval.ranking.candidates import Batch
from ipseval.ranking.kernels.blocks import Block, CountingWorker, Tile
from ipseval.utils.types import AnyArray, FloatArray, IntArray, as_readonly, as_readonly_rows

SINGLE_LIMIT = 1e37  # bound on |score| up to which single precision cannot overflow in between
DOUBLE_LIMIT = 1e300
STEP_PART = 2**14  # factors that are searched together for a common step
ROWS_BYTES = 2**19  # exact scores of a few users with a tile, which stay in the second-level cache


@dataclass(frozen=True, eq=False)
class Factors:
    """Factor matrices, checked and laid out for the computation of products."""

    # `user`, `item` and `bias` define the score. `fast_item` (n_items, d or d + 1) is the operand of the
    # product: in single precision where the range allows it, with the bias as a last column. Norms are upper
    # bounds.

    user: AnyArray
    item: AnyArray
    bias: FloatArray
    fast_item: AnyArray
    user_norm: FloatArray
    item_norms: FloatArray
    bias_size: float
    bias_is_exact: bool

    @classmethod
    def from_arrays(cls, user: AnyArray, item: AnyArray, bias: AnyArray | None, name: str) -> Factors:
        """Return factors that are ready for ranking; `name` is the model's name in errors."""
        user = _to_floating(user)
        item = _to_floating(item)
        if user.dtype != item.dtype:
            user = user.astype(np.float64)
            item = item.astype(np.float64)
        user = as_readonly_rows(user)
        item = as_readonly_rows(item)
        user_norm = _bound_norms(user, f"{name}: user factors")
        item_norms = _bound_norms(item, f"{name}: item factors")

        item_bias = np.zeros(0)
        if bias is not None:
            item_bias = np.asarray(bias, dtype=np.float64)
        if np.isnan(item_bias).any():
            n_nan = int(np.isnan(item_bias).sum())
            raise InputError(f"{name}: {n_nan:,} of {item_bias.size:,} item biases are NaN.")
        finite_bias = item_bias[np.isfinite(item_bias)]
        bias_size = float(np.abs(finite_bias).max(initial=0.0))

        largest_user_norm = float(user_norm.max(initial=0.0))
        largest_item_norm = float(item_norms.max(initial=0.0))
        largest_score = largest_user_norm * largest_item_norm + bias_size
        largest = max(largest_score, largest_user_norm, largest_item_norm)
        if not largest < DOUBLE_LIMIT:
            raise InputError(f"{name}: the factors are too large to multiply (scores up to {largest:.1e}).")

        fast_type: np.dtype = np.dtype(np.float64)
        if largest < SINGLE_LIMIT:
            fast_type = np.dtype(np.float32)
        fast_item = item.astype(fast_type, copy=False)
        if item_bias.size:
            # An infinite bias would turn other products of the matrix into NaN; it is added afterwards.
            bias_column = np.where(np.isfinite(item_bias), item_bias, 0).astype(fast_type)
            fast_item = np.column_stack([fast_item, bias_column])

        return cls(
            user=user,
            item=item,
            bias=as_readonly(item_bias),
            fast_item=as_readonly(fast_item),
            user_norm=user_norm,
            item_norms=item_norms,
            bias_size=bias_size,
            bias_is_exact=bool((finite_bias.astype(fast_type) == finite_bias).all()),
        )

    @cached_property
    def item_norm(self) -> float:
        """An upper bound of the norm of every item."""
        return float(self.item_norms.max(initial=0.0))

    @cached_property
    def step(self) -> float:
        """A power of two of which all scores are integer multiples; 0 if there is none of a useful size."""
        step = common_step(self.user) * common_step(self.item)
        finite_bias = self.bias[np.isfinite(self.bias)]
        if finite_bias.any():
            step = min(step, common_step(finite_bias))
        if not 2.0**-100 < step < np.inf:  # within these limits no product of factors underflows
            return 0.0
        return step

    @cached_property
    def infinite(self) -> IntArray:
        """Items with an infinite bias, and therefore an infinite score."""
        return np.flatnonzero(np.isinf(self.bias))

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.item.shape[0])

    def subset(self, items: IntArray) -> Factors:
        """Return the factors of the given items only."""
        bias = self.bias
        if bias.size:
            bias = as_readonly(bias[items])
        return replace(
            self,
            item=as_readonly_rows(self.item[items]),
            bias=bias,
            fast_item=as_readonly_rows(self.fast_item[items]),
            item_norms=self.item_norms[items],
        )

    def error_bound(self, users: IntArray) -> FloatArray:
        """Return ε of each user, (b,): the largest distance of a product from the score."""
        norm = self.user_norm[users]
        is_single = self.fast_item.dtype == np.float32
        n_roundings = self.fast_item.shape[1] + 4  # conversion of both factors, products, additions
        if is_single:
            unit = 2.0**-24
            smallest = 2.0**-126
            relative = n_roundings * unit / (1 - n_roundings * unit)
        else:
            unit = 2.0**-53
            smallest = 2.0**-1022
            # The exact score has the same rounding errors as the product.
            relative = 2 * (n_roundings * unit / (1 - n_roundings * unit))

        largest_score = norm * self.item_norm + self.bias_size
        underflow = smallest * n_roundings * (2 + norm + self.item_norm)
        bound = 1.001 * relative * largest_score + underflow
        is_exact = (norm * self.item_norm == 0) & self.bias_is_exact
        is_exact |= largest_score < self.step / unit
        return np.where(is_exact, 0.0, bound)

    def count(self, worker: CountingWorker, block: Block, width: int, kernels: ModuleType) -> Iterator[None]:
        """Add the counts of a block that the worker has begun, a tile of items at each step."""
        n_lost = 0
        for first in range(0, self.n_items, width):
            is_in_tile = (self.infinite >= first) & (self.infinite < first + width)
            infinite = self.infinite[is_in_tile]
            tile = Tile(
                first=first,
                fast_item=self.fast_item[first : first + width],
                infinite=infinite - first,
                bias=self.bias[infinite],
            )
            undecided = worker.count(tile)
            n_lost += undecided.n_lost
            if undecided.positive.size:
                self._decide_pairs(block, undecided.positive, undecided.item, kernels)
            if undecided.rows.size:
                n_lost += self._decide_rows(block, undecided.rows, tile, kernels)
            yield
        assert n_lost == 0, f"{n_lost} products are farther from the exact score than the bound allows"

    def _decide_pairs(self, block: Block, positive: IntArray, item: IntArray, kernels: ModuleType) -> None:
        """Add to the counts, by exact scores, pairs of a positive and an item that is close to it."""
        row = np.repeat(np.arange(block.start.size - 1), np.diff(block.start))
        score = np.empty(item.size)
        kernels.pair_scores(
            block.user, self.item, self.bias, as_readonly(row[positive]), as_readonly(item), score
        )
        positive_score = block.exact[positive]
        block.n_above[:] += np.bincount(positive[score > positive_score], minlength=row.size)
        block.n_tied[:] += np.bincount(positive[score == positive_score], minlength=row.size)

    def _decide_rows(self, block: Block, rows: IntArray, tile: Tile, kernels: ModuleType) -> int:
        """Add the counts of some users by exact scores of all items of the tile.

        Return the number of positives that do not reach their own score, which is 0 unless there is an error.
        """
        end = tile.first + tile.fast_item.shape[0]
        bias = self.bias[tile.first : end]
        columns = self.item[tile.first : end].T.astype(np.float64, order="C")
        width = columns.shape[1]
        n_lost = 0
        step = max(1, ROWS_BYTES // (8 * width))
        for first in range(0, rows.size, step):
            users = rows[first : first + step]
            scores = np.empty((users.size, width))
            kernels.row_scores(block.user[users].astype(np.float64), columns, scores)
            if bias.size:
                scores += bias

            positive, start = _select_ranges(block.start, users)
            excluded_position, excluded_start = _select_ranges(block.excluded_start, users)
            excluded_items = block.excluded_items[excluded_position] - tile.first
            is_in_tile = (excluded_items >= 0) & (excluded_items < width)
            tile_excluded_start = np.append(0, np.cumsum(is_in_tile))[excluded_start]
            above_counts = np.zeros(positive.size, dtype=np.int64)
            reach_counts = np.zeros(positive.size, dtype=np.int64)
            # Arrays are read-only as for stored scores: Numba compiles the kernel for these types anyway.
            kernels.count_score_block(
                as_readonly(scores),
                as_readonly(start),
                block.exact[positive],
                as_readonly(tile_excluded_start),
                as_readonly(excluded_items[is_in_tile]),
                above_counts,
                reach_counts,
            )
            item = block.item[positive] - tile.first
            tied_counts = reach_counts - above_counts - ((item >= 0) & (item < width))
            block.n_above[positive] += above_counts
            block.n_tied[positive] += tied_counts
            n_lost += int((tied_counts < 0).sum())
        return n_lost

    def fast_users(self, users: IntArray) -> AnyArray:
        """Return the users' factors for the fast product, (b, d) or (b, d + 1)."""
        user = self.user[users].astype(self.fast_item.dtype, copy=False)
        has_bias_column = self.fast_item.shape[1] > self.item.shape[1]
        if has_bias_column:
            user = np.column_stack([user, np.ones(user.shape[0], user.dtype)])
        return user

    def exact(self, batch: Batch, kernels: ModuleType) -> FloatArray:
        """Return the score of each positive of the batch, (n_pos,)."""
        return self.scores(batch.users[batch.row], batch.item, kernels)

    def scores(self, user: IntArray, item: IntArray, kernels: ModuleType) -> FloatArray:
        """Return the exact scores of pairs, (n,)."""
        score = np.empty(user.size)
        kernels.pair_scores(self.user, self.item, self.bias, as_readonly(user), as_readonly(item), score)
        return score

    def block(self, batch: Batch, exact: FloatArray) -> Block:
        """Return the batch with its exact scores, the bounds around them, and counts of 0."""
        n_positives = batch.item.size
        lo, hi = self._bounds_of_close_products(exact, self.error_bound(batch.users)[batch.row])
        return Block(
            user=as_readonly_rows(self.user[batch.users]),
            fast_user=self.fast_users(batch.users),
            start=batch.start,
            item=batch.item,
            exact=exact,
            lo=lo,
            hi=hi,
            excluded_start=batch.excluded_start,
            excluded_items=batch.excluded_items,
            pointer=batch.excluded_start[:-1].copy(),
            n_above=np.zeros(n_positives, np.int64),
            n_tied=np.zeros(n_positives, np.int64),
        )

    def _bounds_of_close_products(self, exact: FloatArray, bound: FloatArray) -> tuple[AnyArray, AnyArray]:
        """Return the products (lo, hi) between which the order is undecided, rounded outwards."""
        fast_type = self.fast_item.dtype
        with np.errstate(over="ignore"):
            lo = (exact - bound).astype(fast_type)
            hi = (exact + bound).astype(fast_type)
        has_error = bound > 0
        np.nextafter(lo, fast_type.type(-np.inf), out=lo, where=has_error)
        np.nextafter(hi, fast_type.type(np.inf), out=hi, where=has_error)
        return lo, hi


def _select_ranges(start: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the positions from `start[r]` to `start[r + 1]` of some rows r, and the start of each row."""
    size = start[rows + 1] - start[rows]
    new_start = np.append(0, np.cumsum(size))
    shift = np.repeat(start[rows] - new_start[:-1], size)
    return np.arange(new_start[-1]) + shift, new_start


def _to_floating(factors: AnyArray) -> AnyArray:
    """Return factors in single or double precision, without loss for integers up to 2⁵³."""
    if factors.dtype == np.float16:
        return factors.astype(np.float32)
    if factors.dtype in (np.float32, np.float64):
        return factors
    return factors.astype(np.float64)


def _bound_norms(factors: AnyArray, name: str) -> FloatArray:
    """Return an upper bound of ‖row‖ for each row, exactly 0 only where the row is 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", factors, factors).astype(np.float64)
        if not np.isfinite(squares).all():
            n_invalid = factors.size - int(np.isfinite(factors).sum())
            if n_invalid:
                raise InputError(
                    f"{name}: {n_invalid:,} of {factors.size:,} are NaN or infinite, which leaves scores "
                    "undefined. Use an item bias of -inf for items that should come last."
                )
            squares = np.square(factors, dtype=np.float64).sum(axis=1)

    smallest = 2.0**-1022
    if factors.dtype == np.float32:
        smallest = 2.0**-126
    underflow = factors.shape[1] * smallest
    norms: FloatArray = np.sqrt(squares * 1.001 + underflow)
    zero_squares = np.flatnonzero(squares == 0)  # rows of zeros, and rows whose squares underflow
    is_zero = ~factors[zero_squares].any(axis=1)
    norms[zero_squares[is_zero]] = 0.0
    return norms


def common_step(values: AnyArray) -> float:
    """Return the largest power of two that divides all values; 0 from 2²⁴ steps on, inf for zeros."""
    values = values.ravel()
    step = np.inf
    for first in range(
        0, values.size, STEP_PART
    ):  # most factors have no common step in the first part already
        part = np.abs(values[first : first + STEP_PART].astype(np.float64))
        part = part[part > 0]
        if not part.size:
            continue
        fraction, exponent = np.frexp(part)
        mantissa = np.ldexp(fraction, 53).astype(np.int64)
        lowest_bit = mantissa & -mantissa
        step = min(step, float(np.ldexp(lowest_bit.astype(np.float64), exponent - 53).min()))
        if part.max() >= 2**24 * step:
            return 0.0
    return step
