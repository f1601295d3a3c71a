"""The sentences of a verdict; every output takes its wording from this module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ipseval.evaluation.verdict import ModelRanking, Outcome, Verdict, WeightSupport, choose_headline
from ipseval.inference.gamma_range import GammaRange
from ipseval.reporting.formatting import (
    LEVEL,
    count_decimals,
    format_fixed,
    format_inner_interval,
    format_number,
    format_p_value,
    join_names,
)

POWER_OF_POPULARITY = (
    "popularity^((γ+1)/2)"  # to which a power law assumes that propensities are proportional
)


EQUAL_EXPOSURE = "equally exposed users"  # of which the log contains about the same share of what each likes


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
        "logged": "logged propensities",
        "fitted": "propensities from impressions",
        "assumed": "propensities assumed",
    }
    return sources[support.basis]


def write_verdict(verdicts: Sequence[Verdict]) -> VerdictText:
    """Write the verdict of the headline metric in full, and a short sentence on the other metrics."""
    headline = choose_headline(verdicts)
    on_metric = _name_headline_metric(headline, verdicts)
    has_winner = any(verdict.outcome == Outcome.WINNER for verdict in verdicts)
    sentences = [
        *_write_conclusion(headline, on_metric, has_winner=has_winner),
        *_summarize_other_metrics(headline, verdicts),
        write_first_among_warm(headline, with_metric=len(verdicts) > 1),
    ]
    limits = [
        _write_assumption(headline),
        _name_metrics_without_guarantee(verdicts),
        _name_metrics_weighted_between_users(verdicts),
    ]
    return VerdictText(
        conclusion=" ".join(filter(None, sentences)),
        assumption=" ".join(filter(None, limits)),
        next_step=_write_next_step(headline),
    )


def _name_headline_metric(headline: Verdict, verdicts: Sequence[Verdict]) -> str:
    """Return the phrase that names the metric of the first sentence; "" where there is a single metric."""
    if headline is not verdicts[0]:
        return f" on {headline.metric} (first metric with a guarantee)"
    if len(verdicts) > 1:
        return f" on {headline.metric}"
    return ""


# ---- conclusion ----------------------------------------------------------------------------------


def _write_conclusion(verdict: Verdict, on_metric: str, *, has_winner: bool) -> list[str]:
    """Return the sentences of the conclusion on one metric, which the phrase `on_metric` names.

    `has_winner` states whether there is a winner by some metric.
    """
    match verdict.outcome:
        case Outcome.UNDEFINED:
            return ["No verdict: every estimate is undefined."]
        case Outcome.SINGLE:
            return [f"Only {verdict.highest_model} has an estimate, so there is nothing to compare."]
        case Outcome.WINNER:
            return [_write_winner(verdict, on_metric)]
        case Outcome.NOT_SIGNIFICANT:
            return [_write_insignificant_first(verdict, on_metric)]
        case Outcome.NO_VERDICT:
            return _write_conflict_of_weights(verdict, on_metric)
        case Outcome.TIED:
            return _write_tie(verdict, on_metric)
        case _:
            return _write_ranking_in_log(verdict, on_metric, has_winner=has_winner)


def _write_winner(verdict: Verdict, on_metric: str) -> str:
    ranking = verdict.primary_ranking
    estimator = _name_estimator(verdict, verdict.weighted)
    p_value = format_p_value(ranking.p_value, most=False)
    n_rivals = len(ranking.ranked) - 1
    if n_rivals == 1:
        return (
            f"{verdict.leader} is significantly better than {ranking.second_highest}{on_metric} by {estimator}, "
            f"{p_value}."
        )
    rivals = "both others" if n_rivals == 2 else f"all {n_rivals} others"
    return (
        f"{verdict.leader} is significantly better than {rivals}{on_metric} by {estimator}, "
        f"largest adjusted {p_value}."
    )


def _write_insignificant_first(verdict: Verdict, on_metric: str) -> str:
    ranking = verdict.primary_ranking
    estimator = _name_estimator(verdict, verdict.weighted)
    return (
        f"No significant winner{on_metric}: {ranking.highest} ranks first by {estimator}, but the difference from "
        f"{ranking.closest_rival} is not significant ({format_p_value(ranking.closest_p_value)})."
    )


def _write_conflict_of_weights(verdict: Verdict, on_metric: str) -> list[str]:
    """Return why the weights allow no verdict, with both effective sample sizes where AOA was computed."""
    support = verdict.support
    assert support is not None  # this outcome requires weights
    if verdict.has_failed_weights:
        return [_write_failed_weights(verdict, on_metric)]
    if verdict.rests_on_unreliable_weights:
        weighted = verdict.name_estimator(verdict.weighted)
        return [f"No verdict{on_metric}: {weighted} is unreliable, and no unweighted average was computed."]
    unweighted = verdict.name_estimator(verdict.unweighted)
    agrees = verdict.highest_by_weights in ("", verdict.highest_model)
    weighted = verdict.name_estimator(verdict.weighted)
    if agrees and support.quality == "clipped":
        return [
            f"No verdict{on_metric}: {verdict.highest_model} ranks first in the log, but clipping removed "
            f"{support.clipped_share:.0%} of the weight, so {weighted} is biased towards {unweighted} and does "
            "not confirm this."
        ]
    if agrees:
        return [
            f"No verdict{on_metric}: {verdict.highest_model} ranks first in the log, but the weights rest on few "
            "interactions.",
            f"Effective sample size: {support.ess_unweighted:,.0f} for {unweighted}, {support.ess:,.0f} for "
            f"{weighted} ({support.quality}).",
        ]
    return [
        f"No verdict{on_metric}: in the log, {verdict.highest_model} ranks first by {unweighted}, but "
        f"{verdict.highest_by_weights} ranks first by {_name_estimator(verdict, verdict.weighted)}.",
        f"Effective sample sizes: {support.ess_unweighted:,.0f} and {support.ess:,.0f} ({support.quality}).",
    ]


def _write_failed_weights(verdict: Verdict, on_metric: str) -> str:
    """Return that no weighted estimate is interpreted, because the propensities do not fit a recommender."""
    assert verdict.support is not None  # it names the recommenders
    models = verdict.support.failing_models
    verb = "lists" if len(models) == 1 else "list"
    reason = f"the propensities do not fit the items that {join_names(models)} {verb} (see Sanity)"
    weighted = verdict.name_estimator(verdict.weighted)
    if not verdict.unweighted:
        return f"No verdict{on_metric}: {reason}, so {weighted} allows no conclusion."
    first = f"{verdict.highest_model} ranks first"
    tied = verdict.primary_ranking.tied
    if tied:
        first = f"{join_names(tied)} are tied for first place"
    return f"No verdict{on_metric}: {first} in the log, but {reason}, so {weighted} does not confirm this."


def _write_tie(verdict: Verdict, on_metric: str) -> list[str]:
    """Return which recommenders share the first place in the log, and the first by weights."""
    sentences = [
        f"{join_names(verdict.primary_ranking.tied)} are tied for first place in the log{on_metric}."
    ]
    if not (verdict.unweighted and verdict.highest_by_weights):
        return sentences
    weighted = verdict.rankings[verdict.weighted]
    if set(weighted.tied) == set(verdict.primary_ranking.tied):
        sentences.append(f"They also tie for first place by {_name_estimator(verdict, verdict.weighted)}.")
    else:
        sentences.append(_write_first_by_weights(verdict, with_significance=True))
    return sentences


def _write_ranking_in_log(verdict: Verdict, on_metric: str, *, has_winner: bool) -> list[str]:
    """Return the conclusion where exposure was not measured: the ranking by AOA, over γ, and by weights.

    The values are not repeated: the table below the verdict shows them in its first two rows. Without a winner by
    any metric, the words "No clear winner" name no metric, because they would suggest a winner by another one.
    """
    sentences = []
    if not verdict.is_clear:
        if has_winner:
            sentences.append(_write_no_winner(verdict, on_metric))
            on_metric = ""
        else:
            sentences.append(_write_no_winner(verdict, ""))

    has_insignificant_pair = _count_insignificant_firsts(verdict) == 2
    with_significance = not has_insignificant_pair
    sentences.append(_write_first_in_log(verdict, on_metric, with_significance=with_significance))
    if verdict.has_rival:
        sentences.append(_write_first_by_weights(verdict, with_significance=with_significance))
    if has_insignificant_pair:
        sentences.append("Neither difference is significant.")
    return sentences


def _write_no_winner(verdict: Verdict, on_metric: str) -> str:
    """Return that there is no clear winner, and why, unless the reason is that no difference is significant."""
    has_significant_difference = verdict.primary_ranking.closest_p_value < LEVEL
    if (verdict.has_rival or verdict.changes_with_gamma) and has_significant_difference:
        return f"No clear winner{on_metric}: the order depends on exposure."
    return f"No clear winner{on_metric}."


def _count_insignificant_firsts(verdict: Verdict) -> int:
    """Return how many of the p-values that the sentences state are not significant."""
    rankings = [verdict.primary_ranking]
    if verdict.unweighted and verdict.highest_by_weights and not _is_unreliable(verdict):
        rankings.append(verdict.rankings[verdict.weighted])
    return sum(ranking.closest_p_value >= LEVEL for ranking in rankings)


def _write_first_in_log(verdict: Verdict, on_metric: str, *, with_significance: bool) -> str:
    """Return the sentences on the first recommender by AOA, with the weights and γ that agree.

    The rival by weights is named unless it is that of AOA. The range of γ has a sentence of its own where no
    weighted estimate is printed, because it is one by SNIPS.
    """
    ranking = verdict.primary_ranking
    test = _describe_test(ranking, with_significance=with_significance)
    criteria = [f"by {_name_estimator(verdict, verdict.primary_estimator, test)}"]
    if verdict.unweighted and verdict.highest_by_weights and not verdict.has_rival:
        test = "unreliable"
        if not _is_unreliable(verdict):
            weighted = verdict.rankings[verdict.weighted]
            test = _describe_test(
                weighted,
                with_rival=weighted.closest_rival != ranking.closest_rival,
                with_significance=with_significance,
            )
        criteria.append(f"by {_name_estimator(verdict, verdict.weighted, test)}")

    first = f"In the log, {ranking.highest} ranks first{on_metric}"
    if verdict.gamma_range is None:
        return f"{first} {_join_phrases(criteria)}."
    range_clause = f"for {describe_range(verdict.gamma_range)}"
    successor = _describe_successor(verdict)
    if not verdict.weighted:
        in_range = f"{ranking.highest} ranks first {range_clause}{successor}"
        return f"{first} {_join_phrases(criteria)}. By SNIPS (not in the table), {in_range}."
    if len(criteria) == 1:  # the range is one by SNIPS, which the sentence has not named yet
        range_clause = f"by SNIPS {range_clause}"
    return f"{first} {_join_phrases([*criteria, range_clause])}{successor}."


def _join_phrases(phrases: Sequence[str]) -> str:
    """Return phrases as an enumeration."""
    if len(phrases) == 1:
        return phrases[0]
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def describe_range(gamma_range: GammaRange) -> str:
    """Return a range of γ as text, with ends rounded inwards: the recommender is first at the printed ends."""
    limits = (gamma_range.lowest, gamma_range.highest)
    interval = format_inner_interval(gamma_range.low, gamma_range.high, limits)
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
    return f"; for slightly {comparative} γ, {successor} ranks first"


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
    if first is None or (verdict.has_failed_weights and not verdict.unweighted):
        return ""
    subject = f"Among users with training interactions, {join_names(first.models)}"
    criterion = f"by {verdict.name_estimator(verdict.primary_estimator)}"
    if with_metric:
        criterion = f"on {verdict.metric} {criterion}"
    if len(first.models) > 1:
        return f"{subject} are tied for first place {criterion}."
    significance = "" if first.is_significant else ", but not significantly"
    test = f"{format_p_value(first.p_value)} against {first.rival}"
    return f"{subject} ranks first {criterion}{significance} ({test})."


def _describe_test(ranking: ModelRanking, *, with_rival: bool = True, with_significance: bool = False) -> str:
    """Return the p-value of the first recommender with its rival, and whether it is not significant."""
    if not ranking.closest_rival:
        return ""
    p_value = ranking.closest_p_value
    text = format_p_value(p_value)
    if with_rival:
        text += f" against {ranking.closest_rival}"
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
        return verdict.name_estimator(label)
    return f"{verdict.name_estimator(label)} ({'; '.join(details)})"


# ---- other metrics -------------------------------------------------------------------------------


def _summarize_other_metrics(headline: Verdict, verdicts: Sequence[Verdict]) -> list[str]:
    """Return one sentence for each different conclusion of the other metrics."""
    if headline.outcome in (Outcome.SINGLE, Outcome.UNDEFINED):
        return []
    if headline.has_failed_weights and not headline.unweighted:
        return []
    others = [verdict for verdict in verdicts if verdict is not headline]
    n_same = sum(_is_same_conclusion(verdict, headline) for verdict in others)
    # A single metric is stated with its p-values, unless the sentence would name two recommenders.
    names_two = headline.has_rival and headline.primary_estimator != headline.weighted
    has_p_values = n_same == 1 and not names_two
    has_p_values &= headline.outcome not in (Outcome.WINNER, Outcome.TIED)
    also = ", too" if headline.rests_on_unreliable_weights else ""
    # The metrics of one sentence have the same conclusion, and the same range of γ where it is stated.
    metrics_by_summary: dict[str, list[str]] = {}
    for verdict in others:
        if verdict.rests_on_unreliable_weights:
            summary = f"{verdict.name_estimator(verdict.weighted)} is unreliable{also}"
        elif not _is_same_conclusion(verdict, headline):
            summary = _summarize(verdict, headline)
        elif has_p_values:
            summary = _summarize(verdict, headline, adverb="also ")
        else:
            gamma_range = _describe_different_range(verdict, headline)
            summary = _summarize_same_conclusion(headline, gamma_range, is_single=n_same == 1)
        metrics_by_summary.setdefault(summary, []).append(verdict.metric)
    return [f"On {join_names(metrics)}, {summary}." for summary, metrics in metrics_by_summary.items()]


def _describe_different_range(verdict: Verdict, headline: Verdict) -> str:
    """Return the range of γ in which the first recommender stays first, unless the first metric has the same.

    It is "" as well where the weights rank another one first, because this shows that the order changes.
    """
    if verdict.gamma_range is None or headline.gamma_range is None or verdict.has_rival:
        return ""
    gamma_range = describe_range(verdict.gamma_range)
    if gamma_range == describe_range(headline.gamma_range):
        return ""
    return gamma_range


def _summarize_same_conclusion(headline: Verdict, gamma_range: str, *, is_single: bool) -> str:
    """Return what other metrics confirm, as a clause that follows their names.

    It names the first recommenders and tells which differences are significant, without p-values.
    """
    if headline.outcome == Outcome.WINNER:
        return f"{headline.leader} is significantly better than every other recommender, too"
    if headline.outcome == Outcome.TIED:
        return "the same recommenders are tied"
    labels = [headline.primary_estimator]
    rests_on_weights = headline.primary_estimator == headline.weighted
    if headline.unweighted and headline.highest_by_weights and not rests_on_weights:
        labels.append(headline.weighted)
    significant = [label for label in labels if _conclude(headline, label)[1]]
    adverb = "also" if is_single else "each time"
    significance = f"{adverb} {_name_significance(headline, significant, labels)}"
    if headline.has_rival and not rests_on_weights:
        by_primary = f"{headline.highest_model} ranks first by {headline.name_estimator(labels[0])}"
        by_weights = f"{headline.highest_by_weights} by {headline.name_estimator(headline.weighted)}"
        return f"{by_primary} and {by_weights}, {significance}"
    clause = f"{headline.highest_model} also ranks first, {significance}"
    if gamma_range and len(labels) > 1:
        clause += f", and stays first for {gamma_range}"
    elif gamma_range:  # no sentence has named SNIPS
        clause += f", and by SNIPS for {gamma_range}"
    return clause


def _name_significance(headline: Verdict, significant: Sequence[str], labels: Sequence[str]) -> str:
    """Return which of the estimators find a significant difference on other metrics."""
    if not significant:
        return "not significantly"
    if len(significant) == len(labels):
        return "significantly in the log"
    return f"significantly by {headline.name_estimator(significant[0])} only"


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
    if not label or (label == verdict.weighted and verdict.has_failed_weights):
        return "", False
    ranking = verdict.rankings[label]
    if label == verdict.weighted and _is_unreliable(verdict):
        return ranking.highest, False
    return ranking.highest, ranking.closest_p_value < LEVEL


def _summarize(verdict: Verdict, headline: Verdict, *, adverb: str = "") -> str:
    """Return the conclusion on one metric as a clause that follows its name.

    `adverb` is "also " where it agrees with the conclusion on the first metric.
    """
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
            return f"{ranking.highest} {adverb}ranks first, but not significantly ({test})"
        case Outcome.TIED:
            return f"{join_names(ranking.tied)} are tied for first place in the log"
        case _:
            return _summarize_ranking_in_log(verdict, headline, adverb)


def _summarize_ranking_in_log(verdict: Verdict, headline: Verdict, adverb: str) -> str:
    """Return the first recommenders by AOA and by weights on one metric, with p-values.

    The range of γ follows where the first recommender changes with γ, on this metric or on the first one.
    """
    with_significance = not (adverb or verdict.weighted)  # with weights, the verdict would become too long
    by_estimator = _summarize_first(verdict, verdict.primary_estimator, headline, with_significance)
    in_the_log = " in the log" if verdict.unweighted else ""
    clause = f"{verdict.highest_model} {adverb}ranks first{in_the_log} by {by_estimator}"
    by_weights = ""
    if verdict.unweighted and verdict.highest_by_weights and not _is_unreliable(verdict):
        by_weights = _summarize_first(verdict, verdict.weighted, headline, with_significance)
    is_named_by_weights = bool(by_weights) and not verdict.has_rival
    gamma_range = ""
    if verdict.gamma_range is not None and (verdict.changes_with_gamma or headline.changes_with_gamma):
        gamma_range = describe_range(verdict.gamma_range)

    if is_named_by_weights:
        clause += f" and {by_weights}"
        if gamma_range:
            clause += f", and stays first for {gamma_range}"
        return clause
    if gamma_range:
        clause += f" and by SNIPS for {gamma_range}"
        if not verdict.weighted:
            clause += _describe_successor(verdict)
    if by_weights:
        clause += f", and {verdict.highest_by_weights} by {by_weights}"
    return clause


def _summarize_first(verdict: Verdict, label: str, headline: Verdict, with_significance: bool) -> str:
    """Return an estimator with the p-value of its first recommender.

    The rival is named unless a weighted estimate is printed and the two recommenders are those that the sentence
    on the first metric compares.
    """
    ranking = verdict.rankings[label]
    if not ranking.closest_rival:
        return verdict.name_estimator(label)
    test = format_p_value(ranking.closest_p_value)
    compared_pair = {ranking.highest, ranking.closest_rival}
    if not verdict.weighted or compared_pair != set(_get_compared_pair(headline)):
        test += f" against {ranking.closest_rival}"
    if with_significance and ranking.closest_p_value >= LEVEL:
        test += ", not significant"
    return f"{verdict.name_estimator(label)} ({test})"


def _get_compared_pair(verdict: Verdict) -> tuple[str, str]:
    """Return the only two recommenders that the sentences on a metric compare; ("", "") if there are more."""
    names = set()
    for label in (verdict.unweighted, verdict.weighted):
        if label and not (label == verdict.weighted and verdict.has_failed_weights):
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
        condition = "the propensities known by design are the true ones"
        if verdict.needs_equal_exposure:
            # A small bias remains because the number of held-out interactions of a user is random.
            level = "nearly consistent"
            condition += " and users were equally exposed"
        return f"{verdict.name_estimator(verdict.weighted)} is {level} if {condition}."
    assumptions = _list_assumptions(verdict)
    sentences = []
    if verdict.unweighted and assumptions:
        sentences.append(f"{verdict.name_estimator(verdict.unweighted)}: uniform exposure.")
    elif verdict.unweighted and verdict.gamma_range is not None:
        users = f"{EQUAL_EXPOSURE}, " if verdict.needs_equal_exposure else ""
        sentences.append(
            f"{verdict.name_estimator(verdict.unweighted)}: uniform exposure. "
            f"SNIPS at γ: {users}propensities ∝ {POWER_OF_POPULARITY}."
        )
    elif verdict.unweighted:
        sentences.append(
            f"{verdict.name_estimator(verdict.unweighted)} is unbiased only if exposure was uniform."
        )
    if verdict.weighted:
        sentences += _write_assumption_of_weights(verdict, assumptions)
    return " ".join(sentences)


def _write_assumption_of_weights(verdict: Verdict, assumptions: Sequence[str]) -> list[str]:
    """Return the sentences on the assumptions and the guarantee of the weighted estimator."""
    weighted = verdict.name_estimator(verdict.weighted)
    sentences: list[str] = []
    if verdict.has_failed_weights:
        return sentences
    if assumptions:
        sentences.append(f"{weighted}: {', '.join(assumptions)}.")
    if verdict.has_guarantee and not verdict.is_consistent:
        sentences.append(f"{weighted} is biased even with the true propensities.")
    return sentences


def _name_metrics_without_guarantee(verdicts: Sequence[Verdict]) -> str:
    """Return for which metrics the weighted estimates have no guarantee; "" where there are none."""
    metrics = []
    for verdict in verdicts:
        has_weights = verdict.weighted and not verdict.has_failed_weights
        if has_weights and not verdict.has_guarantee and verdict.is_weighted_within_users:
            metrics.append(verdict.metric)
    if not metrics:
        return ""
    weighted = verdicts[0].name_estimator(verdicts[0].weighted)
    return f"For {join_names(metrics)}, {weighted} may be biased even with the true propensities."


def _name_metrics_weighted_between_users(verdicts: Sequence[Verdict]) -> str:
    """Return for which metrics SNIPS and γ act between users only; "" where there are none, or neither is printed."""
    metrics = [verdict.metric for verdict in verdicts if not verdict.is_weighted_within_users]
    criteria = []
    if verdicts[0].weighted and not verdicts[0].has_failed_weights:
        criteria.append(verdicts[0].name_estimator(verdicts[0].weighted))
    if any(verdict.gamma_range is not None for verdict in verdicts):
        criteria.append("γ")
    if not metrics or not criteria:
        return ""
    verb = "shows" if len(criteria) == 1 else "show"
    return (
        f"For {join_names(metrics)}, weights change at most how much each user counts, so "
        f"{join_names(criteria)} {verb} the effect of exposure only in part."
    )


def _list_assumptions(verdict: Verdict) -> list[str]:
    """Return the assumptions of the weighted estimator on users, and on propensities that are not measured."""
    assumptions: list[str] = []
    support = verdict.support
    if not verdict.weighted or verdict.has_failed_weights:
        return assumptions
    if verdict.needs_equal_exposure:
        assumptions.append(EQUAL_EXPOSURE)
    if support is not None and support.basis != "design" and support.gamma is None:
        assumptions.append("true propensities")
    if support is not None and support.basis in ("logged", "fitted"):
        assumptions.append("every item could be shown")
    if support is not None and support.gamma is not None:
        assumptions.append(_describe_power_law(support.gamma))
    return assumptions


def _describe_power_law(gamma: float) -> str:
    """Return the propensities that a value of γ states, with popularity the number of training interactions."""
    return f"propensities ∝ {POWER_OF_POPULARITY}, γ = {format_number(gamma)}"


def _write_next_step(verdict: Verdict) -> str:
    """Return the step that would settle the comparison; "" where it needs none."""
    if verdict.outcome in (Outcome.SINGLE, Outcome.UNDEFINED, Outcome.WINNER):
        return ""
    if verdict.outcome == Outcome.NOT_SIGNIFICANT:
        return _write_step_to_significance(verdict)
    if all(set(ranking.tied) == set(ranking.ranked) for ranking in verdict.rankings.values()):
        return ""
    if verdict.has_failed_weights:
        return _write_step_after_failed_weights(verdict)
    if verdict.rests_on_unreliable_weights:
        return "Add the estimator `aoa`, evaluate more interactions, or run an A/B test."
    return _write_step_by_basis(verdict)


def _write_step_to_significance(verdict: Verdict) -> str:
    """Return the next step where propensities are known and the difference is not significant."""
    if not verdict.detectable > 0:
        return "Evaluate more users."
    smallest = format_fixed(verdict.detectable, count_decimals([verdict.detectable], 1))
    return f"Evaluate more users: the test has 80% power to detect a difference of {smallest}."


def _write_step_by_basis(verdict: Verdict) -> str:
    """Return the next step where no winner can be named, by the source of the propensities."""
    basis = ""
    if verdict.support is not None:
        basis = verdict.support.basis
    results = _list_results(verdict)
    match basis:
        case "exposure":
            return "`ipseval correct` compares the recommenders on the random exposure itself."
        case "design":
            return f"Run an A/B test or report {results}."
        case "logged":
            return (
                'Run an A/B test, declare basis="design" if items were drawn at random and users look at every shown '
                f"item, or report {results}."
            )
        case _:
            return f"Run an A/B test, show random items (`ipseval plan`), or report {results}."


def _write_step_after_failed_weights(verdict: Verdict) -> str:
    """Return the next step where the propensities do not fit the items that some recommender lists."""
    steps = [
        "Run an A/B test",
        "show random items (`ipseval plan`)",
        "log the probability with which each item is shown",
    ]
    if verdict.unweighted:
        steps.append(f"report {_list_results(verdict)}")
    return f"{', '.join(steps[:-1])}, or {steps[-1]}."


def _list_results(verdict: Verdict) -> str:
    """Return the content of a report where no random items can be shown."""
    n_columns = len(verdict.columns)
    columns = "all columns"
    if n_columns == 1:
        columns = verdict.name_estimator(verdict.columns[0])
    elif verdict.has_failed_weights or _is_unreliable(verdict):
        columns = verdict.name_estimator(verdict.unweighted)
    elif n_columns == 2:
        columns = "both columns"
    if verdict.gamma_range is not None:
        return f"{columns} and the range of γ"
    return f"{columns} and the assumption"
