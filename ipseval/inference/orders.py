"""Rankings of recommenders by rows of values, and measures of the agreement of two rankings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.checks import check_positive_int, format_count
from ipseval.utils.types import AnyArray, FloatArray

# A difference below this share of the values is rounding: those recommenders are tied.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class RowOrders:
    """The ranking of recommenders in each row of values, (n_rows, n_recommenders), ready for comparison.

    Attributes
    ----------
    above, tied : (n_rows, n_recommenders) arrays
        Number of recommenders with a higher value, and with an equal value, itself included.
    sign : (n_rows, n_pairs) array
        Sign of the difference of each pair of recommenders.
    """

    above: AnyArray
    tied: AnyArray
    sign: AnyArray

    def __repr__(self) -> str:
        n_rows, n_recommenders = self.above.shape
        return f"RowOrders({format_count(n_rows, 'row')} of {format_count(n_recommenders, 'recommender')})"

    @classmethod
    def from_values(cls, values: FloatArray) -> RowOrders:
        """Rank the recommenders of each row of `values`; a vector counts as one row."""
        values = np.atleast_2d(values)
        n_recommenders = values.shape[1]
        first_index, second_index = np.triu_indices(n_recommenders, 1)
        first = values[:, first_index]
        second = values[:, second_index]
        difference = first - second
        tolerance = ROUNDING * np.maximum(np.abs(first), np.abs(second))
        sign = (difference > tolerance).astype(np.int8) - (difference < -tolerance)

        # Rows of an identity matrix mark the first, or the second, recommender of each pair. Products with
        # them count the pairs of each recommender, exactly.
        indicators = np.eye(n_recommenders, dtype=np.float32)
        is_first = indicators[first_index]
        is_second = indicators[second_index]
        first_wins = (sign > 0).astype(np.float32)
        second_wins = (sign < 0).astype(np.float32)
        above = second_wins @ is_first + first_wins @ is_second
        below = first_wins @ is_first + second_wins @ is_second
        tied = n_recommenders - above - below
        return cls(above.astype(np.int32), tied.astype(np.int32), sign)

    def in_top(self, k: int) -> FloatArray:
        """Return the probability of each recommender to be among the top k, with random tie-breaking."""
        probability: FloatArray = np.clip((k - self.above) / self.tied, 0, 1)
        return probability

    @property
    def best(self) -> AnyArray:
        """Column of the best recommender of each row: the first column of the tied recommenders."""
        return np.asarray(self.above.argmin(axis=1))

    @property
    def centred_ranks(self) -> FloatArray:
        """Average ranks minus their mean."""
        mean_rank = (self.above.shape[1] + 1) / 2
        return np.asarray(self.above + (self.tied + 1) / 2 - mean_rank, dtype=np.float64)


def compute_agreement(a: RowOrders, b: RowOrders, k: Iterable[int]) -> dict[str, FloatArray]:
    """Return every measure of agreement for each row of two rankings, (n_rows,) each; NaN where undefined."""
    cutoffs = [check_positive_int("k", cutoff) for cutoff in k]
    n_recommenders = a.above.shape[1]
    if max(cutoffs, default=1) > n_recommenders:
        raise InputError(
            f"k must be at most the number of recommenders, {n_recommenders}; got {max(cutoffs)}."
        )
    result: dict[str, FloatArray] = {}
    for cutoff in cutoffs:
        result[f"or@{cutoff}"] = (a.in_top(cutoff) * b.in_top(cutoff)).sum(axis=1) / cutoff

    ranks_a = a.centred_ranks
    ranks_b = b.centred_ranks
    covariance = (ranks_a * ranks_b).sum(axis=1)
    result["src"] = _divide_by_root(covariance, (ranks_a**2).sum(axis=1), (ranks_b**2).sum(axis=1))

    sign_product = a.sign * b.sign
    result["ipc"] = (sign_product < 0).sum(axis=1).astype(np.float64)
    untied_a = np.abs(a.sign).sum(axis=1, dtype=np.float64)
    untied_b = np.abs(b.sign).sum(axis=1, dtype=np.float64)
    result["tau_b"] = _divide_by_root(sign_product.sum(axis=1, dtype=np.float64), untied_a, untied_b)
    return result


def _divide_by_root(numerator: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return numerator / √(first · second), NaN where that is 0."""
    scale = np.sqrt(first * second)
    ratio: FloatArray = np.divide(numerator, scale, out=np.full(scale.shape, np.nan), where=scale > 0)
    return ratio
