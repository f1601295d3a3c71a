"""Estimates as functions of γ: ranks and contributions are computed once, only weights change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from scipy import sparse

from ipseval._compute import one_blas_thread
from ipseval._types import FloatArray, IntArray
from ipseval.errors import PropensityError
from ipseval.estimators import Estimator, Sample, independent_sums
from ipseval.inference._arranged import ArrangedGroup, Other, arranged_groups
from ipseval.inference._bootstrap import Key
from ipseval.inference._influences import Units, alike, influences
from ipseval.inference._linear import LinearGroup, groups
from ipseval.inference._nodes import over_grid
from ipseval.metrics import Metric
from ipseval.propensity import GammaChain, Propensity

Values = dict[Key, FloatArray]
Part = Callable[..., tuple[FloatArray, ...]]
# A pilot tells how smooth curves are: so many users, or one of four where there are few.
PILOT_USERS, PILOT_SHARE = 256, 4


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
        Estimates that are computed anew for each γ that is looked at.
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
        return cls(samples, chain, level, linear, arranged, others, propensity.is_probability)

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
        values: Values = {}
        slopes: Values = {}
        found: Values = {}
        # Best arrangements turn round at γ = −1, and nothing is smooth across that.
        parts = np.split(gamma, [int(np.searchsorted(gamma, -1.0))])
        for keys, weighted, part, smooth in self._not_linear(errors):
            slope = np.full((len(keys), gamma.size), np.nan if weighted else 0.0)
            slopes.update(zip(keys, slope, strict=True))
            split = [self._over(part, one, weighted, smooth=smooth) for one in parts if one.size]
            for kept, *rows in zip((values, found), *split, strict=False):
                kept.update(zip(keys, np.vstack(rows).T, strict=True))
        for bundle in _bundles(self.linear):
            part = partial(self._linear, bundle, errors=errors)
            made = self._over(part, gamma, bundle[0].form.weighted, slopes=True)
            keys = [key for group in bundle for key in group.keys]
            for kept, one in zip((values, slopes, found), made, strict=False):
                kept.update(zip(keys, one.T, strict=True))
        return values, slopes, {key: np.sqrt(np.maximum(one, 0)) for key, one in found.items()}

    def _not_linear(self, errors: bool) -> Iterator[tuple[list[Key], bool, Part, bool]]:
        """Yield keys, whether they are weighted, a part, and whether series do, of all that is not linear."""
        for group in self.arranged:
            yield group.keys, group.weighted, partial(self._arranged, group, errors=errors), True
        together: dict[tuple[Metric, bool, bool], list[Other]] = {}
        for one in self.others:
            # Sums of inverse weights grow by orders of magnitude; a series is exact for the largest value.
            together.setdefault((one[1], one[2].weighted, not one[2].counts_all_users), []).append(one)
        for (_, weighted, smooth), others in together.items():
            keys = [(model, metric.label, estimator.label) for model, metric, estimator in others]
            yield keys, weighted, partial(self._anew, others, errors=errors), smooth

    def _over(
        self, part: Part, gamma: FloatArray, weighted: bool, *, slopes: bool = False, smooth: bool = True
    ) -> tuple[FloatArray, ...]:
        """Return what a part gives at each γ; the slopes of a series are those of its terms."""
        # One BLAS thread: products of small blocks gain nothing from more, and keep one order of sums.
        with one_blas_thread():
            if not weighted:  # the same at all γ
                return tuple(np.repeat(one, gamma.size, axis=0) for one in part(gamma[:1], slopes=slopes))
            found = over_grid(part, gamma, slopes=slopes) if smooth and self.chain.is_smooth else None
            return part(gamma, slopes=slopes) if found is None else found

    def _arranged(
        self,
        group: ArrangedGroup,
        gamma: FloatArray,
        pilot: bool = False,
        *,
        errors: bool,
        slopes: bool = False,
    ) -> tuple[FloatArray, ...]:
        weights = np.ascontiguousarray(self._weights(gamma, group.weighted)[0].T)
        falls = bool(gamma.min() >= -1)
        return group.curves(self.level, weights, falls=falls, errors=errors, share=self._share(pilot))

    def _linear(
        self,
        bundle: Sequence[LinearGroup],
        gamma: FloatArray,
        pilot: bool = False,
        *,
        errors: bool,
        slopes: bool = False,
    ) -> tuple[FloatArray, ...]:
        """Return R and, if asked for, dR/dγ and squared errors, (n_gamma, n_columns) each."""
        units, share = self._units, self._share(pilot)
        tables = self._weights(gamma, bundle[0].form.weighted)
        # R per user comes with the errors, where nothing needs it before.
        later = errors and not slopes and not units.clustered
        known = [
            None if later and one.form.per_user else self._one(one, *tables, slopes=slopes, share=share)
            for one in bundle
        ]
        parts = [[one[kind] for one in known if one is not None] for kind in range(1 + slopes)]
        if errors:
            by_level = np.ascontiguousarray(tables[0].T)
            ratios = [None if one is None else one[0] for one in known]
            made = influences(bundle, ratios, self.level, by_level, units, share=share)
            n = units.n
            scale = 1 / (n * (n - 1.0)) if n > 1 else np.nan
            parts[0] = [one for one, _ in made]
            parts.append([scale * one for _, one in made])
        return tuple(np.hstack(one) for one in parts)

    def _one(
        self, group: LinearGroup, weights: FloatArray, log_slopes: FloatArray, *, slopes: bool, share: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return R and dR/dγ, (n_gamma, n_columns), the latter right if asked for."""
        if group.form.per_user:
            return self._per_user(group, weights, log_slopes, slopes=slopes, share=share)
        return self._global(group, weights, log_slopes)

    @cached_property
    def _units(self) -> Units:
        return Units.of(next(iter(self.samples.values())).ranked)

    def _share(self, pilot: bool) -> int:
        """Return one of how many users tells how smooth curves are, or 1 for all."""
        n = self._units.place.size
        return max(PILOT_SHARE, n // PILOT_USERS) if pilot else 1

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
        self, group: LinearGroup, weights: FloatArray, log_slopes: FloatArray, *, slopes: bool, share: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return R and, if asked for, dR/dγ, (n_gamma, n_columns), from blocks of users."""
        form, (n_gamma, n_columns) = group.form, (weights.shape[0], group.contributions.shape[1])
        by_level, slope_by_level = (np.ascontiguousarray(one.T) for one in (weights, log_slopes))
        ratio = np.zeros((n_gamma, n_columns))
        slope = np.zeros_like(ratio)
        n = 0
        for users, rows in alike(form.ranked, n_gamma, share=share):
            n += users.size
            factor = rows.shape[1] if form.is_sum else 1
            level = self.level[rows]
            v = by_level[level]  # (n_users, n_positives, n_gamma)
            v *= factor / np.matmul(np.ones((1, rows.shape[1])), v)
            c = group.contributions[rows].reshape(-1, n_columns)
            ratio += v.reshape(-1, n_gamma).T @ c
            if slopes and form.weighted:
                log_slope = slope_by_level[level]
                mean_slope = np.einsum("upg,upg->ug", v, log_slope) / factor
                log_slope -= mean_slope[:, None]
                log_slope *= v
                slope -= log_slope.reshape(-1, n_gamma).T @ c
        return ratio / n, slope / n

    def _anew(
        self,
        others: Sequence[Other],
        gamma: FloatArray,
        pilot: bool = False,
        *,
        errors: bool,
        slopes: bool = False,
    ) -> tuple[FloatArray, ...]:
        """Return what is computed at each γ and, if asked for, squared errors, (n_gamma, n_others) each."""
        rows = next(iter(self.samples.values())).ranked.segment % self._share(pilot) == 0
        samples = {
            name: replace(self.samples[name], ranked=self.samples[name].ranked.select(rows), _values={})
            for name in dict.fromkeys(model for model, *_ in others)
        }
        found = np.empty((1 + errors, gamma.size, len(others)))
        for place, at in enumerate(gamma):
            propensity = self.chain.at(float(at))[0][self.level[rows]]
            made = {name: one.under(propensity, self.is_probability) for name, one in samples.items()}
            for column, (model, metric, estimator) in enumerate(others):
                sums = independent_sums(made[model], metric, estimator)
                found[0, place, column] = sums.value()
                if errors:
                    found[1, place, column] = sums.standard_error() ** 2
        return tuple(found)


def _bundles(groups: Sequence[LinearGroup]) -> list[list[LinearGroup]]:
    """Return the groups by their weights; one by one where squares are kept by unit, which takes memory."""
    found: dict[object, list[LinearGroup]] = {}
    for one in groups:
        form = one.form
        own = None if form.own is None else form.own.tobytes()
        name = one if form.ranked.cluster is not None else (form.weighted, own)
        found.setdefault(name, []).append(one)
    return list(found.values())
