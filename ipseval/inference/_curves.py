"""Estimates as functions of γ: ranks and contributions are computed once, only weights change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy import sparse

from ipseval._compute import one_blas_thread
from ipseval._types import FloatArray, IntArray
from ipseval.errors import PropensityError
from ipseval.estimators import Estimator, LinearForm, Sample, independent_sums
from ipseval.inference._arranged import ArrangedGroup, alike, arranged_groups
from ipseval.inference._bootstrap import Key
from ipseval.inference._linear import LinearGroup, groups
from ipseval.inference._nodes import over_grid
from ipseval.metrics import Metric
from ipseval.propensity import GammaChain, Propensity
from ipseval.ranking import RankedPositives

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
    arranged : list of ArrangedGroup
    others : list of (recommender, Metric, Estimator)
        Estimates that are computed anew for each γ.
    is_probability : bool
        Whether P is on the scale of probabilities.
    """

    samples: Mapping[str, Sample]
    chain: GammaChain
    level: IntArray
    linear: list[LinearGroup]
    arranged: list[ArrangedGroup]
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
        arranged, others = arranged_groups(samples, others)
        sample = next(iter(samples.values()))
        level = chain.place[sample.ranked.item]
        return cls(samples, chain, level, _joined(linear), arranged, others, propensity.is_probability)

    @property
    def slower(self) -> list[Key]:
        """Return the estimates that are not linear in contributions."""
        anew = [(model, metric.label, estimator.label) for model, metric, estimator in self.others]
        return [*anew, *(key for group in self.arranged for key in group.keys)]

    def values(self, gamma: FloatArray) -> tuple[Values, Values]:
        """Return all estimates and their derivatives dR/dγ at each γ, (n_gamma,).

        dR/dγ = −½ Cov_w(c, ln n*) within the normaliser of the estimator; NaN where the estimate is not
        linear in contributions.
        """
        return self._found(gamma, errors=False)[:2]

    def with_errors(self, gamma: FloatArray) -> tuple[Values, Values, Values]:
        """Return `values`, and the standard errors over users at each γ, n* and γ taken as known."""
        return self._found(gamma, errors=True)

    def _found(self, gamma: FloatArray, *, errors: bool) -> tuple[Values, Values, Values]:
        values, slopes, found = self._computed_anew(gamma, errors=errors)
        # Best arrangements turn round at γ = −1, and nothing is smooth across that.
        turn = int(np.searchsorted(gamma, -1.0))
        for ordered in self.arranged:
            slope = np.full((len(ordered.keys), gamma.size), np.nan if ordered.weighted else 0.0)
            slopes.update(zip(ordered.keys, slope, strict=True))
            parts = [
                self._over(partial(self._arranged, ordered, errors=errors), one, ordered.weighted, (1, 2))
                for one in np.split(gamma, [turn])
                if one.size
            ]
            for kept, *rows in zip((values, found), *parts, strict=False):
                kept.update(zip(ordered.keys, np.vstack(rows).T, strict=True))
        for group in self.linear:
            made = self._over(partial(self._linear, group, errors=errors), gamma, group.form.weighted)
            for kept, one in zip((values, slopes, found), made, strict=False):
                kept.update(zip(group.keys, one.T, strict=True))
        return values, slopes, {key: np.sqrt(np.maximum(one, 0)) for key, one in found.items()}

    def _over(
        self,
        part: Callable[[FloatArray], tuple[FloatArray, ...]],
        gamma: FloatArray,
        weighted: bool,
        powers: tuple[int, ...] = (1, 1, 2),
    ) -> tuple[FloatArray, ...]:
        # One BLAS thread: products of small blocks gain nothing from more, and keep one order of sums.
        with one_blas_thread():
            if not weighted:  # the same at all γ
                return tuple(np.repeat(one, gamma.size, axis=0) for one in part(gamma[:1]))
            return over_grid(part, gamma, powers) if self.chain.is_smooth else part(gamma)

    def _arranged(self, group: ArrangedGroup, gamma: FloatArray, *, errors: bool) -> tuple[FloatArray, ...]:
        weights = np.ascontiguousarray(self._weights(gamma, group.weighted)[0].T)
        return group.curves(self.level, weights, falls=bool(gamma[0] >= -1), errors=errors)

    def _linear(self, group: LinearGroup, gamma: FloatArray, *, errors: bool) -> tuple[FloatArray, ...]:
        """Return R, dR/dγ and, if asked for, squared errors, (n_gamma, n_columns) each."""
        ratio, slope = (self._per_user if group.form.per_user else self._global)(group, gamma)
        if not errors:
            return ratio, slope
        n = _Units.of(group.form.ranked).n
        if n < 2:
            return ratio, slope, np.full(ratio.shape, np.nan)
        return ratio, slope, self._squared_influence(group, gamma, ratio) / (n * (n - 1.0))

    def only(self, *keys: Key) -> Curves:
        """Return the curves of a few estimates."""
        linear = []
        for group in self.linear:
            chosen = [place for place, key in enumerate(group.keys) if key in keys]
            if chosen:
                names = tuple(group.keys[place] for place in chosen)
                linear.append(LinearGroup(group.form, names, group.contributions[:, chosen]))
        others = [one for one in self.others if (one[0], one[1].label, one[2].label) in keys]
        arranged = [found for one in self.arranged if (found := one.only(keys)) is not None]
        return replace(self, linear=linear, arranged=arranged, others=others, _by_level={})

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
            base, shape = group.form.base, (self.chain.level.size, self.level.size)
            # One pass over the rows of contributions: a pass for each column would read all of them as often.
            of_level = sparse.csc_array((base, self.level, np.arange(base.size + 1)), shape=shape)
            total = np.bincount(self.level, base, shape[0])
            self._by_level[group] = np.column_stack([of_level @ group.contributions, total])
        return self._by_level[group]

    def _per_user(self, group: LinearGroup, gamma: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return R and dR/dγ, (n_gamma, n_columns), from blocks of users."""
        form, n_columns = group.form, group.contributions.shape[1]
        tables = self._weights(gamma, form.weighted)
        by_level, slope_by_level = (np.ascontiguousarray(one.T) for one in tables)
        ratio = np.zeros((gamma.size, n_columns))
        slope = np.zeros_like(ratio)
        for _, rows in alike(form.ranked, gamma.size):
            level = self.level[rows]
            v = by_level[level]  # (n_users, n_positives, n_gamma)
            v /= v.sum(axis=1)[:, None]
            c = group.contributions[rows].reshape(-1, n_columns)
            if form.weighted:
                log_slope = slope_by_level[level]
                mean_slope = np.einsum("upg,upg->ug", v, log_slope)
            ratio += v.reshape(-1, gamma.size).T @ c
            if form.weighted:
                log_slope -= mean_slope[:, None]
                log_slope *= v
                slope -= log_slope.reshape(-1, gamma.size).T @ c
        return ratio / form.ranked.users.size, slope / form.ranked.users.size

    def _squared_influence(self, group: LinearGroup, gamma: FloatArray, estimates: FloatArray) -> FloatArray:
        """Return Σψ² over the independent units, (n_gamma, n_columns)."""
        form, n_columns = group.form, estimates.shape[1]
        units = _Units.of(form.ranked)
        added = np.zeros((n_columns, gamma.size, units.n)) if units.clustered else None
        by_level = np.ascontiguousarray(self._weights(gamma, form.weighted)[0].T)
        mean_volume = 1.0 if form.volume is None else float(form.volume.mean())
        ratio = estimates / mean_volume
        base = np.bincount(self.level, form.base, self.chain.level.size)
        scale = mean_volume * form.ranked.users.size / (base @ by_level)
        squares = np.zeros_like(estimates)
        for users, rows in alike(form.ranked, gamma.size, n_columns):
            w = by_level[self.level[rows]]  # (n_users, n_positives, n_gamma)
            if form.per_user:
                w /= w.sum(axis=1)[:, None]
            else:
                w *= form.base[rows][:, :, None] * scale
            psi = np.matmul(w.transpose(0, 2, 1), group.contributions[rows])
            if form.per_user:
                psi -= ratio
            else:
                psi -= w.sum(axis=1)[:, :, None] * ratio
            if form.volume is not None:
                psi += ratio * (rows.shape[1] - mean_volume)
            if added is None:
                flat = psi.reshape(users.size, -1)
                squares += np.einsum("uk,uk->k", flat, flat).reshape(squares.shape)
            else:
                for column in range(n_columns):
                    added[column] += units.added(psi[:, :, column].T, users)
        return squares if added is None else np.einsum("cgu,cgu->gc", added, added)

    def _computed_anew(self, gamma: FloatArray, *, errors: bool) -> tuple[Values, Values, Values]:
        """Return what is not linear at each γ, no derivatives, and squared errors if asked for."""
        values: Values = {(one, of.label, by.label): np.empty(gamma.size) for one, of, by in self.others}
        squares: Values = {name: np.empty(gamma.size) for name in values} if errors else {}
        for place, at in enumerate(gamma):
            for (model, metric, estimator), sample in self._other_samples(float(at)):
                sums = independent_sums(sample, metric, estimator)
                name = model, metric.label, estimator.label
                values[name][place] = sums.value()
                if errors:
                    squares[name][place] = sums.standard_error() ** 2
        slopes = {
            (one, of.label, by.label): np.full(gamma.size, np.nan if by.weighted else 0.0)
            for one, of, by in self.others
        }
        return values, slopes, squares

    def _other_samples(self, gamma: float) -> list[tuple[tuple[str, Metric, Estimator], Sample]]:
        if not self.others:
            return []
        propensity = self.chain.at(gamma)[0][self.level]
        made = {name: one.under(propensity, self.is_probability) for name, one in self.samples.items()}
        return [(one, made[one[0]]) for one in self.others]


def _joined(found: list[LinearGroup]) -> list[LinearGroup]:
    """Return groups of users' means as one for all metrics: a sum is the mean of |S*_u| times c."""
    made = [one for one in found if not one.form.per_user]
    means: dict[LinearForm, list[LinearGroup]] = {}
    for one in found:
        if one.form.per_user:
            means.setdefault(replace(one.form, is_sum=False), []).append(one)
    for form, parts in means.items():
        keys = tuple(key for one in parts for key in one.keys)
        values = [
            one.contributions * one.form.factor[form.ranked.segment, None]
            if one.form.is_sum
            else one.contributions
            for one in parts
        ]
        made.append(LinearGroup(form, keys, values[0] if len(values) == 1 else np.hstack(values)))
    return made


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
