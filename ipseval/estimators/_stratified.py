"""Stratified estimates after Jadidinejad et al., with shares of the strata that undo the selection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._checks import check_positive_int
from ipseval._types import FloatArray
from ipseval.errors import InputError
from ipseval.estimators._base import Estimator
from ipseval.estimators._claims import NRelevant
from ipseval.estimators._parts import Parts
from ipseval.estimators._sample import Sample
from ipseval.estimators._sums import UserSums
from ipseval.metrics import Metric


@dataclass(frozen=True)
class Stratified(Estimator):
    """Σ_q share_q · mean of c over the positives of propensity stratum q, pooled over users.

    Strata are bins of the propensity with about equally many positives, and share_q ∝ Σ_{i∈q} 1/P: a pooled
    SNIPS whose weights are averaged inside each stratum. With the observed shares, as published, the
    estimate is the plain pooled average, `aoa-pooled`, for every metric of mean type.

    Attributes
    ----------
    n_strata : int
        At least 1; strata that would share a propensity value are merged.

    References
    ----------
    Jadidinejad, Macdonald, Ounis, The Simpson's paradox in the offline evaluation of recommendation systems,
    2021, arXiv 2104.08912.
    """

    n_strata: int = 5
    weighting = "the mean 1/P of its stratum"
    target = "pooled"
    separable = False

    def __post_init__(self) -> None:
        check_positive_int("n_strata", self.n_strata)

    @property
    def label(self) -> str:  # type: ignore[override]  # follows from the number of strata
        """Label with its number of strata."""
        return f"stratified({self.n_strata})"

    def with_parameter(self, text: str) -> Stratified:
        """Return the estimator with another number of strata."""
        if not (text.isascii() and text.isdigit() and int(text)):
            raise InputError(f"estimator 'stratified({text})': the number of strata must be an int >= 1.")
        return Stratified(int(text))

    def check(self, metric: Metric, *, is_probability: bool, n_relevant: NRelevant) -> None:
        """Raise unless the metric is of mean type."""
        super().check(metric, is_probability=is_probability, n_relevant=n_relevant)
        if metric.kind != "mean":
            raise InputError(f"{self.label} is defined for metrics of mean type; {metric.label} is not one.")

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = Σ w̃ c, D_u = Σ w̃ with stratum weights w̃."""
        self.check(metric, is_probability=sample.is_probability, n_relevant=sample.n_relevant_kind)
        weights = self.positive_weights(sample)
        total = sample.ranked.sum_by_user(weights)
        values = metric.user_values(sample.ranked, weights, ties=sample.ties)
        return UserSums.of(sample.ranked.users, values * total, total)

    def parts(self, sample: Sample, metric: Metric) -> Parts | None:
        """Return the weights of the strata, which cover all positives."""
        value = metric.contributions(sample.ranked, ties=sample.ties)
        return None if value is None else Parts(self.positive_weights(sample), value)

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w̃ of each positive: the mean of 1/P in its stratum."""
        assert sample.propensity is not None
        inner = np.quantile(sample.propensity, np.linspace(0, 1, self.n_strata + 1)[1:-1])
        stratum = np.searchsorted(np.unique(inner), sample.propensity, side="left")
        count = np.bincount(stratum)
        total = np.bincount(stratum, weights=sample.weights)
        return np.asarray((total / np.maximum(count, 1))[stratum])
