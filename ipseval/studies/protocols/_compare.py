"""Comparisons of settings: agreement of rankings, and recommenders that swap beyond their uncertainty."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import ndtr

from ipseval.inference.comparisons import correct_family
from ipseval.inference.orders import compute_agreement
from ipseval.reporting.tables import Heading, Part, Remark, Table
from ipseval.studies.agreement._orders import (
    OrderAgreement,
    add_intervals,
    average_without_interval,
    order_agreement,
)
from ipseval.studies.protocols._evaluate import ProtocolResult, Setting
from ipseval.utils.checks import format_count
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray

FACTORS = ("split", "k_core", "candidates", "estimator", "log")


@public_class
@dataclass(frozen=True, eq=False)
class Inversion:
    """Two models in opposite order under two settings.

    Parameters
    ----------
    better_in_a : str
        Name of the model with the larger estimate under setting a.
    better_in_b : str
        Name of the model with the larger estimate under setting b.
    p_value : float
        In [0, 1], adjusted (Holm) over all pairs of models of the comparison.

    See Also
    --------
    ProtocolComparison : Its field `inversions` lists them.

    Examples
    --------
    >>> Inversion(better_in_a="ease", better_in_b="popularity", p_value=0.01).better_in_b
    'popularity'
    """

    better_in_a: str
    better_in_b: str
    p_value: float


@public_class
@dataclass(frozen=True, eq=False)
class ProtocolComparison:
    """Two settings that differ in one factor only.

    Parameters
    ----------
    factor : str
        Factor in which the settings differ.
    a, b : ProtocolResult
        Estimates under the two settings.
    agreement : OrderAgreement or None
        None: an estimate is undefined, and the note names it.
    inversions : tuple of Inversion
        Pairs of models in opposite order.
    note : str
        Reason why there is no agreement, and notes of the estimates; empty if there are none.

    See Also
    --------
    ProtocolStudy.comparisons : The comparisons of a study.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from ipseval import baselines, simulation
    >>> from ipseval.studies.protocols import grid, study
    >>> log = simulation.World(n_users=200, n_items=60, mean_relevant=12, rng=0).observe(rng=1)
    >>> protocols = grid(order=["random"], holdout=["ratio", "leave-one-out"], k_core=[2])
    >>> models = {"popular": baselines.popularity, "kNN": baselines.item_knn, "EASE": baselines.ease}
    >>> with TemporaryDirectory() as folder:
    ...     result = study(
    ...         models, {"simulated": log}, protocols, path=folder, metrics=["recall@10"], estimators=["aoa"]
    ...     )
    >>> comparison = result.comparisons("split")[0]
    >>> comparison.level_a, comparison.level_b, comparison.metric
    ('RO_RS', 'RO_LS', 'recall@10')
    >>> round(comparison.agreement.src, 2), comparison.inversions[0].better_in_b
    (0.5, 'EASE')
    """

    factor: str
    a: ProtocolResult
    b: ProtocolResult
    agreement: OrderAgreement | None
    inversions: tuple[Inversion, ...]
    note: str

    @property
    def level_a(self) -> str:
        """Level of the factor in `a`."""
        return get_level(self.a.setting, self.factor)

    @property
    def level_b(self) -> str:
        """Level of the factor in `b`."""
        return get_level(self.b.setting, self.factor)

    @property
    def metric(self) -> str:
        """Label of the metric."""
        return self.a.metric

    def other_levels(self) -> dict[str, str]:
        """Return the levels of the other factors, which are the same in `a` and `b`.

        Returns
        -------
        dict
            Factor -> level.
        """
        levels: dict[str, str] = {}
        for name in FACTORS:
            if name != self.factor:
                levels[name] = get_level(self.a.setting, name)

        return levels

    def beyond_uncertainty(self, significance_level: float) -> list[Inversion]:
        """Return the inversions that the noise between users does not explain.

        Parameters
        ----------
        significance_level : float
            Largest adjusted p-value, exclusive.

        Returns
        -------
        list of Inversion
            Inversions with a smaller adjusted p-value.
        """
        significant_inversions: list[Inversion] = []
        for inversion in self.inversions:
            if inversion.p_value < significance_level:
                significant_inversions.append(inversion)

        return significant_inversions

    def swap(self) -> ProtocolComparison:
        """Return the same comparison with a and b exchanged: all measures are symmetric.

        Returns
        -------
        ProtocolComparison
            The comparison of `b` with `a`.
        """
        inversions = tuple(_swap_inversion(inversion) for inversion in self.inversions)
        return replace(self, a=self.b, b=self.a, inversions=inversions)


def _swap_inversion(inversion: Inversion) -> Inversion:
    """Return an inversion with a and b exchanged."""
    return replace(inversion, better_in_a=inversion.better_in_b, better_in_b=inversion.better_in_a)


def get_level(setting: Setting, factor: str) -> str:
    """Return the level of a factor; an estimator with γ is a level of its own for each γ."""
    if factor == "estimator":
        if setting.gamma is None:
            return setting.estimator
        return f"{setting.estimator} (γ = {setting.gamma:g})"
    level = getattr(setting, factor)
    assert isinstance(level, str)
    return level


def compare_results(
    results: Sequence[ProtocolResult],
    models: Sequence[str],
    factor: str,
    k: Iterable[int] | None,
    confidence_level: float,
) -> list[ProtocolComparison]:
    """Return the comparison of every two results that differ in `factor` only, in order."""
    groups: dict[tuple[str, ...], list[ProtocolResult]] = {}
    for result in results:
        other_levels = []
        for name in FACTORS:
            if name != factor:
                other_levels.append(get_level(result.setting, name))

        groups.setdefault((result.metric, *other_levels), []).append(result)
    comparisons = []
    for group in groups.values():
        for a, b in combinations(group, 2):
            comparisons.append(
                _compare_pair(a=a, b=b, models=models, factor=factor, k=k, confidence_level=confidence_level)
            )
    return comparisons


def _compare_pair(
    a: ProtocolResult,
    b: ProtocolResult,
    models: Sequence[str],
    factor: str,
    k: Iterable[int] | None,
    confidence_level: float,
) -> ProtocolComparison:
    """Return the comparison of two results; without agreement where an estimate is undefined."""
    is_undefined = np.isnan(a.estimates) | np.isnan(b.estimates)
    undefined_models = []
    for index in np.flatnonzero(is_undefined).tolist():
        undefined_models.append(models[index])

    notes = []
    for note in (a.note, b.note):
        if note and note not in notes:
            notes.append(note)
    agreement = None
    if undefined_models:
        notes.insert(0, f"no agreement: the estimate of {', '.join(undefined_models)} is undefined")
    else:
        without_interval = order_agreement(a.estimates, b.estimates, k=k)
        agreement = add_intervals(
            without_interval,
            compute_agreement(a.orders, b.orders, without_interval.overlap),
            unit="users",
            n_units=min(a.n_users, b.n_users),
            level=confidence_level,
        )
        if agreement.note:
            notes.insert(0, agreement.note)
    return ProtocolComparison(
        factor=factor,
        a=a,
        b=b,
        agreement=agreement,
        inversions=tuple(_find_inversions(a, b, models)),
        note="; ".join(notes),
    )


def average_comparisons(
    group: Sequence[ProtocolComparison], confidence_level: float
) -> OrderAgreement | None:
    """Return the mean agreement over logs, with intervals over users from the replicates."""
    defined = []
    agreements = []
    for comparison in group:
        if comparison.agreement is not None:
            defined.append(comparison)
            agreements.append(comparison.agreement)
    if not agreements:
        return None
    if len(agreements) == 1:
        return agreements[0]
    mean = average_without_interval(agreements, confidence_level)
    log_replicates = [
        compute_agreement(comparison.a.orders, comparison.b.orders, mean.overlap) for comparison in defined
    ]
    replicates = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nanmean of a replicate undefined on every log
        for name in mean.values:
            replicates[name] = np.nanmean(np.stack([values[name] for values in log_replicates]), axis=0)
    n_users = sum(agreement.n_units for agreement in agreements)
    return add_intervals(mean, replicates, unit="users", n_units=n_users, level=confidence_level)


def _find_inversions(a: ProtocolResult, b: ProtocolResult, models: Sequence[str]) -> list[Inversion]:
    """Return pairs of models in opposite order, with Gail and Simon's p for two groups, 1 − Φ(min |z|).

    The null hypothesis is that the two differences do not have opposite signs. The test is valid for
    dependent groups too, as both one-sided tests must reject.
    """
    pairs = list(combinations(range(len(models)), 2))
    signs_a, z_a = _compute_signs_and_z_values(a, pairs)
    signs_b, z_b = _compute_signs_and_z_values(b, pairs)
    is_opposite = signs_a * signs_b < 0
    smallest_z = np.minimum(np.abs(z_a), np.abs(z_b))
    p_values = np.where(is_opposite & ~np.isnan(smallest_z), ndtr(-smallest_z), 1.0)
    adjusted = correct_family(p_values, "holm")
    inversions = []
    for index in np.flatnonzero(is_opposite):
        first, second = pairs[index]
        p_value = float(adjusted[index])
        if signs_a[index] > 0:
            inversion = Inversion(better_in_a=models[first], better_in_b=models[second], p_value=p_value)
        else:
            inversion = Inversion(better_in_a=models[second], better_in_b=models[first], p_value=p_value)
        inversions.append(inversion)
    return inversions


def _compute_signs_and_z_values(
    result: ProtocolResult, pairs: Sequence[tuple[int, int]]
) -> tuple[FloatArray, FloatArray]:
    """Return the sign and z-value of the difference of each pair of models, (n_pairs,) each."""
    first, second = np.array(pairs).T
    difference = result.estimates[first] - result.estimates[second]
    covariance = result.covariance
    variance = covariance[first, first] + covariance[second, second] - 2 * covariance[first, second]
    error = np.sqrt(np.maximum(variance, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Two models whose users all differ by the same amount: the difference is certain, and z is infinite.
        return np.sign(difference), difference / error


def _select_defined(comparisons: Iterable[ProtocolComparison]) -> list[ProtocolComparison]:
    """Return the comparisons of defined estimates."""
    defined_comparisons: list[ProtocolComparison] = []
    for comparison in comparisons:
        if comparison.agreement is not None:
            defined_comparisons.append(comparison)

    return defined_comparisons


def build_verdict_section(
    comparisons: Mapping[str, list[ProtocolComparison]],
    names: Mapping[str, str],
    alpha: float,
) -> list[Part]:
    """Return, per pair of levels, in how many comparisons recommenders swap beyond their uncertainty."""
    parts: list[Part] = [
        Heading("Which differences are larger than their uncertainty"),
        "Two settings differ beyond their uncertainty when two recommenders are in opposite order and their "
        "difference is statistically significant in both settings. The test is Gail and Simon's at "
        f"{alpha:.0%}, Holm-corrected over the pairs of recommenders. Other differences in order may be "
        "noise between users. All swaps are in agreement_*.csv.",
    ]
    columns = ("a", "b", "comparisons", "different order", "beyond uncertainty", "most frequent swap")
    for factor, factor_comparisons in comparisons.items():
        parts.append(Heading(names[factor].capitalize(), 3))
        groups: dict[tuple[str, str], list[ProtocolComparison]] = {}
        for comparison in factor_comparisons:
            groups.setdefault((comparison.level_a, comparison.level_b), []).append(comparison)
        rows = []
        for (level_a, level_b), group in groups.items():
            defined = _select_defined(group)
            inverted = []
            significant = []
            for comparison in defined:
                if comparison.inversions:
                    inverted.append(comparison)
                if comparison.beyond_uncertainty(alpha):
                    significant.append(comparison)

            most_frequent = _describe_most_frequent_swap(significant, alpha)
            rows.append((level_a, level_b, len(defined), len(inverted), len(significant), most_frequent))
        parts.append(Table.of(pd.DataFrame(rows, columns=columns), n_keys=2))
    return parts


def _describe_most_frequent_swap(comparisons: Sequence[ProtocolComparison], alpha: float) -> str:
    """Return the most frequent swap beyond uncertainty with its number; "" without any."""
    swaps: Counter[str] = Counter()
    for comparison in comparisons:
        for inversion in comparison.beyond_uncertainty(alpha):
            swaps[f"{inversion.better_in_a} > {inversion.better_in_b} under a, the reverse under b"] += 1
    if not swaps:
        return ""
    ((swap, count),) = swaps.most_common(1)
    return f"{swap} ({count})"


def summarize_comparisons(
    comparisons_by_name: Mapping[str, Sequence[ProtocolComparison]], notes: Sequence[str], alpha: float
) -> tuple[Remark, ...]:
    """Return how often each choice changes the ranking, and how often beyond its uncertainty."""
    lines = []
    for name, comparisons in comparisons_by_name.items():
        defined = _select_defined(comparisons)
        if defined:
            n_changed = sum(bool(comparison.inversions) for comparison in defined)
            n_significant = sum(bool(comparison.beyond_uncertainty(alpha)) for comparison in defined)
            lines.append(
                f"Other {name} change the order of recommenders in {n_changed:,} of "
                f"{format_count(len(defined), 'comparison')}, in {n_significant:,} of them beyond its uncertainty."
            )
    if not lines:
        lines = ["There is one setting, so there is nothing to compare."]
    remarks = [Remark("Verdict", tuple(lines))]
    if notes:
        remarks.append(Remark("Data", tuple(notes)))
    return tuple(remarks)
