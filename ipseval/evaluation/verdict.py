"""Verdict: what one metric allows to conclude, as values; `verdict_text` puts them into words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import pandas as pd

from ipseval.estimators import Estimator
from ipseval.estimators.labels import default_estimators
from ipseval.inference.comparisons import PairTests
from ipseval.inference.gamma_range import GammaRange
from ipseval.inference.weight_diagnostics import WeightDiagnostics
from ipseval.propensity import Propensity
from ipseval.reporting.formatting import LEVEL

NAN = float("nan")
# A weighted estimate rests on few interactions where its effective sample size is below this share of that
# with
# equal weights, or below this number.
LOW_ESS_SHARE = 0.3
LOW_ESS = 100.0


class Outcome(StrEnum):
    """The kinds of conclusion."""

    UNDEFINED = "undefined"  # no estimate is defined
    SINGLE = "single"  # only one recommender has an estimate
    TIED = "tied"  # several recommenders share the first place with equal estimates
    WINNER = (
        "winner"  # propensities are known by design, and the first is significantly better than all others
    )
    NOT_SIGNIFICANT = "not significant"  # propensities are known by design, and the test does not decide
    NO_VERDICT = "no verdict"  # weights from impressions are few, or contradict AOA
    NOT_IDENTIFIED = "not identified"  # exposure was not measured, so no recommender is named


@dataclass(frozen=True)
class Standing:
    """How recommenders rank by one metric and estimator.

    Attributes
    ----------
    estimator : str
    ranked : tuple of str
        Recommenders with an estimate, the highest first.
    leaders : tuple of str
        The highest, and those that do not differ from it significantly, in that order.
    p_value : float
        The largest adjusted p-value of the highest against those that it differs from; NaN: there are none.
    tests : PairTests or None
        Of all pairs; None for a single recommender.
    """

    estimator: str
    ranked: tuple[str, ...]
    leaders: tuple[str, ...]
    p_value: float
    values: Mapping[str, float] = field(repr=False, default_factory=dict)
    tests: PairTests | None = field(repr=False, default=None)

    @classmethod
    def from_rows(cls, rows: pd.DataFrame, tests: PairTests | None) -> Standing:
        """Rank the recommenders in the rows of one metric and estimator."""
        values = dict(zip(rows["model"], rows["estimate"], strict=True))
        defined = [model for model, value in values.items() if not math.isnan(value)]
        ranked = tuple(sorted(defined, key=lambda model: -values[model]))
        leaders = ranked[:1]
        p_value = NAN
        if tests is not None and ranked:
            differs = tests.told_apart(ranked, LEVEL)[0]
            leaders = tuple(ranked[index] for index in np.flatnonzero(~differs))
            p_values = [tests.of(ranked[0], ranked[index])[1] for index in np.flatnonzero(differs)]
            p_value = max(p_values, default=NAN)
        return cls(str(rows["estimator"].iloc[0]), ranked, leaders, p_value, values, tests)

    @property
    def best(self) -> str:
        """The recommender with the highest estimate; "" where none is defined."""
        return self.ranked[0] if self.ranked else ""

    @property
    def second(self) -> str:
        """The recommender with the second highest estimate; "" where there is none."""
        return self.ranked[1] if len(self.ranked) > 1 else ""

    @property
    def tied(self) -> tuple[str, ...]:
        """The recommenders that share the first place with equal estimates; empty where one is alone."""
        equal = [model for model in self.ranked[1:] if self.difference(self.best, model)[0] == 0]
        return (self.best, *equal) if equal else ()

    def difference(self, model: str, reference: str) -> tuple[float, float]:
        """Return R(model) − R(reference) and its adjusted p-value; NaN where it was not tested."""
        return (NAN, NAN) if self.tests is None else self.tests.of(model, reference)


@dataclass(frozen=True)
class WeightSupport:
    """How far the estimates of a weighted estimator can be relied on.

    Attributes
    ----------
    basis : {"design", "exposure", "fitted", "assumed"}
        What the propensities rest on.
    gamma : float or None
        γ of a power law.
    ess, ess_equal : float
        Effective sample size with these weights, and with equal weights.
    n_interactions : int
        Held-out interactions that have a weight.
    flag : str
        Why the estimates are unreliable; "" where they are not.
    """

    basis: str
    gamma: float | None
    ess: float
    ess_equal: float
    n_interactions: int
    flag: str = ""

    @property
    def quality(self) -> str:
        """One of "unreliable", "low" and "sufficient"."""
        if self.flag:
            return "unreliable"
        is_low = self.ess < LOW_ESS_SHARE * self.ess_equal or self.ess < LOW_ESS < self.ess_equal
        return "low" if is_low else "sufficient"


@dataclass(frozen=True)
class Verdict:
    """What one metric allows to conclude.

    Attributes
    ----------
    metric : str
    standings : mapping
        Estimator -> ranking of the recommenders.
    unweighted, weighted : str
        The labels of the unweighted estimator (AOA) and of the weighted one; "" where there is none.
    outcome : Outcome
    leader : str or None
        Named only where the propensities are known by design, the metric has a guarantee after weighting,
        and a
        paired test of the weighted estimates finds it better than every other recommender.
    support : WeightSupport or None
        Of the weighted estimator.
    detectable : float
        The smallest difference of the two highest that the test finds with 80% power; NaN where it is not
        asked.
    gamma_range : GammaRange or None
        For which γ the first by AOA stays first.
    has_guarantee : bool
        Whether something is claimed of the metric after weighting.
    """

    metric: str
    standings: Mapping[str, Standing] = field(repr=False)
    unweighted: str = ""
    weighted: str = ""
    outcome: Outcome = Outcome.NOT_IDENTIFIED
    leader: str | None = None
    support: WeightSupport | None = None
    detectable: float = NAN
    gamma_range: GammaRange | None = None
    has_guarantee: bool = True

    @property
    def primary(self) -> str:
        """The estimator of the conclusion: the weighted one by design, else AOA where there is AOA."""
        if self.outcome in (Outcome.WINNER, Outcome.NOT_SIGNIFICANT):
            return self.weighted
        return self.unweighted or self.weighted

    @property
    def standing(self) -> Standing:
        """The ranking by the primary estimator."""
        return self.standings[self.primary]

    @property
    def first(self) -> str:
        """The recommender that ranks first by the primary estimator; "" where no estimate is defined."""
        return self.standing.best

    @property
    def first_by_weights(self) -> str:
        """The recommender that ranks first by the weighted estimator; "" without one."""
        return self.standings[self.weighted].best if self.weighted else ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The estimators in the order in which tables print them."""
        return tuple(self.standings)

    @property
    def order(self) -> tuple[str, ...]:
        """The recommenders as every output lists them: by the first printed column, undefined ones last."""
        first_column = self.standings[self.columns[0]]
        undefined = [model for model in first_column.values if model not in first_column.ranked]
        return (*first_column.ranked, *undefined)


@dataclass(frozen=True)
class Evidence:
    """What a verdict reads beside estimates and tests.

    Attributes
    ----------
    estimators : sequence of Estimator
    propensity : Propensity or None
    weights : mapping
        Estimator label -> diagnostics of its weights.
    flags : mapping
        (metric, estimator) -> why the estimates are unreliable; "" where they are not.
    with_guarantee : collection of (metric, estimator)
        Cells of which something is claimed.
    """

    estimators: Sequence[Estimator]
    propensity: Propensity | None
    weights: Mapping[str, WeightDiagnostics]
    flags: Mapping[tuple[str, str], str]
    with_guarantee: frozenset[tuple[str, str]]

    def support(self, metric: str, estimator: str) -> WeightSupport:
        """Return how far the weighted estimates of a metric can be relied on."""
        diagnostics = self.weights[estimator]
        return WeightSupport(
            basis="assumed" if self.propensity is None else self.propensity.basis,
            gamma=None if self.propensity is None else self.propensity.gamma,
            ess=diagnostics.ess_own,
            ess_equal=diagnostics.ess_equal,
            n_interactions=diagnostics.n_positives,
            flag=self.flags.get((metric, estimator), ""),
        )


def decide_verdicts(
    frame: pd.DataFrame, tests: Mapping[tuple[str, str], PairTests], evidence: Evidence
) -> tuple[Verdict, ...]:
    """Decide what each metric of a tidy frame allows to conclude."""
    standings: dict[str, dict[str, Standing]] = {}
    for (metric, estimator), rows in frame.groupby(["metric", "estimator"], sort=False):
        cell = str(metric), str(estimator)
        standings.setdefault(cell[0], {})[cell[1]] = Standing.from_rows(rows, tests.get(cell))
    return tuple(_decide(metric, by_estimator, evidence) for metric, by_estimator in standings.items())


def choose_estimators(estimators: Sequence[Estimator], unreliable: set[str]) -> tuple[str, str]:
    """Choose the unweighted and the weighted estimator that a verdict compares; "" where there is none.

    The weighted one is reliable and the default where possible; the unweighted one has its estimand if it
    can.
    """
    weighted = [estimator for estimator in estimators if estimator.weighted]
    unweighted = [estimator for estimator in estimators if not estimator.weighted]
    default_label = default_estimators(weighted=True)[-1]
    weighted.sort(key=lambda estimator: (estimator.label in unreliable, estimator.label != default_label))
    if not weighted:
        return unweighted[0].label, ""
    unweighted.sort(key=lambda estimator: estimator.target != weighted[0].target)
    return (unweighted[0].label if unweighted else ""), weighted[0].label


def _decide(metric: str, standings: Mapping[str, Standing], evidence: Evidence) -> Verdict:
    unreliable = {label for label in standings if evidence.flags.get((metric, label))}
    unweighted, weighted = choose_estimators(evidence.estimators, unreliable)
    verdict = Verdict(
        metric=metric,
        standings=standings,
        unweighted=unweighted,
        weighted=weighted,
        support=evidence.support(metric, weighted) if weighted else None,
        has_guarantee=(metric, weighted or unweighted) in evidence.with_guarantee,
    )
    if not verdict.standing.ranked:
        return replace(verdict, outcome=Outcome.UNDEFINED)
    if len(verdict.standing.ranked) == 1:
        return replace(verdict, outcome=Outcome.SINGLE)
    if _rests_on_design(verdict):
        leaders = standings[weighted].leaders
        if len(leaders) == 1:
            return replace(verdict, outcome=Outcome.WINNER, leader=leaders[0])
        return replace(verdict, outcome=Outcome.NOT_SIGNIFICANT)
    if _contradicts_impressions(verdict):
        return replace(verdict, outcome=Outcome.NO_VERDICT)
    if verdict.standing.tied:
        return replace(verdict, outcome=Outcome.TIED)
    return verdict


def _rests_on_design(verdict: Verdict) -> bool:
    """Whether the paired test of the weighted estimates may name a winner."""
    support = verdict.support
    if support is None or support.basis != "design" or not verdict.has_guarantee:
        return False
    if len(verdict.standings[verdict.weighted].ranked) < 2 or support.quality == "unreliable":
        return False
    # Few interactions carry the weights: then they decide only where they agree with AOA.
    return support.quality == "sufficient" or verdict.first_by_weights == verdict.first


def _contradicts_impressions(verdict: Verdict) -> bool:
    """Whether weights from impressions, or by design, are few, or put another recommender first than AOA."""
    support = verdict.support
    if support is None or not verdict.unweighted or support.gamma is not None:
        return False
    if support.basis not in ("fitted", "design"):
        return False
    return support.quality != "sufficient" or verdict.first_by_weights != verdict.first


def choose_headline(verdicts: Sequence[Verdict]) -> Verdict:
    """Choose the verdict that is stated in full: of the first metric that has a guarantee after weighting."""
    return next((verdict for verdict in verdicts if verdict.has_guarantee), verdicts[0])


ORDER_COLUMNS = ("metric", "model", "rank", "estimator", "estimate", "difference", "p_adjusted")


def tabulate_order(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row per metric and recommender, in the order in which every output lists them."""
    rows = []
    for verdict in verdicts:
        estimator = verdict.columns[0]
        standing = verdict.standings[estimator]
        for rank, model in enumerate(verdict.order, start=1):
            difference, p_value = 0.0, NAN
            if model != standing.best:
                difference, p_value = standing.difference(model, standing.best)
            estimate = standing.values[model]
            rows.append((verdict.metric, model, rank, estimator, estimate, difference, p_value))
    return pd.DataFrame(rows, columns=list(ORDER_COLUMNS))
