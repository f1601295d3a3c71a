"""What segments read of some users: moments of the sums of each group, which merge like any others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ipseval.estimators import Estimator, Parts, Sample, UserSums
from ipseval.estimators.estimate import independent_sums
from ipseval.estimators.user_sums import WIDTH, Moments
from ipseval.evaluation.segments._groups import Groups
from ipseval.inference.weight_diagnostics import Weighed, WeightSums
from ipseval.metrics import Metric
from ipseval.utils.ids import distinct
from ipseval.utils.types import BoolArray, FloatArray, IntArray

Cell = tuple[str, str]  # (metric, estimator)
CHUNK = 8192  # users whose sums are held at once, one column per group and recommender
NO_FORM = "no form for the positives of one group"
RESTRICTED = "over the positives of the group alone: groups do not add up"
AS_KNOWN = "errors of groups take the fitted weights as known"
ALL_USERS = "computed anew from the users of the group: groups do not add up"


@dataclass(frozen=True, eq=False)
class CellSums:
    """The sums of one metric and estimator in each group."""

    # Groups of users: one block for each group, with a member for each model. Groups of items: one block,
    # whose members are the groups of the first model, then of the second, as users are in several groups.

    blocks: tuple[Moments, ...]
    n_users: IntArray  # (n_groups,) users with weight in the group
    n_undefined: IntArray  # (n_groups,) users for whom the metric is undefined
    powers: FloatArray  # (n_members, 12) Σ N^a D^b, a + b = 2, 3, 4: skewness and tails of N − R·D
    additive: bool = True  # whether the groups add up to the whole
    note: str = ""  # what a reader must know of it
    volume: float | None = None  # V̄ over all queries, where users have several; None: that of the blocks

    def merge(self, other: CellSums) -> CellSums:
        """Return the sums over the users of both."""
        return CellSums(
            tuple(one.merge(two) for one, two in zip(self.blocks, other.blocks, strict=True)),
            self.n_users + other.n_users,
            self.n_undefined + other.n_undefined,
            self.powers + other.powers,
            self.additive,
            self.note,
        )


@dataclass(frozen=True, eq=False)
class SegmentSums:
    """What one grouping of an evaluation reads of some users; those of other users merge."""

    groups: Groups  # codes of these users, or of the items
    cells: dict[Cell, CellSums]  # (metric, estimator) -> sums of its groups
    weights: dict[str, tuple[WeightSums | None, ...]]  # estimator -> of each group, None: has none
    n_positives: IntArray
    sizes: IntArray  # users or items in each group
    evaluated: str = "user"  # what a metric is computed for: "user" or "query"

    @classmethod
    def of(
        cls,
        groups: Groups,
        samples: Mapping[str, Sample],
        sums: Mapping[Cell, Sequence[UserSums]],
        metrics: Sequence[Metric],
        estimators: Sequence[Estimator],
    ) -> SegmentSums:
        """Return the sums of each group of users or items; `sums` are those of all users."""
        first = next(iter(samples.values()))
        ranked = first.ranked
        code = groups.codes[ranked.unit(ranked.user) if groups.axis == "user" else ranked.item]
        several = list(samples.values())
        cells = {}
        for metric in metrics:
            for one in estimators:
                whole = sums[metric.label, one.label]
                if groups.axis == "user":
                    cell = _of_users(groups, several, whole, metric, one)
                else:
                    cell = _of_items(groups, several, metric, one)
                if any(one.propensity_influence is not None for one in whole):
                    cell = replace(cell, note="; ".join(filter(None, [cell.note, AS_KNOWN])))
                cells[metric.label, one.label] = cell
        weights = {one.label: _weights(one, first, code, groups) for one in estimators if one.weighted}
        n_positives = np.bincount(code, minlength=len(groups.labels))
        evaluated = "user" if ranked.cluster is None else "query"
        return cls(groups, cells, weights, n_positives, groups.sizes, evaluated)

    def alone(self) -> SegmentSums:
        """Return the sums without the codes of users or items, which nothing reads any more."""
        return replace(self, groups=replace(self.groups, codes=self.groups.codes[:0]))

    def merge(self, other: SegmentSums) -> SegmentSums:
        """Return the sums over the users of both."""
        by_user = self.groups.axis == "user"
        return SegmentSums(
            self.groups,
            {key: one.merge(other.cells[key]) for key, one in self.cells.items()},
            {
                label: tuple(merge_two(*pair) for pair in zip(mine, other.weights[label], strict=True))
                for label, mine in self.weights.items()
            },
            self.n_positives + other.n_positives,
            self.sizes + other.sizes if by_user else self.sizes,
            self.evaluated,
        )


def merge_two(one: Any, other: Any) -> Any:
    """Return the sums over the users of both; None stands for no users."""
    return one.merge(other) if one and other else one or other


def _weights(
    estimator: Estimator, sample: Sample, code: IntArray, groups: Groups
) -> tuple[WeightSums | None, ...]:
    """Return the sums of the estimator's own weights, and with equal propensities, of each group."""
    if not len(sample.ranked):
        return (None,) * len(groups.labels)
    own = estimator.positive_weights(sample)
    equal = estimator.positive_weights(sample.with_equal_propensities())
    members = [np.flatnonzero(code == number) for number in range(len(groups.labels))]
    return tuple(
        WeightSums(Weighed.of(own[rows]), Weighed.of(equal[rows])) if rows.size else None for rows in members
    )


def _of_users(
    groups: Groups, samples: list[Sample], sums: Sequence[UserSums], metric: Metric, estimator: Estimator
) -> CellSums:
    """Return the sums of groups of users: those of all users, restricted; or of the restricted sample."""
    ranked = samples[0].ranked
    population = np.ones(ranked.n_population, dtype=bool)
    if not estimator.counts_all_users:
        population[:] = False
        population[ranked.users] = True
    elif ranked.left_out is not None:
        population &= ~ranked.left_out
    blocks, powers, n_users, n_undefined = [], [], [], []
    for number in range(len(groups.labels)):
        mine = groups.codes == number
        if estimator.separable:
            parts = [one.select_users(mine) for one in sums]
        else:
            chosen = mine[ranked.unit(ranked.user)]
            parts = [independent_sums(_restricted(one, chosen), metric, estimator) for one in samples]
        blocks.append(Moments.of([one.without_size() for one in parts]))
        powers += [power_sums(one.numerator, one.denominator) for one in parts]
        n_users.append(int((parts[0].denominator > 0).sum()))
        asked = population & mine[ranked.unit(np.arange(ranked.n_population))]
        size = parts[0].size
        n_undefined.append(int(asked.sum()) - (parts[0].n_users if size is None else int(size.sum())))
    note = "" if estimator.separable else ALL_USERS
    counts = np.array(n_users), np.array(n_undefined)
    volume, size = sums[0].volume, sums[0].size
    of_queries = None if volume is None or size is None else float(volume.sum() / size.sum())
    return CellSums(tuple(blocks), *counts, np.array(powers), estimator.separable, note, of_queries)


def _of_items(groups: Groups, samples: list[Sample], metric: Metric, estimator: Estimator) -> CellSums:
    """Return the sums of groups of items: of what their positives add, or of these positives alone."""
    parts = [estimator.parts(one, metric) for one in samples]
    if all(one is not None for one in parts):
        return _added(groups, samples, [one for one in parts if one is not None])
    if estimator.counts_all_users:
        # Without s_u of the group alone there is no unbiased form.
        return _restricted_items(groups, samples, metric, None)
    return _restricted_items(groups, samples, metric, estimator)


def _added(groups: Groups, samples: list[Sample], parts: list[Parts]) -> CellSums:
    n_groups, first, ranked = len(groups.labels), parts[0], samples[0].ranked
    undefined = np.isnan(first.value)
    everyone = ranked.users if first.users is None else first.users
    users = np.setdiff1d(everyone, distinct(ranked.user[undefined]), assume_unique=True)
    volume = None
    if first.users is not None and first.volume is not None:
        volume = first.volume[np.searchsorted(first.users, users)]
    row_of = np.full(ranked.n_population, -1)
    row_of[users] = np.arange(users.size)
    row = row_of[ranked.user]
    kept = ~undefined & (row >= 0)
    keep = slice(None) if kept.all() else np.flatnonzero(kept)  # a view is enough of all
    row, code = row[keep], groups.codes[ranked.item[keep]]
    if ranked.cluster is not None:
        whole = UserSums(users, np.zeros(users.size), np.ones(users.size), volume).by_cluster(ranked.cluster)
        row = np.searchsorted(whole.users, ranked.cluster[users[row]])
        order = np.argsort(row, kind="stable")  # the rows of one user side by side
        keep, row, code = np.flatnonzero(kept)[order], row[order], code[order]
        users, volume = whole.users, whole.without_size().volume
    weight = [one.weight[keep] for one in parts]
    worth = [one.weight[keep] * one.value[keep] for one in parts]
    merged, n_users = None, np.zeros(n_groups, dtype=np.int64)
    powers = np.zeros((len(parts) * n_groups, 12))
    for start in range(0, max(users.size, 1), CHUNK):
        size = min(CHUNK, users.size - start)
        rows = slice(*np.searchsorted(row, [start, start + size]))
        key = (row[rows] - start) + code[rows] * size
        columns = np.empty((len(parts), n_groups, WIDTH, size))
        for number in range(len(parts)):
            for place, values in enumerate((worth[number], weight[number])):
                summed = np.bincount(key, values[rows], minlength=n_groups * size)
                columns[number, :, place] = summed.reshape(n_groups, size)
        columns[:, :, 2] = 1.0 if volume is None else volume[start : start + size]
        n_users += (columns[0, :, 1] > 0).sum(axis=1)
        one, more = _reduced(columns)
        powers += more
        merged = one if merged is None else merged.merge(one)
    assert merged is not None
    left_out = distinct(ranked.user[undefined] * np.int64(n_groups) + groups.codes[ranked.item[undefined]])
    return CellSums((merged,), n_users, np.bincount(left_out % n_groups, minlength=n_groups), powers)


def _restricted_items(
    groups: Groups, samples: list[Sample], metric: Metric, estimator: Estimator | None
) -> CellSums:
    """Return the sums of the positives of each group alone, the others of their users being candidates."""
    ranked, n_groups = samples[0].ranked, len(groups.labels)
    units = distinct(ranked.unit(ranked.users))
    columns = np.zeros((len(samples), n_groups, WIDTH, units.size))
    columns[:, :, 2] = 1.0
    n_users, n_undefined = np.zeros(n_groups, dtype=np.int64), np.zeros(n_groups, dtype=np.int64)
    for group in range(n_groups):
        mine = groups.codes[ranked.item] == group
        if not mine.any() or estimator is None:
            continue
        for number, sample in enumerate(samples):
            sums = independent_sums(_restricted(sample, mine), metric, estimator)
            rows = np.searchsorted(units, sums.users)
            columns[number, group, 0, rows] = sums.numerator
            columns[number, group, 1, rows] = sums.denominator
            assert sums.volume is None  # sums over positives have parts
            n_users[group], n_undefined[group] = sums.n_users, sums.n_undefined
    note = NO_FORM if estimator is None else RESTRICTED
    moments, powers = _reduced(columns)
    return CellSums((moments,), n_users, n_undefined, powers, False, note)


def _reduced(columns: FloatArray) -> tuple[Moments, FloatArray]:
    """Return the moments and power sums of N, D and V of each model and group, (m, g, 3, n_users)."""
    n_models, n_groups, _, size = columns.shape
    pairs = columns[:, :, :2].reshape(n_models * n_groups, 2, size).swapaxes(0, 1)
    return Moments.of_columns(columns.reshape(n_models * n_groups * WIDTH, size)), power_sums(*pairs)


def power_sums(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return Σ N^a D^b over the last axis for (a, b) = (2, 0), (1, 1), (0, 2), (3, 0), …, (0, 4): (…, 12)."""
    n, d = numerator, denominator
    nn, nd, dd = n * n, n * d, d * d
    pairs = ((nn, n), (nn, d), (n, dd), (dd, d), (nn, nn), (nn, nd), (nn, dd), (nd, dd), (dd, dd))
    product = np.empty_like(nn)  # one array for all: what is new has to be cleared first
    sums = [one.sum(axis=-1) for one in (nn, nd, dd)]
    sums += [np.multiply(a, b, out=product).sum(axis=-1) for a, b in pairs]
    return np.stack(sums, axis=-1)


def _restricted(sample: Sample, chosen: BoolArray) -> Sample:
    """Return the sample with some of its positives; ranks and candidates stay as they are."""
    propensity = None if sample.propensity is None else sample.propensity[chosen]
    ranked = sample.ranked.select(chosen)
    return replace(sample, ranked=ranked, propensity=propensity, rewarded=None, _values={})
