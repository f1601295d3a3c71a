"""Estimates with their standard error, guarantee, notes and flags; guarantees and cards of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ipseval.errors import InputError, PositivityWarning, PropensityError
from ipseval.estimators.base import Estimator
from ipseval.estimators.guarantees import Claim, NRelevant
from ipseval.estimators.labels import ESTIMATORS_SHOWN, resolve_estimator
from ipseval.estimators.sample import Sample, SampleSize
from ipseval.estimators.user_sums import MergedSums, UserSums
from ipseval.metrics import Metric, metric
from ipseval.metrics.base import describe_plug_in
from ipseval.metrics.rating_metrics import RATING_METRICS, RatingMetric, resolve_rating_metric
from ipseval.utils.checks import format_count, warn_user
from ipseval.utils.notes import Note, as_notes, create_suppression, join_notes
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import FloatArray

Key: TypeAlias = tuple[str, str, str]  # (model, metric, estimator)
Flags: TypeAlias = Mapping[tuple[str, str], tuple[Note, ...]]  # by (metric, estimator)

ROUNDING = 1e-9  # of an estimate at the end of the range of its metric

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
        snips-global nearly consistent given relative propensities, equally exposed users, and...
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
        f"  with weights {describe_plug_in(label)}",
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

    Examples
    --------
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> models = {"popular": world.example_models(split, rng=2)["popular"]}
    >>> evaluation = evaluate(models, split, metrics=["recall@10"], estimators=["aoa"])
    >>> estimate = evaluation.estimate("popular", "recall@10", "aoa")
    >>> estimate
    Estimate(recall@10 by aoa: 0.5993 ± 0.0289; 213 users, 362 positives; biased unless all propensities are equal)
    >>> round(estimate.value, 3), round(estimate.standard_error, 3)
    (0.599, 0.029)
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
        estimator.sums(sample, metric).by_cluster(sample.ranked.cluster),
        metric,
        estimator,
        SampleSize.from_sample(sample),
        is_probability=sample.is_probability,
        n_relevant=sample.n_relevant_kind,
    )


def build_estimate(
    sums: UserSums | MergedSums,
    metric: Metric,
    estimator: Estimator,
    size: SampleSize,
    *,
    is_probability: bool,
    n_relevant: NRelevant,
    list_notes: Sequence[Note] = (),
    metric_notes: Sequence[Note] = (),
) -> Estimate:
    """Build an estimate with its guarantee and notes from sums over users."""
    # Weights cancel where no user has more than one positive, unless they are summed over users.
    one_positive_each = size.users_by_n_positives.size == 2 and not metric.is_ratio_of_sums
    notes = list(as_notes(estimator.notes(one_positive_each=one_positive_each, n_relevant=n_relevant)))
    if metric.is_ratio_of_sums:
        notes.append(Note.create("ratio_of_sums"))
    if sums.n_undefined:
        notes.append(Note.create("undefined_users", n=sums.n_undefined, unit=size.unit))
    if size.n_without_propensity:
        notes.append(Note.create("no_propensity", n=size.n_without_propensity))
    if isinstance(sums, UserSums) and sums.propensity_influence is not None:
        notes.append(Note.create("fitted_weights"))
    if np.isnan(sums.value()):
        notes.append(Note.create("undefined"))
    elif sums.n_users == 1:
        notes.append(Note.create("one_user"))
    estimand = estimator.estimand
    if metric.is_ratio_of_sums:
        estimand = RATIO_OF_SUMS
    return Estimate(
        metric=metric.label,
        estimator=estimator.label,
        sums=sums,
        n_positives=size.n_positives,
        claim=claim(metric, estimator, is_probability=is_probability, n_relevant=n_relevant),
        notes=(*notes, *metric_notes, *list_notes),
        list_notes=tuple(list_notes),
        estimand=estimand,
        weighted=estimator.weighted,
        can_exceed_range=estimator.can_exceed_range,
    )


def apply_flags(
    estimates: Mapping[Key, Estimate], flags: Flags, metrics: Sequence[Metric], low_ess: str
) -> dict[Key, Estimate]:
    """Return the estimates with their flags, after the warning or error that `low_ess` requests.

    `low_ess` is "warn", "raise", "nan" (suppress flagged estimates) or "ignore". Unless it is "ignore", an
    estimate whose standard error exceeds the width of the range of its metric is flagged and suppressed, and an
    estimate beyond this range is flagged.
    """
    metrics_by_label = {metric.label: metric for metric in metrics}
    flagged_estimates = {}
    summaries: dict[Key, list[Note]] = {}
    for key, estimate in estimates.items():
        _, metric_label, estimator_label = key
        weight_flags = flags.get((metric_label, estimator_label), ())
        error_flags: tuple[Note, ...] = ()
        value_flags: tuple[Note, ...] = ()
        if low_ess != "ignore":
            error_flags = find_error_flags(metrics_by_label[metric_label], estimate.standard_error)
            if not error_flags:
                value_flags = find_value_flags(metrics_by_label[metric_label], estimate)
        all_flags = (*weight_flags, *error_flags, *value_flags)
        if all_flags:
            is_suppressed = bool(error_flags) or low_ess == "nan"
            estimate = replace(estimate, flags=all_flags, suppressed=is_suppressed)
        flagged_estimates[key] = estimate
        # The summary states a wide standard error without the numbers of one recommender.
        summaries[key] = [flag.generalize() for flag in all_flags]
    if low_ess in ("warn", "raise"):
        _warn_or_raise(summaries, low_ess)
    return flagged_estimates


def find_error_flags(metric: Metric, standard_error: float) -> tuple[Note, ...]:
    """Return a flag where a standard error exceeds the width of the range of the metric."""
    low, high = metric.value_range
    if not standard_error > high - low:
        return ()
    return (Note.create("wide_error", error=standard_error, metric=metric.label, low=low, high=high),)


def find_value_flags(metric: Metric, estimate: Estimate) -> tuple[Note, ...]:
    """Return a flag where a weighted estimate is beyond the range of the metric."""
    low, high = metric.value_range
    value = estimate.value
    if not estimate.weighted or not (value < low - ROUNDING or value > high + ROUNDING):
        return ()
    return (Note.create("value_beyond_range", value=value, metric=metric.label, low=low, high=high),)


def _warn_or_raise(flags_by_estimate: Mapping[Key, Sequence[Note]], low_ess: str) -> None:
    """Issue one warning or error with all flags, if there are any."""
    text = _summarize_flags(flags_by_estimate)
    if not text:
        return
    if low_ess == "raise":
        raise PropensityError(
            f"{text}.", advice="Clip the propensity, use a smaller γ, or pass {low_ess=warn}"
        )
    warn_user(text, PositivityWarning)


def _summarize_flags(flags_by_estimate: Mapping[Key, Sequence[Note]]) -> str:
    """Return every flag once, with its estimator, and with its metrics unless all metrics share it."""
    metrics_by_flag: dict[tuple[str, Note], list[str]] = {}
    metrics_by_estimator: dict[str, set[str]] = {}
    for (_, metric_label, estimator), flags in flags_by_estimate.items():
        metrics_by_estimator.setdefault(estimator, set()).add(metric_label)
        for flag in flags:
            metrics_by_flag.setdefault((estimator, flag), []).append(metric_label)

    texts = []
    for (estimator, flag), metrics in metrics_by_flag.items():
        distinct_metrics = list(dict.fromkeys(metrics))
        subject = estimator
        if set(distinct_metrics) != metrics_by_estimator[estimator]:
            subject = f"{', '.join(distinct_metrics)} by {estimator}"
        texts.append(f"{subject}: {flag}")
    return "; ".join(texts)
