"""How wrong weights must be for an estimate to reach what random exposure shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from ipseval._types import FloatArray
from ipseval.estimators import Estimator, Sample
from ipseval.inference import required_factor
from ipseval.metrics import Metric


def factor_weights(kind: Estimator, metric: Metric, sample: Sample) -> FloatArray | None:
    """Return the weight of each contribution, (n_pos,), where one normaliser serves all; otherwise None."""
    form = kind.linear_form(metric, sample.ranked, is_probability=sample.is_probability)
    if form is None or form.per_user or form.is_sum or not form.weighted:
        return None
    return form.base * sample.weights


def factors(
    contributions: FloatArray | None,
    weights: FloatArray | None,
    row: Mapping[str, Any],
    *,
    confidence_level: float,
    n_tests: int,
) -> dict[str, float]:
    """Return Λ to reach the reference, and Λ to reach the near end of the interval of the bias.

    The interval is one of `n_tests` simultaneous ones (Bonferroni). `row` holds reference, bias and bias_se.
    NaN for estimates that are no mean with one normaliser.
    """
    if contributions is None or weights is None:
        return {"factor": float("nan"), "factor_beyond_noise": float("nan")}
    noise = float(ndtri(1 - (1 - confidence_level) / (2 * n_tests))) * row["bias_se"]
    bias = row["bias"]
    beyond = float(np.sign(bias)) * max(abs(bias) - noise, 0.0)
    estimate = row["reference"] + bias
    return {
        "factor": required_factor(contributions, weights, row["reference"]),
        "factor_beyond_noise": required_factor(contributions, weights, estimate - beyond),
    }
