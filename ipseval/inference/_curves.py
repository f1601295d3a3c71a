"""Estimates as functions of γ: ranks and contributions are computed once, only weights change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from ipseval._compute import one_blas_thread
from ipseval._types import FloatArray, IntArray
from ipseval.errors import PropensityError
from ipseval.estimators import Estimator, Sample, estimate, independent_sums
from ipseval.inference._bootstrap import Key
from ipseval.inference._linear import LinearGroup, groups
from ipseval.metrics import Metric
from ipseval.propensity import GammaChain, Propensity
from ipseval.ranking import RankedPositives

# Entries of one block of weights, γ × positives: 2 MB, so that a block stays in cache.
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
            values[key] = np.empty(gamma.size)
            slopes[key] = np.full(gamma.size, np.nan if estimator.weighted else 0.0)
        for place, one in enumerate(gamma):
            for (model, metric, estimator), sample in self._other_samples(float(one)):
                values[model, metric.label, estimator.label][place] = independent_sums(
                    sample, metric, estimator
                ).value()
        return values, slopes

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
        for model, metric, estimator in self.others:
            errors[model, metric.label, estimator.label] = np.empty(gamma.size)
        for place, one in enumerate(gamma):
            for (model, metric, estimator), sample in self._other_samples(float(one)):
                found = estimate(sample, metric, estimator).standard_error
                errors[model, metric.label, estimator.label][place] = found
        return errors

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
        form = group.form
        factor = form.factor / form.factor.size
        weights, log_slopes = self._weights(gamma, form.weighted)
        ratio = np.zeros((gamma.size, group.contributions.shape[1]))
        slope = np.zeros_like(ratio)
        for users, rows, starts, segment in self._blocks(gamma.size):
            w = weights[:, self.level[rows]]
            v = w / np.add.reduceat(w, starts, axis=1)[:, segment]
            log_slope = log_slopes[:, self.level[rows]]
            mean_slope = np.add.reduceat(v * log_slope, starts, axis=1)[:, segment]
            v *= factor[users][segment]
            c = group.contributions[rows]
            ratio += v @ c
            if form.weighted:
                slope -= (v * (log_slope - mean_slope)) @ c
        return ratio, slope

    def _squared_influence(self, group: LinearGroup, gamma: FloatArray, estimates: FloatArray) -> FloatArray:
        """Return Σψ² over the independent units, (n_gamma, n_columns)."""
        form = group.form
        units = _Units.of(form.ranked)
        added = np.zeros((estimates.shape[1], gamma.size, units.n)) if units.clustered else None
        n = form.ranked.users.size
        weights, _ = self._weights(gamma, form.weighted)
        mean_volume = 1.0 if form.volume is None else float(form.volume.mean())
        ratio = estimates / mean_volume
        base_by_level = np.bincount(self.level, form.base, self.chain.level.size)
        mean_denominator = (weights @ base_by_level / n)[:, None]
        squares = np.zeros_like(estimates)
        for users, rows, starts, segment in self._blocks(gamma.size):
            w = weights[:, self.level[rows]]
            if form.per_user:
                w = w / np.add.reduceat(w, starts, axis=1)[:, segment] * form.factor[users][segment]
            else:
                w = w * form.base[rows] / mean_denominator
            for column in range(estimates.shape[1]):
                c = group.contributions[rows, column]
                if form.per_user:
                    psi = np.add.reduceat(w * c, starts, axis=1) - ratio[:, column, None]
                else:
                    psi = np.add.reduceat(w * (c - ratio[:, column, None]), starts, axis=1)
                if form.volume is not None:
                    psi = psi * mean_volume + ratio[:, column, None] * (form.volume[users] - mean_volume)
                if added is None:
                    squares[:, column] += np.einsum("gu,gu->g", psi, psi)
                else:
                    added[column] += units.added(psi, users)
        return squares if added is None else np.einsum("cgu,cgu->gc", added, added)

    def _blocks(self, n_gamma: int) -> Iterator[tuple[slice, slice, IntArray, IntArray]]:
        """Yield users, their positives, where each begins in the block, and the user of each positive."""
        ranked = next(iter(self.samples.values())).ranked
        size = max(1, BLOCK_ENTRIES // n_gamma)
        first = 0
        while first < ranked.users.size:
            last = int(np.searchsorted(ranked.starts, ranked.starts[first] + size, side="left"))
            last = max(last, first + 1)
            stop = int(ranked.starts[last]) if last < ranked.users.size else len(ranked)
            rows = slice(int(ranked.starts[first]), stop)
            starts = ranked.starts[first:last] - ranked.starts[first]
            yield slice(first, last), rows, starts, ranked.segment[rows] - first
            first = last

    def _other_samples(self, gamma: float) -> list[tuple[tuple[str, Metric, Estimator], Sample]]:
        if not self.others:
            return []
        propensity = self.chain.at(gamma)[0][self.level]
        made = {name: one.under(propensity, self.is_probability) for name, one in self.samples.items()}
        return [(one, made[one[0]]) for one in self.others]


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

    def added(self, psi: FloatArray, users: slice) -> FloatArray:
        """Return what influences (n_gamma, n_queries) of some queries add to those of units, (n_gamma, n)."""
        place = self.place[users]
        shape = (self.n, place.size)
        belongs = sparse.csr_array((np.ones(place.size), (place, np.arange(place.size))), shape=shape)
        return np.asarray(belongs @ psi.T).T * (self.n / self.place.size)
