"""What the estimators that read impressions have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from ipseval._base.types import FloatArray
from ipseval.errors import InputError, PropensityError
from ipseval.estimators._base import Estimator, Target
from ipseval.estimators._claims import NRelevant
from ipseval.estimators._rewarded import Rewarded
from ipseval.estimators._sample import Sample
from ipseval.estimators._sums import UserSums
from ipseval.metrics import Metric


class Modelled(Estimator):
    """An estimator over shown pairs and all candidates, for metrics that add up contributions c(r)."""

    # Metrics of mean type are N/D with the same formula for D and c = 1: the average over all relevant pairs.
    # Sum metrics are the mean of N over the users of the population.

    target: Target = "pooled"
    separable = False
    needs_rewards: ClassVar[bool] = True
    counts_all_users: ClassVar[bool] = True

    def check(self, metric: Metric, *, is_probability: bool, n_relevant: NRelevant) -> None:
        """Raise unless the metric adds up contributions of ranks, and P is a probability."""
        super().check(metric, is_probability=is_probability, n_relevant=n_relevant)
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
    def terms(
        self, rewarded: Rewarded, metric: Metric
    ) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        """Return N_u, D_u (None: 1) and the volume (None: 1), (n_users,) each."""

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w of each positive, or 1 where there is no propensity."""
        return sample.weights if self.weighted else np.ones(len(sample.ranked))
