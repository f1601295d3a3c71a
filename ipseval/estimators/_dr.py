"""Doubly robust estimation: the reward model, corrected by what was shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ipseval._types import FloatArray
from ipseval.errors import InputError
from ipseval.estimators._claims import Claim, NRelevant
from ipseval.estimators._modelled import Modelled
from ipseval.estimators._rewarded import Rewarded
from ipseval.estimators._sums import UserSums
from ipseval.metrics import Metric

Form = Literal["plain", "normalised", "clipped", "shrunk", "switch"]
Terms = tuple[FloatArray, FloatArray | None, FloatArray | None]
N_TRIED = 12  # limits of the weights


def clipped(weight: FloatArray, limit: float) -> FloatArray:
    """Return min(w, λ)."""
    return np.minimum(weight, limit)


def shrunk(weight: FloatArray, limit: float) -> FloatArray:
    """Return λ² w/(w² + λ²): w where it is small, 0 where it is large."""
    return np.asarray(weight / (1 + (weight / limit) ** 2))


def switched(weight: FloatArray, limit: float) -> FloatArray:
    """Return w where it is at most λ, else 0: the reward model alone."""
    return np.where(weight <= limit, weight, 0.0)


CUTS: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "clipped": clipped,
    "shrunk": shrunk,
    "switch": switched,
}


@dataclass(frozen=True)
class DoublyRobust(Modelled):
    """[Σ_C m̂ c + Σ_shown w (y − θ m̂) c] / the same with c = 1; for sum metrics the mean of the bracket.

    C are all candidates, shown the shown pairs, w = 1/P with P the chance of being shown and examined, θ the
    chance that a pair was examined at its impressions. Both sums are over all users.

    * `dr`: this.
    * `dr(normalised)`: Σ w (y − θ m̂) c is multiplied by Σ|C_u| / Σ w θ, whose expectation is 1.
    * `dr(clipped)`, `dr(shrunk)`, `switch`: min(w, λ), λ²w/(w² + λ²), or w 1{w ≤ λ} in place of w. λ is
      chosen among quantiles of the weights, and none at all, as the one of the smallest SE² + squared
      difference to `dr`: an estimate of the mean squared error (Su et al.). The interval does not carry this
      choice.

    References
    ----------
    Dudík, Langford & Li, ICML 2011, arXiv 1103.4601. Wang, Agarwal & Dudík, Optimal and adaptive off-policy
    evaluation in contextual bandits, ICML 2017, arXiv 1612.01205. Su, Dimakopoulou, Krishnamurthy & Dudík,
    Doubly robust off-policy evaluation with shrinkage, ICML 2020, arXiv 1907.09623.
    """

    label: str = "dr"
    form: Form = "plain"

    def with_parameter(self, text: str) -> DoublyRobust:
        """Return the member of a form: normalised, clipped or shrunk."""
        if self.form != "plain" or text not in ("normalised", "clipped", "shrunk"):
            raise InputError(
                f"estimator '{self.label}({text})': the forms are dr(normalised), dr(clipped), dr(shrunk)."
            )
        return replace(self, label=f"dr({text})", form=text)  # type: ignore[arg-type]  # one of the forms

    def terms(self, rewarded: Rewarded, metric: Metric) -> Terms:
        """Return the sums."""
        weight = rewarded.weight
        if self.form == "normalised":
            exposed = np.nansum(weight * rewarded.examined)
            weight = weight * (rewarded.n_candidates.sum() / exposed)
        plain = self._with(weight, rewarded, metric)
        if self.form not in CUTS or np.isnan(weight).any():
            return plain
        return self._chosen(plain, rewarded, metric)

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return that it rests on P or on the reward model."""
        if self.form in CUTS:
            return Claim("consistent", "given a right reward model; given P, but for the weight cut")
        if self.form == "plain" and metric.kind == "sum":
            return Claim("exactly unbiased", "given P; consistent given a right reward model")
        return Claim("consistent", "given P or a right reward model")

    def _with(self, weight: FloatArray, rewarded: Rewarded, metric: Metric) -> Terms:
        made = rewarded.metric(metric)
        rest = weight * rewarded.residual
        numerator = made.modelled + rewarded.by_user(rest * made.shown)
        if metric.kind == "mean":
            return numerator, rewarded.total + rewarded.by_user(rest), None
        return numerator, None, None

    def _chosen(self, plain: Terms, rewarded: Rewarded, metric: Metric) -> Terms:
        """Return the sums with the limit of the smallest estimated mean squared error."""
        users, cut = np.arange(rewarded.total.size), CUTS[self.form]
        first = UserSums.of(users, *plain)
        best, lowest = plain, first.standard_error() ** 2
        for share in np.linspace(0, 1, N_TRIED, endpoint=False):
            limit = float(np.quantile(rewarded.weight, share))
            tried = self._with(cut(rewarded.weight, limit), rewarded, metric)
            sums = UserSums.of(users, *tried)
            error = sums.standard_error() ** 2 + (sums.value() - first.value()) ** 2
            if error < lowest:
                best, lowest = tried, error
        return best
