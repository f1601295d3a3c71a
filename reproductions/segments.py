"""Do intervals for groups hold all groups at once in 95% of data sets, do tests between groups reject 5 %?

    python -m reproductions.segments

Users are drawn with replacement from a simulated population whose values in every group are known exactly:
what a user adds to each group is computed once, so that thousands of data sets take minutes. Seed, sizes and
numbers of data sets are fixed here. Population: 20,000 users with 1 + Poisson(4) positives among 400 items of
power-law popularity, P ∝ √n*; popular items rank higher. Data sets of 400 users for 2 groups, 1,000 for 5 and
3,000 for 20; groups of users are as unequal as 1 : 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ipseval import KnownPropensity, RankedPositives, evaluate_ranks
from ipseval.estimators.user_sums import Moments
from ipseval.evaluation import Evaluation
from ipseval.evaluation.segments import Groups, Segments, item_groups, user_groups
from ipseval.evaluation.segments._group_statistics import family_level
from ipseval.evaluation.segments.build import build_segments
from ipseval.evaluation.segments.segment_sums import CellSums, SegmentSums, _sum_item_groups, power_sums
from ipseval.utils.types import FloatArray, IntArray

SEED, N_USERS, N_ITEMS, N_DATA_SETS = 20261124, 20_000, 400, 4_000
SIZES = {2: 400, 5: 1_000, 20: 3_000}
METRICS, ESTIMATORS = ("recall@10", "ndcg@10"), ("aoa", "snips-global")


@dataclass(frozen=True, eq=False)
class Population:
    """What each user adds to every group, N, D and V side by side, and the values over all users.

    Attributes
    ----------
    columns : dict
        (metric, estimator) -> (3 · n_groups, n_users) array; groups of users: 0 outside the user's group.
    code : (n_users,) int array or None
        Groups of users; None: groups of items.
    truth : dict
        (metric, estimator) -> (n_groups,) array.
    """

    groups: Groups
    columns: dict[tuple[str, str], FloatArray]
    code: IntArray | None
    truth: dict[tuple[str, str], FloatArray]
    evaluation: Evaluation

    def draw(self, n: int, rng: np.random.Generator) -> Segments:
        """Return the segments of one data set of n users."""
        users = rng.integers(N_USERS, size=n)
        n_groups = len(self.groups.labels)
        cells, nothing = {}, np.zeros(n_groups, dtype=np.int64)
        for key, columns in self.columns.items():
            drawn = columns[:, users]
            if self.code is None:
                blocks: tuple[Moments, ...] = (Moments.from_columns(drawn),)
            else:
                code = self.code[users]
                blocks = tuple(
                    Moments.from_columns(drawn[3 * group : 3 * group + 3, code == group])
                    for group in range(n_groups)
                )
            top, low = (drawn[place::3] for place in (0, 1))
            cells[key] = CellSums(blocks, nothing, nothing, power_sums(top, low))
        sums = SegmentSums(self.groups, cells, {}, nothing, self.groups.sizes)
        whole = {("m", *key): float("nan") for key in cells}
        options = {"low_ess": "ignore", "confidence_level": 0.95}
        metrics = self.evaluation.definitions[0]
        return build_segments(sums, ["m"], metrics, whole, **options)  # type: ignore[arg-type]


def simulated(seed: int, *, same: bool) -> tuple[RankedPositives, KnownPropensity]:
    """Return the ranks of a population; `same`: ranks do not depend on popularity, nor on the user."""
    rng = np.random.default_rng(seed)
    popularity = np.sort(rng.zipf(1.8, N_ITEMS).clip(1, 2_000))
    count = 1 + rng.poisson(4, N_USERS)
    user = np.repeat(np.arange(N_USERS), count)
    chance = np.sqrt(popularity) / np.sqrt(popularity).sum()
    item = rng.choice(N_ITEMS, size=user.size, p=chance)
    pair = np.unique(user * N_ITEMS + item)
    user, item = np.divmod(pair, N_ITEMS)
    taste = (
        np.zeros(user.size) if same else rng.normal(0, 0.7, N_USERS)[user] - 0.4 * np.log(popularity[item])
    )
    above = np.minimum((20 * np.exp(taste + rng.normal(0, 1.2, user.size))).astype(np.int64), N_ITEMS - 1)
    ranked = RankedPositives(
        user,
        item,
        above,
        np.zeros(user.size, np.int64),
        np.full(user.size, N_ITEMS),
        np.arange(N_USERS),
        np.arange(N_ITEMS),
    )
    return ranked, KnownPropensity(item=np.sqrt(popularity), is_probability=False)


def population(axis: str, n_groups: int, *, same: bool) -> Population:
    """Return the population with groups of users, or of items by popularity."""
    ranked, propensity = simulated(SEED + n_groups, same=same)
    evaluation = evaluate_ranks(
        {"m": ranked},
        propensity=propensity.fit(ranked),
        metrics=METRICS,
        estimators=ESTIMATORS,
        low_ess="ignore",
    )
    rng = np.random.default_rng(SEED)
    code = None
    if axis == "user":
        code = rng.choice(
            n_groups, N_USERS, p=np.linspace(1, 3, n_groups) / np.linspace(1, 3, n_groups).sum()
        )
        groups = user_groups([f"g{one:02}" for one in code], name="group").resolve(ranked.user_ids)
    else:  # about equally many positives in each, from rare to popular
        size = np.cumsum(np.bincount(ranked.item, minlength=N_ITEMS))
        of_item = np.minimum(size * n_groups // (size[-1] + 1), n_groups - 1)
        groups = item_groups([f"g{one:02}" for one in of_item], name="group").resolve(ranked.item_ids)
    columns, truth = {}, {}
    for metric in evaluation.definitions[0]:
        for one in evaluation.definitions[1]:
            key = metric.label, one.label
            columns[key] = _columns(evaluation, groups, code, key)
            top, low = columns[key][0::3].sum(axis=1), columns[key][1::3].sum(axis=1)
            truth[key] = top / low
            if same:  # groups of a finite population differ by chance: each is moved to the common value
                centre = top.sum() / low.sum()
                columns[key][0::3] += (centre - truth[key])[:, None] * columns[key][1::3]
                continue
            if code is None:  # the library itself gives the truth of the whole population
                found = _sum_item_groups(groups, [evaluation.samples["m"]], metric, one).blocks[0].members()
                np.testing.assert_allclose(truth[key], [each.value() for each in found], rtol=1e-12)
    return Population(groups, columns, code, truth, evaluation)


def _columns(
    evaluation: Evaluation, groups: Groups, code: IntArray | None, key: tuple[str, str]
) -> FloatArray:
    n_groups = len(groups.labels)
    columns = np.zeros((n_groups, 3, N_USERS))
    columns[:, 2] = 1.0
    if code is not None:
        sums = evaluation.estimate("m", *key).user_sums
        columns[groups.codes[sums.users], 0, sums.users] = sums.numerator
        columns[groups.codes[sums.users], 1, sums.users] = sums.denominator
        return columns.reshape(-1, N_USERS)
    sample = evaluation.samples["m"]
    metric = next(one for one in evaluation.definitions[0] if one.label == key[0])
    parts = next(one for one in evaluation.definitions[1] if one.label == key[1]).parts(sample, metric)
    assert parts is not None
    place = groups.codes[sample.ranked.item] * N_USERS + sample.ranked.user
    for number, values in enumerate((parts.weight * parts.value, parts.weight)):
        summed = np.bincount(place, values, minlength=n_groups * N_USERS)
        columns[:, number] = summed.reshape(n_groups, N_USERS)
    return columns.reshape(-1, N_USERS)


def coverage(axis: str, n_groups: int, n_data_sets: int) -> dict:
    """Return (metric, estimator) -> share of data sets whose intervals hold the truth of all groups."""
    world = population(axis, n_groups, same=False)
    rng, held = np.random.default_rng([SEED, n_groups]), dict.fromkeys(world.columns, 0)
    for _ in range(n_data_sets):
        segments = world.draw(SIZES[n_groups], rng)
        for key, cell in segments.cells.items():
            covariance = cell.within(0)
            half = cell.half_width(0, family_level(covariance, 0.05, 4_000))
            held[key] += bool((np.abs(cell.value[0] - world.truth[key]) <= half).all())
    return {key: one / n_data_sets for key, one in held.items()}


def test_sizes(axis: str, n_groups: int, n_data_sets: int) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield for each cell the share of rejections at 5% where groups are equal: of the last gap."""
    world = population(axis, n_groups, same=True)
    rng = np.random.default_rng([SEED, n_groups, 1])
    found = dict.fromkeys(world.columns, 0)
    for _ in range(n_data_sets):
        segments = world.draw(SIZES[n_groups], rng)
        gaps = segments.gaps(segments.labels[0], correction=None).groupby(["metric", "estimator"], sort=False)
        for (metric, estimator), rows in gaps:
            found[metric, estimator] += rows["p_value"].iloc[-1] < 0.05
    for key in world.columns:
        yield key, found[key] / n_data_sets


def main() -> None:
    """Print both tables."""
    for axis in ("user", "item"):
        for n_groups in SIZES:
            for key, share in coverage(axis, n_groups, N_DATA_SETS).items():
                print(f"coverage {axis} {n_groups:2} {key[0]:10} {key[1]:13} {share:.4f}", flush=True)
            for key, share in test_sizes(axis, n_groups, N_DATA_SETS // 2):
                print(f"size     {axis} {n_groups:2} {key[0]:10} {key[1]:13} {share:.4f}", flush=True)


if __name__ == "__main__":
    main()
