"""Self-normalised IPS with a normaliser between that of the user and that of all users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._base.checks import check_fraction
from ipseval._base.types import BoolArray, FloatArray
from ipseval.errors import InputError
from ipseval.estimators._base import Estimator
from ipseval.estimators._claims import Claim, NRelevant
from ipseval.estimators._sample import Sample
from ipseval.estimators._sums import UserSums
from ipseval.metrics import Metric


@dataclass(frozen=True)
class ShrunkSnips(Estimator):
    """Mean over users of Σwc / (λΣw + (1 − λ)|S*_u| w̄): λ = 1 is `snips`, λ = 0 is `snips-global`."""

    # w̄ is the mean over users of their mean weight; users whose value is undefined do not enter it. For
    # metrics of mean type; a list or pairwise value v_u enters as Σwc = v_u Σw.

    shrinkage: float = 0.0  # λ in [0, 1]
    weighting = "1/P over its user's shrunk normaliser"
    separable = False

    def __post_init__(self) -> None:
        check_fraction("shrinkage", self.shrinkage, low_open=False, high_open=False)

    @property
    def label(self) -> str:  # type: ignore[override]  # follows from λ
        """Label with its λ."""
        return f"snips-shrunk({self.shrinkage:g})"

    def with_parameter(self, text: str) -> ShrunkSnips:
        """Return the estimator with another λ."""
        try:
            return ShrunkSnips(float(text))
        except ValueError:
            raise InputError(
                f"estimator 'snips-shrunk({text})': the shrinkage must be a number in [0, 1]."
            ) from None

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = the shrunk value plus the first-order effect of the user on w̄, D_u = 1."""
        # The added term has mean 0, so it leaves the estimate alone and gives it the right influence.
        values = sample.user_values(metric, weighted=True)
        defined = ~np.isnan(values)
        mean_weight = sample.user_weight / sample.ranked.counts
        overall, normaliser = self._normaliser(sample, defined)
        shrunk = values * sample.user_weight / normaliser
        effect = -shrunk[defined] * (1 - self.shrinkage) * sample.ranked.counts[defined] / normaliser[defined]
        slope = float(np.mean(effect)) if effect.size else 0.0
        return UserSums.of(sample.ranked.users, shrunk + slope * (mean_weight - overall))

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w of each positive over the shrunk normaliser of its user."""
        _, normaliser = self._normaliser(sample, np.ones(sample.ranked.counts.size, dtype=bool))
        return np.asarray(sample.weights / normaliser[sample.ranked.segment])

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return that nothing is claimed."""
        return Claim(
            "no claim", "" if metric.kind == "mean" else "observed positives stand in for all relevant items"
        )

    def _normaliser(self, sample: Sample, users: BoolArray) -> tuple[float, FloatArray]:
        """Return w̄ over some of the users, and the normaliser of each user, (n_users_with_positives,)."""
        weight, counts = sample.user_weight, sample.ranked.counts
        overall = float((weight / counts)[users].mean()) if users.any() else float("nan")
        return overall, np.asarray(self.shrinkage * weight + (1 - self.shrinkage) * counts * overall)
