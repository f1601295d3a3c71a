"""Sums of groups: moments of the sums of each group, which merge over parts of the users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ipseval.estimators import Estimator, Parts, Sample, UserSums
from ipseval.estimators.user_sums import N_COLUMNS, Moments
from ipseval.evaluation.segments._groups import Groups
from ipseval.inference.weight_diagnostics import WeightMoments, WeightSums
from ipseval.metrics import Metric
from ipseval.ranking import RankedPositives
from ipseval.utils.ids import unique_keys
from ipseval.utils.notes import Note
from ipseval.utils.types import BoolArray, FloatArray, IntArray

Cell = tuple[str, str]  # (metric, estimator)
CHUNK = 8192  # users whose sums are held at once, one column per group and recommender
N_POWERS = 12


@dataclass(frozen=True, eq=False)
class CellSums:
    """The sums of one metric and estimator in each group.

    Groups of users have one block for each group, with a member for each model. Groups of items have a single
    block, because a user is in several groups; its members are the groups of the first model, then of the
    second, and so on.
    """

    blocks: tuple[Moments, ...]
    n_users: IntArray  # (n_groups,) users with weight in the group
    n_undefined: IntArray  # (n_groups,) users for whom the metric is undefined
    powers: FloatArray  # (n_members, 12) Σ N^a D^b, a + b = 2, 3, 4: skewness and tails of N − R·D
    additive: bool = True  # whether the groups add up to the estimate over all users
    notes: tuple[Note, ...] = ()
    volume: float | None = None  # V̄ over all queries, where users have several; None: mean of the blocks

    def merge(self, other: CellSums) -> CellSums:
        """Return the sums over these users and the users of `other`."""
        blocks = (block.merge(addition) for block, addition in zip(self.blocks, other.blocks, strict=True))
        return CellSums(
            blocks=tuple(blocks),
            n_users=self.n_users + other.n_users,
            n_undefined=self.n_undefined + other.n_undefined,
            powers=self.powers + other.powers,
            additive=self.additive,
            notes=self.notes,
        )


@dataclass(frozen=True, eq=False)
class SegmentSums:
    """The sums of one grouping over some users; sums over different users merge."""

    groups: Groups  # with the codes of these users, or of the items
    cells: dict[Cell, CellSums]  # (metric, estimator) -> sums of its groups
    weights: dict[str, tuple[WeightSums | None, ...]]  # estimator -> sums of each group; None: no positive
    n_positives: IntArray
    sizes: IntArray  # users or items in each group
    unit: str = "user"  # unit of a metric value: "user" or "query"

    @classmethod
    def from_samples(
        cls,
        groups: Groups,
        samples: Mapping[str, Sample],
        sums: Mapping[Cell, Sequence[UserSums]],
        metrics: Sequence[Metric],
        estimators: Sequence[Estimator],
    ) -> SegmentSums:
        """Return the sums of each group of users or items; `sums` are the sums of all users."""
        all_samples = list(samples.values())
        ranked = all_samples[0].ranked
        codes = positive_groups(groups, ranked)
        cells = {}
        for metric in metrics:
            for estimator in estimators:
                labels = metric.label, estimator.label
                cells[labels] = _sum_cell(groups, all_samples, sums[labels], metric, estimator)
        weights = {}
        for estimator in estimators:
            if estimator.weighted:
                weights[estimator.label] = _sum_weights(estimator, all_samples[0], codes, groups)

        return cls(
            groups=groups,
            cells=cells,
            weights=weights,
            n_positives=np.bincount(codes, minlength=len(groups.labels)),
            sizes=groups.sizes,
            unit="user" if ranked.cluster is None else "query",
        )

    def alone(self) -> SegmentSums:
        """Return the sums without the codes of users or items, which are not needed after summing."""
        return replace(self, groups=replace(self.groups, codes=self.groups.codes[:0]))

    def merge(self, other: SegmentSums) -> SegmentSums:
        """Return the sums over these users and the users of `other`."""
        sizes = self.sizes
        if self.groups.axis == "user":
            sizes = self.sizes + other.sizes
        weights = {}
        for label, group_weights in self.weights.items():
            pairs = zip(group_weights, other.weights[label], strict=True)
            weights[label] = tuple(merge_optional(sums, addition) for sums, addition in pairs)
        merged_cells = {}
        for key, cell in self.cells.items():
            merged_cells[key] = cell.merge(other.cells[key])

        return SegmentSums(
            groups=self.groups,
            cells=merged_cells,
            weights=weights,
            n_positives=self.n_positives + other.n_positives,
            sizes=sizes,
            unit=self.unit,
        )


def merge_optional(sums: Any, addition: Any) -> Any:
    """Return the merged sums of two sets of users; None stands for no users."""
    if sums and addition:
        return sums.merge(addition)
    return sums or addition


def positive_groups(groups: Groups, positives: RankedPositives) -> IntArray:
    """Return the group of each positive, by its user or by its item."""
    if groups.axis == "user":
        return groups.codes[positives.unit(positives.user)]
    return groups.codes[positives.item]


def _sum_cell(
    groups: Groups, samples: list[Sample], sums: Sequence[UserSums], metric: Metric, estimator: Estimator
) -> CellSums:
    """Return the sums of a metric and estimator in each group; `sums` are the sums of all users."""
    if groups.axis == "user":
        cell = _sum_user_groups(groups, samples, sums, metric, estimator)
    else:
        cell = _sum_item_groups(groups, samples, metric, estimator)
    if any(user_sums.propensity_influence is not None for user_sums in sums):
        cell = replace(cell, notes=(*cell.notes, Note.create("weights_taken_as_known")))
    return cell


def _sum_weights(
    estimator: Estimator, sample: Sample, codes: IntArray, groups: Groups
) -> tuple[WeightSums | None, ...]:
    """Return the sums of each group's weights, with the propensities and with equal propensities."""
    if not len(sample.ranked):
        return (None,) * len(groups.labels)
    weights = estimator.weight_positives(sample)
    equal_weights = estimator.weight_positives(sample.with_equal_propensities())
    group_sums: list[WeightSums | None] = []
    for number in range(len(groups.labels)):
        rows = np.flatnonzero(codes == number)
        if rows.size:
            group_sums.append(
                WeightSums(
                    WeightMoments.from_weights(weights[rows]), WeightMoments.from_weights(equal_weights[rows])
                )
            )
        else:
            group_sums.append(None)
    return tuple(group_sums)


def _sum_user_groups(
    groups: Groups, samples: list[Sample], sums: Sequence[UserSums], metric: Metric, estimator: Estimator
) -> CellSums:
    """Return the sums of groups of users.

    The sums of a separable estimator are restricted to the users of the group. Other estimators are computed
    again from the positives of these users.
    """
    ranked = samples[0].ranked
    is_in_population = _find_population(ranked, estimator)
    blocks = []
    powers = []
    n_users = []
    n_undefined = []
    for number in range(len(groups.labels)):
        in_group = groups.codes == number
        if estimator.separable:
            group_sums = [user_sums.select_users(in_group) for user_sums in sums]
        else:
            is_member = in_group[ranked.unit(ranked.user)]
            group_sums = []
            for sample in samples:
                group_sums.append(_compute_member_sums(sample, is_member, metric, estimator))

        blocks.append(Moments.from_user_sums([user_sums.without_size() for user_sums in group_sums]))
        powers += [power_sums(user_sums.numerator, user_sums.denominator) for user_sums in group_sums]

        first = group_sums[0]
        n_users.append(int((first.denominator > 0).sum()))
        n_expected = int((is_in_population & in_group[ranked.unit(np.arange(ranked.n_population))]).sum())
        n_defined = first.n_users if first.size is None else int(first.size.sum())
        n_undefined.append(n_expected - n_defined)
    return CellSums(
        blocks=tuple(blocks),
        n_users=np.array(n_users),
        n_undefined=np.array(n_undefined),
        powers=np.array(powers),
        additive=estimator.separable,
        notes=() if estimator.separable else (Note.create("group_computed_anew"),),
        volume=_mean_query_volume(sums[0]),
    )


def _find_population(positives: RankedPositives, estimator: Estimator) -> BoolArray:
    """Return whether the estimator averages over each user of the population, (n_population,)."""
    if estimator.counts_all_users:
        if positives.left_out is None:
            return np.ones(positives.n_population, dtype=bool)
        return np.asarray(~positives.left_out)
    is_in_population = np.zeros(positives.n_population, dtype=bool)
    is_in_population[positives.users] = True
    return is_in_population


def _mean_query_volume(sums: UserSums) -> float | None:
    """Return the mean volume over queries where users have several queries, else None."""
    if sums.volume is None or sums.size is None:
        return None
    return float(sums.volume.sum() / sums.size.sum())


def _sum_item_groups(groups: Groups, samples: list[Sample], metric: Metric, estimator: Estimator) -> CellSums:
    """Return the sums of groups of items.

    They are sums of the contributions of the positives where the estimate is such a sum, and else the
    estimate from the positives of the group alone.
    """
    parts = []
    for sample in samples:
        sample_parts = estimator.parts(sample, metric)
        if sample_parts is not None:
            parts.append(sample_parts)
    if len(parts) == len(samples):
        return _sum_contributions(groups, samples[0].ranked, parts)
    if estimator.counts_all_users:
        # Without s_u of the group alone there is no unbiased form.
        return _sum_restricted_items(groups, samples, metric, None)
    return _sum_restricted_items(groups, samples, metric, estimator)


@dataclass(frozen=True, eq=False)
class _UserRows:
    """The positives with a defined value, in ascending order of their user."""

    users: IntArray  # whose sums are formed, ascending
    volume: FloatArray | None  # V of these users; None: 1
    positives: IntArray | slice  # index of the positives; a slice of all of them needs no copy
    row: IntArray  # index into `users` of each of these positives
    code: IntArray  # group of each of these positives


def _arrange_positives(groups: Groups, ranked_positives: RankedPositives, parts: Parts) -> _UserRows:
    """Return the positives that enter the sums of groups of items, with the users that they belong to."""
    is_undefined = np.isnan(parts.value)
    all_users = ranked_positives.users if parts.users is None else parts.users
    users = np.setdiff1d(all_users, unique_keys(ranked_positives.user[is_undefined]), assume_unique=True)
    volume = None
    if parts.users is not None and parts.volume is not None:
        volume = parts.volume[np.searchsorted(parts.users, users)]

    row_of_user = np.full(ranked_positives.n_population, -1)
    row_of_user[users] = np.arange(users.size)
    row = row_of_user[ranked_positives.user]
    is_included = ~is_undefined & (row >= 0)
    positives: IntArray | slice = slice(None)
    if not is_included.all():
        positives = np.flatnonzero(is_included)
    row = row[positives]
    code = groups.codes[ranked_positives.item[positives]]
    if ranked_positives.cluster is None:
        return _UserRows(users=users, volume=volume, positives=positives, row=row, code=code)

    query_sums = UserSums(users, np.zeros(users.size), np.ones(users.size), volume)
    cluster_sums = query_sums.by_cluster(ranked_positives.cluster)
    row = np.searchsorted(cluster_sums.users, ranked_positives.cluster[users[row]])
    order = np.argsort(row, kind="stable")  # the positives of one user are then next to each other
    return _UserRows(
        users=cluster_sums.users,
        volume=cluster_sums.without_size().volume,
        positives=np.flatnonzero(is_included)[order],
        row=row[order],
        code=code[order],
    )


def _sum_contributions(groups: Groups, positives: RankedPositives, parts: list[Parts]) -> CellSums:
    """Return the sums of groups of items from the weights and contributions of their positives."""
    n_groups = len(groups.labels)
    rows = _arrange_positives(groups, positives, parts[0])
    weights = [model_parts.weight[rows.positives] for model_parts in parts]
    contributions = [
        weight * model_parts.value[rows.positives] for weight, model_parts in zip(weights, parts, strict=True)
    ]

    moments = None
    n_users = np.zeros(n_groups, dtype=np.int64)
    powers = np.zeros((len(parts) * n_groups, N_POWERS))
    for start in range(0, max(rows.users.size, 1), CHUNK):
        size = min(CHUNK, rows.users.size - start)
        columns = _sum_chunk(
            rows=rows, contributions=contributions, weights=weights, n_groups=n_groups, start=start, size=size
        )
        n_users += (columns[0, :, 1] > 0).sum(axis=1)
        chunk_moments, chunk_powers = _reduce_columns(columns)
        powers += chunk_powers
        moments = chunk_moments if moments is None else moments.merge(chunk_moments)
    assert moments is not None

    is_undefined = np.isnan(parts[0].value)
    undefined_pairs = unique_keys(
        positives.user[is_undefined] * np.int64(n_groups) + groups.codes[positives.item[is_undefined]]
    )
    return CellSums(
        blocks=(moments,),
        n_users=n_users,
        n_undefined=np.bincount(undefined_pairs % n_groups, minlength=n_groups),
        powers=powers,
    )


def _sum_chunk(
    rows: _UserRows,
    contributions: Sequence[FloatArray],
    weights: Sequence[FloatArray],
    n_groups: int,
    start: int,
    size: int,
) -> FloatArray:
    """Return N, D and V of `size` users from `start` on, (n_models, n_groups, 3, size)."""
    positives = slice(*np.searchsorted(rows.row, [start, start + size]))
    key = (rows.row[positives] - start) + rows.code[positives] * size
    columns = np.empty((len(weights), n_groups, N_COLUMNS, size))
    for model in range(len(weights)):
        for place, values in enumerate((contributions[model], weights[model])):
            sums = np.bincount(key, values[positives], minlength=n_groups * size)
            columns[model, :, place] = sums.reshape(n_groups, size)
    columns[:, :, 2] = 1.0
    if rows.volume is not None:
        columns[:, :, 2] = rows.volume[start : start + size]
    return columns


def _sum_restricted_items(
    groups: Groups, samples: list[Sample], metric: Metric, estimator: Estimator | None
) -> CellSums:
    """Return the sums of the positives of each group alone; other positives stay candidates.

    None: the estimator has no form for the positives of one group, and nothing is summed.
    """
    ranked = samples[0].ranked
    n_groups = len(groups.labels)
    units = unique_keys(ranked.unit(ranked.users))
    columns = np.zeros((len(samples), n_groups, N_COLUMNS, units.size))
    columns[:, :, 2] = 1.0
    n_users = np.zeros(n_groups, dtype=np.int64)
    n_undefined = np.zeros(n_groups, dtype=np.int64)
    for group in range(n_groups):
        is_member = groups.codes[ranked.item] == group
        if not is_member.any() or estimator is None:
            continue
        for model, sample in enumerate(samples):
            sums = _compute_member_sums(sample, is_member, metric, estimator)
            assert sums.volume is None  # estimates with a volume have parts
            rows = np.searchsorted(units, sums.users)
            columns[model, group, 0, rows] = sums.numerator
            columns[model, group, 1, rows] = sums.denominator
            n_users[group] = sums.n_users
            n_undefined[group] = sums.n_undefined
    moments, powers = _reduce_columns(columns)
    return CellSums(
        blocks=(moments,),
        n_users=n_users,
        n_undefined=n_undefined,
        powers=powers,
        additive=False,
        notes=(Note.create("no_form_of_group" if estimator is None else "group_alone"),),
    )


def _reduce_columns(columns: FloatArray) -> tuple[Moments, FloatArray]:
    """Return the moments and power sums of N, D and V, (n_models, n_groups, 3, n_users)."""
    n_models, n_groups, _, size = columns.shape
    n_members = n_models * n_groups
    moments = Moments.from_columns(columns.reshape(n_members * N_COLUMNS, size))
    numerator = columns[:, :, 0].reshape(n_members, size)
    denominator = columns[:, :, 1].reshape(n_members, size)
    return moments, power_sums(numerator, denominator)


def power_sums(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return Σ N^a D^b over the last axis for (a, b) = (2, 0), (1, 1), (0, 2), (3, 0), …, (0, 4): (…, 12)."""
    n = numerator
    d = denominator
    nn = n * n
    nd = n * d
    dd = d * d
    factors = ((nn, n), (nn, d), (n, dd), (dd, d), (nn, nn), (nn, nd), (nn, dd), (nd, dd), (dd, dd))
    sums = [nn.sum(axis=-1), nd.sum(axis=-1), dd.sum(axis=-1)]
    product = np.empty_like(nn)  # reused by all products, because new memory would be cleared first
    for left_factor, right_factor in factors:
        np.multiply(left_factor, right_factor, out=product)
        sums.append(product.sum(axis=-1))
    return np.stack(sums, axis=-1)


def _compute_member_sums(
    sample: Sample, is_selected: BoolArray, metric: Metric, estimator: Estimator
) -> UserSums:
    """Return the sums of the estimate from the selected positives."""
    selection = _restrict_sample(sample, is_selected)
    return estimator.sums(selection, metric).by_cluster(selection.ranked.cluster)


def _restrict_sample(sample: Sample, is_selected: BoolArray) -> Sample:
    """Return the sample with the selected positives; ranks and candidates do not change."""
    propensity = None
    if sample.propensity is not None:
        propensity = sample.propensity[is_selected]
    ranked = sample.ranked.select(is_selected)
    return replace(sample, ranked=ranked, propensity=propensity, rewarded=None)
