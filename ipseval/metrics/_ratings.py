"""Errors of predicted ratings: mean absolute, mean squared and root mean squared error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ipseval._registry import lookup
from ipseval._types import FloatArray
from ipseval.errors import InputError


@dataclass(frozen=True)
class RatingMetric:
    """A mean over user–item pairs of a loss δ(predicted, rated), or its square root.

    Attributes
    ----------
    label : str
        "mae", "mse" or "rmse".
    loss : callable
        Error (predicted − rated), in rating points -> loss of the same shape.
    root : bool
        Whether the metric is the root of the mean.
    formula : str
        For the card.
    """

    label: str
    loss: Callable[[FloatArray], FloatArray] = field(repr=False)
    root: bool
    formula: str

    def __repr__(self) -> str:
        return self.label


RATING_METRICS: dict[str, RatingMetric] = {
    "mae": RatingMetric("mae", np.abs, False, "Σ_{u,i} |ŷ_ui − y_ui| / (|U|·|I|)"),
    "mse": RatingMetric("mse", np.square, False, "Σ_{u,i} (ŷ_ui − y_ui)² / (|U|·|I|)"),
    "rmse": RatingMetric("rmse", np.square, True, "√(Σ_{u,i} (ŷ_ui − y_ui)² / (|U|·|I|))"),
}


def rating_metric(label: str | RatingMetric) -> RatingMetric:
    """Return the rating metric that a label names; a RatingMetric is returned as it is.

    Examples
    --------
    >>> rating_metric("mae")
    mae
    """
    if isinstance(label, RatingMetric):
        return label
    if not isinstance(label, str):
        raise InputError(
            f"a rating metric is one of {', '.join(RATING_METRICS)}; got {type(label).__name__}."
        )
    return lookup(RATING_METRICS, label, "rating metric")
