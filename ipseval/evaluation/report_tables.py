"""The report of an evaluation as tables: the verdict, then one table per metric and estimand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ipseval.estimators.user_sums import ROUNDING_SHARE
from ipseval.evaluation._explanation import describe_date, describe_marks
from ipseval.evaluation._page_sections import build_page_sections
from ipseval.evaluation.report_content import (
    ReportContent,
    TableLayout,
    build_rows,
    describe_estimand,
    flag_warnings,
    print_estimates,
)
from ipseval.evaluation.sanity import word_warning
from ipseval.evaluation.verdict import ModelRanking, Verdict, choose_headline
from ipseval.propensity import Propensity
from ipseval.ranking.ranked_positives import ALL_ITEMS
from ipseval.reporting import Tables
from ipseval.reporting.formatting import (
    count_decimals,
    format_level,
    format_p_value,
    format_percent,
    format_signed,
    format_signed_digits,
    join_names,
    rounds_to_zero,
)
from ipseval.reporting.tables import EXPLAIN_HINT, LEADING, Cell, InterfaceText, Remark, Table, join_sentences
from ipseval.utils.checks import check_positive_int, format_count
from ipseval.utils.notes import RESULT, Count, Note

# Number of rows that text prints: of all metrics together, and of one metric at least and at most.
ALL_ROWS = 40
FEWEST_ROWS = 3
MOST_ROWS = 12
MOST_NOTES = 6
FEW_USERS = 10  # a recommender may be perfect for fewer users by chance


def build_tables(content: ReportContent, *, digits: int = 2) -> Tables:
    """Build the report; with the contents of a page, its sections follow."""
    check_positive_int("digits", digits)
    legend: tuple[str, ...] = ()
    if len(content.models) > 1:
        legend = (describe_marks(content),)
    remarks = tuple(_build_remarks(content))
    # Below remarks there is no room for the hint: two metrics of five recommenders are to fit on 24 lines.
    has_room_for_hint = all(remark.name in LEADING for remark in remarks)
    tables = Tables(
        summary=(describe_size(content),),
        warnings=tuple(flag_warnings(content.flags, content.diagnostics["estimator"], content.names)),
        parts=tuple(_build_metric_tables(content, digits)),
        remarks=remarks,
        hint=EXPLAIN_HINT if has_room_for_hint else "",
        legend=legend,
    )
    if content.page is None:
        return tables
    size = f"{content.size.units} × {content.diagnostics['n_items'].max():,} test items"
    return replace(
        tables,
        summary=(*tables.summary, describe_date(content.counts, size)),
        title="Evaluation of recommenders",
        appendix=tuple(build_page_sections(content)),
    )


def describe_size(
    content: ReportContent, estimands: Sequence[str] = (), *, with_intervals: bool = True
) -> str:
    """Return one line with the numbers of recommenders, users, items and interactions, level and estimand.

    `estimands`: the estimands of the table that it describes; default: all estimands of the evaluation.
    """
    size = content.size
    counts = [format_count(len(content.models), "recommender"), size.units]
    if size.n_items:
        counts.append(format_count(size.n_items, "item"))
    counts.append(format_count(size.n_positives, "held-out interaction"))
    facts = []
    if with_intervals:
        facts.append(f"{format_level(content.confidence_level)} intervals")
    estimands = list(estimands or content.list_estimands())
    if len(estimands) == 1:
        facts.append(describe_estimand(estimands[0], size.unit_plural))
    sentences = [f"{', '.join(counts)}."]
    if facts:
        sentences.append(f"{_capitalize('; '.join(facts))}.")
    if content.candidates != ALL_ITEMS:
        sentences.append(f"Candidates: {content.candidates}.")
    return " ".join(sentences)


def _build_remarks(content: ReportContent) -> list[Remark]:
    """Return the verdict, its assumption and the next step, and the notes below the tables."""
    text = content.text
    remarks = [Remark("Verdict", (text.conclusion,))]
    if text.assumption:
        remarks.append(Remark("Assumption", (text.assumption,)))
    if text.next_step:
        remarks.append(Remark("Next step", (text.next_step,)))
    if content.sanity:
        warnings = [word_warning(warning) for warning in content.sanity]
        remarks.append(Remark("Sanity", (" ".join(warnings),)))
    weights = _describe_weights(content)
    if weights:
        remarks.append(Remark("Weights", (weights,)))
    exclusion = _describe_interactions_without_propensity(content)
    if exclusion:
        remarks.append(Remark("Excluded", (exclusion,)))
    notes = _collect_data_notes(content)
    if notes:
        remarks.append(Remark("Data", (join_sentences(notes),)))
    return remarks


def _describe_weights(content: ReportContent) -> str:
    """Return the effective sample size of the weighted estimator that the verdict reads, and its cautions."""
    verdict = choose_headline(content.verdicts)
    support = verdict.support
    if support is None:
        return ""
    comparison = f"{support.ess_equal:,.0f} unweighted"
    if verdict.unweighted:
        comparison = f"{support.ess_unweighted:,.0f} by {verdict.name_estimator(verdict.unweighted)}"
    sentence = (
        f"Effective sample size {support.ess:,.0f} by {verdict.name_estimator(verdict.weighted)}, {comparison}, of "
        f"{support.n_interactions:,} interactions"
    )
    if support.quality in ("low", "unreliable"):  # a caution states clipped weights
        sentence += f": {support.quality}"
    cautions = content.diagnostics.set_index("estimator")["cautions"][verdict.weighted]
    if not cautions:
        return f"{sentence}."
    return f"{sentence}. {_capitalize(cautions)}."


def _describe_interactions_without_propensity(content: ReportContent) -> str:
    """Return the number of held-out interactions without a propensity, which no column includes."""
    n_excluded = content.size.n_without_propensity
    if not n_excluded:
        return ""
    reason = ""
    if content.propensity is not None and _lacks_only_unseen_items(content.propensity):
        reason = " (items that do not occur in training)"
    interactions = format_count(n_excluded, "interaction")
    return f"{interactions} without a propensity{reason}, from all estimates."


def _lacks_only_unseen_items(propensity: Propensity) -> bool:
    """Return whether every item without a propensity is known to have no training interaction."""
    popularity = propensity.training_popularity
    if propensity.item is None or popularity is None:
        return False
    return not popularity[np.isnan(propensity.item)].any()


def _build_metric_tables(content: ReportContent, digits: int) -> list[Table]:
    """Return the tables of all metrics; only the table of the metric of the verdict shows the differences."""
    layouts = content.layouts
    n_rows = min(MOST_ROWS, max(FEWEST_ROWS, ALL_ROWS // len(layouts)))
    headline_metric = choose_headline(content.verdicts).metric
    tables = []
    for layout in layouts:
        with_differences = layout.metric == headline_metric
        table = _build_metric_table(content, layout, digits, with_differences=with_differences)
        if len(layout.models) > n_rows:
            ranking = layout.verdict.rankings[layout.labels[0]]
            line = _describe_rest(ranking, layout.models[n_rows:])
            table = replace(table, n_rows=n_rows, rest=line)
        tables.append(table)
    return tables


def _build_metric_table(
    content: ReportContent, layout: TableLayout, digits: int, *, with_differences: bool
) -> Table:
    """Return the table of one metric and estimand, sorted by its first column."""
    verdict = layout.verdict
    columns = []
    header = ["recommender"]
    for label in layout.labels:
        columns.append(_estimate_column(content, verdict, label, digits))
        header.append(content.head(verdict.metric, label))
    label = _choose_compared_estimator(layout)
    if with_differences and len(layout.models) > 1 and not content.flag(verdict.metric, label):
        places = count_decimals(_half_widths(content.rows(verdict.metric, label)), digits)
        ranking = verdict.rankings[label]
        row = {}
        for model in layout.models:
            row[model] = _difference_cell(ranking, model, places)

        columns.append(row)
        header.append(f"difference from first ({content.names[label]})")
    return Table(
        tuple(header),
        build_rows(layout.models, columns),
        layout.title,
        words=frozenset(range(len(header))),
        metric=verdict.metric,
    )


def _choose_compared_estimator(layout: TableLayout) -> str:
    """Return the estimator of the differences in a table: the one behind the verdict, if it is there."""
    primary = layout.verdict.primary_estimator
    if primary in layout.labels:
        return primary
    return layout.labels[0]


def _describe_rest(ranking: ModelRanking, models: Sequence[str]) -> str:
    """Return the line below a table without its last recommenders."""
    count = f"and {len(models)} more in"
    similar = ""
    n_similar = sum(model in ranking.top_group for model in models)
    if n_similar:
        similar = f"; {n_similar} of them do not differ significantly from the best"
    return InterfaceText(f"{count} .frame{similar}", shell=f"{count} --out all.csv{similar}")


def _half_widths(part: pd.DataFrame) -> list[float]:
    return ((part["ci_high"] - part["ci_low"]) / 2).tolist()


def _estimate_column(content: ReportContent, verdict: Verdict, label: str, digits: int) -> dict[str, Cell]:
    """Return recommender -> estimate and interval."""
    cells = {}
    for model, estimate in print_estimates(content, verdict, label, digits).items():
        position: tuple[float, ...] = ()
        if not np.isnan(estimate.value):
            low, high = estimate.bounds
            position = (low, estimate.value, high)
        cells[model] = Cell(
            estimate.text,
            estimate.interval,
            strong=estimate.is_best,
            mark=estimate.mark,
            flag=estimate.flag,
            at=position,
        )
    return cells


def _difference_cell(ranking: ModelRanking, model: str, places: int) -> Cell:
    """Return the cell with the difference of a recommender from the first one, and its adjusted p-value."""
    if model == ranking.highest:
        return Cell("first")
    difference, p_value = ranking.difference(model, ranking.highest)
    if np.isnan(p_value):
        return Cell("not tested")
    if difference == 0:
        return Cell("no difference")
    text = format_signed(difference, places)
    if rounds_to_zero(difference, places):
        text = format_signed_digits(difference, 1)
    return Cell(f"{text}, {format_p_value(p_value)}")


def _collect_data_notes(content: ReportContent) -> list[str]:
    """Return the notes on users without training, on excluded data, on estimates, and on test rows that leak."""
    notes: list[str] = []
    if content.cold_start is not None and content.cold_users:
        line = content.cold_users
        if content.cold_start.has_warm_users:
            line = InterfaceText(f'{line} See .by("cold-users").', shell=f"{line} See --by cold-users.")
        notes.append(line)
    notes += [*_ask_about_perfect_scores(content.frame), *_describe_estimate_notes(content)]
    split = content.split
    if split is not None and split.n_leaking and not split.is_random:
        notes.append(
            f"{format_percent(split.n_leaking / split.n_test, 1)} of test rows have later training rows."
        )
    exclusions = _describe_exclusions(content)
    if content.page is not None:
        return [*exclusions, *notes]
    # Notes on the estimates take precedence over data that never entered them.
    n_exclusions = max(0, MOST_NOTES - len(notes))
    lines = [*exclusions[:n_exclusions], *notes[:MOST_NOTES]]
    n_more = len(notes) + len(exclusions) - len(lines)
    if n_more:
        line = InterfaceText(
            f"And {n_more} more in .data and .frame.",
            shell=f"And {n_more} more in the HTML report (--out FILE.html).",
        )
        lines.append(line)
    return lines


def _describe_exclusions(content: ReportContent) -> list[str]:
    """Return a sentence for each count of data that were excluded, merged or removed, or that cannot be hits."""
    lines = []
    for count in content.counts:
        if count.code not in ("exclusion", "no_threshold", "no_hit"):
            continue
        line = _describe_exclusion(count)
        if count.subject != RESULT:
            line = f"{count.subject}: {line}"
        lines.append(f"{line}.")
    return lines


def _describe_exclusion(count: Count) -> str:
    """Return a count with its total and label as text.

    The total is not followed by the label, because it counts all rows, and the label names some of them.

    Examples
    --------
    >>> _describe_exclusion(Count("rows that repeat an earlier pair, left out", 100, 16671))
    '100 of 16,671 left out (rows that repeat an earlier pair)'
    """
    if count.total is None:
        return f"{count.count:,} {count.label}"
    noun, _, treatment = count.label.rpartition(", ")
    if treatment != "left out":
        return f"{count.count:,} of {count.total:,} {count.label}"
    return f"{count.count:,} of {count.total:,} {treatment} ({noun})"


def _describe_estimate_notes(content: ReportContent) -> list[str]:
    """Return each note of estimates once, with the recommenders and metrics where it is not about all.

    The warnings and the lines on weights and exclusions state the other notes already.
    """
    models_by_note: dict[Note, dict[str, None]] = {}
    metrics_by_note: dict[Note, dict[str, None]] = {}
    for (model, metric, _), notes in content.notes.items():
        for note in notes:
            if note.severity == "note" and note.code != "no_propensity":
                models_by_note.setdefault(note, {})[model] = None
                metrics_by_note.setdefault(note, {})[metric] = None
    n_models = content.frame["model"].nunique()
    n_metrics = content.frame["metric"].nunique()
    lines = []
    for note, models in models_by_note.items():
        metrics = metrics_by_note[note]
        subjects = []
        if len(models) < n_models:
            subjects.append(join_names(list(models)))
        if len(metrics) < n_metrics:
            subjects.append(join_names(list(metrics)))
        if subjects:
            lines.append(f"{', '.join(subjects)}: {note}.")
        elif note.code in ("identical_to_aoa", "text"):  # it begins with a label, or with a word of the user
            lines.append(f"{note}.")
        else:
            lines.append(f"{_capitalize(str(note))}.")
    return lines


def _ask_about_perfect_scores(frame: pd.DataFrame) -> list[str]:
    """Ask about training on test items where a recommender is perfect for ten users or more."""
    is_one = (frame["estimate"] > 1 - ROUNDING_SHARE) & (frame["estimate"] < 1 + ROUNDING_SHARE)
    is_perfect = is_one & (frame["std_error"] == 0) & (frame["n_users"] >= FEW_USERS)
    suspicious: dict[str, None] = {}
    for _, rows in frame[is_perfect].groupby("metric", sort=False):
        models = rows["model"].unique()
        # If all are perfect, the lists may hold all candidates, which is not a sign of leakage.
        if models.size < frame["model"].nunique() or models.size == 1:
            suspicious |= dict.fromkeys(models)
    if not suspicious:
        return []
    return [f"{join_names(list(suspicious))}: perfect for every user. Were test items in training?"]


def _capitalize(text: str) -> str:
    """Return a text with its first letter in upper case, and all others unchanged."""
    return f"{text[:1].upper()}{text[1:]}"
