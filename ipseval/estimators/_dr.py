"""Doubly robust estimation: the reward model, corrected by what was shown."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ipseval._base.types import FloatArray
from ipseval.errors import InputError
from ipseval.estimators._claims import Claim, NRelevant
from ipseval.estimators._model_assisted import Modelled
from ipseval.estimators._rewarded import Rewarded
from ipseval.metrics import Metric

Terms = tuple[FloatArray, FloatArray | None, FloatArray | None]


@dataclass(frozen=True)
class DoublyRobust(Modelled):
    """[Σ_C m̂ c + Σ_shown w (y − θ m̂) c] / the same with c = 1; sum metrics: the mean of the bracket."""

    # C are all candidates, w = 1/P with P the chance of being shown and examined, θ the chance that a shown
    # pair was examined. Both sums are over all users. `dr(normalised)` multiplies Σ w (y − θ m̂) c by Σ|C_u|
    # / Σ w θ, whose expectation is 1. Dudík, Langford & Li, ICML 2011, arXiv 1103.4601.

    label: str = "dr"
    normalised: bool = False

    def with_parameter(self, text: str) -> DoublyRobust:
        """Return the normalised member."""
        if self.normalised or text != "normalised":
            raise InputError(f"estimator '{self.label}({text})': the one other form is dr(normalised).")
        return replace(self, label=f"dr({text})", normalised=True)

    def terms(self, rewarded: Rewarded, metric: Metric) -> Terms:
        """Return the sums."""
        weight = rewarded.weight
        if self.normalised:
            exposed = np.nansum(weight * rewarded.examined)
            weight = weight * (rewarded.n_candidates.sum() / exposed)
        made = rewarded.metric(metric)
        rest = weight * rewarded.residual
        numerator = made.modelled + rewarded.by_user(rest * made.shown)
        if metric.kind == "mean":
            return numerator, rewarded.total + rewarded.by_user(rest), None
        return numerator, None, None

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return that it rests on P or on the reward model."""
        if not self.normalised and metric.kind == "sum":
            return Claim("exactly unbiased", "given P; consistent given a right reward model")
        return Claim("consistent", "given P or a right reward model")
