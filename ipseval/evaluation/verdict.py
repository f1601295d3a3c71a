"""Verdicts: the conclusion on each metric as values; `verdict_text` writes the sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import pandas as pd

from ipseval.estimators import Estimator
from ipseval.estimators.labels import default_estimators, display_names
from ipseval.inference.comparisons import PairTests
from ipseval.inference.gamma_range import GammaRange
from ipseval.inference.weight_diagnostics import HIGH_CLIPPED_SHARE, WeightDiagnostics
from ipseval.metrics.rating_metrics import RATING_METRICS
from ipseval.propensity import Propensity
from ipseval.reporting.formatting import LEVEL
from ipseval.utils.notes import Note, join_notes

NAN = float("nan")
# The effective sample size of a weighted estimate is low below this share of the size with equal weights, or
# below this number.
LOW_ESS_SHARE = 0.3
LOW_ESS = 100.0


class Outcome(StrEnum):
    """The kinds of conclusion."""

    # No estimate is defined.
    UNDEFINED = "undefined"
    # Only one recommender has an estimate.
    SINGLE = "single"
    # Several recommenders share the first place with equal estimates.
    TIED = "tied"
    # Propensities are known by design, and the first is significantly better than all other recommenders.
    WINNER = "winner"
    # Propensities are known by design, and the test does not decide.
    NOT_SIGNIFICANT = "not significant"
    # The weights come from impressions or are known by design, and failed, are unreliable, few, or contradict AOA;
    # or they are unreliable, whatever their source, and AOA was not computed.
    NO_VERDICT = "no verdict"
    # All other cases, as where exposure was not measured: no recommender is named.
    NOT_IDENTIFIED = "not identified"


@dataclass(frozen=True)
class ModelRanking:
    """The ranking of the recommenders by one metric and estimator.

    Attributes
    ----------
    estimator : str
    ranked : tuple of str
        Recommenders with an estimate, the highest first; of an error such as "mae", the lowest first.
    top_group : tuple of str
        The highest, and the recommenders that do not differ from it significantly, in that order.
    p_value : float
        The largest adjusted p-value of the highest against the recommenders that it differs from; NaN where
        there are none.
    values : mapping
        Recommender -> estimate.
    tests : PairTests or None
        Tests of all pairs; None for a single recommender.
    """

    estimator: str
    ranked: tuple[str, ...]
    top_group: tuple[str, ...]
    p_value: float
    values: Mapping[str, float] = field(repr=False, default_factory=dict)
    tests: PairTests | None = field(repr=False, default=None)

    @classmethod
    def from_rows(
        cls, rows: pd.DataFrame, tests: PairTests | None, *, lowest_first: bool = False
    ) -> ModelRanking:
        """Rank the recommenders in the rows of one metric and estimator, the lowest first if the metric is an error."""
        values = dict(zip(rows["model"], rows["estimate"], strict=True))
        defined = []
        for model, value in values.items():
            if not math.isnan(value):
                defined.append(model)

        sign = 1 if lowest_first else -1
        ranked = tuple(sorted(defined, key=lambda model: sign * values[model]))
        if tests is None or not ranked:
            return cls(
                estimator=str(rows["estimator"].iloc[0]),
                ranked=ranked,
                top_group=ranked[:1],
                p_value=NAN,
                values=values,
                tests=tests,
            )
        differs_from_best = tests.is_significant(ranked, LEVEL)[0]
        top_group = []
        p_values = []
        for model, differs in zip(ranked, differs_from_best, strict=True):
            if differs:
                _, p_value = tests.get_difference_and_p_value(ranked[0], model)
                p_values.append(p_value)
            else:
                top_group.append(model)
        return cls(
            estimator=str(rows["estimator"].iloc[0]),
            ranked=ranked,
            top_group=tuple(top_group),
            p_value=max(p_values, default=NAN),
            values=values,
            tests=tests,
        )

    @property
    def order(self) -> tuple[str, ...]:
        """All recommenders, the highest first and those without an estimate last."""
        undefined = []
        for model in self.values:
            if model not in self.ranked:
                undefined.append(model)

        return (*self.ranked, *undefined)

    @property
    def highest(self) -> str:
        """The recommender that ranks first; "" where none is defined."""
        return next(iter(self.ranked), "")

    @property
    def second_highest(self) -> str:
        """The recommender that ranks second; "" where there is none."""
        if len(self.ranked) < 2:
            return ""
        return self.ranked[1]

    @property
    def closest_rival(self) -> str:
        """The recommender with which sentences compare the highest; "" where there is none.

        It is the best recommender that does not differ significantly from the highest, or else the second.
        """
        if len(self.top_group) > 1:
            return self.top_group[1]
        return self.second_highest

    @property
    def closest_p_value(self) -> float:
        """The adjusted p-value of the highest against its closest rival; NaN where it was not tested."""
        _, p_value = self.difference(self.highest, self.closest_rival)
        return p_value

    @property
    def tied(self) -> tuple[str, ...]:
        """The recommenders that share the first place with equal estimates; empty where one is alone."""
        equal = []
        for model in self.ranked[1:]:
            if self.difference(self.highest, model)[0] == 0:
                equal.append(model)

        if not equal:
            return ()
        return (self.highest, *equal)

    def difference(self, model: str, reference: str) -> tuple[float, float]:
        """Return R(model) − R(reference) and its adjusted p-value; NaN where it was not tested."""
        if self.tests is None:
            return NAN, NAN
        return self.tests.get_difference_and_p_value(model, reference)


@dataclass(frozen=True)
class FirstPlace:
    """The first place of a ranking.

    Attributes
    ----------
    models : tuple of str
        The recommender that ranks first; several where they are tied.
    rival : str
        The recommender that it is compared with, as in `ModelRanking.closest_rival`.
    p_value : float
        The adjusted p-value of their difference.
    """

    models: tuple[str, ...]
    rival: str
    p_value: float

    @classmethod
    def from_ranking(cls, ranking: ModelRanking) -> FirstPlace:
        """Return the first place of a ranking with two recommenders or more."""
        return cls(ranking.tied or (ranking.highest,), ranking.closest_rival, ranking.closest_p_value)

    @property
    def is_significant(self) -> bool:
        """Whether the difference from the rival is significant."""
        return self.p_value < LEVEL

    @property
    def significant_model(self) -> str:
        """The recommender that ranks first significantly; "" without one."""
        if not self.is_significant:
            return ""
        return self.models[0]


@dataclass(frozen=True)
class WeightSupport:
    """The reliability of the estimates of a weighted estimator.

    Attributes
    ----------
    basis : {"design", "exposure", "logged", "fitted", "assumed"}
        Source of the propensities.
    gamma : float or None
        γ of a power law; None for other propensities.
    ess, ess_equal : float
        Effective sample size with these weights, and with equal weights.
    ess_unweighted : float
        Effective sample size of the unweighted estimator of the verdict, which differs from `ess_equal` if the two
        estimators have different estimands; NaN without one.
    n_interactions : int
        Held-out interactions that have a weight.
    flag : str
        Why the estimates are unreliable; "" where they are not.
    clipped_share : float
        Share of the weight that clipping removed, in [0, 1).
    failing_models : tuple of str
        Recommenders whose listed items the propensities do not fit, by the sanity check.
    """

    basis: str
    gamma: float | None
    ess: float
    ess_equal: float
    ess_unweighted: float
    n_interactions: int
    flag: str = ""
    clipped_share: float = 0.0
    failing_models: tuple[str, ...] = ()

    @property
    def quality(self) -> str:
        """One of "failed", "unreliable", "clipped", "low" and "sufficient"."""
        if self.failing_models:
            return "failed"
        if self.flag:
            return "unreliable"
        if self.clipped_share > HIGH_CLIPPED_SHARE:
            return "clipped"
        is_low = self.ess < LOW_ESS_SHARE * self.ess_equal or self.ess < LOW_ESS < self.ess_equal
        if is_low:
            return "low"
        return "sufficient"


@dataclass(frozen=True)
class Verdict:
    """The conclusion on one metric.

    Attributes
    ----------
    metric : str
    rankings : mapping
        Estimator -> ranking of the recommenders.
    unweighted, weighted : str
        The labels of the unweighted estimator (AOA) and of the weighted one; "" where there is none.
    outcome : Outcome
        As `decide_outcome` returns it.
    support : WeightSupport or None
        Reliability of the weighted estimator; None without one.
    detectable : float
        The smallest difference of the two highest that the test finds with 80% power; NaN where it is not
        computed.
    gamma_range : GammaRange or None
        Range of γ in which the first by AOA stays first.
    has_guarantee : bool
        Whether the metric has a statistical guarantee after weighting.
    is_consistent : bool
        Whether the weighted estimates are at least nearly consistent with the true propensities.
    needs_equal_exposure : bool
        Whether the weighted estimates need equally exposed users; without a weighted estimator, whether those of the
        range of γ do.
    is_weighted_within_users : bool
        Whether the weights of the interactions of a user change the value of the user. If not, they change at
        most how much each user counts, so that agreement under other weights does not confirm a ranking.
    first_among_warm : FirstPlace or None
        The first place by the primary estimator among users with training interactions, where another
        recommender ranks first significantly, or one does among all users and none among these, or vice versa.
    """

    metric: str
    rankings: Mapping[str, ModelRanking] = field(repr=False)
    unweighted: str = ""
    weighted: str = ""
    outcome: Outcome = Outcome.NOT_IDENTIFIED
    support: WeightSupport | None = None
    detectable: float = NAN
    gamma_range: GammaRange | None = None
    has_guarantee: bool = True
    is_consistent: bool = True
    needs_equal_exposure: bool = False
    is_weighted_within_users: bool = True
    first_among_warm: FirstPlace | None = None

    @property
    def leader(self) -> str | None:
        """The winner, which the weighted estimates rank first; None for every other outcome."""
        if self.outcome != Outcome.WINNER:
            return None
        return self.highest_by_weights

    @property
    def primary_estimator(self) -> str:
        """The estimator of the conclusion: the weighted one by design, else AOA where there is AOA."""
        if self.outcome in (Outcome.WINNER, Outcome.NOT_SIGNIFICANT):
            return self.weighted
        return self.unweighted or self.weighted

    @property
    def primary_ranking(self) -> ModelRanking:
        """The ranking by the primary estimator."""
        return self.rankings[self.primary_estimator]

    @property
    def highest_model(self) -> str:
        """The recommender that ranks first by the primary estimator; "" where no estimate is defined."""
        return self.primary_ranking.highest

    @property
    def highest_unweighted(self) -> str:
        """The recommender that ranks first by the unweighted estimator; "" without one."""
        if not self.unweighted:
            return ""
        return self.rankings[self.unweighted].highest

    @property
    def highest_by_weights(self) -> str:
        """The recommender that ranks first by the weighted estimator; "" without one, and if the weights failed."""
        if not self.weighted or self.has_failed_weights:
            return ""
        return self.rankings[self.weighted].highest

    @property
    def has_failed_weights(self) -> bool:
        """Whether the propensities do not fit the items that some recommender lists."""
        return self.support is not None and self.support.quality == "failed"

    @property
    def rests_on_unreliable_weights(self) -> bool:
        """Whether the weighted estimates are unreliable, and AOA was not computed."""
        return self.support is not None and not self.unweighted and self.support.quality == "unreliable"

    @property
    def has_rival(self) -> bool:
        """Whether AOA and the weighted estimator rank different recommenders first."""
        if not self.highest_unweighted or not self.highest_by_weights:
            return False
        return self.highest_by_weights != self.highest_unweighted

    @property
    def is_clear(self) -> bool:
        """Whether nothing in the log contradicts the first recommender.

        No other recommender is first by the weighted estimates or for another γ, and the difference from the
        second is significant. Weights that do not change the value of a user cannot show such a contradiction.
        """
        if self.weighted and not self.is_weighted_within_users:
            return False
        return not (self.has_rival or self.changes_with_gamma or len(self.primary_ranking.top_group) > 1)

    @property
    def changes_with_gamma(self) -> bool:
        """Whether another recommender ranks first for some γ."""
        return self.gamma_range is not None and not self.gamma_range.is_everywhere

    @property
    def columns(self) -> tuple[str, ...]:
        """The estimators in the order in which tables print them."""
        return tuple(self.rankings)

    def name_estimator(self, label: str) -> str:
        """Return the name of an estimator as in the tables, where two forms of SNIPS have different names."""
        return display_names(self.columns)[label]

    @property
    def order(self) -> tuple[str, ...]:
        """The recommenders as every output lists them: by the first printed column, undefined ones last."""
        return self.rankings[self.columns[0]].order


@dataclass(frozen=True)
class Evidence:
    """The inputs of a verdict in addition to estimates and tests.

    Attributes
    ----------
    estimators : sequence of Estimator
    propensity : Propensity or None
    weights : mapping
        Estimator label -> diagnostics of its weights.
    flags : mapping
        (metric, estimator) -> why the estimates are unreliable; empty where they are not.
    cells_with_guarantee : collection of (metric, estimator)
        Cells whose estimates have a statistical guarantee, or a known bias.
    consistent_cells : collection of (metric, estimator)
        Cells whose estimates are at least nearly consistent with the true propensities.
    cells_with_equal_exposure : collection of (metric, estimator)
        Cells whose estimates need equally exposed users.
    metrics_weighted_between_users : collection of str
        Metrics for which weights change at most how much each user counts, except in the unbiased form.
    failing_models : tuple of str
        Recommenders whose listed items the propensities do not fit, by the sanity check.
    """

    estimators: Sequence[Estimator]
    propensity: Propensity | None
    weights: Mapping[str, WeightDiagnostics]
    flags: Mapping[tuple[str, str], tuple[Note, ...]]
    cells_with_guarantee: frozenset[tuple[str, str]]
    consistent_cells: frozenset[tuple[str, str]]
    cells_with_equal_exposure: frozenset[tuple[str, str]] = frozenset()
    metrics_weighted_between_users: frozenset[str] = frozenset()
    failing_models: tuple[str, ...] = ()

    def is_weighted_within_users(self, metric: str, label: str) -> bool:
        """Return whether the weights of an estimator change the values of users of a metric."""
        if metric not in self.metrics_weighted_between_users:
            return True
        for estimator in self.estimators:
            if estimator.label == label:
                return estimator.uses_unbiased_form
        return False

    def support(self, metric: str, weighted: str, unweighted: str) -> WeightSupport:
        """Return the reliability of the weighted estimates of a metric; `unweighted` is "" without AOA."""
        diagnostics = self.weights[weighted]
        basis = "assumed"
        gamma = None
        if self.propensity is not None:
            basis = self.propensity.basis
            gamma = self.propensity.gamma
        return WeightSupport(
            basis=basis,
            gamma=gamma,
            ess=diagnostics.ess_own,
            ess_equal=diagnostics.ess_equal,
            ess_unweighted=self.weights[unweighted].ess_own if unweighted else NAN,
            n_interactions=diagnostics.n_positives,
            flag=join_notes(*self.flags.get((metric, weighted), ())),
            clipped_share=diagnostics.clipped_share,
            failing_models=self.failing_models,
        )


def decide_verdicts(
    frame: pd.DataFrame, tests: Mapping[tuple[str, str], PairTests], evidence: Evidence
) -> tuple[Verdict, ...]:
    """Decide the verdict of each metric of a tidy frame."""
    rankings: dict[str, dict[str, ModelRanking]] = {}
    for (metric, estimator), rows in frame.groupby(["metric", "estimator"], sort=False):
        metric_label = str(metric)
        estimator_label = str(estimator)
        ranking = ModelRanking.from_rows(
            rows, tests.get((metric_label, estimator_label)), lowest_first=metric_label in RATING_METRICS
        )
        rankings.setdefault(metric_label, {})[estimator_label] = ranking
    verdicts = []
    for metric, by_estimator in rankings.items():
        verdicts.append(_decide_verdict(metric, by_estimator, evidence))

    return tuple(verdicts)


def choose_estimators(estimators: Sequence[Estimator], unreliable: set[str]) -> tuple[str, str]:
    """Choose the unweighted and the weighted estimator that a verdict compares; "" where there is none.

    The weighted one is reliable and the default where possible. The unweighted one has the same estimand
    where possible.
    """
    weighted = []
    unweighted = []
    for estimator in estimators:
        if estimator.weighted:
            weighted.append(estimator)
        else:
            unweighted.append(estimator)

    default_label = default_estimators(weighted=True)[-1]
    weighted.sort(key=lambda estimator: (estimator.label in unreliable, estimator.label != default_label))
    if not weighted:
        return unweighted[0].label, ""
    unweighted.sort(key=lambda estimator: estimator.target != weighted[0].target)
    if not unweighted:
        return "", weighted[0].label
    return unweighted[0].label, weighted[0].label


def _decide_verdict(metric: str, rankings: Mapping[str, ModelRanking], evidence: Evidence) -> Verdict:
    """Decide the verdict of one metric."""
    unreliable = set()
    for label in rankings:
        if evidence.flags.get((metric, label)):
            unreliable.add(label)

    unweighted, weighted = choose_estimators(evidence.estimators, unreliable)
    support = None
    if weighted:
        support = evidence.support(metric, weighted, unweighted)
    verdict = Verdict(
        metric=metric,
        rankings=rankings,
        unweighted=unweighted,
        weighted=weighted,
        support=support,
        has_guarantee=(metric, weighted or unweighted) in evidence.cells_with_guarantee,
        is_consistent=(metric, weighted) in evidence.consistent_cells,
        needs_equal_exposure=(metric, weighted) in evidence.cells_with_equal_exposure,
        is_weighted_within_users=evidence.is_weighted_within_users(metric, weighted),
    )
    return replace(verdict, outcome=decide_outcome(verdict))


def decide_outcome(verdict: Verdict) -> Outcome:
    """Return the outcome of a metric: the first rule that applies decides."""
    n_ranked = len(verdict.primary_ranking.ranked)
    if n_ranked == 0:
        return Outcome.UNDEFINED
    if n_ranked == 1:
        return Outcome.SINGLE
    if _rests_on_design(verdict):
        if len(verdict.rankings[verdict.weighted].top_group) == 1:
            return Outcome.WINNER
        return Outcome.NOT_SIGNIFICANT
    if verdict.has_failed_weights or verdict.rests_on_unreliable_weights or _contradicts_impressions(verdict):
        return Outcome.NO_VERDICT
    if verdict.primary_ranking.tied:
        return Outcome.TIED
    return Outcome.NOT_IDENTIFIED


def _rests_on_design(verdict: Verdict) -> bool:
    """Return whether the paired test of the weighted estimates may name a winner."""
    support = verdict.support
    if support is None or support.basis != "design" or not verdict.is_consistent:
        return False
    if len(verdict.rankings[verdict.weighted].ranked) < 2 or support.quality in (
        "failed",
        "unreliable",
        "clipped",
    ):
        return False
    if support.quality == "sufficient":
        return True
    # A low effective sample size decides only where AOA was computed and ranks the same recommender first.
    return verdict.highest_by_weights == verdict.highest_unweighted


def _contradicts_impressions(verdict: Verdict) -> bool:
    """Return whether weights from impressions, or by design, are insufficient or rank another first than AOA."""
    support = verdict.support
    if support is None or not verdict.unweighted or support.gamma is not None:
        return False
    if support.basis not in ("design", "logged", "fitted"):
        return False
    return support.quality != "sufficient" or verdict.highest_by_weights != verdict.highest_unweighted


def choose_headline(verdicts: Sequence[Verdict]) -> Verdict:
    """Choose the verdict that is stated in full: the first one with a guarantee."""
    return next((verdict for verdict in verdicts if verdict.has_guarantee), verdicts[0])


ORDER_COLUMNS = ("metric", "model", "rank", "estimator", "estimate", "difference", "p_adjusted")


def tabulate_order(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row per metric and recommender, in the order in which every output lists them."""
    rows = []
    for verdict in verdicts:
        estimator = verdict.columns[0]
        ranking = verdict.rankings[estimator]
        for rank, model in enumerate(verdict.order, start=1):
            difference = 0.0
            p_value = NAN
            if model != ranking.highest:
                difference, p_value = ranking.difference(model, ranking.highest)
            estimate = ranking.values[model]
            rows.append((verdict.metric, model, rank, estimator, estimate, difference, p_value))
    return pd.DataFrame(rows, columns=list(ORDER_COLUMNS))
