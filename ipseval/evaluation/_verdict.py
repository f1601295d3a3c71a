"""Verdict: who leads by one metric, how sure that is, and what weighting changes; as values and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Estimator, Sample
from ipseval.estimators._labels import default_estimators
from ipseval.inference._comparisons import PairTests
from ipseval.inference._leads import leading_factors, leading_gammas
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.report._words import LEVEL, listed, number, shown_p, signed

# Pairs of recommenders that the paired test tells apart at this level, Holm-adjusted within a column.
NAN = float("nan")


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
    together : bool
        Whether no two leaders are told apart; False: some of them are.
    p_value : float
        The largest adjusted p-value of the highest against those that it is told from; NaN: there are none.
    tests : PairTests or None
        Of all pairs; None for a single recommender.
    """

    estimator: str
    ranked: tuple[str, ...]
    leaders: tuple[str, ...]
    together: bool
    p_value: float
    tests: PairTests | None = field(repr=False)

    @classmethod
    def of(cls, rows: pd.DataFrame, tests: PairTests | None) -> Standing:
        """Return the standing from the rows of one metric and estimator, and the tests of their pairs."""
        values = dict(zip(rows["model"], rows["estimate"], strict=True))
        ranked = tuple(sorted((m for m in values if not math.isnan(values[m])), key=lambda m: -values[m]))
        leaders, told, behind = ranked[:1], False, NAN
        if tests is not None and ranked:
            apart = tests.told_apart(ranked, LEVEL)
            place = np.flatnonzero(~apart[0])
            leaders = tuple(ranked[one] for one in place)
            told = bool(apart[np.ix_(place, place)].any())
            behind = max(
                (tests.of(ranked[0], ranked[one])[1] for one in np.flatnonzero(apart[0])), default=NAN
            )
        label = str(rows["estimator"].iloc[0])
        return cls(label, ranked, leaders, not told, behind, tests)

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
class Reach:
    """For which weights the highest recommender stays the highest.

    Attributes
    ----------
    gamma : (from, to, lowest, highest) or None
        The γ for which it does, around that of the evaluation, and the range that was tried.
    factor : float
        Λ: unless some weight is wrong by more, it does; NaN: not computed.
    unknown : str
        Why neither is known, in words; "" where one is, or there is nothing to ask.
    """

    gamma: tuple[float, float, float, float] | None = None
    factor: float = NAN
    unknown: str = ""


@dataclass(frozen=True)
class Verdict:
    """What one metric says: who leads, whether weighting changes it, and for which weights it holds.

    Attributes
    ----------
    metric : str
    standings : mapping
        Estimator -> how recommenders stand by it.
    estimator : str
        That on which the verdict rests: weighted, where its weights can be relied on.
    beside : str
        The plain average that it is compared with; "" where the verdict rests on it, or it was not asked for.
    unreliable : tuple of str
        Weighted estimators that were passed over, as their weights cannot be relied on.
    weighted : bool
        Whether the estimator of the verdict is.
    reach : Reach
    """

    metric: str
    standings: Mapping[str, Standing] = field(repr=False)
    estimator: str
    beside: str = ""
    unreliable: tuple[str, ...] = ()
    weighted: bool = True
    reach: Reach = Reach()

    @property
    def standing(self) -> Standing:
        """How recommenders stand by the estimator that the verdict rests on."""
        return self.standings[self.estimator]

    @property
    def plain(self) -> Standing | None:
        """How they stand by the plain average beside it; None where there is none."""
        return self.standings[self.beside] if self.beside else None

    @property
    def leaders(self) -> tuple[str, ...]:
        """The highest recommender, and those that the paired test does not tell from it."""
        return self.standing.leaders


def verdicts(
    frame: pd.DataFrame,
    tests: Mapping[tuple[str, str], PairTests],
    estimators: Sequence[Estimator],
    flags: Mapping[tuple[str, str], str],
) -> tuple[Verdict, ...]:
    """Return the verdict of each metric, without its reach, which needs the ranked positives."""
    standings: dict[str, dict[str, Standing]] = {}
    for (metric, label), rows in frame.groupby(["metric", "estimator"], sort=False):
        standings.setdefault(str(metric), {})[str(label)] = Standing.of(
            rows, tests.get((str(metric), str(label)))
        )
    found = []
    for metric, own in standings.items():
        chosen = of_record(estimators, {label for label in own if flags.get((metric, label))})
        weighted = any(one.weighted for one in estimators if one.label == chosen[0])
        found.append(Verdict(metric, own, *chosen, weighted=weighted))
    return tuple(found)


def of_record(estimators: Sequence[Estimator], unreliable: set[str]) -> tuple[str, str, tuple[str, ...]]:
    """Return the estimator of record, the plain one beside it, and the weighted ones passed over."""
    preferred = default_estimators(weighted=True)[-1]
    weighted = sorted((one for one in estimators if one.weighted), key=lambda one: one.label != preferred)
    good = [one for one in weighted if one.label not in unreliable]
    passed = tuple(one.label for one in weighted if one.label in unreliable)
    plain = [one for one in estimators if not one.weighted]
    if not good:
        return (plain or weighted)[0].label, "", passed
    beside = [one.label for one in plain if one.target == good[0].target] or [one.label for one in plain]
    return good[0].label, beside[0] if beside else "", passed


def reaches(
    found: Sequence[Verdict],
    samples: Mapping[str, Sample],
    definitions: tuple[Sequence[Metric], Sequence[Estimator]],
    propensity: Propensity | None,
) -> dict[str, Reach]:
    """Return metric -> the γ, or the Λ, for which the highest recommender stays the highest."""
    made: dict[str, Reach] = {}
    for one in definitions[1]:
        mine = [verdict for verdict in found if verdict.estimator == one.label and one.weighted]
        first = {each.metric: each.leaders[0] for each in mine if each.standing.ahead}
        metrics = [metric for metric in definitions[0] if metric.label in first]
        if metrics:
            made |= _reaches(samples, metrics, one, propensity, first)
    return made


def _reaches(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimator: Estimator,
    propensity: Propensity | None,
    first: Mapping[str, str],
) -> dict[str, Reach]:
    """Return the reach of some metrics by one estimator: γ ranges, or factors Λ where there is no γ."""
    gammas, factors, unknown = {}, {}, "the ranked positives stayed on the cluster"
    if samples and propensity is not None:
        try:
            unknown = "it would take long; ask for .tipping_points()"
            gammas = leading_gammas(samples, metrics, estimator, propensity, first)
        except PropensityError:  # the weights follow no power law
            unknown = "the estimate is no weighted average of contributions"
            factors = leading_factors(samples, metrics, estimator, first)
        except InputError:  # loaded: the code of the caller's own metric or estimator is not in the file
            unknown = "the file does not hold the code of an object of your own"
    return {
        label: Reach(
            gammas.get(label),
            factors.get(label, NAN),
            "" if label in gammas or label in factors else unknown,
        )
        for label in first
    }


# Of more groups of metrics than this, each with its own answer, the weights for which it holds are not told.
MOST_WHOLE = 2


def verdict_lines(found: Sequence[Verdict]) -> tuple[str, ...]:
    """Return verdicts in words; metrics with the same answer share their lines."""
    groups: dict[object, list[Verdict]] = {}
    for one in found:
        groups.setdefault(_answer(one), []).append(one)
    if len(found) == 1:
        first, *rest = _sentences(found)
        # A name that begins the sentence stays as it is.
        own = first.startswith(("nobody leads", "no estimate"))
        return tuple(
            filter(None, (first[:1].upper() + first[1:] if own else first, " ".join(filter(None, rest))))
        )
    if len(groups) == 1:
        every = "both" if len(found) == 2 else f"all {len(found)}"
        return (f"By {every} metrics, {' '.join(filter(None, _sentences(found)))}",)
    whole = len(groups) <= MOST_WHOLE
    lines = []
    for group in groups.values():
        sentences = _sentences(group) if whole else _sentences(group)[:-1]
        lines.append(f"By {listed([one.metric for one in group])}, {' '.join(filter(None, sentences))}")
    return tuple(lines)


def _answer(one: Verdict) -> object:
    """Return what two verdicts share that are told in the same words."""
    if len(one.standing.ranked) < 2:
        return one.metric
    plain = None if one.plain is None else (one.plain.best, frozenset(one.plain.leaders), one.plain.together)
    standing = one.standing
    return (
        standing.estimator,
        standing.leaders,
        standing.together,
        len(standing.ranked),
        plain,
        one.reach.unknown,
    )


def _sentences(group: Sequence[Verdict]) -> list[str]:
    """Return who leads, what the plain average says, and for which weights it holds."""
    one = group[0]
    if not one.standing.ranked:
        return ["no estimate is defined, so there is no verdict.", ""]
    if len(one.standing.ranked) < 2:
        return [f"{one.standing.best} has the only estimate, so there is nothing to compare.", ""]
    when = " after weighting" if one.weighted else " by the plain average" if one.unreliable else ""
    if one.weighted and one.unreliable:
        when = f" by {one.estimator}"
    lines = [_leaders(one.standing, max(each.standing.p_value for each in group), when)]
    if one.plain is not None:
        lines.append(_unweighted(group))
    return [*lines, _reached(group)]


def _leaders(standing: Standing, p_value: float, when: str) -> str:
    """Return who leads, as far as the paired test supports it."""
    leaders, n = standing.leaders, len(standing.ranked)
    if len(leaders) == 1:
        rest = f"the other {n - 1}" if n > 2 else standing.ranked[1]
        return f"{leaders[0]} leads{when}: it is better than {rest} ({shown_p(p_value, most=n > 2)})."
    if standing.together and all(standing.difference(leaders[0], one)[0] == 0 for one in leaders[1:]):
        return f"{listed(leaders)} lead{when}, with the same values."
    if len(leaders) == n and standing.together:
        if n == 2:
            return f"nobody leads{when}: these data do not tell {leaders[0]} from {leaders[1]}."
        return f"nobody leads{when}: these data do not tell {listed(leaders)} apart."
    if len(leaders) == 2:
        return f"{listed(leaders)} lead{when}; these data do not tell them apart."
    return f"{leaders[0]} is highest{when}; these data do not tell it from {listed(leaders[1:])}."


def _unweighted(group: Sequence[Verdict]) -> str:
    """Return how the plain average differs from the weighted one."""
    one = group[0]
    plain, weighted = one.plain, one.standing
    assert plain is not None
    if set(plain.leaders) == set(weighted.leaders):
        return "The plain average says the same."
    first, best = plain.best, weighted.best
    p_value = max(each.plain.difference(first, best)[1] for each in group if each.plain is not None)
    size = f"{signed(plain.difference(first, best)[0], 2)}, " if len(group) == 1 else ""
    ahead = f"Unweighted, {first} is ahead of {best} ({size}{shown_p(p_value, most=len(group) > 1)})"
    if first not in weighted.leaders:
        turned = max(each.standing.difference(best, first)[1] for each in group)
        told = shown_p(turned, most=len(group) > 1)
        if best in plain.leaders:
            return f"Unweighted, {first} is highest; weighting puts {best} ahead of it ({told})."
        return f"{ahead}; weighting turns that round ({told})."
    if best not in plain.leaders:
        return f"{ahead}; weighting takes that lead away."
    only = "only " if set(plain.leaders) < set(weighted.leaders) else ""
    return f"Unweighted, {only}{listed(plain.leaders)} lead{'s' if len(plain.leaders) == 1 else ''}."


def _reached(group: Sequence[Verdict]) -> str:
    """Return for which γ, or up to which error Λ of the weights, the highest stays the highest."""
    one, best = group[0].reach, group[0].standing.best
    if any(each.reach.gamma is None for each in group):
        factors = [each.reach.factor for each in group]
        if any(map(math.isnan, factors)):
            return f"For which weights this holds is not known: {one.unknown}." if one.unknown else ""
        if math.isinf(min(factors)):
            return f"{best} stays highest whatever the weights."
        return (
            f"{best} stays highest unless some weight is wrong by more than a factor of {min(factors):.3g}."
        )
    ranges = [each.reach.gamma for each in group if each.reach.gamma is not None]
    low, high = max(one[0] for one in ranges), min(one[1] for one in ranges)
    every = "every γ" if (low, high) == ranges[0][2:] else "γ"
    return f"{best} is highest for {every} from {number(low)} to {number(high)}."
