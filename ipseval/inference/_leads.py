"""How far a recommender stays first when the weights change: over γ, and when weights are wrong by Λ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ipseval._base.types import BoolArray, FloatArray
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Estimator, Sample
from ipseval.inference._bounds import required_factors
from ipseval.inference._curves import Curves
from ipseval.inference._intervals import Key
from ipseval.inference._linear import groups, weights_or_ones
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.report._words import number

# γ that are tried, widened to that of the evaluation; two swaps within one step of the grid are not seen.
LOWEST, HIGHEST, STEP = -1.0, 3.0, 0.1
# Metrics that are not linear in contributions take longer: fewer γ, and a limit of work.
COARSE_STEP, MOST_VALUES = 1.0, 5_000_000
PRECISION = 0.003
NAN = float("nan")

Range = tuple[float, float, float, float]


@dataclass(frozen=True)
class Reach:
    """For which weights the highest recommender by weights stays the highest.

    Attributes
    ----------
    gamma : (from, to, lowest, highest) or None
        The γ for which it does, around that of the evaluation, and the range that was tried.
    factor : float
        Λ: unless some weight is wrong by more, it does; NaN: not computed.
    unknown : str
        Why neither is known, in words; "" where one is, or there is nothing to ask.
    """

    gamma: tuple[float, float, float, float] | None = None
    factor: float = NAN
    unknown: str = ""

    def said(self, best: str) -> str:
        """Return it in words; "" where nothing was asked."""
        if self.unknown:
            return f"For which weights {best} stays highest is not known: {self.unknown}."
        if self.gamma is not None:
            every = "every γ" if self.gamma[:2] == self.gamma[2:] else "γ"
            return f"{best} is highest for {every} from {number(self.gamma[0])} to {number(self.gamma[1])}."
        if math.isnan(self.factor):
            return ""
        if math.isinf(self.factor):
            return f"{best} stays highest whatever the weights."
        return f"{best} stays highest unless some weight is wrong by more than a factor of {self.factor:.3g}."


def reaches(
    samples: Mapping[str, Sample],
    definitions: tuple[Sequence[Metric], Sequence[Estimator]],
    propensity: Propensity | None,
    first: Mapping[tuple[str, str], str],
) -> dict[str, Reach]:
    """Return metric -> the γ, or the Λ, for which the first by (metric, estimator) stays the first."""
    found: dict[str, Reach] = {}
    for estimator in definitions[1]:
        own = {metric: name for (metric, label), name in first.items() if label == estimator.label}
        metrics = [one for one in definitions[0] if one.label in own]
        gammas, factors, unknown = {}, {}, "the ranked positives stayed on the cluster"
        if metrics and samples and propensity is not None:
            try:
                unknown = "it would take long; ask for .tipping_points()"
                gammas = leading_gammas(samples, metrics, estimator, propensity, own)
            except PropensityError:  # the weights follow no power law
                unknown = "the estimate is no weighted average of contributions"
                factors = leading_factors(samples, metrics, estimator, own)
            except InputError:  # loaded: the code of the caller's own metric or estimator is not in the file
                unknown = "the file does not hold the code of an object of your own"
        for label in own:
            known = label in gammas or label in factors
            found[label] = Reach(gammas.get(label), factors.get(label, NAN), "" if known else unknown)
    return found


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
            low_end, high_end = (_end(curves, grid, ahead, place, best, curve, side) for side in (-1, 1))
            found[metric] = (low_end, high_end, low, high)
    return found


def _end(
    curves: Curves,
    grid: FloatArray,
    ahead: BoolArray,
    place: int,
    best: Key,
    curve: Mapping[Key, FloatArray],
    step: int,
) -> float:
    """Return the γ at which `best` is no longer ahead, on one side of the grid's `place`; else its border."""
    side = ahead[place::step]
    if side.all():
        return float(grid[-1] if step > 0 else grid[0])
    behind = place + step * int(np.argmin(side))
    ends = float(grid[behind - step]), float(grid[behind])
    # Of all that are ahead there, the first to have caught up: another may have passed it since.
    caught = [key for key in curve if key != best and curve[key][behind] >= curve[best][behind]]
    found = [curves.crossing(best, key, *ends, PRECISION) for key in caught]
    return min(found, key=lambda gamma: step * gamma, default=ends[1])


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
