"""The sentences of a verdict; every output takes its wording from this module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ipseval.estimators.labels import SNIPS_GLOBAL, display_name
from ipseval.evaluation.verdict import ModelRanking, Outcome, Verdict, WeightSupport, choose_headline
from ipseval.inference.gamma_range import GammaRange
from ipseval.reporting.formatting import (
    LEVEL,
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
    sentences = [
        *_write_conclusion(headline),
        *_summarize_other_metrics(headline, verdicts),
        write_first_among_warm(headline, with_metric=len(verdicts) > 1),
    ]
    conclusion = " ".join(filter(None, sentences))
    if headline is not verdicts[0]:
        conclusion = f"{headline.metric}: {conclusion}"
    return VerdictText(
        conclusion=conclusion,
        assumption=" ".join(
            filter(None, (_write_assumption(headline), _name_metrics_without_guarantee(verdicts)))
        ),
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
            return [_write_insignificant_first(verdict)]
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
    return (
        f"{verdict.leader} is significantly better than {rivals} by {estimator}, largest adjusted {p_value}."
    )


def _write_insignificant_first(verdict: Verdict) -> str:
    ranking = verdict.primary_ranking
    estimator = _name_estimator(verdict, verdict.weighted)
    return (
        f"No significant winner: {ranking.highest} ranks first by {estimator}, but the difference from "
        f"{ranking.closest_rival} is not significant ({format_p_value(ranking.closest_p_value)})."
    )


def _write_conflict_of_weights(verdict: Verdict) -> list[str]:
    """Return why weights from impressions allow no verdict, with both effective sample sizes."""
    support = verdict.support
    assert support is not None  # this outcome requires weights
    unweighted = display_name(verdict.unweighted)
    agrees = verdict.highest_by_weights in ("", verdict.highest_model)
    if agrees and support.quality == "clipped":
        return [
            f"No verdict: {verdict.highest_model} ranks first in the log, but clipping removed "
            f"{support.clipped_share:.0%} of the weight, so {display_name(verdict.weighted)} is biased towards "
            f"{unweighted} and does not confirm this."
        ]
    if agrees:
        weighted = display_name(verdict.weighted)
        return [
            f"No verdict: {verdict.highest_model} ranks first in the log, but the weights rest on few "
            "interactions.",
            f"Effective sample size: {support.ess_equal:,.0f} for {unweighted}, {support.ess:,.0f} for "
            f"{weighted} ({support.quality}).",
        ]
    weighted = _name_estimator(verdict, verdict.weighted)
    return [
        f"No verdict: in the log, {verdict.highest_model} ranks first by {unweighted}, but "
        f"{verdict.highest_by_weights} ranks first by {weighted}.",
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
        sentences.append(_write_first_by_weights(verdict, with_significance=True))
    return sentences


def _write_ranking_in_log(verdict: Verdict) -> list[str]:
    """Return the conclusion where exposure was not measured: the ranking by AOA, over γ, and by weights.

    The values are not repeated: the table below the verdict shows them in its first two rows.
    """
    sentences = []
    if not verdict.is_clear:
        sentences.append(_write_no_winner(verdict))

    has_insignificant_pair = _count_insignificant_firsts(verdict) == 2
    with_significance = not has_insignificant_pair
    sentences.append(_write_first_in_log(verdict, with_significance=with_significance))
    if verdict.has_rival:
        sentences.append(_write_first_by_weights(verdict, with_significance=with_significance))
    if has_insignificant_pair:
        sentences.append("Neither is significant.")
    return sentences


def _write_no_winner(verdict: Verdict) -> str:
    """Return that there is no clear winner, and why, unless the reason is that no difference is significant."""
    has_significant_difference = verdict.primary_ranking.closest_p_value < LEVEL
    if (verdict.has_rival or verdict.changes_with_gamma) and has_significant_difference:
        return "No clear winner: it depends on exposure."
    return "No clear winner."


def _count_insignificant_firsts(verdict: Verdict) -> int:
    """Return how many of the p-values that the sentences state are not significant."""
    rankings = [verdict.primary_ranking]
    if verdict.unweighted and verdict.highest_by_weights and not _is_unreliable(verdict):
        rankings.append(verdict.rankings[verdict.weighted])
    return sum(ranking.closest_p_value >= LEVEL for ranking in rankings)


def _write_first_in_log(verdict: Verdict, *, with_significance: bool) -> str:
    """Return the sentence on the first recommender by AOA, with the weights and γ that agree."""
    ranking = verdict.primary_ranking
    test = _describe_test(ranking, with_significance=with_significance)
    criteria = [f"by {_name_estimator(verdict, verdict.primary_estimator, test)}"]
    if verdict.unweighted and verdict.highest_by_weights and not verdict.has_rival:
        test = "unreliable"
        if not _is_unreliable(verdict):
            test = _describe_test(verdict.rankings[verdict.weighted], with_significance=with_significance)
        criteria.append(f"by {_name_estimator(verdict, verdict.weighted, test)}")

    successor = ""
    if verdict.gamma_range is not None:
        criteria.append(f"for {describe_range(verdict.gamma_range)}")
        successor = _describe_successor(verdict)
    return f"In the log, {ranking.highest} ranks first {_join_phrases(criteria)}{successor}."


def _join_phrases(phrases: Sequence[str]) -> str:
    """Return phrases as an enumeration."""
    if len(phrases) == 1:
        return phrases[0]
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def describe_range(gamma_range: GammaRange) -> str:
    """Return a range of γ as text."""
    interval = f"[{format_number(gamma_range.low)}, {format_number(gamma_range.high)}]"
    if gamma_range.is_everywhere:
        return f"every γ in {interval}"
    return f"γ in {interval}"


def _describe_successor(verdict: Verdict) -> str:
    """Return the clause on the recommender that ranks first beyond the range of γ; "" without one.

    It is not needed for the recommender that the next sentence names as the first by the weighted estimates.
    """
    gamma_range = verdict.gamma_range
    assert gamma_range is not None  # the caller states the range
    successor = gamma_range.next_above or gamma_range.next_below
    if not successor or (verdict.has_rival and successor == verdict.highest_by_weights):
        return ""
    comparative = "larger" if gamma_range.next_above else "smaller"
    return f"; for slightly {comparative} γ, {successor} does"


def _write_first_by_weights(verdict: Verdict, *, with_significance: bool) -> str:
    """Return the sentence on the recommender that ranks first by the weighted estimates.

    The rival is named unless the sentence on AOA compares the same two recommenders.
    """
    if _is_unreliable(verdict):
        estimator = _name_estimator(verdict, verdict.weighted, "unreliable")
        return f"By {estimator}, {verdict.highest_by_weights} ranks first."
    ranking = verdict.rankings[verdict.weighted]
    sentence = f"By {_name_estimator(verdict, verdict.weighted)}, {ranking.highest} ranks first"
    if not ranking.closest_rival:
        return f"{sentence}."
    test = format_p_value(ranking.closest_p_value)
    first = verdict.primary_ranking
    if {ranking.highest, ranking.closest_rival} != {first.highest, first.closest_rival}:
        test += f" against {ranking.closest_rival}"
    if with_significance and ranking.closest_p_value >= LEVEL:
        sentence += ", but not significantly"
    return f"{sentence} ({test})."


def write_first_among_warm(verdict: Verdict, *, with_metric: bool = True) -> str:
    """Return the first place among users with training interactions; "" where it equals the conclusion."""
    first = verdict.first_among_warm
    if first is None:
        return ""
    subject = f"Among users with training interactions, {join_names(first.models)}"
    criterion = f"by {display_name(verdict.primary_estimator)}"
    if with_metric:
        criterion = f"on {verdict.metric} {criterion}"
    if len(first.models) > 1:
        return f"{subject} are tied for first place {criterion}."
    significance = "" if first.is_significant else ", but not significantly"
    test = f"{format_p_value(first.p_value)} against {first.rival}"
    return f"{subject} ranks first {criterion}{significance} ({test})."


def _describe_test(ranking: ModelRanking, *, with_significance: bool = False) -> str:
    """Return the p-value of the first recommender with its rival, and whether it is not significant."""
    if not ranking.closest_rival:
        return ""
    p_value = ranking.closest_p_value
    text = f"{format_p_value(p_value)} against {ranking.closest_rival}"
    if with_significance and p_value >= LEVEL:
        text += ", not significant"
    return text


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
            summary = _summarize(verdict, headline)
        metrics_by_summary.setdefault(summary, []).append(verdict.metric)
    sentences = []
    for summary, metrics in metrics_by_summary.items():
        if summary:
            sentences.append(f"On {join_names(metrics)}, {summary}.")
        else:
            sentences.append(_write_same_conclusion(headline, join_names(metrics)))
    return sentences


def _write_same_conclusion(headline: Verdict, metrics: str) -> str:
    """Return what other metrics confirm: the first recommenders and the significant differences."""
    if headline.outcome == Outcome.WINNER:
        return f"On {metrics}, {headline.leader} is significantly better than every other recommender, too."
    if headline.outcome == Outcome.TIED:
        return f"The same recommenders are tied on {metrics}."
    labels = [headline.primary_estimator]
    if headline.unweighted and headline.highest_by_weights:
        labels.append(headline.weighted)
    significant = [label for label in labels if _conclude(headline, label)[1]]
    if len({headline.rankings[label].highest for label in labels}) == 1:
        return f"{headline.highest_model} also ranks first on {metrics}, {_name_significance(significant, labels)}."
    return f"The same two rank first on {metrics}, {_name_significance(significant, labels)}."


def _name_significance(significant: Sequence[str], labels: Sequence[str]) -> str:
    """Return which of the estimators find a significant difference on other metrics, as on the first one."""
    if not significant:
        return "again not significantly"
    if len(significant) == len(labels):
        return "again significantly"
    return f"significantly by {display_name(significant[0])} only"


def _is_same_conclusion(verdict: Verdict, headline: Verdict) -> bool:
    """Return whether two verdicts have the same outcome, first recommenders and significant differences.

    γ changes the first recommender in both or in neither.
    """
    return (
        verdict.outcome == headline.outcome
        and verdict.changes_with_gamma == headline.changes_with_gamma
        and _conclude(verdict, verdict.unweighted) == _conclude(headline, headline.unweighted)
        and _conclude(verdict, verdict.weighted) == _conclude(headline, headline.weighted)
    )


def _conclude(verdict: Verdict, label: str) -> tuple[str, bool]:
    """Return the first recommender by an estimator, and whether its difference from the rival is significant."""
    if not label:
        return "", False
    ranking = verdict.rankings[label]
    if label == verdict.weighted and _is_unreliable(verdict):
        return ranking.highest, False
    return ranking.highest, ranking.closest_p_value < LEVEL


def _summarize(verdict: Verdict, headline: Verdict) -> str:
    """Return the conclusion on one metric as a clause that follows its name."""
    ranking = verdict.primary_ranking
    match verdict.outcome:
        case Outcome.UNDEFINED:
            return "every estimate is undefined"
        case Outcome.SINGLE:
            return f"only {ranking.highest} has an estimate"
        case Outcome.WINNER:
            return f"{verdict.leader} is significantly better than every other recommender"
        case Outcome.NOT_SIGNIFICANT:
            test = _describe_test(ranking)
            return f"{ranking.highest} ranks first, but not significantly ({test})"
        case Outcome.TIED:
            return f"{join_names(ranking.tied)} are tied for first place in the log"
        case _:
            return _summarize_ranking_in_log(verdict, headline)


def _summarize_ranking_in_log(verdict: Verdict, headline: Verdict) -> str:
    """Return the first recommenders by AOA and by weights on one metric, with p-values."""
    by_estimator = _summarize_first(verdict, verdict.primary_estimator, headline)
    clause = f"{verdict.highest_model} ranks first by {by_estimator}"
    if not verdict.unweighted or not verdict.highest_by_weights or _is_unreliable(verdict):
        return clause
    by_weights = _summarize_first(verdict, verdict.weighted, headline)
    if verdict.has_rival:
        return f"{clause}, and {verdict.highest_by_weights} ranks first by {by_weights}"
    clause = f"{clause} and {by_weights}"
    if verdict.gamma_range is not None and verdict.changes_with_gamma != headline.changes_with_gamma:
        return f"{clause}, and for {describe_range(verdict.gamma_range)}"
    return clause


def _summarize_first(verdict: Verdict, label: str, headline: Verdict) -> str:
    """Return an estimator with the p-value of its first recommender.

    The rival is named unless the two recommenders are those that the sentence on the first metric compares.
    """
    ranking = verdict.rankings[label]
    details = []
    if ranking.closest_rival:
        details.append(format_p_value(ranking.closest_p_value))
        if {ranking.highest, ranking.closest_rival} != set(_get_compared_pair(headline)):
            details.append(f"against {ranking.closest_rival}")
        if label == verdict.unweighted:
            details.append("in the log")
    if not details:
        return display_name(label)
    return f"{display_name(label)} ({' '.join(details)})"


def _get_compared_pair(verdict: Verdict) -> tuple[str, str]:
    """Return the only two recommenders that the sentences on a metric compare; ("", "") if there are more."""
    names = set()
    for label in (verdict.unweighted, verdict.weighted):
        if label:
            names |= {verdict.rankings[label].highest, verdict.rankings[label].closest_rival}
    if len(names) != 2:
        return "", ""
    first, second = sorted(names)
    return first, second


def _is_unreliable(verdict: Verdict) -> bool:
    """Return whether the weighted estimates are unreliable."""
    return verdict.support is not None and verdict.support.quality == "unreliable"


# ---- assumption and next step --------------------------------------------------------------------


def _write_assumption(verdict: Verdict) -> str:
    """Return the condition under which the estimates behind the verdict are unbiased."""
    if verdict.outcome == Outcome.UNDEFINED:
        return ""
    if verdict.outcome in (Outcome.WINNER, Outcome.NOT_SIGNIFICANT):
        level = "consistent"
        condition = "the logged propensities are the true ones"
        if verdict.weighted == SNIPS_GLOBAL:
            # A small bias remains because the number of held-out interactions of a user is random.
            level = "nearly consistent"
            condition += " and users were exposed equally"
        return f"{display_name(verdict.weighted)} is {level} if {condition}."
    assumptions = _list_assumptions(verdict)
    sentences = []
    if verdict.unweighted and assumptions:
        sentences.append(f"{display_name(verdict.unweighted)}: uniform exposure.")
    elif verdict.unweighted:
        sentences.append(f"{display_name(verdict.unweighted)} is unbiased only if exposure was uniform.")
    if verdict.weighted:
        sentences += _write_assumption_of_weights(verdict, assumptions)
    elif verdict.gamma_range is not None:
        sentences.append("γ means propensities ∝ popularity^((γ+1)/2).")
    return " ".join(sentences)


def _write_assumption_of_weights(verdict: Verdict, assumptions: Sequence[str]) -> list[str]:
    """Return the sentences on the assumptions and the guarantee of the weighted estimator."""
    weighted = display_name(verdict.weighted)
    sentences = []
    if assumptions:
        sentences.append(f"{weighted}: {', '.join(assumptions)}.")
    if verdict.has_guarantee and not verdict.is_consistent:
        sentences.append(f"{weighted} is biased even with the true propensities.")
    return sentences


def _name_metrics_without_guarantee(verdicts: Sequence[Verdict]) -> str:
    """Return for which metrics the weighted estimates have no guarantee; "" where there are none."""
    metrics = [verdict.metric for verdict in verdicts if verdict.weighted and not verdict.has_guarantee]
    if not metrics:
        return ""
    weighted = display_name(verdicts[0].weighted)
    return f"For {join_names(metrics)}, {weighted} may be biased even with the true propensities."


def _list_assumptions(verdict: Verdict) -> list[str]:
    """Return the assumptions of the weighted estimator on users, and on propensities that are not measured."""
    assumptions: list[str] = []
    support = verdict.support
    if not verdict.weighted:
        return assumptions
    if verdict.weighted == SNIPS_GLOBAL:
        assumptions.append("equally exposed users")
    if support is not None and support.basis != "design" and support.gamma is None:
        assumptions.append("true propensities")
    if support is not None and support.basis == "fitted":
        assumptions.append("every item could be shown")
    if support is not None and support.gamma is not None:
        assumptions.append(_describe_power_law(support.gamma))
    return assumptions


def _describe_power_law(gamma: float) -> str:
    """Return the propensities that a value of γ states, with popularity the number of training interactions."""
    return f"propensities ∝ popularity^((γ+1)/2), γ = {format_number(gamma)}"


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
    return f"Show random items to some users (see `ipseval plan`), or report {_list_results(verdict)}."


def _list_results(verdict: Verdict) -> str:
    """Return the content of a report where no random items can be shown."""
    n_columns = len(verdict.columns)
    columns = "all columns"
    if n_columns == 1:
        columns = display_name(verdict.columns[0])
    elif n_columns == 2:
        columns = "both columns"
    if verdict.gamma_range is not None:
        return f"{columns} and the range of γ"
    return f"{columns} and the assumption"
