"""Confidence sequences: intervals that hold at every number of users at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ipseval._checks import as_float_vector, check_finite, check_fraction, real_number
from ipseval._types import FloatArray
from ipseval.errors import InputError

# Largest bet: the bound of Waudby-Smith & Ramdas' recommendation (½ or ¾).
MAX_BET = 0.5


def confidence_sequence(
    values: npt.ArrayLike,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    confidence_level: float = 0.95,
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds (n,), (n,) for the mean of bounded values after 1, …, n of them.

    With probability `confidence_level` *all* n intervals hold the mean, for any distribution in the bounds
    and any n: data may be looked at, and collection stopped, at any time. Predictable plug-in empirical
    Bernstein: with x scaled to [0, 1] and μ̂, σ̂² estimated from what came before,
    Σλx/Σλ ± [ln(2/α) + Σ (x_t − μ̂_{t−1})² ψ(λ_t)]/Σλ, ψ(λ) = −ln(1 − λ) − λ and
    λ_t = min(½, √(2 ln(2/α)/(σ̂²_{t−1} t ln(1 + t)))); the running intersection is returned.

    Parameters
    ----------
    values : (n,) array-like
        Independent with one mean, in an order that does not depend on the values: one value per user.
    bounds : (low, high)
        Known before the data were seen; not the smallest and largest value.
    confidence_level : float
        In (0, 1).

    Raises
    ------
    InputError
        For values that are not finite or outside the bounds.

    References
    ----------
    Waudby-Smith & Ramdas, Estimating means of bounded random variables by betting, JRSS B 86, 2024,
    doi 10.1093/jrsssb/qkad009.

    Examples
    --------
    >>> lower, upper = confidence_sequence([0, 1] * 500)
    >>> bool(lower[-1] < 0.5 < upper[-1]), bool((np.diff(lower) >= 0).all())
    (True, True)
    """
    check_fraction("confidence_level", confidence_level)
    low, high = (real_number(one) for one in bounds) if len(bounds) == 2 else (0.0, 0.0)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"bounds must be finite, two numbers, the lower below the upper; got {bounds!r}.")
    x = as_float_vector("values", values)
    check_finite("values", x)
    outside = int(((x < low) | (x > high)).sum())
    if outside:
        raise InputError(
            f"values must be in the bounds [{low:g}, {high:g}]; {outside} of {x.size} are not. "
            "The bounds are what is known beforehand, and no value can break them."
        )
    x = (x - low) / (high - low)
    t = np.arange(1, x.size + 1)
    mean = (0.5 + np.cumsum(x)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (t + 1)
    # What is known before value t: estimates from the first t − 1, started at ½ and ¼.
    mean_before = np.concatenate([[0.5], mean[:-1]])
    variance_before = np.concatenate([[0.25], variance[:-1]])
    log_term = np.log(2 / (1 - confidence_level))
    bet = np.minimum(MAX_BET, np.sqrt(2 * log_term / (variance_before * t * np.log1p(t))))
    total = np.cumsum(bet)
    centre = np.cumsum(bet * x) / total
    reach = (log_term + np.cumsum((x - mean_before) ** 2 * (-np.log1p(-bet) - bet))) / total
    lower = np.maximum.accumulate(np.clip(centre - reach, 0, 1))
    upper = np.minimum.accumulate(np.clip(centre + reach, 0, 1))
    return low + (high - low) * lower, low + (high - low) * upper
