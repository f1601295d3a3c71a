"""The sentences of a verdict; every output takes its wording from this module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ipseval.estimators.labels import SNIPS_GLOBAL, display_name
from ipseval.evaluation.verdict import Outcome, Verdict, WeightSupport, choose_headline
from ipseval.inference.gamma_range import GammaRange
from ipseval.reporting.formatting import (
    count_decimals,
    format_fixed,
    format_number,
    format_p_value,
    join_names,
)


@dataclass(frozen=True)
class VerdictText:
    """A verdict as text: the conclusion, its assumption, and the next step."""

    conclusion: str
    assumption: str = ""
    next_step: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.conclusion, self.assumption, self.next_step)))


PLAN = "`ipseval plan` computes how many users must be shown random items to settle the comparison."


def describe_assumption(support: WeightSupport) -> str:
    """Name the source of the propensities, as it is printed in parentheses after an estimator."""
    if support.gamma is not None:
        source = {"assumed": "assumed", "exposure": "from random exposure"}.get(support.basis, "fitted")
        return f"γ = {format_number(support.gamma)} {source}"
    sources = {
        "design": "propensities known by design",
        "exposure": "propensities from random exposure",
        "fitted": "propensities from impressions",
        "assumed": "propensities assumed",
    }
    return sources[support.basis]


def write_verdict(verdicts: Sequence[Verdict]) -> VerdictText:
    """Write the verdict of the headline metric in full, and a short sentence on the other metrics."""
    headline = choose_headline(verdicts)
    sentences = [*_write_conclusion(headline), *_summarize_other_metrics(headline, verdicts)]
    return VerdictText(
        conclusion=" ".join(sentences),
        assumption=_write_assumption(headline),
        next_step=_write_next_step(headline),
    )


# ---- conclusion ----------------------------------------------------------------------------------


def _write_conclusion(verdict: Verdict) -> list[str]:
    """Return the sentences of the conclusion on one metric."""
    match verdict.outcome:
        case Outcome.UNDEFINED:
            return ["No verdict: every estimate is undefined."]
        case Outcome.SINGLE:
            return [f"Only {verdict.highest_model} has an estimate, so there is nothing to compare."]
        case Outcome.WINNER:
            return [_write_winner(verdict)]
        case Outcome.NOT_SIGNIFICANT:
            return [_write_insignificant_lead(verdict)]
        case Outcome.NO_VERDICT:
            return _write_conflict_of_weights(verdict)
        case Outcome.TIED:
            return _write_tie(verdict)
        case _:
            return _write_ranking_in_log(verdict)


def _write_winner(verdict: Verdict) -> str:
    ranking = verdict.primary_ranking
    estimator = _name_estimator(verdict, verdict.weighted)
    p_value = format_p_value(ranking.p_value, most=False)
    n_rivals = len(ranking.ranked) - 1
    if n_rivals == 1:
        return f"{verdict.leader} is significantly better than {ranking.second_highest} by {estimator}, {p_value}."
    rivals = "both others" if n_rivals == 2 else f"all {n_rivals} others"
    return f"{verdict.leader} is significantly better than {rivals} by {estimator}, largest adjusted {p_value}."


def _write_insignificant_lead(verdict: Verdict) -> str:
    ranking = verdict.primary_ranking
    _, p_value = ranking.difference(ranking.second_highest, ranking.highest)
    test = f"{format_p_value(p_value)} against {ranking.second_highest}"
    estimator = _name_estimator(verdict, verdict.weighted, test)
    return f"No significant winner: {ranking.highest} leads by {estimator}."


def _write_conflict_of_weights(verdict: Verdict) -> list[str]:
    """Return why weights from impressions allow no verdict, with both effective sample sizes."""
    support = verdict.support
    assert support is not None  # this outcome requires weights
    unweighted = display_name(verdict.unweighted)
    if verdict.highest_by_weights in ("", verdict.highest_model):
        weighted = display_name(verdict.weighted)
        return [
            f"No verdict: {verdict.highest_model} leads in the log, but the weights rest on few interactions.",
            f"Effective sample size: {support.ess_equal:,.0f} for {unweighted}, {support.ess:,.0f} for "
            f"{weighted} ({support.quality}).",
        ]
    weighted = _name_estimator(verdict, verdict.weighted)
    return [
        f"No verdict: in the log, {verdict.highest_model} leads by {unweighted}; "
        f"{verdict.highest_by_weights} leads by {weighted}.",
        f"Effective sample sizes: {support.ess_equal:,.0f} and {support.ess:,.0f} ({support.quality}).",
    ]


def _write_tie(verdict: Verdict) -> list[str]:
    """Return which recommenders share the first place in the log, and the first by weights."""
    sentences = [f"{join_names(verdict.primary_ranking.tied)} are tied for first place in the log."]
    if not (verdict.unweighted and verdict.highest_by_weights):
        return sentences
    weighted = verdict.rankings[verdict.weighted]
    if set(weighted.tied) == set(verdict.primary_ranking.tied):
        sentences.append(f"They also tie for first place by {_name_estimator(verdict, verdict.weighted)}.")
    else:
        estimator = _name_weighted_with_test(verdict)
        sentences.append(f"By {estimator}, {weighted.highest} leads.")
    return sentences


def _write_ranking_in_log(verdict: Verdict) -> list[str]:
    """Return the conclusion where exposure was not measured: the ranking by AOA, over γ, and by weights."""
    sentences = []
    if not verdict.is_clear:
        sentences.append("No clear winner.")
    sentences.append(f"{_describe_first(verdict)}.")
    return sentences


def _describe_first(verdict: Verdict) -> str:
    """Return the recommender that ranks first by AOA, its range of γ, and the first by weights.

    The values are not repeated: the table below the verdict shows them in its first two rows.
    """
    ranking = verdict.primary_ranking
    _, p_value = ranking.difference(ranking.second_highest, ranking.highest)
    test = format_p_value(p_value)
    if not verdict.has_rival or ranking.second_highest != verdict.highest_by_weights:
        # Otherwise the sentence names only the two recommenders that are compared.
        test += f" against {ranking.second_highest}"
    text = (
        f"In the log, {ranking.highest} leads by {_name_estimator(verdict, verdict.primary_estimator, test)}"
    )
    gamma_range = verdict.gamma_range
    if gamma_range is not None:
        text += f" and for {_describe_range(gamma_range)}"
    if verdict.has_rival:
        return f"{text}; {verdict.highest_by_weights} leads by {_name_weighted_with_test(verdict)}"
    if gamma_range is None:
        if verdict.unweighted and verdict.highest_by_weights:
            text += f" and by {_name_estimator(verdict, verdict.weighted)}"
        return text
    if gamma_range.next_above:
        return f"{text}; {gamma_range.next_above} overtakes it for larger γ"
    if gamma_range.next_below:
        return f"{text}; {gamma_range.next_below} overtakes it for smaller γ"
    return text


def _describe_range(gamma_range: GammaRange) -> str:
    interval = f"[{format_number(gamma_range.low)}, {format_number(gamma_range.high)}]"
    if gamma_range.is_everywhere:
        return f"every γ in {interval}"
    return f"γ in {interval}"


def _name_weighted_with_test(verdict: Verdict) -> str:
    """Return the name of the weighted estimator with the p-value of its first against its second."""
    if _is_unreliable(verdict):
        return _name_estimator(verdict, verdict.weighted, "unreliable")
    ranking = verdict.rankings[verdict.weighted]
    if not ranking.second_highest:
        return _name_estimator(verdict, verdict.weighted)
    _, p_value = ranking.difference(ranking.second_highest, ranking.highest)
    return _name_estimator(verdict, verdict.weighted, format_p_value(p_value))


def _name_estimator(verdict: Verdict, label: str, remark: str = "") -> str:
    """Return the name of an estimator, with the assumption of its weights and a remark in parentheses."""
    details = []
    if label == verdict.weighted and verdict.support is not None:
        details.append(describe_assumption(verdict.support))
    if remark:
        details.append(remark)
    if not details:
        return display_name(label)
    return f"{display_name(label)} ({'; '.join(details)})"


# ---- other metrics -------------------------------------------------------------------------------


def _summarize_other_metrics(headline: Verdict, verdicts: Sequence[Verdict]) -> list[str]:
    """Return one sentence for each different conclusion of the other metrics."""
    if headline.outcome in (Outcome.SINGLE, Outcome.UNDEFINED):
        return []
    metrics_by_summary: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict is headline:
            continue
        summary = ""
        if not _is_same_conclusion(verdict, headline):
            summary = _summarize(verdict)
        metrics_by_summary.setdefault(summary, []).append(verdict.metric)
    sentences = []
    for summary, metrics in metrics_by_summary.items():
        if summary:
            sentences.append(f"On {join_names(metrics)}, {summary}.")
        elif len(metrics) == 1:
            sentences.append(f"{join_names(metrics)} agrees.")
        else:
            sentences.append(f"{join_names(metrics)} agree.")
    return sentences


def _is_same_conclusion(verdict: Verdict, headline: Verdict) -> bool:
    """Return whether two verdicts have the same outcome and the same recommenders first."""
    return (
        verdict.outcome == headline.outcome
        and verdict.highest_model == headline.highest_model
        and verdict.highest_by_weights == headline.highest_by_weights
        and verdict.leader == headline.leader
    )


def _summarize(verdict: Verdict) -> str:
    """Return the conclusion on one metric as a clause that follows its name."""
    if verdict.outcome == Outcome.UNDEFINED:
        return "every estimate is undefined"
    if verdict.outcome == Outcome.WINNER:
        return f"{verdict.leader} is significantly better than every other recommender"
    if verdict.outcome == Outcome.NOT_SIGNIFICANT:
        return f"{verdict.highest_model} leads, but not significantly"
    clause = f"{verdict.highest_model} leads by {display_name(verdict.primary_estimator)}"
    if verdict.has_rival:
        clause += f", {verdict.highest_by_weights} by {display_name(verdict.weighted)}"
    elif verdict.unweighted and verdict.highest_by_weights and not _is_unreliable(verdict):
        clause += f" and by {display_name(verdict.weighted)}"
    return clause


def _is_unreliable(verdict: Verdict) -> bool:
    """Return whether the weighted estimates are unreliable."""
    return verdict.support is not None and verdict.support.quality == "unreliable"


# ---- assumption and next step --------------------------------------------------------------------


def _write_assumption(verdict: Verdict) -> str:
    """Return the condition under which the estimates behind the verdict are unbiased."""
    if verdict.outcome == Outcome.UNDEFINED:
        return ""
    if verdict.outcome in (Outcome.WINNER, Outcome.NOT_SIGNIFICANT):
        condition = "the logged propensities are the true ones"
        if verdict.weighted == SNIPS_GLOBAL:
            condition += " and users were exposed equally"
        return f"{display_name(verdict.weighted)} is consistent if {condition}."
    clauses = []
    if verdict.unweighted:
        clauses.append(f"{display_name(verdict.unweighted)} is unbiased only if exposure was uniform")
    if verdict.weighted and not verdict.has_guarantee:
        clauses.append(_describe_weights_without_guarantee(verdict))
    elif verdict.weighted and not verdict.is_consistent:
        clauses.append(f"{display_name(verdict.weighted)} is biased even with the true propensities")
    elif verdict.unweighted and verdict.weighted == SNIPS_GLOBAL:
        clauses.append(_describe_global_weights(verdict))
    elif verdict.unweighted:
        clauses += _describe_assumed_weights(verdict.support)
    if not clauses:
        return ""
    return f"{'; '.join(clauses)}."


def _describe_weights_without_guarantee(verdict: Verdict) -> str:
    """Return that weighting has no guarantee for the metric, with an assumed γ."""
    weighted = display_name(verdict.weighted)
    support = verdict.support
    if support is not None and support.basis == "assumed" and support.gamma is not None:
        return (
            f"{weighted} assumes γ = {format_number(support.gamma)}, without guarantee for {verdict.metric}"
        )
    if support is not None and support.basis == "assumed":
        return f"{weighted} assumes the propensities, without guarantee for {verdict.metric}"
    return f"{weighted} has no guarantee for {verdict.metric}"


def _describe_global_weights(verdict: Verdict) -> str:
    """Return the assumptions of globally normalised SNIPS: on users, and on propensities that are assumed."""
    assumptions = ["equally exposed users"]
    support = verdict.support
    if support is not None and support.basis == "assumed" and support.gamma is not None:
        assumptions.insert(0, f"γ = {format_number(support.gamma)}")
    elif support is not None and support.basis == "assumed":
        assumptions.insert(0, "the propensities")
    return f"{display_name(verdict.weighted)} assumes {join_names(assumptions)}"


def _describe_assumed_weights(support: WeightSupport | None) -> list[str]:
    """Return the clause on assumed propensities; nothing where they were measured."""
    if support is None or support.basis != "assumed":
        return []
    if support.gamma is None:
        return ["the propensities are assumed, not measured"]
    return [f"γ = {format_number(support.gamma)} is assumed, as exposure was not measured"]


def _write_next_step(verdict: Verdict) -> str:
    """Return the step that would settle the comparison; "" where it needs none."""
    if verdict.outcome in (Outcome.SINGLE, Outcome.UNDEFINED, Outcome.WINNER):
        return ""
    if verdict.outcome == Outcome.NOT_SIGNIFICANT:
        if not verdict.detectable > 0:
            return "Evaluate more users."
        smallest = format_fixed(verdict.detectable, count_decimals([verdict.detectable], 1))
        return f"Evaluate more users: the test has 80% power to detect a difference of {smallest}."
    if all(set(ranking.tied) == set(ranking.ranked) for ranking in verdict.rankings.values()):
        return ""
    if verdict.support is not None and verdict.support.basis == "exposure":
        return "`ipseval correct` compares the recommenders on the random exposure itself."
    return PLAN
