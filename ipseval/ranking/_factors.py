"""Exact ranks from factor matrices: a fast product first, exact scores where two are close.

The score of a pair is s = Σ_k u_k v_k (+ bias), added in order in double precision: a definition that does
not depend on the machine, its BLAS, the block size or the number of threads, and in which equal items tie
exactly. (In a BLAS product they may not: the last bit of an entry can vary with its place in the matrix.)

A BLAS product in single precision gives x with |x - s| <= ε, by the standard bound for inner products,
γ_d ‖u‖ ‖v‖ with γ_d = d·2⁻²⁴/(1 - d·2⁻²⁴), valid for every order of summation. Hence x > s_positive + ε is
above and x < s_positive - ε below, whatever the rounding; the few items in between are settled by s itself.

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

from ipseval._base.types import AnyArray, FloatArray, IntArray, readonly
from ipseval.errors import InputError
from ipseval.ranking.kernels.blocks import Batch, Block, Catalogue, Shape, Tile, frozen

SINGLE_LIMIT = 1e37  # bound on |score| up to which single precision cannot overflow on the way
DOUBLE_LIMIT = 1e300
STEP_PART = 2**14  # factors that are looked at together for a common step
NO_TWINS = readonly(np.zeros(0, dtype=np.int64))


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
    def twin(self) -> IntArray:
        """Number of the class of items with equal factors and bias, -1: alone; made where many are close."""
        number = twins(self.item, self.bias)
        shared = np.bincount(number) > 1
        return readonly(np.where(shared[number], np.cumsum(shared)[number] - 1, -1))

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

    def error_bound(self, users: IntArray, dtype: np.dtype | None = None) -> FloatArray:
        """Return ε of each user, (b,): how far a product in precision `dtype` can be from the score."""
        norm = self.user_norm[users]
        single = (self.fast_item.dtype if dtype is None else dtype) == np.float32
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

    def shape(self, n_users: int, width: int) -> Shape:
        """Return the shape of blocks of `n_users` users and tiles of `width` items."""
        return Shape(n_users, width, self.fast_item.shape[1], self.fast_item.dtype)

    def count(self, worker: Any, width: int) -> Iterator[None]:
        """Count for the positives of the worker's block, a tile of items at each step."""
        n_lost, n_close = 0, 0
        for first in range(0, self.n_items, width):
            items = self.fast_item[first : first + width]
            inside = self.infinite[(self.infinite >= first) & (self.infinite < first + width)]
            twin = self.twin if 8 * n_close > self.n_items or "twin" in self.__dict__ else NO_TWINS
            here = twin[first : first + width]
            n_twins = np.bincount(here[here >= 0], minlength=int(twin.max(initial=-1)) + 1)
            tile = Tile(first, items, inside - first, self.bias[inside], n_twins)
            lost, close = worker.count(Catalogue(self.item, self.bias, twin), tile)
            n_lost, n_close = n_lost + lost, n_close + close
            yield
        assert n_lost == 0, f"{n_lost} products are farther from the exact score than the bound allows"

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
        fast_user = user.astype(self.fast_item.dtype, copy=False)
        if self.fast_item.shape[1] > self.item.shape[1]:  # the bias, of no items perhaps
            fast_user = np.column_stack([fast_user, np.ones(user.shape[0], fast_user.dtype)])
        return Block(
            user=user,
            fast_user=fast_user,
            start=batch.start,
            item=batch.item,
            exact=exact,
            lo=lo,
            hi=hi,
            fine=self.error_bound(batch.users, np.dtype(np.float64)),
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


def twins(item: AnyArray, bias: FloatArray) -> IntArray:
    """Return a number for each item that is shared exactly by the items of equal factors and bias."""
    odd = np.random.default_rng(0).integers(1, 2**63, size=item.shape[1] + 1, dtype=np.uint64) | np.uint64(1)
    word = np.uint32 if item.dtype == np.float32 else np.uint64
    key = np.zeros(item.shape[0], dtype=np.uint64)
    for k in range(item.shape[1]):
        key += (item[:, k] + item.dtype.type(0)).view(word) * odd[k]  # + 0: -0.0 equals 0.0
        key ^= key >> np.uint64(29)
    if bias.size:
        key += (bias + 0.0).view(np.uint64) * odd[-1]
    _, first, twin = np.unique(key, return_index=True, return_inverse=True)
    twin = twin.ravel().astype(np.int64)
    other = np.flatnonzero(first[twin] != np.arange(item.shape[0]))
    same = (item[other] == item[first[twin[other]]]).all(axis=1)
    if bias.size:
        same &= bias[other] == bias[first[twin[other]]]
    strangers = other[~same]  # a collision of keys
    twin[strangers] = first.size + np.arange(strangers.size)
    return twin
