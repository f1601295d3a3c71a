"""Verdicts in words: who leads as far as the paired test supports it, and numbers as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ipseval.evaluation._verdict import Standing, Verdict
from ipseval.report._words import listed, number, shown_p, signed

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
