"""Normal-theory intervals from an estimate and its standard error."""

from __future__ import annotations

from scipy.special import ndtri

from ipseval._checks import check_fraction


def normal_interval(value: float, standard_error: float, *, confidence_level: float) -> tuple[float, float]:
    """Return value ∓ z SE with z the (1 + confidence_level)/2 quantile of the normal; NaN where SE is NaN.

    Examples
    --------
    >>> low, high = normal_interval(0.5, 0.1, confidence_level=0.95)
    >>> round(low, 3), round(high, 3)
    (0.304, 0.696)
    """
    check_fraction("confidence_level", confidence_level)
    reach = float(ndtri((1 + confidence_level) / 2)) * standard_error
    return value - reach, value + reach
