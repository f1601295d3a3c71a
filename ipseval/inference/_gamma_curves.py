"""Estimates as functions of γ: ranks and contributions are computed once, only weights change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from scipy import sparse

from ipseval.errors import PropensityError
from ipseval.estimators import Estimator, Sample
from ipseval.inference._linear_groups import LinearGroup, group_estimates
from ipseval.inference.intervals import Key
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.propensity.steps import GammaPath
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.types import FloatArray, IntArray

TOLERANCE = 1e-10  # precision of the γ at which two estimates are equal


def compute_standard_errors(group: LinearGroup, weights: FloatArray) -> FloatArray:
    """Return the error over users of each estimate, (n_columns,), with known weights (n_pos,).

    ψ = V̄ (N − r D)/D̄ + r (V − V̄) is the influence of a user, or of a query; the influences of the queries of
    one user are added up.
    """
    form = group.form
    numerator, denominator = form.sums(weights, group.contributions)
    ratio = numerator.sum(axis=0) / denominator.sum()
    psi = (numerator - ratio * denominator[:, None]) / denominator.mean()
    if form.volume is not None:
        mean_volume = form.volume.mean()
        psi = mean_volume * psi + ratio * (form.volume - mean_volume)[:, None]

    ranked = form.ranked
    n_units = ranked.users.size
    if ranked.cluster is not None:
        n_queries = n_units
        units, unit_index = np.unique(ranked.unit(ranked.users), return_inverse=True)
        n_units = units.size
        membership = sparse.csr_array(
            (np.ones(n_queries), (unit_index, np.arange(n_queries))), shape=(n_units, n_queries)
        )
        psi = membership @ psi * (n_units / n_queries)
    if n_units < 2:
        return np.full(ratio.size, np.nan)
    return np.asarray(np.sqrt((psi**2).sum(axis=0) / (n_units * (n_units - 1.0))))


Values = dict[Key, FloatArray]


@dataclass(frozen=True, eq=False)
class GammaValues:
    """Estimates, slopes and standard errors on a grid of γ, by (recommender, metric, estimator).

    The arrays are (n_gamma,). Slopes are NaN for estimates that are not linear in contributions, and errors
    are empty unless they were requested.
    """

    estimates: Values = field(default_factory=dict)
    slopes: Values = field(default_factory=dict)
    errors: Values = field(default_factory=dict)

    def add(self, keys: Sequence[Key], arrays: Sequence[FloatArray]) -> None:
        """Add estimates, slopes and, where present, errors of several keys, (n_gamma, n_keys) each."""
        for values, array in zip((self.estimates, self.slopes, self.errors), arrays, strict=False):
            values.update(zip(keys, array.T, strict=True))


@dataclass(frozen=True, eq=False)
class GammaCurves:
    """R(γ) of every recommender, metric and estimator under P_i ∝ (n*_i)^((γ+1)/2) and its later steps.

    Weights depend on γ and n* only, so they are computed once for each level of n*.
    """

    samples: Mapping[str, Sample]
    chain: GammaPath
    level: IntArray  # (n_pos,), level of n* of each positive
    linear: list[LinearGroup]
    nonlinear: list[tuple[str, Metric, Estimator]]  # recomputed for each γ
    is_probability: bool
    _level_sums: dict[LinearGroup, FloatArray] = field(default_factory=dict, repr=False)

    @classmethod
    def from_samples(
        cls,
        samples: Mapping[str, Sample],
        metrics: Sequence[Metric],
        estimators: Sequence[Estimator],
        propensity: Propensity | None,
    ) -> GammaCurves:
        """Return the curves, or raise `PropensityError` where the propensity is not from a power law."""
        if propensity is None:
            raise PropensityError(
                "sensitivity to γ needs a power-law propensity, P_i ∝ (n*_i)^((γ+1)/2); "
                "evaluate with propensity=PowerLawPropensity(gamma=…)."
            )
        chain = propensity.gamma_chain()
        linear, nonlinear = group_estimates(samples, metrics, estimators)
        sample = next(iter(samples.values()))
        return cls(
            samples=samples,
            chain=chain,
            level=chain.place[sample.ranked.item],
            linear=linear,
            nonlinear=nonlinear,
            is_probability=propensity.is_probability,
        )

    @property
    def nonlinear_keys(self) -> list[Key]:
        """Keys of the estimates that are not linear in contributions, which take longer."""
        keys: list[Key] = []
        for model, metric, estimator in self.nonlinear:
            keys.append((model, metric.label, estimator.label))

        return keys

    def select(self, *keys: Key) -> GammaCurves:
        """Return the curves of these estimates only."""
        linear = []
        for group in self.linear:
            columns = []
            for column, key in enumerate(group.keys):
                if key in keys:
                    columns.append(column)

            if columns:
                group_keys = tuple(group.keys[column] for column in columns)
                linear.append(LinearGroup(group.form, group_keys, group.contributions[:, columns]))
        nonlinear = []
        for key, definition in zip(self.nonlinear_keys, self.nonlinear, strict=True):
            if key in keys:
                nonlinear.append(definition)
        return replace(self, linear=linear, nonlinear=nonlinear, _level_sums={})

    def select_metrics(self, labels: Sequence[str]) -> GammaCurves:
        """Return the curves of these metrics only."""
        all_keys: list[Key] = []
        for group in self.linear:
            all_keys.extend(group.keys)
        all_keys.extend(self.nonlinear_keys)

        keys = [key for key in all_keys if key[1] in labels]
        return self.select(*keys)

    def compute_values(self, gamma: FloatArray, *, errors: bool = False) -> GammaValues:
        """Return R, dR/dγ = −½ Cov_w(c, ln n*) and, if requested, errors over users for known n* and γ."""
        values = GammaValues()
        # One BLAS thread: products of small blocks gain nothing from more, and sums keep their order.
        with one_blas_thread():
            values.add(self.nonlinear_keys, list(self._compute_nonlinear(gamma, errors=errors)))
            for group in self.linear:
                values.add(group.keys, self._compute_linear(group, gamma, errors=errors))
        return values

    def find_crossing(
        self, first: Key, second: Key, start: float, end: float, tolerance: float = TOLERANCE
    ) -> float:
        """Return the γ between `start` and `end` at which two estimates are equal, or `end` without one."""
        from scipy.optimize import brentq

        pair = self.select(first, second)

        @cache  # brentq computes both ends again
        def compute_gap(gamma: float) -> float:
            estimates = pair.compute_values(np.array([gamma])).estimates
            return float(estimates[first][0] - estimates[second][0])

        if compute_gap(start) * compute_gap(end) >= 0:  # the estimates are equal at `end`
            return end
        return float(brentq(compute_gap, start, end, xtol=tolerance))

    def _compute_nonlinear(self, gamma: FloatArray, *, errors: bool) -> FloatArray:
        """Return R, dR/dγ and, if requested, errors of nonlinear estimates, (2 or 3, n_gamma, n)."""
        values = np.full((2 + errors, gamma.size, len(self.nonlinear)), np.nan)
        if not self.nonlinear:
            return values
        models = dict.fromkeys(model for model, _, _ in self.nonlinear)
        for row, gamma_value in enumerate(gamma):
            level_propensity, _ = self.chain.for_gamma(float(gamma_value))
            propensity = level_propensity[self.level]
            samples = {}
            for model in models:
                samples[model] = self.samples[model].under(propensity, self.is_probability)

            for column, (model, metric, estimator) in enumerate(self.nonlinear):
                if not estimator.weighted and row > 0:
                    continue  # the value at the first γ is copied below
                sample = samples[model]
                sums = estimator.sums(sample, metric).by_cluster(sample.ranked.cluster)
                values[0, row, column] = sums.value()
                if errors:
                    values[2, row, column] = sums.standard_error()

        for column, (_, _, estimator) in enumerate(self.nonlinear):
            if not estimator.weighted:
                values[:, :, column] = values[:, :1, column]
                values[1, :, column] = 0
        return values

    def _compute_linear(self, group: LinearGroup, gamma: FloatArray, *, errors: bool) -> list[FloatArray]:
        """Return R, dR/dγ and, if requested, standard errors, (n_gamma, n_columns) each."""
        is_weighted = group.form.weighted
        if is_weighted:
            steps = []
            for gamma_value in gamma:
                steps.append(self.chain.for_gamma(float(gamma_value)))

            weights = 1 / np.array([propensity for propensity, _ in steps])
            log_slopes = np.array([log_slope for _, log_slope in steps])
        else:
            weights = np.ones((1, self.chain.level.size))
            log_slopes = np.zeros((1, self.chain.level.size))

        compute = self._compute_user_mean if group.form.per_user else self._compute_ratio
        arrays = list(compute(group, weights, log_slopes))
        if errors:
            error_rows = [compute_standard_errors(group, row[self.level]) for row in weights]
            arrays.append(np.array(error_rows))
        if not is_weighted:
            arrays = [np.repeat(array, gamma.size, axis=0) for array in arrays]
        return arrays

    def _compute_ratio(
        self, group: LinearGroup, weights: FloatArray, log_slopes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return R and dR/dγ, (n_gamma, n_columns), of one ratio of sums, from sums by level of n*."""
        level_sums = self._sum_by_level(group)
        sums = weights @ level_sums
        slopes = -(weights * log_slopes) @ level_sums
        ratio = sums[:, :-1] / sums[:, -1:]
        slope = (slopes[:, :-1] - ratio * slopes[:, -1:]) / sums[:, -1:]
        volume = 1.0 if group.form.volume is None else float(group.form.volume.mean())
        return ratio * volume, slope * volume

    def _sum_by_level(self, group: LinearGroup) -> FloatArray:
        """Return Σ b c of every column and Σ b, by level of n*, (n_levels, n_columns + 1), computed once."""
        if group not in self._level_sums:
            base = group.form.base
            n_levels = self.chain.level.size
            # One sparse product passes over the contributions once. A sum for each column would read all
            # rows as many times as there are columns.
            level_base = sparse.csc_array(
                (base, self.level, np.arange(base.size + 1)), shape=(n_levels, self.level.size)
            )
            base_sums = np.bincount(self.level, base, n_levels)
            self._level_sums[group] = np.column_stack([level_base @ group.contributions, base_sums])
        return self._level_sums[group]

    def _compute_user_mean(
        self, group: LinearGroup, weights: FloatArray, log_slopes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return R and dR/dγ, (n_gamma, n_columns), of a mean of ratios of the users."""
        ranked = group.form.ranked
        ratio = np.empty((weights.shape[0], group.contributions.shape[1]))
        slope = np.zeros_like(ratio)
        for row, (level_weights, level_log_slopes) in enumerate(zip(weights, log_slopes, strict=True)):
            coefficients = group.form.coefficients(level_weights[self.level])
            ratio[row] = coefficients @ group.contributions
            if group.form.weighted:
                log_slope = level_log_slopes[self.level]
                user_sums = ranked.sum_by_user(coefficients * log_slope)
                user_means = user_sums / ranked.sum_by_user(coefficients)
                log_slope -= user_means[ranked.segment]
                slope[row] = -(coefficients * log_slope) @ group.contributions
        return ratio, slope
