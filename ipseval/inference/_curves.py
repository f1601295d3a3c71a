"""Estimates as functions of γ: ranks and contributions are computed once, only weights change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from scipy import sparse

from ipseval._compute import one_blas_thread
from ipseval._types import FloatArray, IntArray
from ipseval.errors import PropensityError
from ipseval.estimators import Estimator, Sample, independent_sums
from ipseval.inference._bootstrap import Key
from ipseval.inference._linear import LinearGroup, groups
from ipseval.metrics import Metric
from ipseval.propensity import GammaChain, Propensity
from ipseval.ranking import RankedPositives

# Entries of one block: 2 MB.
BLOCK_ENTRIES = 262_144

Values = dict[Key, FloatArray]


@dataclass(frozen=True, eq=False)
class Curves:
    """R(γ) of every recommender, metric and estimator under P_i ∝ (n*_i)^((γ+1)/2) and its further steps.

    Weights depend on γ and n* alone, so they are computed once for every level of n* and read from there.

    Attributes
    ----------
    chain : GammaChain
        P and its derivative for every level of n*.
    level : (n_pos,) int array
        Level of each positive.
    linear : list of LinearGroup
    others : list of (recommender, Metric, Estimator)
        Estimates that are computed anew for each γ.
    is_probability : bool
        Whether P is on the scale of probabilities.
    """

    samples: Mapping[str, Sample]
    chain: GammaChain
    level: IntArray
    linear: list[LinearGroup]
    others: list[tuple[str, Metric, Estimator]]
    is_probability: bool
    _by_level: dict[LinearGroup, FloatArray] = field(default_factory=dict, repr=False)
    _anew: dict[bytes, tuple[Values, Values]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        samples: Mapping[str, Sample],
        metrics: Sequence[Metric],
        estimators: Sequence[Estimator],
        propensity: Propensity | None,
    ) -> Curves:
        """Prepare the curves.

        Raises
        ------
        PropensityError
            When the propensity does not start from a power law.
        """
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

    def values(self, gamma: FloatArray) -> tuple[Values, Values]:
        """Return all estimates and their derivatives dR/dγ at each γ, (n_gamma,).

        dR/dγ = −½ Cov_w(c, ln n*) within the normaliser of the estimator; NaN where the estimate is not
        linear in contributions.
        """
        values: Values = {}
        slopes: Values = {}
        for group in self.linear:
            part = self._per_user if group.form.per_user else self._global
            # One BLAS thread: products of small blocks gain nothing from more, and keep one order of sums.
            with one_blas_thread():
                found, slope = (_everywhere(one, gamma) for one in part(group, _needed(group, gamma)))
            values.update(zip(group.keys, found.T, strict=True))
            slopes.update(zip(group.keys, slope.T, strict=True))
        for model, metric, estimator in self.others:
            key = (model, metric.label, estimator.label)
            slopes[key] = np.full(gamma.size, np.nan if estimator.weighted else 0.0)
        return values | self._computed_anew(gamma)[0], slopes

    def standard_errors(self, gamma: FloatArray, values: Values) -> Values:
        """Return the standard errors over users at each γ, n* and γ taken as known; `values` as above."""
        errors: Values = {}
        for group in self.linear:
            needed = _needed(group, gamma)
            estimates = np.column_stack([values[key][: needed.size] for key in group.keys])
            with one_blas_thread():
                squares = _everywhere(self._squared_influence(group, needed, estimates), gamma)
            n = _Units.of(group.form.ranked).n
            error = np.sqrt(squares / (n * (n - 1.0))) if n > 1 else np.full(squares.shape, np.nan)
            errors.update(zip(group.keys, error.T, strict=True))
        return errors | self._computed_anew(gamma)[1]

    def only(self, *keys: Key) -> Curves:
        """Return the curves of a few estimates."""
        linear = []
        for group in self.linear:
            chosen = [place for place, key in enumerate(group.keys) if key in keys]
            if chosen:
                names = tuple(group.keys[place] for place in chosen)
                linear.append(LinearGroup(group.form, names, group.contributions[:, chosen]))
        others = [one for one in self.others if (one[0], one[1].label, one[2].label) in keys]
        return replace(self, linear=linear, others=others, _by_level={}, _anew={})

    def _weights(self, gamma: FloatArray, weighted: bool) -> tuple[FloatArray, FloatArray]:
        """Return 1/P of each level and d ln P/dγ, (n_gamma, n_levels)."""
        if not weighted:
            ones = np.ones((gamma.size, self.chain.level.size))
            return ones, 0 * ones
        found = [self.chain.at(float(one)) for one in gamma]
        return 1 / np.array([p for p, _ in found]), np.array([slope for _, slope in found])

    def _global(self, group: LinearGroup, gamma: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return R and dR/dγ, (n_gamma, n_columns), from sums by level of n*."""
        form, by_level = group.form, self._sums_by_level(group)
        weights, log_slopes = self._weights(gamma, form.weighted)
        sums = weights @ by_level
        slopes = -(weights * log_slopes) @ by_level
        ratio = sums[:, :-1] / sums[:, -1:]
        slope = (slopes[:, :-1] - ratio * slopes[:, -1:]) / sums[:, -1:]
        volume = 1.0 if form.volume is None else float(form.volume.mean())
        return ratio * volume, slope * volume

    def _sums_by_level(self, group: LinearGroup) -> FloatArray:
        """Return Σ b c of every column and Σ b, by level of n*, (n_levels, n_columns + 1), added up once."""
        if group not in self._by_level:
            terms = (
                np.column_stack([group.contributions, np.ones(self.level.size)]) * group.form.base[:, None]
            )
            by_level = np.empty((self.chain.level.size, terms.shape[1]))
            for column in range(terms.shape[1]):
                by_level[:, column] = np.bincount(self.level, terms[:, column], self.chain.level.size)
            self._by_level[group] = by_level
        return self._by_level[group]

    def _per_user(self, group: LinearGroup, gamma: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return R and dR/dγ, (n_gamma, n_columns), from blocks of users."""
        form, n_columns = group.form, group.contributions.shape[1]
        factor = form.factor / form.factor.size
        tables = self._weights(gamma, form.weighted)
        by_level, slope_by_level = (np.ascontiguousarray(one.T) for one in tables)
        ratio = np.zeros((gamma.size, n_columns))
        slope = np.zeros_like(ratio)
        for users, rows in _alike(form.ranked, gamma.size):
            level = self.level[rows]
            v = by_level[level]  # (n_users, n_positives, n_gamma)
            v /= v.sum(axis=1)[:, None]
            c = group.contributions[rows].reshape(-1, n_columns)
            if form.weighted:
                log_slope = slope_by_level[level]
                mean_slope = np.einsum("upg,upg->ug", v, log_slope)
            v *= factor[users][:, None, None]
            ratio += v.reshape(-1, gamma.size).T @ c
            if form.weighted:
                log_slope -= mean_slope[:, None]
                log_slope *= v
                slope -= log_slope.reshape(-1, gamma.size).T @ c
        return ratio, slope

    def _squared_influence(self, group: LinearGroup, gamma: FloatArray, estimates: FloatArray) -> FloatArray:
        """Return Σψ² over the independent units, (n_gamma, n_columns)."""
        form, n_columns = group.form, estimates.shape[1]
        units = _Units.of(form.ranked)
        added = np.zeros((n_columns, gamma.size, units.n)) if units.clustered else None
        by_level = np.ascontiguousarray(self._weights(gamma, form.weighted)[0].T)
        mean_volume = 1.0 if form.volume is None else float(form.volume.mean())
        ratio = estimates / mean_volume
        base = np.bincount(self.level, form.base, self.chain.level.size)
        mean_denominator = base @ by_level / form.ranked.users.size
        squares = np.zeros_like(estimates)
        for users, rows in _alike(form.ranked, gamma.size, n_columns):
            w = by_level[self.level[rows]]  # (n_users, n_positives, n_gamma)
            if form.per_user:
                w *= (form.factor[users][:, None] / w.sum(axis=1))[:, None]
                psi = np.matmul(w.transpose(0, 2, 1), group.contributions[rows])
                psi -= ratio
            else:
                w *= form.base[rows][:, :, None] / mean_denominator
                psi = np.matmul(w.transpose(0, 2, 1), group.contributions[rows])
                psi -= w.sum(axis=1)[:, :, None] * ratio
            if form.volume is not None:
                psi *= mean_volume
                psi += ratio * (form.volume[users] - mean_volume)[:, None, None]
            if added is None:
                squares += np.square(psi, out=psi).sum(axis=0)
            else:
                for column in range(n_columns):
                    added[column] += units.added(psi[:, :, column].T, users)
        return squares if added is None else np.einsum("cgu,cgu->gc", added, added)

    def _computed_anew(self, gamma: FloatArray) -> tuple[Values, Values]:
        """Return what is not linear, and its standard errors, at each γ; that of the last grid is kept."""
        key = gamma.tobytes()
        if key not in self._anew:
            values: Values = {(one, of.label, by.label): np.empty(gamma.size) for one, of, by in self.others}
            errors: Values = {name: np.empty(gamma.size) for name in values}
            for place, at in enumerate(gamma):
                for (model, metric, estimator), sample in self._other_samples(float(at)):
                    sums = independent_sums(sample, metric, estimator)
                    name = model, metric.label, estimator.label
                    values[name][place], errors[name][place] = sums.value(), sums.standard_error()
            self._anew.clear()
            self._anew[key] = (values, errors)
        return self._anew[key]

    def _other_samples(self, gamma: float) -> list[tuple[tuple[str, Metric, Estimator], Sample]]:
        if not self.others:
            return []
        propensity = self.chain.at(gamma)[0][self.level]
        made = {name: one.under(propensity, self.is_probability) for name, one in self.samples.items()}
        return [(one, made[one[0]]) for one in self.others]


def _alike(ranked: RankedPositives, n_gamma: int, n_columns: int = 1) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield users with equally many positives, and their rows (n_users, n_positives).

    A block holds weights, γ × positives, and γ × columns of each of its users: 2 MB, which stay in cache.
    """
    order = np.argsort(ranked.counts, kind="stable")
    edges = np.flatnonzero(np.diff(ranked.counts[order], prepend=0, append=0))
    for first, last in pairwise(edges.tolist()):
        count = int(ranked.counts[order[first]])
        size = max(1, BLOCK_ENTRIES // (n_gamma * max(count, n_columns)))
        for start in range(first, last, size):
            users = order[start : min(start + size, last)]
            yield users, ranked.starts[users][:, None] + np.arange(count)


def _needed(group: LinearGroup, gamma: FloatArray) -> FloatArray:
    """Return the γ at which a group is computed: one where it has no weights, and is the same at all."""
    return gamma if group.form.weighted else gamma[:1]


def _everywhere(found: FloatArray, gamma: FloatArray) -> FloatArray:
    """Return rows of every γ, (n_gamma, n_columns), from those that were computed."""
    return np.broadcast_to(found, (gamma.size, found.shape[1]))


@dataclass(frozen=True, eq=False)
class _Units:
    """The independent units with positives: users, or those to whom queries belong."""

    n: int
    clustered: bool
    place: IntArray

    @classmethod
    def of(cls, ranked: RankedPositives) -> _Units:
        units, place = np.unique(ranked.unit(ranked.users), return_inverse=True)
        return cls(units.size, ranked.cluster is not None, place)

    def added(self, psi: FloatArray, users: IntArray) -> FloatArray:
        """Return what influences (n_gamma, n_queries) of some queries add to those of units, (n_gamma, n)."""
        place = self.place[users]
        shape = (self.n, place.size)
        belongs = sparse.csr_array((np.ones(place.size), (place, np.arange(place.size))), shape=shape)
        return np.asarray(belongs @ psi.T).T * (self.n / self.place.size)
