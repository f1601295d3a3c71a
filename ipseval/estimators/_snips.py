"""Self-normalised IPS: the unknown scale of P cancels; three choices of the normaliser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ipseval._checks import check_fraction
from ipseval._types import FloatArray
from ipseval.estimators._base import Sample, UserSums
from ipseval.metrics import Auc, Metric


@dataclass(frozen=True)
class Snips:
    """Mean over users of (Σ c/P)/(Σ 1/P), Yang et al. (RecSys 2018) eq. 9.

    Not consistent in the number of users: the ratio of each user keeps a bias of order 1/|S*_u|. With one
    positive per user the weight cancels and it equals `aoa` for every propensity.

    References
    ----------
    Yang et al., RecSys 2018, doi 10.1145/3240323.3240355.
    """

    label: str = "snips"
    weighted: bool = True
    weighting: ClassVar[str] = "1/P over its user's Σ1/P"

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w/Σ_u w of each positive."""
        return np.asarray(sample.weights / sample.user_weight[sample.ranked.segment])

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = the user's self-normalised value, D_u = 1."""
        return UserSums.of(sample.ranked.users, sample.user_values(metric, weighted=True))


@dataclass(frozen=True)
class SnipsGlobal:
    """Σ_u mean(c/P) / Σ_u mean(1/P): users keep equal weight, one normaliser serves them all.

    Equals the mean of the users' self-normalised values, weighted by their mean weight. Sum metrics have
    their weights scaled to the observed volume, Σw̃ = number of observed positives.
    """

    label: str = "snips-global"
    weighted: bool = True
    weighting: ClassVar[str] = "1/P over |S*_u|"

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w/|S*_u| of each positive; for sum metrics it is w."""
        return np.asarray(sample.weights / sample.ranked.counts[sample.ranked.segment])

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = w̄_u v_u, D_u = w̄_u, w̄_u the mean weight of the user's positives."""
        if metric.kind == "sum":
            return observed_volume(sample, metric)
        mean_weight = sample.user_weight / sample.ranked.counts
        values = sample.user_values(metric, weighted=True)
        return UserSums.of(sample.ranked.users, mean_weight * values, mean_weight)


@dataclass(frozen=True)
class SnipsPooled:
    """Σ_uΣ c/P / Σ_uΣ 1/P (Hájek; Steck 2011): consistent for the average over all relevant pairs.

    For `auc` with P on the scale of probabilities: Σ_u[Σŷ(n−1−z) − e₂] / Σ_u[(n−1)e₁ − 2e₂], consistent for
    the share of won pairs; with P up to a factor the weighted plug-in, without a claim. Other metrics that
    are no averages over positives: users' plug-in values, weighted by Σ 1/P.

    References
    ----------
    Steck, Item popularity and recommendation accuracy, RecSys 2011, doi 10.1145/2043932.2043957.
    """

    label: str = "snips-pooled"
    weighted: bool = True

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = Σ w c, D_u = Σ w of the user."""
        if metric.kind == "sum":
            return observed_volume(sample, metric)
        if isinstance(metric, Auc) and sample.is_probability:
            return UserSums.of(
                sample.ranked.users, *metric.pair_sums(sample.ranked, sample.weights, ties=sample.ties)
            )
        values = sample.user_values(metric, weighted=True)
        return UserSums.of(sample.ranked.users, sample.user_weight * values, sample.user_weight)


@dataclass(frozen=True)
class ShrunkSnips:
    """Mean over users of Σwc / (λΣw + (1 − λ)|S*_u| w̄): λ = 1 is `snips`, λ = 0 is `snips-global`.

    w̄ is the mean over users of their mean weight. For metrics of mean type; a list or pairwise value v_u
    enters as Σwc = v_u Σw.

    Parameters
    ----------
    shrinkage : float
        λ in [0, 1].
    """

    shrinkage: float = 0.0
    weighted: bool = True
    weighting: ClassVar[str] = "1/P over its user's shrunk normaliser"

    def __post_init__(self) -> None:
        check_fraction("shrinkage", self.shrinkage, low_open=False, high_open=False)

    @property
    def label(self) -> str:
        """Label with its λ."""
        return f"snips-shrunk({self.shrinkage:g})"

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = the shrunk value plus the first-order effect of the user on w̄, D_u = 1.

        The added term has mean 0, so it leaves the estimate alone and gives it the right influence.
        """
        weight, counts = sample.user_weight, sample.ranked.counts
        values = sample.user_values(metric, weighted=True)
        mean_weight = weight / counts
        overall = float(mean_weight.mean())
        normaliser = self._normaliser(sample)
        shrunk = values * weight / normaliser
        slope = float(np.nanmean(-shrunk * (1 - self.shrinkage) * counts / normaliser))
        return UserSums.of(sample.ranked.users, shrunk + slope * (mean_weight - overall))

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w of each positive over the shrunk normaliser of its user."""
        return np.asarray(sample.weights / self._normaliser(sample)[sample.ranked.segment])

    def _normaliser(self, sample: Sample) -> FloatArray:
        weight, counts = sample.user_weight, sample.ranked.counts
        overall = float((weight / counts).mean())
        return np.asarray(self.shrinkage * weight + (1 - self.shrinkage) * counts * overall)


def observed_volume(sample: Sample, metric: Metric) -> UserSums:
    """Return the sums of a sum metric: (Σ_u Σ w g / Σ_u Σ w) times the mean number of observed positives.

    N_u = Σ w g = v_u Σw/|S*_u|, as the user's own value v_u is |S*_u| Σwg/Σw.
    """
    counts = sample.ranked.counts.astype(float)
    values = sample.user_values(metric, weighted=True)
    return UserSums.of(sample.ranked.users, values * sample.user_weight / counts, sample.user_weight, counts)
