"""The correlation of two differences that are both measured with noise of known size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq, minimize
from scipy.special import ndtr
from scipy.stats import chi2

from ipseval.utils.compute import one_blas_thread
from ipseval.utils.types import FloatArray, IntArray

LIMIT = 4.0  # tanh 4 = .9993: as good as 1
NOTHING = 7.0  # a spread e⁻⁷ times that of the data is none


@dataclass(frozen=True, eq=False)
class Noisy:
    """Measured differences (x, y), (n,) each, and the variances of their noises, (n,) each."""

    x: FloatArray
    y: FloatArray
    var_x: FloatArray
    var_y: FloatArray

    def __len__(self) -> int:
        return int(self.x.size)

    def at(self, rows: IntArray) -> Noisy:
        """Return some of the rows."""
        return Noisy(self.x[rows], self.y[rows], self.var_x[rows], self.var_y[rows])


@dataclass(frozen=True, eq=False)
class TrueSpread:
    """Mean and covariance of the true differences: (ξ, η) ~ N(μ, Σ), x = ξ + noise, y = η + noise."""

    # Fitted by restricted maximum likelihood: with V_i = Σ + diag(var_x_i, var_y_i) and μ̂ by generalised
    # least squares, −2 log L = Σ log|V_i| + Σ (z_i − μ̂)ᵀ V_i⁻¹ (z_i − μ̂) + log|Σ V_i⁻¹|.

    data: Noisy
    spread: Any  # (2,) standard deviations of ξ and η
    rho: float
    mean: FloatArray
    deviance: float

    @classmethod
    def of(cls, data: Noisy) -> TrueSpread:
        """Return the fit."""
        bounds = [*_bounds(data), (-LIMIT, LIMIT)]
        found = _least(lambda p: _deviance(data, p[0], p[1], np.tanh(p[2]))[0], _start(data), bounds)
        spread, rho = np.exp(found.x[:2]), float(np.tanh(found.x[2]))
        mean = _deviance(data, float(found.x[0]), float(found.x[1]), rho)[1]
        return cls(data, spread, rho, mean, float(found.fun))

    @cached_property
    def sigma(self) -> FloatArray:
        """Σ, (2, 2)."""
        covariance = self.rho * self.spread[0] * self.spread[1]
        return np.array([[self.spread[0] ** 2, covariance], [covariance, self.spread[1] ** 2]])

    def interval(self, level: float) -> tuple[float, float]:
        """Return the correlations whose profile deviance is below a limit; ±1: not bounded there."""
        # The limit is the χ² quantile times the kurtosis of the residuals, where that is above 1: under heavy
        # tails the deviance of a correlation is that much larger (Shapiro and Browne 1987).
        critical = float(chi2.ppf(level, 1)) * max(1.0, self.kurtosis)
        centre = float(np.arctanh(self.rho))
        ends = []
        for end in (-LIMIT, LIMIT):
            if self._excess(end, critical) <= 0:
                ends.append(float(np.sign(end)))
            else:
                ends.append(float(np.tanh(brentq(self._excess, centre, end, args=(critical,), xtol=1e-4))))
        return ends[0], ends[1]

    @cached_property
    def kurtosis(self) -> float:
        """Mardia's kurtosis of the residuals over that of a normal law, mean d⁴/8; 1: normal tails."""
        u, v = self.data.x - self.mean[0], self.data.y - self.mean[1]
        (xx, xy), (_, yy) = self.sigma
        a, b = xx + self.data.var_x, yy + self.data.var_y
        squared = (b * u * u - 2 * xy * u * v + a * v * v) / (a * b - xy**2)
        return float((squared**2).mean() / 8)

    def _excess(self, z: float, critical: float) -> float:
        """Return the deviance of the best spreads at correlation tanh z above the least, minus a limit."""
        rho = float(np.tanh(z))
        found = _least(
            lambda p: _deviance(self.data, p[0], p[1], rho)[0], np.log(self.spread), _bounds(self.data)
        )
        return float(found.fun) - self.deviance - critical

    def predicted(self, other: Noisy) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the measured online difference given the measured offline one."""
        (xx, xy), (_, yy) = self.sigma
        slope = xy / (xx + other.var_x)
        mean = self.mean[1] + slope * (other.x - self.mean[0])
        return mean, yy - slope * xy + other.var_y

    def same_sign(self) -> float:
        """Return the chance that both true differences of an experiment have the same sign."""
        # With h and k the means over their standard deviations it is Φ(h) Φ(k) + Φ(−h) Φ(−k) + ∫₀^{arcsin ρ}
        # exp(−(h² + k² − 2hk sin t)/(2 cos² t)) dt/π (Plackett 1954). SciPy 1.16 draws random points for the
        # distribution function of two normals, and answers a little differently each time.
        h, k = self.mean / self.spread

        def density(t: float) -> float:
            return float(np.exp(-(h * h + k * k - 2 * h * k * np.sin(t)) / (2 * np.cos(t) ** 2)))

        correlated = quad(density, 0.0, np.arcsin(self.rho), epsabs=1e-12, epsrel=1e-12)[0] / np.pi
        return float(ndtr(h) * ndtr(k) + ndtr(-h) * ndtr(-k) + correlated)


@one_blas_thread()  # two or three parameters
def _least(function: Callable[[Any], float], start: Any, bounds: Any) -> Any:
    return minimize(function, start, method="L-BFGS-B", bounds=bounds)


def naive_pearson(data: Noisy) -> float:
    """Return the correlation of the measured differences, as if there were no noise."""
    x, y = data.x - data.x.mean(), data.y - data.y.mean()
    scale = np.sqrt((x**2).sum() * (y**2).sum())
    return float((x * y).sum() / scale) if scale else 0.0


def reliability(spread: float, noise: FloatArray) -> float:
    """Return the share of the variance of measured differences that is true variance."""
    total = spread**2 + noise.mean()
    return float(spread**2 / total) if total else np.nan


def _start(data: Noisy) -> FloatArray:
    """Return where a fit begins: logarithms of both standard deviations, and artanh of the correlation."""
    pairs = ((data.x, data.var_x), (data.y, data.var_y))
    spreads = [_log_sd(max(z.var() - v.mean(), 0.1 * z.var())) for z, v in pairs]
    return np.array([*spreads, np.arctanh(np.clip(1.2 * naive_pearson(data), -0.95, 0.95))])


def _bounds(data: Noisy) -> list[tuple[float, float]]:
    scales = [_log_sd(z.var()) for z in (data.x, data.y)]
    return [(scale - NOTHING, scale + 2.0) for scale in scales]


def _log_sd(variance: Any) -> float:
    """Return the logarithm of a standard deviation; of differences that are all equal it is very low."""
    return float(0.5 * np.log(max(variance, np.finfo(np.float64).tiny)))


def _deviance(data: Noisy, log_x: float, log_y: float, rho: float) -> tuple[float, FloatArray]:
    """Return −2 log L (restricted) and μ̂ for standard deviations e^log_x, e^log_y and a correlation."""
    sd_x, sd_y = np.exp(log_x), np.exp(log_y)
    a, b, c = sd_x**2 + data.var_x, sd_y**2 + data.var_y, rho * sd_x * sd_y
    det = a * b - c * c
    w_xx, w_yy, w_xy = b / det, a / det, -c / det
    s_xx, s_yy, s_xy = w_xx.sum(), w_yy.sum(), w_xy.sum()
    t_x, t_y = (w_xx * data.x + w_xy * data.y).sum(), (w_xy * data.x + w_yy * data.y).sum()
    information = s_xx * s_yy - s_xy**2
    mean = np.array([s_yy * t_x - s_xy * t_y, s_xx * t_y - s_xy * t_x]) / information
    u, v = data.x - mean[0], data.y - mean[1]
    squares = (w_xx * u * u + 2 * w_xy * u * v + w_yy * v * v).sum()
    return float(np.log(det).sum() + squares + np.log(information)), mean
