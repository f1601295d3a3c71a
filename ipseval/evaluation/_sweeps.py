"""What a page draws of the ranked positives, as a value that a file can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Estimator, Sample
from ipseval.evaluation.verdict import Verdict
from ipseval.inference.gamma_sensitivity import sensitivity
from ipseval.inference.weight_diagnostics import popularity_weights
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.reporting.drawing import N_STYLES
from ipseval.utils.types import FloatArray

# γ of the curves, with that of the evaluation. Two swaps within one step are not seen.
GAMMAS = np.linspace(-1, 3, 17)
# Values that a metric may take which is computed anew for each γ; beyond, fewer recommenders and γ.
MOST_VALUES, FEWER = 1_500_000, 4
PRECISION = 0.001  # of the γ of swaps, which are shown with two decimals

Definitions = tuple[Sequence[Metric], Sequence[Estimator]]


@dataclass(frozen=True, eq=False)
class SweptMetric:
    """The estimates of the highest recommenders over γ, by one metric and estimator."""

    metric: str
    estimator: str
    gamma: FloatArray
    values: Mapping[str, FloatArray]
    at: float
    swaps: tuple[tuple[str, tuple[float, ...], str], ...]


@dataclass(frozen=True, eq=False)
class PageCurves:
    """What a page draws, so that a file can hold it: sweeps over γ, and weights by popularity."""

    sweeps: tuple[SweptMetric, ...] = ()
    popularity: Mapping[str, list[Any]] = field(default_factory=dict)


def compute_page_curves(
    verdicts: Sequence[Verdict],
    samples: Mapping[str, Sample],
    definitions: Definitions,
    propensity: Propensity | None,
) -> PageCurves:
    """Return what a page draws; nothing where the ranked positives or their weights are not known."""
    if not samples or propensity is None:
        return PageCurves()
    try:
        sweeps = [_swept(one, samples, definitions, propensity) for one in verdicts]
    except (PropensityError, InputError):
        # No power law; or the file does not hold the code of a caller's own metric or estimator.
        sweeps = []
    found = popularity_weights(next(iter(samples.values())), definitions[1], propensity)
    return PageCurves(
        tuple(one for one in sweeps if one is not None),
        {str(name): column.tolist() for name, column in found.items()},
    )


def _swept(
    verdict: Verdict, samples: Mapping[str, Sample], definitions: Definitions, propensity: Propensity
) -> SweptMetric | None:
    (metric,) = [one for one in definitions[0] if one.label == verdict.metric]
    ranked = verdict.order[:N_STYLES]
    if not verdict.weighted or not ranked or propensity.gamma is None:
        return None
    (estimator,) = [one for one in definitions[1] if one.label == verdict.weighted]
    first = samples[ranked[0]]
    form = estimator.linear_form(metric, first.ranked, is_probability=first.is_probability)
    is_linear = form is not None and first.contributions(metric) is not None
    heavy = not is_linear and len(first.ranked) * len(ranked) * len(GAMMAS) > MOST_VALUES
    ranked, gammas = (ranked[:FEWER], GAMMAS[::2]) if heavy else (ranked, GAMMAS)
    at = float(propensity.gamma)
    found = sensitivity(
        {model: samples[model] for model in ranked},
        [metric],
        [estimator],
        propensity,
        gamma=np.union1d(gammas, at),
        standard_errors=False,
    )
    rows = found.frame.groupby("model")["estimate"]
    swaps = []
    for row in found.tipping_points(ranked[0], tolerance=PRECISION).to_dict("records"):
        other = row["other"] if row["model"] == ranked[0] else row["model"]
        swaps.append((other, row["tipping_points"], row["statement"]))
    values = {model: rows.get_group(model).to_numpy() for model in ranked}
    return SweptMetric(metric.label, estimator.label, found.gamma, values, at, tuple(swaps))
