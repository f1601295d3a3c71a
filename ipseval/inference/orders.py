"""Orders of recommenders, row by row of their values, and how far two of them agree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.checks import check_positive_int
from ipseval.utils.types import AnyArray, FloatArray

# A difference below this share of the values themselves is rounding: those recommenders are tied.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class RowOrders:
    """The order of recommenders in each row of values, (n_rows, n_recommenders), ready to be compared.

    `above` and `tied` count, for each recommender, those with a higher and with the same value (itself
    included); `sign` holds the sign of the difference of each pair once, (n_rows, n_pairs).
    """

    above: AnyArray
    tied: AnyArray
    sign: AnyArray

    def __repr__(self) -> str:
        return f"RowOrders({self.above.shape[0]:,} rows of {self.above.shape[1]:,} recommenders)"

    @classmethod
    def of(cls, values: FloatArray) -> RowOrders:
        """Return the orders of the rows of `values`; one row may also be given as a vector."""
        values = np.atleast_2d(values)
        n = values.shape[1]
        pairs = np.triu_indices(n, 1)
        first, second = (values[:, one] for one in pairs)
        difference, noise = first - second, ROUNDING * np.maximum(np.abs(first), np.abs(second))
        sign = (difference > noise).astype(np.int8) - (difference < -noise)
        # Of each pair, whether a recommender is its first or second: products with these count, exactly.
        ahead, behind = (np.eye(n, dtype=np.float32)[one] for one in pairs)
        won, lost = ((s > 0).astype(np.float32) for s in (sign, -sign))
        above, below = lost @ ahead + won @ behind, won @ ahead + lost @ behind
        return cls(above.astype(np.int32), (n - above - below).astype(np.int32), sign)

    def in_top(self, k: int) -> FloatArray:
        """Return the chance of each recommender to be among the top k, ties broken at random."""
        chance: FloatArray = np.clip((k - self.above) / self.tied, 0, 1)
        return chance

    @property
    def best(self) -> AnyArray:
        """The place of the best recommender of each row: the first of those that are tied."""
        return np.asarray(self.above.argmin(axis=1))

    @property
    def centred_ranks(self) -> FloatArray:
        """Average ranks minus their mean."""
        mean = (self.above.shape[1] + 1) / 2
        return np.asarray(self.above + (self.tied + 1) / 2 - mean, dtype=np.float64)


def measures(a: RowOrders, b: RowOrders, k: Iterable[int]) -> dict[str, FloatArray]:
    """Return every measure for each row of two orders, (n_rows,) each; NaN where undefined."""
    k = [check_positive_int("k", cut) for cut in k]
    if max(k, default=1) > a.above.shape[1]:
        raise InputError(f"k must be at most the number of recommenders, {a.above.shape[1]}; got {max(k)}.")
    result: dict[str, FloatArray] = {
        f"or@{cut}": (a.in_top(cut) * b.in_top(cut)).sum(axis=1) / cut for cut in k
    }
    ranks = a.centred_ranks, b.centred_ranks
    result["src"] = _ratio((ranks[0] * ranks[1]).sum(axis=1), *((rank**2).sum(axis=1) for rank in ranks))
    product = a.sign * b.sign
    result["ipc"] = (product < 0).sum(axis=1).astype(np.float64)
    untied = [np.abs(one.sign).sum(axis=1, dtype=np.float64) for one in (a, b)]
    result["tau_b"] = _ratio(product.sum(axis=1, dtype=np.float64), *untied)
    return result


def _ratio(numerator: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return numerator / √(first · second), NaN where that is 0."""
    scale = np.sqrt(first * second)
    ratio: FloatArray = np.divide(numerator, scale, out=np.full(scale.shape, np.nan), where=scale > 0)
    return ratio
