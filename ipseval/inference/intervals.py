"""Intervals: from a standard error, and from a bootstrap over users that recomputes the ratio."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from scipy.special import ndtr, ndtri

from ipseval.errors import InputError
from ipseval.estimators import UserSums
from ipseval.utils.checks import (
    as_generator,
    check_choice,
    check_fraction,
    check_positive_int,
)
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.ids import distinct
from ipseval.utils.types import BoolArray, FloatArray, IntArray, IntervalMethod, RngLike, readonly

Key = tuple[str, str, str]
Number = TypeVar("Number", float, FloatArray)
INTERVAL_METHODS = ("normal", "percentile", "bca")

# Entries of one block of counts: 16 MB. A function of the data alone, so that results depend on nothing else.
BLOCK_ENTRIES = 2_097_152
TOGETHER = 2**16  # draws of users that are counted at once


def normal_interval(
    value: Number, standard_error: Number, *, confidence_level: float
) -> tuple[Number, Number]:
    """Return value ∓ z SE with z the (1 + confidence_level)/2 quantile of the normal; NaN where SE is NaN."""
    check_fraction("confidence_level", confidence_level)
    reach = float(ndtri((1 + confidence_level) / 2)) * standard_error
    return value - reach, value + reach


def bca_interval(
    value: float, replicates: FloatArray, acceleration: float, *, confidence_level: float
) -> tuple[float, float]:
    """Return the bias-corrected and accelerated interval of an estimate from its bootstrap replicates."""
    # Levels are Φ(z₀ + (z₀ + z)/(1 − a(z₀ + z))), z₀ = Φ⁻¹ of the share of replicates below `value`, ties
    # half. NaN where all lie on one side of it. Efron, JASA 82, 1987, 10.1080/01621459.1987.10478410.
    defined = replicates[~np.isnan(replicates)]
    if defined.size == 0 or np.isnan(value):
        return float("nan"), float("nan")
    if (defined == value).all():
        return value, value
    below = (np.mean(defined < value) + np.mean(defined <= value)) / 2
    if below in (0, 1) or not np.isfinite(acceleration):
        return float("nan"), float("nan")
    bias = float(ndtri(below))
    shifted = bias + ndtri(np.array([(1 - confidence_level) / 2, (1 + confidence_level) / 2]))
    levels = ndtr(bias + shifted / (1 - acceleration * shifted))
    return quantiles(defined, float(levels[0]), float(levels[1]))


def jackknife_acceleration(leave_one_out: FloatArray) -> float:
    """Return a = Σd³/(6 (Σd²)^{3/2}), d = mean − value without the user: a sixth of the skewness."""
    deviation = leave_one_out.mean() - leave_one_out
    square = float(np.sum(deviation**2))
    # A relative threshold: rounding in equal values must not be taken for skewness.
    if square <= (1e-14 * np.abs(leave_one_out).max()) ** 2 * leave_one_out.size:
        return 0.0
    return float(np.sum(deviation**3) / (6 * square**1.5))


def quantiles(replicates: FloatArray, low: float, high: float) -> tuple[float, float]:
    """Return two quantiles of the replicates that are defined."""
    defined = replicates[~np.isnan(replicates)]
    found = np.quantile(defined, [low, high]).tolist() if defined.size else [np.nan, np.nan]
    return found[0], found[1]


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Replicates of estimates under resampling of users."""

    keys: tuple[Key, ...]  # what the columns are
    values: FloatArray  # (n_estimates,)
    replicates: FloatArray  # (n_resamples, n_estimates), NaN where an estimate is undefined in a resample
    acceleration: FloatArray  # (n_estimates,), for BCa; NaN where the propensity was fitted anew

    @cached_property
    def _column(self) -> dict[Key, int]:
        return {key: column for column, key in enumerate(self.keys)}

    def interval(
        self, key: Key, *, confidence_level: float = 0.95, method: IntervalMethod = "bca"
    ) -> tuple[float, float]:
        """Return the interval of one estimate: quantiles, BCa, or value ∓ z times the deviation."""
        # BCa of refits is refused: the acceleration would need as many fits as there are users.
        check_fraction("confidence_level", confidence_level)
        check_choice("method", method, INTERVAL_METHODS)
        column = self._column[key]
        replicates, value = self.replicates[:, column], float(self.values[column])
        if method == "normal":
            return normal_interval(value, self.standard_error(key), confidence_level=confidence_level)
        if method == "percentile":
            return quantiles(replicates, (1 - confidence_level) / 2, (1 + confidence_level) / 2)
        acceleration = float(self.acceleration[column])
        if np.isnan(acceleration) and not np.isnan(value):
            raise InputError("bca intervals are not available with refit=; use 'percentile' or 'normal'.")
        return bca_interval(value, replicates, acceleration, confidence_level=confidence_level)

    def standard_error(self, key: Key) -> float:
        """Return the standard deviation of the defined replicates; NaN with fewer than two."""
        column = self.replicates[:, self._column[key]]
        defined = column[~np.isnan(column)]
        return float(np.std(defined, ddof=1)) if defined.size > 1 else float("nan")

    def n_undefined(self, key: Key) -> int:
        """Return in how many resamples the estimate is undefined."""
        return int(np.isnan(self.replicates[:, self._column[key]]).sum())


def bootstrap(
    sums: Mapping[Key, UserSums], *, n_resamples: int = 10_000, rng: RngLike = None, n_threads: int = 2
) -> Bootstrap:
    """Return replicates of R = (ΣN/ΣD)(ΣV/ΣM) over resampled users, for many estimates at once."""
    # One resample is shared by all estimates, so that differences are paired, and a block of resamples is one
    # matrix product: counts of users times sums. Users that move any estimate are resampled, also those that
    # move it through fitted weights. Replicates depend on `rng` and the users alone, not on `n_threads`.
    check_positive_int("n_resamples", n_resamples)
    users = distinct(np.concatenate([one.effects()[0] for one in sums.values()]))
    stacked = _Stacked.of(sums, users)
    seed = as_generator(rng).integers(2**63, size=2).tolist()

    def totals(block: tuple[int, int]) -> FloatArray:
        number, size = block
        return draw_counts(users.size, size, seed, number) @ stacked.matrix

    # One BLAS thread in each worker: its sums then have one order, whatever the machine.
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        parts = [stacked.ratios(part) for part in pool.map(totals, blocks(n_resamples, users.size))]
    return Bootstrap(
        keys=tuple(sums),
        values=readonly(np.array([one.value() for one in sums.values()])),
        replicates=readonly(np.concatenate(parts)),
        acceleration=readonly(
            np.array([jackknife_acceleration(leave_one_out(one)) for one in sums.values()])
        ),
    )


def leave_one_out(sums: UserSums) -> FloatArray:
    """Return the estimate without each user in turn, (n,): exact, but to first order in fitted weights."""
    n = sums.n_users
    if n < 2:
        return np.full(n, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (sums.numerator.sum() - sums.numerator) / (sums.denominator.sum() - sums.denominator)
        ratio = np.sqrt(ratio) if sums.root else ratio
        if sums.volume is not None:
            size = np.ones(n) if sums.size is None else sums.size
            ratio = ratio * (sums.volume.sum() - sums.volume) / (size.sum() - size)
    return np.asarray(ratio if (moved := sums.propensity_influence) is None else ratio - moved[sums.users])


def draw_counts(n_users: int, n_resamples: int, seed: list[int], block: int) -> FloatArray:
    """Return how often each user occurs in each resample of a block, (n_resamples, n_users)."""
    # A stream for every block: the draws do not depend on which thread comes first.
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,)))
    counts, step = np.empty((n_resamples, n_users)), max(1, TOGETHER // n_users)
    for first in range(0, n_resamples, step):
        rows = counts[first : first + step]
        # Uniform draws and a count are an order of magnitude faster than a multinomial over all users.
        drawn = generator.integers(n_users, size=rows.shape, dtype=np.uint32)
        cell = drawn + np.arange(0, rows.size, n_users)[:, None]
        rows[:] = np.bincount(cell.ravel(), minlength=rows.size).reshape(rows.shape)
    return counts


def blocks(n_resamples: int, n_users: int) -> Iterator[tuple[int, int]]:
    """Yield (number, resamples) of blocks whose counts fit in memory; a function of the data alone."""
    size = int(np.clip(BLOCK_ENTRIES // n_users, 16, 256))
    for number, first in enumerate(range(0, n_resamples, size)):
        yield number, min(size, n_resamples - first)


@dataclass(frozen=True, eq=False)
class _Stacked:
    """The distinct per-user sums of all estimates side by side, and who reads which."""

    matrix: FloatArray  # (n_users, n_columns)
    reads: IntArray  # (5, n_estimates): columns of N, D, V, M and of what fitted weights move
    is_root: BoolArray

    @classmethod
    def of(cls, sums: Mapping[Key, UserSums], users: IntArray) -> _Stacked:
        columns: list[FloatArray] = []
        known: dict[bytes, int] = {}

        def place(rows: IntArray, values: FloatArray) -> int:
            column = np.zeros(users.size)
            column[rows] = values
            # Denominators are shared by all metrics and models: equal columns are multiplied once.
            key = hashlib.blake2b(column.tobytes(), digest_size=16).digest()
            if key not in known:
                known[key] = len(columns)
                columns.append(column)
            return known[key]

        reads = []
        for one in sums.values():
            rows = np.searchsorted(users, one.users)
            size = np.ones(rows.size) if one.size is None else one.size
            volume = size if one.volume is None else one.volume
            influence = one.propensity_influence
            moved = np.zeros(users.size) if influence is None else influence[users]
            own = [place(rows, values) for values in (one.numerator, one.denominator, volume, size)]
            reads.append([*own, place(np.arange(users.size), moved)])
        return cls(np.column_stack(columns), np.array(reads).T, np.array([one.root for one in sums.values()]))

    def ratios(self, totals: FloatArray) -> FloatArray:
        """Return the estimates of each resample from its totals, (n_resamples, n_estimates)."""
        numerator, denominator, volume, size, moved = (totals[:, columns] for columns in self.reads)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = numerator / denominator
            values[:, self.is_root] = np.sqrt(values[:, self.is_root])
            values *= volume / size
        values += moved - self.matrix.sum(axis=0)[self.reads[4]]
        return np.where(denominator == 0, np.nan, values)
