"""The weighted sample that estimators read: ranked positives with their propensities, and its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ipseval.errors import InputError, PropensityError
from ipseval.estimators.guarantees import NRelevant
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import as_float_vector, check_choice, counted
from ipseval.utils.ids import by_label
from ipseval.utils.types import FloatArray, IntArray, TieChoice, freeze, readonly

NO_PROPENSITY = (
    "no test positive has a propensity: none of the test items occurs in training. Use unseen='smooth', or "
    "another split."
)
NRelevantLike = int | npt.ArrayLike | Literal["estimated"] | None


@dataclass(frozen=True, eq=False)
class Sample:
    """The ranked positives of one recommender with their propensities: the input of every estimator.

    Attributes
    ----------
    ranked : RankedPositives
        Positives that have a propensity.
    propensity : (n_pos,) float array or None
        P of each positive; None when only unweighted estimators are asked for.
    is_probability : bool
        Whether P is on the scale of probabilities.
    n_relevant : (n_users,) float array or None
        s_u of every user of the population, where known.
    n_relevant_kind : {"known", "estimated", "absent"}
        "estimated": Σ 1/P of the user stands in for s_u.
    ties : str
        The tie rule for all metrics.
    n_without_propensity : int
        Positives left out because they have none.
    rewarded : object or None
        Shown pairs and sums of a reward model, for estimators that read them.
    """

    ranked: RankedPositives
    propensity: FloatArray | None = None
    is_probability: bool = False
    n_relevant: FloatArray | None = None
    n_relevant_kind: NRelevant = "absent"
    ties: TieChoice = "default"
    n_without_propensity: int = 0
    rewarded: Any = None
    _values: dict[tuple[Metric, bool], FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "propensity", "n_relevant")

    def __repr__(self) -> str:
        scale = "no propensity"
        if self.propensity is not None:
            scale = "probabilities" if self.is_probability else "propensity up to a factor"
        return f"Sample({self.ranked!r}; {scale})"

    @cached_property
    def weights(self) -> FloatArray:
        """Return w = 1/P of each positive, (n_pos,)."""
        assert self.propensity is not None
        return readonly(1.0 / self.propensity)

    @cached_property
    def user_weight(self) -> FloatArray:
        """Return Σw over each user's positives, (n_users_with_positives,)."""
        return readonly(self.ranked.sum_by_user(self.weights))

    def ranks_of(self, metric: Metric) -> RankedPositives:
        """Return the ranks that a metric reads: with sampled candidates, of a list those of one list a user.

        Raises
        ------
        InputError
            For a metric of lists, where each positive has competitors of its own.
        """
        sampling = self.ranked.sampling
        if sampling is None or metric.reads_one_rank:
            return self.ranked
        check_sampled_lists(sampling.per, [metric])
        return self.ranked.in_one_list

    def with_equal_propensities(self) -> Sample:
        """Return the same positives with P = 1, all else the same."""
        ones = readonly(np.ones(len(self.ranked)))
        return replace(self, propensity=ones, n_without_propensity=0, rewarded=None, _values={})

    def under(self, propensity: FloatArray, is_probability: bool) -> Sample:
        """Return the sample under another P, (n_pos,); a positive without one (NaN) leaves as a pair.

        It is then no positive, no candidate and no relevant item of its user.
        """
        lost = np.isnan(propensity)
        ranked = self.ranked
        relevant = self.n_relevant
        if lost.any():
            if relevant is not None:
                relevant = relevant - np.bincount(ranked.user[lost], minlength=relevant.size)
            ranked = ranked.without(lost)
            propensity = propensity[~lost]
        return replace(
            self,
            ranked=ranked,
            propensity=propensity,
            is_probability=is_probability,
            n_relevant=relevant,
            n_without_propensity=self.n_without_propensity + int(lost.sum()),
            rewarded=None if self.rewarded is None else self.rewarded.without_weights(),
            _values={},
        )

    def contributions(self, metric: Metric) -> FloatArray | None:
        """Return c (n_pos,) whose weighted mean, or sum, over a user's positives is the metric; or None."""
        values = metric.contributions(self.ranks_of(metric), ties=self.ties)
        return None if values is None or np.isnan(values).any() else values

    def user_values(self, metric: Metric, *, weighted: bool) -> FloatArray:
        """Return the metric of each user with positives, computed once per metric and weighting."""
        key = (metric, weighted)
        if key not in self._values:
            weights = self.weights if weighted else None
            self._values[key] = readonly(metric.user_values(self.ranks_of(metric), weights, ties=self.ties))
        return self._values[key]


def check_sampled_lists(per: str, metrics: Sequence[Metric]) -> None:
    """Raise `InputError` for metrics of lists where each positive has drawn competitors of its own."""
    list_metrics = [metric.label for metric in metrics if not metric.reads_one_rank]
    if per == "positive" and list_metrics:
        raise InputError(
            f"{', '.join(list_metrics)}: a metric of a list, but with per='positive' each positive is in a "
            "list of its own, and their sum could leave the metric's range. Take per='user', or metrics of "
            "single positives: recall@k, mean_dcg@k, atop, auc."
        )


def weighted_sample(
    ranked: RankedPositives,
    propensity: Propensity | None,
    n_relevant: NRelevantLike,
    ties: TieChoice,
    *,
    allow_empty: bool = False,
) -> Sample:
    """Return the positives that have a propensity, with it; the others are counted."""
    # A positive without a propensity leaves as a pair: it is no positive and no candidate of its user, so
    # that the ranks of the others are counted without it. It leaves every estimator alike.
    kind, relevant = _relevant(ranked, n_relevant)
    whole = Sample(ranked, n_relevant=relevant, n_relevant_kind=kind, ties=ties)
    if propensity is None:
        return whole
    propensity.check_ids(ranked)
    values = propensity.at(ranked.user, ranked.item)
    unknown = np.isnan(values)
    if unknown.all() and not allow_empty:
        raise PropensityError(NO_PROPENSITY)
    return whole.under(values, propensity.is_probability)


def _relevant(ranked: RankedPositives, n_relevant: NRelevantLike) -> tuple[NRelevant, FloatArray | None]:
    if n_relevant is None:
        return "absent", None
    if isinstance(n_relevant, str):
        check_choice("n_relevant", n_relevant, ("estimated",))
        return "estimated", None
    if np.ndim(n_relevant) == 0:
        n_relevant = np.full(ranked.n_population, n_relevant)
    n_relevant = by_label(n_relevant, ranked.user_ids, "n_relevant")
    relevant = as_float_vector("n_relevant", n_relevant, size=ranked.n_population)
    n_bad = int((~(relevant >= 0) | np.isinf(relevant)).sum())
    if n_bad:
        raise InputError(f"n_relevant must be finite and >= 0; {n_bad} of {relevant.size} entries are not.")
    n_over = int((relevant > ranked.item_ids.size).sum())
    if n_over:
        raise InputError(
            f"n_relevant is above the number of items, {ranked.item_ids.size:,}, for {n_over} users."
        )
    n_short = int((relevant[ranked.users] < ranked.counts).sum())
    if n_short:
        raise InputError(
            f"n_relevant is smaller than the number of observed positives for {n_short} users; the observed "
            "positives are relevant items too."
        )
    return "known", relevant


@dataclass(frozen=True, eq=False)
class Extent:
    """How large a sample is."""

    positives_per_user: IntArray  # users of the population with 0, 1, 2, … positives
    n_without_propensity: int = 0  # positives left out because they have none
    n_left_out: int = 0  # users left out because some model has no list of them
    n_clusters: int = 0  # where users are queries: persons that they belong to; 0: users

    def __repr__(self) -> str:
        return f"Extent({counted(self.n_positives, 'positive')} of {self.units})"

    @property
    def unit(self) -> str:
        """What values are of, in a word: "user", or "query"."""
        return "query" if self.n_clusters else "user"

    @property
    def unit_plural(self) -> str:
        """The same of several: "users", or "queries"."""
        return "queries" if self.n_clusters else "users"

    @property
    def units(self) -> str:
        """How many users, or queries and users, have positives, in words."""
        units = counted(self.n_users, self.unit)
        if not self.n_clusters:
            return units
        return f"{units} of {counted(self.n_clusters, 'user')}"

    @classmethod
    def of(cls, sample: Sample) -> Extent:
        """Return the extent of a sample."""
        ranked = sample.ranked
        counts = np.bincount(ranked.counts, minlength=1)
        counts[0] = ranked.n_population - ranked.users.size
        n_out = 0 if ranked.left_out is None else int(ranked.left_out.sum())
        n_clusters = 0 if ranked.cluster is None else np.unique(ranked.cluster[ranked.users]).size
        return cls(counts, sample.n_without_propensity, n_out, n_clusters)

    def merge(self, other: Extent) -> Extent:
        """Return the extent of the users of both."""
        counts = np.zeros(max(self.positives_per_user.size, other.positives_per_user.size), dtype=np.int64)
        for extent in (self, other):
            counts[: extent.positives_per_user.size] += extent.positives_per_user
        n_without = self.n_without_propensity + other.n_without_propensity
        return Extent(counts, n_without, self.n_left_out + other.n_left_out)

    @property
    def n_positives(self) -> int:
        """Positives that entered."""
        return int(np.arange(self.positives_per_user.size) @ self.positives_per_user)

    @property
    def n_users(self) -> int:
        """Users with positives."""
        return int(self.positives_per_user[1:].sum())

    @property
    def n_population(self) -> int:
        """All users, with or without positives."""
        return int(self.positives_per_user.sum())

    @property
    def counts(self) -> IntArray:
        """Numbers of positives of the users that have any, ascending, (n_users,)."""
        return np.repeat(np.arange(1, self.positives_per_user.size), self.positives_per_user[1:])

    @property
    def median_positives(self) -> float:
        """Median number of positives of users with positives; NaN without any."""
        return float(np.median(self.counts)) if self.n_users else float("nan")
