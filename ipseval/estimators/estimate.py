"""Estimates with their standard error, guarantee and notes; guarantees and cards of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipseval.errors import InputError
from ipseval.estimators.base import Estimator
from ipseval.estimators.guarantees import Claim, NRelevant
from ipseval.estimators.labels import ESTIMATORS_SHOWN, resolve_estimator
from ipseval.estimators.sample import Sample, SampleSize
from ipseval.estimators.user_sums import MergedSums, UserSums
from ipseval.metrics import Metric, metric
from ipseval.metrics.rating_metrics import RATING_METRICS, RatingMetric, resolve_rating_metric
from ipseval.utils.checks import format_count
from ipseval.utils.notes import Note, as_notes, create_suppression, join_notes
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import FloatArray

TIE_DESCRIPTIONS = {
    "mean": "mean rank, above + tied/2 + 1",
    "expected": "exact expectation over random tie breaking",
}


@public_function
def claim(
    metric: Metric,
    estimator: str | Estimator,
    *,
    is_probability: bool = False,
    n_relevant: NRelevant = "absent",
) -> Claim:
    """Return the statistical guarantee of an estimator for a metric.

    Parameters
    ----------
    metric : Metric
        A metric, as returned by `ipseval.metric`.
    estimator : str or Estimator
        A label such as "snips-pooled", or an Estimator object.
    is_probability : bool, default False
        Whether P is calibrated; False for relative propensities.
    n_relevant : {"known", "estimated", "absent"}, default "absent"
        Source of the numbers of relevant items.

    Returns
    -------
    Claim
        The guarantee with its condition.

    See Also
    --------
    card : Print the guarantees of all estimators for a metric.

    Examples
    --------
    >>> str(claim(metric("recall@10"), "snips-pooled"))
    'consistent given relative propensities, for the average over all relevant pairs'
    """
    estimator = resolve_estimator(estimator)
    # Contributions that are estimated from sampled ranks are biased, and so are weighted sums of them.
    if estimator.weighted and metric.approximate:
        return Claim("no guarantee", metric.approximate)
    return estimator.claim(metric, is_probability=is_probability, n_relevant=n_relevant)


@public_function
def card(label: str | Metric) -> str:
    """Describe a metric: its formula and conventions, and the guarantees of all estimators.

    The guarantees are those for calibrated propensities and known numbers of relevant items; each result
    states its own.

    Parameters
    ----------
    label : str or Metric
        A label such as "ndcg@10" or "mae", or a Metric object.

    Returns
    -------
    str
        The card, to be printed.

    See Also
    --------
    claim : Return the guarantee of one estimator.

    Examples
    --------
    >>> print(card("mae"))  # doctest: +ELLIPSIS
    mae
      formula      Σ_{u,i} |ŷ_ui − y_ui| / (|U|·|I|)
      denominator  |U|·|I|: all user–item pairs, rated or not
      left out     users without ratings; ips counts a user without positives as 0
      with weights per-user weighted mean of the contributions, Σwc/Σw
      claims
        aoa          biased unless all propensities are equal
        aoa-pooled   biased unless all propensities are equal
        ips          exactly unbiased given the propensities
        snips        not consistent in users: a bias of order 1/(positives per user) stays, even with the...
        snips-global nearly consistent given relative propensities and equally exposed users
        snips-pooled consistent given relative propensities, for the average over all relevant pairs
    """
    if isinstance(label, str):
        label = _find_metric(label)
    definition = label.definition
    lines = [label.label, f"  formula      {definition.formula}", f"  denominator  {definition.denominator}"]
    if not isinstance(label, RatingMetric):
        lines += [
            f"  discount     {definition.discount}",
            f"  cutoff       {_describe_cutoff(label)}",
            f"  ties         {TIE_DESCRIPTIONS[label.default_ties]} (default)",
        ]
    value_without_positives = "0"
    if label.counts_unobserved:
        value_without_positives = "the constant of its formula"
    lines += [
        f"  left out     {definition.undefined}; ips counts a user without positives as "
        f"{value_without_positives}",
        f"  with weights {definition.plug_in}",
        "  claims",
    ]
    for name in ESTIMATORS_SHOWN:
        guarantee = claim(label, name, is_probability=True, n_relevant="known")
        lines.append(f"    {name:<13}{guarantee}")
    return "\n".join(lines)


def _find_metric(label: str) -> Metric:
    """Return the rating metric or the ranking metric of a label."""
    if label in RATING_METRICS:
        return resolve_rating_metric(label)
    return metric(label)


def _describe_cutoff(metric: Metric) -> str:
    if metric.cutoff is None:
        return "none: the whole ranking"
    return f"k = {metric.cutoff}"


@public_class
@dataclass(frozen=True, eq=False)
class Estimate:
    """The estimate of one metric by one estimator for one recommender.

    Parameters
    ----------
    metric, estimator : str
        Labels.
    sums : UserSums or MergedSums
        Per-user sums, or a substitute computed from their moments; value and error follow from them.
    n_positives : int
        Number of positives in the estimate.
    claim : Claim
        Statistical guarantee of the value, with its condition.
    notes : tuple of Note, default ()
        Notes for readers of the value.
    flags : tuple of Note, default ()
        Reasons not to rely on the value.
    suppressed : bool, default False
        Whether value and standard error are set to NaN for the reasons in `flags`.
    list_notes : tuple of Note, default ()
        Those notes that are about users without a list and about short lists.
    estimand : {"mean over users", "mean over interactions", "ratio of sums over users"}
        Average or ratio that is estimated. Default: "mean over users".
    weighted : bool, default False
        Whether the propensities enter the value.
    can_exceed_range : bool, default False
        Whether the value can leave the range of the metric.

    See Also
    --------
    ipseval.evaluate : Compute estimates of all recommenders.
    """

    metric: str
    estimator: str
    sums: UserSums | MergedSums
    n_positives: int
    claim: Claim
    notes: tuple[Note, ...] = ()
    flags: tuple[Note, ...] = ()
    suppressed: bool = False
    list_notes: tuple[Note, ...] = ()
    estimand: str = "mean over users"
    weighted: bool = False
    can_exceed_range: bool = False

    def __repr__(self) -> str:
        error = ""
        if not np.isnan(self.standard_error):
            error = f" ± {self.standard_error:.4f}"
        counts = f"{format_count(self.sums.n_users, 'user')}, {format_count(self.n_positives, 'positive')}"
        return f"Estimate({self.metric} by {self.estimator}: {self.value:.4f}{error}; {counts}; {self.claim})"

    @cached_property
    def value(self) -> float:
        """Value of the estimate; NaN where it is undefined, with the reason in `notes`."""
        if self.suppressed:
            return float("nan")
        return self.sums.value()

    @property
    def flag(self) -> str:
        """Reasons not to rely on the value, as text; "" without one."""
        return join_notes(*self.flags)

    @property
    def reliability_notes(self) -> tuple[Note, ...]:
        """Notes on the flags: themselves, or that the value is suppressed because of them."""
        if self.suppressed:
            return (create_suppression(self.flags),)
        return self.flags

    @property
    def influence(self) -> FloatArray:
        """Influence ψ_u of each user in `sums.users` under known weights; see `UserSums.influence`."""
        return self.user_sums.influence()

    @property
    def user_sums(self) -> UserSums:
        """Sums of each user.

        Raises
        ------
        InputError
            If the evaluation kept only moments of the users.
        """
        if isinstance(self.sums, UserSums):
            return self.sums
        raise InputError(
            "this needs the values of each user, and only moments of the users were kept. Evaluate with "
            "per_user=True, or with ipseval.evaluate."
        )

    @cached_property
    def standard_error(self) -> float:
        """Standard error √(n/(n − 1) Σ effect²) over users (delta method); NaN with fewer than two users."""
        if self.suppressed:
            return float("nan")
        return self.sums.standard_error()


RATIO_OF_SUMS = "ratio of sums over users"  # estimand of metrics that are no average


def estimate(sample: Sample, metric: Metric, estimator: Estimator) -> Estimate:
    """Compute the estimate of `metric` by `estimator` from a weighted sample of ranked positives."""
    estimator.check(metric, is_probability=sample.is_probability, n_relevant=sample.n_relevant_kind)
    return build_estimate(
        compute_independent_sums(sample, metric, estimator),
        metric,
        estimator,
        SampleSize.of(sample),
        is_probability=sample.is_probability,
        n_relevant=sample.n_relevant_kind,
    )


def compute_independent_sums(sample: Sample, metric: Metric, estimator: Estimator) -> UserSums:
    """Compute the sums of `metric` by `estimator` over independent units: users, not their queries."""
    sums = estimator.sums(sample, metric)
    if sample.ranked.cluster is None:
        return sums
    return sums.by_cluster(sample.ranked.cluster)


def build_estimate(
    sums: UserSums | MergedSums,
    metric: Metric,
    estimator: Estimator,
    size: SampleSize,
    *,
    is_probability: bool,
    n_relevant: NRelevant,
    list_notes: Sequence[Note] = (),
) -> Estimate:
    """Build an estimate with its guarantee and notes from sums over users."""
    # Weights cancel where no user has more than one positive, unless they are summed over users.
    one_positive_each = size.positives_per_user.size == 2 and not metric.is_ratio_of_sums
    notes = list(as_notes(estimator.notes(one_positive_each=one_positive_each, n_relevant=n_relevant)))
    if metric.is_ratio_of_sums:
        notes.append(Note.of("ratio_of_sums"))
    if sums.n_undefined:
        notes.append(Note.of("undefined_users", n=sums.n_undefined, unit=size.unit))
    if size.n_without_propensity:
        notes.append(Note.of("no_propensity", n=size.n_without_propensity))
    if isinstance(sums, UserSums) and sums.propensity_influence is not None:
        notes.append(Note.of("fitted_weights"))
    if np.isnan(sums.value()):
        notes.append(Note.of("undefined"))
    elif sums.n_users == 1:
        notes.append(Note.of("one_user"))
    estimand = estimator.estimand
    if metric.is_ratio_of_sums:
        estimand = RATIO_OF_SUMS
    return Estimate(
        metric=metric.label,
        estimator=estimator.label,
        sums=sums,
        n_positives=size.n_positives,
        claim=claim(metric, estimator, is_probability=is_probability, n_relevant=n_relevant),
        notes=(*notes, *list_notes),
        list_notes=tuple(list_notes),
        estimand=estimand,
        weighted=estimator.weighted,
        can_exceed_range=estimator.can_exceed_range,
    )
