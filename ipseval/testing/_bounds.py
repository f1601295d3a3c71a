"""Bounds of a paired difference that hold with few users, whatever the distribution of their differences."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, stdtrit

from ipseval.estimators import Estimate, UserSums
from ipseval.inference.comparisons import detectable
from ipseval.utils.types import FloatArray

POWER = 0.84  # for 80%: in simulated seasons a stated loss is caught up to three points less often
EDGE = 1e-9  # how near a root is sought to the end of its interval, as a share of it


@dataclass(frozen=True)
class Difference:
    """A paired difference Δ = new − old of two estimates of one metric and estimator.

    Attributes
    ----------
    gap, std_error : float
    n_users : int
    each : (n,) float array or None
        Differences of the users, with mean Δ; None where only their moments were kept.
    largest : float
        The largest difference that a user can have, >= 1: that of the user with the largest denominator, or
        the largest that was seen.
    """

    gap: float
    std_error: float
    n_users: int
    each: FloatArray | None
    largest: float = 1.0

    @classmethod
    def of(cls, new: Estimate, old: Estimate) -> Difference:
        """Return the difference of two estimates."""
        gap = new.value - old.value
        if not isinstance(new.sums, UserSums):
            error, n, rounding = new.sums.paired_error(old.sums)  # type: ignore[arg-type]  # both were merged
            return cls(0.0 if abs(gap) <= rounding else gap, error, n, None)
        error, n, rounding = new.sums.paired_error(old.user_sums)
        gap = 0.0 if abs(gap) <= rounding else gap
        moved = new.sums.paired_effects(old.user_sums)
        each = moved.size * moved + gap
        heaviest = [one.denominator.max() / one.denominator.mean() for one in (new.sums, old.user_sums)]
        return cls(gap, error, n, each, max(1.0, float(np.abs(each).max()), *map(float, heaviest)))

    def bounds(self, level: float) -> tuple[float, float]:
        """Return the lower and the upper bound of Δ, each with error `level`.

        Where no user has a difference both are taken for one recommender: 0 and 0. One that is the same for
        every user has bounds as others have: the users that were not seen may have another.

        They are Gaffke's: quantiles of Σ w_u d_u/Σ w_u with w_u ~ Exp(1), where one user with the largest
        difference is added to those that were seen. No assumption is made but that there is a largest
        difference; that they hold with every n is a conjecture that nobody has refuted. Gaffke, Mathematical
        Methods of Statistics 14, 2005; Learned-Miller & Thomas, arXiv 1905.06208.
        """
        if self.std_error == self.gap == 0:
            return 0.0, 0.0
        each = self.each if self.std_error else np.full(self.n_users, self.gap)
        if each is None:
            reach = float(stdtrit(self.n_users - 1, 1 - level)) * self.std_error
            return self.gap - reach, self.gap + reach
        return -_above(-each, self.largest, level), _above(each, self.largest, level)

    def smallest_visible(self, level: float, margin: float) -> float:
        """Return the loss whose upper bound lies below −margin with 80% power; NaN without an error.

        It is the loss at which the bound is −margin, and z_{.84} standard errors, corrected for Student's t
        as in `inference.compare`. The error of the loss itself belongs to these. It is that of the standard
        error: √((κ − 1)/4n) of it, with κ the kurtosis of the differences.
        """
        n, error = self.n_users, self.std_error
        if not error:
            return float("nan")
        found, _ = detectable(error * math.sqrt(n), n, 0.0, level=2 * level, power=POWER)
        rest = found - float(stdtrit(n - 1, 1 - level)) * error
        if self.each is None:
            return margin + self.bounds(level)[1] - self.gap + rest
        centred = self.each - self.gap
        # Losses are moved, and not differences scaled: what a user can gain at most stays what it is.
        most = self.largest
        while _chance(centred - most, self.largest, -margin) > level:
            most *= 2
        loss = float(
            brentq(lambda one: _chance(centred - one, self.largest, -margin) - level, -most, most, xtol=1e-7)
        )
        spread = (float((centred**4).mean() / (centred**2).mean() ** 2) - 1) / (4 * n)
        return loss + rest * math.sqrt(1 + spread * ((loss - margin + rest) / error) ** 2)


def _above(each: FloatArray, largest: float, level: float) -> float:
    """Return the upper bound of a mean of values up to `largest`."""
    least = float(each.min())
    if least >= largest:
        return largest
    return float(brentq(lambda c: _chance(each, largest, c) - level, least, largest, xtol=1e-7))


def _chance(each: FloatArray, largest: float, bound: float) -> float:
    """Return P(Σ E_u (d_u − bound) > 0) with E_u ~ Exp(1) and the largest among the d_u, by a saddle point.

    Lugannani & Rice, Advances in Applied Probability 12, 1980, 10.2307/1426607. Its error is a few hundredths
    of the probability at most.
    """
    away = np.append(each, largest) - bound
    low, high = float(away.min()), float(away.max())
    if low >= 0 or high <= 0:
        return 1.0 if low >= 0 else 0.0
    tilt = float(
        brentq(
            lambda s: float((away / (1 - s * away)).sum()), (1 - EDGE) / low, (1 - EDGE) / high, xtol=1e-12
        )
    )
    shrunk = 1 - tilt * away
    size = math.copysign(math.sqrt(max(2 * float(np.log(shrunk).sum()), 0.0)), tilt)
    if abs(size) < 1e-4:
        squares = float((away**2).sum())
        skewed = float((away**3).sum()) / (squares * math.sqrt(squares))
        return 0.5 - skewed / (3 * math.sqrt(2 * math.pi))  # its limit
    speed = tilt * math.sqrt(float(((away / shrunk) ** 2).sum()))
    density = math.exp(-size * size / 2) / math.sqrt(2 * math.pi)
    return float(ndtr(-size)) - density * (1 / size - 1 / speed)
