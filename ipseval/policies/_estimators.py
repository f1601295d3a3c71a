"""Estimators that read impressions and a reward model: dm, dr and snips-impressions, and what they read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Claim, Estimator, Sample, UserSums
from ipseval.metrics import Metric
from ipseval.utils.types import FloatArray, IntArray, freeze

DM: Final = "dm"
DR: Final = "dr"
# N_u, D_u (None: 1) and the volume (None: 1), (n_users,) each.
Terms = tuple[FloatArray, FloatArray | None, FloatArray | None]


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


class Modelled(Estimator):
    """An estimator over shown pairs and all candidates, for metrics that add up contributions c(r)."""

    # Metrics of mean type are N/D with the same formula for D and c = 1: the average over all relevant pairs.
    # Sum metrics are the mean of N over the users of the population.

    target = "pooled"
    separable = False
    needs_rewards: ClassVar[bool] = True
    counts_all_users: ClassVar[bool] = True

    def check(self, metric: Metric, *, is_probability: bool, **known: Any) -> None:
        """Raise unless the metric adds up contributions of ranks, and P is a probability."""
        super().check(metric, is_probability=is_probability, **known)
        if not metric.adds_up:
            raise InputError(
                f"{self.label} adds up contributions of single items, which {metric.label} has none of. Use "
                "recall@k, precision@k, dcg@k, mean_dcg@k or rbp."
            )
        metric.at_rank(np.ones(1), 2.0)  # or the metric says why it is no function of the rank
        if self.weighted and not is_probability:
            raise PropensityError(
                f"{self.label} needs the chance of being shown, but this propensity is known up to a factor "
                "only. Use ImpressionPropensity(log=…), LoggedPropensity(log=…) or KnownPropensity(…)."
            )

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u and D_u of every user of the population."""
        if sample.rewarded is None:
            raise InputError(
                f"{self.label} needs impressions: ipseval.policies.evaluate_rewards(models, split, rewards)."
            )
        numerator, denominator, volume = self.terms(sample.rewarded, metric)
        if sample.ranked.left_out is not None:
            numerator = np.where(sample.ranked.left_out, np.nan, numerator)
        return UserSums.of(np.arange(numerator.size), numerator, denominator, volume)

    @abstractmethod
    def terms(self, rewarded: Rewarded, metric: Metric) -> Terms:
        """Return N_u, D_u (None: 1) and the volume (None: 1), (n_users,) each."""

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w of each positive, or 1 where there is no propensity."""
        return sample.weights if self.weighted else np.ones(len(sample.ranked))


@dataclass(frozen=True)
class DirectMethod(Modelled):
    """Σ_u Σ_{i∈C_u} m̂_ui c(r_ui) / Σ_u Σ_{i∈C_u} m̂_ui; sum metrics: the mean numerator over users."""

    # As good as the reward model is: Dudík, Langford & Li, ICML 2011, arXiv 1103.4601.

    label: str = DM
    weighted = False
    weighting = "the reward model over all candidates"

    def terms(self, rewarded: Rewarded, metric: Metric) -> Terms:
        """Return the model's sums."""
        modelled = rewarded.metric(metric).modelled
        return modelled, rewarded.total if metric.kind == "mean" else None, None

    def notes(self, **known: Any) -> tuple[str, ...]:
        """Return that the model's own noise is not in the interval."""
        return ("the interval leaves out the noise of the reward model",)

    def claim(self, metric: Metric, **known: Any) -> Claim:
        """Return that it rests on the reward model."""
        return Claim("consistent", "given a right reward model")


@dataclass(frozen=True)
class DoublyRobust(Modelled):
    """[Σ_C m̂ c + Σ_shown w (y − θ m̂) c] / the same with c = 1; sum metrics: the mean of the bracket."""

    # C are all candidates, w = 1/P with P the chance of being shown and examined, θ the chance that a shown
    # pair was examined. Both sums are over all users. Dudík, Langford & Li, ICML 2011, arXiv 1103.4601.

    label: str = DR

    def terms(self, rewarded: Rewarded, metric: Metric) -> Terms:
        """Return the sums."""
        made = rewarded.metric(metric)
        rest = rewarded.weight * (rewarded.clicked - rewarded.examined * rewarded.predicted)
        numerator = made.modelled + rewarded.by_user(rest * made.shown)
        if metric.kind == "mean":
            return numerator, rewarded.total + rewarded.by_user(rest), None
        return numerator, None, None

    def claim(self, metric: Metric, **known: Any) -> Claim:
        """Return that it rests on P or on the reward model."""
        if metric.kind == "sum":
            return Claim("exactly unbiased", "given P; consistent given a right reward model")
        return Claim("consistent", "given P or a right reward model")


@dataclass(frozen=True)
class SnipsShown(Modelled):
    """Σ w y c / Σ w y over the shown pairs, w = 1/P; for sum metrics (Σ w y c / Σ w θ) · mean |C_u|."""

    # For metrics of mean type it is `snips-pooled` on the clicked pairs. Sum metrics are normalised by the
    # weight of all shown pairs, clicked or not, whose expectation is the number of candidates.

    label: str = "snips-impressions"

    def terms(self, rewarded: Rewarded, metric: Metric) -> Terms:
        """Return weighted clicks."""
        taken = rewarded.weight * rewarded.clicked
        numerator = rewarded.by_user(taken * rewarded.metric(metric).shown)
        if metric.kind == "mean":
            return numerator, rewarded.by_user(taken), None
        volume = rewarded.n_candidates.astype(np.float64)
        return numerator, rewarded.by_user(rewarded.weight * rewarded.examined), volume

    def claim(self, metric: Metric, **known: Any) -> Claim:
        """Return that it rests on P."""
        return Claim("consistent", "given P")
