"""Sensitivity to γ: R(γ) over a grid, its slope, and the γ at which two recommenders swap."""

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
from ipseval.inference._curves import Curves
from ipseval.inference._linear import keys_of
from ipseval.inference.intervals import Key, normal_interval
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.reporting import Tables
from ipseval.reporting.formatting import number
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Remark, Table
from ipseval.utils.checks import as_float_vector, check_choice, check_finite
from ipseval.utils.types import FloatArray

COLUMNS = (
    *("model", "metric", "estimator", "gamma", "estimate"),
    *("std_error", "ci_low", "ci_high", "derivative"),
)
TIPPING_COLUMNS = (
    *("metric", "estimator", "model", "other"),
    *("n_tipping", "tipping_points", "statement", "note"),
)
# A difference below this share of the values themselves is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Sensitivity(Result):
    """R(γ) of every recommender, metric and estimator over a grid of γ.

    Attributes
    ----------
    frame : DataFrame
        Columns model, metric, estimator, gamma, estimate, std_error, ci_low, ci_high (n* and γ taken as
        known; NaN when not asked for), derivative = dR/dγ (NaN for estimates not linear in contributions).
    gamma : (n_gamma,) float array
        The grid, ascending.
    reference : float or None
        γ of the evaluation.
    values : dict
        (model, metric, estimator) -> R(γ) over the grid.
    samples, definitions, propensity
        Of the evaluation: R(γ) between the γ of the grid is computed from these.
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
        """Return the report: what holds for which γ, pair by pair; `page`: and the whole frame."""
        found = self.tipping_points()[["metric", "estimator", "statement"]]
        frame = Table.of(self.frame, "R(γ)", formats=f".{digits + 2}f", n_keys=3, folded=True)
        parts = (Table.of(found, "Where two recommenders change places", n_keys=2),)
        lines = tuple(f"{metric} by {label}: {text}." for metric, label, text in found.to_numpy())
        return Tables(
            (repr(self),),
            parts,
            "Sensitivity to γ" if page else "",
            (),
            (Remark("Verdict", lines),),
            appendix=(frame,) if page else (),
        )

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Return axes with the estimates over γ of one metric and estimator (default: the first)."""
        from ipseval.reporting.plots import plot_sensitivity

        chosen = [str(self.frame[name].iloc[0]) for name in ("metric", "estimator")]
        return plot_sensitivity(
            self,
            metric=metric or chosen[0],
            estimator=estimator or chosen[1],
            tipping=self.tipping_points(),
            ax=ax,
        )

    @cached_property
    def _curves(self) -> Curves:
        return Curves.of(self.samples, *self.definitions, self.propensity)

    def tipping_points(self, reference: str | None = None, *, tolerance: float = 1e-10) -> pd.DataFrame:
        """Return, for every pair of recommenders, the γ at which their order changes, and a sentence.

        `reference`: only the pairs with this recommender.

        Sign changes of R_A(γ) − R_B(γ) between neighbouring γ of the grid are refined to `tolerance`; two
        changes within one step of the grid are not seen. `model` is the better one at the γ of the evaluation
        (where that is in the grid's range; otherwise at the lowest γ).

        Returns
        -------
        DataFrame
            Columns metric, estimator, model, other, n_tipping, tipping_points (tuple of γ), statement, such
            as "als > bpr holds for γ in [−1, 0.83]", note (why not to trust it, in an `Evaluation`).

        Raises
        ------
        UnknownNameError
            For a reference that is none of the recommenders.
        """
        if reference is not None:
            check_choice("reference", reference, dict.fromkeys(key[0] for key in self.values))
        by_cell: dict[tuple[str, str], list[str]] = {}
        for model, metric, estimator in self.values:
            by_cell.setdefault((metric, estimator), []).append(model)
        rows = []
        for (metric, estimator), models in by_cell.items():
            for first, second in combinations(models, 2):
                if reference not in (None, first, second):
                    continue
                keys = ((first, metric, estimator), (second, metric, estimator))
                rows.append((metric, estimator, *self._tip(*keys, tolerance), ""))
        return pd.DataFrame(rows, columns=list(TIPPING_COLUMNS))

    def _tip(self, first: Key, second: Key, tolerance: float) -> tuple[str, str, int, tuple[float, ...], str]:
        one, other = self.values[first], self.values[second]
        difference = one - other
        # What rounding of the sums leaves of two equal values is no difference.
        difference[np.abs(difference) <= ROUNDING * np.maximum(np.abs(one), np.abs(other))] = 0.0
        roots = self._roots(first, second, difference, tolerance)
        edges = [float(self.gamma[0]), *roots, float(self.gamma[-1])]
        signs = [self._sign(low, high, difference) for low, high in pairwise(edges)]
        at = self.reference if self.reference is not None else edges[0]
        at = at if edges[0] <= at <= edges[-1] else edges[0]
        piece = int(np.searchsorted(roots, at))
        better, worse = (first[0], second[0]) if signs[piece] >= 0 else (second[0], first[0])
        if np.isnan(difference).any():
            statement = f"{better} and {worse}: undefined for some γ of the grid"
        elif not any(signs):
            statement = f"{better} = {worse} for all γ in {_interval(edges[0], edges[-1])}"
        else:
            holds = [
                _interval(low, high)
                for low, high, sign in zip(edges[:-1], edges[1:], signs, strict=True)
                if sign == signs[piece]
            ]
            where = f"all γ in {holds[0]}" if not roots else f"γ in {' and '.join(holds)}"
            statement = f"{better} > {worse} holds for {where}"
        return better, worse, len(roots), tuple(roots), statement

    def _roots(self, first: Key, second: Key, difference: FloatArray, tolerance: float) -> list[float]:
        # Where two are equal on the grid neither is ahead: a swap lies between γ at which one of them is.
        ahead = np.flatnonzero(difference)
        signs = np.sign(difference[ahead])
        swaps = np.flatnonzero(signs[:-1] * signs[1:] < 0)
        ends = self.gamma[ahead[swaps]].tolist(), self.gamma[ahead[swaps + 1]].tolist()
        return [self._curves.crossing(first, second, *end, tolerance) for end in zip(*ends, strict=True)]

    def _sign(self, low: float, high: float, difference: FloatArray) -> float:
        """Return the sign of the difference between two tipping points: that of its largest value there."""
        inside = (self.gamma >= low) & (self.gamma <= high)
        values = difference[inside]
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
    """Return R(γ) over a grid, P_i ∝ (n*_i)^((γ+1)/2), from ranks that are computed once."""
    grid = as_float_vector("gamma", gamma)
    check_finite("gamma", grid)
    grid = np.unique(grid)
    if grid.size < 2:
        raise InputError(f"gamma must hold at least two different values; got {grid.size}.")
    curves = Curves.of(samples, metrics, estimators, propensity)
    values, slopes, errors = curves.values(grid, errors=standard_errors)
    keys = keys_of(samples, metrics, estimators)
    names = pd.DataFrame(keys, columns=list(COLUMNS[:3]))
    frame = names.loc[names.index.repeat(grid.size)].reset_index(drop=True)
    unknown = np.full(grid.size, np.nan)
    estimate, error, slope = (
        np.concatenate([one.get(key, unknown) for key in keys]) for one in (values, errors, slopes)
    )
    low, high = normal_interval(estimate, error, confidence_level=confidence_level)
    columns = (np.tile(grid, len(keys)), estimate, error, low, high, slope)
    return Sensitivity(
        frame.assign(**dict(zip(COLUMNS[3:], columns, strict=True))),
        grid,
        None if propensity is None else propensity.gamma,
        {key: values[key] for key in keys},
        samples,
        (metrics, estimators),
        propensity,
    )


def _interval(low: float, high: float) -> str:
    return f"[{number(low)}, {number(high)}]"
