"""The range of γ of the power law in which a recommender has the highest estimate, and its successors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ipseval.estimators import Estimator, Sample
from ipseval.inference._gamma_curves import GammaCurves
from ipseval.inference.intervals import Key
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.utils.types import BoolArray, FloatArray

# The grid of γ. Two changes of the first recommender within one step of the grid are not found.
LOWEST_GAMMA = -1.0
HIGHEST_GAMMA = 3.0
STEP = 0.1
# Metrics that are not linear in contributions are recomputed for each γ, so their grid has fewer values and
# they are omitted on large data.
COARSE_STEP = 1.0
MOST_VALUES = 5_000_000


@dataclass(frozen=True)
class GammaRange:
    """The range of γ, around a starting value, in which one recommender has the highest estimate.

    Attributes
    ----------
    highest_model : str
        The recommender.
    low, high : float
        It has the highest estimate for every γ of the grid in [low, high].
    lowest, highest : float
        Ends of the grid.
    next_below, next_above : str
        The recommender that overtakes it below `low`, and above `high`; "" where the grid ends.
    """

    highest_model: str
    low: float
    high: float
    lowest: float
    highest: float
    next_below: str = ""
    next_above: str = ""

    @property
    def is_everywhere(self) -> bool:
        """Whether the recommender is first on the whole grid."""
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
        A propensity from a power law.
    start : float
        Value of γ in the range. All weights are equal at −1, as in the unweighted average (AOA).

    Returns
    -------
    dict
        Metric label -> range. A metric is omitted where two recommenders are tied at `start`, where a value
        is undefined, and where the computation would take long.

    Raises
    ------
    PropensityError
        When the propensity follows no power law.
    """
    curves = GammaCurves.from_samples(samples, metrics, [estimator], propensity)
    slow_metrics = {metric for _, metric, _ in curves.nonlinear_keys}
    fast_labels = []
    slow_labels = []
    for metric in metrics:
        if metric.label in slow_metrics:
            slow_labels.append(metric.label)
        else:
            fast_labels.append(metric.label)

    ranges = _find_ranges(curves, fast_labels, start, STEP)
    n_grid_steps = (HIGHEST_GAMMA - LOWEST_GAMMA) / COARSE_STEP
    n_values = len(curves.level) * len(curves.nonlinear_keys) * n_grid_steps
    if n_values <= MOST_VALUES:
        ranges |= _find_ranges(curves, slow_labels, start, COARSE_STEP)
    return ranges


def _find_ranges(
    curves: GammaCurves, labels: Sequence[str], start: float, step: float
) -> dict[str, GammaRange]:
    """Find the ranges of metrics that share the step of the grid."""
    if not labels:
        return {}
    lowest = min(LOWEST_GAMMA, start)
    highest = max(HIGHEST_GAMMA, start)
    grid = np.union1d(np.linspace(lowest, highest, round((highest - lowest) / step) + 1), start)
    start_index = int(np.searchsorted(grid, start))
    selected_curves = curves.select_metrics(labels)
    estimates = selected_curves.compute_values(grid).estimates
    ranges = {}
    for label in labels:
        metric_values = {}
        for key, values in estimates.items():
            if key[1] == label:
                metric_values[key] = values

        gamma_range = _find_range(selected_curves, grid, start_index, metric_values)
        if gamma_range is not None:
            ranges[label] = gamma_range
    return ranges


def _find_range(
    curves: GammaCurves, grid: FloatArray, start_index: int, estimates: Mapping[Key, FloatArray]
) -> GammaRange | None:
    """Find the range of one metric; None where recommenders are tied, or undefined, at the start."""
    start_values = {}
    for key, values in estimates.items():
        start_values[key] = float(values[start_index])

    if len(estimates) < 2 or np.isnan(list(start_values.values())).any():
        return None
    best = max(start_values, key=lambda key: start_values[key])
    if not _is_first(best, estimates)[start_index]:
        return None
    downwards = slice(start_index, None, -1)
    upwards = slice(start_index, None)
    low, next_below = _find_range_end(curves, grid[downwards], best, _slice_values(estimates, downwards))
    high, next_above = _find_range_end(curves, grid[upwards], best, _slice_values(estimates, upwards))
    return GammaRange(
        highest_model=best[0],
        low=low,
        high=high,
        lowest=float(grid[0]),
        highest=float(grid[-1]),
        next_below=next_below,
        next_above=next_above,
    )


def _is_first(best: Key, estimates: Mapping[Key, FloatArray]) -> BoolArray:
    """Return the γ of the grid at which `best` has a higher estimate than all remaining recommenders."""
    rival_values = []
    for key, values in estimates.items():
        if key != best:
            rival_values.append(values)

    return np.asarray(estimates[best] > np.max(rival_values, axis=0))


def _slice_values(estimates: Mapping[Key, FloatArray], part: slice) -> dict[Key, FloatArray]:
    """Return the estimates on a part of the grid."""
    return {key: values[part] for key, values in estimates.items()}


def _find_range_end(
    curves: GammaCurves, grid: FloatArray, best: Key, estimates: Mapping[Key, FloatArray]
) -> tuple[float, str]:
    """Return the γ at which `best` stops being first, and the recommender that overtakes it.

    The grid begins where `best` is first. Returns its end and "" where `best` stays first.
    """
    is_first = _is_first(best, estimates)
    if is_first.all():
        return float(grid[-1]), ""
    index = int(np.argmin(is_first))
    last_first = float(grid[index - 1])
    first_overtaken = float(grid[index])
    # Several recommenders may overtake `best` within this step. The nearest crossing ends the range.
    crossings = {}
    for key, values in estimates.items():
        if key != best and values[index] >= estimates[best][index]:
            crossings[key] = curves.find_crossing(best, key, last_first, first_overtaken)
    if not crossings:  # a value is undefined there
        return first_overtaken, ""
    nearest = min(crossings, key=lambda key: abs(crossings[key] - last_first))
    return crossings[nearest], nearest[0]
