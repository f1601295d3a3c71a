"""Paired comparisons of recommenders: differences, tests, corrections, and all pairs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtr, stdtrit

from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators import Estimate
from ipseval.estimators.user_sums import ROUNDING, MergedSums
from ipseval.utils.checks import check_choice, check_fraction, check_real
from ipseval.utils.types import BoolArray, FloatArray

Correction = Literal["holm", "bh", "bonferroni"] | None
Key = tuple[str, str, str]
Family = Literal["cell", "estimator", "all"]
CORRECTIONS = ("holm", "bh", "bonferroni")
FAMILIES: dict[str, list[str]] = {"cell": ["metric", "estimator"], "estimator": ["estimator"], "all": []}


def compare(
    estimates: Mapping[tuple[str, str, str], Estimate],
    *,
    reference: str | None = None,
    correction: Correction = "holm",
    family: Family = "cell",
    confidence_level: float = 0.95,
    power: float = 0.8,
    difference: float | None = None,
) -> pd.DataFrame:
    """Return the paired difference of every pair of recommenders, tested within a declared family.

    With ψ^A_u − ψ^B_u the difference of influences of each user, SE² = Σ(ψ^A_u − ψ^B_u)²/(n(n − 1)), and
    difference/SE is referred to Student's t with n − 1 degrees of freedom.

    Parameters
    ----------
    estimates : mapping
        (recommender, metric, estimator) -> Estimate.
    reference : str or None
        Recommender with which all others are compared; None: all pairs.
    correction : {"holm", "bh", "bonferroni"} or None
        "holm" and "bonferroni" bound the chance of any false rejection in the family, "bh" the expected
        share of false rejections among all; None: `p_adjusted` is `p_value`.
    family : {"cell", "estimator", "all"}
        Which tests are corrected together: the pairs within each metric and estimator; all metrics of an
        estimator; the whole table. Declare it before looking.
    confidence_level : float
        Of the intervals, each on its own; its complement is the level α of the power calculations.
    power : float
        1 − β, in (α/2, 1).
    difference : float or None
        The difference that `n_users_needed` is for; None: the observed one.

    Returns
    -------
    DataFrame
        metric, estimator, model, reference; difference = R(model) − R(reference), std_error, ci_low, ci_high,
        p_value, p_adjusted; effect_size = difference over the standard deviation of ψ^A − ψ^B between users;
        minimum_detectable_difference = the true difference that a two-sided test at level α finds with the
        given power; n_users; n_users_needed to find `difference` with that power (inf for 0); note, which
        says why not to trust an estimate, and how many users have no list. NaN where an estimate is
        undefined: not counted in the family.

    Raises
    ------
    UnknownNameError
        For a reference, correction or family that does not exist.
    InputError
        With fewer than two recommenders.

    References
    ----------
    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979.
    Benjamini & Hochberg, Controlling the false discovery rate, JRSS B 57, 1995, doi
    10.1111/j.2517-6161.1995.tb02031.x.
    """
    check_fraction("confidence_level", confidence_level)
    check_fraction("power", power)
    check_choice("family", family, FAMILIES)
    if correction is not None:
        check_choice("correction", correction, CORRECTIONS)
    if difference is not None:
        difference = float(check_real("difference", difference))
        if difference == 0:
            raise InputError("difference must not be 0: no number of users finds it.")
    rows = []
    for metric, estimator, model, other in _pairs(list(estimates), reference):
        pair = [estimates[one, metric, estimator] for one in (model, other)]
        tested = _tested(*_measured(*pair), confidence_level, power, difference)
        texts = (*(one.trust for one in pair), str(tested.pop("note")), *_of_lists((model, other), pair))
        note = "; ".join(dict.fromkeys(filter(None, texts)))
        names = {"metric": metric, "estimator": estimator, "model": model, "reference": other}
        rows.append(names | tested | {"note": note})
    frame = pd.DataFrame(rows)
    adjusted = adjust(frame, correction, FAMILIES[family])
    frame.insert(list(frame).index("effect_size"), "p_adjusted", adjusted)
    return frame


def _of_lists(models: tuple[str, str], pair: list[Estimate]) -> list[str]:
    """Return what a comparison must say of missing and short lists: of both, or of the one that is named."""
    both = set(pair[0].of_lists) & set(pair[1].of_lists)
    found = zip(models, pair, strict=True)
    return [text if text in both else f"{name}: {text}" for name, one in found for text in one.of_lists]


def adjust(frame: pd.DataFrame, correction: Correction, by: list[str]) -> FloatArray:
    """Return p-values adjusted within groups of the columns `by`; NaN stays NaN and does not count."""
    raw = frame["p_value"].to_numpy(dtype=np.float64)
    adjusted = raw.copy()
    if correction is None:
        return adjusted
    groups = frame.groupby(by, sort=False).indices.values() if by else [np.arange(raw.size)]
    for members in map(np.asarray, groups):
        tested = members[~np.isnan(raw[members])]
        if tested.size:
            adjusted[tested] = corrected(raw[tested], correction)
    return adjusted


def corrected(p: FloatArray, correction: str) -> FloatArray:
    """Return adjusted p-values of one family, as `multipletests` of statsmodels does."""
    # Its Holm collects garbage in every call, which takes longer than all else here when there are many
    # families, so Holm is written out.
    if correction == "bh":
        from scipy.stats import false_discovery_control

        return np.asarray(false_discovery_control(p))
    if correction == "bonferroni":
        return np.minimum(p.size * p, 1)
    order = np.argsort(p)  # of equal ones any is first: all get the largest of theirs
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted


def detectable(
    deviation: float, n_users: float, difference: float, *, level: float = 0.05, power: float = 0.8
) -> tuple[float, float]:
    """Return the smallest difference found with the given power, and the users with which one is found."""
    # dσ, d = (z_{1−α/2} + z_power)/√(n − z²_{1−α/2}/2): Guenther's approximation to the power of the paired
    # t-test, within 1% from 20 users on. The American Statistician 35, 1981, 10.1080/00031305.1981.10479363.
    # NaN where there are too few users; users are rounded up, and inf for a difference of 0.
    z = float(ndtri(1 - level / 2))
    both, effective = z + float(ndtri(power)), n_users - z**2 / 2
    smallest = both / float(np.sqrt(effective)) * deviation if effective >= 1 else float("nan")
    if difference == 0 and not np.isnan(deviation):
        return smallest, float("inf")
    return smallest, max(float(np.ceil((both * np.float64(deviation) / difference) ** 2 + z**2 / 2)), 2.0)


def _measured(first: Estimate, second: Estimate) -> tuple[float, float, int]:
    """Return the difference, its standard error, and the number of users."""
    one, other = first.sums, second.sums
    if isinstance(one, MergedSums) and isinstance(other, MergedSums):
        error, n, rounding = one.paired_error(other)
    else:
        error, n, rounding = first.user_sums.paired_error(second.user_sums)
    gap = first.value - second.value
    return 0.0 if abs(gap) <= rounding else gap, error, n


def _pairs(keys: list[Key], reference: str | None) -> list[tuple[str, str, str, str]]:
    models = list(dict.fromkeys(key[0] for key in keys))
    if len(models) < 2:
        raise InputError(f"comparison needs at least two recommenders; got {len(models)}.")
    pairs = pairs_of(models, reference)
    cells = list(dict.fromkeys(key[1:] for key in keys))
    return [(*cell, model, other) for cell in cells for model, other in pairs]


def pairs_of(names: Sequence[str], reference: str | None, noun: str = "recommender") -> list[tuple[str, str]]:
    """Return every pair of names, or each other name with the reference."""
    if reference is None:
        return list(combinations(names, 2))
    if reference not in names:
        raise UnknownNameError(noun, reference, names)
    return [(name, reference) for name in names if name != reference]


def _tested(
    gap: float, error: float, n: int, confidence_level: float, power: float, wanted: float | None
) -> dict[str, float | int | str]:
    note, p_value = "", float("nan")
    if n < 2 or np.isnan(gap):
        error, note = float("nan"), "undefined: an estimate or its error is NaN"
    elif error == 0:
        p_value = 1.0 if gap == 0 else 0.0
        note = "the same for every user" if gap == 0 else "the same difference for every user"
    else:
        p_value = 2 * float(stdtr(n - 1, -abs(gap) / error))
    deviation, wanted = error * float(np.sqrt(n)), gap if wanted is None else wanted
    smallest, needed = detectable(deviation, n, wanted, level=1 - confidence_level, power=power)
    half_width = float(stdtrit(n - 1, (1 + confidence_level) / 2)) * error
    return {
        "difference": gap,
        "std_error": error,
        "ci_low": gap - half_width,
        "ci_high": gap + half_width,
        "p_value": p_value,
        "effect_size": gap / deviation if deviation > 0 else float("nan"),
        "minimum_detectable_difference": smallest,
        "n_users": n,
        "n_users_needed": needed,
        "note": note,
    }


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
            adjusted[tested] = corrected(p, "holm")
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
