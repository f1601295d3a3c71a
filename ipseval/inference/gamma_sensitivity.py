"""Sensitivity to γ: R(γ) over a grid, its slope, and the γ at which two recommenders change order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators import Estimator, Sample
from ipseval.estimators.labels import display_name
from ipseval.inference._gamma_curves import TOLERANCE, GammaCurves
from ipseval.inference._linear_groups import list_keys
from ipseval.inference.intervals import Key, compute_normal_interval
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.reporting import Tables
from ipseval.reporting.formatting import format_inner_interval
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Remark, Table
from ipseval.utils.checks import as_float_vector, check_choice, check_finite
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray

SENSITIVITY_COLUMNS = (
    "model",
    "metric",
    "estimator",
    "gamma",
    "estimate",
    "std_error",
    "ci_low",
    "ci_high",
    "derivative",
)
TIPPING_COLUMNS = (
    "metric",
    "estimator",
    "model",
    "other",
    "n_tipping",
    "tipping_points",
    "statement",
    "note",
)

# A difference below this share of the values is rounding.
ROUNDING = 1e-12


@public_class
@dataclass(frozen=True, eq=False)
class Sensitivity(Result):
    """Estimates R(γ) of every recommender, metric and estimator over a grid of γ.

    Parameters
    ----------
    frame : DataFrame
        Columns model, metric, estimator, gamma, estimate, std_error, ci_low, ci_high (for known n* and γ;
        NaN unless requested), derivative = dR/dγ (NaN for estimates not linear in contributions).
    gamma : (n_gamma,) float array
        The grid, ascending.
    reference : float or None
        γ of the evaluation.
    values : dict
        (recommender, metric, estimator) -> R(γ) over the grid.
    samples : mapping of str to Sample
        Ranked positives of each recommender, from which R(γ) is computed between the γ of the grid.
    definitions : tuple of two sequences
        Metrics and estimators of the evaluation.
    propensity : Propensity or None
        Propensity of the evaluation.

    See Also
    --------
    ipseval.Evaluation.sensitivity : Compute the estimates over γ.
    ipseval.reporting.plots.plot_sensitivity : Plot them.

    Examples
    --------
    >>> from ipseval import PowerLawPropensity, evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> propensity = PowerLawPropensity(gamma=0, unseen="smooth")
    >>> evaluation = evaluate(models, split, propensity=propensity, metrics=["recall@10"])
    >>> sensitivity = evaluation.sensitivity(gamma=[-1, 0, 1])
    >>> sensitivity
    Sensitivity(4 estimates at 3 values of γ from -1 to 1; .frame, .tipping_points())
    >>> sensitivity.frame[["model", "estimator", "gamma", "estimate"]].round(3)
          model     estimator  gamma  estimate
    0     taste           aoa   -1.0     0.618
    1     taste           aoa    0.0     0.618
    2     taste           aoa    1.0     0.618
    3     taste  snips-global   -1.0     0.618
    4     taste  snips-global    0.0     0.414
    5     taste  snips-global    1.0     0.243
    6   popular           aoa   -1.0     0.599
    7   popular           aoa    0.0     0.599
    8   popular           aoa    1.0     0.599
    9   popular  snips-global   -1.0     0.599
    10  popular  snips-global    0.0     0.339
    11  popular  snips-global    1.0     0.148
    >>> sensitivity.tipping_points()["statement"].tolist()
    ['taste > popular does not depend on γ', 'taste > popular holds for all γ in [−1, 1]']
    """

    frame: pd.DataFrame
    gamma: FloatArray
    reference: float | None
    values: dict[Key, FloatArray]
    samples: Mapping[str, Sample]
    definitions: tuple[Sequence[Metric], Sequence[Estimator]]
    propensity: Propensity | None

    def __repr__(self) -> str:
        grid = f"{len(self.gamma):,} values of γ from {self.gamma[0]:g} to {self.gamma[-1]:g}"
        return f"Sensitivity({len(self.values):,} estimates at {grid}; .frame, .tipping_points())"

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: the γ at which the order of each pair of recommenders changes.

        Parameters
        ----------
        digits : int, default 2
            Two less than the number of decimal places of the appendix.
        page : bool, default False
            Whether to add a title and the whole frame as appendix, as HTML pages have.

        Returns
        -------
        Tables
            One row per pair of recommenders, metric and estimator, and the statements as verdict.
        """
        tipping = self.tipping_points()[["metric", "estimator", "statement"]]
        table = Table.from_frame(tipping, "Where two recommenders swap ranks", n_keys=2)
        lines = []
        for metric, estimator, statement in tipping.to_numpy():
            lines.append(f"{metric} by {estimator}: {statement}.")
        remark = Remark("Verdict", tuple(lines))
        if not page:
            return Tables((repr(self),), (table,), "", (), (remark,))
        frame = Table.from_frame(self.frame, "R(γ)", formats=f".{digits + 2}f", n_keys=3, folded=True)
        return Tables((repr(self),), (table,), "Sensitivity to γ", (), (remark,), appendix=(frame,))

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Plot the estimates of one metric and estimator over γ, with vertical lines at tipping points.

        Parameters
        ----------
        metric : str, optional
            Label of the metric. Default: the first.
        estimator : str, optional
            Label of the estimator. Default: the first.
        ax : matplotlib axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib axes
            Axes with the plot, for further changes.
        """
        from ipseval.reporting.plots import plot_sensitivity

        chosen_estimator = estimator or str(self.frame["estimator"].iloc[0])
        return plot_sensitivity(
            _name_estimators(self.frame),
            metric=metric or str(self.frame["metric"].iloc[0]),
            estimator=display_name(chosen_estimator),
            tipping=_name_estimators(self.tipping_points()),
            ax=ax,
        )

    @cached_property
    def _curves(self) -> GammaCurves:
        metrics, estimators = self.definitions
        return GammaCurves.from_samples(self.samples, metrics, estimators, self.propensity)

    @cached_property
    def _cells_weighted_between_users(self) -> frozenset[tuple[str, str]]:
        """The (metric, estimator) cells in which weights do not change the value of a user.

        There are none where no user has several positives, and with an estimator of the unbiased form.
        """
        sample = next(iter(self.samples.values()), None)
        if sample is None or not (sample.ranked.counts > 1).any():
            return frozenset()
        cells = set()
        metrics, estimators = self.definitions
        for metric in metrics:
            for estimator in estimators:
                is_weighted_within_users = metric.is_weighted_within_users or estimator.uses_unbiased_form
                if estimator.weighted and not is_weighted_within_users:
                    cells.add((metric.label, estimator.label))
        return frozenset(cells)

    @property
    def _limits(self) -> tuple[float, float]:
        """The lowest and the highest γ of the grid."""
        return float(self.gamma[0]), float(self.gamma[-1])

    def tipping_points(self, reference: str | None = None, *, tolerance: float = TOLERANCE) -> pd.DataFrame:
        """Find, for every pair of recommenders, the γ at which their order changes.

        Parameters
        ----------
        reference : str or None, default None
            Recommender whose pairs are returned; None: all pairs.
        tolerance : float, default 1e-10
            Precision of the tipping points.

        Returns
        -------
        DataFrame
            Columns metric, estimator, model, other, n_tipping, tipping_points (tuple of γ), statement, such
            as "als > bpr holds for γ in [−1, 0.83]", note (why it is unreliable, in an `Evaluation`). The
            ends of the ranges are rounded inwards, so that the statement holds at the printed ends. The
            tipping points are estimates without an interval; another split moves them. Where weights
            change at most how much each user counts, as SNIPS of rr and hit@k, an order that does not change
            shows the effect of exposure only in part, and the statement gives this reason.
            `model` is the better recommender at the γ of the evaluation, or at the lowest γ of the grid
            where the γ of the evaluation is outside the grid.

        Raises
        ------
        UnknownNameError
            For a reference that is none of the recommenders.

        Notes
        -----
        A sign change of R_A(γ) − R_B(γ) between neighbouring γ of the grid is refined to `tolerance`. Two
        changes within one step of the grid are not found.
        """
        if reference is not None:
            check_choice("reference", reference, dict.fromkeys(model for model, _, _ in self.values))
        models_by_cell: dict[tuple[str, str], list[str]] = {}
        for model, metric, estimator in self.values:
            models_by_cell.setdefault((metric, estimator), []).append(model)
        rows = []
        for (metric, estimator), models in models_by_cell.items():
            for first, second in combinations(models, 2):
                if reference in (None, first, second):
                    first_key = (first, metric, estimator)
                    second_key = (second, metric, estimator)
                    rows.append(self._compute_tipping_row(first_key, second_key, tolerance))
        return pd.DataFrame(rows, columns=list(TIPPING_COLUMNS))

    def _compute_tipping_row(self, first: Key, second: Key, tolerance: float) -> tuple[object, ...]:
        """Return the row of one pair of estimates, with the columns of `TIPPING_COLUMNS`."""
        first_values = self.values[first]
        second_values = self.values[second]
        difference = first_values - second_values
        # Rounding of the sums can make a difference of equal values.
        scale = np.maximum(np.abs(first_values), np.abs(second_values))
        difference[np.abs(difference) <= ROUNDING * scale] = 0.0

        roots = self._find_roots(first, second, difference, tolerance)
        limits = self._limits
        edges = [limits[0], *roots, limits[1]]
        signs = []
        for low, high in pairwise(edges):
            signs.append(self._find_sign(low, high, difference))

        reference = edges[0]
        if self.reference is not None and edges[0] <= self.reference <= edges[-1]:
            reference = self.reference
        reference_sign = signs[int(np.searchsorted(roots, reference))]
        better = first[0]
        worse = second[0]
        if reference_sign < 0:
            better = second[0]
            worse = first[0]

        if np.isnan(difference).any():
            statement = f"{better} and {worse}: undefined for some γ of the grid"
        elif not any(signs):
            statement = (
                f"{better} = {worse} for all γ in {format_inner_interval(edges[0], edges[-1], limits)}"
            )
        elif not roots:
            statement = f"{better} > {worse}{self._qualify_constant_order(first, second)}"
        else:
            intervals = []
            for (low, high), sign in zip(pairwise(edges), signs, strict=True):
                if sign == reference_sign:
                    intervals.append(format_inner_interval(low, high, limits))
            statement = f"{better} > {worse} holds for γ in {' and '.join(intervals)}"
        _, metric, estimator = first
        return metric, estimator, better, worse, len(roots), tuple(roots), statement, ""

    def _qualify_constant_order(self, first: Key, second: Key) -> str:
        """Return the end of a statement on an order that no γ of the grid changes."""
        if first[1:] in self._cells_weighted_between_users:
            return ", but weights change at most how much each user counts"
        if not (np.ptp(self.values[first]) or np.ptp(self.values[second])):
            return " does not depend on γ"
        return f" holds for all γ in {format_inner_interval(*self._limits, self._limits)}"

    def _find_roots(self, first: Key, second: Key, difference: FloatArray, tolerance: float) -> list[float]:
        """Return the γ at which the difference of two estimates changes its sign."""
        # Where the estimates are equal on the grid, the change lies between the neighbours that differ.
        nonzero = np.flatnonzero(difference)
        signs = np.sign(difference[nonzero])
        changes = np.flatnonzero(signs[:-1] * signs[1:] < 0)
        roots = []
        for change in changes.tolist():
            start = float(self.gamma[nonzero[change]])
            end = float(self.gamma[nonzero[change + 1]])
            roots.append(self._curves.find_crossing(first, second, start, end, tolerance))
        return roots

    def _find_sign(self, low: float, high: float, difference: FloatArray) -> float:
        """Return the sign of the difference between two tipping points, where it is largest in size."""
        is_inside = (self.gamma >= low) & (self.gamma <= high)
        values = difference[is_inside]
        return float(np.sign(values[np.argmax(np.abs(values))]))


def sensitivity(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    propensity: Propensity | None,
    *,
    gamma: npt.ArrayLike,
    confidence_level: float = 0.95,
    standard_errors: bool = True,
) -> Sensitivity:
    """Compute R(γ) over a grid, P_i ∝ (n*_i)^((γ+1)/2), from ranks that are computed once."""
    grid = as_float_vector("gamma", gamma)
    check_finite("gamma", grid)
    grid = np.unique(grid)
    if grid.size < 2:
        raise InputError(f"gamma must hold at least two different values; got {grid.size}.")
    curves = GammaCurves.from_samples(samples, metrics, estimators, propensity)
    values = curves.compute_values(grid, errors=standard_errors)
    keys = list_keys(samples, metrics, estimators)
    key_frame = pd.DataFrame(keys, columns=["model", "metric", "estimator"])
    frame = key_frame.loc[key_frame.index.repeat(grid.size)].reset_index(drop=True)

    estimate = _concatenate_curves(values.estimates, keys, grid.size)
    error = _concatenate_curves(values.errors, keys, grid.size)
    low, high = compute_normal_interval(estimate, error, confidence_level=confidence_level)
    frame["gamma"] = np.tile(grid, len(keys))
    frame["estimate"] = estimate
    frame["std_error"] = error
    frame["ci_low"] = low
    frame["ci_high"] = high
    frame["derivative"] = _concatenate_curves(values.slopes, keys, grid.size)
    return Sensitivity(
        frame=frame,
        gamma=grid,
        reference=None if propensity is None else propensity.gamma,
        values={key: values.estimates[key] for key in keys},
        samples=samples,
        definitions=(metrics, estimators),
        propensity=propensity,
    )


def _concatenate_curves(curves: Mapping[Key, FloatArray], keys: Sequence[Key], n_gamma: int) -> FloatArray:
    """Return the curves of all keys, one after another; NaN for a key without a curve."""
    missing_curve = np.full(n_gamma, np.nan)
    return np.concatenate([curves.get(key, missing_curve) for key in keys])


def _name_estimators(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the names of estimators in plots in place of their labels."""
    return frame.assign(estimator=frame["estimator"].map(display_name))
