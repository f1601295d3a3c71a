"""Weight diagnostics: effective sample size, who carries the weights, and how heavy their tail is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators import Estimator, Sample
from ipseval.estimators.sample import Extent
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.utils.checks import as_float_vector
from ipseval.utils.types import AnyArray, FloatArray, IntArray

MIN_TAIL = 5
# Weakly informative prior of the profile likelihood, and shrinkage of k̂ towards ½ by ten observations.
PRIOR_SCALE = 3.0
PRIOR_SIZE = 10.0
ROUNDING = 1e-12


def pareto_k(values: FloatArray) -> float:
    """Return k̂ of the largest min(n/5, 3√n) values: about 1/k̂ moments of their distribution exist."""
    # Above ½ the variance is infinite and errors are understated; above .7 averages are not to be trusted.
    # NaN where the tail has fewer than five different excesses. Vehtari et al., JMLR 25, 2024, arXiv
    # 1507.02646.
    values = as_float_vector("values", values)
    if (values < 0).any():
        raise InputError(f"values must be positive; {int((values < 0).sum())} of {values.size} are negative.")
    size = int(np.ceil(min(0.2 * values.size, 3 * np.sqrt(values.size))))
    if size < MIN_TAIL or size >= values.size:
        return float("nan")
    ordered = np.sort(values)
    excess = ordered[-size:] - ordered[-size - 1]
    # Equal totals of items differ in their last bits, by the order of their sums: that is no tail.
    excess = excess[excess > ROUNDING * ordered[-1]]
    if np.unique(np.round(excess / ordered[-1], 12)).size < MIN_TAIL:
        return float("nan")
    shape, _ = fit_generalised_pareto(excess)
    return float((excess.size * shape + PRIOR_SIZE * 0.5) / (excess.size + PRIOR_SIZE))


def fit_generalised_pareto(excess: FloatArray) -> tuple[float, float]:
    """Return shape ξ and scale σ of the density (1/σ)(1 + ξx/σ)^{−1/ξ − 1}: Zhang & Stephens' estimate."""
    # The mean of b = −ξ/σ over a grid, weighted by its profile likelihood; given b, ξ is the mean of ln(1 −
    # bx). Zhang & Stephens, Technometrics 51, 2009, 10.1198/tech.2009.08017.
    x = np.sort(excess)
    n = x.size
    n_grid = 30 + int(np.sqrt(n))
    quartile = x[int(n / 4 + 0.5) - 1]
    steps = np.arange(1, n_grid + 1) - 0.5
    b = 1 / x[-1] + (1 - np.sqrt(n_grid / steps)) / (PRIOR_SCALE * quartile)
    b = b[b != 0]
    shape = np.log1p(-b[:, None] * x).mean(axis=1)
    log_likelihood = n * (np.log(-b / shape) - shape)  # but for a constant
    weight = np.exp(log_likelihood - log_likelihood.max())
    mean_b = float(weight @ b / weight.sum())
    xi = float(np.log1p(-mean_b * x).mean())
    return xi, -xi / mean_b


K = TypeVar("K")
V = TypeVar("V", "WeightTotals", "WeightSums")

# A weighted average is flagged when its effective sample size is below this; the notes below have the rule.
LOW_ESS, LOW_ESS_SHARE, LOW_ESS_SMALL_DATA = 50.0, 0.1, 0.5
HIGH_SHARE, HIGH_SHARE_SMALL_DATA = 0.1, 5.0
# From here on a reader is told, without more being done.
RARE_POPULARITY, HIGH_RARE_SHARE = 2, 0.5
HIGH_PARETO_K, HIGH_CLIPPED_SHARE = 0.7, 0.2


@dataclass(frozen=True)
class WeightDiagnostics:
    """What the weights of one sample say about the trust in its estimates."""

    ess: float  # Kish's (Σw)²/Σw² over positives, between 1 and `n_positives`
    ess_items: float  # the same on the total weight of each item: power-law weights vary by item only
    max_weight_share: float  # largest single weight over Σw, in (0, 1]
    n_positives: int  # with a weight
    n_items: int = 0  # among them
    median_positives: float = float("nan")  # median of |S*_u| over users with positives
    rare_share: float = float("nan")  # of Σw on items with n* ≤ 2; NaN where n* is not known
    pareto_k: float = float("nan")  # of the total weight of each item; NaN with too few items
    clipped_share: float = 0.0  # Σ(w − w_clip)/Σw, what clipping cut, in [0, 1)
    weighted: bool = True  # False: all weights are 1
    weighting: str = "1/P"  # of a positive in the estimates, in words
    ess_own: float = float("nan")  # `ess` of those weights
    share_own: float = float("nan")  # `max_weight_share` of those weights
    ess_equal: float = float("nan")  # `ess_own` if all propensities were equal
    share_equal: float = float("nan")  # `share_own` if all propensities were equal

    @property
    def flag(self) -> str:
        """Why estimates with these weights should not be trusted, in words; empty when nothing is wrong."""
        if not self.weighted:
            return ""
        own, equal = (self.ess_own, self.share_own), (self.ess_equal, self.share_equal)
        return _reason(own, equal, self.n_positives, "positive")

    @property
    def remark(self) -> str:
        """The effective sample size of the estimator's own weights, in words; empty for equal weights."""
        return _size(self.ess_own, self.ess_equal, self.n_positives) if self.weighted else ""

    @property
    def cautions(self) -> tuple[str, ...]:
        """What else a reader should know about the weights, in words; empty for equal weights."""
        if not self.weighted:
            return ()
        few = self.ess_own < LOW_ESS and not self.flag
        words = ["few positives, with equal weights too"] if few else []
        if self.rare_share > HIGH_RARE_SHARE:
            words.append(
                f"{self.rare_share:.0%} of the weight is on items with at most {RARE_POPULARITY} interactions"
            )
        if self.pareto_k > HIGH_PARETO_K:
            words.append(f"heavy-tailed weights of items (Pareto k = {self.pareto_k:.2f})")
        if self.clipped_share > HIGH_CLIPPED_SHARE:
            words.append(f"clipping cut {self.clipped_share:.0%} of the weight")
        return tuple(words)


@dataclass(frozen=True)
class Weighed:
    """Σv/m, Σ(v/m)² and log m, m = max v, of weights v: v² may leave the range of floats."""

    total: float
    squares: float
    log_largest: float

    @classmethod
    def of(cls, weights: FloatArray) -> Weighed:
        """Return the sums of some weights > 0."""
        largest = float(weights.max())
        scaled = weights / largest
        return cls(float(scaled.sum()), float(np.square(scaled, out=scaled).sum()), math.log(largest))

    @classmethod
    def of_logs(cls, logs: FloatArray) -> Weighed:
        """Return the sums of weights given by their logarithms."""
        largest = float(logs.max())
        return replace(cls.of(np.exp(logs - largest)), log_largest=largest)

    @property
    def ess(self) -> float:
        """Kish's effective sample size (Σv)²/Σv²."""
        return self.total**2 / self.squares

    @property
    def max_share(self) -> float:
        """Largest v over Σv."""
        return 1 / self.total

    def merge(self, other: Weighed) -> Weighed:
        """Return the sums of both."""
        largest = max(self.log_largest, other.log_largest)
        one, two = math.exp(self.log_largest - largest), math.exp(other.log_largest - largest)
        total = self.total * one + other.total * two
        return Weighed(total, self.squares * one**2 + other.squares * two**2, largest)


@dataclass(frozen=True)
class WeightSums:
    """The sums of an estimator's own weights, and of those with equal propensities."""

    own: Weighed
    equal: Weighed

    @classmethod
    def of(cls, estimator: Estimator, sample: Sample, equal: Sample) -> WeightSums:
        """Return the sums over positives; `equal` is the sample with equal propensities."""
        return cls(*(Weighed.of(estimator.positive_weights(one)) for one in (sample, equal)))

    @classmethod
    def of_products(
        cls, estimator: Estimator, metric: Metric, sample: Sample, equal: Sample
    ) -> WeightSums | None:
        """Return the sums over users where estimates of `metric` multiply weights; None where they do not."""
        logs, same = (estimator.log_products(one, metric) for one in (sample, equal))
        return None if logs is None or same is None else cls(Weighed.of_logs(logs), Weighed.of_logs(same))

    def merge(self, other: WeightSums) -> WeightSums:
        """Return the sums over the positives of both."""
        return WeightSums(self.own.merge(other.own), self.equal.merge(other.equal))


def weight_flag(sums: WeightSums, n: int, unit: str = "positive") -> str:
    """Return why estimates with such weights of `n` positives, or users, should not be trusted; else ""."""
    own, equal = ((one.ess, one.max_share) for one in (sums.own, sums.equal))
    return _reason(own, equal, n, unit)


def _reason(own: tuple[float, float], equal: tuple[float, float], n: int, unit: str) -> str:
    """Apply the rule of the flag to (ess, largest share) of the weights, and with equal propensities."""
    limit = max(min(LOW_ESS, LOW_ESS_SMALL_DATA * equal[0]), LOW_ESS_SHARE * equal[0])
    if own[0] < limit:
        return f"{_size(own[0], equal[0], n)}, less than the {limit:,.0f} needed"
    if own[1] > max(HIGH_SHARE, HIGH_SHARE_SMALL_DATA * equal[1]):
        return f"one {unit} carries {own[1]:.0%} of the weight"
    return ""


def _size(ess: float, ess_equal: float, n: int) -> str:
    equal = f" ({ess_equal:,.0f} with equal weights)" if round(ess_equal) != n else ""
    return f"effective sample size {ess:,.0f} of {n:,}{equal}"


@dataclass(frozen=True, eq=False)
class WeightTotals:
    """The sums of the weights 1/P, or 1, of some positives that `WeightDiagnostics` follow from."""

    weighed: Weighed  # over positives
    per_item: FloatArray  # (n_items,), Σw of each item
    weighted: bool  # False: all weights are 1
    cut: float = 0.0  # what clipping cut of the weight
    whole: float = 1.0  # the weight without clipping

    @classmethod
    def of(cls, sample: Sample, propensity: Propensity | None, *, weighted: bool) -> WeightTotals:
        """Return the sums over the positives of a sample, at least one."""
        ranked, n = sample.ranked, float(len(sample.ranked))
        weights = sample.weights if weighted else None
        per_item = np.bincount(ranked.item, weights, minlength=ranked.item_ids.size).astype(np.float64)
        made = cls(Weighed(n, n, 0.0) if weights is None else Weighed.of(weights), per_item, weighted)
        if not weighted or propensity is None or propensity.unclipped is None:
            return made
        cut, whole = propensity.cut_weight(ranked.user, ranked.item)
        return replace(made, cut=cut, whole=whole)

    def merge(self, other: WeightTotals) -> WeightTotals:
        """Return the sums over the positives of both."""
        weighed, per_item = self.weighed.merge(other.weighed), self.per_item + other.per_item
        # Without clipping `whole` only has to stay above 0.
        return WeightTotals(weighed, per_item, self.weighted, self.cut + other.cut, self.whole + other.whole)

    def diagnostics(self, extent: Extent, propensity: Propensity | None) -> WeightDiagnostics:
        """Return the diagnostics of all positives; what is read from n* needs the propensity."""
        some = self.per_item > 0
        per_item, rare = self.per_item[some], float("nan")
        if propensity is not None and propensity.popularity is not None:
            rare = float(per_item[propensity.popularity[some] <= RARE_POPULARITY].sum() / per_item.sum())
        return WeightDiagnostics(
            ess=self.weighed.ess,
            ess_items=effective_sample_size(per_item),
            max_weight_share=self.weighed.max_share,
            n_positives=extent.n_positives,
            n_items=int(per_item.size),
            median_positives=extent.median_positives,
            rare_share=rare,
            pareto_k=pareto_k(per_item),
            clipped_share=self.cut / self.whole,
            weighted=self.weighted,
            ess_own=self.weighed.ess,
            share_own=self.weighed.max_share,
            ess_equal=float(extent.n_positives),
            share_equal=1 / extent.n_positives,
        )


@dataclass(frozen=True, eq=False)
class AllWeights:
    """The sums of all weights that an evaluation reads; those of other users merge."""

    totals: dict[bool, WeightTotals] = field(default_factory=dict)  # weighted or not
    own: dict[str, WeightSums] = field(default_factory=dict)  # by weighted estimators
    products: dict[tuple[str, str], WeightSums] = field(default_factory=dict)  # of users

    @classmethod
    def of(
        cls,
        sample: Sample,
        estimators: Sequence[Estimator],
        metrics: Sequence[Metric] = (),
        *,
        propensity: Propensity | None = None,
    ) -> AllWeights:
        """Return the sums of a sample; none without positives."""
        made = cls()
        if not len(sample.ranked):
            return made
        equal = sample.with_equal_propensities()
        for one in estimators:
            if one.weighted not in made.totals:
                made.totals[one.weighted] = WeightTotals.of(sample, propensity, weighted=one.weighted)
            if not one.weighted:
                continue
            made.own[one.label] = WeightSums.of(one, sample, equal)
            for metric in metrics:
                products = WeightSums.of_products(one, metric, sample, equal)
                if products is not None:
                    made.products[metric.label, one.label] = products
        return made

    def merge(self, other: AllWeights) -> AllWeights:
        """Return the sums over the positives of both."""
        return AllWeights(
            _merged(self.totals, other.totals),
            _merged(self.own, other.own),
            _merged(self.products, other.products),
        )

    def diagnostics(
        self, estimators: Sequence[Estimator], extent: Extent, propensity: Propensity | None
    ) -> dict[str, WeightDiagnostics]:
        """Return estimator label -> diagnostics of its weights."""
        common = {weighted: one.diagnostics(extent, propensity) for weighted, one in self.totals.items()}
        made = {one.label: common[one.weighted] for one in estimators}
        for one in estimators:
            if one.weighted:
                sums = self.own[one.label]
                made[one.label] = replace(
                    made[one.label],
                    weighting=one.weighting,
                    ess_own=sums.own.ess,
                    share_own=sums.own.max_share,
                    ess_equal=sums.equal.ess,
                    share_equal=sums.equal.max_share,
                )
        return made

    def product_flags(self, n_users: int) -> dict[tuple[str, str], str]:
        """Return (metric, estimator) -> why estimates that multiply weights should not be trusted, or ""."""
        # The rule is that of `WeightDiagnostics`, on what users weigh in place of positives.
        flags = {key: weight_flag(sums, n_users, "user") for key, sums in self.products.items()}
        return {key: f"products of weights: {flag}" if flag else "" for key, flag in flags.items()}


def _merged(one: dict[K, V], other: dict[K, V]) -> dict[K, V]:
    """Return the sums of both; some users may have none."""
    return {**one, **other, **{key: one[key].merge(other[key]) for key in one if key in other}}


def effective_sample_size(weights: FloatArray) -> float:
    """Return Kish's effective sample size (Σw)²/Σw², scale-free, between 1 and n."""
    w = as_float_vector("weights", weights)
    if (np.isfinite(w) & (w >= 0)).all() and w.any():
        return Weighed.of(w).ess
    raise InputError("weights must be finite numbers >= 0, and one of them above 0.")


COLUMNS = ("estimator", "by", "group", "low", "high", "n_items", "n_positives", "share", "weight_share")
N_GROUPS = 8


def popularity_weights(
    sample: Sample, estimators: Iterable[Estimator], propensity: Propensity | None
) -> pd.DataFrame:
    """Return the positives in groups by the popularity of their item, with the weight each group has."""
    # Groups of n* end at 1, 2, 5, 10, 20, …; where n* is not known there are up to eight by P, of nearly as
    # many positives each. `share` is that of the positives, `weight_share` that of an estimator's weight.
    weighted = [one for one in estimators if one.weighted]
    if sample.propensity is None or not weighted:
        return pd.DataFrame([], columns=list(COLUMNS))
    ranked = sample.ranked
    popularity = None if propensity is None else propensity.popularity
    by = "P" if popularity is None else "n*"
    value = sample.propensity if popularity is None else popularity[ranked.item]
    group = _by_quantile(value) if popularity is None else _by_popularity(value)
    grouped = pd.DataFrame({"value": value, "item": ranked.item}).groupby(group)
    shown = grouped["value"].agg(low="min", high="max")
    shown["group"] = [_words(*ends) for ends in shown.to_numpy().tolist()]
    shown["n_items"], shown["n_positives"] = grouped["item"].nunique(), grouped.size()
    shown["by"], shown["share"] = by, shown["n_positives"] / group.size
    parts = []
    for one in weighted:
        weights = one.positive_weights(sample)
        share = np.bincount(group, weights)[shown.index] / weights.sum()
        parts.append(shown.assign(estimator=one.label, weight_share=share))
    found: pd.DataFrame = pd.concat(parts, ignore_index=True)[list(COLUMNS)]
    return found


def _by_popularity(value: FloatArray) -> IntArray:
    """Return the group of each n*: 0, 1, 2–4, 5–9, 10–19, 20–49, … ."""
    edges = [1.0]
    while edges[-1] <= value.max():
        edges += [2 * edges[-1], 5 * edges[-1], 10 * edges[-1]]
    return np.searchsorted(np.unique(edges), value, side="right")


def _by_quantile(value: FloatArray) -> IntArray:
    edges: AnyArray = np.unique(np.quantile(value, np.arange(1, N_GROUPS) / N_GROUPS))
    return np.searchsorted(edges, value, side="left")


def _words(low: float, high: float) -> str:
    ends = [f"{end:,.0f}" if end.is_integer() and end > 1 else f"{end:.3g}" for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else "–".join(ends)
