"""Comparisons of settings: agreement of rankings, and recommenders that swap beyond their uncertainty."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import ndtr

from ipseval.inference.comparisons import correct_family
from ipseval.inference.orders import RowOrders, compute_agreement
from ipseval.reporting.tables import Heading, Part, Remark, Table
from ipseval.studies.agreement._orders import (
    OrderAgreement,
    add_intervals,
    average_without_interval,
    order_agreement,
)
from ipseval.studies.agreement._true_values import CORRELATIONS, TrueValueModel
from ipseval.studies.protocols._evaluate import ProtocolResult, Setting
from ipseval.utils.checks import format_count
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, IntArray

FACTORS = ("split", "k_core", "candidates", "estimator", "log")
N_DRAWS = 1000  # of the true values


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
        Agreement of the estimates, without intervals. None: an estimate is undefined, and the note names it.
    inversions : tuple of Inversion
        Pairs of models in opposite order.
    note : str
        Reason why there is no agreement or no interval, and notes of the estimates; empty if there are none.

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

    def with_intervals(self, confidence_level: float = 0.95) -> OrderAgreement | None:
        """Return the agreement with intervals of the agreement of the true values.

        Parameters
        ----------
        confidence_level : float, default 0.95
            Level of the intervals.

        Returns
        -------
        OrderAgreement or None
            The agreement with intervals over users, without them where the noise of a setting is unknown or
            all its estimates are equal; None where an estimate is undefined.

        See Also
        --------
        ipseval.order_agreement : The same from per-user values.

        Notes
        -----
        Noise of the estimates makes two rankings less alike than the true ones, and a resample of the users
        adds the noise a second time. So the intervals are quantiles of draws of the true values, given the
        estimates and the covariance of their noise, under two priors: a flat one, and one in which the true
        values of both rankings have a correlation. An interval reaches from the lowest to the highest
        quantile of both.

        Examples
        --------
        With few users the ranking under both settings is hardly known:

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
        >>> agreement = result.comparisons("split")[0].with_intervals(0.95)
        >>> agreement.n_units, agreement.intervals["ipc"]
        (20, (0.0, 3.0))
        """
        if self.agreement is None or not self._has_known_noise:
            return self.agreement
        return add_intervals(
            self.agreement,
            [self._draw_measures(), self._draw_measures_with_flat_prior()],
            unit="users",
            n_units=min(self.a.n_users, self.b.n_users),
            level=confidence_level,
        )

    @property
    def _has_known_noise(self) -> bool:
        """Whether the true values can be drawn."""
        return not (_lacks_noise(self.a) or _lacks_noise(self.b))

    @property
    def _ordered_sides(self) -> tuple[ProtocolResult, ProtocolResult]:
        """The two results in an order that does not depend on which of them is a."""
        first, second = sorted((self.a, self.b), key=lambda result: repr(result.setting))
        return first, second

    @cached_property
    def _true_value_model(self) -> TrueValueModel:
        """The likelihood of the true values of both sides, whose order is that of `_ordered_sides`."""
        first, second = self._ordered_sides
        means = np.concatenate([first.estimates, second.estimates])
        return TrueValueModel.fit(means, _estimate_joint_noise(first, second))

    def _make_generator(self) -> np.random.Generator:
        """Return a generator with a fixed seed for each comparison."""
        words = (*(repr(result.setting) for result in self._ordered_sides), self.metric)
        return np.random.default_rng([zlib.crc32(word.encode()) for word in words])

    def _draw_measures(self, correlation_counts: IntArray | None = None) -> dict[str, FloatArray]:
        """Return the measures of draws of the true values, (n_draws,) each.

        `correlation_counts` are numbers of draws by the correlation of the true values; by default the
        correlation is drawn, too.
        """
        assert self.agreement is not None
        rng = self._make_generator()
        if correlation_counts is None:
            first, second = self._true_value_model.draw(N_DRAWS, rng)
        else:
            first, second = self._true_value_model.draw_given_correlations(correlation_counts, rng)
        return compute_agreement(
            RowOrders.from_values(first), RowOrders.from_values(second), self.agreement.overlap
        )

    def _draw_measures_with_flat_prior(self) -> dict[str, FloatArray]:
        """Return the measures of draws of the true values with a flat prior, (n_draws,) each."""
        assert self.agreement is not None
        first, second = self._true_value_model.draw_with_flat_prior(N_DRAWS, self._make_generator())
        return compute_agreement(
            RowOrders.from_values(first), RowOrders.from_values(second), self.agreement.overlap
        )

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
            comparisons.append(_compare_pair(a=a, b=b, models=models, factor=factor, k=k))
    return comparisons


def _compare_pair(
    a: ProtocolResult,
    b: ProtocolResult,
    models: Sequence[str],
    factor: str,
    k: Iterable[int] | None,
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
        agreement = order_agreement(a.estimates, b.estimates, k=k)
        reasons = [_lacks_noise(a) or _lacks_noise(b), agreement.note]
        for reason in reasons:
            if reason:
                notes.insert(0, reason)
    return ProtocolComparison(
        factor=factor,
        a=a,
        b=b,
        agreement=agreement,
        inversions=tuple(_find_inversions(a, b, models)),
        note="; ".join(notes),
    )


def _lacks_noise(result: ProtocolResult) -> str:
    """Return the reason why the true values of a result cannot be drawn; "" without one."""
    if np.isnan(result.covariance).any():
        return "no interval: fewer than two users"
    if not np.diag(result.covariance).any() and np.ptp(result.estimates) == 0:
        return "no interval: all users have the same value for all recommenders of one side"
    return ""


def _estimate_joint_noise(a: ProtocolResult, b: ProtocolResult) -> FloatArray:
    """Return the covariance of the noise of both results' estimates, (2n, 2n).

    Standard errors are those of the results, and correlations are over the replicates, which share the draws
    of users under all settings of a log. Users of two logs are independent.
    """
    deviation = np.concatenate([a.replicates - a.estimates, b.replicates - b.estimates], axis=1)
    products = np.einsum("di,dj->ij", deviation, deviation)
    scale = np.sqrt(np.diag(products))
    divisor = np.outer(scale, scale)
    correlation = np.divide(products, divisor, out=np.zeros_like(products), where=divisor > 0)
    np.fill_diagonal(correlation, 1)
    if a.setting.log != b.setting.log:
        n = a.estimates.size
        correlation[:n, n:] = 0
        correlation[n:, :n] = 0
    errors = np.sqrt(np.concatenate([np.diag(a.covariance), np.diag(b.covariance)]))
    return np.asarray(correlation * np.outer(errors, errors))


def average_comparisons(
    group: Sequence[ProtocolComparison], confidence_level: float
) -> OrderAgreement | None:
    """Return the mean agreement over logs, with intervals over users from draws of the true values.

    The logs share the correlation of the true values between the two settings, whose likelihood is the
    product over the logs. Without it, the noise of each log would draw its agreement towards 0, and their
    mean, too. The intervals extend to the quantiles with flat priors, as those of a single log.
    """
    defined = _select_defined(group)
    agreements = []
    for comparison in defined:
        assert comparison.agreement is not None
        agreements.append(comparison.agreement)
    if not agreements:
        return None
    if len(agreements) == 1:
        return defined[0].with_intervals(confidence_level)
    mean = average_without_interval(agreements, confidence_level)
    if not all(comparison._has_known_noise for comparison in defined):
        return mean
    log_likelihood = np.zeros(CORRELATIONS.size)
    for comparison in defined:
        log_likelihood += comparison._true_value_model.correlation_log_likelihood
    weight = np.exp(log_likelihood - log_likelihood.max())
    correlation_counts = np.random.default_rng(0).multinomial(N_DRAWS, weight / weight.sum())
    measures_by_prior = [
        _average_measures([comparison._draw_measures(correlation_counts) for comparison in defined]),
        _average_measures([comparison._draw_measures_with_flat_prior() for comparison in defined]),
    ]
    n_users = sum(min(comparison.a.n_users, comparison.b.n_users) for comparison in defined)
    return add_intervals(mean, measures_by_prior, unit="users", n_units=n_users, level=confidence_level)


def _average_measures(measures: Sequence[Mapping[str, FloatArray]]) -> dict[str, FloatArray]:
    """Return the mean of each measure over logs, draw by draw."""
    means = {}
    for name in measures[0]:
        means[name] = np.mean([log_measures[name] for log_measures in measures], axis=0)
    return means


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
        parts.append(Table.from_frame(pd.DataFrame(rows, columns=columns), n_keys=2))
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
