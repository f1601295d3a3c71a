"""Paired tests of all pairs of recommenders at once, as a verdict needs them: differences and p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from ipseval._base.types import BoolArray, FloatArray
from ipseval.estimators import Estimate
from ipseval.estimators._moments import MergedSums
from ipseval.estimators._sums import ROUNDING
from ipseval.inference._comparisons import _corrected, _measured

FEW = 64  # up to so many recommenders are compared one by one
CLOSE = 1e-6  # of pairs that are closer than this share of their squares, products have lost digits


@dataclass(frozen=True, eq=False)
class PairTests:
    """Differences of all pairs by one metric and estimator, and their p-values, Holm-adjusted over all.

    Attributes
    ----------
    place : mapping
        Recommender -> its row.
    difference, p_value : (n, n) arrays
        R(row) − R(column), and its adjusted p-value; NaN where it was not tested.
    """

    place: Mapping[str, int]
    difference: FloatArray
    p_value: FloatArray

    def of(self, model: str, other: str) -> tuple[float, float]:
        """Return R(model) − R(other) and its adjusted p-value; NaN where it was not tested."""
        if model == other or not {model, other} <= self.place.keys():
            return float("nan"), float("nan")
        one, two = self.place[model], self.place[other]
        return float(self.difference[one, two]), float(self.p_value[one, two])

    def told_apart(self, models: Sequence[str], level: float) -> BoolArray:
        """Return which of some recommenders are told apart at a level, (len(models), len(models))."""
        rows = [self.place[model] for model in models]
        return np.asarray(self.p_value[np.ix_(rows, rows)] < level)


def pair_tests(estimates: Mapping[tuple[str, str, str], Estimate]) -> dict[tuple[str, str], PairTests]:
    """Return (metric, estimator) -> the tests of all pairs, as `compare` makes them with its defaults."""
    models = list(dict.fromkeys(key[0] for key in estimates))
    place = {model: row for row, model in enumerate(models)}
    found = {}
    for cell in dict.fromkeys(key[1:] for key in estimates):
        gap, error, n = _measures([estimates[model, *cell] for model in models])
        tested = np.triu((n > 1) & ~np.isnan(gap) & ~np.isnan(error), 1)
        size, spread = np.abs(gap[tested]), error[tested]
        with np.errstate(invalid="ignore", divide="ignore"):
            p = 2 * stdtr(n[tested] - 1, -size / spread)
        p = np.where(spread == 0, np.where(size == 0, 1.0, 0.0), p)
        adjusted = np.full(gap.shape, np.nan)
        if p.size:
            adjusted[tested] = _corrected(p, "holm")
            adjusted = np.fmax(adjusted, adjusted.T)
        found[cell] = PairTests(place, gap, adjusted)
    return found


def _measures(estimates: Sequence[Estimate]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return differences, their standard errors and the numbers of users, (n, n) each."""
    sums = [one.sums for one in estimates]
    many = len(sums) > FEW and not any(isinstance(one, MergedSums) for one in sums)
    if many:
        users = [one.user_sums.users for one in estimates]
        effects = [one.user_sums.effects() for one in estimates]
        if all(np.array_equal(one, users[0]) for one in users) and all(
            np.array_equal(one, effects[0][0]) for one, _ in effects
        ):
            return _by_products(estimates, np.stack([one for _, one in effects]), users[0].size)
    gap, error, n = (np.full((len(sums), len(sums)), np.nan) for _ in range(3))
    for row, one in enumerate(estimates):
        for column, other in enumerate(estimates[:row]):
            found = _measured(one, other)
            gap[row, column], error[row, column], n[row, column] = found
            gap[column, row], error[column, row], n[column, row] = (-found[0], *found[1:])
    return gap, error, n


def _by_products(
    estimates: Sequence[Estimate], effects: FloatArray, n_users: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what `_measures` does, from products of all effects (n_models, n_users)."""
    effects = effects - effects.mean(axis=0)  # what all have in common only costs digits
    length = (effects**2).sum(axis=1)
    both = length[:, None] + length
    squares = both - 2 * (effects @ effects.T)
    close = squares < CLOSE * both
    for row, column in zip(*np.nonzero(np.triu(close, 1)), strict=True):
        squares[row, column] = squares[column, row] = ((effects[row] - effects[column]) ** 2).sum()
    np.fill_diagonal(squares, 0.0)
    terms = np.array([one.user_sums._squared_terms for one in estimates])
    terms = terms[:, None] + terms
    error = np.sqrt(squares * (n_users / (n_users - 1.0))) if n_users > 1 else squares * np.nan
    error[n_users**2 * squares <= ROUNDING**2 * terms] = 0.0
    value = np.array([one.value for one in estimates])
    gap = value[:, None] - value
    gap[np.abs(gap) <= ROUNDING * np.sqrt(terms / max(n_users, 1))] = 0.0
    return gap, error, np.full(gap.shape, float(n_users))
