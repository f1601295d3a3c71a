"""Segments: the estimates of an evaluation in groups of users or items, their differences and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ipseval.errors import InputError
from ipseval.estimators.labels import can_exceed_range, default_estimators
from ipseval.estimators.user_sums import ROUNDING
from ipseval.evaluation.segments._groups import Axis
from ipseval.evaluation.segments._tables import segment_tables
from ipseval.inference.comparisons import CORRECTIONS, Correction, adjust
from ipseval.inference.estimate_frame import joined
from ipseval.inference.interval_methods import within_unit
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.utils.checks import check_choice
from ipseval.utils.types import BoolArray, FloatArray, IntArray, freeze, readonly

DRAWS = 20_000
ALIKE = 1e-13  # of two variances: what rounding leaves of a difference that does not vary
UNCORRELATED = 1e-12
SINGULAR = 1e-9  # eigenvalues of a correlation matrix up to here are 0


def family_level(covariance: FloatArray, level: float, n_draws: int = DRAWS) -> float:
    """Return the level at which each of several intervals holds, so that all do with chance 1 − level."""
    # The level of |z| at the (1 − level) quantile of max_g |z_g|, z ~ N(0, correlation): the bootstrap over
    # users with normal multipliers (Hothorn, Bretz & Westfall 2008, doi 10.1002/bimj.200810425; Chernozhukov,
    # Chetverikov & Kato 2013, doi 10.1214/13-AOS1161). Independent groups need none: 1 − (1 − level)^(1/m).
    error = np.sqrt(np.diag(covariance))
    known = np.flatnonzero(error > 0)
    if known.size < 2:
        return level
    inside = covariance[np.ix_(known, known)] / np.outer(error[known], error[known])
    if float(np.abs(inside - np.diag(np.diag(inside))).max()) < UNCORRELATED:
        return float(-np.expm1(np.log1p(-level) / known.size))
    values, vectors = np.linalg.eigh(inside)
    # The symmetric root: signs and orders of eigenvectors, which differ between processors, change nothing.
    root = vectors * np.sqrt(np.where(values > SINGULAR, values, 0.0)) @ vectors.T
    draws = _draws(n_draws, known.size) @ root
    largest = float(np.quantile(np.abs(draws).max(axis=1), 1 - level))
    return float(np.clip(2 * ndtr(-largest), level / known.size, level))


@lru_cache(maxsize=4)
def _draws(n_draws: int, size: int) -> FloatArray:
    """Return standard normal points (n_draws, size), always the same ones; kept for the next family."""
    return readonly(np.random.default_rng(0).standard_normal((n_draws, size)))


def reach(
    error: FloatArray, effective: FloatArray, level: float, tails: FloatArray | None = None
) -> FloatArray:
    """Return the half-width of intervals, wider for skewness by `tails` (3, n_groups); NaN: no error."""
    # Student's t with one degree of freedom less than effective users, plus what the skewness γ and the
    # excess kurtosis κ of the users' influences add, z[γ²(z⁴ + 2z² − 3)/18 − κ(z² − 3)/12]/n where positive
    # (Hall 1992, section 2.6, doi 10.1007/978-1-4612-4384-7). Small groups need it: at one of twenty groups'
    # level z is 3.
    wide = stdtrit(np.maximum(effective - 1, 1.0), 1 - level / 2)
    if tails is not None:
        z = float(ndtri(1 - level / 2))
        more = z * (tails[0] * (z**4 + 2 * z**2 - 3) / 18 - tails[1] * (z**2 - 3) / 12)
        wide = (wide + np.maximum(np.nan_to_num(more), 0.0)) * np.fmax(tails[2], 1.0)
    return np.where(error > 0, wide * error, np.nan)


def tails_of(powers: FloatArray, total: FloatArray, ratio: FloatArray, n: FloatArray) -> FloatArray:
    """Return what `reach` reads of e = N − R·D, (3, …): γ²/n, κ/n, and a factor of the standard error."""
    # The factor is the root of 1/(1 − 2ΣD³/(ΣD ΣD²) + ΣD²/(ΣD)²) over n/(n − 1): residuals of users with a
    # large D are too small, as R follows these users. powers: (…, 12), Σ N^a D^b of `power_sums`; users
    # without weight add 0, so that it does not matter who is counted.
    p, r = np.moveaxis(powers, -1, 0), ratio
    with np.errstate(invalid="ignore", divide="ignore"):
        second = p[0] - 2 * r * p[1] + r**2 * p[2]
        # Users who are all alike: what rounding leaves of terms that cancel has no shape.
        second = np.where(second > ROUNDING * n * p[0], second, np.nan)
        third = p[3] - 3 * r * p[4] + 3 * r**2 * p[5] - r**3 * p[6]
        fourth = p[7] - 4 * r * p[8] + 6 * r**2 * p[9] - 4 * r**3 * p[10] + r**4 * p[11]
        even = p[2] / total**2
        lost = 1 - 2 * p[6] / (total * p[2]) + even
        uneven = np.sqrt((n - 1) / n / np.maximum(lost, 0.1))
        return np.array([third**2 / second**3, fourth / second**2 - 3 * even, uneven])


def t_test(difference: FloatArray, error: FloatArray, freedom: FloatArray) -> FloatArray:
    """Return two-sided p-values of differences; NaN without a standard error, 1 for a difference of 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        p = 2 * stdtr(np.maximum(freedom, 1.0), -np.abs(difference) / error)
    return np.where(difference == 0, 1.0, np.where(error > 0, p, np.nan))


def satterthwaite(one: FloatArray, two: FloatArray, df_one: FloatArray, df_two: FloatArray) -> FloatArray:
    """Return the degrees of freedom of a difference of two values with these variances."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (one + two) ** 2 / (one**2 / np.maximum(df_one, 1) + two**2 / np.maximum(df_two, 1))
    return np.asarray(found)


def gap_of(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return differences of values; 0 where they are those of rounding."""
    gap = one - two
    return np.where(np.abs(gap) <= ROUNDING * (np.abs(one) + np.abs(two)), 0.0, gap)


def gap_error(one: FloatArray, two: FloatArray, both: FloatArray) -> FloatArray:
    """Return standard errors of differences from variances and covariances; 0 where they cancel, or are 0."""
    variance = one + two - 2 * both
    known = (one > 0) & (two > 0) & (variance > ALIKE * (one + two))
    return np.sqrt(np.where(known, variance, 0.0))


Cell = tuple[str, str]


@dataclass(frozen=True, eq=False)
class SegmentCell:
    """One metric and estimator in every group, for every recommender.

    Attributes
    ----------
    value, share, part, effective : (n_models, n_groups) float arrays
        The estimate in the group; the group's share of the weight; what it adds to the whole; the effective
        number of users, (ΣD)²/ΣD². NaN where undefined.
    tails : (3, n_models, n_groups) float array
        What skewed and uneven users add to intervals.
    covariance : (n_models · n_groups, same) float array
        Of the estimates, groups of the first model first.
    n_users, n_positives : (n_groups,) int arrays
    whole : (n_models,) float array
        The estimates over all users.
    flags, notes : tuple of str
        Of each group: why its estimates are not to be trusted, and what else is to be known.
    suppressed : (n_models, n_groups) bool array
        Values that are not shown, for the reason in `flags`.
    in_unit : bool
        Whether the metric is between 0 and 1.
    """

    value: FloatArray
    share: FloatArray
    part: FloatArray
    effective: FloatArray
    tails: FloatArray
    covariance: FloatArray
    n_users: IntArray
    n_positives: IntArray
    whole: FloatArray
    flags: tuple[str, ...]
    notes: tuple[str, ...]
    suppressed: BoolArray
    in_unit: bool = False

    def __post_init__(self) -> None:
        for name in ("value", "share", "part", "effective", "tails", "covariance", "whole", "suppressed"):
            freeze(self, name)

    def rows(self, model: int) -> slice:
        """Return the rows of one recommender in the covariance."""
        n_groups = self.value.shape[1]
        return slice(model * n_groups, (model + 1) * n_groups)

    def within(self, model: int) -> FloatArray:
        """Return the covariance of one recommender's groups, NaN and suppressed ones with variance 0."""
        return _blanked(self.covariance[self.rows(model), self.rows(model)], self.suppressed[model])

    def shown(self, model: int) -> FloatArray:
        """Return the values that may be shown."""
        return np.where(self.suppressed[model], np.nan, self.value[model])

    def half_width(self, model: int, level: float) -> FloatArray:
        """Return the half-width of the interval of each group of a recommender at this level."""
        error = np.sqrt(np.diag(self.within(model)))
        return reach(error, self.effective[model], level, self.tails[:, model])

    def lead(self, one: int, other: int) -> tuple[FloatArray, FloatArray]:
        """Return the paired difference of two recommenders in each group, and its covariance."""
        a, b = self.rows(one), self.rows(other)
        joint = self.covariance
        covariance = joint[a, a] + joint[b, b] - joint[a, b] - joint[b, a]
        # Equal recommenders: what rounding leaves of variances that cancel is none.
        own = np.diag(joint[a, a]) + np.diag(joint[b, b])
        nothing = np.diag(covariance) <= ALIKE * own
        hidden = self.suppressed[one] | self.suppressed[other]
        gap = np.where(hidden, np.nan, gap_of(self.value[one], self.value[other]))
        return gap, _blanked(covariance, hidden | nothing)


def _blanked(covariance: FloatArray, hidden: BoolArray) -> FloatArray:
    made = np.where(np.isnan(covariance), 0.0, covariance)
    made[hidden, :] = made[:, hidden] = 0.0
    return made


@dataclass(frozen=True, eq=False, repr=False)
class Segments(Result):
    """The estimates of an evaluation in groups of users or items; `frame` is the tidy table.

    Intervals hold for all groups of a recommender, metric and estimator at once.

    Attributes
    ----------
    name, axis : str
        Of the grouping; "user" or "item".
    labels : tuple of str
        Names of the groups.
    sizes : (n_groups,) int array
        Users or items in each group.
    models : tuple of str
    cells : dict
        (metric, estimator) -> `SegmentCell`.
    note : str
        How the groups were made.
    confidence_level : float
        Of the intervals.
    """

    name: str
    axis: Axis
    labels: tuple[str, ...]
    sizes: IntArray
    models: tuple[str, ...]
    cells: dict[Cell, SegmentCell]
    note: str = ""
    confidence_level: float = 0.95

    @property
    def frame(self) -> pd.DataFrame:
        """One row per metric, estimator, recommender and group.

        by, group, model, metric, estimator; estimate, std_error, ci_low, ci_high (for all groups at once);
        n_members (users or items of the group), n_users, n_positives, ess (effective number of users);
        share (of the weight), part (what the group adds to the whole: parts sum to it); note.
        """
        parts = []
        for (metric, estimator), cell in self.cells.items():
            for number, model in enumerate(self.models):
                covariance, value = cell.within(number), cell.shown(number)
                half = cell.half_width(number, self._level(covariance))
                found = _with_errors("estimate", value, np.sqrt(np.diag(covariance)), half)
                if cell.in_unit and not can_exceed_range(estimator):
                    ends = zip(value, value - half, value + half, strict=True)
                    found["ci_low"], found["ci_high"] = np.array([within_unit(*one) for one in ends]).T
                keys = {"by": self.name, "group": self.labels, "model": model}
                keys |= {"metric": metric, "estimator": estimator}
                counts = {"n_members": self.sizes, "n_users": cell.n_users, "n_positives": cell.n_positives}
                rest = {name: getattr(cell, name)[number] for name in ("effective", "share", "part")}
                note = _notes(cell, cell.suppressed[number], np.isnan(half))
                parts.append(pd.DataFrame({**keys, **found, **counts, **rest, "note": note}))
        return pd.concat(parts, ignore_index=True).rename(columns={"effective": "ess"})

    @property
    def metrics(self) -> list[str]:
        """Labels of the metrics."""
        return list(dict.fromkeys(key[0] for key in self.cells))

    @property
    def estimators(self) -> list[str]:
        """Labels of the estimators."""
        return list(dict.fromkeys(key[1] for key in self.cells))

    def differences(self, reference: str | None = None, *, correction: Correction = "holm") -> pd.DataFrame:
        """Return paired differences of recommenders within each group, on the users of the group.

        by, group, metric, estimator, model, reference; difference, std_error, ci_low, ci_high (for all groups
        at once), p_value, p_adjusted over the groups and pairs of a metric and estimator; n_users, note.

        Raises
        ------
        InputError
            With fewer than two recommenders, or a reference that is none of them.
        """
        parts = []
        for (metric, estimator), cell in self.cells.items():
            for one, other in self._pairs(reference):
                gap, covariance = cell.lead(one, other)
                effective = np.minimum(cell.effective[one], cell.effective[other])
                error = np.sqrt(np.diag(covariance))
                half = reach(error, effective, self._level(covariance))
                hidden = cell.suppressed[one] | cell.suppressed[other]
                found = _with_errors("difference", gap, error, half)
                note = _notes(cell, hidden, np.isnan(half))
                keys = {"by": self.name, "group": self.labels, "metric": metric, "estimator": estimator}
                keys |= {"model": self.models[one], "reference": self.models[other]}
                tested = {"p_value": t_test(gap, error, effective - 1), "n_users": cell.n_users, "note": note}
                parts.append(pd.DataFrame({**keys, **found, **tested}))
        return _adjusted(pd.concat(parts, ignore_index=True), correction, ["metric", "estimator"])

    def gaps(self, reference: str | None = None, *, correction: Correction = "holm") -> pd.DataFrame:
        """Return differences between groups, for each recommender: of all pairs, or to one group.

        by, metric, estimator, model, group, reference; difference, std_error, ci_low, ci_high (each alone),
        p_value, p_adjusted over the pairs of a recommender, metric and estimator; note. Degrees of freedom
        after Welch and Satterthwaite; groups of items share users, whose covariance enters.

        Raises
        ------
        InputError
            With a single group, or a reference that is none of them.
        """
        a, b = np.array(self._group_pairs(reference)).T
        labels, parts = np.array(self.labels, dtype=object), []
        for (metric, estimator), cell in self.cells.items():
            for number, model in enumerate(self.models):
                value, covariance = cell.shown(number), cell.within(number)
                variance, users = np.diag(covariance), cell.effective[number] - 1
                said = _notes(cell, cell.suppressed[number], np.zeros(len(labels), dtype=bool))
                gap = gap_of(value[a], value[b])
                error = gap_error(variance[a], variance[b], covariance[a, b])
                freedom = satterthwaite(variance[a], variance[b], users[a], users[b])
                half = reach(error, freedom + 1, 1 - self.confidence_level)
                keys = {"by": self.name, "metric": metric, "estimator": estimator, "model": model}
                keys |= {"group": labels[a], "reference": labels[b]}
                found = _with_errors("difference", gap, error, half)
                found["p_value"] = t_test(gap, error, freedom)
                note = [joined(said[one], said[other]) for one, other in zip(a, b, strict=True)]
                parts.append(pd.DataFrame({**keys, **found, "note": note}))
        return _adjusted(pd.concat(parts, ignore_index=True), correction, ["metric", "estimator", "model"])

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: a table per metric, who leads where, whether groups differ.

        By the weighted estimator that a verdict rests on, else the last; `page`: by every one.
        """
        preferred = [one for one in default_estimators(weighted=True)[1:] if one in self.estimators]
        chosen = self.estimators if page else preferred or self.estimators[-1:]
        left_out = [one for one in self.estimators if one not in chosen]
        some = {key: cell for key, cell in self.cells.items() if key[1] in chosen}
        return segment_tables(replace(self, cells=some), digits, left_out)

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Return axes with the estimates of each group and their simultaneous intervals."""
        from ipseval.reporting.plots.estimates import plot_segments

        chosen = {"metric": metric or self.metrics[0], "estimator": estimator or self.estimators[-1]}
        return plot_segments(self.frame, **chosen, ax=ax)

    def _level(self, covariance: FloatArray) -> float:
        return family_level(covariance, 1 - self.confidence_level)

    def _pairs(self, reference: str | None) -> list[tuple[int, int]]:
        if len(self.models) < 2:
            raise InputError(f"differences need at least two recommenders; got {len(self.models)}.")
        return _pairs_of(self.models, reference)

    def _group_pairs(self, reference: str | None) -> list[tuple[int, int]]:
        if len(self.labels) < 2:
            raise InputError(f"{self.name} has one group; a gap needs two.")
        return _pairs_of(self.labels, reference)


def _pairs_of(names: Sequence[str], reference: str | None) -> list[tuple[int, int]]:
    """Return the places of all pairs of names, or of those with one of them."""
    if reference is None:
        return list(combinations(range(len(names)), 2))
    check_choice("reference", reference, names)
    base = names.index(reference)
    return [(number, base) for number in range(len(names)) if number != base]


def _with_errors(name: str, value: FloatArray, error: FloatArray, half: FloatArray) -> dict[str, Any]:
    """Return the columns of a value in every group, with its error and interval."""
    error = np.where(np.isnan(value), np.nan, error)
    return {name: value, "std_error": error, "ci_low": value - half, "ci_high": value + half}


def _notes(cell: SegmentCell, hidden: BoolArray, no_interval: BoolArray) -> list[str]:
    """Return what the row of each group must say of it."""
    found = []
    for place, flag in enumerate(cell.flags):
        parts = [f"suppressed: {flag}" if hidden[place] and flag else flag, cell.notes[place]]
        if not cell.n_users[place]:
            parts.append("undefined: no user has weight in the group")
        elif no_interval[place] and not hidden[place]:
            parts.append("no interval: the values of its users do not vary")
        found.append("; ".join(filter(None, parts)))
    return found


def _adjusted(frame: pd.DataFrame, correction: Correction, family: list[str]) -> pd.DataFrame:
    if correction is not None:
        check_choice("correction", correction, CORRECTIONS)
    frame.insert(list(frame).index("p_value") + 1, "p_adjusted", adjust(frame, correction, family))
    return frame
