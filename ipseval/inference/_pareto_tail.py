"""Tail of the distribution of weights: a generalised Pareto distribution fitted to the largest values."""

from __future__ import annotations

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.checks import as_float_vector
from ipseval.utils.types import FloatArray

MIN_TAIL = 5

# Weakly informative prior of the profile likelihood, and shrinkage of k̂ towards ½ by ten observations.
PRIOR_SCALE = 3.0
PRIOR_SIZE = 10.0

# Two values whose difference is below this share of the largest value are equal up to rounding.
ROUNDING = 1e-12


def pareto_k(values: FloatArray) -> float:
    """Return k̂ of the largest min(n/5, 3√n) values: about 1/k̂ moments of their distribution exist.

    Above 0.5 the variance is infinite, so that errors are understated; above 0.7 averages are unreliable.
    The result is NaN where the tail has fewer than five different excesses. Vehtari et al., JMLR 25, 2024,
    arXiv 1507.02646.
    """
    values = as_float_vector("values", values)
    is_negative = values < 0
    if is_negative.any():
        raise InputError(f"values must be positive; {int(is_negative.sum())} of {values.size} are negative.")
    tail_size = int(np.ceil(min(0.2 * values.size, 3 * np.sqrt(values.size))))
    if tail_size < MIN_TAIL or tail_size >= values.size:
        return float("nan")
    ordered_values = np.sort(values)
    largest = ordered_values[-1]
    excess = ordered_values[-tail_size:] - ordered_values[-tail_size - 1]
    # Equal totals of items differ in their last bits, because of the order of their sums.
    excess = excess[excess > ROUNDING * largest]
    if np.unique(np.round(excess / largest, 12)).size < MIN_TAIL:
        return float("nan")
    shape, _ = fit_generalised_pareto(excess)
    return float((excess.size * shape + PRIOR_SIZE * 0.5) / (excess.size + PRIOR_SIZE))


def fit_generalised_pareto(excess: FloatArray) -> tuple[float, float]:
    """Return shape ξ and scale σ of the density (1/σ)(1 + ξx/σ)^{−1/ξ − 1}: Zhang & Stephens' estimate.

    The estimate of b = −ξ/σ is its mean over a grid, weighted by the profile likelihood; ξ is the mean of
    ln(1 − bx) for that b. Zhang & Stephens, Technometrics 51, 2009, 10.1198/tech.2009.08017.
    """
    x = np.sort(excess)
    n = x.size
    n_grid = 30 + int(np.sqrt(n))
    quartile = x[int(n / 4 + 0.5) - 1]
    steps = np.arange(1, n_grid + 1) - 0.5
    b = 1 / x[-1] + (1 - np.sqrt(n_grid / steps)) / (PRIOR_SCALE * quartile)
    b = b[b != 0]
    shape = np.log1p(-b[:, None] * x).mean(axis=1)
    log_likelihood = n * (np.log(-b / shape) - shape)  # up to a constant
    weight = np.exp(log_likelihood - log_likelihood.max())
    mean_b = float(weight @ b / weight.sum())
    xi = float(np.log1p(-mean_b * x).mean())
    return xi, -xi / mean_b
