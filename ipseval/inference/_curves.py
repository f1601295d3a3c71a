"""Estimates as functions of γ: ranks and contributions are computed once, only weights change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from ipseval.errors import PropensityError
from ipseval.estimators import Estimator, Sample
from ipseval.estimators.estimate import independent_sums
from ipseval.inference._linear import LinearGroup, groups
from ipseval.inference.intervals import Key
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.propensity.steps import GammaChain
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.types import FloatArray, IntArray


def standard_errors(group: LinearGroup, weights: FloatArray) -> FloatArray:
    """Return the error over users of each estimate, (n_columns,), with weights (n_pos,) taken as known."""
    # ψ = V̄ (N − r D)/D̄ + r (V − V̄) of users, or queries, added up over those of one user.
    form, ranked = group.form, group.form.ranked
    numerator, denominator = form.sums(weights, group.contributions)
    ratio = numerator.sum(axis=0) / denominator.sum()
    psi = (numerator - ratio * denominator[:, None]) / denominator.mean()
    if form.volume is not None:
        mean = form.volume.mean()
        psi = mean * psi + ratio * (form.volume - mean)[:, None]
    n = ranked.users.size
    if ranked.cluster is not None:
        units, place = np.unique(ranked.unit(ranked.users), return_inverse=True)
        of_unit = sparse.csr_array((np.ones(n), (place, np.arange(n))), shape=(units.size, n))
        psi = of_unit @ psi * (units.size / n)
        n = units.size
    return np.sqrt((psi**2).sum(axis=0) / (n * (n - 1.0))) if n > 1 else np.full(ratio.size, np.nan)


Values = dict[Key, FloatArray]


@dataclass(frozen=True, eq=False)
class Curves:
    """R(γ) of every recommender, metric and estimator under P_i ∝ (n*_i)^((γ+1)/2) and its further steps."""

    samples: Mapping[str, Sample]
    chain: GammaChain  # weights depend on γ and n* alone: they are computed once for every level of n*
    level: IntArray  # (n_pos,), level of each positive
    linear: list[LinearGroup]
    others: list[tuple[str, Metric, Estimator]]  # not linear in contributions: computed anew for each γ
    is_probability: bool
    _by_level: dict[LinearGroup, FloatArray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        samples: Mapping[str, Sample],
        metrics: Sequence[Metric],
        estimators: Sequence[Estimator],
        propensity: Propensity | None,
    ) -> Curves:
        """Return the curves, or raise `PropensityError` where the propensity is not of a power law."""
        if propensity is None:
            raise PropensityError(
                "sensitivity to γ needs a power-law propensity, P_i ∝ (n*_i)^((γ+1)/2); "
                "evaluate with propensity=PowerLawPropensity(gamma=…)."
            )
        chain = propensity.gamma_chain()
        linear, others = groups(samples, metrics, estimators)
        sample = next(iter(samples.values()))
        level = chain.place[sample.ranked.item]
        return cls(samples, chain, level, linear, others, propensity.is_probability)

    @property
    def slower(self) -> list[Key]:
        """Return the estimates that are not linear in contributions."""
        return [(model, metric.label, estimator.label) for model, metric, estimator in self.others]

    def only(self, *keys: Key) -> Curves:
        """Return the curves of a few estimates."""
        linear = []
        for group in self.linear:
            chosen = [place for place, key in enumerate(group.keys) if key in keys]
            if chosen:
                names = tuple(group.keys[place] for place in chosen)
                linear.append(LinearGroup(group.form, names, group.contributions[:, chosen]))
        others = [one for one in self.others if (one[0], one[1].label, one[2].label) in keys]
        return replace(self, linear=linear, others=others, _by_level={})

    def values(self, gamma: FloatArray, *, errors: bool = False) -> tuple[Values, Values, Values]:
        """Return R, dR/dγ = −½ Cov_w(c, ln n*) and errors over users, n* and γ known, (n_gamma,) each."""
        # A slope is NaN where R is not linear. Errors are empty unless asked for.
        found: tuple[Values, Values, Values] = ({}, {}, {})
        # One BLAS thread: products of small blocks gain nothing from more, and keep one order of sums.
        with one_blas_thread():
            parts: list[tuple[Sequence[Key], Sequence[FloatArray]]]
            parts = [(self.slower, list(self._anew(gamma, errors=errors)))]
            parts += [(group.keys, self._linear(group, gamma, errors=errors)) for group in self.linear]
        for keys, made in parts:
            for kept, one in zip(found, made, strict=False):
                kept.update(zip(keys, one.T, strict=True))
        return found

    def crossing(self, one: Key, other: Key, start: float, end: float, tolerance: float) -> float:
        """Return the γ between start and end at which two estimates are equal; the end where none is."""
        from scipy.optimize import brentq

        pair = self.only(one, other)

        def gap(gamma: float) -> float:
            values = pair.values(np.array([gamma]))[0]
            return float(values[one][0] - values[other][0])

        if gap(start) * gap(end) >= 0:  # a tie at the end
            return end
        return float(brentq(gap, start, end, xtol=tolerance))

    def _anew(self, gamma: FloatArray, *, errors: bool) -> FloatArray:
        """Return R, dR/dγ and, if asked for, errors of what is not linear, (2 or 3, n_gamma, n_others)."""
        names = dict.fromkeys(model for model, *_ in self.others)
        found = np.full((2 + errors, gamma.size, len(self.others)), np.nan)
        for place, at in enumerate(gamma if names else ()):
            propensity = self.chain.at(float(at))[0][self.level]
            made = {name: self.samples[name].under(propensity, self.is_probability) for name in names}
            for column, (model, metric, estimator) in enumerate(self.others):
                if estimator.weighted or place == 0:
                    sums = independent_sums(made[model], metric, estimator)
                    found[0, place, column] = sums.value()
                    if errors:
                        found[2, place, column] = sums.standard_error()
        plain = [column for column, (*_, estimator) in enumerate(self.others) if not estimator.weighted]
        found[:, :, plain] = found[:, :1, plain]  # the same at all γ
        found[1, :, plain] = 0
        return found

    def _linear(self, group: LinearGroup, gamma: FloatArray, *, errors: bool) -> list[FloatArray]:
        """Return R, dR/dγ and, if asked for, standard errors, (n_gamma, n_columns) each."""
        if group.form.weighted:
            chain = [self.chain.at(float(one)) for one in gamma]
            weights, slopes = 1 / np.array([p for p, _ in chain]), np.array([slope for _, slope in chain])
        else:
            weights, slopes = np.ones((1, self.chain.level.size)), np.zeros((1, self.chain.level.size))
        found = list((self._per_user if group.form.per_user else self._global)(group, weights, slopes))
        if errors:
            found.append(np.array([standard_errors(group, one[self.level]) for one in weights]))
        return found if group.form.weighted else [np.repeat(one, gamma.size, axis=0) for one in found]

    def _global(
        self, group: LinearGroup, weights: FloatArray, log_slopes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return R and dR/dγ, (n_gamma, n_columns), from sums by level of n*."""
        form, by_level = group.form, self._sums_by_level(group)
        sums = weights @ by_level
        slopes = -(weights * log_slopes) @ by_level
        ratio = sums[:, :-1] / sums[:, -1:]
        slope = (slopes[:, :-1] - ratio * slopes[:, -1:]) / sums[:, -1:]
        volume = 1.0 if form.volume is None else float(form.volume.mean())
        return ratio * volume, slope * volume

    def _sums_by_level(self, group: LinearGroup) -> FloatArray:
        """Return Σ b c of every column and Σ b, by level of n*, (n_levels, n_columns + 1), added up once."""
        if group not in self._by_level:
            base, shape = group.form.base, (self.chain.level.size, self.level.size)
            # One pass over the rows of contributions: a pass for each column would read all of them as often.
            of_level = sparse.csc_array((base, self.level, np.arange(base.size + 1)), shape=shape)
            total = np.bincount(self.level, base, shape[0])
            self._by_level[group] = np.column_stack([of_level @ group.contributions, total])
        return self._by_level[group]

    def _per_user(
        self, group: LinearGroup, weights: FloatArray, log_slopes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return R and dR/dγ, (n_gamma, n_columns), γ by γ."""
        form, ranked = group.form, group.form.ranked
        ratio = np.empty((weights.shape[0], group.contributions.shape[1]))
        slope = np.zeros_like(ratio)
        for place, (weight, log_slope) in enumerate(zip(weights, log_slopes, strict=True)):
            v = form.coefficients(weight[self.level])
            ratio[place] = v @ group.contributions
            if form.weighted:
                change = log_slope[self.level]
                change -= (ranked.sum_by_user(v * change) / ranked.sum_by_user(v))[ranked.segment]
                slope[place] = -(v * change) @ group.contributions
        return ratio, slope
