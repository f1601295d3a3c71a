"""Stratified estimates after Jadidinejad et al.: a comparator, and the version with corrected shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._checks import check_positive_int
from ipseval._types import FloatArray
from ipseval.errors import InputError
from ipseval.estimators._base import Sample, UserSums
from ipseval.metrics import Metric


@dataclass(frozen=True)
class Stratified:
    """Σ_q share_q · mean of c over the positives of propensity stratum q, pooled over users.

    Strata are bins of the propensity with about equally many positives. With observed shares (the published
    estimator) it equals `aoa-pooled` for every metric of mean type, since those shares are the biased ones.
    With shares Σ_{i∈q} 1/P it is a pooled SNIPS whose weights are averaged inside each stratum.

    Parameters
    ----------
    n_strata : int
        At least 1; strata that would share a propensity value are merged.
    observed_shares : bool
        True: the published comparator.

    References
    ----------
    Jadidinejad, Macdonald, Ounis, The Simpson's paradox in the offline evaluation of recommendation systems,
    2021, arXiv 2104.08912.
    """

    n_strata: int = 5
    observed_shares: bool = False
    weighted: bool = True

    def __post_init__(self) -> None:
        check_positive_int("n_strata", self.n_strata)

    @property
    def label(self) -> str:
        """Label with the kind of shares."""
        return "stratified-observed" if self.observed_shares else "stratified"

    @property
    def weighting(self) -> str:
        """How much a positive weighs."""
        return "1" if self.observed_shares else "the mean 1/P of its stratum"

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = Σ w̃ c, D_u = Σ w̃ with stratum weights w̃ (1 with observed shares)."""
        if metric.kind != "mean":
            raise InputError(f"{self.label} is defined for metrics of mean type; {metric.label} is not one.")
        weights = self.positive_weights(sample)
        total = sample.ranked.sum_by_user(weights)
        values = metric.user_values(sample.ranked, weights, ties=sample.ties)
        return UserSums.of(sample.ranked.users, values * total, total)

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w̃ of each positive: the mean of 1/P in its stratum, or 1 with observed shares."""
        if self.observed_shares:
            return np.ones(len(sample.ranked))
        assert sample.propensity is not None
        inner = np.quantile(sample.propensity, np.linspace(0, 1, self.n_strata + 1)[1:-1])
        stratum = np.searchsorted(np.unique(inner), sample.propensity, side="left")
        count = np.bincount(stratum)
        total = np.bincount(stratum, weights=sample.weights)
        return np.asarray((total / np.maximum(count, 1))[stratum])
