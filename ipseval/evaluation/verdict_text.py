"""The sentences of a verdict: every output takes its words from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ipseval.estimators.labels import display_name
from ipseval.evaluation.verdict import Outcome, Standing, Verdict, WeightSupport, choose_headline
from ipseval.inference.gamma_range import GammaRange
from ipseval.reporting.formatting import decimals, fixed, listed, number, shown_p


@dataclass(frozen=True)
class VerdictText:
    """A verdict in words: the conclusion, its assumption, and the next step."""

    conclusion: str
    assumption: str = ""
    next_step: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.conclusion, self.assumption, self.next_step)))


PLAN = "`ipseval plan` computes how many users must be shown random items to settle the comparison."


def describe_assumption(support: WeightSupport) -> str:
    """Name where the propensities come from, to stand in parentheses behind an estimator."""
    if support.gamma is not None:
        source = {"assumed": "assumed", "exposure": "from random exposure"}.get(support.basis, "fitted")
        return f"γ = {number(support.gamma)} {source}"
    sources = {
        "design": "propensities known by design",
        "exposure": "propensities from random exposure",
        "fitted": "propensities from impressions",
        "assumed": "propensities assumed",
    }
    return sources[support.basis]


def write_verdict(verdicts: Sequence[Verdict]) -> VerdictText:
    """Word the verdict of the headline metric in full, and those of the other metrics in half a sentence."""
    headline = choose_headline(verdicts)
    sentences = [*_conclusion(headline), *_other_metrics(headline, verdicts)]
    return VerdictText(" ".join(sentences), _assumption(headline), _next_step(headline))


def _conclusion(verdict: Verdict) -> list[str]:
    """Return the sentences that conclude from one metric."""
    if verdict.outcome == Outcome.UNDEFINED:
        return ["No verdict: every estimate is undefined."]
    if verdict.outcome == Outcome.SINGLE:
        return [f"Only {verdict.first} has an estimate, so there is nothing to compare."]
    if verdict.outcome == Outcome.WINNER:
        return [_winner(verdict)]
    if verdict.outcome == Outcome.NOT_SIGNIFICANT:
        return [_no_winner(verdict)]
    if verdict.outcome == Outcome.NO_VERDICT:
        return _no_verdict(verdict)
    if verdict.outcome == Outcome.TIED:
        return [
            f"{listed(verdict.standing.tied)} are tied for first place in the log.",
            *_weights_of_tied(verdict),
        ]
    return _not_identified(verdict)


def _winner(verdict: Verdict) -> str:
    standing = verdict.standing
    n_others = len(standing.ranked) - 1
    others = f"all {n_others} others" if n_others > 1 else standing.second
    largest = "largest adjusted " if n_others > 1 else ""
    p_value = shown_p(standing.p_value, most=False)
    return (
        f"{verdict.leader} is significantly better than {others} by {_estimator(verdict, verdict.weighted)}, "
        f"{largest}{p_value}."
    )


def _no_winner(verdict: Verdict) -> str:
    standing = verdict.standing
    _, p_value = standing.difference(standing.second, standing.best)
    return (
        f"No significant winner: {standing.best} ranks first by {_estimator(verdict, verdict.weighted)}, "
        f"but its "
        f"difference from {standing.second} is not statistically significant ({shown_p(p_value)})."
    )


def _no_verdict(verdict: Verdict) -> list[str]:
    support = verdict.support
    assert support is not None  # there is no such outcome without weights
    if verdict.first_by_weights in ("", verdict.first):
        reason = (
            f"No verdict: {verdict.first} ranks first in the log, but the weights rest on few interactions."
        )
    else:
        reason = (
            f"No verdict: {verdict.first} ranks first by {display_name(verdict.unweighted)} in the log, but "
            f"{verdict.first_by_weights} ranks first by {_estimator(verdict, verdict.weighted)}."
        )
    sizes = (
        f"Effective sample size: {support.ess_equal:,.0f} for {display_name(verdict.unweighted)}, "
        f"{support.ess:,.0f} for {display_name(verdict.weighted)} ({support.quality})."
    )
    return [reason, sizes]


def _not_identified(verdict: Verdict) -> list[str]:
    first_in_log = _first_in_log(verdict)
    contradicted = verdict.unweighted and verdict.first_by_weights not in ("", verdict.first)
    gamma_range = verdict.gamma_range
    changes = gamma_range is not None and not gamma_range.is_everywhere
    is_close = len(verdict.standing.leaders) > 1
    start = ["No clear winner."] if contradicted or changes or is_close else []
    return [*start, first_in_log, *_gamma(verdict)]


def _first_in_log(verdict: Verdict) -> str:
    """Return who ranks first in the log, and the adjusted p-value of the difference from the second.

    The values are not repeated: the table below the verdict shows them in its first two rows.
    """
    standing = verdict.standing
    _, p_value = standing.difference(standing.second, standing.best)
    name = _estimator(verdict, verdict.primary)
    compared = f"{shown_p(p_value)} against {standing.second}"
    return f"In the log, {standing.best} ranks first by {name} ({compared})."


def _weights_of_tied(verdict: Verdict) -> list[str]:
    """Return who ranks first by the weights where several recommenders are tied in the log."""
    if not (verdict.unweighted and verdict.first_by_weights):
        return []
    if set(verdict.standings[verdict.weighted].tied) == set(verdict.standing.tied):
        return [f"They also tie for first place by {_estimator(verdict, verdict.weighted)}."]
    return [f"By {_first_by_weights(verdict)}."]


def _gamma(verdict: Verdict) -> list[str]:
    """Return for which γ the first by AOA stays first, and who ranks first by the weights."""
    gamma_range = verdict.gamma_range
    by_weights = _first_by_weights(verdict) if verdict.unweighted and verdict.first_by_weights else ""
    agrees = verdict.first_by_weights == verdict.first
    if gamma_range is None:
        if not by_weights:
            return []
        if agrees:
            return [f"It also ranks first by {_estimator(verdict, verdict.weighted)}."]
        return [f"By {by_weights}."]
    if gamma_range.is_everywhere:
        stays = f"{gamma_range.first} stays first for every γ in {_interval(gamma_range)}"
    else:
        stays = f"{gamma_range.first} stays first for γ in {_interval(gamma_range)}"
    if by_weights and not agrees:
        return [f"{stays}; by {by_weights}."]
    successor = gamma_range.next_above or gamma_range.next_below
    if successor:
        return [f"{stays}, then {successor} takes over."]
    return [f"{stays}."]


def _interval(gamma_range: GammaRange) -> str:
    return f"[{number(gamma_range.low)}, {number(gamma_range.high)}]"


def _first_by_weights(verdict: Verdict) -> str:
    """Return who ranks first by the weighted estimator, to follow "by"."""
    standing: Standing = verdict.standings[verdict.weighted]
    name = _estimator(verdict, verdict.weighted)
    if verdict.support is not None and verdict.support.quality == "unreliable":
        return f"{name}, which is unreliable, {standing.best} ranks first"
    if not standing.second:
        return f"{name} {standing.best} ranks first"
    _, p_value = standing.difference(standing.second, standing.best)
    return f"{name} {standing.best} ranks first ({shown_p(p_value)})"


def _estimator(verdict: Verdict, label: str) -> str:
    """Return the name of an estimator, a weighted one with its assumption."""
    if label != verdict.weighted or verdict.support is None:
        return display_name(label)
    return f"{display_name(label)} ({describe_assumption(verdict.support)})"


def _other_metrics(headline: Verdict, verdicts: Sequence[Verdict]) -> list[str]:
    """Return what the other metrics conclude, those that agree together."""
    if headline.outcome in (Outcome.SINGLE, Outcome.UNDEFINED):
        return []
    groups: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict is not headline:
            agrees = _key(verdict) == _key(headline)
            groups.setdefault("" if agrees else _brief(verdict), []).append(verdict.metric)
    sentences = []
    for brief, metrics in groups.items():
        names = listed(metrics)
        if brief:
            sentences.append(f"On {names}, {brief}.")
        else:
            verb = "leads" if len(metrics) == 1 else "lead"
            sentences.append(f"{names} {verb} to the same conclusion.")
    return sentences


def _key(verdict: Verdict) -> tuple[str, str, str, str | None]:
    """Return what two verdicts have in common where they lead to the same conclusion."""
    return verdict.outcome, verdict.first, verdict.first_by_weights, verdict.leader


def _brief(verdict: Verdict) -> str:
    """Return who ranks first, to follow the name of a metric."""
    if verdict.outcome == Outcome.UNDEFINED:
        return "every estimate is undefined"
    if verdict.outcome == Outcome.WINNER:
        return f"{verdict.leader} is significantly better than every other recommender"
    if verdict.outcome == Outcome.NOT_SIGNIFICANT:
        return f"{verdict.first} ranks first, but not significantly"
    by_log = f"{verdict.first} ranks first by {display_name(verdict.primary)}"
    if verdict.unweighted and verdict.first_by_weights not in ("", verdict.first):
        return f"{by_log} and {verdict.first_by_weights} by {display_name(verdict.weighted)}"
    return by_log


def _assumption(verdict: Verdict) -> str:
    """Return under which condition the estimates that the verdict rests on are unbiased."""
    if verdict.outcome == Outcome.UNDEFINED:
        return ""
    if verdict.outcome in (Outcome.WINNER, Outcome.NOT_SIGNIFICANT):
        return f"{display_name(verdict.weighted)} is consistent if the logged propensities are the true ones."
    sentences = []
    support = verdict.support
    if verdict.unweighted:
        condition = f"{display_name(verdict.unweighted)} is unbiased only if exposure was uniform"
        if support is None or support.basis != "assumed":
            sentences.append(f"{condition}.")
        elif support.gamma is None:
            sentences.append(f"{condition}; the propensities are assumed, not measured.")
        else:
            sentences.append(
                f"{condition}; γ = {number(support.gamma)} is assumed, as exposure was not measured."
            )
    if verdict.weighted and not verdict.has_guarantee:
        sentences.append(f"Weighting has no guarantee for {verdict.metric}.")
    return " ".join(sentences)


def _next_step(verdict: Verdict) -> str:
    """Return what would settle the comparison; "" where there is nothing to settle."""
    if verdict.outcome in (Outcome.SINGLE, Outcome.UNDEFINED, Outcome.WINNER):
        return ""
    if verdict.outcome == Outcome.NOT_SIGNIFICANT:
        if not verdict.detectable > 0:
            return "Evaluate more users."
        smallest = fixed(verdict.detectable, decimals([verdict.detectable], 1))
        return f"Evaluate more users: the test has 80% power to detect a difference of {smallest}."
    if all(set(standing.tied) == set(standing.ranked) for standing in verdict.standings.values()):
        return ""
    if verdict.support is not None and verdict.support.basis == "exposure":
        return "`ipseval correct` compares the recommenders on the random exposure itself."
    return PLAN
