"""The path θ(α): every recommender and metric at every correction strength, from the log alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from ipseval.correction._odds import OddsAt, fit_odds, other_pairs
from ipseval.correction._prior import ALPHAS, PROFILES, REFERENCE
from ipseval.data.interactions import Interactions
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.metrics import Metric
from ipseval.metrics.sampled.sampled_metric import requested_metrics
from ipseval.ranking import RankedPositives
from ipseval.ranking.model_checks import check_same_positives
from ipseval.utils.checks import as_generator
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.ids import among, distinct
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, RngLike, TieChoice

BLOCK = 1024
LIMIT = 0.99
SAME = 1e-12
NO_AVERAGE = "is not an average over relevant items, which the correction needs: recall@k, mean_dcg@k, atop."
# Half a hit more, as in the Jeffreys prior of a rate: a sample without a hit is not without doubt.
HALF_HIT = 0.5
CHANCE = 0.5  # of a random order, by metrics that are linear in the rank; by those cut at a rank about 0


@dataclass(frozen=True, eq=False)
class CorrectionPath:
    """θ(α) = Σ w c/Σ w over the log's held-out positives, with w = odds^−α, for all recommenders and metrics.

    odds: of a pair to be a held-out positive rather than a uniformly drawn candidate of the same user. There
    is one path for each basis of the odds: "pairs" (popularity and closeness to the user's profile), "items"
    (popularity alone), "profiles" (their ratio: closeness given popularity), and "interactions" where the log
    holds pairs that are not positive, too: then of any interaction, by popularity and profiles of them all.
    α = 0 is AOA; α = 1 takes all concentration of the log for exposure. Points of the grid are ordered by
    basis, cells by metric.

    Attributes
    ----------
    models, metrics, ties
    bases : tuple of str
    alpha : (n_grid,) array
        The strengths, for each basis in turn.
    value : (n_grid, n_cells) array
        θ(α). Of metrics cut at a rank the differences of recommenders stand on a line in those of AOA, but by
        profiles: these are what it says of the order.
    covariance : (n_grid, n_cells, n_cells) array
        Sampling covariance of θ(α), from the influence of users.
    spread : (n_grid, n_cells, n_cells) array
        Weighted covariance of the contributions of one positive.
    ess, clipped : (n_grid,) arrays
        Effective number of positives; share of the weight cut, as weights stop at their 99% quantile.
    within : (n_cells,) array
        Correlation of the contributions of two positives of one user.
    similarity : (n_cells, n_cells) array
        Correlation of their contributions.
    hit : (n_cells,) array
        Typical size of a contribution that is not 0: Σc²/Σc over the metric's cells.
    n_users, n_positives : int
    user_ids : (n_population,) array
    """

    models: tuple[str, ...]
    metrics: tuple[Metric, ...]
    ties: TieChoice
    bases: tuple[str, ...]
    alpha: FloatArray
    value: FloatArray
    covariance: FloatArray
    spread: FloatArray
    ess: FloatArray
    clipped: FloatArray
    within: FloatArray
    similarity: FloatArray
    hit: FloatArray
    n_users: int
    n_positives: int
    user_ids: AnyArray

    def __repr__(self) -> str:
        return (
            f"CorrectionPath({len(self.models)} recommenders, {len(self.metrics)} metrics; "
            f"{self.n_positives:,} held-out positives of {self.n_users:,} users)"
        )

    @property
    def metric_of(self) -> IntArray:
        """Which metric each cell is of, (n_cells,)."""
        return np.repeat(np.arange(len(self.metrics)), len(self.models))

    @property
    def whole(self) -> BoolArray:
        """Which cells are of a metric that is linear in the rank, (n_cells,)."""
        return np.repeat([one.linear_in_rank for one in self.metrics], len(self.models))

    @property
    def above_chance(self) -> FloatArray:
        """AOA less the value of a random order, (n_cells,)."""
        return np.asarray(self.value[0] - np.where(self.whole, CHANCE, 0))

    @property
    def reach(self) -> float:
        """Share of what AOA is above chance that a strength of .45 takes away, mean over metrics."""
        taken = np.bincount(self.metric_of, np.abs(self.value[0] - self.value[REFERENCE]))
        return float((taken / np.bincount(self.metric_of, np.abs(self.above_chance)).clip(1e-12)).mean())

    @property
    def basis(self) -> IntArray:
        """Which basis each point of the grid is of, (n_grid,)."""
        return np.repeat(np.arange(len(self.bases)), ALPHAS.size)

    @property
    def cells(self) -> list[tuple[str, str]]:
        """(model, metric label) of each cell."""
        return [(model, metric.label) for metric in self.metrics for model in self.models]

    def half_hit(self, n_positives: float) -> FloatArray:
        """Return the covariance that half a hit more among so many positives adds, (n_cells, n_cells)."""
        return half_hit(self.hit, self.similarity, n_positives)


def correction_path(
    ranks: Mapping[str, RankedPositives],
    split: Split,
    *,
    metrics: Iterable[str | Metric],
    interactions: Interactions | None = None,
    ties: TieChoice = "default",
    rng: RngLike = None,
) -> CorrectionPath:
    """Return θ(α) of ranked held-out positives.

    Parameters
    ----------
    ranks : mapping
        Name -> ranks of `split.test`.
    split : Split
        The odds are fitted to its test positives, on features of its training part.
    metrics : labels or objects
        Averages over relevant items: `atop`, `recall@k`, `mean_dcg@k`, and others with contributions.
    interactions : Interactions, optional
        Every pair of the log, liked or not, over the ids of the split. Those of its training part are left
        out.
    ties : {"default", "mean", "min", "max", "expected"}
    rng : int, Generator or None
        Draws the uniform pairs.

    Raises
    ------
    InputError
        For a metric that is no average over relevant items, ranks of other positives than `split.test`, and
        interactions over other ids or without a pair that is not positive.
    """
    return path_with_odds(ranks, split, metrics, interactions, ties, rng)[0]


@one_blas_thread()  # many small products: two threads wait for each other, up to ten times as long
def path_with_odds(
    ranks: Mapping[str, RankedPositives],
    split: Split,
    metrics: Iterable[str | Metric],
    interactions: Interactions | None,
    ties: TieChoice,
    rng: RngLike,
) -> tuple[CorrectionPath, OddsAt]:
    """Return the path, and the log odds by pairs of any pair."""
    check_same_positives(ranks)
    split.check_seen_excluded("the correction")
    asked = averages(requested_metrics(metrics))
    first = next(iter(ranks.values()))
    key = first.user * np.int64(split.n_items) + first.item
    if not among(key, split.test.pair_key).all():
        raise InputError("ranks must be of positives of split.test; rank the recommenders on this split.")
    values = contributions(ranks, asked, ties)
    others, generator = other_pairs(interactions, split, key), as_generator(rng)
    odds, odds_of = fit_odds(split, (first.user, first.item), others, generator)
    middle = values.mean(axis=0)
    moments = _moments(first, values - middle, np.array(list(odds.values())))
    value, covariance, cross, spread, ess, clipped = moments
    value += middle
    hit, similarity = _typical_hit(values, len(asked)), _correlation(spread[REFERENCE])
    metric_of = np.repeat(np.arange(len(asked)), len(ranks))
    short = np.repeat([not one.linear_in_rank for one in asked], len(ranks))
    steady = np.repeat([one != PROFILES for one in odds], ALPHAS.size)
    value[steady], covariance[steady] = on_line(
        value[steady], covariance[steady], cross[steady], metric_of, short
    )
    covariance += half_hit(hit, similarity, ess[:, None, None])
    path = CorrectionPath(
        tuple(ranks),
        tuple(asked),
        ties,
        tuple(odds),
        np.tile(ALPHAS, len(odds)),
        value,
        covariance,
        spread,
        ess,
        clipped,
        _within_users(first, values),
        similarity,
        hit,
        int(first.users.size),
        len(first),
        first.user_ids,
    )
    return path, odds_of


def averages(metrics: list[Metric]) -> list[Metric]:
    """Return the metrics, all of them averages over relevant items, or raise `InputError`."""
    others = [metric.label for metric in metrics if metric.kind != "mean"]
    if others:
        raise InputError(f"{', '.join(others)} {NO_AVERAGE}")
    return metrics


def contributions(
    ranks: Mapping[str, RankedPositives], metrics: Iterable[Metric], ties: TieChoice
) -> FloatArray:
    """Return the contribution of each positive to each cell, (n_pos, n_cells), cells ordered by metric.

    Column after column in memory: to interleave columns takes longer than to make them.
    """
    columns = []
    for metric in metrics:
        for ranked in ranks.values():
            column = metric.contributions(ranked, ties=ties)
            if column is None:
                raise InputError(f"{metric.label} {NO_AVERAGE}")
            columns.append(column)
    return np.array(columns, dtype=np.float64).T


def by_user(ranked: RankedPositives, values: FloatArray) -> FloatArray:
    """Return sums over each user's positives, (n_users_with_positives, n_columns)."""
    return np.asarray(_summed(np.ones((1, len(ranked))), values, ranked.starts)[0])


def on_line(
    value: FloatArray, covariance: FloatArray, cross: FloatArray, metric: IntArray, chosen: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return θ and its covariance with each chosen metric on its line in AOA's: y = ȳ + b (x − x̄), b ≥ 0.

    Weights add noise: the order by θ(α) is often worse than that by x = θ(0), though every level is nearer to
    the truth. What the line leaves over is a deviation like others, and random exposure may find it.
    """
    n = metric.size
    hat, slope = np.broadcast_to(np.eye(n), covariance.shape).copy(), np.zeros(value.shape)
    for one in np.unique(metric[chosen]):
        cells = np.flatnonzero(metric == one)
        x = value[0, cells] - value[0, cells].mean()
        if np.abs(x).max() <= SAME * np.abs(value[0, cells]).max():  # equal but for rounding: no line
            continue
        b = np.maximum(value[:, cells] @ x / (x @ x), 0)
        line = 1 / cells.size + (b > 0)[:, None, None] * np.outer(x, x) / (x @ x)
        hat[:, cells[:, None], cells], slope[:, cells] = line, b[:, None]
    # The line reads θ(α), and the places on it θ(0).
    rest = (np.eye(n) - hat) * slope[:, None, :]
    both = hat @ cross @ rest.transpose(0, 2, 1)
    found = hat @ covariance @ hat.transpose(0, 2, 1) + rest @ covariance[0] @ rest.transpose(0, 2, 1)
    return (hat @ value[..., None])[..., 0], found + both + both.transpose(0, 2, 1)


def half_hit(hit: FloatArray, similarity: FloatArray, n_positives: FloatArray | float) -> FloatArray:
    """Return the covariance of means over n positives that half a hit more would add: hit²/(2 (n + 1)²)."""
    return np.asarray(HALF_HIT * similarity * np.outer(hit, hit) / (n_positives + 1) ** 2)


def _highest(log_odds: FloatArray) -> FloatArray:
    """Return at each α the weight beyond which weights are cut, their quantile LIMIT, (25,)."""
    # Weights fall with the odds at any α, so that the quantile is between the same two pairs.
    after = LIMIT * (log_odds.size - 1)
    last = log_odds.size - 1 - int(after)
    pair = np.array([last, max(last - 1, 0)])
    low, high = np.exp(-np.outer(np.partition(log_odds, pair)[pair] - log_odds.min(), ALPHAS))
    return np.asarray(low + (high - low) * (after - int(after)))


def _moments(ranked: RankedPositives, centred: FloatArray, log_odds: FloatArray) -> tuple[FloatArray, ...]:
    """Return θ at each α, its covariance, that with θ(0), the spread of one contribution, ess and clipped.

    `centred` are contributions less their plain mean; so is θ(α) then. For each basis, (n_bases, n_pos) log
    odds, in turn. Sums are of whole users, in blocks that stay near the processor.
    """
    n_pos, n = centred.shape
    values = np.column_stack([centred, np.ones(n_pos)])
    plain = by_user(ranked, centred) / max(n_pos, 1)
    highest = np.concatenate([_highest(one) for one in log_odds])[:, None]
    above = log_odds - log_odds.min(axis=1, keepdims=True)
    first, second = np.triu_indices(n + 1)
    total, squares = np.zeros((2, len(highest)))
    products = np.zeros((len(highest), first.size))
    users, across = np.zeros((len(highest), n + 1, n + 1)), np.zeros((len(highest), n + 1, n))
    for some, pairs in _blocks(ranked):
        weight = np.exp(-ALPHAS[:, None] * above[:, None, pairs]).reshape(len(highest), -1)
        total += weight.sum(axis=1)
        np.minimum(weight, highest, out=weight)
        squares += np.einsum("gp,gp->g", weight, weight)
        columns = values[pairs].T
        products += weight @ (columns[first] * columns[second]).T
        of_users = _summed(weight, values[pairs], ranked.starts[some] - pairs.start)
        users += of_users.swapaxes(1, 2) @ of_users
        across += of_users.swapaxes(1, 2) @ plain[some]
    both = np.empty(users.shape)
    both[:, first, second] = both[:, second, first] = products
    kept = both[:, -1, -1]
    mean = both[:, :-1, -1] / kept[:, None]
    spread = both[:, :-1, :-1] / kept[:, None, None] - mean[:, :, None] * mean[:, None, :]
    own = np.arange(n)
    spread[:, own, own] = np.maximum(spread[:, own, own], 0)  # of equal contributions rounding may leave less
    # The influence of a user is Σ w (c − θ): what is summed, less θ times the sum of weights.
    less = np.concatenate([np.broadcast_to(np.eye(n), spread.shape), -mean[:, None, :]], axis=1)
    less /= kept[:, None, None]
    more = len(plain) / max(len(plain) - 1, 1)
    covariance, cross = (more * less.swapaxes(1, 2) @ one for one in (users @ less, across))
    return mean, covariance, cross, spread, kept**2 / squares, 1 - kept / total


def _blocks(ranked: RankedPositives) -> Iterator[tuple[slice, slice]]:
    """Yield which users, and which positives, are in each block."""
    ends = np.append(ranked.starts, len(ranked))
    cuts = distinct(np.append(np.searchsorted(ends, np.arange(0, len(ranked), BLOCK)), ends.size - 1))
    for low, high in pairwise(cuts.tolist()):
        yield slice(low, high), slice(int(ends[low]), int(ends[high]))


def _summed(weight: FloatArray, values: FloatArray, starts: IntArray) -> FloatArray:
    """Return sums of weighted values over runs of positives, (n_weights, n_runs, n_columns)."""
    number, size = weight.shape
    ends = np.append(np.arange(number)[:, None] * size + starts, weight.size)
    summing = sparse.csr_array((weight.ravel(), np.tile(np.arange(size), number), ends))
    return np.asarray(summing @ values).reshape(number, len(starts), -1)


def _typical_hit(values: FloatArray, n_metrics: int) -> FloatArray:
    split = values.reshape(len(values), n_metrics, -1)
    size = (split**2).sum((0, 2)) / np.maximum(np.abs(split).sum((0, 2)), 1e-300)
    return np.repeat(size, split.shape[2])


def _correlation(covariance: FloatArray) -> FloatArray:
    """Return correlations; a cell that does not vary correlates with none."""
    sd = np.sqrt(np.maximum(np.diag(covariance), 0))
    varies = sd > 1e-9
    safe = np.where(varies, sd, 1.0)
    found = np.where(np.outer(varies, varies), covariance / np.outer(safe, safe), 0.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _within_users(ranked: RankedPositives, values: FloatArray) -> FloatArray:
    """Return the intraclass correlation of contributions by analysis of variance, in [0, .9]."""
    n_pos, n, counts = len(ranked), ranked.counts.size, ranked.counts.astype(np.float64)
    means = by_user(ranked, values) / counts[:, None]
    inside = ((values - means[ranked.segment]) ** 2).sum(0) / max(n_pos - n, 1)
    between = (counts[:, None] * (means - values.mean(0)) ** 2).sum(0) / max(n - 1, 1)
    size = max((n_pos - (counts**2).sum() / n_pos) / max(n - 1, 1), 1e-9)
    extra = np.maximum((between - inside) / size, 0)
    return np.asarray(np.clip(extra / (extra + inside + 1e-12), 0, 0.9))
