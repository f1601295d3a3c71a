"""Errors of predicted ratings: mean absolute, mean squared and root mean squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ipseval.errors import InputError
from ipseval.metrics.additive import AdditiveMetric
from ipseval.metrics.base import Definition
from ipseval.ranking import RankedPositives
from ipseval.utils.registry import look_up
from ipseval.utils.types import FloatArray, TieRule


def _define(formula: str) -> Definition:
    """Return the definition of an average over all user–item pairs."""
    denominator = "|U|·|I|: all user–item pairs, rated or not"
    return Definition(formula, denominator, undefined="users without ratings")


@dataclass(frozen=True, eq=False, repr=False)
class RatedPairs(RankedPositives):
    """Rated pairs: their errors, predicted − rated, and the number of pairs of each user.

    Attributes
    ----------
    error : (n_pairs,) float array
        Predicted rating minus observed rating.
    n_pairs : (n_users,) float array
        Number of pairs of each user that the average is over, rated or not.
    """

    error: FloatArray | None = None
    n_pairs: FloatArray | None = None

    def _rows(self, rows: Any, **changes: Any) -> RankedPositives:
        fields = vars(super()._rows(rows, **changes))
        assert self.error is not None
        return RatedPairs.from_validated(**{**fields, "error": self.error[rows], "n_pairs": self.n_pairs})


@dataclass(frozen=True, repr=False)
class RatingMetric(AdditiveMetric):
    """A mean over user–item pairs of |predicted − rated|^power, or its square root, on `RatedPairs`."""

    kind = "mean"
    takes_cutoff = "none"
    default_ties = "mean"
    needs_n_relevant = False
    value_range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    power: ClassVar[int]

    def _contributions(self, positives: RankedPositives, rule: TieRule) -> FloatArray:
        error = self._require_ratings(positives).error
        assert error is not None
        return np.asarray(np.abs(error) ** self.power)

    def _unbiased(
        self, positives: RankedPositives, inverse: FloatArray, n_relevant: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        return positives.sum_by_user(self._contributions(positives, rule) * inverse)

    def mass(self, positives: RankedPositives) -> FloatArray | None:
        """Return the number of pairs of each user."""
        return np.asarray(self._require_ratings(positives).n_pairs)

    def _require_ratings(self, positives: RankedPositives) -> RatedPairs:
        """Return the rated pairs; raise `InputError` for ranks without ratings."""
        if not isinstance(positives, RatedPairs):
            raise InputError(f"{self.label} is an error of predicted ratings; use evaluate_ratings.")
        return positives


@dataclass(frozen=True, repr=False)
class Mae(RatingMetric):
    """Mean absolute error: Σ |ŷ_ui − y_ui| / (|U|·|I|)."""

    name = "mae"
    summary = "mean absolute error of predicted ratings"
    power = 1
    definition = _define("Σ_{u,i} |ŷ_ui − y_ui| / (|U|·|I|)")


@dataclass(frozen=True, repr=False)
class Mse(RatingMetric):
    """Mean squared error: Σ (ŷ_ui − y_ui)² / (|U|·|I|)."""

    name = "mse"
    summary = "mean squared error of predicted ratings"
    power = 2
    definition = _define("Σ_{u,i} (ŷ_ui − y_ui)² / (|U|·|I|)")


@dataclass(frozen=True, repr=False)
class Rmse(RatingMetric):
    """Root mean squared error: √(Σ (ŷ_ui − y_ui)² / (|U|·|I|))."""

    name = "rmse"
    summary = "root mean squared error of predicted ratings"
    power = 2
    root = True
    definition = _define("√(Σ_{u,i} (ŷ_ui − y_ui)² / (|U|·|I|))")


RATING_METRICS: dict[str, type[RatingMetric]] = {"mae": Mae, "mse": Mse, "rmse": Rmse}


def resolve_rating_metric(label: str | RatingMetric) -> RatingMetric:
    """Return the rating metric that a label names; a RatingMetric is returned as it is.

    Examples
    --------
    >>> resolve_rating_metric("mae")
    mae
    """
    if isinstance(label, RatingMetric):
        return label
    if not isinstance(label, str):
        raise InputError(
            f"a rating metric is one of {', '.join(RATING_METRICS)}; got {type(label).__name__}."
        )
    return look_up(RATING_METRICS, label, "rating metric")()
