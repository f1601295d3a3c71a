"""Intervals: from a standard error, and from the replicates of a bootstrap."""

from __future__ import annotations

from typing import overload

import numpy as np
from scipy.special import ndtr, ndtri

from ipseval._base.checks import as_float_vector, check_fraction, refuse_masked
from ipseval._base.types import FloatArray
from ipseval.errors import InputError


@overload
def normal_interval(
    value: float, standard_error: float, *, confidence_level: float
) -> tuple[float, float]: ...
@overload
def normal_interval(
    value: FloatArray, standard_error: FloatArray, *, confidence_level: float
) -> tuple[FloatArray, FloatArray]: ...
def normal_interval(
    value: float | FloatArray, standard_error: float | FloatArray, *, confidence_level: float
) -> tuple[float | FloatArray, float | FloatArray]:
    """Return value ∓ z SE with z the (1 + confidence_level)/2 quantile of the normal; NaN where SE is NaN."""
    check_fraction("confidence_level", confidence_level)
    for name, one in (("value", value), ("standard_error", standard_error)):
        refuse_masked(one, name)
        if np.asarray(one).dtype.kind not in "iuf":
            raise InputError(f"{name} must be a number or an array of numbers; got {one!r:.80}.")
    if np.any(np.asarray(standard_error) < 0):
        raise InputError("standard_error must be >= 0, or NaN where it is not known.")
    reach = float(ndtri((1 + confidence_level) / 2)) * standard_error
    return value - reach, value + reach


def percentile_interval(replicates: FloatArray, *, confidence_level: float) -> tuple[float, float]:
    """Return the central quantiles of bootstrap replicates; NaN replicates (undefined) are left out."""
    check_fraction("confidence_level", confidence_level)
    tail = (1 - confidence_level) / 2
    return _quantiles(as_float_vector("replicates", replicates), tail, 1 - tail)


def bca_interval(
    value: float, replicates: FloatArray, acceleration: float, *, confidence_level: float
) -> tuple[float, float]:
    """Return the bias-corrected and accelerated interval of an estimate from its bootstrap replicates."""
    # Levels are Φ(z₀ + (z₀ + z)/(1 − a(z₀ + z))), z₀ = Φ⁻¹ of the share of replicates below `value`, ties
    # half. NaN where all lie on one side of it. Efron, JASA 82, 1987, 10.1080/01621459.1987.10478410.
    check_fraction("confidence_level", confidence_level)
    replicates = as_float_vector("replicates", replicates)
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
    return _quantiles(defined, float(levels[0]), float(levels[1]))


def jackknife_acceleration(leave_one_out: FloatArray) -> float:
    """Return a = Σd³/(6 (Σd²)^{3/2}), d = mean − value without the user: a sixth of the skewness."""
    deviation = leave_one_out.mean() - leave_one_out
    square = float(np.sum(deviation**2))
    # A relative threshold: rounding in equal values must not be taken for skewness.
    if square <= (1e-14 * np.abs(leave_one_out).max()) ** 2 * leave_one_out.size:
        return 0.0
    return float(np.sum(deviation**3) / (6 * square**1.5))


def _quantiles(replicates: FloatArray, low: float, high: float) -> tuple[float, float]:
    defined = replicates[~np.isnan(replicates)]
    if defined.size == 0:
        return float("nan"), float("nan")
    bounds = np.quantile(defined, [low, high])
    return float(bounds[0]), float(bounds[1])
