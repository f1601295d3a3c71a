"""Intervals for rates of rare events: weighted sums of Poisson counts, and their difference."""

from __future__ import annotations

import math

from scipy.special import gammaincinv

from ipseval._base.checks import check_fraction
from ipseval._base.types import FloatArray
from ipseval.errors import InputError


def weighted_rate_interval(
    event_weights: FloatArray, possible_weights: FloatArray, *, confidence_level: float = 0.95
) -> tuple[float, float]:
    """Return an interval for E[Σ w_j] of independent rare events with weights w_j: a gamma interval.

    With y = Σw, v = Σw²: the lower limit is the (1−c)/2 quantile of a gamma distribution with mean y and
    variance v; the upper limit is the (1+c)/2 quantile of one to which a further event is added, with the
    mean and mean square of all weights that an event could have had. With equal weights this is the exact
    Poisson interval; without events the lower limit is 0, where a normal interval would have length 0.

    Parameters
    ----------
    event_weights : (n_events,) array
        Weight of each observed event, > 0.
    possible_weights : (n_trials,) array
        Weight that each trial would have given an event, > 0; at least one.

    References
    ----------
    Fay & Feuer, Confidence intervals for directly standardized rates, Statistics in Medicine 16, 1997; the
    further event as in Tiwari, Clegg & Zou, Efficient interval estimation for age-adjusted cancer rates,
    Statistical Methods in Medical Research 15, 2006, doi 10.1177/0962280206070621.

    Examples
    --------
    Three events of weight 1: the exact Poisson interval of 3.

    >>> import numpy as np
    >>> low, high = weighted_rate_interval(np.ones(3), np.ones(100))
    >>> round(low, 3), round(high, 3)
    (0.619, 8.767)
    """
    check_fraction("confidence_level", confidence_level)
    if possible_weights.size == 0 or not (possible_weights > 0).all():
        raise InputError("possible_weights must hold at least one weight, and all must be > 0.")
    total, square = float(event_weights.sum()), float((event_weights**2).sum())
    more, more_square = float(possible_weights.mean()), float((possible_weights**2).mean())
    return count_interval(total, square, more, more_square, confidence_level=confidence_level)


def count_interval(
    total: float, variance: float, more: float, more_square: float, *, confidence_level: float
) -> tuple[float, float]:
    """Return an interval for the mean of a sum of weights of rare events: quantiles of gamma distributions.

    Parameters
    ----------
    total, variance : float >= 0
        The observed sum and its variance: the squares of the weights for Poisson events, less for frequent
        ones.
    more, more_square : float >= 0
        Mean and mean square of the weight of one further event, which the upper limit counts in.

    Examples
    --------
    No event, and each would weigh 1: 0 to 3.69, the exact Poisson interval of 0.

    >>> low, high = count_interval(0.0, 0.0, 1.0, 1.0, confidence_level=0.95)
    >>> low, round(high, 2)
    (0.0, 3.69)
    """
    low = _gamma_quantile(total, variance, (1 - confidence_level) / 2)
    return low, _gamma_quantile(total + more, variance + more_square, (1 + confidence_level) / 2)


def _gamma_quantile(mean: float, variance: float, probability: float) -> float:
    if variance == 0 or mean == 0:
        return mean
    return float(variance / mean * gammaincinv(mean**2 / variance, probability))


def difference_interval(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float]:
    """Return an interval for θ₁ − θ₂ from (estimate, low, high) of each, independent: the MOVER method.

    Low = d − √((θ̂₁ − l₁)² + (u₂ − θ̂₂)²), high = d + √((u₁ − θ̂₁)² + (θ̂₂ − l₂)²), at the level of the two.

    References
    ----------
    Zou & Donner, Construction of confidence limits about effect measures, Statistics in Medicine 27, 2008,
    doi 10.1002/sim.3095.

    Examples
    --------
    >>> difference_interval((5.0, 2.0, 9.0), (3.0, 0.0, 7.0))
    (-3.0, 7.0)
    """
    (one, one_low, one_high), (two, two_low, two_high) = first, second
    gap = one - two
    return (
        gap - math.hypot(one - one_low, two_high - two),
        gap + math.hypot(one_high - one, two - two_low),
    )
