"""How wrong weights must be for an estimate to reach what random exposure shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from ipseval._types import FloatArray, IntArray
from ipseval.estimators import Estimator, LinearForm, Sample
from ipseval.inference._factors import required_factor
from ipseval.metrics import Metric


def factor_weights(
    kind: Estimator, metrics: Sequence[Metric], sample: Sample
) -> list[tuple[IntArray, FloatArray]]:
    """Return places of metrics and the weight of each of their contributions, (n_pos,), form by form.

    Metrics without one normaliser for all positives are in none.
    """
    places: dict[LinearForm, list[int]] = {}
    for place, metric in enumerate(metrics):
        form = kind.linear_form(metric, sample.ranked, is_probability=sample.is_probability)
        if form is not None and form.weighted and not (form.per_user or form.is_sum):
            places.setdefault(form, []).append(place)
    return [(np.array(of), form.base * sample.weights) for form, of in places.items()]


def factors(
    contributions: FloatArray,
    weights: FloatArray,
    reference: FloatArray,
    bias: FloatArray,
    bias_se: FloatArray,
    *,
    confidence_level: float,
    n_tests: int,
) -> tuple[FloatArray, FloatArray]:
    """Return Λ to reach the reference, and Λ to reach the near end of the interval of the bias, (k,) each.

    The interval is one of `n_tests` simultaneous ones (Bonferroni). NaN where a column of the contributions
    (n_pos, k) is.
    """
    noise = float(ndtri(1 - (1 - confidence_level) / (2 * n_tests))) * bias_se
    beyond = np.sign(bias) * np.maximum(np.abs(bias) - noise, 0.0)
    targets = reference, reference + bias - beyond
    reached, near = (required_factor(contributions, weights, one) for one in targets)
    return reached, near
