"""Correlation of two differences that are both measured with noise of known size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.integrate import quad
from scipy.optimize import OptimizeResult, brentq, minimize
from scipy.special import ndtr
from scipy.stats import chi2

from ipseval.utils.compute import one_blas_thread
from ipseval.utils.types import FloatArray, IntArray

MAX_ARTANH = 4.0  # tanh 4 = 0.9993: a correlation that is practically 1
# A standard deviation e⁻⁷ times that of the data is practically 0, and no estimate is above e² times it.
MAX_LOG_DECREASE = 7.0
MAX_LOG_INCREASE = 2.0
MAX_START_CORRELATION = 0.95
Bounds = Sequence[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class NoisyDifferences:
    """Measured differences (x, y), (n,) each, and the variances of their noises, (n,) each."""

    x: FloatArray
    y: FloatArray
    var_x: FloatArray
    var_y: FloatArray

    def __len__(self) -> int:
        return int(self.x.size)

    def select(self, rows: IntArray) -> NoisyDifferences:
        """Return some of the rows."""
        return NoisyDifferences(
            x=self.x[rows], y=self.y[rows], var_x=self.var_x[rows], var_y=self.var_y[rows]
        )


@dataclass(frozen=True, eq=False)
class TrueSpread:
    """Mean and covariance of the true differences: (ξ, η) ~ N(μ, Σ), x = ξ + noise, y = η + noise.

    Fitted by restricted maximum likelihood: with V_i = Σ + diag(var_x_i, var_y_i) and μ̂ by generalised
    least squares, −2 log L = Σ log|V_i| + Σ (z_i − μ̂)ᵀ V_i⁻¹ (z_i − μ̂) + log|Σ V_i⁻¹|.
    """

    data: NoisyDifferences
    spread: FloatArray  # (2,) standard deviations of ξ and η
    rho: float
    mean: FloatArray
    deviance: float

    @classmethod
    def fit(cls, data: NoisyDifferences) -> TrueSpread:
        """Return the fit to measured differences."""

        def deviance(parameters: FloatArray) -> float:
            log_x, log_y, artanh_rho = parameters
            return _compute_deviance(data, log_x, log_y, np.tanh(artanh_rho))[0]

        bounds = [*_spread_bounds(data), (-MAX_ARTANH, MAX_ARTANH)]
        solution = _minimize(deviance, _start_values(data), bounds)
        log_x, log_y, artanh_rho = solution.x
        rho = float(np.tanh(artanh_rho))
        _, mean = _compute_deviance(data, float(log_x), float(log_y), rho)
        return cls(
            data=data,
            spread=np.exp(solution.x[:2]),
            rho=rho,
            mean=mean,
            deviance=float(solution.fun),
        )

    @cached_property
    def sigma(self) -> FloatArray:
        """Covariance matrix Σ, (2, 2)."""
        sd_x, sd_y = self.spread
        covariance = self.rho * sd_x * sd_y
        return np.array([[sd_x**2, covariance], [covariance, sd_y**2]])

    def interval(self, level: float) -> tuple[float, float]:
        """Return the correlations with a profile deviance below a limit; ±1: not bounded there.

        The limit is the χ² quantile times the kurtosis of the residuals, where that is above 1: under heavy
        tails the deviance of a correlation is larger by this factor (Shapiro and Browne 1987).
        """
        limit = float(chi2.ppf(level, 1)) * max(1.0, self.kurtosis)
        centre = float(np.arctanh(self.rho))
        low, high = (self._find_interval_end(centre, end, limit) for end in (-MAX_ARTANH, MAX_ARTANH))
        return low, high

    def _find_interval_end(self, centre: float, end: float, limit: float) -> float:
        """Return the end of the interval between two values of artanh ρ; ±1 where there is none."""
        if self._excess_deviance(end, limit) <= 0:
            return float(np.sign(end))
        return float(np.tanh(brentq(self._excess_deviance, centre, end, args=(limit,), xtol=1e-4)))

    @cached_property
    def kurtosis(self) -> float:
        """Mardia's kurtosis of the residuals relative to the normal distribution: mean d⁴/8."""
        residual_x = self.data.x - self.mean[0]
        residual_y = self.data.y - self.mean[1]
        (xx, xy), (_, yy) = self.sigma
        total_xx = xx + self.data.var_x
        total_yy = yy + self.data.var_y
        squared_distance = (
            total_yy * residual_x * residual_x
            - 2 * xy * residual_x * residual_y
            + total_xx * residual_y * residual_y
        ) / (total_xx * total_yy - xy**2)
        return float((squared_distance**2).mean() / 8)

    def _excess_deviance(self, artanh_rho: float, limit: float) -> float:
        """Return the deviance of the best spreads at a correlation above the least, minus a limit."""
        rho = float(np.tanh(artanh_rho))

        def deviance(parameters: FloatArray) -> float:
            log_x, log_y = parameters
            return _compute_deviance(self.data, log_x, log_y, rho)[0]

        solution = _minimize(deviance, np.log(self.spread), _spread_bounds(self.data))
        return float(solution.fun) - self.deviance - limit

    def predict(self, data: NoisyDifferences) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the measured online difference given the measured offline one."""
        (xx, xy), (_, yy) = self.sigma
        slope = xy / (xx + data.var_x)
        mean = self.mean[1] + slope * (data.x - self.mean[0])
        return mean, yy - slope * xy + data.var_y

    def probability_of_same_sign(self) -> float:
        """Return the probability that the true differences of an experiment have the same sign.

        With h and k the means over their standard deviations it is Φ(h) Φ(k) + Φ(−h) Φ(−k) + ∫₀^{arcsin ρ}
        exp(−(h² + k² − 2hk sin t)/(2 cos² t)) dt/π (Plackett 1954). SciPy 1.16 draws random points for the
        distribution function of two normals, so its results differ slightly between calls.
        """
        h, k = self.mean / self.spread

        def density(t: float) -> float:
            return float(np.exp(-(h * h + k * k - 2 * h * k * np.sin(t)) / (2 * np.cos(t) ** 2)))

        integral, _ = quad(density, 0.0, np.arcsin(self.rho), epsabs=1e-12, epsrel=1e-12)
        return float(ndtr(h) * ndtr(k) + ndtr(-h) * ndtr(-k) + integral / np.pi)


@one_blas_thread()  # two or three parameters
def _minimize(function: Callable[[FloatArray], float], start: FloatArray, bounds: Bounds) -> OptimizeResult:
    """Return the minimum of a function within bounds."""
    return minimize(function, start, method="L-BFGS-B", bounds=bounds)


def naive_pearson(data: NoisyDifferences) -> float:
    """Return the correlation of the measured differences, as if there were no noise."""
    x = data.x - data.x.mean()
    y = data.y - data.y.mean()
    scale = np.sqrt((x**2).sum() * (y**2).sum())
    if not scale:
        return 0.0
    return float((x * y).sum() / scale)


def compute_reliability(spread: float, noise: FloatArray) -> float:
    """Return the share of the variance of measured differences that is true variance."""
    total = spread**2 + noise.mean()
    if not total:
        return float("nan")
    return float(spread**2 / total)


def _start_values(data: NoisyDifferences) -> FloatArray:
    """Return the start of a fit: logarithms of the standard deviations, and artanh of the correlation."""
    log_spreads = []
    for differences, noise in ((data.x, data.var_x), (data.y, data.var_y)):
        variance = differences.var()
        log_spreads.append(_log_of_root(float(max(variance - noise.mean(), 0.1 * variance))))
    rho = np.clip(1.2 * naive_pearson(data), -MAX_START_CORRELATION, MAX_START_CORRELATION)
    return np.array([*log_spreads, np.arctanh(rho)])


def _spread_bounds(data: NoisyDifferences) -> list[tuple[float, float]]:
    """Return bounds of the logarithms of the standard deviations."""
    bounds = []
    for differences in (data.x, data.y):
        log_spread = _log_of_root(float(differences.var()))
        bounds.append((log_spread - MAX_LOG_DECREASE, log_spread + MAX_LOG_INCREASE))
    return bounds


def _log_of_root(variance: float) -> float:
    """Return the logarithm of a standard deviation; of differences that are all equal it is very low."""
    return float(0.5 * np.log(max(variance, np.finfo(np.float64).tiny)))


def _compute_deviance(
    data: NoisyDifferences, log_x: float, log_y: float, rho: float
) -> tuple[float, FloatArray]:
    """Return −2 log L (restricted) and μ̂ for standard deviations e^log_x, e^log_y and a correlation."""
    sd_x = np.exp(log_x)
    sd_y = np.exp(log_y)
    # The entries of V_i and of its inverse W_i.
    v_xx = sd_x**2 + data.var_x
    v_yy = sd_y**2 + data.var_y
    v_xy = rho * sd_x * sd_y
    determinant = v_xx * v_yy - v_xy * v_xy
    w_xx = v_yy / determinant
    w_yy = v_xx / determinant
    w_xy = -v_xy / determinant
    # The entries of Σ W_i and of Σ W_i z_i.
    sum_xx = w_xx.sum()
    sum_yy = w_yy.sum()
    sum_xy = w_xy.sum()
    weighted_x = (w_xx * data.x + w_xy * data.y).sum()
    weighted_y = (w_xy * data.x + w_yy * data.y).sum()
    information = sum_xx * sum_yy - sum_xy**2
    mean = (
        np.array([sum_yy * weighted_x - sum_xy * weighted_y, sum_xx * weighted_y - sum_xy * weighted_x])
        / information
    )
    residual_x = data.x - mean[0]
    residual_y = data.y - mean[1]
    squares = (
        w_xx * residual_x * residual_x + 2 * w_xy * residual_x * residual_y + w_yy * residual_y * residual_y
    ).sum()
    return float(np.log(determinant).sum() + squares + np.log(information)), mean
