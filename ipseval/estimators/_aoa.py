"""AOA: the plain average over all observed positives."""

from __future__ import annotations

from dataclasses import dataclass

from ipseval.estimators._base import Sample, UserSums
from ipseval.metrics import CompatMetric, Metric


@dataclass(frozen=True)
class Aoa:
    """Mean over users of the metric on their observed positives: biased under MNAR unless P is constant."""

    label: str = "aoa"
    weighted: bool = False

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = the user's value, D_u = 1; another library's convention may pool over users."""
        if isinstance(metric, CompatMetric):
            return UserSums.of(sample.ranked.users, *metric.sums(sample.ranked, ties=sample.ties))
        return UserSums.of(sample.ranked.users, sample.user_values(metric, weighted=False))


@dataclass(frozen=True)
class AoaPooled:
    """Mean over all positives of all users, so that users count by their number of positives.

    A sum metric is not an average over positives; for it this is the same as `aoa`.
    """

    label: str = "aoa-pooled"
    weighted: bool = False

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = |S*_u| times the user's value, D_u = |S*_u|."""
        values = sample.user_values(metric, weighted=False)
        if metric.kind == "sum":
            return UserSums.of(sample.ranked.users, values)
        counts = sample.ranked.counts.astype(float)
        return UserSums.of(sample.ranked.users, counts * values, counts)
