"""Self-normalised IPS over the shown pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._base.types import FloatArray
from ipseval.estimators._claims import Claim, NRelevant
from ipseval.estimators._model_assisted import Modelled
from ipseval.estimators._rewarded import Rewarded
from ipseval.metrics import Metric


@dataclass(frozen=True)
class SnipsShown(Modelled):
    """Σ w y c / Σ w y over the shown pairs, w = 1/P; for sum metrics (Σ w y c / Σ w θ) · mean |C_u|."""

    # For metrics of mean type it is `snips-pooled` on the clicked pairs. Sum metrics are normalised by the
    # weight of all shown pairs, clicked or not, whose expectation is the number of candidates.

    label: str = "snips-shown"

    def terms(
        self, rewarded: Rewarded, metric: Metric
    ) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        """Return weighted clicks."""
        taken = rewarded.weight * rewarded.clicked
        numerator = rewarded.by_user(taken * rewarded.metric(metric).shown)
        if metric.kind == "mean":
            return numerator, rewarded.by_user(taken), None
        volume = rewarded.n_candidates.astype(np.float64)
        return numerator, rewarded.by_user(rewarded.weight * rewarded.examined), volume

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return that it rests on P."""
        return Claim("consistent", "given P")
