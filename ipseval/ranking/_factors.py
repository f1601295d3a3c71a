"""Exact ranks from factor matrices: a fast product first, exact scores where two are close.

The score of a pair is s = Σ_k u_k v_k (+ bias), added in order in double precision: a definition that does
not depend on the machine, its BLAS, the block size or the number of threads, and in which equal items tie
exactly. (In a BLAS product they may not: the last bit of an entry can vary with its place in the matrix.)

A BLAS product in single precision gives x with |x - s| <= ε, by the standard bound for inner products,
γ_d ‖u‖ ‖v‖ with γ_d = d·2⁻²⁴/(1 - d·2⁻²⁴), valid for every order of summation. Hence x > s_positive + ε is
above and x < s_positive - ε below, whatever the rounding; the few items in between are settled by s itself.
Where they are many, s is made for all items of the tile: the same sums in the same order, a row at once.

Where factors are whole multiples of a power of two, as counts and flags are, so are all products and sums.
Below 2²⁴ times that step single precision holds them without rounding: then x is s, and ε is 0.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1. 10.1137/1.9780898718027
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from ipseval.errors import InputError
from ipseval.ranking.kernels.blocks import Batch, Block, Tile, frozen
from ipseval.utils.types import AnyArray, FloatArray, IntArray, readonly

SINGLE_LIMIT = 1e37  # bound on |score| up to which single precision cannot overflow on the way
DOUBLE_LIMIT = 1e300
STEP_PART = 2**14  # factors that are looked at together for a common step
ROWS_BYTES = 2**19  # exact scores of a few users with a tile, which stay in the second-level cache


@dataclass(frozen=True, eq=False)
class Factors:
    """Factor matrices, checked and laid out for the passes over them."""

    # `user`, `item`, `bias` define the score; `fast_item` (n_items, d or d + 1) is what the product reads: in
    # single precision where the range allows, with the bias as a last column. Norms are upper bounds.

    user: AnyArray
    item: AnyArray
    bias: FloatArray
    fast_item: AnyArray
    user_norm: FloatArray
    item_norms: FloatArray
    bias_size: float
    bias_is_exact: bool

    @classmethod
    def of(cls, user: AnyArray, item: AnyArray, bias: AnyArray | None, name: str) -> Factors:
        """Return factors ready for ranking."""
        user, item = _floating(user), _floating(item)
        if user.dtype != item.dtype:
            user, item = user.astype(np.float64), item.astype(np.float64)
        user, item = frozen(user), frozen(item)
        user_norm, item_norm = _norms(user, f"{name}: user factors"), _norms(item, f"{name}: item factors")
        bias = np.zeros(0) if bias is None else np.asarray(bias, dtype=np.float64)
        if np.isnan(bias).any():
            raise InputError(f"{name}: {int(np.isnan(bias).sum()):,} of {bias.size:,} item biases are NaN.")
        finite_bias = bias[np.isfinite(bias)]
        bias_size = float(np.abs(finite_bias).max(initial=0.0))
        norms = [float(norm.max(initial=0.0)) for norm in (user_norm, item_norm)]
        largest = max(norms[0] * norms[1] + bias_size, *norms)
        if not largest < DOUBLE_LIMIT:
            raise InputError(f"{name}: the factors are too large to multiply (scores up to {largest:.1e}).")
        fast = np.dtype(np.float32 if largest < SINGLE_LIMIT else np.float64)
        fast_item = item.astype(fast, copy=False)
        if bias.size:
            finite = np.where(np.isfinite(bias), bias, 0)  # a product with inf may leave NaN beside it
            fast_item = np.column_stack([fast_item, finite.astype(fast)])
        return cls(
            user,
            item,
            readonly(bias),
            readonly(fast_item),
            user_norm,
            item_norm,
            bias_size,
            bool((finite_bias.astype(fast) == finite_bias).all()),
        )

    @cached_property
    def item_norm(self) -> float:
        """An upper bound of the norm of every item."""
        return float(self.item_norms.max(initial=0.0))

    @cached_property
    def step(self) -> float:
        """A power of two of which all scores are whole multiples; 0: none that is worth knowing."""
        finite = self.bias[np.isfinite(self.bias)]
        product = common_step(self.user) * common_step(self.item)
        step = min(product, common_step(finite)) if finite.any() else product
        return step if 2.0**-100 < step < np.inf else 0.0  # no product of factors underflows

    @cached_property
    def infinite(self) -> IntArray:
        """Items whose bias, and so whose score, is infinite."""
        return np.flatnonzero(np.isinf(self.bias))

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.item.shape[0])

    def subset(self, items: IntArray) -> Factors:
        """Return the factors of some items only."""
        return replace(
            self,
            item=frozen(self.item[items]),
            bias=readonly(self.bias[items]) if self.bias.size else self.bias,
            fast_item=frozen(self.fast_item[items]),
            item_norms=self.item_norms[items],
        )

    def error_bound(self, users: IntArray) -> FloatArray:
        """Return ε of each user, (b,): how far a product can be from the score."""
        norm = self.user_norm[users]
        single = self.fast_item.dtype == np.float32
        unit, smallest = (2.0**-24, 2.0**-126) if single else (2.0**-53, 2.0**-1022)
        n_terms = self.fast_item.shape[1] + 4  # roundings: conversion of both factors, products, additions
        relative = n_terms * unit / (1 - n_terms * unit)
        if not single:
            relative *= 2  # the exact score has the same rounding errors as the product
        underflow = smallest * n_terms * (2 + norm + self.item_norm)
        bound = 1.001 * relative * (norm * self.item_norm + self.bias_size) + underflow
        exact = (norm * self.item_norm == 0) & self.bias_is_exact
        exact |= norm * self.item_norm + self.bias_size < self.step / unit
        return np.where(exact, 0.0, bound)

    def count(self, worker: Any, block: Block, width: int, kernels: ModuleType) -> Iterator[None]:
        """Add the counts of a block that the worker has begun, a tile of items at each step."""
        n_lost = 0
        for first in range(0, self.n_items, width):
            inside = self.infinite[(self.infinite >= first) & (self.infinite < first + width)]
            tile = Tile(first, self.fast_item[first : first + width], inside - first, self.bias[inside])
            found = worker.count(tile)
            n_lost += found.n_lost
            if found.positive.size:
                self._settle_pairs(block, found.positive, found.item, kernels)
            if found.rows.size:
                n_lost += self._settle_rows(block, found.rows, tile, kernels)
            yield
        assert n_lost == 0, f"{n_lost} products are farther from the exact score than the bound allows"

    def _settle_pairs(self, block: Block, positive: IntArray, item: IntArray, kernels: ModuleType) -> None:
        """Add to the counts what exact scores say of items, each close to its positive."""
        row = np.repeat(np.arange(block.start.size - 1), np.diff(block.start))
        score, own = np.empty(item.size), block.exact[positive]
        kernels.pair_scores(block.user, self.item, self.bias, *map(readonly, (row[positive], item)), score)
        block.n_above[:] += np.bincount(positive[score > own], minlength=row.size)
        block.n_tied[:] += np.bincount(positive[score == own], minlength=row.size)

    def _settle_rows(self, block: Block, rows: IntArray, tile: Tile, kernels: ModuleType) -> int:
        """Add the counts of some users by exact scores; return how many positives miss their own (none)."""
        end = tile.first + tile.fast_item.shape[0]
        bias, columns = (
            self.bias[tile.first : end],
            self.item[tile.first : end].T.astype(np.float64, order="C"),
        )
        n_lost, step = 0, max(1, ROWS_BYTES // (8 * columns.shape[1]))
        for begin in range(0, rows.size, step):
            some = rows[begin : begin + step]
            scores = np.empty((some.size, columns.shape[1]))
            kernels.row_scores(block.user[some].astype(np.float64), columns, scores)
            scores += bias if bias.size else 0.0
            positive, start = _of_rows(block.start, some)
            place, excluded_start = _of_rows(block.excluded_start, some)
            excluded = block.excluded[place] - tile.first
            here = (excluded >= 0) & (excluded < columns.shape[1])
            hidden = np.append(0, np.cumsum(here))[excluded_start], excluded[here]
            above, reach = np.zeros((2, positive.size), dtype=np.int64)
            # Read-only, as where scores are stored: Numba compiles for these types anyway.
            block_of = *map(readonly, (scores, start)), block.exact[positive], *map(readonly, hidden)
            kernels.count_stored(*block_of, above, reach)
            item = block.item[positive] - tile.first
            tied = reach - above - ((item >= 0) & (item < columns.shape[1]))
            block.n_above[positive] += above
            block.n_tied[positive] += tied
            n_lost += int((tied < 0).sum())
        return n_lost

    def fast_users(self, users: IntArray) -> AnyArray:
        """Return the factors of users that the product reads, (b, d) or (b, d + 1)."""
        user = self.user[users].astype(self.fast_item.dtype, copy=False)
        if self.fast_item.shape[1] > self.item.shape[1]:  # the bias, of no items perhaps
            user = np.column_stack([user, np.ones(user.shape[0], user.dtype)])
        return user

    def exact(self, batch: Batch, kernels: ModuleType) -> FloatArray:
        """Return the score of each positive of the batch, (n_pos,)."""
        return self.scores(batch.users[batch.row], batch.item, kernels)

    def scores(self, user: IntArray, item: IntArray, kernels: ModuleType) -> FloatArray:
        """Return the exact scores of pairs, (n,)."""
        score = np.empty(user.size)
        kernels.pair_scores(self.user, self.item, self.bias, readonly(user), readonly(item), score)
        return score

    def block(self, batch: Batch, exact: FloatArray) -> Block:
        """Return the batch with its exact scores, the bounds around them, and counts of 0."""
        user, size = frozen(self.user[batch.users]), batch.item.size
        lo, hi = self._window(exact, self.error_bound(batch.users)[batch.row])
        return Block(
            user=user,
            fast_user=self.fast_users(batch.users),
            start=batch.start,
            item=batch.item,
            exact=exact,
            lo=lo,
            hi=hi,
            excluded_start=batch.excluded_start,
            excluded=batch.excluded,
            pointer=batch.excluded_start[:-1].copy(),
            n_above=np.zeros(size, np.int64),
            n_tied=np.zeros(size, np.int64),
        )

    def _window(self, exact: FloatArray, bound: FloatArray) -> tuple[AnyArray, AnyArray]:
        """Return the scores between which a product is too close to call, rounded outwards."""
        fast = self.fast_item.dtype
        with np.errstate(over="ignore"):
            lo, hi = (exact - bound).astype(fast), (exact + bound).astype(fast)
        loose = bound > 0
        np.nextafter(lo, fast.type(-np.inf), out=lo, where=loose)
        np.nextafter(hi, fast.type(np.inf), out=hi, where=loose)
        return lo, hi


def _of_rows(start: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the places from `start[r]` to `start[r + 1]` of some rows r, and where each row's begin."""
    size = start[rows + 1] - start[rows]
    begins = np.append(0, np.cumsum(size))
    return np.arange(begins[-1]) + np.repeat(start[rows] - begins[:-1], size), begins


def _floating(factors: AnyArray) -> AnyArray:
    """Return factors in single or double precision, without loss up to integers of 2⁵³."""
    if factors.dtype == np.float16:
        return factors.astype(np.float32)
    if factors.dtype in (np.float32, np.float64):
        return factors
    return factors.astype(np.float64)


def _norms(factors: AnyArray, name: str) -> FloatArray:
    """Return an upper bound of ‖row‖ for each row, exactly 0 only where the row is 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", factors, factors).astype(np.float64)
        if not np.isfinite(squares).all():
            n_bad = factors.size - int(np.isfinite(factors).sum())
            if n_bad:
                raise InputError(
                    f"{name}: {n_bad:,} of {factors.size:,} are NaN or infinite, which leaves scores "
                    "undefined. Use an item bias of -inf for items that should come last."
                )
            squares = np.square(factors, dtype=np.float64).sum(axis=1)
    underflow = factors.shape[1] * 2.0 ** (-126 if factors.dtype == np.float32 else -1022)
    norms: FloatArray = np.sqrt(squares * 1.001 + underflow)
    nothing = np.flatnonzero(squares == 0)
    norms[nothing[~factors[nothing].any(axis=1)]] = 0.0
    return norms


def common_step(values: AnyArray) -> float:
    """Return the largest power of two that divides all values; 0 from 2²⁴ steps on, inf for zeros."""
    values, step = values.ravel(), np.inf
    for first in range(0, values.size, STEP_PART):  # most factors show in the first part that they have none
        part = np.abs(values[first : first + STEP_PART].astype(np.float64))
        part = part[part > 0]
        if not part.size:
            continue
        digits, exponent = np.frexp(part)
        whole = np.ldexp(digits, 53).astype(np.int64)
        step = min(step, float(np.ldexp((whole & -whole).astype(np.float64), exponent - 53).min()))
        if part.max() >= 2**24 * step:
            return 0.0
    return step
