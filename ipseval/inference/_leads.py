"""How far a recommender stays first when the weights change: over γ, and when weights are wrong by Λ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ipseval._base.types import BoolArray, FloatArray
from ipseval.estimators import Estimator, Sample
from ipseval.inference._bounds import required_factors
from ipseval.inference._curves import Curves
from ipseval.inference._intervals import Key
from ipseval.inference._linear import groups, weights_or_ones
from ipseval.metrics import Metric
from ipseval.propensity import Propensity

# γ that are tried, widened to that of the evaluation; two swaps within one step of the grid are not seen.
LOWEST, HIGHEST, STEP = -1.0, 3.0, 0.1
# Metrics that are not linear in contributions take longer: fewer γ, and a limit of work.
COARSE_STEP, MOST_VALUES = 1.0, 5_000_000
PRECISION = 0.003

Range = tuple[float, float, float, float]


def leading_gammas(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimator: Estimator,
    propensity: Propensity,
    first: Mapping[str, str],
) -> dict[str, Range]:
    """Return metric -> (from, to, lowest, highest): where its first stays first, what was tried."""
    # The range of γ around that of the evaluation in which `first[metric]` has the highest estimate. Metrics
    # for which this would take long are left out.
    curves = Curves.of(samples, metrics, [estimator], propensity)
    anew = {key[1] for key in curves.slower}
    found: dict[str, Range] = {}
    n_values = len(curves.level) * len(curves.slower) * (HIGHEST - LOWEST) / COARSE_STEP
    for step, labels in ((STEP, {one.label for one in metrics} - anew), (COARSE_STEP, anew)):
        keys = [(model, label, estimator.label) for model in samples for label in labels if label in first]
        if keys and (step == STEP or n_values <= MOST_VALUES):
            found |= _ranges(curves.only(*keys), propensity, first, step)
    return found


def _ranges(
    curves: Curves, propensity: Propensity, first: Mapping[str, str], step: float
) -> dict[str, Range]:
    at = propensity.gamma
    assert at is not None  # it starts from a power law
    low, high = min(LOWEST, at), max(HIGHEST, at)
    grid = np.union1d(np.linspace(low, high, round((high - low) / step) + 1), at)
    place = int(np.searchsorted(grid, at))
    by_metric: dict[str, dict[Key, FloatArray]] = {}
    for key, values in curves.values(grid)[0].items():
        by_metric.setdefault(key[1], {})[key] = values
    found = {}
    for metric, curve in by_metric.items():
        best = next(key for key in curve if key[0] == first[metric])
        rivals = {key: value for key, value in curve.items() if key != best}
        ahead = curve[best] > np.max(list(rivals.values()), axis=0)
        if ahead[place]:
            low_end, high_end = (_end(curves, grid, ahead, place, best, rivals, side) for side in (-1, 1))
            found[metric] = (low_end, high_end, low, high)
    return found


def _end(
    curves: Curves,
    grid: FloatArray,
    ahead: BoolArray,
    place: int,
    best: Key,
    rivals: Mapping[Key, FloatArray],
    step: int,
) -> float:
    """Return the γ at which `best` is no longer ahead, on one side of the grid's `place`; else its border."""
    from scipy.optimize import brentq

    side = ahead[place::step]
    if side.all():
        return float(grid[-1] if step > 0 else grid[0])
    behind = place + step * int(np.argmin(side))
    caught = max(rivals, key=lambda key: rivals[key][behind])
    pair = curves.only(best, caught)

    def gap(gamma: float) -> float:
        values = pair.values(np.array([gamma]))[0]
        return float(values[best][0] - values[caught][0])

    if gap(float(grid[behind])) >= 0:  # a tie
        return float(grid[behind])
    return float(brentq(gap, grid[behind - step], grid[behind], xtol=PRECISION))


def leading_factors(
    samples: Mapping[str, Sample], metrics: Sequence[Metric], estimator: Estimator, first: Mapping[str, str]
) -> dict[str, float]:
    """Return metric -> Λ, how wrong weights must be for another to catch up with the first."""
    # Only for estimators with one normaliser for all users, where Λ is found in one pass over the positives.
    linear, _ = groups(samples, metrics, [estimator])
    weights = weights_or_ones(next(iter(samples.values())))
    found: dict[str, float] = {}
    for group in linear:
        places: dict[str, dict[str, int]] = {}
        for place, (model, metric, _) in enumerate(group.keys):
            places.setdefault(metric, {})[model] = place
        for metric, columns in places.items():
            best = columns.pop(first.get(metric, ""), None)
            if best is not None and columns and not group.form.per_user:
                gaps = group.contributions[:, [best]] - group.contributions[:, list(columns.values())]
                w = group.form.base * (weights if group.form.weighted else 1.0)
                found[metric] = float(required_factors(gaps, w, np.zeros(len(columns))).min())
    return found
