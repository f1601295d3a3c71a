"""Reference values: metric values of recommenders that were measured in an experiment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval.correction._path import CorrectionPath
from ipseval.errors import InputError, UnknownNameError
from ipseval.utils.checks import check_choice, check_real, check_type
from ipseval.utils.types import BoolArray, FloatArray

RANDOMISED = "randomised"
RANDOMISED_RATIO = "randomised-ratio"
Source = Literal["randomised", "randomised-ratio"]
# (recommender, or recommender and reference) -> metric -> (value, standard error)
ReferenceValuesLike = Mapping[Any, Mapping[str, tuple[float, float]]]

ALARM = 0.05  # chance of a false alarm of the check of reference values, over all of them
POWER = 0.8  # power at which the check detects an error of `detectable_error`
CHECK_COLUMNS = (
    "model",
    "reference",
    "metric",
    "value",
    "std_error",
    "expected",
    "expected_error",
    "z",
    "disagrees",
    "detectable_error",
)
EXAMPLE = ' Pass {"incumbent": {"recall@10": (0.081, 0.006)}}.'


@dataclass(frozen=True, kw_only=True)
class ReferenceValue:
    """A metric value of a recommender, or the ratio of two, that an experiment measured.

    Attributes
    ----------
    model : str
        The recommender.
    reference : str
        The recommender in the denominator of a ratio; "" where the value is the metric itself.
    metric : str
        Label of the metric.
    value, std_error : float
    """

    model: str
    reference: str
    metric: str
    value: float
    std_error: float

    @property
    def is_ratio(self) -> bool:
        """Whether the value is a ratio of two recommenders."""
        return self.reference != ""

    @property
    def arm(self) -> tuple[str, str]:
        """The recommender and the reference, which one experiment measured by all metrics together."""
        return self.model, self.reference


def parse_reference_values(
    reference_values: ReferenceValuesLike | None, source: Source | None
) -> tuple[ReferenceValue, ...]:
    """Return the reference values of a nested mapping; none for None.

    Raises
    ------
    InputError
        For another type, a missing or unknown source, names that do not fit the source, values outside
        [0, 1], ratios that are not above 0, and standard errors that are not above 0.
    """
    if source is not None:
        check_choice("source", source, (RANDOMISED, RANDOMISED_RATIO))
    if reference_values is None:
        if source is not None:
            raise InputError(
                "requires reference values; got source alone.",
                argument="source",
                advice="Pass both {source} and {reference_values}, or neither",
            )
        return ()
    check_type("reference_values", reference_values, Mapping, EXAMPLE)
    if source is None:
        raise InputError(
            "requires source: 'randomised' if the values are the metric itself, measured "
            "where items were shown at random, or 'randomised-ratio' if they are ratios of such values of two "
            "recommenders. A click-through rate is neither.",
            argument="reference_values",
        )
    values = []
    for arm, values_by_metric in reference_values.items():
        check_type(f"reference_values[{arm!r}]", values_by_metric, Mapping, EXAMPLE)
        model, reference = _parse_arm(arm, source)
        for metric, pair in values_by_metric.items():
            value, std_error = _parse_value_and_error(f"reference_values[{arm!r}][{metric!r}]", pair, source)
            values.append(
                ReferenceValue(
                    model=model,
                    reference=reference,
                    metric=str(metric),
                    value=value,
                    std_error=std_error,
                )
            )
    return tuple(values)


def _parse_arm(arm: Any, source: Source) -> tuple[str, str]:
    """Return a recommender and the reference of its ratio, "" where the value is not a ratio."""
    if source == RANDOMISED:
        if not isinstance(arm, str):
            raise InputError(
                f"the keys of reference_values must be names of recommenders with source='randomised'; got "
                f"{arm!r:.80}. Pass source='randomised-ratio' for ratios of two recommenders."
            )
        return arm, ""
    is_pair = isinstance(arm, tuple) and len(arm) == 2 and all(isinstance(name, str) for name in arm)
    if not is_pair or "" in arm:
        raise InputError(
            "the keys of reference_values must be pairs of names with source='randomised-ratio', such as "
            f'("new", "old"); got {arm!r:.80}. Pass source=\'randomised\' for values of the metric itself.'
        )
    return arm[0], arm[1]


def _parse_value_and_error(name: str, pair: object, source: Source) -> tuple[float, float]:
    """Return a value and its standard error."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"{name} must be (value, standard error); got {pair!r:.80}. Pass two numbers.")
    value = check_real(name, pair[0])
    std_error = check_real(f"the standard error of {name}", pair[1])
    if source == RANDOMISED_RATIO and value <= 0:
        raise InputError(f"{name} must be above 0; got {value:g}. Pass the ratio of the two values.")
    if source == RANDOMISED and not 0 <= value <= 1:
        raise InputError(f"{name} must be from 0 to 1; got {value:g}. Divide percentages by 100.")
    if std_error <= 0:
        raise InputError(
            f"the standard error of {name} must be above 0; got {std_error:g}. Pass the error of the "
            "experiment."
        )
    return value, std_error


def check_reference_names(
    values: Sequence[ReferenceValue], models: Collection[str], metrics: Collection[str]
) -> None:
    """Raise `UnknownNameError` for reference values of recommenders or metrics that were not requested."""
    for reference_value in values:
        for name in filter(None, reference_value.arm):
            if name not in models:
                raise UnknownNameError("recommender in reference_values", name, models)
        if reference_value.metric not in metrics:
            advice = "Request it by metrics=; it must be an average over relevant items."
            raise UnknownNameError("metric in reference_values", reference_value.metric, metrics, advice)


class ValuePosterior(Protocol):
    """A posterior with means and covariances of the cells."""

    @property
    def total_mean(self) -> FloatArray:
        """Mean of each cell, (n_cells,)."""

    @property
    def total_covariance(self) -> FloatArray:
        """Covariance of the cells, (n_cells, n_cells)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ReferenceValues:
    """Reference values as observations of linear functions of the cells: contrast · θ = observed ± error.

    A ratio r ± s of two values is the observation θ₁ − rθ₂ = 0 ± s m, where m is the mean of θ₂ without the
    ratio.

    Attributes
    ----------
    values : tuple of ReferenceValue
    contrast : (n, n_cells) array
    scale : (n,) array
        1, or m of a ratio.
    """

    values: tuple[ReferenceValue, ...]
    contrast: FloatArray
    scale: FloatArray

    @classmethod
    def from_values(
        cls, values: Sequence[ReferenceValue], path: CorrectionPath, expected: FloatArray
    ) -> ReferenceValues:
        """Return the observations; `expected` holds the means of the cells without them."""
        check_reference_names(values, path.models, [metric.label for metric in path.metrics])
        position = {cell: number for number, cell in enumerate(path.cells)}
        contrasts = np.zeros((len(values), len(position)))
        scale = np.ones(len(values))
        for row, reference_value in enumerate(values):
            contrasts[row, position[reference_value.model, reference_value.metric]] += 1
            if not reference_value.is_ratio:
                continue
            denominator = position[reference_value.reference, reference_value.metric]
            if expected[denominator] <= 0:
                raise InputError(
                    f"the reference of a ratio must have a value above 0; {reference_value.metric} of "
                    f"{reference_value.reference!r} is expected to be 0. Remove it from reference_values."
                )
            contrasts[row, denominator] -= reference_value.value
            scale[row] = expected[denominator]
        return cls(values=tuple(values), contrast=contrasts, scale=scale)

    @property
    def observed(self) -> FloatArray:
        """Observed values of the contrasts, (n,)."""
        return np.array([0.0 if value.is_ratio else value.value for value in self.values])

    @property
    def error(self) -> FloatArray:
        """Standard errors of `observed`, (n,)."""
        return self.scale * [value.std_error for value in self.values]

    def select(self, keep: BoolArray) -> ReferenceValues | None:
        """Return the selected reference values, or None if there are none."""
        if not keep.any():
            return None
        values = tuple(self.values[position] for position in np.flatnonzero(keep))
        return ReferenceValues(values=values, contrast=self.contrast[keep], scale=self.scale[keep])

    def compare_with_expectation(
        self, compute_posterior: Callable[[ReferenceValues | None], ValuePosterior]
    ) -> pd.DataFrame:
        """Return each reference value with its expectation from the remaining values and all other data.

        All values of one experiment (recommender and reference) are excluded together. `z` is the difference
        of value and expectation over its standard error; `disagrees` is true where it differs significantly
        from 0, at 0.05 over all experiments. `detectable_error` is the error of a value that is detected with
        80% power. `compute_posterior` returns the posterior given reference values, or given None.
        """
        arms = [value.arm for value in self.values]
        limit = float(ndtri(1 - ALARM / (2 * len(set(arms)))))
        rows = []
        for number, value in enumerate(self.values):
            is_other_arm = np.array([arm != value.arm for arm in arms])
            posterior = compute_posterior(self.select(is_other_arm))
            contrast = self.contrast[number]
            scale = self.scale[number]
            residual = (self.observed[number] - contrast @ posterior.total_mean) / scale
            variance = max(contrast @ posterior.total_covariance @ contrast, 0)
            error = float(np.hypot(np.sqrt(variance) / scale, value.std_error))
            z = residual / error
            rows.append(
                (
                    value.model,
                    value.reference,
                    value.metric,
                    value.value,
                    value.std_error,
                    value.value - residual,
                    error,
                    z,
                    abs(z) > limit,
                    (limit + float(ndtri(POWER))) * error,
                )
            )
        return pd.DataFrame(rows, columns=list(CHECK_COLUMNS))
