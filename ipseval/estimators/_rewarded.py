"""Rewarded: what estimators with a reward model read of one recommender."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ipseval._base.types import FloatArray, IntArray, freeze
from ipseval.errors import InputError
from ipseval.metrics import Metric


@dataclass(frozen=True, eq=False)
class RewardedMetric:
    """What one metric makes of the reward model's sums and of the shown pairs."""

    modelled: FloatArray  # (n_users,) Σ_{i∈C_u} m̂_ui c(r_ui)
    shown: FloatArray  # (n_shown,) c(r_ui) of the shown pairs

    def __post_init__(self) -> None:
        freeze(self, "modelled", "shown")


@dataclass(frozen=True, eq=False)
class Rewarded:
    """Shown pairs with rewards and weights, and the reward model's sums over all candidates."""

    user: IntArray
    clicked: FloatArray  # (n_shown,) y
    examined: FloatArray  # (n_shown,) θ
    predicted: FloatArray  # (n_shown,) m̂
    weight: FloatArray  # (n_shown,) 1/P, P of shown and examined; NaN: none
    total: FloatArray  # (n_users,) Σ_{i∈C_u} m̂_ui
    n_candidates: IntArray  # (n_users,)
    of_metric: Mapping[str, RewardedMetric]

    def __post_init__(self) -> None:
        freeze(self, "user", "clicked", "examined", "predicted", "weight", "total", "n_candidates")

    def __repr__(self) -> str:
        return f"Rewarded({self.user.size:,} shown pairs of {self.total.size:,} users)"

    @property
    def residual(self) -> FloatArray:
        """Y − θ m̂ of the shown pairs, (n_shown,)."""
        return np.asarray(self.clicked - self.examined * self.predicted)

    def by_user(self, values: FloatArray) -> FloatArray:
        """Return Σ of values over each user's shown pairs, (n_users,)."""
        return np.bincount(self.user, values, minlength=self.total.size).astype(np.float64)

    def metric(self, metric: Metric) -> RewardedMetric:
        """Return the sums of a metric, or raise `InputError` where they were not made."""
        if metric.label not in self.of_metric:
            raise InputError(f"{metric.label} was not among the metrics when the candidates were ranked.")
        return self.of_metric[metric.label]

    def without_weights(self) -> Rewarded:
        """Return the same with weights that are not known, as under a propensity of positives alone."""
        return replace(self, weight=np.full(self.user.size, np.nan))
