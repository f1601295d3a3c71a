"""Estimate: a value with everything that is needed to judge it; claims and cards of metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipseval.errors import InputError
from ipseval.estimators.base import Estimator
from ipseval.estimators.guarantees import Claim, NRelevant
from ipseval.estimators.labels import ESTIMATORS_SHOWN, resolve_estimator
from ipseval.estimators.sample import Extent, Sample
from ipseval.estimators.user_sums import MergedSums, UserSums
from ipseval.metrics import Metric, metric
from ipseval.metrics.rating_metrics import RATING_METRICS, RatingMetric, rating_metric
from ipseval.utils.checks import counted
from ipseval.utils.types import FloatArray

TIE_WORDS = {
    "mean": "mean rank, above + tied/2 + 1",
    "expected": "exact expectation over random tie breaking",
}


def claim(
    metric: Metric,
    estimator: str | Estimator,
    *,
    is_probability: bool = False,
    n_relevant: NRelevant = "absent",
) -> Claim:
    """Return what is claimed of an estimator for `metric`.

    Parameters
    ----------
    estimator : label or Estimator
    is_probability : bool
        Whether P is on the scale of probabilities, or known up to a factor only.
    n_relevant : {"known", "estimated", "absent"}
        What is known of s_u.

    Examples
    --------
    >>> str(claim(metric("recall@10"), "snips-pooled"))
    'consistent given relative propensities, for the average over all relevant pairs'
    """
    estimator = resolve_estimator(estimator)
    # Contributions that are themselves estimated, from sampled ranks, carry their bias into weighted sums.
    if estimator.weighted and metric.approximate:
        return Claim("no claim", metric.approximate)
    return estimator.claim(metric, is_probability=is_probability, n_relevant=n_relevant)


def card(label: str | Metric) -> str:
    """Return the card of a metric: formula, denominators, discount, ties, users left out, claims.

    Claims are those with P on the scale of probabilities and s_u known; each result states its own.

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
        label = rating_metric(label) if label in RATING_METRICS else metric(label)
    words = label.definition
    lines = [label.label, f"  formula      {words.formula}", f"  denominator  {words.denominator}"]
    if not isinstance(label, RatingMetric):
        lines += [
            f"  discount     {words.discount}",
            f"  cutoff       {'none: the whole ranking' if label.cutoff is None else f'k = {label.cutoff}'}",
            f"  ties         {TIE_WORDS[label.default_ties]} (default)",
        ]
    empty = "the constant of its formula" if label.counts_unobserved else "0"
    lines += [
        f"  left out     {words.undefined}; ips counts a user without positives as {empty}",
        f"  with weights {words.plug_in}",
        "  claims",
    ]
    for name in ESTIMATORS_SHOWN:
        text = claim(label, name, is_probability=True, n_relevant="known")
        lines.append(f"    {name:<13}{text}")
    return "\n".join(lines)


FITTED = "the error holds that of the fitted weights"


@dataclass(frozen=True, eq=False)
class Estimate:
    """One estimator of one metric for one recommender.

    Attributes
    ----------
    metric, estimator : str
        Labels.
    sums : UserSums or MergedSums
        Per-user sums, or their moments; everything else follows from them.
    n_positives : int
        Positives that entered.
    claim : Claim
        What is claimed of the number, with its condition.
    notes : tuple of str
        What a reader must know about this number.
    of_lists : tuple of str
        Which of these notes are about users without a list and about short lists.
    flag : str
        Why it should not be trusted, in words; "" where nothing is wrong.
    suppressed : bool
        True: value and standard error are NaN although the sums are there, for the reason in `flag`.
    estimand : {"mean over users", "mean over interactions"}
        What it estimates.
    """

    metric: str
    estimator: str
    sums: UserSums | MergedSums
    n_positives: int
    claim: Claim
    notes: tuple[str, ...] = ()
    flag: str = ""
    suppressed: bool = False
    of_lists: tuple[str, ...] = ()
    estimand: str = "mean over users"

    def __repr__(self) -> str:
        error = f" ± {self.standard_error:.4f}" if self.standard_error == self.standard_error else ""
        counts = f"{counted(self.sums.n_users, 'user')}, {counted(self.n_positives, 'positive')}"
        return f"Estimate({self.metric} by {self.estimator}: {self.value:.4f}{error}; {counts}; {self.claim})"

    @cached_property
    def value(self) -> float:
        """The estimate; NaN where it is undefined, with the reason in `notes`."""
        return float("nan") if self.suppressed else self.sums.value()

    @property
    def trust(self) -> str:
        """What a note says of the flag: that the estimate is suppressed, or only why it is flagged."""
        return f"suppressed: {self.flag}" if self.suppressed else self.flag

    @property
    def influence(self) -> FloatArray:
        """ψ_u of each user in `sums.users`, with mean 0, under known weights; see `UserSums.effects`."""
        return self.user_sums.influence()

    @property
    def user_sums(self) -> UserSums:
        """The sums of each user.

        Raises
        ------
        InputError
            When only moments of the users were kept.
        """
        if isinstance(self.sums, UserSums):
            return self.sums
        raise InputError(
            "this needs the values of each user, and only moments of the users were kept. Evaluate with "
            "per_user=True, or with ipseval.evaluate."
        )

    @cached_property
    def standard_error(self) -> float:
        """√(n/(n − 1) Σ effect²) over users (delta method); NaN with fewer than two users."""
        return float("nan") if self.suppressed else self.sums.standard_error()


def estimate(sample: Sample, metric: Metric, estimator: Estimator) -> Estimate:
    """Return the estimate of `metric` by `estimator` on a weighted sample of ranked positives."""
    estimator.check(metric, is_probability=sample.is_probability, n_relevant=sample.n_relevant_kind)
    return build_estimate(
        independent_sums(sample, metric, estimator),
        metric,
        estimator,
        Extent.of(sample),
        is_probability=sample.is_probability,
        n_relevant=sample.n_relevant_kind,
    )


def independent_sums(sample: Sample, metric: Metric, estimator: Estimator) -> UserSums:
    """Return the sums of `metric` by `estimator` over independent units: users, whatever their queries."""
    sums = estimator.sums(sample, metric)
    if sample.ranked.cluster is None:
        return sums
    return sums.by_cluster(sample.ranked.cluster)


def without_propensity_note(extent: Extent) -> str:
    """Return how many positives have no propensity, in words."""
    positives = counted(extent.n_without_propensity, "positive")
    return f"{positives} without a propensity left out of all averages, aoa too"


def build_estimate(
    sums: UserSums | MergedSums,
    metric: Metric,
    estimator: Estimator,
    extent: Extent,
    *,
    is_probability: bool,
    n_relevant: NRelevant,
    of_lists: Iterable[str] = (),
) -> Estimate:
    """Return the estimate that sums over users make, with its claim and what a reader must know of it."""
    one_positive_each = extent.positives_per_user.size == 2
    notes = list(estimator.notes(one_positive_each=one_positive_each, n_relevant=n_relevant))
    if sums.n_undefined:
        notes.append(f"{counted(sums.n_undefined, extent.unit)} left out: the metric is undefined for them")
    if extent.n_without_propensity:
        notes.append(without_propensity_note(extent))
    if isinstance(sums, UserSums) and sums.propensity_influence is not None:
        notes.append(FITTED)
    if np.isnan(sums.value()):
        notes.append("undefined, as no user has a defined value")
    elif sums.n_users == 1:
        notes.append("one user: no standard error")
    return Estimate(
        metric.label,
        estimator.label,
        sums,
        extent.n_positives,
        claim(metric, estimator, is_probability=is_probability, n_relevant=n_relevant),
        (*notes, *of_lists),
        of_lists=tuple(of_lists),
        estimand=estimator.estimand,
    )
