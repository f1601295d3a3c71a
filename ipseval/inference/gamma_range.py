"""For which γ of the power law a recommender keeps the highest estimate, and which one takes over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ipseval.estimators import Estimator, Sample
from ipseval.inference._curves import Curves
from ipseval.inference.intervals import Key
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.utils.types import FloatArray

# The values of γ that are tried. Two changes of the first place within one step of the grid are not seen.
LOWEST_GAMMA = -1.0
HIGHEST_GAMMA = 3.0
STEP = 0.1
# Metrics that are not linear in contributions are computed anew for each γ: fewer values, and a limit of
# work.
COARSE_STEP = 1.0
MOST_VALUES = 5_000_000
PRECISION = 0.003


@dataclass(frozen=True)
class GammaRange:
    """The range of γ, around a starting value, in which one recommender has the highest estimate.

    Attributes
    ----------
    first : str
        The recommender.
    low, high : float
        It has the highest estimate for every γ of the grid in [low, high].
    lowest, highest : float
        The range that was tried.
    next_below, next_above : str
        The recommender that takes over below `low`, and above `high`; "" where the range that was tried ends.
    """

    first: str
    low: float
    high: float
    lowest: float
    highest: float
    next_below: str = ""
    next_above: str = ""

    @property
    def is_everywhere(self) -> bool:
        """Whether the recommender is first in the whole range that was tried."""
        return (self.low, self.high) == (self.lowest, self.highest)


def find_gamma_ranges(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimator: Estimator,
    propensity: Propensity | None,
    start: float,
) -> dict[str, GammaRange]:
    """Find, for each metric, the range of γ around `start` in which the same recommender is first.

    Parameters
    ----------
    samples : mapping
        Recommender -> its ranked positives with their popularity.
    metrics : sequence of Metric
    estimator : Estimator
        A weighted estimator.
    propensity : Propensity or None
        One of a power law.
    start : float
        −1 is the unweighted average: there all weights are equal.

    Returns
    -------
    dict
        Metric label -> range. A metric is left out where two recommenders are tied at `start`, where a
        value is
        undefined, and where computing it would take long.

    Raises
    ------
    PropensityError
        When the propensity follows no power law.
    """
    curves = Curves.of(samples, metrics, [estimator], propensity)
    slow_metrics = {key[1] for key in curves.slower}
    fast_metrics = [metric.label for metric in metrics if metric.label not in slow_metrics]
    n_values = len(curves.level) * len(curves.slower) * (HIGHEST_GAMMA - LOWEST_GAMMA) / COARSE_STEP
    ranges = _ranges(curves, samples, fast_metrics, estimator, start, STEP)
    if slow_metrics and n_values <= MOST_VALUES:
        slow_labels = [metric.label for metric in metrics if metric.label in slow_metrics]
        ranges |= _ranges(curves, samples, slow_labels, estimator, start, COARSE_STEP)
    return ranges


def _ranges(
    curves: Curves,
    samples: Mapping[str, Sample],
    labels: Sequence[str],
    estimator: Estimator,
    start: float,
    step: float,
) -> dict[str, GammaRange]:
    """Find the ranges of some metrics on a grid of one step."""
    if not labels:
        return {}
    lowest = min(LOWEST_GAMMA, start)
    highest = max(HIGHEST_GAMMA, start)
    grid = np.union1d(np.linspace(lowest, highest, round((highest - lowest) / step) + 1), start)
    start_index = int(np.searchsorted(grid, start))
    keys = [(model, label, estimator.label) for label in labels for model in samples]
    some_curves = curves.only(*keys)
    values = some_curves.values(grid)[0]
    ranges = {}
    for label in labels:
        curve = {key: values[key] for key in keys if key[1] == label and key in values}
        found = _range_of(some_curves, grid, start_index, curve)
        if found is not None:
            ranges[label] = found
    return ranges


def _range_of(
    curves: Curves, grid: FloatArray, start_index: int, curve: Mapping[Key, FloatArray]
) -> GammaRange | None:
    """Find the range of one metric; None where no recommender alone is first at the start."""
    at_start = {key: float(values[start_index]) for key, values in curve.items()}
    if len(curve) < 2 or any(np.isnan(value) for value in at_start.values()):
        return None
    best = max(at_start, key=lambda key: at_start[key])
    rivals = [key for key in curve if key != best]
    rival_values = np.max([curve[key] for key in rivals], axis=0)
    is_first = curve[best] > rival_values
    if not is_first[start_index]:
        return None
    downwards = slice(start_index, None, -1)
    upwards = slice(start_index, None)
    low, next_below = _end(curves, grid[downwards], best, _sliced(curve, downwards))
    high, next_above = _end(curves, grid[upwards], best, _sliced(curve, upwards))
    return GammaRange(best[0], low, high, float(grid[0]), float(grid[-1]), next_below, next_above)


def _sliced(curve: Mapping[Key, FloatArray], part: slice) -> dict[Key, FloatArray]:
    return {key: values[part] for key, values in curve.items()}


def _end(curves: Curves, grid: FloatArray, best: Key, curve: Mapping[Key, FloatArray]) -> tuple[float, str]:
    """Return where `best` stops being first, on a grid that begins where it is, and what takes over there.

    Returns the end of the grid and "" where it stays first.
    """
    rivals = [key for key in curve if key != best]
    is_first = curve[best] > np.max([curve[key] for key in rivals], axis=0)
    if is_first.all():
        return float(grid[-1]), ""
    step = int(np.argmin(is_first))
    before = float(grid[step - 1])
    after = float(grid[step])
    # Several may have caught up within this step: the first to do so takes over, others may pass it later.
    overtaking = [key for key in rivals if curve[key][step] >= curve[best][step]]
    crossings = {key: curves.crossing(best, key, before, after, PRECISION) for key in overtaking}
    if not crossings:  # a value is undefined there
        return after, ""
    nearest = min(crossings, key=lambda key: abs(crossings[key] - before))
    return crossings[nearest], nearest[0]
