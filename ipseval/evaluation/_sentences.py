"""The sentences of a verdict: every output takes its words from here."""

from __future__ import annotations

from collections.abc import Sequence

from ipseval.evaluation._verdict import Verdict, Weights, first_claimed
from ipseval.report._words import bare, decimals, listed, shown_p

NOBODY = "Nobody measured exposure"
PLAIN = "the plain average"
PAIRS = "the plain average over pairs"  # where that over users, in the table, has another order
SETTLE = "{} items would settle it: ipseval plan."


def verdict_lines(found: Sequence[Verdict]) -> tuple[str, ...]:
    """Return verdicts in words: that of the headline in full, of the other metrics who is first."""
    first = first_claimed(found)
    groups: dict[tuple[str, str, tuple[str, ...], str | None], list[Verdict]] = {}
    for one in found:
        groups.setdefault((_brief(one), one.reason, one.order[:2], one.choice), []).append(one)
    lines = sentences(first, PAIRS if any(one.by_pairs for one in found) else PLAIN)
    for (words, *_), group in groups.items():
        names = listed([one.metric for one in group if one is not first] or [""])
        if first not in group:
            lines.append(f"By {names} {words}.")
        elif names and first.reason != "single":
            lines.append(f"{names} {'say' if len(group) > 2 else 'says'} the same.")
    if _open(first):
        lines.append(SETTLE.format("More random" if first.exposed else "Random"))
    return (" ".join(lines),)


def _brief(one: Verdict) -> str:
    """Return who is first, to follow the name of a metric."""
    if one.reason == "undefined":
        return "no estimate is defined"
    if one.reason == "contradiction":
        return f"{one.first} is first by the plain average, and {_against(one).best} by weights"
    if one.reason == "not told apart":
        return f"nobody leads, and {one.first} is highest"
    return f"{one.leader} leads" if one.leader else f"{one.first} is first"


def _open(one: Verdict) -> bool:
    """Whether random exposure would tell what the verdict does not."""
    return one.leader is None and one.reason in ("plain", "contradiction") and one.posterior is not None


def sentences(one: Verdict, plain: str = PLAIN) -> list[str]:
    """Return who leads, or why nobody does, how sure that is, and what would settle it."""
    lines = _who(one, plain)
    if one.reason in ("single", "undefined", "equal", "measured", "not told apart"):
        return lines
    lines += _weights(one)
    if one.posterior is None:
        return [*lines, *_untold(one)]
    chosen = one.choice
    if chosen is not None:
        loss = one.posterior.loss[one.posterior.models.index(chosen)]
        lines.append(f"Choosing {chosen} loses {bare(loss, decimals([loss], 1))} of {one.metric} on average.")
    return lines


def _who(one: Verdict, plain: str) -> list[str]:
    """Return who leads, or why nobody does; `plain`: what the plain average is called."""
    order, standing = one.order, one.standing
    if one.reason == "undefined":
        return ["No estimate is defined, so there is no verdict."]
    if one.reason == "single":
        return [f"{order[0]} has the only estimate, so there is nothing to compare."]
    if one.reason == "equal":
        return [f"{listed(one.same)} lead with the same values."]
    if one.reason == "measured":
        rest = f"the other {len(order) - 1}" if len(order) > 2 else order[1]
        told = shown_p(standing.p_value, most=len(order) > 2)
        return [f"{order[0]} leads: with weights {one.weights[0].words} it is better than {rest} ({told})."]
    if one.reason == "not told apart":
        return [f"Nobody leads: these data do not tell {listed(standing.leaders)} apart.", *_found(one)]
    if one.reason == "posterior":
        shown = probability(one.least_ahead(str(one.leader), order), sure=True)
        return [
            f"{one.leader} leads: the correction puts it ahead of each other one with probability {shown}."
        ]
    if one.reason == "contradiction":
        other = _against(one)
        lines = [
            f"No verdict: {plain} puts {order[0]} first, weights {other.words} put {other.best} first.",
            f"Effective sample sizes are {other.equal:,.0f} (plain) and {other.ess:,.0f} (weights, "
            f"{other.judged}).",
        ]
        if one.posterior is not None:
            pair = order[0], other.best
            likely, less = pair if one.p_ahead(*pair) >= 0.5 else pair[::-1]
            shown = _shown(one, likely, less)
            lines.append(f"By the correction {likely} is ahead of {less} with probability {shown}.")
        return lines
    average = one.estimator if one.estimator == one.weighted else plain
    sure = "" if one.posterior is None else f" (probability {_shown(one, order[0], order[1])})"
    lines = [f"By {average} {order[0]} is ahead of {order[1]}{sure}."]
    if one.choice != order[0]:
        shown = _shown(one, str(one.choice), order[0])
        lines.append(f"{one.choice} is ahead of {order[0]} with probability {shown}, so take {one.choice}.")
    return lines


def _against(one: Verdict) -> Weights:
    """Return the weights that put another first than the plain average does."""
    return next(each for each in one.weights if each.contradicts and each.best not in ("", one.first))


def _shown(one: Verdict, model: str, other: str) -> str:
    """Return the probability that one is ahead of another, and where it comes from."""
    whence = "" if one.informed else ", by simulated worlds"
    return f"{probability(one.p_ahead(model, other), one.informed)}{whence}"


def _weights(one: Verdict) -> list[str]:
    """Return what weights say that do not decide."""
    if one.reason == "contradiction":
        return []
    lines = []
    for each in one.weights:
        source = each.words.removeprefix("of ") if each.words.startswith("of γ") else "these weights"
        if each.best == one.order[0] and each.basis != "assumed":
            lines.append(f"Weights {each.words} say the same.")
        elif each.best not in ("", one.order[0]) and each.basis == "assumed":
            start = "If" if one.exposed else f"{NOBODY}; if"
            lines.append(f"{start} {source} were right, {each.best} would be first.")
    if not lines and not one.exposed and all(each.basis == "assumed" for each in one.weights):
        lines.append(f"{NOBODY}, so weights do not decide.")
    return lines


def _untold(one: Verdict) -> list[str]:
    """Return why there is no probability, and what the paired test of the plain average says."""
    lines = [f"No probability can be given, because {one.unknown}."] if one.unknown else []
    if one.reason == "plain" and len(one.leaders) > 1:
        lines = [f"These data do not tell {listed(one.leaders)} apart.", *_found(one), *lines]
    return lines


def _found(one: Verdict) -> list[str]:
    """Return the smallest difference that would have been found."""
    if not one.detectable > 0:
        return []
    shown = bare(one.detectable, decimals([one.detectable], 1))
    return [f"A difference of {shown} would have been found with 80 % power."]


def probability(value: float, sure: bool) -> str:
    """Return a probability: one digit from the log alone, two otherwise."""
    places = 2 if sure else 1
    edge = 1 - 0.5 * 10**-places
    if value >= edge:
        return "above .99" if sure else "above .9"
    if value <= 1 - edge:
        return "below .01" if sure else "below .1"
    return bare(value, places)
