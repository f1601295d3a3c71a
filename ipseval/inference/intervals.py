"""Intervals from a standard error, and from a bootstrap over users that recomputes the estimate."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from ipseval.errors import InputError
from ipseval.estimators import Estimate, UserSums
from ipseval.metrics import Metric
from ipseval.utils.checks import (
    as_generator,
    check_choice,
    check_fraction,
    check_positive_int,
)
from ipseval.utils.compute import available_cores, one_blas_thread, open_executor
from ipseval.utils.ids import unique_keys
from ipseval.utils.notes import Note, join_notes
from ipseval.utils.types import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    IntervalMethod,
    RngLike,
    as_readonly,
)

Key = tuple[str, str, str]  # (recommender, metric, estimator)
Number = TypeVar("Number", float, FloatArray)
INTERVAL_METHODS = ("normal", "percentile", "bca")

# Entries of one block of counts, 16 MB. The size is a constant, so that results do not depend on the machine.
BLOCK_ENTRIES = 2_097_152
DRAWS_PER_STEP = 2**16  # draws of users that one call of `bincount` counts


def compute_normal_interval(
    value: Number, standard_error: Number, *, confidence_level: float
) -> tuple[Number, Number]:
    """Return value ∓ z SE with z the (1 + confidence_level)/2 quantile of the normal; NaN where SE is NaN."""
    check_fraction("confidence_level", confidence_level)
    half_width = float(ndtri((1 + confidence_level) / 2)) * standard_error
    return value - half_width, value + half_width


def bca_interval(
    value: float, replicates: FloatArray, acceleration: float, *, confidence_level: float
) -> tuple[float, float]:
    """Return the bias-corrected and accelerated interval of an estimate from its bootstrap replicates.

    Its ends are the quantiles Φ(z₀ + (z₀ + z)/(1 − a(z₀ + z))) of the replicates, with z₀ = Φ⁻¹ of the share
    of replicates below `value`, where ties count half. The ends are NaN where all replicates lie on one side
    of `value`. Efron, JASA 82, 1987, 10.1080/01621459.1987.10478410.
    """
    defined_replicates = replicates[~np.isnan(replicates)]
    if defined_replicates.size == 0 or np.isnan(value):
        return float("nan"), float("nan")
    if (defined_replicates == value).all():
        return value, value
    share_below = (np.mean(defined_replicates < value) + np.mean(defined_replicates <= value)) / 2
    if share_below in (0, 1) or not np.isfinite(acceleration):
        return float("nan"), float("nan")
    bias = float(ndtri(share_below))
    tails = np.array([(1 - confidence_level) / 2, (1 + confidence_level) / 2])
    shifted_ends = bias + ndtri(tails)
    levels = ndtr(bias + shifted_ends / (1 - acceleration * shifted_ends))
    return compute_quantiles(defined_replicates, float(levels[0]), float(levels[1]))


def jackknife_acceleration(leave_one_out: FloatArray) -> float:
    """Return a = Σd³/(6 (Σd²)^{3/2}), d = mean − value without the user: a sixth of the skewness."""
    deviation = leave_one_out.mean() - leave_one_out
    square = float(np.sum(deviation**2))
    # A relative threshold, because rounding errors of equal values would look like skewness.
    rounding_square = (1e-14 * np.abs(leave_one_out).max()) ** 2 * leave_one_out.size
    if square <= rounding_square:
        return 0.0
    return float(np.sum(deviation**3) / (6 * square**1.5))


def compute_quantiles(replicates: FloatArray, low: float, high: float) -> tuple[float, float]:
    """Return two quantiles of the replicates that are defined; NaN without any."""
    defined_replicates = replicates[~np.isnan(replicates)]
    if not defined_replicates.size:
        return float("nan"), float("nan")
    low_value, high_value = np.quantile(defined_replicates, [low, high]).tolist()
    return low_value, high_value


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Replicates of estimates under resampling of users."""

    keys: tuple[Key, ...]  # of the columns
    values: FloatArray  # (n_estimates,)
    replicates: FloatArray  # (n_resamples, n_estimates), NaN where an estimate is undefined in a resample
    acceleration: FloatArray  # (n_estimates,), for BCa; NaN where the propensity was refitted

    @cached_property
    def _column(self) -> dict[Key, int]:
        return {key: column for column, key in enumerate(self.keys)}

    def interval(
        self, key: Key, *, confidence_level: float = 0.95, method: IntervalMethod = "bca"
    ) -> tuple[float, float]:
        """Return the interval of one estimate: quantiles, BCa, or value ∓ z times the standard deviation."""
        check_fraction("confidence_level", confidence_level)
        check_choice("method", method, INTERVAL_METHODS)
        column = self._column[key]
        replicates = self.replicates[:, column]
        value = float(self.values[column])
        if method == "normal":
            return compute_normal_interval(value, self.standard_error(key), confidence_level=confidence_level)
        if method == "percentile":
            return compute_quantiles(replicates, (1 - confidence_level) / 2, (1 + confidence_level) / 2)
        acceleration = float(self.acceleration[column])
        # The acceleration of refits would need one fit for each user, so it is not computed.
        if np.isnan(acceleration) and not np.isnan(value):
            raise InputError("bca intervals are not available with refit=; use 'percentile' or 'normal'.")
        return bca_interval(value, replicates, acceleration, confidence_level=confidence_level)

    def standard_error(self, key: Key) -> float:
        """Return the standard deviation of the defined replicates; NaN with fewer than two."""
        replicates = self.replicates[:, self._column[key]]
        defined_replicates = replicates[~np.isnan(replicates)]
        if defined_replicates.size < 2:
            return float("nan")
        return float(np.std(defined_replicates, ddof=1))

    def n_undefined(self, key: Key) -> int:
        """Return the number of resamples in which the estimate is undefined."""
        return int(np.isnan(self.replicates[:, self._column[key]]).sum())


def bootstrap(
    sums: Mapping[Key, UserSums], *, n_resamples: int = 10_000, rng: RngLike = None, n_threads: int = 2
) -> Bootstrap:
    """Return replicates of R = (ΣN/ΣD)(ΣV/ΣM) over resampled users, for many estimates at once.

    All estimates share each resample, so that their differences are paired. Replicates depend on `rng` and
    the users, not on `n_threads`.
    """
    check_positive_int("n_resamples", n_resamples)
    # Users that change an estimate only through the fitted weights are resampled too.
    unit_ids = []
    for user_sums in sums.values():
        unit_ids.append(user_sums.effects()[0])

    users = unique_keys(np.concatenate(unit_ids))
    stacked_sums = _StackedSums.from_user_sums(sums, users)
    seed = as_generator(rng).integers(2**63, size=2).tolist()

    def compute_totals(block: tuple[int, int]) -> FloatArray:
        """Return the totals of a block of resamples: one matrix product of user counts and sums."""
        number, size = block
        return draw_counts(users.size, size, seed, number) @ stacked_sums.matrix

    # One BLAS thread in each worker gives the same order of summation on every machine.
    n_threads = min(n_threads, available_cores())
    if n_threads == 1:
        n_threads = 0  # the calling thread is the only one
    with one_blas_thread(), open_executor(n_threads) as pool:
        block_totals = pool.map(compute_totals, blocks(n_resamples, users.size))
        replicates = [stacked_sums.compute_estimates(totals) for totals in block_totals]
    values = [user_sums.value() for user_sums in sums.values()]
    accelerations = []
    for user_sums in sums.values():
        accelerations.append(jackknife_acceleration(leave_one_out(user_sums)))

    return Bootstrap(
        keys=tuple(sums),
        values=as_readonly(np.array(values)),
        replicates=as_readonly(np.concatenate(replicates)),
        acceleration=as_readonly(np.array(accelerations)),
    )


def leave_one_out(sums: UserSums) -> FloatArray:
    """Return the estimate without each user in turn, (n,): exact, but to first order in fitted weights."""
    n_users = sums.n_users
    if n_users < 2:
        return np.full(n_users, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = _sum_without_each(sums.numerator) / _sum_without_each(sums.denominator)
        if sums.root:
            ratio = np.sqrt(ratio)
        if sums.volume is not None:
            size = np.ones(n_users) if sums.size is None else sums.size
            ratio = ratio * _sum_without_each(sums.volume) / _sum_without_each(size)
    if sums.propensity_influence is not None:
        ratio = ratio - sums.propensity_influence[sums.users]
    return np.asarray(ratio)


def _sum_without_each(values: FloatArray) -> FloatArray:
    """Return the sum of all values except one, for each value in turn."""
    return np.asarray(values.sum() - values)


def draw_counts(n_users: int, n_resamples: int, seed: list[int], block: int) -> FloatArray:
    """Return how many times each user occurs in each resample of a block, (n_resamples, n_users)."""
    # Each block has a random stream, so that the draws do not depend on the order of the threads.
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,)))
    counts = np.empty((n_resamples, n_users))
    step = max(1, DRAWS_PER_STEP // n_users)
    for start in range(0, n_resamples, step):
        rows = counts[start : start + step]
        # Uniform draws and a count are an order of magnitude faster than a multinomial over all users.
        drawn_users = generator.integers(n_users, size=rows.shape, dtype=np.uint32)
        cells = drawn_users + np.arange(0, rows.size, n_users)[:, None]
        rows[:] = np.bincount(cells.ravel(), minlength=rows.size).reshape(rows.shape)
    return counts


def blocks(n_resamples: int, n_users: int) -> Iterator[tuple[int, int]]:
    """Yield the number and the resamples of each block, whose counts fit in `BLOCK_ENTRIES`."""
    size = int(np.clip(BLOCK_ENTRIES // n_users, 16, 256))
    for number, start in enumerate(range(0, n_resamples, size)):
        yield number, min(size, n_resamples - start)


@dataclass(frozen=True, eq=False)
class _StackedSums:
    """The distinct per-user sums of all estimates in one matrix, and the columns of each estimate."""

    matrix: FloatArray  # (n_users, n_columns)
    columns: IntArray  # (5, n_estimates): columns of N, D, V, M and of the influence of fitted weights
    is_root: BoolArray

    @classmethod
    def from_user_sums(cls, sums: Mapping[Key, UserSums], users: IntArray) -> _StackedSums:
        """Stack the sums of all estimates; `users` are the rows of the matrix."""
        matrix = _DistinctColumns(users.size)
        all_rows = np.arange(users.size)
        columns = []
        for user_sums in sums.values():
            rows = np.searchsorted(users, user_sums.users)
            size = np.ones(rows.size) if user_sums.size is None else user_sums.size
            volume = size if user_sums.volume is None else user_sums.volume
            influence: AnyArray = np.zeros(users.size)
            if user_sums.propensity_influence is not None:
                influence = user_sums.propensity_influence[users]
            columns.append(
                [
                    matrix.add(rows, user_sums.numerator),
                    matrix.add(rows, user_sums.denominator),
                    matrix.add(rows, volume),
                    matrix.add(rows, size),
                    matrix.add(all_rows, influence),
                ]
            )
        is_root = np.array([user_sums.root for user_sums in sums.values()])
        return cls(np.column_stack(matrix.columns), np.array(columns).T, is_root)

    def compute_estimates(self, totals: FloatArray) -> FloatArray:
        """Return the estimates of each resample from its totals, (n_resamples, n_estimates)."""
        numerator, denominator, volume, size, influence = (totals[:, columns] for columns in self.columns)
        influence_columns = self.columns[4]
        with np.errstate(invalid="ignore", divide="ignore"):
            values = numerator / denominator
            values[:, self.is_root] = np.sqrt(values[:, self.is_root])
            values *= volume / size
        values += influence - self.matrix.sum(axis=0)[influence_columns]
        return np.where(denominator == 0, np.nan, values)


@dataclass(eq=False)
class _DistinctColumns:
    """Columns of per-user values, in which equal columns are stored, and later multiplied, once.

    Denominators are shared by all metrics and recommenders.
    """

    n_rows: int
    columns: list[FloatArray] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def add(self, rows: IntArray, values: FloatArray) -> int:
        """Add a column that is zero outside `rows`, and return its number."""
        column = np.zeros(self.n_rows)
        column[rows] = values
        digest = hashlib.blake2b(column.tobytes(), digest_size=16).digest()
        if digest not in self._numbers:
            self._numbers[digest] = len(self.columns)
            self.columns.append(column)
        return self._numbers[digest]


def constrain_to_unit_interval(value: float, low: float, high: float) -> tuple[float, float]:
    """Return the interval of a value in [0, 1] with ends in [0, 1].

    Where value ∓ h leaves [0, 1], the ends are logit⁻¹(logit(value) ∓ h/(value (1 − value))).
    """
    if not 0 < value < 1 or (low >= 0 and high <= 1):
        return low, high
    half_width = (high - low) / 2 / (value * (1 - value))
    return float(expit(logit(value) - half_width)), float(expit(logit(value) + half_width))


@dataclass(frozen=True)
class Interval:
    """Standard error and confidence interval of an estimate, with notes on how they were computed."""

    std_error: float
    low: float
    high: float
    notes: tuple[Note, ...] = ()

    @property
    def note(self) -> str:
        """The notes as text; "" without any."""
        return join_notes(*self.notes)


UNDEFINED = Interval(float("nan"), float("nan"), float("nan"))


def compute_normal_intervals(
    estimates: Mapping[Key, Estimate], *, confidence_level: float, metrics: Sequence[Metric] = ()
) -> dict[Key, Interval]:
    """Return value ∓ z SE of every estimate, with SE from the influence of each user.

    Where that leaves the [0, 1] of a metric, the interval is computed on the logit scale. It is not for
    estimators whose values may themselves leave that range (ips and dr).
    """
    intervals = {}
    unit_metrics = set()
    for metric in metrics:
        if metric.value_range == (0.0, 1.0):
            unit_metrics.add(metric.label)

    for key, result in estimates.items():
        _, metric_label, _ = key
        low, high = compute_normal_interval(
            result.value, result.standard_error, confidence_level=confidence_level
        )
        if metric_label in unit_metrics and not result.can_exceed_range:
            low, high = constrain_to_unit_interval(result.value, low, high)
        intervals[key] = Interval(result.standard_error, low, high)
    return intervals
