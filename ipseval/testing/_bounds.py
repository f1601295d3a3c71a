"""Bounds of a paired difference that hold with few users, whatever the distribution of their differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtr, ndtri, stdtrit

from ipseval.errors import InputError
from ipseval.estimators import Estimate, UserSums
from ipseval.inference.comparisons import compute_detectable_difference
from ipseval.utils.checks import check_real
from ipseval.utils.types import FloatArray, IntArray

# Nominal power for a stated power of 80%: in simulations of many weeks, a loss of the stated size was
# detected up to three percentage points less often than the nominal power.
NOMINAL_POWER = 0.84
POWER = 0.8
MOST_USERS = 10_000_000  # largest number of users that is stated as needed
MAX_MARGIN = 1e6  # larger losses are beyond every metric, and would overflow
ROOT_MARGIN = (
    1e-9  # distance of the search for a root from the ends of its interval, relative to the interval
)


@dataclass(frozen=True)
class Difference:
    """A paired difference Δ = new − old of two estimates of one metric and estimator.

    Attributes
    ----------
    value, std_error : float
    n_users : int
    user_differences : (n,) float array or None
        Differences of the users, with mean Δ; None where only their moments were kept.
    largest : float
        The largest difference that a user can have, >= 1: the difference of the user with the largest
        denominator, the largest observed difference, or the largest value of a user.
    """

    value: float
    std_error: float
    n_users: int
    user_differences: FloatArray | None
    largest: float = 1.0

    @classmethod
    def from_estimates(cls, new: Estimate, old: Estimate) -> Difference:
        """Return the difference of two estimates."""
        difference = new.value - old.value
        if not isinstance(new.sums, UserSums):
            error, n_users, rounding = new.sums.paired_error(old.sums)  # type: ignore[arg-type]  # both merged
            return cls(_zero_if_rounding(difference, rounding), error, n_users, None)

        error, n_users, rounding = new.sums.paired_error(old.user_sums)
        difference = _zero_if_rounding(difference, rounding)
        effects = new.sums.paired_effects(old.user_sums)
        user_differences = effects.size * effects + difference
        largest = max(
            1.0,
            float(np.abs(user_differences).max()),
            _largest_relative_size(new.sums),
            _largest_relative_size(old.user_sums),
        )
        return cls(
            value=difference,
            std_error=error,
            n_users=n_users,
            user_differences=user_differences,
            largest=largest,
        )

    @property
    def is_zero(self) -> bool:
        """Whether no user has a difference."""
        return self.std_error == self.value == 0

    @classmethod
    def from_zero(cls, estimate: Estimate) -> Difference:
        """Return the difference of one estimate from zero, whose bounds are those of the estimate."""
        value = estimate.value
        error = estimate.standard_error
        sums = estimate.sums
        if not isinstance(sums, UserSums):
            return cls(value, error, sums.n_users, None)
        _, effects = sums.effects()
        user_values = sums.n_users * effects + value
        largest = max(1.0, float(np.abs(user_values).max()), _largest_relative_size(sums))
        return cls(
            value=value,
            std_error=error,
            n_users=sums.n_users,
            user_differences=user_values,
            largest=largest,
        )

    def bounds(self, level: float) -> tuple[float, float]:
        """Return the lower and the upper bound of Δ, each with error probability `level`.

        These are the bounds of Gaffke: quantiles of Σ w_u d_u/Σ w_u with w_u ~ Exp(1), where one user with
        the largest possible difference is added to the observed users. The only assumption is that there is a
        largest difference. That the bounds are valid for every n is a conjecture without a known
        counterexample. Gaffke, Mathematical Methods of Statistics 14, 2005; Learned-Miller & Thomas, arXiv
        1905.06208.

        A difference that is the same for every user has bounds of positive width, because users that were not
        observed may have another difference. Where no user has a difference, the bounds are ± the largest
        difference times 1 − level^(1/n): a larger share of users with that difference would be unobserved in
        n users with a probability below `level`.
        """
        if self.is_zero:
            unseen = self.largest * (1 - level ** (1 / self.n_users))
            return -unseen, unseen
        user_differences = self.user_differences
        if not self.std_error:
            user_differences = np.full(self.n_users, self.value)
        if user_differences is None:
            half_width = float(stdtrit(self.n_users - 1, 1 - level)) * self.std_error
            return self.value - half_width, self.value + half_width
        low = -_upper_bound(-user_differences, self.largest, level)
        high = _upper_bound(user_differences, self.largest, level)
        return low, high

    def smallest_visible(self, level: float, margin: float) -> float:
        """Return the loss whose upper bound is below −margin with 80% power; NaN without a standard error.

        Where no user has a difference, the differences say nothing about the spread of a loss. The loss is
        then the share of users that would have to lose the largest difference each, because such a loss is the
        hardest to detect; it is NaN if there are too few users for that. Otherwise it is the loss at which the bound
        is −margin, plus z_0.84 standard errors, corrected for Student's t as in `inference.compare`. This term
        includes the error of the standard error, which is √((κ − 1)/4n) of the standard error, with κ the
        kurtosis of the differences.
        """
        n_users = self.n_users
        error = self.std_error
        if self.is_zero:
            return self._smallest_visible_share(level, margin) * self.largest
        if not error:
            return float("nan")
        by_student, _ = compute_detectable_difference(
            error * math.sqrt(n_users), n_users, 0.0, level=2 * level, power=NOMINAL_POWER
        )
        power_term = by_student - float(stdtrit(n_users - 1, 1 - level)) * error
        if self.user_differences is None:
            return margin + self.bounds(level)[1] - self.value + power_term

        deviations = self.user_differences - self.value
        bound_loss = self._loss_at_bound(deviations, level, margin)
        kurtosis = float((deviations**4).mean() / (deviations**2).mean() ** 2)
        error_variance = (kurtosis - 1) / (4 * n_users)
        n_errors = (bound_loss - margin + power_term) / error
        return bound_loss + power_term * math.sqrt(1 + error_variance * n_errors**2)

    def pass_probability(self, level: float, loss: float) -> float:
        """Return the probability that an equally good candidate excludes a loss: that its lower bound is >= −loss.

        Φ((loss − h)/s), with the standard error s and the distance h of the lower bound from the difference. It is
        assumed that the differences of the candidate's users are distributed as these around their mean, and are 0
        on average. Where no user has a difference, the bound itself decides.
        """
        low, _ = self._centre().bounds(level)
        if not self.std_error:
            return float(low >= -loss)
        return float(ndtr((loss + low) / self.std_error))

    def users_needed(self, level: float, loss: float) -> float:
        """Return the users with which an equally good candidate excludes a loss with 80% power; NaN above 10 million.

        The assumption is that of `pass_probability`. The distance of the lower bound is that of n users who
        have the observed differences in the observed proportions. As in `smallest_visible`, the nominal power
        is 84%, because the distance varies between samples.
        """
        if self.is_zero:
            return self._users_needed_without_difference(level, loss)

        def excludes(n_users: int) -> bool:
            return self._excludes_loss(n_users, level, loss)

        return _find_smallest(excludes, MOST_USERS)

    def _users_needed_without_difference(self, level: float, loss: float) -> float:
        """Return the users needed if none has a difference: g (1 − level^(1/n)) <= loss, with the largest g."""
        if loss <= 0:
            return math.nan
        if loss >= self.largest:
            return 1.0
        n_users = math.ceil(math.log(level) / math.log1p(-loss / self.largest))
        return float(n_users) if n_users <= MOST_USERS else math.nan

    def _excludes_loss(self, n_users: int, level: float, loss: float) -> bool:
        """Return whether n users exclude a loss with 80% power, if the candidate is equally good."""
        power_term = float(ndtri(NOMINAL_POWER)) * self.std_error * math.sqrt(self.n_users / n_users)
        bound = loss - power_term
        if bound <= 0 or n_users < 2:
            return False
        if self.user_differences is None:
            error = self.std_error * math.sqrt(self.n_users / n_users)
            return float(stdtrit(n_users - 1, 1 - level)) * error <= bound
        losses, counts = np.unique(self.value - self.user_differences, return_counts=True)
        expected_counts = counts * (n_users / self.n_users)
        return _exceedance_probability(losses, self.largest, bound, expected_counts) <= level

    def _centre(self) -> Difference:
        """Return a difference of 0 with the same deviations of the users."""
        user_differences = self.user_differences
        if user_differences is not None:
            user_differences = user_differences - self.value
        return replace(self, value=0.0, user_differences=user_differences)

    def _smallest_visible_share(self, level: float, margin: float) -> float:
        """Return the smallest share of users with the largest loss that is called worse with 80% power.

        The others lose nothing. Of n users, k lose with the probability of a binomial distribution, so that
        P(at least k) = I_p(k, n − k + 1) with the share p and the regularised incomplete beta function I.
        """
        n_users = self.n_users
        values = np.array([-self.largest, 0.0])

        def is_visible(n_losing: int) -> bool:
            counts = np.array([n_losing, n_users - n_losing])
            return _exceedance_probability(values, self.largest, -margin, counts) < level

        n_visible = _find_smallest(is_visible, n_users)
        return float(betaincinv(n_visible, n_users - n_visible + 1, POWER))

    def _loss_at_bound(self, deviations: FloatArray, level: float, margin: float) -> float:
        """Return the loss at which the upper bound of the difference is −margin."""

        # The loss shifts the differences instead of scaling them, so the largest gain of a user is unchanged.
        def excess_probability(loss: float) -> float:
            return _exceedance_probability(deviations - loss, self.largest, -margin) - level

        limit = self.largest
        while excess_probability(limit) > 0:
            limit *= 2
        return float(brentq(excess_probability, -limit, limit, xtol=1e-7))


def _find_smallest(condition: Callable[[int], bool], largest: int) -> float:
    """Return the smallest number from 1 to `largest` that meets a condition; NaN if none does.

    All larger numbers must meet it, too.
    """
    if not condition(largest):
        return math.nan
    n_below = 0
    n_smallest = largest
    while n_smallest - n_below > 1:
        middle = (n_below + n_smallest) // 2
        if condition(middle):
            n_smallest = middle
        else:
            n_below = middle
    return float(n_smallest)


def parse_percentage(value: object) -> float | None:
    """Return the share that a text such as 10% names, and None for all other values."""
    if not isinstance(value, str) or not value.strip().endswith("%"):
        return None
    try:
        percentage = float(value.strip().removesuffix("%"))
    except ValueError:
        return None
    if not 0 <= percentage < math.inf:
        return None
    return percentage / 100


def refuse_percentage(margin: object, old: Estimate) -> None:
    """Raise `InputError` for a margin such as 10%, with the same loss in units of the metric.

    A share of the incumbent's value depends on the users of this run, and the interval of the difference does not
    contain this error. In simulations with 1,000 users in which only users of low values lose, a true loss of 10%
    passed with a margin of 10% in 7.7% of samples instead of at most 5%, and one of 20% with a margin of 20% in 3.1%
    instead of at most 0.2%.
    """
    share = parse_percentage(margin)
    if share is None:
        return
    text = (
        f"must be a loss in units of {old.metric}; got {margin!r}. A percentage would change with the estimated value "
        "of the incumbent, so a pass would not exclude a fixed loss."
    )
    if old.value <= 0:
        raise InputError(
            f"{text} The incumbent's value is {old.value:g} here, of which no percentage is a margin.",
            argument="margin",
        )
    loss = np.format_float_positional(float(f"{share * old.value:.3g}"), trim="-")
    raise InputError(
        f"{text} Here, {100 * share:g}% of {old.value:.4g} is {loss}.",
        argument="margin",
        advice=f"Pass {{margin={loss}}}, and keep this number in later runs",
    )


def check_margin(name: str, value: object) -> float:
    """Return a tolerated loss as a float from 0 to `MAX_MARGIN`, or raise `InputError`."""
    share = parse_percentage(value)
    if share is not None:
        raise InputError(
            f"must be a loss in units of the metric; got {value!r}. Multiply the incumbent's value by {share:g}, and "
            "keep this number.",
            argument=name,
        )
    margin = check_real(name, value, low=0.0, low_open=False)
    if margin > MAX_MARGIN:
        raise InputError(f"must be at most {MAX_MARGIN:g}; got {margin:g}.", argument=name)
    return margin


def _zero_if_rounding(difference: float, rounding: float) -> float:
    """Return 0 for a difference that rounding errors can explain, else the difference."""
    if abs(difference) <= rounding:
        return 0.0
    return difference


def _largest_relative_size(sums: UserSums) -> float:
    """Return the largest denominator or value of a user in units of the mean denominator."""
    largest = max(sums.denominator.max(), np.abs(sums.numerator).max())
    return float(largest / sums.denominator.mean())


def _upper_bound(values: FloatArray, largest: float, level: float) -> float:
    """Return the upper bound of the mean of a variable that is at most `largest`."""
    smallest = float(values.min())
    if smallest >= largest:
        return largest

    def excess_probability(bound: float) -> float:
        return _exceedance_probability(values, largest, bound) - level

    return float(brentq(excess_probability, smallest, largest, xtol=1e-7))


def _exceedance_probability(
    values: FloatArray, largest: float, bound: float, counts: IntArray | FloatArray | None = None
) -> float:
    """Return P(Σ E_u (d_u − bound) > 0) with E_u ~ Exp(1) and `largest` among the d_u, by a saddle point.

    `counts` are the numbers of users with each value, not necessarily whole; one user each by default.
    Lugannani & Rice, Advances in Applied Probability 12, 1980, 10.2307/1426607. The error is a few hundredths
    of the probability at most.
    """
    deviations = np.append(values, largest) - bound
    n_users = np.ones(deviations.size)
    if counts is not None:
        n_users[:-1] = counts
    low = float(deviations.min())
    high = float(deviations.max())
    if low >= 0:
        return 1.0
    if high <= 0:
        return 0.0

    def derivative(tilt: float) -> float:
        return float((n_users * deviations / (1 - tilt * deviations)).sum())

    tilt = float(brentq(derivative, (1 - ROOT_MARGIN) / low, (1 - ROOT_MARGIN) / high, xtol=1e-12))
    shrinkage = 1 - tilt * deviations
    signed_root = math.copysign(math.sqrt(max(2 * float((n_users * np.log(shrinkage)).sum()), 0.0)), tilt)
    if abs(signed_root) < 1e-4:  # the formula below is 0/0 there; this is its limit
        squares = float((n_users * deviations**2).sum())
        skewness = float((n_users * deviations**3).sum()) / (squares * math.sqrt(squares))
        return 0.5 - skewness / (3 * math.sqrt(2 * math.pi))
    scaled_tilt = tilt * math.sqrt(float((n_users * (deviations / shrinkage) ** 2).sum()))
    density = math.exp(-signed_root * signed_root / 2) / math.sqrt(2 * math.pi)
    return float(ndtr(-signed_root)) - density * (1 / signed_root - 1 / scaled_tilt)
