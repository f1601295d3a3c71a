"""Estimators that use impressions and a reward model: dm, dr and snips-impressions, and their data."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, NamedTuple

import numpy as np

from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Claim, Estimator, Sample, UserSums
from ipseval.estimators.guarantees import NRelevant
from ipseval.metrics import Metric
from ipseval.utils.types import FloatArray, IntArray, freeze

DM: Final = "dm"
DR: Final = "dr"
SNIPS: Final = "snips"  # normalised over the shown pairs


@dataclass(frozen=True, eq=False)
class MetricRewards:
    """Sums of the reward model and contributions of the shown pairs for one metric."""

    candidate_sums: FloatArray  # (n_users,) Σ_{i∈C_u} m̂_ui c(r_ui)
    pair_contributions: FloatArray  # (n_shown,) c(r_ui) of the shown pairs

    def __post_init__(self) -> None:
        freeze(self, "candidate_sums", "pair_contributions")


@dataclass(frozen=True, eq=False)
class RewardData:
    """Shown pairs with rewards and weights, and the reward model's sums over all candidates."""

    user: IntArray  # (n_shown,)
    clicked: FloatArray  # (n_shown,) y
    examination: FloatArray  # (n_shown,) θ
    model_reward: FloatArray  # (n_shown,) m̂
    weight: FloatArray  # (n_shown,) 1/P, P of being shown and examined; NaN: none
    candidate_reward: FloatArray  # (n_users,) Σ_{i∈C_u} m̂_ui
    n_candidates: IntArray  # (n_users,)
    metrics: Mapping[str, MetricRewards]

    def __post_init__(self) -> None:
        freeze(self, "user", "clicked", "examination", "model_reward", "weight")
        freeze(self, "candidate_reward", "n_candidates")

    def __repr__(self) -> str:
        return f"RewardData({self.user.size:,} shown pairs of {self.candidate_reward.size:,} users)"

    def sum_by_user(self, values: FloatArray) -> FloatArray:
        """Return Σ of values over each user's shown pairs, (n_users,)."""
        return np.bincount(self.user, values, minlength=self.candidate_reward.size).astype(np.float64)

    def for_metric(self, metric: Metric) -> MetricRewards:
        """Return the sums of a metric, or raise `InputError` where they were not computed."""
        if metric.label not in self.metrics:
            raise InputError(f"{metric.label} was not among the metrics when the candidates were ranked.")
        return self.metrics[metric.label]

    def without_weights(self) -> RewardData:
        """Return the data with unknown weights, as under a propensity of positive interactions only."""
        return replace(self, weight=np.full(self.user.size, np.nan))


class RewardTerms(NamedTuple):
    """Sums of each user from which an estimate is computed, (n_users,) each."""

    numerator: FloatArray  # N_u
    denominator: FloatArray | None = None  # D_u; None: 1
    volume: FloatArray | None = None  # None: 1


class RewardEstimator(Estimator):
    """Base of estimators over shown pairs and all candidates, for metrics that add up contributions c(r)."""

    # Metrics of mean type are N/D with the same formula for D and c = 1: the average over all relevant pairs.
    # Sum metrics are the mean of N over the users of the population.

    target = "pooled"
    separable = False
    needs_rewards: ClassVar[bool] = True
    counts_all_users: ClassVar[bool] = True

    def check(self, metric: Metric, *, is_probability: bool, n_relevant: NRelevant) -> None:
        """Raise unless the metric adds up contributions of ranks, and P is a probability."""
        super().check(metric, is_probability=is_probability, n_relevant=n_relevant)
        if not metric.adds_up:
            raise InputError(
                f"{self.label} adds up contributions of single items, and {metric.label} has no such "
                "contributions. Use recall@k, precision@k, dcg@k, mean_dcg@k or rbp."
            )
        metric.value_at_rank(np.ones(1), 2.0)  # raises for a metric that is not a function of the rank
        if self.weighted and not is_probability:
            raise PropensityError(
                f"{self.label} needs the chance of being shown, but this propensity is known up to a constant factor "
                "only. Use ImpressionPropensity(log=…), LoggedPropensity(log=…) or KnownPropensity(…)."
            )

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u and D_u of every user of the population."""
        if sample.rewarded is None:
            raise InputError(
                f"{self.label} needs impressions: ipseval.policies.evaluate_rewards(models, split, rewards)."
            )
        terms = self.terms(sample.rewarded, metric)
        numerator = terms.numerator
        if sample.ranked.left_out is not None:
            numerator = np.where(sample.ranked.left_out, np.nan, numerator)
        return UserSums.from_values(np.arange(numerator.size), numerator, terms.denominator, terms.volume)

    @abstractmethod
    def terms(self, rewards: RewardData, metric: Metric) -> RewardTerms:
        """Return N_u, D_u and the volume of each user."""

    def weight_positives(self, sample: Sample) -> FloatArray:
        """Return w of each positive, or 1 where there is no propensity."""
        if self.weighted:
            return sample.weights
        return np.ones(len(sample.ranked))


@dataclass(frozen=True)
class DirectMethod(RewardEstimator):
    """Average a metric over all candidates by the reward model alone (direct method).

    Notes
    -----
    Metrics of mean type: Σ_u Σ_{i∈C_u} m̂_ui c(r_ui) / Σ_u Σ_{i∈C_u} m̂_ui. Sum metrics: the mean of the
    numerator over users. The estimate is as good as the reward model is [1]_.

    References
    ----------
    .. [1] Dudík, Langford & Li, ICML 2011, arXiv:1103.4601
    """

    label: str = DM
    weighted = False
    weighting = "the reward model over all candidates"

    def terms(self, rewards: RewardData, metric: Metric) -> RewardTerms:
        """Return the model's sums over candidates."""
        numerator = rewards.for_metric(metric).candidate_sums
        if metric.kind == "mean":
            return RewardTerms(numerator, rewards.candidate_reward)
        return RewardTerms(numerator)

    def notes(self, *, one_positive_each: bool, n_relevant: NRelevant) -> tuple[str, ...]:
        """Return that the interval does not account for the noise of the model."""
        return ("the interval leaves out the noise of the reward model",)

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return that it is consistent given the reward model."""
        return Claim("consistent", "given a right reward model")


@dataclass(frozen=True)
class DoublyRobust(RewardEstimator):
    """Average a metric by the reward model, corrected with weighted residuals of the shown pairs.

    Notes
    -----
    With C all candidates, w = 1/P, P the chance of being shown and examined, and θ the chance that a shown
    pair was examined, metrics of mean type are [Σ_C m̂ c + Σ_shown w (y − θ m̂) c] over the bracket with
    c = 1. Sum metrics are the mean of the bracket over users [1]_.

    References
    ----------
    .. [1] Dudík, Langford & Li, ICML 2011, arXiv:1103.4601
    """

    label: str = DR
    can_exceed_range: ClassVar[bool] = True

    def terms(self, rewards: RewardData, metric: Metric) -> RewardTerms:
        """Return the model's sums over candidates plus the weighted residuals."""
        metric_rewards = rewards.for_metric(metric)
        expected_clicks = rewards.examination * rewards.model_reward
        residual = rewards.weight * (rewards.clicked - expected_clicks)
        correction = rewards.sum_by_user(residual * metric_rewards.pair_contributions)
        numerator = metric_rewards.candidate_sums + correction
        if metric.kind == "mean":
            return RewardTerms(numerator, rewards.candidate_reward + rewards.sum_by_user(residual))
        return RewardTerms(numerator)

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return that it is consistent given P or the reward model."""
        if metric.kind == "sum":
            return Claim("exactly unbiased", "given P; consistent given a right reward model")
        return Claim("consistent", "given P or a right reward model")


@dataclass(frozen=True)
class SnipsImpressions(RewardEstimator):
    """Average a metric over the clicked pairs with self-normalised inverse propensity weights.

    Notes
    -----
    With w = 1/P, metrics of mean type are Σ w y c / Σ w y over the shown pairs: `snips-pooled` on the clicked
    pairs. Sum metrics are (Σ w y c / Σ w θ) · mean |C_u|, normalised by the weight of all shown pairs,
    clicked or not, whose expectation is the number of candidates.
    """

    label: str = "snips-impressions"

    def terms(self, rewards: RewardData, metric: Metric) -> RewardTerms:
        """Return sums of weighted clicks."""
        weighted_clicks = rewards.weight * rewards.clicked
        contributions = rewards.for_metric(metric).pair_contributions
        numerator = rewards.sum_by_user(weighted_clicks * contributions)
        if metric.kind == "mean":
            return RewardTerms(numerator, rewards.sum_by_user(weighted_clicks))
        weighted_examinations = rewards.sum_by_user(rewards.weight * rewards.examination)
        return RewardTerms(numerator, weighted_examinations, rewards.n_candidates.astype(np.float64))

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return that it is consistent given P."""
        return Claim("consistent", "given P")
