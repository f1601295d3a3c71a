"""Weight diagnostics: effective sample size, concentration of the weights, and their tail."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators import Estimator, Sample
from ipseval.estimators.sample import SampleSize
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.utils.checks import as_float_vector
from ipseval.utils.notes import Note, join_notes, word_sample_size
from ipseval.utils.types import AnyArray, FloatArray, IntArray

SumsKey = TypeVar("SumsKey")
Sums = TypeVar("Sums", "WeightTotals", "WeightSums")

# A weighted average is flagged when its effective sample size is below LOW_ESS or below a share of the size
# with equal weights. LOW_ESS_SMALL_DATA lowers the limit where equal weights would not reach LOW_ESS either.
LOW_ESS = 50.0
LOW_ESS_SHARE = 0.1
LOW_ESS_SMALL_DATA = 0.5

# It is also flagged when one weight exceeds this share of the sum, unless equal weights come close to that.
HIGH_SHARE = 0.1
HIGH_SHARE_SMALL_DATA = 5.0

# Beyond these limits the diagnostics contain a caution, which has no other consequence.
RARE_POPULARITY = 2
HIGH_RARE_SHARE = 0.5
HIGH_PARETO_K = 0.7
HIGH_CLIPPED_SHARE = 0.2


@dataclass(frozen=True)
class WeightDiagnostics:
    """Diagnostics of the weights of one sample, which show whether its weighted estimates are reliable."""

    ess: float  # Kish's (Σw)²/Σw² over positives, between 1 and `n_positives`
    ess_items: float  # the same formula on the total weight of each item: power-law weights vary by item only
    max_weight_share: float  # largest single weight over Σw, in (0, 1]
    n_positives: int  # with a weight
    n_items: int = 0  # of these positives
    median_positives: float = float("nan")  # median of |S*_u| over users with positives
    rare_share: float = float("nan")  # share of Σw on items with n* ≤ 2; NaN where n* is not known
    n_smoothed: int = 0  # positives of items without training interactions whose P comes from smoothing
    smoothed_share: float = 0.0  # share of Σw on these positives
    pareto_k: float = float("nan")  # of the total weight of each item; NaN with too few items
    clipped_share: float = 0.0  # Σ(w − w_clip)/Σw, the share that clipping removed, in [0, 1)
    weighted: bool = True  # False: all weights are 1
    weighting: str = "1/P"  # formula of the weight of a positive in the estimates
    ess_own: float = float("nan")  # `ess` of those weights
    share_own: float = float("nan")  # `max_weight_share` of those weights
    ess_equal: float = float("nan")  # `ess_own` if all propensities were equal
    share_equal: float = float("nan")  # `share_own` if all propensities were equal

    @property
    def flags(self) -> tuple[Note, ...]:
        """Reasons why estimates with these weights are unreliable; empty for equal weights."""
        if not self.weighted:
            return ()
        return _find_flags(
            ess=self.ess_own,
            max_share=self.share_own,
            equal_ess=self.ess_equal,
            equal_max_share=self.share_equal,
            n_units=self.n_positives,
            unit="positive",
        )

    @property
    def flag(self) -> str:
        """Reasons why estimates with these weights are unreliable, as text; empty when there are none."""
        return join_notes(*self.flags)

    @property
    def remark(self) -> str:
        """Effective sample size of the weights of the estimator, as text; empty for equal weights."""
        if not self.weighted:
            return ""
        return word_sample_size(self.ess_own, self.ess_equal, self.n_positives)

    @property
    def cautions(self) -> tuple[Note, ...]:
        """Further remarks about the weights; empty for equal weights."""
        if not self.weighted:
            return ()
        cautions = []
        if self.ess_own < LOW_ESS and not self.flags:
            cautions.append(Note.create("few_positives"))
        if self.rare_share > HIGH_RARE_SHARE:
            cautions.append(Note.create("weight_on_rare_items", share=self.rare_share, limit=RARE_POPULARITY))
        if self.n_smoothed:
            cautions.append(
                Note.create("smoothed_propensities", n=self.n_smoothed, share=self.smoothed_share)
            )
        if self.pareto_k > HIGH_PARETO_K:
            cautions.append(Note.create("heavy_tail", k=self.pareto_k))
        if self.clipped_share > HIGH_CLIPPED_SHARE:
            cautions.append(Note.create("clipped_weight", share=self.clipped_share))
        return tuple(cautions)


@dataclass(frozen=True)
class WeightMoments:
    """Σv/m, Σ(v/m)² and log m, m = max v, of weights v: v² may exceed the range of floats."""

    total: float
    squares: float
    log_largest: float

    @classmethod
    def from_weights(cls, weights: FloatArray) -> WeightMoments:
        """Return the sums of weights > 0."""
        largest = float(weights.max())
        scaled = weights / largest
        total = float(scaled.sum())
        squares = float(np.square(scaled, out=scaled).sum())
        return cls(total, squares, math.log(largest))

    @classmethod
    def from_log_weights(cls, logs: FloatArray) -> WeightMoments:
        """Return the sums of weights that are passed as their logarithms."""
        log_largest = float(logs.max())
        moments = cls.from_weights(np.exp(logs - log_largest))
        return replace(moments, log_largest=log_largest)

    @property
    def ess(self) -> float:
        """Kish's effective sample size (Σv)²/Σv²."""
        return self.total**2 / self.squares

    @property
    def max_share(self) -> float:
        """Largest v over Σv."""
        return 1 / self.total

    def merge(self, moments: WeightMoments) -> WeightMoments:
        """Return the sums over the weights of `self` and of `moments`."""
        log_largest = max(self.log_largest, moments.log_largest)
        scale = math.exp(self.log_largest - log_largest)
        second_scale = math.exp(moments.log_largest - log_largest)
        return WeightMoments(
            total=self.total * scale + moments.total * second_scale,
            squares=self.squares * scale**2 + moments.squares * second_scale**2,
            log_largest=log_largest,
        )


@dataclass(frozen=True)
class WeightSums:
    """The sums of the weights of an estimator, and of its weights with equal propensities."""

    moments: WeightMoments
    equal_moments: WeightMoments

    @classmethod
    def from_samples(cls, estimator: Estimator, sample: Sample, equal: Sample) -> WeightSums:
        """Return the sums over positives; `equal` is the sample with equal propensities."""
        weights = estimator.weight_positives(sample)
        equal_weights = estimator.weight_positives(equal)
        return cls(WeightMoments.from_weights(weights), WeightMoments.from_weights(equal_weights))

    @classmethod
    def from_products(
        cls, estimator: Estimator, metric: Metric, sample: Sample, equal: Sample
    ) -> WeightSums | None:
        """Return the sums over users where estimates of `metric` multiply weights; None where they do not."""
        logs = estimator.log_products(sample, metric)
        equal_logs = estimator.log_products(equal, metric)
        if logs is None or equal_logs is None:
            return None
        return cls(WeightMoments.from_log_weights(logs), WeightMoments.from_log_weights(equal_logs))

    def merge(self, sums: WeightSums) -> WeightSums:
        """Return the sums over the positives of `self` and of `sums`."""
        return WeightSums(
            self.moments.merge(sums.moments),
            self.equal_moments.merge(sums.equal_moments),
        )


def find_weight_flags(sums: WeightSums, n: int, unit: str = "positive") -> tuple[Note, ...]:
    """Return the reasons why estimates with such weights of `n` positives, or users, are unreliable."""
    return _find_flags(
        ess=sums.moments.ess,
        max_share=sums.moments.max_share,
        equal_ess=sums.equal_moments.ess,
        equal_max_share=sums.equal_moments.max_share,
        n_units=n,
        unit=unit,
    )


def _find_flags(
    *, ess: float, max_share: float, equal_ess: float, equal_max_share: float, n_units: int, unit: str
) -> tuple[Note, ...]:
    """Return the flag of weights with this effective size and largest share; none where they pass."""
    limit_of_small_data = min(LOW_ESS, LOW_ESS_SMALL_DATA * equal_ess)
    limit = max(limit_of_small_data, LOW_ESS_SHARE * equal_ess)
    if ess < limit:
        return (Note.create("low_sample_size", ess=ess, equal_ess=equal_ess, n=n_units, limit=limit),)
    if max_share > max(HIGH_SHARE, HIGH_SHARE_SMALL_DATA * equal_max_share):
        return (Note.create("dominant_weight", unit=unit, share=max_share),)
    return ()


@dataclass(frozen=True, eq=False)
class WeightTotals:
    """The sums of the weights 1/P, or 1, of positives from which `WeightDiagnostics` are computed."""

    moments: WeightMoments  # over positives
    item_weights: FloatArray  # (n_items,), Σw of each item
    item_counts: IntArray  # (n_items,), number of positives of each item
    weighted: bool  # False: all weights are 1
    clipped_weight: float = 0.0  # weight that clipping removed
    unclipped_weight: float = 1.0  # total weight without clipping

    @classmethod
    def from_sample(cls, sample: Sample, propensity: Propensity | None, *, weighted: bool) -> WeightTotals:
        """Return the sums over the positives of a sample, at least one."""
        ranked = sample.ranked
        n_items = ranked.item_ids.size
        item_counts = np.bincount(ranked.item, minlength=n_items)
        if not weighted:
            n_positives = float(len(ranked))
            moments = WeightMoments(n_positives, n_positives, 0.0)
            return cls(moments, item_counts.astype(np.float64), item_counts, weighted)

        item_weights = np.bincount(ranked.item, sample.weights, minlength=n_items).astype(np.float64)
        totals = cls(WeightMoments.from_weights(sample.weights), item_weights, item_counts, weighted)
        if propensity is None or propensity.unclipped_propensity is None:
            return totals
        clipped_weight, unclipped_weight = propensity.cut_weight(ranked.user, ranked.item)
        return replace(totals, clipped_weight=clipped_weight, unclipped_weight=unclipped_weight)

    def merge(self, totals: WeightTotals) -> WeightTotals:
        """Return the sums over the positives of `self` and of `totals`."""
        return WeightTotals(
            moments=self.moments.merge(totals.moments),
            item_weights=self.item_weights + totals.item_weights,
            item_counts=self.item_counts + totals.item_counts,
            weighted=self.weighted,
            clipped_weight=self.clipped_weight + totals.clipped_weight,
            # Without clipping this sum counts samples. It only has to be above 0 then.
            unclipped_weight=self.unclipped_weight + totals.unclipped_weight,
        )

    def diagnostics(self, size: SampleSize, propensity: Propensity | None) -> WeightDiagnostics:
        """Return the diagnostics of all positives; `rare_share` is NaN where the propensity has no n*."""
        has_positives = self.item_weights > 0
        item_weights = self.item_weights[has_positives]
        rare_share = float("nan")
        n_smoothed = 0
        smoothed_share = 0.0
        popularity = None if propensity is None else propensity.training_popularity
        if propensity is not None and popularity is not None:
            is_rare = popularity[has_positives] <= RARE_POPULARITY
            rare_share = float(item_weights[is_rare].sum() / item_weights.sum())
            if self.weighted and propensity.smoothing:
                is_smoothed = popularity == 0
                n_smoothed = int(self.item_counts[is_smoothed].sum())
                smoothed_share = float(self.item_weights[is_smoothed].sum() / item_weights.sum())
        return WeightDiagnostics(
            ess=self.moments.ess,
            ess_items=effective_sample_size(item_weights),
            max_weight_share=self.moments.max_share,
            n_positives=size.n_positives,
            n_items=int(item_weights.size),
            median_positives=size.median_positives,
            rare_share=rare_share,
            n_smoothed=n_smoothed,
            smoothed_share=smoothed_share,
            pareto_k=pareto_k(item_weights),
            clipped_share=self.clipped_weight / self.unclipped_weight,
            weighted=self.weighted,
            ess_own=self.moments.ess,
            share_own=self.moments.max_share,
            ess_equal=float(size.n_positives),
            share_equal=1 / size.n_positives,
        )


@dataclass(frozen=True, eq=False)
class AllWeights:
    """The sums of all weights that an evaluation uses; sums of separate users can be merged."""

    totals: dict[bool, WeightTotals] = field(default_factory=dict)  # is weighted -> totals
    estimator_sums: dict[str, WeightSums] = field(default_factory=dict)  # label of estimator -> sums
    products: dict[tuple[str, str], WeightSums] = field(
        default_factory=dict
    )  # (metric, estimator) -> of users

    @classmethod
    def from_sample(
        cls,
        sample: Sample,
        estimators: Sequence[Estimator],
        metrics: Sequence[Metric] = (),
        *,
        propensity: Propensity | None = None,
    ) -> AllWeights:
        """Return the sums of a sample, which are empty without positives."""
        weights = cls()
        if not len(sample.ranked):
            return weights
        equal_sample = sample.with_equal_propensities()
        for estimator in estimators:
            weighted = estimator.weighted
            if weighted not in weights.totals:
                weights.totals[weighted] = WeightTotals.from_sample(sample, propensity, weighted=weighted)
            weights.estimator_sums[estimator.label] = WeightSums.from_samples(estimator, sample, equal_sample)
            if not weighted:
                continue
            for metric in metrics:
                products = WeightSums.from_products(estimator, metric, sample, equal_sample)
                if products is not None:
                    weights.products[metric.label, estimator.label] = products
        return weights

    def merge(self, weights: AllWeights) -> AllWeights:
        """Return the sums over the positives of `self` and of `weights`."""
        return AllWeights(
            totals=_merge_by_key(self.totals, weights.totals),
            estimator_sums=_merge_by_key(self.estimator_sums, weights.estimator_sums),
            products=_merge_by_key(self.products, weights.products),
        )

    def diagnostics(
        self, estimators: Sequence[Estimator], size: SampleSize, propensity: Propensity | None
    ) -> dict[str, WeightDiagnostics]:
        """Return estimator label -> diagnostics of its weights."""
        totals_diagnostics = {}
        for weighted, totals in self.totals.items():
            totals_diagnostics[weighted] = totals.diagnostics(size, propensity)

        diagnostics = {}
        for estimator in estimators:
            sums = self.estimator_sums[estimator.label]
            estimator_diagnostics = replace(
                totals_diagnostics[estimator.weighted],
                ess_own=sums.moments.ess,
                share_own=sums.moments.max_share,
                ess_equal=sums.equal_moments.ess,
                share_equal=sums.equal_moments.max_share,
            )
            if estimator.weighted:
                estimator_diagnostics = replace(estimator_diagnostics, weighting=estimator.weighting)
            diagnostics[estimator.label] = estimator_diagnostics
        return diagnostics

    def product_flags(self, n_users: int) -> dict[tuple[str, str], tuple[Note, ...]]:
        """Return (metric, estimator) -> reasons why estimates that multiply weights are unreliable."""
        # The rule is the rule of `WeightDiagnostics`, applied to weights of users instead of positives.
        flags = {}
        for key, sums in self.products.items():
            cell_flags = []
            for flag in find_weight_flags(sums, n_users, "user"):
                cell_flags.append(Note.create("products_of_weights", reason=flag))
            flags[key] = tuple(cell_flags)
        return flags


def _merge_by_key(first: dict[SumsKey, Sums], second: dict[SumsKey, Sums]) -> dict[SumsKey, Sums]:
    """Return the sums of two dictionaries, merged for keys that occur in both of them."""
    merged_sums = {**first, **second}
    for key, sums in first.items():
        if key in second:
            merged_sums[key] = sums.merge(second[key])
    return merged_sums


def effective_sample_size(weights: FloatArray) -> float:
    """Return Kish's effective sample size (Σw)²/Σw², scale-free, between 1 and n."""
    weights = as_float_vector("weights", weights)
    is_valid = np.isfinite(weights) & (weights >= 0)
    if is_valid.all() and weights.any():
        return WeightMoments.from_weights(weights).ess
    raise InputError("weights must be finite numbers >= 0, and one of them above 0.")


POPULARITY_COLUMNS = (
    "estimator",
    "by",
    "group",
    "low",
    "high",
    "n_items",
    "n_positives",
    "share",
    "weight_share",
)
N_GROUPS = 8


def group_weights_by_popularity(
    sample: Sample, estimators: Iterable[Estimator], propensity: Propensity | None
) -> pd.DataFrame:
    """Return the positives in groups by the popularity of their item, with the weight of each group.

    Groups of n* end at 1, 2, 5, 10, 20, and so on. Where n* is not known, there are up to eight groups by P
    with nearly the same number of positives. `share` is a share of the positives, and `weight_share` a share
    of the weights of an estimator.
    """
    weighted_estimators = []
    for estimator in estimators:
        if estimator.weighted:
            weighted_estimators.append(estimator)

    if sample.propensity is None or not weighted_estimators:
        return pd.DataFrame([], columns=list(POPULARITY_COLUMNS))

    ranked = sample.ranked
    popularity = None if propensity is None else propensity.training_popularity
    if popularity is None:
        variable = "P"
        values = sample.propensity
        group = _group_by_quantile(values)
    else:
        variable = "n*"
        values = popularity[ranked.item]
        group = _group_by_popularity(values)

    positives = pd.DataFrame({"value": values, "item": ranked.item}).groupby(group)
    table = positives["value"].agg(low="min", high="max")
    group_labels = []
    for low, high in table.to_numpy().tolist():
        group_labels.append(_format_range(low, high))

    table["group"] = group_labels
    table["n_items"] = positives["item"].nunique()
    table["n_positives"] = positives.size()
    table["by"] = variable
    table["share"] = table["n_positives"] / group.size

    estimator_tables = []
    for estimator in weighted_estimators:
        weights = estimator.weight_positives(sample)
        weight_share = np.bincount(group, weights)[table.index] / weights.sum()
        estimator_tables.append(table.assign(estimator=estimator.label, weight_share=weight_share))
    groups: pd.DataFrame = pd.concat(estimator_tables, ignore_index=True)[list(POPULARITY_COLUMNS)]
    return groups


def _group_by_popularity(values: FloatArray) -> IntArray:
    """Return the number of the group of each n*: 0, 1, 2–4, 5–9, 10–19, 20–49, and so on."""
    edges = [1.0]
    while edges[-1] <= values.max():
        decade = edges[-1]
        edges += [2 * decade, 5 * decade, 10 * decade]
    return np.searchsorted(np.unique(edges), values, side="right")


def _group_by_quantile(values: FloatArray) -> IntArray:
    """Return the number of the group of each value, for groups that end at quantiles."""
    edges: AnyArray = np.unique(np.quantile(values, np.arange(1, N_GROUPS) / N_GROUPS))
    return np.searchsorted(edges, values, side="left")


def _format_range(low: float, high: float) -> str:
    """Return "low–high" as text, or one number where both print alike."""
    low_text = _format_end(low)
    high_text = _format_end(high)
    if low_text == high_text:
        return low_text
    return f"{low_text}–{high_text}"


def _format_end(value: float) -> str:
    """Return counts above 1 as integers, and other values with three significant digits."""
    if value.is_integer() and value > 1:
        return f"{value:,.0f}"
    return f"{value:.3g}"


MIN_TAIL = 5

# Weakly informative prior of the profile likelihood, and shrinkage of k̂ towards ½ by ten observations.
PRIOR_SCALE = 3.0
PRIOR_SIZE = 10.0

# Two values whose difference is below this share of the largest value are equal up to rounding.
ROUNDING = 1e-12


def pareto_k(values: FloatArray) -> float:
    """Return k̂ of the largest min(n/5, 3√n) values: about 1/k̂ moments of their distribution exist.

    Above 0.5 the variance is infinite, so that errors are understated; above 0.7 averages are unreliable.
    The result is NaN where the tail has fewer than five different excesses. Vehtari et al., JMLR 25, 2024,
    arXiv 1507.02646.
    """
    values = as_float_vector("values", values)
    is_negative = values < 0
    if is_negative.any():
        raise InputError(f"values must be positive; {int(is_negative.sum())} of {values.size} are negative.")
    tail_size = int(np.ceil(min(0.2 * values.size, 3 * np.sqrt(values.size))))
    if tail_size < MIN_TAIL or tail_size >= values.size:
        return float("nan")
    ordered_values = np.sort(values)
    largest = ordered_values[-1]
    excess = ordered_values[-tail_size:] - ordered_values[-tail_size - 1]
    # Equal totals of items differ in their last bits, because of the order of their sums.
    excess = excess[excess > ROUNDING * largest]
    if np.unique(np.round(excess / largest, 12)).size < MIN_TAIL:
        return float("nan")
    shape, _ = fit_generalised_pareto(excess)
    return float((excess.size * shape + PRIOR_SIZE * 0.5) / (excess.size + PRIOR_SIZE))


def fit_generalised_pareto(excess: FloatArray) -> tuple[float, float]:
    """Return shape ξ and scale σ of the density (1/σ)(1 + ξx/σ)^{−1/ξ − 1}: Zhang & Stephens' estimate.

    The estimate of b = −ξ/σ is its mean over a grid, weighted by the profile likelihood; ξ is the mean of
    ln(1 − bx) for that b. Zhang & Stephens, Technometrics 51, 2009, 10.1198/tech.2009.08017.
    """
    x = np.sort(excess)
    n = x.size
    n_grid = 30 + int(np.sqrt(n))
    quartile = x[int(n / 4 + 0.5) - 1]
    steps = np.arange(1, n_grid + 1) - 0.5
    b = 1 / x[-1] + (1 - np.sqrt(n_grid / steps)) / (PRIOR_SCALE * quartile)
    b = b[b != 0]
    shape = np.log1p(-b[:, None] * x).mean(axis=1)
    log_likelihood = n * (np.log(-b / shape) - shape)  # up to a constant
    weight = np.exp(log_likelihood - log_likelihood.max())
    mean_b = float(weight @ b / weight.sum())
    xi = float(np.log1p(-mean_b * x).mean())
    return xi, -xi / mean_b
