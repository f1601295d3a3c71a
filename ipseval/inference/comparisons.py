"""Paired comparisons of recommenders: differences, tests, corrections, and all pairs at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtr, stdtrit

from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators import Estimate
from ipseval.estimators.user_sums import ROUNDING_SHARE, MergedSums
from ipseval.utils.checks import check_choice, check_fraction, check_real
from ipseval.utils.notes import Note, join_notes
from ipseval.utils.public import public_function
from ipseval.utils.types import BoolArray, FloatArray

Correction = Literal["holm", "bh", "bonferroni"] | None
Key = tuple[str, str, str]
Family = Literal["cell", "estimator", "all"]
CORRECTIONS = ("holm", "bh", "bonferroni")

# Columns of the table within whose groups the tests are corrected together.
FAMILIES: dict[str, list[str]] = {
    "cell": ["metric", "estimator"],
    "estimator": ["estimator"],
    "all": [],
}


@public_function
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
    """Compare every pair of recommenders by paired t-tests, corrected within a declared family.

    Parameters
    ----------
    estimates : mapping
        (recommender, metric, estimator) -> Estimate.
    reference : str or None, default None
        Recommender with which the remaining recommenders are compared; None: all pairs.
    correction : {"holm", "bh", "bonferroni"} or None, default "holm"
        "holm" and "bonferroni" bound the chance of any false rejection in the family, "bh" the expected
        share of false rejections among all; None: `p_adjusted` is `p_value`.
    family : {"cell", "estimator", "all"}, default "cell"
        Which tests are corrected together: the pairs within each metric and estimator; all metrics of an
        estimator; the whole table. Choose it before you see the results.
    confidence_level : float, default 0.95
        Level of each interval, not corrected for the number of pairs; its complement is the level α of the
        power calculations.
    power : float, default 0.8
        1 − β, in (α/2, 1).
    difference : float or None, default None
        The difference for which `n_users_needed` is computed; None: the observed difference.

    Returns
    -------
    DataFrame
        metric, estimator, model, reference; difference = R(model) − R(reference), std_error, ci_low, ci_high,
        p_value, p_adjusted; effect_size = difference over the standard deviation of ψ^A − ψ^B between users;
        minimum_detectable_difference = the true difference that a two-sided test at level α finds with the
        given power; n_users; n_users_needed to find `difference` with that power (inf for 0); note, which
        gives the reason why an estimate is unreliable, and the number of users without a list. Values are
        NaN where an estimate is undefined; such tests do not count in the family.

    Raises
    ------
    UnknownNameError
        For a reference, correction or family that does not exist.
    InputError
        With fewer than two recommenders.

    See Also
    --------
    ipseval.evaluate : Its result compares recommenders by `compare()`.

    Notes
    -----
    With ψ^A_u − ψ^B_u the difference of influences of each user, SE² = Σ(ψ^A_u − ψ^B_u)²/(n(n − 1)), and
    difference/SE is referred to Student's t with n − 1 degrees of freedom.

    References
    ----------
    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979.
    Benjamini & Hochberg, Controlling the false discovery rate, JRSS B 57, 1995, doi
    10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> import ipseval
    >>> from ipseval.validation.simulation import World
    >>> world = World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> models = world.example_models(split, rng=2)
    >>> result = ipseval.evaluate(models, split, metrics=["recall@10"], estimators=["aoa"])
    >>> frame = compare(result.estimates, reference="popular").set_index("model")
    >>> frame.loc[["taste", "niche"], ["difference", "p_adjusted"]].round(3)
           difference  p_adjusted
    model
    taste       0.018       0.792
    niche      -0.370       0.000
    """
    check_fraction("confidence_level", confidence_level)
    check_fraction("power", power)
    check_choice("family", family, FAMILIES)
    if correction is not None:
        check_choice("correction", correction, CORRECTIONS)
    if difference is not None:
        difference = float(check_real("difference", difference))
        if difference == 0:
            raise InputError(
                "difference must not be 0, because no number of users detects it; got 0. Pass the smallest "
                "difference that matters."
            )
    rows = []
    for metric, estimator, first, second in _list_comparisons(list(estimates), reference):
        first_estimate = estimates[first, metric, estimator]
        second_estimate = estimates[second, metric, estimator]
        test, test_note = compute_paired_test(
            first_estimate,
            second_estimate,
            confidence_level=confidence_level,
            power=power,
            difference=difference,
        )
        notes: list[Note | str] = [
            *first_estimate.reliability_notes,
            *second_estimate.reliability_notes,
            test_note,
            *_list_model_notes(first, first_estimate, second_estimate),
            *_list_model_notes(second, second_estimate, first_estimate),
        ]
        note = join_notes(*notes)
        names = {"metric": metric, "estimator": estimator, "model": first, "reference": second}
        rows.append({**names, **test, "note": note})
    frame = pd.DataFrame(rows)
    p_adjusted = adjust_p_values(frame, correction, FAMILIES[family])
    frame.insert(list(frame).index("effect_size"), "p_adjusted", p_adjusted)
    return frame


def _list_model_notes(model: str, estimate: Estimate, opponent: Estimate) -> list[str]:
    """Return the notes on missing and short lists of a model, with its name unless both models have them."""
    notes: list[str] = []
    for note in estimate.list_notes:
        if note in opponent.list_notes:
            notes.append(str(note))
        else:
            notes.append(f"{model}: {note}")
    return notes


def adjust_p_values(frame: pd.DataFrame, correction: Correction, family_columns: list[str]) -> FloatArray:
    """Return p-values adjusted within groups of the family columns; NaN stays NaN and does not count."""
    p_values = frame["p_value"].to_numpy(dtype=np.float64)
    p_adjusted = p_values.copy()
    if correction is None:
        return p_adjusted
    families: Iterable[object] = [np.arange(p_values.size)]
    if family_columns:
        families = frame.groupby(family_columns, sort=False).indices.values()
    for family in families:
        rows = np.asarray(family)
        rows = rows[~np.isnan(p_values[rows])]
        if rows.size:
            p_adjusted[rows] = correct_family(p_values[rows], correction)
    return p_adjusted


def correct_family(p: FloatArray, correction: str) -> FloatArray:
    """Return adjusted p-values of one family, as `multipletests` of statsmodels does."""
    # `multipletests` collects garbage in every call of Holm. With many families that takes longer than the
    # remaining computation, so Holm is implemented here.
    if correction == "bh":
        from scipy.stats import false_discovery_control

        return np.asarray(false_discovery_control(p))
    if correction == "bonferroni":
        return np.minimum(p.size * p, 1)
    order = np.argsort(p)  # the order of equal p-values does not matter: all get their largest adjusted value
    scaled_p = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled_p), 1)
    return adjusted


def compute_detectable_difference(
    deviation: float, n_users: float, difference: float, *, level: float = 0.05, power: float = 0.8
) -> tuple[float, float]:
    """Return the smallest difference that a test finds with `power`, and the users that `difference` needs.

    (z_{1−α/2} + z_power)/√(n − z²_{1−α/2}/2) is Guenther's approximation to the power of the paired t-test,
    within 1% from 20 users on (The American Statistician 35, 1981, 10.1080/00031305.1981.10479363). The
    smallest difference is NaN with too few users. The number of users is rounded up, and infinite for a
    difference of 0.
    """
    z_level = float(ndtri(1 - level / 2))
    z_sum = z_level + float(ndtri(power))
    effective_users = n_users - z_level**2 / 2
    smallest = float("nan")
    if effective_users >= 1:
        smallest = z_sum / float(np.sqrt(effective_users)) * deviation
    if difference == 0 and not np.isnan(deviation):
        return smallest, float("inf")
    n_needed = np.ceil((z_sum * np.float64(deviation) / difference) ** 2 + z_level**2 / 2)
    return smallest, max(float(n_needed), 2.0)


def compute_paired_test(
    first: Estimate,
    second: Estimate,
    *,
    confidence_level: float,
    power: float = 0.8,
    difference: float | None = None,
) -> tuple[dict[str, float | int], str]:
    """Return the columns of `compare` for two estimates of one metric and estimator, and a note on the test."""
    gap, error, n_users = _compute_paired_difference(first, second)
    return _test_gap(
        gap,
        error,
        n_users,
        confidence_level=confidence_level,
        power=power,
        detectable_gap=gap if difference is None else difference,
    )


def _compute_paired_difference(first: Estimate, second: Estimate) -> tuple[float, float, int]:
    """Return the difference, its standard error, and the number of users."""
    if isinstance(first.sums, MergedSums) and isinstance(second.sums, MergedSums):
        error, n_users, tolerance = first.sums.paired_error(second.sums)
    else:
        error, n_users, tolerance = first.user_sums.paired_error(second.user_sums)
    gap = first.value - second.value
    if abs(gap) <= tolerance:
        gap = 0.0
    return gap, error, n_users


def _list_comparisons(keys: list[Key], reference: str | None) -> list[tuple[str, str, str, str]]:
    """Return (metric, estimator, recommender, recommender) of every comparison."""
    models = list(dict.fromkeys(model for model, _, _ in keys))
    if len(models) < 2:
        raise InputError(f"comparison needs at least two recommenders; got {len(models)}.")
    pairs = list_pairs(models, reference)
    cell_keys = []
    for _, metric, estimator in keys:
        cell_keys.append((metric, estimator))

    cells = dict.fromkeys(cell_keys)
    comparisons = []
    for metric, estimator in cells:
        for first, second in pairs:
            comparisons.append((metric, estimator, first, second))
    return comparisons


def list_pairs(
    names: Sequence[str], reference: str | None, noun: str = "recommender"
) -> list[tuple[str, str]]:
    """Return every pair of names, or every remaining name with the reference."""
    if reference is None:
        return list(combinations(names, 2))
    if reference not in names:
        raise UnknownNameError(noun, reference, names)
    pairs: list[tuple[str, str]] = []
    for name in names:
        if name != reference:
            pairs.append((name, reference))

    return pairs


def _test_gap(
    gap: float,
    error: float,
    n_users: int,
    *,
    confidence_level: float,
    power: float,
    detectable_gap: float,
) -> tuple[dict[str, float | int], str]:
    """Return the columns of a paired t-test and of its power, and a note on degenerate differences."""
    note = ""
    p_value = float("nan")
    if n_users < 2 or np.isnan(gap):
        error = float("nan")
        note = "undefined: an estimate or its error is NaN"
    elif error > 0 or np.isnan(error):
        p_value = 2 * float(stdtr(n_users - 1, -abs(gap) / error))
    elif gap == 0:
        p_value = 1.0
        note = "the same for every user"
    else:
        p_value = 0.0
        note = "the same difference for every user"

    deviation = error * float(np.sqrt(n_users))
    smallest, n_needed = compute_detectable_difference(
        deviation, n_users, detectable_gap, level=1 - confidence_level, power=power
    )
    half_width = float(stdtrit(n_users - 1, (1 + confidence_level) / 2)) * error
    test = {
        "difference": gap,
        "std_error": error,
        "ci_low": gap - half_width,
        "ci_high": gap + half_width,
        "p_value": p_value,
        "effect_size": gap / deviation if deviation > 0 else float("nan"),
        "minimum_detectable_difference": smallest,
        "n_users": n_users,
        "n_users_needed": n_needed,
    }
    return test, note


# Up to this number of recommenders, pairs are compared separately. Above, matrix products are faster.
FEW = 64

# Squared distances of pairs that are below this share of their squared lengths are recomputed, because the
# matrix product has cancelled their digits.
CLOSE = 1e-6


@dataclass(frozen=True, eq=False)
class PairTests:
    """Differences of all pairs by one metric and estimator, with p-values that are Holm-adjusted over all.

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

    def get_difference_and_p_value(self, model: str, other: str) -> tuple[float, float]:
        """Return R(model) − R(other) and its adjusted p-value; NaN where it was not tested."""
        if model == other or model not in self.place or other not in self.place:
            return float("nan"), float("nan")
        row = self.place[model]
        column = self.place[other]
        return float(self.difference[row, column]), float(self.p_value[row, column])

    def is_significant(self, models: Sequence[str], level: float) -> BoolArray:
        """Return which pairs of `models` differ significantly at `level`, (len(models), len(models))."""
        rows = [self.place[model] for model in models]
        return np.asarray(self.p_value[np.ix_(rows, rows)] < level)


def compute_pair_tests(
    estimates: Mapping[tuple[str, str, str], Estimate],
) -> dict[tuple[str, str], PairTests]:
    """Return (metric, estimator) -> the tests of all pairs, equal to `compare` with its defaults."""
    models = list(dict.fromkeys(model for model, _, _ in estimates))
    cell_keys = []
    for _, metric, estimator in estimates:
        cell_keys.append((metric, estimator))

    cells = dict.fromkeys(cell_keys)
    rows = {model: row for row, model in enumerate(models)}
    tests = {}
    for metric, estimator in cells:
        model_estimates = []
        for model in models:
            model_estimates.append(estimates[model, metric, estimator])

        gap, error, n_users = _compute_pairwise_differences(model_estimates)
        is_tested = np.triu((n_users > 1) & ~np.isnan(gap) & ~np.isnan(error), 1)
        gap_sizes = np.abs(gap[is_tested])
        pair_errors = error[is_tested]
        with np.errstate(invalid="ignore", divide="ignore"):
            p_values = 2 * stdtr(n_users[is_tested] - 1, -gap_sizes / pair_errors)
        exact_p_values = np.where(gap_sizes == 0, 1.0, 0.0)
        p_values = np.where(pair_errors == 0, exact_p_values, p_values)
        p_adjusted = np.full(gap.shape, np.nan)
        if p_values.size:
            p_adjusted[is_tested] = correct_family(p_values, "holm")
            p_adjusted = np.fmax(p_adjusted, p_adjusted.T)
        tests[metric, estimator] = PairTests(rows, gap, p_adjusted)
    return tests


def _compute_pairwise_differences(estimates: Sequence[Estimate]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return differences, their standard errors and the numbers of users, (n, n) each."""
    n_models = len(estimates)
    effects = _stack_common_effects(estimates) if n_models > FEW else None
    if effects is not None:
        return _compute_differences_by_products(estimates, effects)

    gap = np.full((n_models, n_models), np.nan)
    error = np.full((n_models, n_models), np.nan)
    n_users = np.full((n_models, n_models), np.nan)
    for row, first in enumerate(estimates):
        for column, second in enumerate(estimates[:row]):
            pair_gap, pair_error, pair_users = _compute_paired_difference(first, second)
            gap[row, column] = pair_gap
            gap[column, row] = -pair_gap
            error[row, column] = error[column, row] = pair_error
            n_users[row, column] = n_users[column, row] = pair_users
    return gap, error, n_users


def _stack_common_effects(estimates: Sequence[Estimate]) -> FloatArray | None:
    """Return the effects of users on all estimates, (n_models, n_users); None where their users differ."""
    if any(isinstance(estimate.sums, MergedSums) for estimate in estimates):
        return None
    common_users = estimates[0].user_sums.users
    common_effect_users, _ = estimates[0].user_sums.effects()
    effects = []
    for estimate in estimates:
        effect_users, effect = estimate.user_sums.effects()
        if not np.array_equal(estimate.user_sums.users, common_users):
            return None
        if not np.array_equal(effect_users, common_effect_users):
            return None
        effects.append(effect)
    return np.stack(effects)


def _compute_differences_by_products(
    estimates: Sequence[Estimate], effects: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the result of `_compute_pairwise_differences` from matrix products of effects, (n_models, n_users)."""
    n_users = estimates[0].user_sums.users.size
    # The mean over models cancels in every difference. Without it products lose fewer digits.
    effects = effects - effects.mean(axis=0)
    squared_length = (effects**2).sum(axis=1)
    length_sum = squared_length[:, None] + squared_length
    squares = length_sum - 2 * (effects @ effects.T)
    is_close = np.triu(squares < CLOSE * length_sum, 1)
    for row, column in zip(*np.nonzero(is_close), strict=True):
        squares[row, column] = squares[column, row] = ((effects[row] - effects[column]) ** 2).sum()
    np.fill_diagonal(squares, 0.0)

    squared_terms = np.array([estimate.user_sums._squared_terms for estimate in estimates])
    squared_terms = squared_terms[:, None] + squared_terms
    error = np.full(squares.shape, np.nan)
    if n_users > 1:
        error = np.sqrt(squares * (n_users / (n_users - 1.0)))
    error[n_users**2 * squares <= ROUNDING_SHARE**2 * squared_terms] = 0.0

    values = np.array([estimate.value for estimate in estimates])
    gap = values[:, None] - values
    gap[np.abs(gap) <= ROUNDING_SHARE * np.sqrt(squared_terms / max(n_users, 1))] = 0.0
    return gap, error, np.full(gap.shape, float(n_users))
