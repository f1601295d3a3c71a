"""The path θ(α): the value of every recommender and metric at every correction strength, from the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy import sparse

from ipseval.correction._odds import OddsAt, fit_odds, list_non_positive_keys
from ipseval.correction._prior import ALPHAS, PROFILES, REFERENCE
from ipseval.data.interactions import Interactions
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.metrics import Metric
from ipseval.metrics.labels import resolve_metrics
from ipseval.ranking import RankedPositives
from ipseval.ranking.ranked_positives import check_same_positives
from ipseval.utils.checks import as_generator, format_count
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.ids import is_member, unique_keys
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, RngLike, TieChoice

BLOCK = 1024  # positives of one block of sums, which stay in the cache of the processor

# Weights are limited to this quantile of the weights.
LIMIT = 0.99

# Values whose relative difference is below this number are equal up to rounding.
PRECISION = 1e-12

# Standard deviations below this number are rounding.
SMALLEST_DEVIATION = 1e-9

NO_AVERAGE = "is not an average over relevant items, which the correction needs: recall@k, mean_dcg@k, atop."

# Half a hit is added to each sample, as by the Jeffreys prior of a rate. Without it, a sample without a hit
# would have no uncertainty.
HALF_HIT = 0.5

# Value of a random ranking, for metrics that are linear in the rank. For metrics cut at a rank it is near 0.
CHANCE = 0.5

MAX_INTRACLASS_CORRELATION = 0.9

# Metrics by which the fit of the path is diagnosed, whatever metrics are requested: a property of the log must
# not depend on them. These are the metrics by which the limits of the diagnosis were chosen, and by which
# docs/correction-accuracy.md counts the warnings. Lists have no atop.
DIAGNOSTIC_METRICS = ("atop", "recall@5", "mean_dcg@10")
DIAGNOSTIC_DEPTH = 10  # largest cutoff of these metrics


@public_class
@dataclass(frozen=True, eq=False)
class CorrectionPath:
    """Values θ(α) = Σ w c/Σ w over the held-out positives of the log, with w = odds^−α.

    The odds compare a pair as held-out positive with a pair drawn uniformly from the candidates of the same
    user. α = 0 is AOA; α = 1 ascribes the whole concentration of the log to exposure. There is one path for
    each basis of the odds:

    * "pairs": popularity, and closeness to the profile of the user;
    * "items": popularity only;
    * "profiles": the ratio of these two, which is closeness given popularity;
    * "interactions": popularity and closeness as predictors of all interactions, where the log holds pairs
      that are not positive.

    Points of the grid are ordered by basis. A cell is a recommender and metric; cells are ordered by metric.

    Parameters
    ----------
    models : tuple of str
        Names of the recommenders.
    metrics : tuple of Metric
        Averages over relevant items.
    ties : {"default", "mean", "min", "max", "expected"}
        Treatment of tied scores.
    bases : tuple of str
        Bases of the odds.
    alpha : (n_grid,) array
        The strengths, for each basis in turn.
    value : (n_grid, n_cells) array
        θ(α). For metrics cut at a rank, and all bases but "profiles", differences between recommenders are
        proportional to differences of AOA.
    covariance : (n_grid, n_cells, n_cells) array
        Sampling covariance of θ(α), from the influence of users.
    spread : (n_grid, n_cells, n_cells) array
        Weighted covariance of the contributions of one positive.
    ess, clipped : (n_grid,) arrays
        Effective number of positives, and the share of the weight that is removed, because weights are
        limited to their 99% quantile.
    within : (n_cells,) array
        Correlation of the contributions of two positives of one user.
    similarity : (n_cells, n_cells) array
        Correlation of the contributions of two cells.
    hit : (n_cells,) array
        Typical size of a contribution that is not 0: Σc²/Σc over the cells of the metric.
    n_users, n_positives : int
        Users with held-out positives, and these positives.
    user_ids : (n_population,) array
        Ids of all users.
    diagnostic_path : CorrectionPath or None, default None
        The path by atop, recall@5 and mean_dcg@10, by which `Correction.explained` is computed whatever metrics
        were requested. Recommendation lists have no atop. None if these are the metrics of the path itself.

    See Also
    --------
    correction_path : Compute the path of ranks.
    correct_path : Compute the correction from the path.

    Examples
    --------
    Both values of recall@10 decrease when a larger share of the concentration of the log is ascribed to exposure:

    >>> from ipseval import simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> from ipseval import rank_positives
    >>> ranks = {name: rank_positives(model, split) for name, model in models.items()}
    >>> path = correction_path(ranks, split, metrics=["recall@10"], rng=4)
    >>> path
    CorrectionPath(2 recommenders, 1 metric; 362 held-out positives of 213 users)
    >>> path.bases
    ('pairs', 'items', 'profiles')
    >>> path.alpha[[0, 8, 16]].round(2)
    array([0. , 0.6, 1.2])
    >>> path.value[[0, 8, 16]].round(3)
    array([[0.599, 0.597],
           [0.344, 0.275],
           [0.156, 0.082]])
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
    diagnostic_path: CorrectionPath | None = None

    def __repr__(self) -> str:
        return (
            f"CorrectionPath({format_count(len(self.models), 'recommender')}, "
            f"{format_count(len(self.metrics), 'metric')}; {format_count(self.n_positives, 'held-out positive')} of "
            f"{format_count(self.n_users, 'user')})"
        )

    @property
    def metric_of(self) -> IntArray:
        """Position of the metric of each cell, (n_cells,)."""
        return np.repeat(np.arange(len(self.metrics)), len(self.models))

    @property
    def whole(self) -> BoolArray:
        """Whether the metric of each cell is linear in the rank, (n_cells,)."""
        return np.repeat([metric.linear_in_rank for metric in self.metrics], len(self.models))

    @property
    def above_chance(self) -> FloatArray:
        """AOA minus the value of a random ranking, (n_cells,)."""
        return np.asarray(self.value[0] - np.where(self.whole, CHANCE, 0))

    @property
    def reach(self) -> float:
        """Size of the correction at α = 0.45 relative to AOA above chance, mean over metrics."""
        correction = np.bincount(self.metric_of, np.abs(self.value[0] - self.value[REFERENCE]))
        height = np.bincount(self.metric_of, np.abs(self.above_chance))
        return float((correction / height.clip(1e-12)).mean())

    @property
    def basis(self) -> IntArray:
        """Position of the basis of each point of the grid, (n_grid,)."""
        return np.repeat(np.arange(len(self.bases)), ALPHAS.size)

    @property
    def cells(self) -> list[tuple[str, str]]:
        """(recommender, metric label) of each cell."""
        cell_keys: list[tuple[str, str]] = []
        for metric in self.metrics:
            for model in self.models:
                cell_keys.append((model, metric.label))

        return cell_keys

    def half_hit(self, n_positives: float) -> FloatArray:
        """Return the covariance that half a hit more would add to a mean over positives.

        Parameters
        ----------
        n_positives : float
            Number of positives of the mean, >= 0.

        Returns
        -------
        (n_cells, n_cells) float array
            Covariance of the cells; it is of order 1/(n_positives + 1)².
        """
        return compute_half_hit(self.hit, self.similarity, n_positives)


@public_function
def correction_path(
    ranks: Mapping[str, RankedPositives],
    split: Split,
    *,
    metrics: Iterable[str | Metric],
    interactions: Interactions | None = None,
    ties: TieChoice = "default",
    rng: RngLike = None,
) -> CorrectionPath:
    """Compute θ(α), the values of recommenders by correction strength, from ranked held-out positives.

    Parameters
    ----------
    ranks : mapping
        Name -> ranks of `split.test`.
    split : Split
        The odds are fitted to its test positives, with features of its training part.
    metrics : labels or objects
        Averages over relevant items, such as `atop`, `recall@k` and `mean_dcg@k`.
    interactions : Interactions, optional
        Every pair of the log, positive or not, over the ids of the split. Pairs of its training part are
        excluded.
    ties : {"default", "mean", "min", "max", "expected"}, default "default"
        Treatment of tied scores, as in `evaluate`.
    rng : int, Generator or None, default None
        Random seed of the uniform pairs.

    Returns
    -------
    CorrectionPath
        The values and their covariance for every basis and α.

    Raises
    ------
    InputError
        For a metric that is not an average over relevant items, ranks of other positives than `split.test`,
        and interactions over other ids or without a pair that is not positive.

    See Also
    --------
    correct_path : The correction that follows from a path.

    Examples
    --------
    >>> from ipseval import simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> from ipseval import rank_positives
    >>> ranks = {name: rank_positives(model, split) for name, model in models.items()}
    >>> path = correction_path(ranks, split, metrics=["recall@10"], rng=4)
    >>> path
    CorrectionPath(2 recommenders, 1 metric; 362 held-out positives of 213 users)
    >>> path.value[0].round(3)
    array([0.599, 0.597])
    """
    path, _ = compute_path_with_odds(
        ranks, split, metrics=metrics, interactions=interactions, ties=ties, rng=rng
    )
    return path


@one_blas_thread()  # many small products: two threads wait for each other, up to ten times as long
def compute_path_with_odds(
    ranks: Mapping[str, RankedPositives],
    split: Split,
    *,
    metrics: Iterable[str | Metric],
    interactions: Interactions | None,
    ties: TieChoice,
    rng: RngLike,
) -> tuple[CorrectionPath, OddsAt]:
    """Return the path, and a function that computes the log odds by pairs of any pair."""
    check_same_positives(ranks)
    split.check_seen_excluded("the correction")
    path_metrics = check_averages(resolve_metrics(metrics))
    ranked = next(iter(ranks.values()))
    positive_keys = ranked.user * np.int64(split.n_items) + ranked.item
    if not is_member(positive_keys, split.test.pair_key).all():
        raise InputError("ranks must be of positives of split.test; rank the recommenders on this split.")
    non_positive_keys = list_non_positive_keys(interactions, split, positive_keys)
    odds, compute_odds = fit_odds(split, (ranked.user, ranked.item), non_positive_keys, as_generator(rng))
    path = _build_path(ranks, path_metrics, odds, ties=ties)
    diagnostic_metrics = choose_diagnostic_metrics(ranks)
    if path_metrics == diagnostic_metrics:
        return path, compute_odds
    diagnostic_path = _build_path(pad_for_diagnosis(ranks), diagnostic_metrics, odds, ties=ties)
    return replace(path, diagnostic_path=diagnostic_path), compute_odds


def choose_diagnostic_metrics(ranks: Mapping[str, RankedPositives]) -> list[Metric]:
    """Return the metrics by which the fit is diagnosed: those with a cutoff, where a recommender has lists."""
    has_lists = any(ranked.max_rank is not None for ranked in ranks.values())
    metrics = []
    for metric in resolve_metrics(DIAGNOSTIC_METRICS):
        if metric.cutoff is not None or not has_lists:
            metrics.append(metric)

    return metrics


def pad_for_diagnosis(ranks: Mapping[str, RankedPositives]) -> dict[str, RankedPositives]:
    """Return the ranks with lists padded with misses, so that the metrics of the diagnosis are defined."""
    return {name: ranked.pad_lists(DIAGNOSTIC_DEPTH) for name, ranked in ranks.items()}


def _build_path(
    ranks: Mapping[str, RankedPositives],
    metrics: list[Metric],
    odds: Mapping[str, FloatArray],
    *,
    ties: TieChoice,
) -> CorrectionPath:
    """Return the path of ranked positives by some metrics, given their log odds for each basis."""
    ranked = next(iter(ranks.values()))
    values = compute_contributions(ranks, metrics, ties)
    mean = values.mean(axis=0)
    moments = _compute_path_moments(ranked, values - mean, np.array(list(odds.values())))
    hit = _typical_hit(values, len(metrics))
    similarity = _correlation(moments.spread[REFERENCE])
    value, covariance = _smooth_values(moments, mean, metrics, list(odds), n_models=len(ranks))
    covariance += compute_half_hit(hit, similarity, moments.ess[:, None, None])
    return CorrectionPath(
        models=tuple(ranks),
        metrics=tuple(metrics),
        ties=ties,
        bases=tuple(odds),
        alpha=np.tile(ALPHAS, len(odds)),
        value=value,
        covariance=covariance,
        spread=moments.spread,
        ess=moments.ess,
        clipped=moments.clipped,
        within=_intraclass_correlation(ranked, values),
        similarity=similarity,
        hit=hit,
        n_users=int(ranked.users.size),
        n_positives=len(ranked),
        user_ids=ranked.user_ids,
    )


def check_averages(metrics: list[Metric]) -> list[Metric]:
    """Return the metrics, or raise `InputError` unless all of them are averages over relevant items."""
    labels = []
    for metric in metrics:
        if metric.kind != "mean":
            labels.append(metric.label)

    if labels:
        raise InputError(f"{', '.join(labels)} {NO_AVERAGE}")
    return metrics


def compute_contributions(
    ranks: Mapping[str, RankedPositives], metrics: Iterable[Metric], ties: TieChoice
) -> FloatArray:
    """Return the contribution of each positive to each cell, (n_pos, n_cells), cells ordered by metric.

    Each column is contiguous in memory, because interleaving columns takes longer than computing them.
    """
    columns = []
    for metric in metrics:
        for ranked in ranks.values():
            column = metric.contributions(ranked, ties=ties)
            if column is None:
                raise InputError(f"{metric.label} {NO_AVERAGE}")
            columns.append(column)
    return np.array(columns, dtype=np.float64).T


def sum_by_user(positives: RankedPositives, values: FloatArray) -> FloatArray:
    """Return sums over the positives of each user, (n_users_with_positives, n_columns)."""
    ones = np.ones((1, len(positives)))
    return np.asarray(_sum_runs(ones, values, positives.starts)[0])


def _smooth_values(
    moments: _PathMoments,
    mean: FloatArray,
    metrics: list[Metric],
    bases: list[str],
    *,
    n_models: int,
) -> tuple[FloatArray, FloatArray]:
    """Return θ(α) and its covariance, with metrics cut at a rank regressed on AOA.

    The basis of profiles and the metrics that are linear in the rank are not regressed.
    """
    value = moments.mean + mean
    covariance = moments.covariance
    cell_metric = np.repeat(np.arange(len(metrics)), n_models)
    is_cut = np.repeat([not metric.linear_in_rank for metric in metrics], n_models)
    is_regressed = np.repeat([basis != PROFILES for basis in bases], ALPHAS.size)
    value[is_regressed], covariance[is_regressed] = regress_on_aoa(
        value[is_regressed],
        covariance[is_regressed],
        moments.aoa_covariance[is_regressed],
        cell_metric,
        is_cut,
    )
    return value, covariance


def regress_on_aoa(
    value: FloatArray, covariance: FloatArray, cross: FloatArray, metric: IntArray, is_regressed: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return θ(α) and its covariance after a regression of each chosen metric on AOA, x = θ(0).

    The regression is y = ȳ + b (x − x̄) with b ≥ 0, over recommenders. Weights add noise, so that the ranking
    by θ(α) is often worse than the ranking by x, although every value is nearer to the truth. The residuals
    of the regression count as deviations, which random exposure may reveal. `cross` is the covariance of
    θ(α) and θ(0), and `metric` the metric of each cell.
    """
    n_cells = metric.size
    hat = np.broadcast_to(np.eye(n_cells), covariance.shape).copy()
    slope = np.zeros(value.shape)
    for metric_number in np.unique(metric[is_regressed]):
        cells = np.flatnonzero(metric == metric_number)
        aoa = value[0, cells]
        x = aoa - aoa.mean()
        if np.abs(x).max() <= PRECISION * np.abs(aoa).max():  # equal up to rounding, so without a slope
            continue
        b = np.maximum(value[:, cells] @ x / (x @ x), 0)
        has_slope = (b > 0)[:, None, None]
        hat[:, cells[:, None], cells] = 1 / cells.size + has_slope * np.outer(x, x) / (x @ x)
        slope[:, cells] = b[:, None]
    # The regression depends on θ(α) through the hat matrix, and on θ(0) through x.
    aoa_effect = (np.eye(n_cells) - hat) * slope[:, None, :]
    cross_term = hat @ cross @ aoa_effect.transpose(0, 2, 1)
    value_term = hat @ covariance @ hat.transpose(0, 2, 1)
    aoa_term = aoa_effect @ covariance[0] @ aoa_effect.transpose(0, 2, 1)
    fitted_value = (hat @ value[..., None])[..., 0]
    return fitted_value, value_term + aoa_term + cross_term + cross_term.transpose(0, 2, 1)


def compute_half_hit(hit: FloatArray, similarity: FloatArray, n_positives: FloatArray | float) -> FloatArray:
    """Return the covariance of means over n positives that half a hit more would add: hit²/(2 (n + 1)²)."""
    return np.asarray(HALF_HIT * similarity * np.outer(hit, hit) / (n_positives + 1) ** 2)


def _weight_limits(log_odds: FloatArray) -> FloatArray:
    """Return for each α the LIMIT quantile of the weights, to which they are limited, (25,)."""
    # Weights decrease with the odds at every α, so that their quantile lies between the same two pairs.
    quantile_position = LIMIT * (log_odds.size - 1)
    lower_position = int(quantile_position)
    fraction = quantile_position - lower_position
    lower_rank = log_odds.size - 1 - lower_position
    ranks = np.array([lower_rank, max(lower_rank - 1, 0)])
    pair_log_odds = np.partition(log_odds, ranks)[ranks]
    low, high = np.exp(-np.outer(pair_log_odds - log_odds.min(), ALPHAS))
    return np.asarray(low + (high - low) * fraction)


@dataclass(frozen=True, eq=False)
class _PathMoments:
    """Moments of the contributions at each point of the grid.

    Attributes
    ----------
    mean : (n_grid, n_cells) array
        θ(α) minus the unweighted mean of the contributions.
    covariance, aoa_covariance : (n_grid, n_cells, n_cells) arrays
        Covariance of θ(α), and covariance of θ(α) with θ(0).
    spread : (n_grid, n_cells, n_cells) array
        Weighted covariance of the contributions of one positive.
    ess, clipped : (n_grid,) arrays
        Effective number of positives, and share of the weight that is removed by the limit.
    """

    mean: FloatArray
    covariance: FloatArray
    aoa_covariance: FloatArray
    spread: FloatArray
    ess: FloatArray
    clipped: FloatArray


def _compute_path_moments(
    positives: RankedPositives, centred: FloatArray, log_odds: FloatArray
) -> _PathMoments:
    """Return the moments of contributions from which their unweighted mean was subtracted.

    `log_odds` are (n_bases, n_pos). Sums are computed over whole users, in blocks that fit in the cache.
    """
    sums = _sum_moments(positives, centred, log_odds)
    n_grid, n_columns = sums.products.shape[:2]
    n_cells = n_columns - 1
    weight_sum = sums.products[:, -1, -1]
    mean = sums.products[:, :-1, -1] / weight_sum[:, None]
    second_moment = sums.products[:, :-1, :-1] / weight_sum[:, None, None]
    spread = second_moment - mean[:, :, None] * mean[:, None, :]
    diagonal = np.arange(n_cells)
    # For equal contributions rounding can make a variance negative.
    spread[:, diagonal, diagonal] = np.maximum(spread[:, diagonal, diagonal], 0)

    # The influence of a user is Σ w (c − θ): the sum of w c, minus θ times the sum of w.
    identity = np.broadcast_to(np.eye(n_cells), (n_grid, n_cells, n_cells))
    to_influence = np.concatenate([identity, -mean[:, None, :]], axis=1)
    to_influence /= weight_sum[:, None, None]
    n_users = len(positives.starts)
    correction = n_users / max(n_users - 1, 1)
    from_sums = correction * to_influence.swapaxes(1, 2)
    return _PathMoments(
        mean=mean,
        covariance=from_sums @ (sums.user_products @ to_influence),
        aoa_covariance=from_sums @ sums.aoa_products,
        spread=spread,
        ess=weight_sum**2 / sums.squares,
        clipped=1 - weight_sum / sums.total,
    )


@dataclass(frozen=True, eq=False)
class _MomentSums:
    """Sums over positives and users at each point of the grid; the last column stands for c = 1.

    Attributes
    ----------
    total, squares : (n_grid,) arrays
        Sum of the weights before they are limited, and sum of the squared limited weights.
    products : (n_grid, n_columns, n_columns) array
        Weighted products of contributions.
    user_products : (n_grid, n_columns, n_columns) array
        Products of the weighted sums of users.
    aoa_products : (n_grid, n_columns, n_cells) array
        Products of the weighted sums of users with their influence on AOA.
    """

    total: FloatArray
    squares: FloatArray
    products: FloatArray
    user_products: FloatArray
    aoa_products: FloatArray


def _sum_moments(ranked_positives: RankedPositives, centred: FloatArray, log_odds: FloatArray) -> _MomentSums:
    """Return the sums from which the moments are computed, in blocks of whole users."""
    n_pos, n_cells = centred.shape
    n_columns = n_cells + 1
    values = np.column_stack([centred, np.ones(n_pos)])
    aoa_influence = sum_by_user(ranked_positives, centred) / max(n_pos, 1)
    limits = np.concatenate([_weight_limits(basis_log_odds) for basis_log_odds in log_odds])[:, None]
    relative_log_odds = log_odds - log_odds.min(axis=1, keepdims=True)
    n_grid = len(limits)

    first, second = np.triu_indices(n_columns)
    total = np.zeros(n_grid)
    squares = np.zeros(n_grid)
    triangle = np.zeros((n_grid, first.size))
    user_products = np.zeros((n_grid, n_columns, n_columns))
    aoa_products = np.zeros((n_grid, n_columns, n_cells))
    for users, positives in _iterate_blocks(ranked_positives):
        weight = np.exp(-ALPHAS[:, None] * relative_log_odds[:, None, positives]).reshape(n_grid, -1)
        total += weight.sum(axis=1)
        np.minimum(weight, limits, out=weight)
        squares += np.einsum("gp,gp->g", weight, weight)
        columns = values[positives].T
        triangle += weight @ (columns[first] * columns[second]).T
        user_sums = _sum_runs(weight, values[positives], ranked_positives.starts[users] - positives.start)
        user_products += user_sums.swapaxes(1, 2) @ user_sums
        aoa_products += user_sums.swapaxes(1, 2) @ aoa_influence[users]

    products = np.empty(user_products.shape)
    products[:, first, second] = triangle
    products[:, second, first] = triangle
    return _MomentSums(
        total=total,
        squares=squares,
        products=products,
        user_products=user_products,
        aoa_products=aoa_products,
    )


def _iterate_blocks(positives: RankedPositives) -> Iterator[tuple[slice, slice]]:
    """Yield the users, and the positives, of each block."""
    user_ends = np.append(positives.starts, len(positives))
    block_starts = np.searchsorted(user_ends, np.arange(0, len(positives), BLOCK))
    edges = unique_keys(np.append(block_starts, user_ends.size - 1))
    for start, end in pairwise(edges.tolist()):
        yield slice(start, end), slice(int(user_ends[start]), int(user_ends[end]))


def _sum_runs(weight: FloatArray, values: FloatArray, starts: IntArray) -> FloatArray:
    """Return sums of weighted values over runs of positives, (n_weights, n_runs, n_columns)."""
    n_weights, n_pos = weight.shape
    row_ends = np.append(np.arange(n_weights)[:, None] * n_pos + starts, weight.size)
    columns = np.tile(np.arange(n_pos), n_weights)
    matrix = sparse.csr_array((weight.ravel(), columns, row_ends))
    return np.asarray(matrix @ values).reshape(n_weights, len(starts), -1)


def _typical_hit(values: FloatArray, n_metrics: int) -> FloatArray:
    """Return Σc²/Σ|c| over the cells of the metric, for each cell."""
    metric_values = values.reshape(len(values), n_metrics, -1)
    squares = (metric_values**2).sum((0, 2))
    size = squares / np.maximum(np.abs(metric_values).sum((0, 2)), 1e-300)
    return np.repeat(size, metric_values.shape[2])


def _correlation(covariance: FloatArray) -> FloatArray:
    """Return correlations, which are 0 between a constant cell and the remaining cells."""
    sd = np.sqrt(np.maximum(np.diag(covariance), 0))
    varies = sd > SMALLEST_DEVIATION
    divisor = np.where(varies, sd, 1.0)
    correlation = np.where(np.outer(varies, varies), covariance / np.outer(divisor, divisor), 0.0)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def _intraclass_correlation(positives: RankedPositives, values: FloatArray) -> FloatArray:
    """Return the correlation of the contributions of one user, by analysis of variance, in [0, 0.9]."""
    n_pos = len(positives)
    n_users = positives.counts.size
    counts = positives.counts.astype(np.float64)
    user_means = sum_by_user(positives, values) / counts[:, None]
    within_square = ((values - user_means[positives.segment]) ** 2).sum(0) / max(n_pos - n_users, 1)
    between_square = (counts[:, None] * (user_means - values.mean(0)) ** 2).sum(0) / max(n_users - 1, 1)
    user_size = max((n_pos - (counts**2).sum() / n_pos) / max(n_users - 1, 1), 1e-9)
    user_variance = np.maximum((between_square - within_square) / user_size, 0)
    correlation = user_variance / (user_variance + within_square + 1e-12)
    return np.asarray(np.clip(correlation, 0, MAX_INTRACLASS_CORRELATION))
