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
from ipseval.utils.checks import as_float_vector, check_choice, format_count
from ipseval.utils.ids import align_labels
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, IntArray, TieChoice, as_readonly, freeze

NO_PROPENSITY = "no test positive has a propensity: none of the test items occurs in training."
ANOTHER_PROPENSITY = "Use {unseen=smooth}, or another split"
NRelevantLike = int | npt.ArrayLike | Literal["estimated"] | None


@public_class
@dataclass(frozen=True, eq=False)
class Sample:
    """The ranked positives of one recommender with their propensities: the input of every estimator.

    Parameters
    ----------
    ranked : RankedPositives
        Positives that have a propensity.
    propensity : (n_pos,) float array or None, default None
        P of each positive; None if all requested estimators are unweighted.
    is_probability : bool, default False
        Whether P is calibrated: a probability, not a number that is proportional to one.
    n_relevant : (n_users,) float array or None, default None
        s_u of every user of the population, where it is known.
    n_relevant_kind : {"known", "estimated", "absent"}, default "absent"
        Source of s_u; "estimated" uses Σ 1/P of the user in its place.
    ties : str, default "default"
        The tie rule for all metrics.
    n_without_propensity : int, default 0
        Number of positives that were excluded because they have no propensity.
    rewarded : object or None, default None
        Impressions and sums of a reward model, for estimators that read them.

    See Also
    --------
    Estimator.sums : Compute the per-user sums of an estimate from a sample.

    Examples
    --------
    The ranked positives of one recommender, weighted by the true propensities of a simulation:

    >>> from ipseval import rank_positives, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> ranked = rank_positives(world.example_models(split, rng=2)["popular"], split)
    >>> propensity = world.propensity.for_pairs(ranked.user, ranked.item)
    >>> sample = Sample(ranked, propensity, is_probability=True)
    >>> sample.weights[:3].round(1)
    array([ 4.7, 10.5, 10.3])
    """

    ranked: RankedPositives
    propensity: FloatArray | None = None
    is_probability: bool = False
    n_relevant: FloatArray | None = None
    n_relevant_kind: NRelevant = "absent"
    ties: TieChoice = "default"
    n_without_propensity: int = 0
    rewarded: Any = None
    # Values of users that were computed before, by metric and whether 1/P weights them. A copy of the sample with
    # another propensity or other ranks begins with none.
    _values: dict[tuple[Metric, bool], FloatArray] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        freeze(self, "propensity", "n_relevant")

    def __repr__(self) -> str:
        scale = "no propensity"
        if self.propensity is not None:
            scale = "relative propensity"
            if self.is_probability:
                scale = "probabilities"
        return f"Sample({self.ranked!r}; {scale})"

    @cached_property
    def weights(self) -> FloatArray:
        """Weight w = 1/P of each positive, (n_pos,)."""
        assert self.propensity is not None
        return as_readonly(1.0 / self.propensity)

    @cached_property
    def user_weight_sums(self) -> FloatArray:
        """Σw over the positives of each user, (n_users_with_positives,)."""
        return as_readonly(self.ranked.sum_by_user(self.weights))

    def ranks_of(self, metric: Metric) -> RankedPositives:
        """Return the ranks for a metric.

        With sampled candidates, a metric of a list needs the ranks within one list per user.

        Parameters
        ----------
        metric : Metric
            The metric.

        Returns
        -------
        RankedPositives
            The ranks of the sample, or the ranks within one list per user.

        Raises
        ------
        InputError
            For a metric of a list, if each positive has separately drawn competitors.
        """
        sampling = self.ranked.sampling
        if sampling is None or metric.reads_one_rank:
            return self.ranked
        check_sampled_lists(sampling.per, [metric])
        return self.ranked.in_one_list

    def with_equal_propensities(self) -> Sample:
        """Return a copy of the sample with P = 1 for all positives.

        Returns
        -------
        Sample
            The same ranks without rewards; `is_probability` is unchanged.
        """
        ones = as_readonly(np.ones(len(self.ranked)))
        return replace(self, propensity=ones, n_without_propensity=0, rewarded=None)

    def under(self, propensity: FloatArray, is_probability: bool) -> Sample:
        """Return the sample with another propensity.

        A positive without a propensity (NaN) is excluded as a user–item pair: it is then neither a positive
        nor a candidate nor a relevant item of its user.

        Parameters
        ----------
        propensity : (n_pos,) float array
            P of each positive.
        is_probability : bool
            Whether P is calibrated.

        Returns
        -------
        Sample
            The sample of the positives with a propensity; `n_without_propensity` counts the excluded ones.
        """
        is_missing = np.isnan(propensity)
        n_missing = int(is_missing.sum())
        ranked = self.ranked
        n_relevant = self.n_relevant
        if n_missing:
            if n_relevant is not None:
                missing_users = ranked.user[is_missing]
                n_relevant = n_relevant - np.bincount(missing_users, minlength=n_relevant.size)
            ranked = ranked.remove_positives(is_missing)
            propensity = propensity[~is_missing]
        rewarded = self.rewarded
        if rewarded is not None:
            rewarded = rewarded.without_weights()
        return replace(
            self,
            ranked=ranked,
            propensity=propensity,
            is_probability=is_probability,
            n_relevant=n_relevant,
            n_without_propensity=self.n_without_propensity + n_missing,
            rewarded=rewarded,
        )

    def contributions(self, metric: Metric) -> FloatArray | None:
        """Return the contribution c of each positive to a metric.

        Parameters
        ----------
        metric : Metric
            The metric.

        Returns
        -------
        (n_pos,) float array or None
            None for a metric without such contributions (see `Metric.contributions`), and for a metric that
            is undefined for some user.
        """
        values = metric.contributions(self.ranks_of(metric), ties=self.ties)
        if values is None or np.isnan(values).any():
            return None
        return values

    def user_values(self, metric: Metric, *, weighted: bool) -> FloatArray:
        """Return the metric of each user with positives, computed once per metric and weighting.

        Parameters
        ----------
        metric : Metric
            The metric.
        weighted : bool
            Whether the positives are weighted by 1/P.

        Returns
        -------
        (n_users_with_positives,) float array
            NaN for users for whom the metric is undefined.
        """
        key = (metric, weighted)
        if key not in self._values:
            weights = None
            if weighted:
                weights = self.weights
            values = metric.user_values(self.ranks_of(metric), weights, ties=self.ties)
            self._values[key] = as_readonly(values)
        return self._values[key]


def check_sampled_lists(per: str, metrics: Sequence[Metric]) -> None:
    """Raise `InputError` for metrics of lists if each positive has separately drawn competitors."""
    list_metrics = []
    for metric in metrics:
        if not metric.reads_one_rank:
            list_metrics.append(metric.label)

    if per == "positive" and list_metrics:
        raise InputError(
            f"{', '.join(list_metrics)}: a metric of a list, but with per='positive' each positive is in a "
            "list of its own, and their sum could leave the metric's range. Take per='user', or metrics of "
            "single positives: recall@k, mean_dcg@k, atop, auc."
        )


def build_sample(
    positives: RankedPositives,
    propensity: Propensity | None,
    n_relevant: NRelevantLike,
    ties: TieChoice,
    *,
    allow_empty: bool = False,
) -> Sample:
    """Return the sample of the positives that have a propensity; the others are excluded and counted.

    `allow_empty` accepts a propensity that is missing for all positives.
    """
    # A positive without a propensity is excluded as a user–item pair, from all estimators alike: it is
    # neither a positive nor a candidate of its user, and the ranks of the others are counted without it.
    n_relevant_kind, n_relevant_by_user = _resolve_n_relevant(positives, n_relevant)
    sample = Sample(positives, n_relevant=n_relevant_by_user, n_relevant_kind=n_relevant_kind, ties=ties)
    if propensity is None:
        return sample
    propensity.check_ids(positives)
    values = propensity.for_pairs(positives.user, positives.item)
    if np.isnan(values).all() and not allow_empty:
        raise PropensityError(NO_PROPENSITY, advice=ANOTHER_PROPENSITY)
    return sample.under(values, propensity.is_probability)


def _resolve_n_relevant(
    positives: RankedPositives, n_relevant: NRelevantLike
) -> tuple[NRelevant, FloatArray | None]:
    """Return the source of s_u, and s_u of every user (n_users,) where it is known."""
    if n_relevant is None:
        return "absent", None
    if isinstance(n_relevant, str):
        check_choice("n_relevant", n_relevant, ("estimated",))
        return "estimated", None
    if np.ndim(n_relevant) == 0:
        n_relevant = np.full(positives.n_population, n_relevant)
    n_relevant = align_labels(n_relevant, positives.user_ids, "n_relevant")
    n_relevant_by_user = as_float_vector("n_relevant", n_relevant, size=positives.n_population)
    _check_n_relevant(positives, n_relevant_by_user)
    return "known", n_relevant_by_user


def _check_n_relevant(positives: RankedPositives, n_relevant: FloatArray) -> None:
    """Raise `InputError` for numbers of relevant items that the data rule out."""
    n_invalid = int((~(n_relevant >= 0) | np.isinf(n_relevant)).sum())
    if n_invalid:
        raise InputError(
            f"must be finite and >= 0; {n_invalid} of {n_relevant.size} entries are not.",
            argument="n_relevant",
        )
    n_items = positives.item_ids.size
    n_too_large = int((n_relevant > n_items).sum())
    if n_too_large:
        raise InputError(
            f"must be at most the number of items, {n_items:,}; got more for {format_count(n_too_large, 'user')}.",
            argument="n_relevant",
        )
    n_too_small = int((n_relevant[positives.users] < positives.counts).sum())
    if n_too_small:
        raise InputError(
            "must be at least the number of observed positives of each user, which are relevant, too; got less "
            f"for {format_count(n_too_small, 'user')}.",
            argument="n_relevant",
        )


@dataclass(frozen=True, eq=False)
class SampleSize:
    """The size of a sample: numbers of users, of positives and of excluded rows.

    Attributes
    ----------
    users_by_n_positives : int array
        Numbers of users of the population with 0, 1, 2, … positives.
    n_without_propensity : int
        Positives that were excluded because they have no propensity.
    n_left_out : int
        Users who were excluded because some recommender has no list for them.
    n_clusters : int
        Number of persons, where the users of the evaluation are queries of persons; else 0.
    n_items : int
        Number of items of the catalogue that recommenders rank; 0 where it is not known.
    """

    users_by_n_positives: IntArray
    n_without_propensity: int = 0
    n_left_out: int = 0
    n_clusters: int = 0
    n_items: int = 0

    def __repr__(self) -> str:
        return f"SampleSize({format_count(self.n_positives, 'positive')} of {self.units})"

    @property
    def unit(self) -> str:
        """Noun for one evaluated unit: "user", or "query"."""
        if self.n_clusters:
            return "query"
        return "user"

    @property
    def unit_plural(self) -> str:
        """Noun for several evaluated units: "users", or "queries"."""
        if self.n_clusters:
            return "queries"
        return "users"

    @property
    def units(self) -> str:
        """Number of users, or of queries and users, with positives, as text."""
        units = format_count(self.n_users, self.unit)
        if not self.n_clusters:
            return units
        return f"{units} of {format_count(self.n_clusters, 'user')}"

    @classmethod
    def from_sample(cls, sample: Sample) -> SampleSize:
        """Return the size of a sample."""
        ranked = sample.ranked
        users_by_n_positives = np.bincount(ranked.counts, minlength=1)
        users_by_n_positives[0] = ranked.n_population - ranked.users.size
        n_left_out = 0
        if ranked.left_out is not None:
            n_left_out = int(ranked.left_out.sum())
        n_clusters = 0
        if ranked.cluster is not None:
            n_clusters = np.unique(ranked.cluster[ranked.users]).size
        return cls(
            users_by_n_positives=users_by_n_positives,
            n_without_propensity=sample.n_without_propensity,
            n_left_out=n_left_out,
            n_clusters=n_clusters,
            n_items=ranked.item_ids.size,
        )

    def merge(self, other: SampleSize) -> SampleSize:
        """Return the size of the union of two samples without common users or persons."""
        size = max(self.users_by_n_positives.size, other.users_by_n_positives.size)
        users_by_n_positives = np.zeros(size, dtype=np.int64)
        for part in (self, other):
            users_by_n_positives[: part.users_by_n_positives.size] += part.users_by_n_positives
        return SampleSize(
            users_by_n_positives=users_by_n_positives,
            n_without_propensity=self.n_without_propensity + other.n_without_propensity,
            n_left_out=self.n_left_out + other.n_left_out,
            n_clusters=self.n_clusters + other.n_clusters,
            n_items=max(self.n_items, other.n_items),
        )

    @property
    def n_positives(self) -> int:
        """Number of positives in the sample."""
        return int(np.arange(self.users_by_n_positives.size) @ self.users_by_n_positives)

    @property
    def n_users(self) -> int:
        """Number of users with positives."""
        return int(self.users_by_n_positives[1:].sum())

    @property
    def n_population(self) -> int:
        """Number of all users, with or without positives."""
        return int(self.users_by_n_positives.sum())

    @property
    def counts(self) -> IntArray:
        """Numbers of positives of the users that have any, ascending, (n_users,)."""
        return np.repeat(np.arange(1, self.users_by_n_positives.size), self.users_by_n_positives[1:])

    @property
    def median_positives(self) -> float:
        """Median number of positives of users with positives; NaN without any."""
        if not self.n_users:
            return float("nan")
        return float(np.median(self.counts))
