"""The law of a sampled rank given the exact rank: binomial or hypergeometric."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from ipseval._types import FloatArray


def rank_law(ranks: FloatArray, n_candidates: FloatArray, n_sampled: int, replacement: bool) -> FloatArray:
    """Return A[r, i] = P(r̃ = i | r), (n_ranks, m + 1), column i − 1 for the sampled rank i = 1 … m + 1.

    With replacement r̃ − 1 ~ Binomial(m, (r − 1)/(n − 1)); without, hypergeometric: m of the n − 1 other
    candidates are drawn, of which r − 1 stand above.

    Parameters
    ----------
    ranks : (n_ranks,) float array
        Exact 1-based ranks in [1, n]. The binomial law also takes values between integers; the
        hypergeometric one only where r − 1 >= m and n − r >= m.
    n_candidates : (n_ranks,) float array
        n, the size of the candidate set, the positive included.
    """
    if replacement:
        return _binomial((ranks - 1) / (n_candidates - 1), n_sampled)
    return _hypergeometric(ranks - 1, n_candidates - ranks, n_sampled)


def _binomial(p: FloatArray, m: int) -> FloatArray:
    j = np.arange(m + 1.0)
    log_choose = gammaln(m + 1.0) - gammaln(j + 1) - gammaln(m - j + 1)
    # xlogy and xlog1py give 0·log 0 = 0, so p = 0 and p = 1 need no special case.
    log_pmf = xlogy(j, p[:, None])
    log_pmf += xlog1py(m - j, -p[:, None])
    log_pmf += log_choose
    return np.asarray(np.exp(log_pmf, out=log_pmf), dtype=np.float64)


def _hypergeometric(above: FloatArray, below: FloatArray, m: int) -> FloatArray:
    """Return C(above, j) C(below, m − j) / C(above + below, m) for j = 0 … m.

    Logarithms of falling factorials are summed rather than taken as differences of log-gamma: at 10⁷
    candidates the difference would lose eight digits.
    """
    j = np.arange(m + 1.0)
    log_choose = gammaln(m + 1.0) - gammaln(j + 1) - gammaln(m - j + 1)
    log_pmf = _log_falling(above, m)
    log_pmf += _log_falling(below, m)[:, ::-1]
    log_pmf += log_choose
    log_pmf -= _log_falling(above + below, m)[:, -1:]
    return np.asarray(np.exp(log_pmf, out=log_pmf), dtype=np.float64)


def _log_falling(a: FloatArray, m: int) -> FloatArray:
    """Return log a(a − 1)…(a − j + 1) for j = 0 … m, (n, m + 1); −inf where the product reaches 0."""
    out = np.zeros((a.size, m + 1))
    with np.errstate(divide="ignore"):
        np.log(np.maximum(a[:, None] - np.arange(m), 0.0), out=out[:, 1:])
    return np.cumsum(out, axis=1, out=out)
