"""Estimates as functions of γ: ranks and contributions are computed once, only weights change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from scipy import sparse

from ipseval._base.compute import one_blas_thread
from ipseval._base.types import FloatArray, IntArray
from ipseval.errors import PropensityError
from ipseval.estimators import Estimator, Sample
from ipseval.estimators._estimate import independent_sums
from ipseval.inference._intervals import Key
from ipseval.inference._linear import LinearGroup, groups
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.propensity._steps import GammaChain
from ipseval.ranking import RankedPositives

# Entries of one block: 2 MB, which stay near the processor.
BLOCK_ENTRIES = 262_144


@dataclass(frozen=True, eq=False)
class Units:
    """The independent units with positives: users, or those to whom queries belong."""

    n: int
    clustered: bool  # whether a unit may have several queries
    place: IntArray  # (n_users,), unit of each user, or query, with positives

    @classmethod
    def of(cls, ranked: RankedPositives) -> Units:
        """Return the units of all users with positives."""
        units, place = np.unique(ranked.unit(ranked.users), return_inverse=True)
        return cls(units.size, ranked.cluster is not None, place)


def squared_influences(
    groups: Sequence[LinearGroup],
    ratios: Sequence[FloatArray],
    level: IntArray,
    weights: FloatArray,
    units: Units,
) -> list[FloatArray]:
    """Return Σψ² over the units, (n_gamma, n_columns) a group, from R and weights (n_levels, n_gamma)."""
    # With x_u = Σwc/Σw over the positives of a user and m_u = Σbw, ψ = m (x − r)/m̄ in a global form, and
    # f x − R per user; a sum of a metric adds r (V_u − V̄), and R = r V̄. Groups share `weighted` and `own`.
    form = groups[0].form
    sums = [_Psi.of(*one, level, weights, units) for one in zip(groups, ratios, strict=True)]
    stacks = {id(one.contributions): one.contributions for one in groups}
    widest = max(one.shape[1] for one in stacks.values())
    for users, rows in users_by_count(form.ranked, weights.shape[1], widest):
        w = weights[level[rows]]  # (n_users, n_positives, n_gamma)
        if form.own is not None:
            w *= form.own[rows][:, :, None]
        total = np.matmul(np.ones((1, rows.shape[1])), w)
        w *= np.divide(1, total, out=np.zeros_like(total), where=total != 0)  # own weights may be 0
        for name, contributions in stacks.items():
            x = np.matmul(contributions[rows].transpose(0, 2, 1), w)  # (n_users, n_columns, n_gamma)
            for one in sums:
                if id(one.group.contributions) == name:
                    one.add(users, x, total[:, 0])
    return [one.found() for one in sums]


@dataclass(frozen=True, eq=False)
class _Psi:
    """Σψ² of a group, (n_columns, n_gamma)."""

    group: LinearGroup
    ratio: FloatArray  # r, (n_columns, n_gamma)
    scale: FloatArray | None  # V̄/m̄ of a global form, (n_gamma,)
    volume: float  # V̄; 1 where the metric is no sum
    units: Units
    squares: FloatArray
    added: FloatArray | None  # Σψ by unit, (n_units, n_columns, n_gamma), where units have several queries

    @classmethod
    def of(
        cls, group: LinearGroup, estimates: FloatArray, level: IntArray, weights: FloatArray, units: Units
    ) -> _Psi:
        form = group.form
        volume = float(form.ranked.counts.mean()) if form.is_sum else 1.0
        scale = None
        if not form.per_user:
            total = np.bincount(level, form.base, weights.shape[0]) @ weights
            scale = volume * form.ranked.users.size / total
        shape = (group.contributions.shape[1], weights.shape[1])
        added = np.zeros((units.n, *shape)) if units.clustered else None
        ratio = np.ascontiguousarray(estimates.T) / volume
        return cls(group, ratio, scale, volume, units, np.zeros(shape), added)

    def add(self, users: IntArray, x: FloatArray, total: FloatArray) -> None:
        """Add users with equally many positives: x, (n_users, n_columns, n_gamma), and Σw."""
        form, count = self.group.form, int(self.group.form.ranked.counts[users[0]])
        psi = x - self.ratio
        if self.scale is not None:
            psi *= (total * (self.scale / count if form.users_equal else self.scale))[:, None]
        elif form.is_sum:
            psi *= count
        if form.is_sum:
            psi += self.ratio * (count - self.volume)
        if self.added is not None:
            np.add.at(self.added, self.units.place[users], psi)
        else:
            np.add(self.squares, np.einsum("ucg,ucg->cg", psi, psi), out=self.squares)

    def found(self) -> FloatArray:
        """Return Σψ², (n_gamma, n_columns)."""
        if self.added is None:
            return self.squares.T
        squares: FloatArray = np.einsum("ucg,ucg->gc", self.added, self.added)
        return squares * (self.units.n / self.units.place.size) ** 2


def users_by_count(
    ranked: RankedPositives, n_gamma: int, n_columns: int = 1
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield users with equally many positives, and their rows (n_users, n_positives), in blocks."""
    # A block holds weights, γ × positives, and γ × columns of each of its users.
    order = np.argsort(ranked.counts, kind="stable")
    counts = ranked.counts[order]
    edges = np.flatnonzero(np.diff(counts, prepend=0, append=0))
    for first, last in pairwise(edges.tolist()):
        count = int(counts[first])
        size = max(1, BLOCK_ENTRIES // (n_gamma * max(count, n_columns)))
        for start in range(first, last, size):
            users = order[start : min(start + size, last)]
            yield users, ranked.starts[users][:, None] + np.arange(count)


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

    def values(self, gamma: FloatArray) -> tuple[Values, Values]:
        """Return R and dR/dγ = −½ Cov_w(c, ln n*), (n_gamma,) each; a slope is NaN where R is not linear."""
        return self._found(gamma, errors=False)[:2]

    def with_errors(self, gamma: FloatArray) -> tuple[Values, Values, Values]:
        """Return `values`, and the standard errors over users at each γ, n* and γ taken as known."""
        return self._found(gamma, errors=True)

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

    def _found(self, gamma: FloatArray, *, errors: bool) -> tuple[Values, Values, Values]:
        found: tuple[Values, Values, Values] = ({}, {}, {})
        # One BLAS thread: products of small blocks gain nothing from more, and keep one order of sums.
        with one_blas_thread():
            parts = [(self.slower, list(self._anew(gamma, errors=errors)))]
            for bundle in _bundles(self.linear):
                keys = [key for group in bundle for key in group.keys]
                parts.append((keys, self._linear(bundle, gamma, errors=errors)))
        for keys, made in parts:
            for kept, one in zip(found, made, strict=False):
                kept.update(zip(keys, one.T, strict=True))
        return found

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

    def _linear(self, bundle: Sequence[LinearGroup], gamma: FloatArray, *, errors: bool) -> list[FloatArray]:
        """Return R, dR/dγ and, if asked for, standard errors, (n_gamma, n_columns) each."""
        weighted = bundle[0].form.weighted
        weights, log_slopes = self._weights(gamma if weighted else gamma[:1], weighted)
        known = [self._one(one, weights, log_slopes) for one in bundle]
        found = [np.hstack(one) for one in zip(*known, strict=True)]
        if errors:
            units = Units.of(next(iter(self.samples.values())).ranked)
            ratios, by_level = [ratio for ratio, _ in known], np.ascontiguousarray(weights.T)
            squares = np.hstack(squared_influences(bundle, ratios, self.level, by_level, units))
            scale = 1 / (units.n * (units.n - 1.0)) if units.n > 1 else np.nan
            found.append(np.sqrt(scale * squares))
        return found if weighted else [np.repeat(one, gamma.size, axis=0) for one in found]

    def _weights(self, gamma: FloatArray, weighted: bool) -> tuple[FloatArray, FloatArray]:
        """Return 1/P of each level and d ln P/dγ, (n_gamma, n_levels)."""
        if not weighted:
            ones = np.ones((gamma.size, self.chain.level.size))
            return ones, 0 * ones
        found = [self.chain.at(float(one)) for one in gamma]
        return 1 / np.array([p for p, _ in found]), np.array([slope for _, slope in found])

    def _one(
        self, group: LinearGroup, weights: FloatArray, log_slopes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return R and dR/dγ, (n_gamma, n_columns)."""
        return (self._per_user if group.form.per_user else self._global)(group, weights, log_slopes)

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
        """Return R and dR/dγ, (n_gamma, n_columns), from blocks of users."""
        form, (n_gamma, n_columns) = group.form, (weights.shape[0], group.contributions.shape[1])
        by_level, slope_by_level = (np.ascontiguousarray(one.T) for one in (weights, log_slopes))
        ratio = np.zeros((n_gamma, n_columns))
        slope = np.zeros_like(ratio)
        for _, rows in users_by_count(form.ranked, n_gamma):
            factor = rows.shape[1] if form.is_sum else 1
            level = self.level[rows]
            v = by_level[level]  # (n_users, n_positives, n_gamma)
            v *= factor / np.matmul(np.ones((1, rows.shape[1])), v)
            c = group.contributions[rows].reshape(-1, n_columns)
            ratio += v.reshape(-1, n_gamma).T @ c
            if form.weighted:
                log_slope = slope_by_level[level]
                mean_slope = np.einsum("upg,upg->ug", v, log_slope) / factor
                log_slope -= mean_slope[:, None]
                log_slope *= v
                slope -= log_slope.reshape(-1, n_gamma).T @ c
        n = form.ranked.users.size
        return ratio / n, slope / n


def _bundles(groups: Sequence[LinearGroup]) -> list[list[LinearGroup]]:
    """Return the groups by their weights; one by one where squares are kept by unit, which takes memory."""
    found: dict[object, list[LinearGroup]] = {}
    for one in groups:
        form = one.form
        own = None if form.own is None else form.own.tobytes()
        name = one if form.ranked.cluster is not None else (form.weighted, own)
        found.setdefault(name, []).append(one)
    return list(found.values())
