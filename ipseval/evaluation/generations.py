"""Evaluation of repeated generations: several recommendation lists of each user, as language models give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtri

from ipseval.data.splits import Split
from ipseval.data.splits.split import check_split
from ipseval.errors import InputError
from ipseval.estimators import Claim, Estimate, Sample, UserSums, claim
from ipseval.estimators.labels import AOA
from ipseval.evaluation._generated_lists import (
    REASONS,
    GeneratedEntries,
    GeneratedLists,
    PromptItems,
    encode_generations,
)
from ipseval.evaluation.request import describe_request_of_metric
from ipseval.inference import compare
from ipseval.inference.comparisons import Correction
from ipseval.inference.intervals import Interval
from ipseval.metrics import Metric
from ipseval.metrics.labels import find_map_labels, resolve_metrics
from ipseval.ranking import rank_positives
from ipseval.ranking.lists import ListEntries
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Notes, Table
from ipseval.utils.checks import as_list, check_choice, check_fraction, check_models, check_type
from ipseval.utils.ids import is_member
from ipseval.utils.notes import Note
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import FloatArray, IntArray

METRICS = ("recall@10", "mean_dcg@10")

SHARE = "share of entries"
TARGET_IN_PROMPT = "target in prompt"
MIN_USERS_WITH_VALUES = 10  # below it, intervals cover less than their level
FRAME_COLUMNS = [
    *("model", "metric", "estimate", "std_error", "ci_low", "ci_high"),
    *("variance_between", "variance_within", "generation_error", "n_users", "n_lists", "flag"),
]
RATE_COLUMNS = ["model", "rate", "estimate", "std_error", "ci_low", "ci_high", "count", "of", "flag"]
Key = tuple[str, str, str]


@dataclass(frozen=True)
class VarianceParts:
    """The variance of a metric between users, and between the generations of one user.

    Attributes
    ----------
    between : float
        Variance of the expected values of users; NaN without users that have two generations.
    within : float
        Mean over users of the variance between generations of one user; NaN as above.
    generation_error : float
        Standard deviation of the estimate over repeated generations for the same users; NaN as above.
    """

    between: float
    within: float
    generation_error: float


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class GenerationsEvaluation(Result):
    """Evaluation of recommenders that generate several lists for each user, as `evaluate_generations` returns it.

    Parameters
    ----------
    estimates : dict
        (recommender, metric, "aoa") -> Estimate, the mean over users of the mean over their generations.
    parts : dict
        The same keys -> variance between users and within users.
    rate_estimates : dict
        (recommender, rate, "share of entries") -> Estimate of a rate.
    intervals : dict
        The keys of `estimates` and of `rate_estimates` -> Interval.
    n_lists : dict
        Recommender -> number of its generated lists.
    confidence_level : float, default 0.95
        Level of the intervals.
    prompt_share : float or None, default None
        Mean share of the catalogue that the prompts showed; None if `prompt_items` was not passed.

    See Also
    --------
    evaluate_generations : Evaluate generated lists.

    Examples
    --------
    Two users with two lists each; "e" is an item that does not exist:

    >>> import pandas as pd
    >>> from ipseval import Split
    >>> split = Split.from_frames(
    ...     pd.DataFrame({"user": ["ann", "ben"], "item": ["a", "a"]}),
    ...     pd.DataFrame({"user": ["ann", "ben"], "item": ["b", "c"]}),
    ...     items=["a", "b", "c", "d"],
    ... )
    >>> lists = {"ann": [["b", "c"], ["d", "b"]], "ben": [["d", "c"], ["d", "e"]]}
    >>> result = evaluate_generations({"llm": lists}, split, metrics=["recall@2"])
    >>> result.frame[["model", "metric", "estimate", "n_users", "n_lists"]]
      model    metric  estimate  n_users  n_lists
    0   llm  recall@2      0.75        2        4
    >>> result.rates[["rate", "count", "of"]]
           rate  count  of
    0   unknown      1   8
    1      seen      0   8
    2  repeated      0   8
    """

    estimates: dict[Key, Estimate]
    parts: dict[Key, VarianceParts]
    rate_estimates: dict[Key, Estimate]
    intervals: dict[Key, Interval]
    n_lists: dict[str, int]
    confidence_level: float = 0.95
    prompt_share: float | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each recommender and metric.

        estimate, std_error, ci_low and ci_high; variance_between users and variance_within users (between the
        generations of one user); generation_error, the standard deviation of the estimate over repeated
        generations for the same users; n_users, n_lists; flag, the reason why the interval is unreliable, else "".
        """
        rows = []
        for key, estimate in self.estimates.items():
            model, metric, _ = key
            interval = self.intervals[key]
            parts = self.parts[key]
            row = (
                *(model, metric, estimate.value, interval.std_error, interval.low, interval.high),
                *(parts.between, parts.within, parts.generation_error),
                *(estimate.sums.n_users, self.n_lists[model], interval.note),
            )
            rows.append(row)
        return pd.DataFrame(rows, columns=FRAME_COLUMNS)

    @property
    def rates(self) -> pd.DataFrame:
        """One row for each recommender and rate, with its interval over users.

        Shares of the entries of all lists, each with one reason: "unknown" items, which the split does not have;
        items "not in prompt", which it did not show; items "seen" in training; and items "repeated" in their list.
        With `prompt_items`, "target in prompt" is the share of the test positives that the prompts showed. count and
        of are the numbers of entries or positives.
        """
        rows = []
        for key, estimate in self.rate_estimates.items():
            model, rate, _ = key
            interval = self.intervals[key]
            sums = estimate.user_sums
            row = (
                *(model, rate, estimate.value, interval.std_error, interval.low, interval.high),
                *(int(sums.numerator.sum()), int(sums.denominator.sum()), interval.note),
            )
            rows.append(row)
        return pd.DataFrame(rows, columns=RATE_COLUMNS)

    def compare(self, reference: str | None = None, *, correction: Correction = "holm") -> pd.DataFrame:
        """Compare recommenders by paired differences on the same users.

        Parameters
        ----------
        reference : str, optional
            Recommender that the others are compared with. Default: all pairs.
        correction : {"holm", "bh", "bonferroni"} or None, default "holm"
            Adjustment of the p-values.

        Returns
        -------
        DataFrame
            Columns as in `ipseval.Evaluation.compare`.
        """
        return compare(
            self.estimates,
            reference=reference,
            correction=correction,
            confidence_level=self.confidence_level,
        )

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: the estimates with their parts, and the rates.

        Parameters
        ----------
        digits : int, default 2
            Significant digits of the standard errors.
        page : bool, default False
            Accepted as in other results; the report is the same.

        Returns
        -------
        Tables
            Parts of the report, as every format prints them.
        """
        places = f".{digits + 1}f"
        values = self.frame.rename(
            columns={
                "model": "recommender",
                "estimate": "mean",
                "ci_low": "mean_low",
                "ci_high": "mean_high",
                "variance_between": "variance between users",
                "variance_within": "variance within users",
                "generation_error": "error of generations",
                "n_users": "users",
                "n_lists": "lists",
            }
        )
        rates = self.rates.rename(
            columns={
                "model": "recommender",
                "estimate": "share",
                "ci_low": "share_low",
                "ci_high": "share_high",
            }
        )
        notes = []
        metric_notes: dict[Note, None] = {}
        for estimate in self.estimates.values():
            metric_notes |= dict.fromkeys(estimate.notes)
        for note in metric_notes:
            text = str(note)
            notes.append(f"{text[:1].upper()}{text[1:]}.")
        for frame in (values, rates):
            for row in frame[frame["flag"] != ""].itertuples(index=False):
                notes.append(f"{row[0]}, {row[1]}: {row[-1]}.")
        if self.prompt_share is not None:
            notes.append(
                f"The prompts showed {self.prompt_share:.2%} of the catalogue on average, which is the expected share "
                "of targets shown by prompts that do not depend on the targets."
            )
        printed_values = values.drop(columns=["std_error", "flag"])
        printed_rates = rates.drop(columns=["std_error", "flag"])
        level = f"{self.confidence_level:.4g}"
        return Tables(
            summary=(
                f"Repeated generations: means over users and generations, with {level} intervals over users",
            ),
            parts=(
                Table.from_frame(printed_values, "metrics", formats=places, n_keys=2),
                Table.from_frame(printed_rates, "entries of the lists", formats=places, n_keys=2),
                Notes(tuple(notes)),
            ),
        )


@public_function
def evaluate_generations(
    models: Mapping[str, GeneratedLists],
    split: Split,
    *,
    metrics: Iterable[str | Metric] = METRICS,
    prompt_items: Mapping[Any, Sequence[object]] | None = None,
    invalid: Literal["keep", "drop"] = "keep",
    confidence_level: float = 0.95,
) -> GenerationsEvaluation:
    """Evaluate recommenders that generate a different list each time, such as language models.

    Parameters
    ----------
    models : mapping
        Name -> {user: [list, …]}, the generated lists of each user, or [{user: list}, …], one mapping for each
        run. A list holds item ids, best first. Entries that are not item ids of the split, such as invented
        titles, are counted. Pass an empty list where a generation could not be parsed; it counts as a miss.
        All recommenders need lists of the same users; users may have different numbers of lists.
    split : Split
        Test positives of the users, and training interactions, which are not recommended again.
    metrics : labels or objects, default ("recall@10", "mean_dcg@10")
        Labels as in `ipseval.metric`, or metrics. Metrics that are a ratio of sums or a root are refused.
    prompt_items : {user: [item, …]}, optional
        Items that the prompt of each user showed as candidates. Entries that were not shown are counted, and so
        are the test positives that were shown. A positive that was not shown stays a miss.
    invalid : {"keep", "drop"}, default "keep"
        Whether invalid entries keep their positions, as in the list that a user would see,
        or are removed, so that the entries below move up.
    confidence_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    GenerationsEvaluation
        `frame` has a row for each recommender and metric, with the variance between and within users; `rates` has
        the shares of invalid entries.

    Raises
    ------
    InputError
        For users that are not in the split, recommenders with lists of different users, and lists without any
        item of the split.

    See Also
    --------
    ipseval.evaluate : Evaluate one list of each user, `Lists` of other forms, and scores.
    ipseval.Lists : One list of each user, from frames, arrays and files.

    Notes
    -----
    With v_ug the metric of generation g of user u, G_u their number and m_u their mean, the estimate is the mean of
    m_u over users, and SE² = Σ_u (m_u − mean)²/(n(n − 1)). Users are the independent units: SE² contains the
    variance within users, so that more generations of the same users reduce only a part of it. With s²_u the variance
    of v_ug within user u,

    * variance_within is the mean of s²_u over users with at least two generations,
    * variance_between is the variance of m_u minus the mean of s²_u/G_u; it is unbiased, and can be negative if users
      hardly differ,
    * generation_error is the root of Σ_u s²_u/G_u/n², with variance_within for users with one generation.

    With G generations of each user, SE² ≈ (variance_between + variance_within/G)/n. The parts take the generations of a
    user as independent, given the user.

    Intervals of metrics and rates in [0, 1] are computed on the logit scale, logit⁻¹(logit(R) ∓ z SE/(R(1 − R))).
    At R = 0 the upper end is 1 − (α/2)^(1/n) [1]_, because R is at most the share of users with a value above 0. Fewer
    than 10 users with a value above 0, or below 1, are a flag.

    References
    ----------
    .. [1] Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
       Biometrika 26(4), 1934, doi:10.1093/biomet/26.4.404

    Examples
    --------
    Two users with two lists each. Ann's target "b" is in both of her lists, Ben's target "c" in one. One of eight
    entries is an item that does not exist:

    >>> split = Split.from_frames(
    ...     pd.DataFrame({"user": ["ann", "ben"], "item": ["a", "a"]}),
    ...     pd.DataFrame({"user": ["ann", "ben"], "item": ["b", "c"]}),
    ...     items=["a", "b", "c", "d"],
    ... )
    >>> lists = {"ann": [["b", "c"], ["d", "b"]], "ben": [["d", "c"], ["d", "e"]]}
    >>> result = evaluate_generations({"llm": lists}, split, metrics=["recall@2"])
    >>> result.frame[["estimate", "variance_between", "variance_within"]].round(3).values.tolist()
    [[0.75, 0.0, 0.25]]
    >>> result.rates[["rate", "count", "of"]].values.tolist()
    [['unknown', 1, 8], ['seen', 0, 8], ['repeated', 0, 8]]
    """
    check_models(models, "models", "set of generated lists")
    check_split(split)
    check_choice("invalid", invalid, ("keep", "drop"))
    check_fraction("confidence_level", confidence_level)
    labels = as_list(metrics, "metrics")
    metric_objects = resolve_metrics(labels)
    map_labels = find_map_labels(labels)
    _refuse_ratios(metric_objects)
    prompt = None
    if prompt_items is not None:
        check_type("prompt_items", prompt_items, Mapping)
        prompt = PromptItems.from_mapping(prompt_items, split)

    entries_by_model = {}
    for name, generations in models.items():
        entries_by_model[name] = encode_generations(name, generations, split, prompt)
    _check_same_users(entries_by_model)
    users = next(iter(entries_by_model.values())).users
    test_users = np.flatnonzero(split.test.activity[users] > 0)
    if not test_users.size:
        raise InputError("the lists must be of users with test positives; none of their users has any.")

    estimates: dict[Key, Estimate] = {}
    parts: dict[Key, VarianceParts] = {}
    rate_estimates: dict[Key, Estimate] = {}
    intervals: dict[Key, Interval] = {}
    n_lists = {}
    unit_metrics = {metric.label for metric in metric_objects if metric.value_range == (0.0, 1.0)}
    for name, entries in entries_by_model.items():
        n_lists[name] = int(entries.n_runs[test_users].sum())
        values_by_metric = _compute_values(entries, split, metric_objects, is_kept=invalid == "keep")
        for metric in metric_objects:
            key = (name, metric.label, AOA)
            values = values_by_metric[metric.label][:, test_users]
            estimate = estimate_mean(values, users[test_users], metric, n_lists[name])
            estimates[key] = replace(estimate, notes=describe_request_of_metric(metric, map_labels))
            parts[key] = compute_variance_parts(values)
        rate_estimates |= _estimate_rates(name, entries, split, prompt)

    for key, estimate in (estimates | rate_estimates).items():
        is_unit = key in rate_estimates or key[1] in unit_metrics
        intervals[key] = compute_interval(estimate, is_unit=is_unit, confidence_level=confidence_level)
    prompt_share = None
    if prompt is not None:
        prompt_share = float(_compute_prompt_share(prompt, split, users[test_users]).mean())
    return GenerationsEvaluation(
        estimates=estimates,
        parts=parts,
        rate_estimates=rate_estimates,
        intervals=intervals,
        n_lists=n_lists,
        confidence_level=confidence_level,
        prompt_share=prompt_share,
    )


def _refuse_ratios(metrics: Sequence[Metric]) -> None:
    """Raise `InputError` for metrics that are not a mean over users."""
    for metric in metrics:
        if metric.is_ratio_of_sums or metric.root:
            raise InputError(
                f"{metric.label} must be a mean over users here; it is a ratio of sums or a root. Evaluate each run by "
                "ipseval.evaluate."
            )


def _check_same_users(entries_by_model: Mapping[str, GeneratedEntries]) -> None:
    """Raise `InputError` for recommenders with lists of different users."""
    first_name = next(iter(entries_by_model))
    first_users = entries_by_model[first_name].users
    for name, entries in entries_by_model.items():
        if not np.array_equal(entries.users, first_users):
            raise InputError(
                f"{name} and {first_name} must have lists of the same users; {name} has {entries.users.size:,} users, "
                f"{first_name} {first_users.size:,}, and {np.intersect1d(entries.users, first_users).size:,} are in "
                "both. Pass [[]] for users without a usable list."
            )


def _compute_values(
    entries: GeneratedEntries, split: Split, metrics: Sequence[Metric], *, is_kept: bool
) -> dict[str, FloatArray]:
    """Return metric -> its value of each generation of each user, (n_runs, n_users); NaN where there is none."""
    n_runs = int(entries.n_runs.max())
    depth = max(metric.cutoff or 1 for metric in metrics)
    values: dict[str, FloatArray] = {}
    for metric in metrics:
        values[metric.label] = np.full((n_runs, entries.users.size), np.nan)
    for run in range(n_runs):
        is_entry = (entries.run == run) & (entries.is_valid | is_kept)
        lists = ListEntries(
            user=entries.user[is_entry],
            item=np.where(entries.is_valid, entries.item, -1)[is_entry],
            order=entries.position[is_entry],
            seen=np.zeros(int(is_entry.sum()), dtype=bool),
            unknown="candidate",
        )
        ranked = rank_positives(lists, split).pad_lists(depth)
        sample = Sample(ranked)
        has_run = is_member(ranked.users, entries.users[entries.n_runs > run])
        places = np.searchsorted(entries.users, ranked.users[has_run])
        for metric in metrics:
            values[metric.label][run, places] = sample.user_values(metric, weighted=False)[has_run]
    return values


def estimate_mean(values: FloatArray, users: IntArray, metric: Metric, n_lists: int) -> Estimate:
    """Return the mean over users of the mean over their generations, from values (n_runs, n_users)."""
    return Estimate(
        metric=metric.label,
        estimator=AOA,
        sums=UserSums.from_values(users, _mean_of_generations(values)),
        n_positives=n_lists,
        claim=claim(metric, AOA),
    )


def _mean_of_generations(values: FloatArray) -> FloatArray:
    """Return the mean over the generations of each user, (n_users,); NaN where the metric is undefined."""
    n_runs = (~np.isnan(values)).sum(axis=0)
    means = np.full(n_runs.size, np.nan)
    has_value = n_runs > 0
    means[has_value] = np.nansum(values, axis=0)[has_value] / n_runs[has_value]
    return means


def compute_variance_parts(values: FloatArray) -> VarianceParts:
    """Return the variance between and within users of values (n_runs, n_users), which are NaN where there is none."""
    n_runs = (~np.isnan(values)).sum(axis=0)
    values = values[:, n_runs > 0]
    n_runs = n_runs[n_runs > 0]
    has_variance = n_runs > 1
    if not has_variance.any() or n_runs.size < 2:
        return VarianceParts(float("nan"), float("nan"), float("nan"))
    means = _mean_of_generations(values)
    squares = np.nansum((values - means) ** 2, axis=0)
    within = float((squares[has_variance] / (n_runs[has_variance] - 1)).mean())
    variance = np.full(n_runs.size, within)
    variance[has_variance] = squares[has_variance] / (n_runs[has_variance] - 1)
    mean_error = variance / n_runs
    return VarianceParts(
        between=float(means.var(ddof=1) - mean_error.mean()),
        within=within,
        generation_error=float(np.sqrt(mean_error.sum()) / n_runs.size),
    )


def _estimate_rates(
    name: str, entries: GeneratedEntries, split: Split, prompt: PromptItems | None
) -> dict[Key, Estimate]:
    """Return the shares of invalid entries, and the share of targets that the prompts showed."""
    n_entries = entries.count_by_user(np.ones(entries.item.size, dtype=bool))
    estimates: dict[Key, Estimate] = {}
    for number, reason in enumerate(REASONS):
        if reason == "not in prompt" and prompt is None:
            continue
        counts = entries.count_by_user(entries.reason == number)
        estimates[name, reason, SHARE] = _estimate_rate(reason, entries.users, counts, n_entries)
    if prompt is not None:
        is_shown = is_member(split.test.pair_key, prompt.keys)
        n_shown = np.bincount(split.test.user, is_shown, split.n_users)[entries.users].astype(np.int64)
        n_targets = split.test.activity[entries.users]
        estimates[name, TARGET_IN_PROMPT, SHARE] = _estimate_rate(
            TARGET_IN_PROMPT, entries.users, n_shown, n_targets
        )
    return estimates


def _estimate_rate(label: str, users: IntArray, counts: IntArray, totals: IntArray) -> Estimate:
    """Return Σ counts/Σ totals over users with a total above 0."""
    has_total = totals > 0
    sums = UserSums.from_values(
        users[has_total], counts[has_total].astype(float), totals[has_total].astype(float)
    )
    return Estimate(
        metric=label,
        estimator=SHARE,
        sums=sums,
        n_positives=int(totals.sum()),
        claim=Claim("no guarantee", "it describes the lists"),
    )


def _compute_prompt_share(prompt: PromptItems, split: Split, users: IntArray) -> FloatArray:
    """Return the share of the candidates of each user that its prompt showed."""
    n_seen = np.bincount(split.excluded_pairs.user, minlength=split.n_users)
    is_seen = is_member(prompt.keys, split.excluded_pairs.pair_key)
    n_shown_seen = np.bincount(prompt.keys[is_seen] // split.n_items, minlength=split.n_users)
    n_candidates = split.n_items - n_seen
    return (prompt.n_by_user - n_shown_seen)[users] / np.maximum(n_candidates[users], 1)


def compute_interval(estimate: Estimate, *, is_unit: bool, confidence_level: float) -> Interval:
    """Return the interval of an estimate over users: on the logit scale for values in [0, 1]."""
    value = estimate.value
    error = estimate.standard_error
    half_width = float(ndtri((1 + confidence_level) / 2)) * error
    if not is_unit:
        return Interval(error, value - half_width, value + half_width)
    notes = _flag_few_users(estimate)
    n_users = estimate.sums.n_users
    limit = ((1 - confidence_level) / 2) ** (1 / max(n_users, 1))
    if value <= 0:
        return Interval(error, 0.0, 1 - limit, notes)
    if value >= 1:
        return Interval(error, limit, 1.0, notes)
    scaled_width = half_width / (value * (1 - value))
    return Interval(
        error, float(expit(logit(value) - scaled_width)), float(expit(logit(value) + scaled_width)), notes
    )


def _flag_few_users(estimate: Estimate) -> tuple[Note, ...]:
    """Return a flag if fewer than 10 users have a value above 0, or below 1."""
    sums = estimate.user_sums
    n_above = int((sums.numerator > 0).sum())
    n_below = int((sums.numerator < sums.denominator).sum())
    if min(n_above, n_below) >= MIN_USERS_WITH_VALUES:
        return ()
    if n_above <= n_below:
        return (Note.create("few_users_above_zero", n=n_above, limit=MIN_USERS_WITH_VALUES),)
    return (Note.create("few_users_below_one", n=n_below, limit=MIN_USERS_WITH_VALUES),)
