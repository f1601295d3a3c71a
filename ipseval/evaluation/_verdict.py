"""Verdict: what one metric decides, as a value from which every output words its sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ipseval.estimators import Estimator
from ipseval.estimators._labels import default_estimators
from ipseval.estimators._sums import ROUNDING
from ipseval.inference._comparisons import PairTests
from ipseval.inference._weights import WeightDiagnostics
from ipseval.propensity import Propensity
from ipseval.report._words import LEVEL, number

NAN = float("nan")
MEASURED = ("design", "exposure")  # propensities on whose paired differences a verdict rests
SURE = 0.95  # probability to be ahead of each other one from which the correction names a leader
CHALLENGED = 0.8  # probability from which a challenger takes the place of the plain average's first
DIGITS = 12  # of averages that are told apart
# Effective sample size below this share of that with equal propensities, or below this number: thin.
THIN_SHARE, THIN = 0.3, 100.0
TOO_MANY = "with so many recommenders it is computed for the first metric alone"


@dataclass(frozen=True)
class Standing:
    """How recommenders stand by one metric and estimator.

    Attributes
    ----------
    estimator : str
    ranked : tuple of str
        Recommenders with an estimate, the highest first.
    leaders : tuple of str
        The highest, and those that the paired test does not tell from it, in that order.
    p_value : float
        The largest adjusted p-value of the highest against those that it is told from; NaN: there are none.
    tests : PairTests or None
        Of all pairs; None for a single recommender.
    """

    estimator: str
    ranked: tuple[str, ...]
    leaders: tuple[str, ...]
    p_value: float
    tests: PairTests | None = field(repr=False)

    @classmethod
    def of(cls, rows: pd.DataFrame, tests: PairTests | None) -> Standing:
        """Return the standing from the rows of one metric and estimator, and the tests of their pairs."""
        values = dict(zip(rows["model"], rows["estimate"], strict=True))
        ranked = tuple(sorted((m for m in values if not math.isnan(values[m])), key=lambda m: -values[m]))
        leaders, behind = ranked[:1], NAN
        if tests is not None and ranked:
            apart = tests.told_apart(ranked, LEVEL)[0]
            leaders = tuple(ranked[one] for one in np.flatnonzero(~apart))
            told = [ranked[one] for one in np.flatnonzero(apart)]
            behind = max((tests.of(ranked[0], one)[1] for one in told), default=NAN)
        return cls(str(rows["estimator"].iloc[0]), ranked, leaders, behind, tests)

    @property
    def best(self) -> str:
        """The recommender with the highest estimate; "" where none is defined."""
        return self.ranked[0] if self.ranked else ""

    @property
    def ahead(self) -> bool:
        """Whether one recommender has a higher estimate than all others."""
        return len(self.ranked) > 1 and self.difference(*self.ranked[:2])[0] > 0

    def difference(self, model: str, other: str) -> tuple[float, float]:
        """Return R(model) − R(other) and its adjusted p-value; NaN where it was not tested."""
        return (NAN, NAN) if self.tests is None else self.tests.of(model, other)


@dataclass(frozen=True)
class Weights:
    """Who is first by one metric with weights, and how far these can be relied on.

    Attributes
    ----------
    words : str
        Where the weights come from, as in "by weights from impressions".
    basis : str
        What the propensity rests on.
    best : str
        The highest recommender; "" where no estimate is defined.
    ess, equal : float
        Effective sample size, and what equal propensities would give.
    flag : str
        Why they are unreliable; "" where they are not.
    """

    words: str
    basis: str
    best: str
    ess: float
    equal: float
    flag: str = ""

    @property
    def thin(self) -> bool:
        """Whether few positives carry the weight, though not too few; never of equal weights."""
        few = self.ess < THIN_SHARE * self.equal or self.ess < THIN < self.equal
        return few and not self.flag

    @property
    def decides(self) -> bool:
        """Whether a verdict may rest on them alone: they were measured, and can be relied on."""
        return self.basis in MEASURED and not self.flag

    @property
    def contradicts(self) -> bool:
        """Whether they withhold the verdict where another is first by the plain average."""
        return self.basis != "assumed" or self.thin or bool(self.flag)

    @property
    def judged(self) -> str:
        """Whether they can be relied on, in one word."""
        return "unreliable" if self.flag else "thin" if self.thin else "fine"

    @property
    def size(self) -> str:
        """The effective sample size in words."""
        return f"{self.ess:,.0f} effective of {self.equal:,.0f} positives: {self.judged}"


@dataclass(frozen=True)
class Verdict:
    """What one metric decides.

    Attributes
    ----------
    metric : str
    standings : mapping
        Estimator -> how recommenders stand by it.
    estimator : str
        That on which the verdict rests: weights that were measured, else the plain average.
    weighted, plain : str
        The weighted estimator, "" without one, and the plain average beside it.
    weights : tuple of Weights
        Who is first by weights: those of the evaluation, and those of the impressions beside them.
    posterior : Any or None
        Probabilities of the correction.
    unknown : str
        Why there are none, in words; "" where there is nothing to ask.
    leader : str or None
        Named where propensities were measured and a paired test tells it from all others, or where the
        correction knows more than the log and puts it ahead of each other one with probability .95.
    choice : str or None
        Whom to keep until more is known: the first by the plain average, unless another is ahead of it with
        probability .8. None where averages and weights contradict each other.
    reason : str
        "measured", "not told apart", "posterior", "plain", "contradiction", "equal", "single", "undefined".
    detectable : float
        The smallest difference of the two highest that a test finds with 80 % power.
    claimed : bool
        Whether the metric keeps a claim after weighting, so that it can be the headline.
    """

    metric: str
    standings: Mapping[str, Standing] = field(repr=False)
    estimator: str
    weighted: str = ""
    plain: str = ""
    weights: tuple[Weights, ...] = ()
    posterior: Any | None = field(default=None, repr=False)
    unknown: str = ""
    leader: str | None = None
    choice: str | None = None
    reason: str = "plain"
    detectable: float = NAN
    claimed: bool = True

    @property
    def standing(self) -> Standing:
        """How recommenders stand by the estimator that the verdict rests on."""
        return self.standings[self.estimator]

    @property
    def leaders(self) -> tuple[str, ...]:
        """The highest recommender by that estimator, and those that the paired test does not tell from it."""
        return self.standing.leaders

    @property
    def order(self) -> tuple[str, ...]:
        """Recommenders with an estimate, the first on top, as every output lists them."""
        found = self.posterior
        if found is None or self.measured:
            return self.standing.ranked
        # Averages that are equal up to rounding stand in the order of the column beside them.
        places = {model: place for place, model in enumerate(self.standing.ranked)}
        value = dict(zip(found.models, np.round(found.plain, DIGITS), strict=True))
        best = sorted(value, key=lambda one: (-value[one], places.get(one, len(places))))
        return (*best, *(one for one in self.standing.ranked if one not in value))

    @property
    def first(self) -> str:
        """The recommender on top of every output; "" where no estimate is defined."""
        return next(iter(self.order), "")

    @property
    def by_pairs(self) -> bool:
        """Whether the order, of the average over pairs, is not that of the average over users beside it."""
        if self.posterior is None or self.measured:
            return False
        shown = self.standings[self.plain]
        ranked = [one for one in self.order if one in shown.ranked]
        gaps = [shown.difference(*pair)[0] for pair in pairwise(ranked)]
        return any(gap < -ROUNDING for gap in gaps)

    @property
    def measured(self) -> bool:
        """Whether the verdict rests on propensities that were measured."""
        return self.reason in ("measured", "not told apart")

    @property
    def informed(self) -> bool:
        """Whether probabilities rest on more than the log."""
        return self.posterior is not None and self.posterior.evidence != "log"

    @property
    def exposed(self) -> bool:
        """Whether probabilities rest on random exposure."""
        return self.posterior is not None and self.posterior.evidence == "exposure"

    @property
    def sure(self) -> bool:
        """Whether the correction may name a leader: informed, and the log's odds explain exposure."""
        return self.posterior is not None and self.informed and self.posterior.explained

    @property
    def same(self) -> tuple[str, ...]:
        """The recommenders that are first with the same plain average; none where one is alone."""
        first, *others = self.order
        says = self.posterior
        value = {} if says is None else dict(zip(says.models, says.plain, strict=True))
        gaps = {
            one: value[first] - value[one] if one in value else self.standing.difference(first, one)[0]
            for one in others
        }
        tied = [one for one, gap in gaps.items() if gap <= ROUNDING]
        return (first, *tied) if tied else ()

    @property
    def challenger(self) -> str:
        """Who takes the place of the first by the plain average; "" where nobody does."""
        first, *others = self.order
        found = {one: self.p_ahead(one, first) for one in others}
        likely = {one: p for one, p in found.items() if p >= CHALLENGED}
        return max(likely, key=likely.__getitem__, default="")

    def p_ahead(self, model: str, other: str) -> float:
        """Return the probability of the correction that one is ahead of another; NaN without any."""
        found = self.posterior
        if found is None or not {model, other} <= set(found.models):
            return NAN
        return float(found.ahead[found.models.index(model), found.models.index(other)])

    def least_ahead(self, model: str, others: Sequence[str]) -> float:
        """Return the smallest probability to be ahead of one of the others."""
        found = [self.p_ahead(model, one) for one in others if one != model]
        return min((one for one in found if one == one), default=NAN)


@dataclass(frozen=True)
class Known:
    """What a verdict reads beside estimates and tests.

    Attributes
    ----------
    estimators : sequence of Estimator
    flags : mapping
        (metric, estimator) -> why the estimates are unreliable.
    weights : mapping
        Estimator -> diagnostics.
    propensity : Propensity or None
    posteriors : mapping
        Metric -> what the correction says of the order.
    unknown : str
        Why it says nothing of any metric, in words.
    averages : collection of str
        Metrics that are averages over relevant items.
    beside : mapping
        Metric -> who is first by weights from the impressions, where other weights were asked for.
    """

    estimators: Sequence[Estimator]
    flags: Mapping[tuple[str, str], str] = field(default_factory=dict)
    weights: Mapping[str, WeightDiagnostics] = field(default_factory=dict)
    propensity: Propensity | None = None
    posteriors: Mapping[str, Any] = field(default_factory=dict)
    unknown: str = ""
    averages: frozenset[str] = frozenset()
    beside: Mapping[str, Weights] = field(default_factory=dict)

    def by_weights(self, metric: str, standing: Standing) -> Weights:
        """Return who is first by a weighted estimator."""
        own, flag = self.weights[standing.estimator], self.flags.get((metric, standing.estimator), "")
        basis = "assumed" if self.propensity is None else self.propensity.basis
        return Weights(words_of(self.propensity), basis, standing.best, own.ess_own, own.ess_equal, flag)


def words_of(propensity: Propensity | None) -> str:
    """Return where weights come from, as in "weights from impressions"."""
    if propensity is None:
        return "of the estimator"
    if propensity.gamma is not None:
        return f"of γ = {number(propensity.gamma)}"
    model = propensity.model.partition(",")[0]
    return model if model.startswith(("from ", "logged ", "direct ", "known ")) else f"by {model}"


def verdicts(
    frame: pd.DataFrame, tests: Mapping[tuple[str, str], PairTests], known: Known
) -> tuple[Verdict, ...]:
    """Return the verdict of each metric."""
    standings: dict[str, dict[str, Standing]] = {}
    for (metric, label), rows in frame.groupby(["metric", "estimator"], sort=False):
        standings.setdefault(str(metric), {})[str(label)] = Standing.of(
            rows, tests.get((str(metric), str(label)))
        )
    return tuple(_decided(metric, own, known) for metric, own in standings.items())


def of_record(estimators: Sequence[Estimator], unreliable: set[str]) -> tuple[str, str]:
    """Return the weighted estimator that counts, "" without one, and the plain average beside it."""
    preferred = default_estimators(weighted=True)[-1]
    weighted = sorted((one for one in estimators if one.weighted), key=lambda one: one.label != preferred)
    weighted.sort(key=lambda one: one.label in unreliable)
    plain = [one for one in estimators if not one.weighted]
    if not weighted:
        return "", plain[0].label
    beside = [one for one in plain if one.target == weighted[0].target]
    return weighted[0].label, [*beside, *plain, *weighted][0].label


def _decided(metric: str, own: Mapping[str, Standing], known: Known) -> Verdict:
    weighted, plain = of_record(
        known.estimators, {label for label in own if known.flags.get((metric, label))}
    )
    weights = [known.by_weights(metric, own[weighted])] if weighted else []
    weights += [known.beside[metric]] if metric in known.beside else []
    posterior = known.posteriors.get(metric)
    claimed, unknown = metric in known.averages, known.unknown
    if not unknown and posterior is None:
        unknown = TOO_MANY if claimed else f"{metric} is no average over relevant items"
    found = Verdict(metric, own, plain, weighted, plain, tuple(weights), posterior, unknown, claimed=claimed)
    if len(found.standing.ranked) < 2:
        only = found.standing.best or None
        return replace(found, choice=only, reason="single" if only else "undefined")
    first = found.order[0]
    if weighted and weights[0].decides and (weights[0].best == first or not weights[0].thin):
        best, *others = own[weighted].leaders
        found = replace(found, estimator=weighted, leader=None if others else best, choice=best)
        return replace(found, reason="not told apart" if others else "measured")
    if found.same:
        return replace(found, choice=first, reason="equal")
    against = [one.best for one in weights if one.best not in ("", first) and one.contradicts]
    if against:
        named = (first, *against) if found.sure else ()
        sure = [one for one in named if found.least_ahead(one, found.order) >= SURE]
        leader = sure[0] if sure else None
        return replace(found, leader=leader, choice=leader, reason="posterior" if sure else "contradiction")
    choice = found.challenger or first
    if found.sure and found.least_ahead(choice, found.order) >= SURE:
        return replace(found, leader=choice, choice=choice, reason="posterior")
    return replace(found, choice=choice)


def first_claimed(found: Sequence[Verdict]) -> Verdict:
    """Return the verdict that stands first: of the first metric with a claim after weighting."""
    return next((one for one in found if one.claimed), found[0])


ORDER = "metric recommender plain weighted corrected ci_low ci_high p_ahead_of_next expected_loss"


def order_frame(found: Sequence[Verdict], frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row per metric and recommender, in the order of the verdict."""
    rows = []
    for one in found:
        own = frame[frame["metric"] == one.metric].set_index(["estimator", "model"])["estimate"]
        says = one.posterior
        for model, other in zip(one.order, [*one.order[1:], ""], strict=False):
            row = {"metric": one.metric, "recommender": model, "plain": own[one.estimator, model]}
            row["weighted"] = own[one.weighted, model] if one.weighted else NAN
            if says is not None and model in says.models:
                at = says.models.index(model)
                row |= {"plain": says.plain[at], "corrected": says.mean[at], "ci_low": says.low[at]}
                row |= {"ci_high": says.high[at], "p_ahead_of_next": one.p_ahead(model, other)}
                row["expected_loss"] = says.loss[at]
            rows.append(row)
    return pd.DataFrame(rows, columns=ORDER.split())
