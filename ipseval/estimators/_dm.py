"""The direct method: the reward model in place of what was not shown."""

from __future__ import annotations

from dataclasses import dataclass

from ipseval._base.types import FloatArray
from ipseval.estimators._claims import Claim, NRelevant
from ipseval.estimators._model_assisted import Modelled
from ipseval.estimators._rewarded import Rewarded
from ipseval.metrics import Metric


@dataclass(frozen=True)
class DirectMethod(Modelled):
    """Σ_u Σ_{i∈C_u} m̂_ui c(r_ui) / Σ_u Σ_{i∈C_u} m̂_ui; sum metrics: the mean numerator over users."""

    # As good as the reward model is: Dudík, Langford & Li, ICML 2011, arXiv 1103.4601.

    label: str = "dm"
    weighted = False
    weighting = "the reward model over all candidates"

    def terms(
        self, rewarded: Rewarded, metric: Metric
    ) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        """Return the model's sums."""
        modelled = rewarded.metric(metric).modelled
        return modelled, rewarded.total if metric.kind == "mean" else None, None

    def notes(self, *, one_positive_each: bool, n_relevant: NRelevant) -> tuple[str, ...]:
        """Return that the model's own noise is not in the interval."""
        return ("the interval leaves out the noise of the reward model",)

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return that it rests on the reward model."""
        return Claim("consistent", "given a right reward model")
