"""Verdict: who leads by one metric, with what certainty, and what weighting changes; in numbers and in words.

It is computed once for an evaluation; text, Markdown, LaTeX and HTML read it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Estimator, Sample, default_estimators
from ipseval.inference._leads import leading_factors, leading_gammas
from ipseval.metrics import Metric
from ipseval.propensity import Propensity

# Pairs of recommenders that the paired test tells apart at this level, Holm-adjusted within a column.
LEVEL = 0.05
MOST_NAMES = 4
# Of more groups of metrics than this, each with its own answer, the weights for which it holds are not told.
MOST_WHOLE = 2
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
    tests : mapping
        Pair of recommenders -> (first − second, adjusted p-value), for both orders.
    """

    estimator: str
    ranked: tuple[str, ...]
    leaders: tuple[str, ...]
    together: bool
    p_value: float
    tests: Mapping[tuple[str, str], tuple[float, float]] = field(repr=False)

    @classmethod
    def of(cls, rows: pd.DataFrame, pairs: pd.DataFrame | None) -> Standing:
        """Return the standing from the rows of one metric and estimator, and from its rows of `compare`."""
        values = dict(zip(rows["model"], rows["estimate"], strict=True))
        ranked = tuple(sorted((m for m in values if not math.isnan(values[m])), key=lambda m: -values[m]))
        tests: dict[tuple[str, str], tuple[float, float]] = {}
        for row in [] if pairs is None else pairs.to_dict("records"):
            one, other = row["model"], row["reference"]
            tests[one, other] = row["difference"], row["p_adjusted"]
            tests[other, one] = -row["difference"], row["p_adjusted"]
        leaders = tuple(
            model for model in ranked if model == ranked[0] or not _apart(tests, ranked[0], model)
        )
        told = [_apart(tests, a, b) for place, a in enumerate(leaders) for b in leaders[:place]]
        behind = [tests[ranked[0], model][1] for model in ranked if model not in leaders]
        label = str(rows["estimator"].iloc[0])
        return cls(label, ranked, leaders, not any(told), max(behind, default=NAN), tests)

    @property
    def best(self) -> str:
        """The recommender with the highest estimate; "" where none is defined."""
        return self.ranked[0] if self.ranked else ""

    def difference(self, model: str, other: str) -> tuple[float, float]:
        """Return R(model) − R(other) and its adjusted p-value; NaN where it was not tested."""
        return self.tests.get((model, other), (NAN, NAN))


def _apart(tests: Mapping[tuple[str, str], tuple[float, float]], one: str, other: str) -> bool:
    return tests.get((one, other), (NAN, NAN))[1] < LEVEL


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
    reach : Reach
    """

    metric: str
    standings: Mapping[str, Standing] = field(repr=False)
    estimator: str
    beside: str = ""
    unreliable: tuple[str, ...] = ()
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

    @property
    def lines(self) -> tuple[str, ...]:
        """The verdict in words."""
        return verdict_lines([self])


def verdicts(
    frame: pd.DataFrame,
    differences: pd.DataFrame | None,
    estimators: Sequence[Estimator],
    flags: Mapping[tuple[str, str], str],
) -> tuple[Verdict, ...]:
    """Return the verdict of each metric, without its reach, which needs the ranked positives.

    Parameters
    ----------
    frame : DataFrame
        `Evaluation.frame`.
    differences : DataFrame or None
        `Evaluation.compare()`; None for a single recommender.
    flags : mapping
        (metric, estimator) -> why not to rely on its estimates, or "".
    """
    pairs = (
        {} if differences is None else dict(iter(differences.groupby(["metric", "estimator"], sort=False)))
    )
    standings: dict[str, dict[str, Standing]] = {}
    for (metric, label), rows in frame.groupby(["metric", "estimator"], sort=False):
        standings.setdefault(str(metric), {})[str(label)] = Standing.of(rows, pairs.get((metric, label)))
    found = []
    for metric, own in standings.items():
        chosen = of_record(estimators, {label for label in own if flags.get((metric, label))})
        found.append(Verdict(metric, own, *chosen))
    return tuple(found)


def of_record(estimators: Sequence[Estimator], unreliable: set[str]) -> tuple[str, str, tuple[str, ...]]:
    """Return the estimator of record, the plain one beside it, and the weighted ones that were passed over.

    Of the weighted ones it is the default, else the first that is asked for; one whose weights cannot be
    relied on is passed over. Where none is left it is the plain average.
    """
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
        first = {each.metric: each.leaders[0] for each in mine if len(each.standing.ranked) > 1}
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


def verdict_lines(found: Sequence[Verdict]) -> tuple[str, ...]:
    """Return verdicts in words; metrics with the same answer share their lines."""
    groups: dict[object, list[Verdict]] = {}
    for one in found:
        groups.setdefault(_answer(one), []).append(one)
    if len(found) == 1:
        first, *rest = _sentences(found)
        # A name that begins the sentence stays as it is.
        own = first.startswith(("nobody leads", "only ", "no estimate"))
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
        lines.append(f"By {_listed([one.metric for one in group])}, {' '.join(filter(None, sentences))}")
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
        return [f"only {one.standing.best} has an estimate, so there is nothing to compare.", ""]
    when = f" by {one.estimator}" if one.unreliable else " after weighting" if one.plain is not None else ""
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
        return f"{_listed(leaders)} lead{when}, with the same values."
    if len(leaders) == n and standing.together:
        return f"nobody leads{when}: these data do not tell {_listed(leaders)} apart."
    if len(leaders) == 2:
        return f"{_listed(leaders)} lead{when}; these data do not tell them apart."
    return f"{leaders[0]} is highest{when}; these data do not tell it from {_listed(leaders[1:])}."


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
    return f"Unweighted, {only}{_listed(plain.leaders)} lead{'s' if len(plain.leaders) == 1 else ''}."


def _reached(group: Sequence[Verdict]) -> str:
    """Return for which γ, or up to which error Λ of the weights, the highest stays the highest."""
    one, best = group[0].reach, group[0].standing.best
    if any(each.reach.gamma is None for each in group):
        factors = [each.reach.factor for each in group]
        if any(map(math.isnan, factors)):
            return f"For which weights this holds is not known: {one.unknown}." if one.unknown else ""
        if math.isinf(min(factors)):
            return f"{best} stays highest whatever the weights."
        return f"{best} stays highest unless some weight is wrong by more than a factor {min(factors):.3g}."
    ranges = [each.reach.gamma for each in group if each.reach.gamma is not None]
    low, high = max(one[0] for one in ranges), min(one[1] for one in ranges)
    every = "every γ" if (low, high) == ranges[0][2:] else "γ"
    return f"{best} is highest for {every} from {number(low)} to {number(high)}."


def _listed(names: Sequence[str]) -> str:
    """Return names as a list in words; of many the first ones, and how many more."""
    if len(names) > MOST_NAMES:
        names = [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def number(value: float) -> str:
    """Return a number with two decimals at most, and a minus sign.

    Examples
    --------
    >>> number(-0.334), number(3.0)
    ('−0.33', '3')
    """
    return f"{round(value, 2) + 0.0:g}".replace("-", "−")


def signed(value: float, digits: int) -> str:
    """Return a difference with its sign and so many significant digits.

    Examples
    --------
    >>> signed(0.0204, 2), signed(-0.00033, 1), signed(0.0, 2)
    ('+0.020', '−0.0003', '0')
    """
    if value == 0 or math.isnan(value):
        return "0" if value == 0 else "undefined"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:+.{places}f}".replace("-", "−")


def shown_p(value: float, *, most: bool = False) -> str:
    """Return a p-value in words; its digits never cross the level of the test. `most`: it is the largest.

    Examples
    --------
    >>> shown_p(0.0001), shown_p(0.0123), shown_p(0.48), shown_p(0.0498), shown_p(1.0)
    ('p < .001', 'p = .012', 'p = .48', 'p = .0498', 'p = 1')
    >>> shown_p(0.0123, most=True)
    'p ≤ .012'
    """
    if math.isnan(value):
        return "not tested"
    if value < 0.001:
        return "p < .001"
    text = f"{value:.3f}" if value < 0.1 else f"{value:.2f}"
    if (float(text) < LEVEL) != (value < LEVEL):
        text = f"{value:.4f}"
    return f"p {'≤' if most else '='} {text[1:] if float(text) < 1 else '1'}"
