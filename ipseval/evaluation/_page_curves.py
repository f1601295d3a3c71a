"""Curves over γ and weights by popularity, for an HTML page, as values that a file can store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Estimator, Sample
from ipseval.evaluation.verdict import Verdict
from ipseval.inference import Sensitivity
from ipseval.inference.gamma_sensitivity import sensitivity
from ipseval.inference.weight_diagnostics import group_weights_by_popularity
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.reporting.pictures import N_STYLES
from ipseval.utils.types import FloatArray

# γ of the curves, in addition to that of the evaluation. Two swaps within one step are not detected.
GAMMAS = np.linspace(-1, 3, 17)
# Limit of the work for metrics that are computed anew for each γ: above it, fewer curves are drawn.
MOST_VALUES = 1_500_000
N_MODELS_ABOVE_LIMIT = 4

Definitions = tuple[Sequence[Metric], Sequence[Estimator]]


@dataclass(frozen=True, eq=False)
class GammaSweep:
    """The estimates of the highest recommenders over γ, by one metric and estimator.

    Attributes
    ----------
    metric, estimator : str
        Labels.
    gamma : (n,) array
    values : mapping
        Recommender -> its estimates, (n,).
    at : float
        γ of the evaluation.
    swaps : tuple
        (recommender, γ at which it changes order with the first one, statement) for all but the first.
    """

    metric: str
    estimator: str
    gamma: FloatArray
    values: Mapping[str, FloatArray]
    at: float
    swaps: tuple[tuple[str, tuple[float, ...], str], ...]


@dataclass(frozen=True, eq=False)
class PageCurves:
    """The data of a page's curves: estimates over γ, and weights by popularity."""

    sweeps: tuple[GammaSweep, ...] = ()
    popularity: Mapping[str, list[Any]] = field(default_factory=dict)


def compute_page_curves(
    verdicts: Sequence[Verdict],
    samples: Mapping[str, Sample],
    definitions: Definitions,
    propensity: Propensity | None,
) -> PageCurves:
    """Compute the curves of a page; none without the ranked positives or their weights."""
    if not samples or propensity is None:
        return PageCurves()
    sweeps = []
    try:
        for verdict in verdicts:
            sweep = _sweep_gamma(verdict, samples, definitions, propensity)
            if sweep is not None:
                sweeps.append(sweep)
    except (PropensityError, InputError):
        # The propensity is not a power law, or a loaded file lacks the code of a custom metric or estimator.
        sweeps = []
    weights = group_weights_by_popularity(next(iter(samples.values())), definitions[1], propensity)
    weight_lists = {}
    for name, column in weights.items():
        weight_lists[str(name)] = column.tolist()

    return PageCurves(
        sweeps=tuple(sweeps),
        popularity=weight_lists,
    )


def _sweep_gamma(
    verdict: Verdict, samples: Mapping[str, Sample], definitions: Definitions, propensity: Propensity
) -> GammaSweep | None:
    """Compute the estimates of the highest recommenders over γ; None where there are no weights by γ."""
    metrics, estimators = definitions
    (metric,) = [definition for definition in metrics if definition.label == verdict.metric]
    models = verdict.order[:N_STYLES]
    if not verdict.weighted or not models or propensity.gamma is None:
        return None
    (estimator,) = [definition for definition in estimators if definition.label == verdict.weighted]
    gammas = GAMMAS
    if _exceeds_limit(samples[models[0]], metric, estimator, len(models)):
        models = models[:N_MODELS_ABOVE_LIMIT]
        gammas = GAMMAS[::2]
    evaluation_gamma = float(propensity.gamma)
    swept = sensitivity(
        {model: samples[model] for model in models},
        [metric],
        [estimator],
        propensity,
        gamma=np.union1d(gammas, evaluation_gamma),
        standard_errors=False,
    )
    estimates = swept.frame.groupby("model")["estimate"]
    values_by_model = {}
    for model in models:
        values_by_model[model] = estimates.get_group(model).to_numpy()

    return GammaSweep(
        metric=metric.label,
        estimator=estimator.label,
        gamma=swept.gamma,
        values=values_by_model,
        at=evaluation_gamma,
        swaps=_find_swaps(swept, models[0]),
    )


def _exceeds_limit(sample: Sample, metric: Metric, estimator: Estimator, n_models: int) -> bool:
    """Return whether a metric must be computed anew for each γ, from too many positives."""
    form = estimator.linear_form(metric, sample.ranked, is_probability=sample.is_probability)
    is_linear = form is not None and sample.contributions(metric) is not None
    return not is_linear and len(sample.ranked) * n_models * len(GAMMAS) > MOST_VALUES


def _find_swaps(swept: Sensitivity, first: str) -> tuple[tuple[str, tuple[float, ...], str], ...]:
    """Return the γ at which each recommender changes order with the first one, and a statement."""
    swaps = []
    for row in swept.tipping_points(first).to_dict("records"):
        rival = row["model"]
        if rival == first:
            rival = row["other"]
        swaps.append((rival, row["tipping_points"], row["statement"]))
    return tuple(swaps)
