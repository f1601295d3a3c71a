"""Weighted logistic regression on standardised features, through statsmodels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ipseval._types import BoolArray, FloatArray, IntArray

RIDGE = 1e-3
LARGE_LOG_ODDS = 25.0


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """A fitted logistic regression with the centre and scale of its features."""

    result: Any
    params: FloatArray
    centre: FloatArray
    scale: FloatArray
    penalty: float
    limit: float = np.inf

    def log_odds(self, x: FloatArray) -> FloatArray:
        """Return the log odds of each row, (n,), at most `limit`."""
        standard = (x - self.centre) / self.scale
        return np.asarray(np.minimum(self.params[0] + standard @ self.params[1:], self.limit))


def fit_logistic(
    x: FloatArray,
    y: BoolArray,
    weight: FloatArray,
    cluster: IntArray,
    names: tuple[str, ...],
    limit: float | None,
) -> LogisticFit:
    """Return the fit of y on x with clustered errors; with a small ridge penalty where y is separable.

    `limit` is the quantile of the log odds of the rows with y = 1 beyond which predictions are held: a
    quadratic that follows the middle of the data says nothing about its edge.
    """
    import statsmodels.api as sm
    from statsmodels.tools import sm_exceptions

    centre = np.average(x, axis=0, weights=weight)
    spread = np.sqrt(np.average((x - centre) ** 2, axis=0, weights=weight))
    scale = np.where(spread > 1e-12 * np.abs(x).max(axis=0), spread, 1.0)  # constant but for rounding
    standard = (x - centre) / scale
    used = _independent(standard * np.sqrt(weight)[:, None])
    design = sm.add_constant(standard[:, used], has_constant="add")
    model = sm.GLM(y.astype(np.float64), design, family=sm.families.Binomial(), freq_weights=weight)
    model.exog_names[:] = ["const", *(names[j] for j in used)]
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        for kind in ("PerfectSeparation", "Convergence", "Specification"):
            warnings.simplefilter("ignore", getattr(sm_exceptions, f"{kind}Warning"))
        result = model.fit(maxiter=100, cov_type="cluster", cov_kwds={"groups": cluster})
        params, penalty = np.asarray(result.params, dtype=np.float64), 0.0
        separable = not result.converged or np.abs(design @ params).max() > LARGE_LOG_ODDS
        if separable:
            penalty = RIDGE
            result = model.fit_regularized(alpha=RIDGE, L1_wt=0.0)
            params = np.asarray(result.params, dtype=np.float64)
    full = np.zeros(x.shape[1] + 1)
    full[[0, *(j + 1 for j in used)]] = params
    free = LogisticFit(result, full, centre, scale, penalty)
    if limit is None:
        return free
    return replace(free, limit=float(np.quantile(free.log_odds(x[y]), limit)))


def _independent(columns: FloatArray) -> list[int]:
    """Return the columns that are no combination of those before them: the others can have no slope.

    Users with equally long profiles, say, make size × popularity a multiple of popularity.
    """
    basis: list[FloatArray] = []
    used = []
    for j in range(columns.shape[1]):
        rest = columns[:, j].copy()
        for _ in range(2):  # the second pass takes off what rounding left in the first
            for direction in basis:
                rest -= (direction @ rest) * direction
        length = float(np.linalg.norm(rest))
        if length > 1e-6 * max(float(np.linalg.norm(columns[:, j])), 1e-300):
            basis.append(rest / length)
            used.append(j)
    return used
