"""Estimate: a value with everything that is needed to judge it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipseval._checks import counted
from ipseval._types import FloatArray, readonly
from ipseval.estimators._base import Estimator
from ipseval.estimators._card import claim
from ipseval.estimators._claims import Claim, NRelevant
from ipseval.estimators._sample import Sample
from ipseval.estimators._sums import UserSums
from ipseval.metrics import Metric


@dataclass(frozen=True, eq=False)
class Estimate:
    """One estimator of one metric for one recommender.

    Attributes
    ----------
    metric, estimator : str
        Labels.
    sums : UserSums
        Per-user sums; everything else follows from them.
    n_positives : int
        Positives that entered.
    claim : Claim
        What is claimed of the number, with its condition.
    notes : tuple of str
        What a reader must know about this number.
    flag : str
        Why it should not be trusted, in words; "" where nothing is wrong.
    suppressed : bool
        True: value and standard error are NaN although the sums are there, for the reason in `flag`.
    """

    metric: str
    estimator: str
    sums: UserSums
    n_positives: int
    claim: Claim
    notes: tuple[str, ...] = ()
    flag: str = ""
    suppressed: bool = False

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

    @cached_property
    def influence(self) -> FloatArray:
        """ψ_u of each user in `sums.users`, with mean 0."""
        return readonly(self.sums.influence())

    @cached_property
    def standard_error(self) -> float:
        """√(Σψ²/(n(n − 1))) over users (delta method); NaN with fewer than two users."""
        n = self.sums.n_users
        if n < 2 or self.suppressed:
            return float("nan")
        return float(np.sqrt(np.sum(self.influence**2) / (n * (n - 1.0))))


def estimate(sample: Sample, metric: Metric, estimator: Estimator) -> Estimate:
    """Return the estimate of `metric` by `estimator` on a weighted sample of ranked positives.

    Raises
    ------
    InputError
        When the estimator cannot estimate the metric on such a sample.
    """
    scale, kind = sample.is_probability, sample.n_relevant_kind
    estimator.check(metric, is_probability=scale, n_relevant=kind)
    sums = estimator.sums(sample, metric)
    one_each = bool((sample.ranked.counts == 1).all())
    return Estimate(
        metric.label,
        estimator.label,
        sums,
        len(sample.ranked),
        claim(metric, estimator, is_probability=scale, n_relevant=kind),
        notes(
            estimator,
            one_positive_each=one_each,
            n_relevant=kind,
            n_undefined=sums.n_undefined,
            n_without_propensity=sample.n_without_propensity,
            n_users=sums.n_users,
            defined=sums.n_users > 0 and sums.denominator.sum() != 0,
        ),
    )


def notes(
    estimator: Estimator,
    *,
    one_positive_each: bool,
    n_relevant: NRelevant,
    n_undefined: int,
    n_without_propensity: int,
    n_users: int,
    defined: bool,
) -> tuple[str, ...]:
    """Return what a reader of an estimate must know, in sentences."""
    said = list(estimator.notes(one_positive_each=one_positive_each, n_relevant=n_relevant))
    if n_undefined:
        said.append(f"{counted(n_undefined, 'user')} left out: the metric is undefined for them")
    if n_without_propensity:
        said.append(f"{counted(n_without_propensity, 'positive')} without a propensity left out")
    if not defined:
        said.append("undefined: no user has a defined value")
    elif n_users == 1:
        said.append("one user: no standard error")
    return tuple(said)
