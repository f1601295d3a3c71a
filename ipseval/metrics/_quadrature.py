"""Sums over many whole numbers by a few nodes."""

from __future__ import annotations

from functools import cache

import numpy as np

from ipseval._base.types import FloatArray, readonly


@cache
def gauss_sum(size: int, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights with Σ_{x=0}^{size−1} f(x) = Σ weight·f(node), (n_nodes,) each.

    Exact for polynomials of degree < 2 `n_nodes`: the Gauss rule of the uniform measure on whole numbers,
    from the recurrence of the discrete Chebyshev polynomials. Up to `n_nodes` numbers are the rule
    themselves.

    References
    ----------
    Golub & Welsch (1969), doi:10.1090/S0025-5718-69-99647-1

    Examples
    --------
    >>> node, weight = gauss_sum(1000, 16)
    >>> node.size, round(float(weight @ node**3)) == sum(x**3 for x in range(1000))
    (16, True)
    """
    if size <= n_nodes:
        return readonly(np.arange(float(size))), readonly(np.ones(size))
    k = np.arange(1.0, n_nodes)
    off_diagonal = k / 2 * np.sqrt((float(size) ** 2 - k**2) / (4 * k**2 - 1))
    values, vectors = np.linalg.eigh(np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1))
    return readonly(values + (size - 1) / 2), readonly(size * vectors[0] ** 2)
