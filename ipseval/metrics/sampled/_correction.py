"""The estimate of a full-ranking metric from sampled ranks, with its standard error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, stdtrit

from ipseval.errors import InputError
from ipseval.metrics.base import Metric
from ipseval.metrics.sampled._correction_table import (
    average_tied_values,
    compute_correction_table,
    compute_sampled_values,
)
from ipseval.metrics.sampled._rank_distribution import build_refit, compute_fitted_correction
from ipseval.metrics.sampled._sampled_ranks import (
    SampledRanks,
    add_extreme_users,
)
from ipseval.utils.checks import as_generator, check_choice, check_fraction, check_positive_int
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, RngLike, freeze

Method = Literal["none", "rank", "bv", "cls", "ls", "mle", "importance"]
METHODS = ("none", "rank", "bv", "cls", "ls", "mle", "importance")
# Tables for many different n are interpolated between knots at this distance in log n, with an error of about
# 1e-5.
KNOT_SPACING = 0.01


@public_class
@dataclass(frozen=True, eq=False)
class SampledEstimate:
    """The estimate of a full-ranking metric from sampled ranks, as `correct_sampled` returns it.

    Parameters
    ----------
    estimate : float
        The average of the corrected contributions.
    standard_error : float
        Its standard error, which covers the draw of the users and of the candidates, and the fit of the rank
        distribution where one is fitted. It does not cover the bias that the correction leaves.
    contributions : (n_pos,) float array
        M̂(r̃) of each positive.
    values : (m + 1,) float array or None
        M̂ by sampled rank, at the median number of candidates; None for method="importance".
    uncorrected_estimate : float
        The average of the metric of the sampled lists.
    label, method : str
        The metric and the correction.
    n_positives, n_users, n_sampled : int
        Numbers of positives, of users and of sampled competitors.
    condition_number : float
        Condition number of the system that was solved (at the median number of candidates); 1 without one.
    _request : object
        Data and options, from which `conf_int` computes resamples.

    See Also
    --------
    correct_sampled : Compute the estimate.

    Examples
    --------
    Two positives rank 1 and 3 among 2 sampled of 4 others:

    >>> from ipseval import correct_sampled
    >>> estimate = correct_sampled([1, 3], 5, 2, "auc", "rank")
    >>> estimate.estimate, estimate.standard_error, estimate.contributions
    (0.5, 0.5, array([1., 0.]))
    """

    estimate: float
    standard_error: float
    contributions: FloatArray
    values: FloatArray | None
    uncorrected_estimate: float
    label: str
    method: str
    n_positives: int
    n_users: int
    n_sampled: int
    condition_number: float
    _request: _CorrectionRequest

    def __post_init__(self) -> None:
        freeze(self, "contributions", "values")

    def __repr__(self) -> str:
        return (
            f"SampledEstimate({self.label}: {self.estimate:.4f} ± {self.standard_error:.4f} by {self.method}"
            f", {self.uncorrected_estimate:.4f} uncorrected; {self.n_positives:,} positives of {self.n_users:,} users"
            f", {self.n_sampled:,} sampled candidates)"
        )

    def conf_int(
        self, confidence_level: float = 0.95, *, n_resamples: int = 500, rng: RngLike = None
    ) -> tuple[float, float]:
        """Compute a bootstrap interval over users, with the correction fitted in every resample.

        The limits are quantiles of the resampled estimates, at levels that are widened for few users
        (Student's t). Two users are added, one with the first and one with the last rank, because estimates
        without either have no spread (Agresti & Coull 1998). With 20 positives a normal interval covers
        60–80% in simulation, and this one 90–96%. The bias that the correction leaves is not covered.

        Parameters
        ----------
        confidence_level : float, default 0.95
            Level of the interval, in (0, 1).
        n_resamples : int, default 500
            Number of bootstrap resamples.
        rng : int, Generator or None, default None
            Random seed or generator.

        Returns
        -------
        (float, float)
            Lower and upper limit; NaN for one user.

        Raises
        ------
        InputError
            For a level outside (0, 1), or no resamples.
        """
        level = check_fraction("confidence_level", confidence_level)
        check_positive_int("n_resamples", n_resamples)
        n = self.n_users
        if n < 2:
            return float("nan"), float("nan")
        critical_value = stdtrit(n - 1, (1 - level) / 2) * np.sqrt(n / (n - 1))
        tail = float(ndtr(critical_value))
        estimates = self._request.resample(n_resamples, as_generator(rng))
        low, high = np.quantile(estimates, [tail, 1 - tail])
        return float(low), float(high)


@dataclass(frozen=True, eq=False)
class _CorrectionRequest:
    """The checked arguments of `correct_sampled`."""

    data: SampledRanks
    target: Metric
    method: Method
    variance_weight: float
    prior: Any
    n_iterations: int

    @property
    def is_fitted(self) -> bool:
        """Whether the correction uses a rank distribution that is fitted to the sampled ranks."""
        return is_fitted(self.prior, self.method)

    def correct(self) -> _Correction:
        """Return the corrected contributions."""
        if not self.is_fitted:
            return self._correct_without_fit()
        values, contributions, drift, condition = compute_fitted_correction(
            self.data, self.target, self.method, self.variance_weight, self.n_iterations
        )
        return _Correction(contributions, values, condition, drift)

    def _correct_without_fit(self) -> _Correction:
        data = self.data
        if self.method == "none":
            values = compute_sampled_values(self.target, data.n_sampled)
            return _Correction(average_tied_values(values, data.n_above, data.n_tied), values)
        if self.method == "importance":
            assert data.estimated_rank is not None
            return _Correction(self.target.value_at_rank(data.estimated_rank, data.n_candidates))
        if self.method == "rank" or classify_prior(self.prior, self.method) == "uniform":
            return self._correct_by_size()
        low = float(data.n_candidates.min())
        high = float(data.n_candidates.max())
        if high > low:
            raise InputError(
                f"a prior gives p(r) for one number of candidates, but the data go from {low:,.0f} to "
                f"{high:,.0f}; correct each size separately, or use prior='estimated' with method='bv'."
            )
        values, condition = self._table(low, self.prior)
        return _Correction(average_tied_values(values, data.n_above, data.n_tied), values, condition)

    def _correct_by_size(self) -> _Correction:
        """Return the correction with a separate table for each number of candidates."""
        data = self.data
        sizes, size_of_positive = np.unique(data.n_candidates, return_inverse=True)
        knots = _select_knots(sizes)
        tables = []
        conditions = []
        for n in knots:
            values, condition = self._table(n, None)
            tables.append(values)
            conditions.append(condition)
        stack = np.array(tables)
        median_n = np.median(data.n_candidates, keepdims=True)
        median_values = _interpolate_tables(stack, knots, median_n)[0]
        contributions = np.empty(size_of_positive.size)
        order = np.argsort(size_of_positive, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(size_of_positive[order])) + 1):
            values = _interpolate_tables(stack, knots, data.n_candidates[rows[:1]])[0]
            contributions[rows] = average_tied_values(values, data.n_above[rows], data.n_tied[rows])
        return _Correction(contributions, median_values, max(conditions))

    def _table(self, n: float, prior: Any) -> tuple[FloatArray, float]:
        """Return M̂ by sampled rank for n candidates, and the condition number."""
        return compute_correction_table(
            int(n),
            self.data.n_sampled,
            self.target,
            self.method,
            replacement=self.data.replacement,
            variance_weight=self.variance_weight,
            prior=prior,
        )

    def resample(self, n_resamples: int, generator: np.random.Generator) -> FloatArray:
        """Return estimates from resamples of the users and of two extreme ones, (n_resamples,)."""
        data = add_extreme_users(self.data)
        request = replace(self, data=data)
        if self.is_fitted:
            compute_estimate = build_refit(
                data, self.target, self.method, self.variance_weight, self.n_iterations
            )
        else:
            compute_estimate = partial(np.dot, request.correct().contributions)
        probabilities = np.full(data.n_users, 1 / data.n_users)
        estimates = np.empty(n_resamples)
        for index in range(n_resamples):
            times_drawn = generator.multinomial(self.data.n_users, probabilities)
            share = data.share * times_drawn[data.segment]
            estimates[index] = compute_estimate(share / share.sum())
        return estimates


@dataclass(frozen=True, eq=False)
class _Correction:
    """The result of a correction."""

    contributions: FloatArray  # (n_pos,) M̂(r̃) of each positive
    values: FloatArray | None = None  # (m + 1,) M̂ by sampled rank
    condition_number: float = 1.0
    drift: FloatArray | None = None  # (n_pos,) effect of each positive through the fit


def estimate_correction(
    data: SampledRanks,
    target: Metric,
    method: Method,
    *,
    variance_weight: float,
    prior: Any,
    n_iterations: int,
) -> SampledEstimate:
    """Return the estimate of a metric from sampled ranks; `correct_sampled` describes the options."""
    request = _CorrectionRequest(
        data=data,
        target=target,
        method=method,
        variance_weight=variance_weight,
        prior=prior,
        n_iterations=check_positive_int("n_iterations", n_iterations),
    )
    correction = request.correct()
    uncorrected_values = average_tied_values(
        compute_sampled_values(target, data.n_sampled), data.n_above, data.n_tied
    )
    return SampledEstimate(
        estimate=float(data.share @ correction.contributions),
        standard_error=_compute_standard_error(data, correction),
        contributions=correction.contributions,
        values=correction.values,
        uncorrected_estimate=float(data.share @ uncorrected_values),
        label=target.label,
        method=method,
        n_positives=correction.contributions.size,
        n_users=data.n_users,
        n_sampled=data.n_sampled,
        condition_number=correction.condition_number,
        _request=request,
    )


def _compute_standard_error(data: SampledRanks, correction: _Correction) -> float:
    """Return the standard error of the average, with users as independent units; NaN for one user."""
    n = data.n_users
    if n < 2:
        return float("nan")
    influence = correction.contributions
    if correction.drift is not None:
        influence = influence + correction.drift
    # The effect of a user on the average is Σ share·(influence − mean) over the user's positives.
    terms = data.share * (influence - data.share @ influence)
    effects = np.bincount(data.segment, terms, minlength=n)
    return float(np.sqrt(n / (n - 1) * np.sum(effects**2)))


def _select_knots(sizes: FloatArray) -> FloatArray:
    """Return the numbers of candidates with a table of their own: all `sizes`, or fewer for many sizes."""
    n_knots = int(np.ceil(np.log(sizes[-1] / sizes[0]) / KNOT_SPACING)) + 1
    if sizes.size <= n_knots:
        return sizes
    return np.unique(np.round(np.geomspace(sizes[0], sizes[-1], n_knots)))


def _interpolate_tables(stack: FloatArray, knots: FloatArray, n: FloatArray) -> FloatArray:
    """Return the tables for `n` candidates, linear in log n between knots, (n.size, m + 1)."""
    if knots.size == 1:
        return np.repeat(stack, n.size, axis=0)
    upper = np.clip(np.searchsorted(knots, n), 1, knots.size - 1)
    lower = upper - 1
    share = np.log(n / knots[lower]) / np.log(knots[upper] / knots[lower])
    return np.asarray((1 - share)[:, None] * stack[lower] + share[:, None] * stack[upper])


def is_fitted(prior: object, method: str) -> bool:
    """Return whether a correction uses a rank distribution that is fitted to the sampled ranks."""
    return classify_prior(prior, method) == "estimated" and method in ("bv", "mle")


def classify_prior(prior: object, method: str) -> str:
    """Return "uniform", "estimated", or "given" for probabilities of the ranks."""
    if prior is None or method == "mle":
        if method in ("bv", "mle"):
            return "estimated"
        return "uniform"
    if not isinstance(prior, str):
        return "given"
    check_choice("prior", prior, ("uniform", "estimated"))
    if prior == "estimated" and method in ("cls", "ls"):
        raise InputError(
            f"prior='estimated' goes with method='bv' only (the standard error of {method!r} would leave the "
            "fit of the prior out); use method='bv' or 'mle'."
        )
    return prior
