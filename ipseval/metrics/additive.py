"""Metrics that are a sum or mean over positives of a function of the rank: recall, dcg, atop and others."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Generic, Literal, TypeVar

import numpy as np

from ipseval.errors import InputError
from ipseval.metrics._ties import average_over_ties, find_rank_ranges
from ipseval.metrics.base import Definition, Metric, cache_last
from ipseval.metrics.gains import GAIN, Gain, compute_gains
from ipseval.ranking import RankedPositives
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, IntArray, TieChoice, TieRule

Value = TypeVar("Value")


class AttributeByKind(Generic[Value]):
    """A class attribute of a metric that follows from its kind, unless a subclass sets it."""

    def __init__(self, *, mean_value: Value, sum_value: Value) -> None:
        self._mean_value = mean_value
        self._sum_value = sum_value

    def __get__(self, instance: Metric | None, owner: type[Metric]) -> Value:
        if getattr(owner, "kind", "mean") == "mean":
            return self._mean_value
        return self._sum_value


@public_class
@dataclass(frozen=True, repr=False)
class AdditiveMetric(Metric):
    """Compute (1/s) Σ c(r_i) for kind "mean", or Σ c(r_i) for kind "sum", over the positives of a user.

    A subclass sets `name`, `kind` and `definition`. It defines the contribution c as
    ``_value_at_rank(rank, n_candidates)``, or as ``_contributions(ranked, rule)`` where c is not a function of the
    rank. A mean of contributions outside [0, 1], and a sum of contributions below 0, need a `value_range`. Ties,
    weights, the unbiased form and the correction of sampled ranks follow from c.

    Parameters
    ----------
    cutoff : int or None, default None
        The k of ``@k``; None for the whole ranking.
    label : str, default ""
        Label in reports; "" for name, parameters and cutoff.

    Attributes
    ----------
    needs_n_relevant : bool
        Whether the unbiased form divides by s_u: True for kind "mean", False for kind "sum".
    value_range : (float, float)
        Range of the values of a user: [0, 1] for kind "mean", [0, ∞) for kind "sum".
    reads_n : bool
        Whether c(r) depends on the number of candidates; ties are then averaged separately for each number.

    See Also
    --------
    Metric : Base of all metrics.

    Examples
    --------
    >>> from ipseval.metrics import AdditiveMetric, Definition
    >>> class InverseRank(AdditiveMetric):
    ...     name = "inverse_rank"
    ...     kind = "mean"
    ...     definition = Definition("Σ_{i∈S} 1/r_i / s", "s")
    ...
    ...     def _value_at_rank(self, rank, n_candidates):
    ...         return 1 / rank
    >>> InverseRank(2).curve(3)
    array([1. , 0.5, 0. ])
    """

    needs_n_relevant: ClassVar[bool] = AttributeByKind(  # type: ignore[assignment]  # a descriptor of a bool
        mean_value=True, sum_value=False
    )
    value_range: ClassVar[tuple[float, float]] = AttributeByKind(  # type: ignore[assignment]  # a descriptor of a range
        mean_value=(0.0, 1.0), sum_value=(0.0, float("inf"))
    )
    reads_n: ClassVar[bool] = False

    def contributions(self, positives: RankedPositives, *, ties: TieChoice = "default") -> FloatArray:
        """Return the contribution c(r) of each positive under the tie rule.

        Parameters
        ----------
        positives : RankedPositives
            Ranks of the positives.
        ties : {"default", "mean", "expected", "min", "max"}, default "default"
            The tie rule; "default" stands for `default_ties`.

        Returns
        -------
        (n_pos,) float array
            Contributions in the order of the positives.
        """
        rule = self._resolve_tie_rule(positives, ties)
        return cache_last(positives, (self, rule), lambda: self._contributions(positives, rule))

    def _contributions(self, positives: RankedPositives, rule: TieRule) -> FloatArray:
        if not positives.has_ties:
            return self.value_at_rank(positives.n_above + 1.0, positives.n_candidates)
        return average_over_ties(self.value_at_rank, positives, rule, self.cutoff, reads_n=self.reads_n)

    def _user_values(
        self, positives: RankedPositives, weights: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        mean = positives.mean_by_user(self.contributions(positives, ties=rule), weights)
        if self.kind == "mean":
            return mean
        return mean * positives.counts

    def _unbiased(
        self, positives: RankedPositives, inverse: FloatArray, n_relevant: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        total = positives.sum_by_user(self.contributions(positives, ties=rule) * inverse)
        if self.kind != "mean":
            return total
        assert n_relevant is not None
        return np.asarray(total / n_relevant)


def adds_up_contributions(metric: Metric) -> bool:
    """Return whether the weighted value of a user is Σwc/Σw, times |S*_u| for kind "sum", by definition.

    It is not for a subclass that replaces the formula.
    """
    if not isinstance(metric, AdditiveMetric):
        return False
    metric_class = type(metric)
    return (
        metric_class.user_values is Metric.user_values
        and metric_class._user_values is AdditiveMetric._user_values
    )


def compute_log_discount(rank: FloatArray) -> FloatArray:
    """Return 1/log2(1 + r)."""
    return 1 / np.log2(1 + rank)


def compute_share_below(rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
    """Return (n − r)/(n − 1), the share of the other candidates ranked below r; NaN where n is 1."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n_candidates > 1, (n_candidates - rank) / (n_candidates - 1), np.nan)


@dataclass(frozen=True, repr=False)
class Recall(AdditiveMetric):
    """Recall: the share of relevant items among the first k, Σ 1{r_i ≤ k} / s."""

    name = "recall"
    aliases: ClassVar[tuple[str, ...]] = ("r",)
    summary = "share of relevant items in the first k"
    kind = "mean"
    takes_cutoff = "required"
    definition = Definition("Σ_{i∈S} 1{r_i ≤ k} / s", "s, never min(s, k)")

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return np.ones_like(rank)


@dataclass(frozen=True, repr=False)
class Hits(Recall):
    """Hits@k of link prediction: recall@k of queries with one target each."""

    name = "hits"
    aliases = ()
    summary = "recall@k of queries with one target (link prediction)"
    definition = Definition("Σ_{i∈S} 1{r_i ≤ k} / s (queries with one target)", "s")


@dataclass(frozen=True, repr=False)
class Cg(AdditiveMetric):
    """Cumulative gain: Σ gain_i over the relevant items among the first k; their number for binary gains."""

    gain: Gain = "binary"

    name = "cg"
    summary = "cumulative gain"
    kind = "sum"
    takes_cutoff: ClassVar[Literal["required", "optional", "none"]] = "required"
    parameters = MappingProxyType({"gain": GAIN})
    definition = Definition("Σ_{i∈S} gain_i 1{r_i ≤ k}", "none")

    def value_at_rank(self, rank: FloatArray, n_candidates: FloatArray | IntArray | float) -> FloatArray:
        """Return the value for one relevant item at rank r; raise for graded gains."""
        if self.gain != "binary":
            raise InputError(f"{self.label} depends on the grade of the relevant item; use gain='binary'.")
        return super().value_at_rank(rank, n_candidates)

    def _contributions(self, positives: RankedPositives, rule: TieRule) -> FloatArray:
        value = average_over_ties(super().value_at_rank, positives, rule, self.cutoff)
        if self.gain == "binary":
            return value
        return value * compute_gains(positives, self.gain, self.label)

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return np.ones_like(rank)


@dataclass(frozen=True, repr=False)
class Dcg(Cg):
    """Discounted cumulative gain: Σ gain_i / log2(1 + r_i) over the relevant items among the first k."""

    name = "dcg"
    summary = "discounted cumulative gain"
    takes_cutoff = "optional"
    definition = Definition("Σ_{i∈S} gain_i 1{r_i ≤ k} / log2(1 + r_i)", "none", "1/log2(1 + r)")

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return compute_log_discount(rank)


@dataclass(frozen=True, repr=False)
class MeanDcg(AdditiveMetric):
    """Mean discount of the relevant items: dcg@k / s (Yang et al. 2018, doi 10.1145/3240323.3240355)."""

    name = "mean_dcg"
    summary = "mean discount over relevant items (Yang et al.)"
    kind = "mean"
    definition = Definition("Σ_{i∈S} 1{r_i ≤ k} / log2(1 + r_i) / s", "s", "1/log2(1 + r)")

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return compute_log_discount(rank)


@dataclass(frozen=True, repr=False)
class Atop(AdditiveMetric):
    """Mean share of the other candidates ranked below a positive, (n − r)/(n − 1).

    It is affine in the rank, so that "mean" and "expected" ties give one value. NaN for a user with a single
    candidate.
    """

    name = "atop"
    aliases = ("mean_percentile",)
    summary = "mean share of items below a relevant one"
    kind = "mean"
    takes_cutoff = "none"
    default_ties = "mean"
    linear_in_rank = True
    definition = Definition(
        formula="(1/s) Σ_{i∈S} (n − r_i)/(n − 1)",
        denominator="s, the number of relevant items; n, the number of candidates",
        undefined="users without positives, and users with one candidate",
    )

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return compute_share_below(rank, n_candidates)

    def _contributions(self, positives: RankedPositives, rule: TieRule) -> FloatArray:
        # The mean of an affine function over the possible ranks is its value at the mean rank.
        ranges = find_rank_ranges(positives, rule)
        rank = ranges.n_above + (ranges.n_ranks + 1) / 2
        return self.value_at_rank(rank, positives.n_candidates)
