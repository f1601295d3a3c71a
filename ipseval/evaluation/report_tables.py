"""The report of an evaluation as tables: the verdict, then one table per metric and estimand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ipseval.estimators.estimate import without_propensity_note
from ipseval.estimators.user_sums import ROUNDING
from ipseval.evaluation._explanation import LEGEND, describe_date, flag_warnings
from ipseval.evaluation._page import page_parts
from ipseval.evaluation.printed_estimates import print_estimates
from ipseval.evaluation.report_content import ReportContent, TableLayout, describe_estimand
from ipseval.evaluation.sanity import word_warning
from ipseval.evaluation.verdict import Standing, Verdict, choose_headline
from ipseval.ranking.ranked_positives import ALL_ITEMS
from ipseval.reporting import Tables
from ipseval.reporting.formatting import (
    decimals,
    listed,
    percent,
    rounds_to_zero,
    shown_level,
    shown_p,
    signed,
    signed_at,
)
from ipseval.reporting.tables import Cell, Remark, Table
from ipseval.utils.checks import check_positive_int, counted
from ipseval.utils.counts import RESULT

# Rows that text prints of all metrics together, and of one metric at least and at most.
ALL_ROWS = 40
FEWEST_ROWS = 3
MOST_ROWS = 12
# Counts that notes of estimates or the line "Excluded" state as well.
STATED_ELSEWHERE = (
    "users without a list",
    "positives without a propensity",
    "users with test positives and no list",
)
STATED_BY_CALLER = ("rows with a value below",)  # the threshold that the caller gave
MOST_NOTES = 6
FEW_USERS = 10  # of whom all may be perfect by chance
HINT = "More: .explain()"


def build_tables(content: ReportContent, *, digits: int = 2) -> Tables:
    """Build the report; where the content holds what a page shows, the sections of the page follow."""
    check_positive_int("digits", digits)
    is_page = content.page is not None
    summary = [describe_size(content)]
    if is_page:
        size = f"{content.size.units} × {content.diagnostics['n_items'].max():,} test items"
        summary.append(describe_date(content.counts, size))
    estimators = content.diagnostics["estimator"]
    return Tables(
        summary=tuple(summary),
        warnings=tuple(flag_warnings(content.flags, estimators, content.names)),
        parts=tuple(_metric_tables(content, digits)),
        title="Evaluation of recommenders" if is_page else "",
        verdict=tuple(_remarks(content)),
        hint=HINT,
        legend=(LEGEND,) if len(content.models) > 1 else (),
        appendix=tuple(page_parts(content)) if is_page else (),
    )


def describe_size(
    content: ReportContent, estimands: Sequence[str] = (), *, with_intervals: bool = True
) -> str:
    """Return one line: how many recommenders, users and interactions, the confidence level, the estimand.

    `estimands`: those of the table that it stands at; default: all of the evaluation.
    """
    size = content.size
    counts = [
        counted(len(content.models), "recommender"),
        size.units,
        counted(size.n_positives, "held-out interaction"),
    ]
    facts = []
    if with_intervals:
        facts.append(f"{shown_level(content.confidence_level)} confidence intervals")
    estimands = list(estimands or content.estimands)
    if len(estimands) == 1:
        estimand = describe_estimand(estimands[0], size.unit_plural)
        facts.append(estimand if facts else f"{estimand[:1].upper()}{estimand[1:]}")
    sentences = [f"{', '.join(counts)}."]
    if facts:
        sentences.append(f"{'; '.join(facts)}.")
    if content.candidates != ALL_ITEMS:
        sentences.append(f"Candidates: {content.candidates}.")
    return " ".join(sentences)


def _remarks(content: ReportContent) -> list[Remark]:
    """Return the verdict, its assumption and the next step, and the notes below the tables."""
    text = content.text
    remarks = [Remark("Verdict", (text.conclusion,))]
    if text.assumption:
        remarks.append(Remark("Assumption", (text.assumption,)))
    if text.next_step:
        remarks.append(Remark("Next step", (text.next_step,)))
    if content.sanity:
        remarks.append(Remark("Sanity", (" ".join(map(word_warning, content.sanity)),)))
    weights = _describe_weights(content)
    if weights:
        remarks.append(Remark("Weights", (weights,)))
    excluded = _describe_excluded(content)
    if excluded:
        remarks.append(Remark("Excluded", (excluded,)))
    notes = _data_notes(content)
    if notes:
        remarks.append(Remark("Data", (" ".join(notes),)))
    return remarks


def _describe_weights(content: ReportContent) -> str:
    """Return the effective sample size of the weighted estimator that the verdict reads, and its cautions."""
    verdict = choose_headline(content.verdicts)
    support = verdict.support
    if support is None:
        return ""
    sentence = (
        f"Effective sample size {support.ess:,.0f} with these weights, {support.ess_equal:,.0f} with equal "
        f"weights ({support.n_interactions:,} interactions)"
    )
    # Nothing is said of weights that are sufficient.
    sentence += "." if support.quality == "sufficient" else f": {support.quality}."
    cautions = content.diagnostics.set_index("estimator")["cautions"][verdict.weighted]
    return f"{sentence} {cautions[:1].upper()}{cautions[1:]}." if cautions else sentence


def _describe_excluded(content: ReportContent) -> str:
    """Return how many held-out interactions have no propensity, and so are in no column."""
    n_excluded = content.size.n_without_propensity
    if not n_excluded:
        return ""
    is_power_law = content.propensity is not None and content.propensity.gamma is not None
    reason = " (items that do not occur in training)" if is_power_law else ""
    interactions = counted(n_excluded, "interaction")
    return f"{interactions} without a propensity{reason}, from all columns."


def _metric_tables(content: ReportContent, digits: int) -> list[Table]:
    """Return the tables of all metrics; only those of the first one show the differences."""
    layouts = content.layouts
    n_rows = min(MOST_ROWS, max(FEWEST_ROWS, ALL_ROWS // len(layouts)))
    first_metric = content.verdicts[0].metric
    return [
        _metric_table(content, layout, digits, n_rows, with_differences=layout.metric == first_metric)
        for layout in layouts
    ]


def _metric_table(
    content: ReportContent, layout: TableLayout, digits: int, n_rows: int, *, with_differences: bool
) -> Table:
    """Return the table of one metric and estimand, sorted by its first column."""
    verdict = layout.verdict
    models = layout.models
    columns = [_estimate_column(content, verdict, label, digits) for label in layout.labels]
    header = [content.head(verdict.metric, label) for label in layout.labels]
    compared = _compared_estimator(layout)
    if with_differences and len(models) > 1 and not content.flag(verdict.metric, compared):
        places = decimals(_half_widths(content.rows(verdict.metric, compared)), digits)
        standing = verdict.standings[compared]
        columns.append({model: _difference_cell(standing, model, places) for model in models})
        header.append(f"difference from best ({content.names[compared]})")
    empty = Cell("")
    body = tuple((Cell(model), *(column.get(model, empty) for column in columns)) for model in models)
    fits = len(models) <= n_rows
    return Table(
        ("recommender", *header),
        body,
        layout.title,
        words=frozenset(range(len(header) + 1)),
        n_rows=None if fits else n_rows,
        metric=verdict.metric,
        rest="" if fits else _describe_rest(verdict.standings[layout.labels[0]], models[n_rows:]),
    )


def _compared_estimator(layout: TableLayout) -> str:
    """Return the estimator whose differences a table shows: that of the verdict, where the table has it."""
    primary = layout.verdict.primary
    return primary if primary in layout.labels else layout.labels[0]


def _describe_rest(standing: Standing, models: Sequence[str]) -> str:
    n_similar = len([model for model in models if model in standing.leaders])
    similar = f"; {n_similar} of them do not differ significantly from the best" if n_similar else ""
    return f"and {len(models)} more in .frame{similar}"


def _half_widths(part: pd.DataFrame) -> list[float]:
    return ((part["ci_high"] - part["ci_low"]) / 2).tolist()


def _estimate_column(content: ReportContent, verdict: Verdict, label: str, digits: int) -> dict[str, Cell]:
    """Return recommender -> estimate and interval."""
    cells = {}
    for model, estimate in print_estimates(content, verdict, label, digits).items():
        low, high = estimate.bounds
        is_defined = not np.isnan(estimate.value)
        cells[model] = Cell(
            estimate.text,
            estimate.interval,
            strong=estimate.is_best,
            mark="†" if estimate.is_behind else "",
            flag=estimate.flag,
            at=(low, estimate.value, high) if is_defined else (),
        )
    return cells


def _difference_cell(standing: Standing, model: str, places: int) -> Cell:
    """Return how far a recommender is behind the best one, with its adjusted p-value."""
    if model == standing.best:
        return Cell("best")
    difference, p_value = standing.difference(model, standing.best)
    if np.isnan(p_value):
        return Cell("not tested")
    if difference == 0:
        return Cell("no difference")
    shown = signed_at(difference, places)
    if rounds_to_zero(difference, places):
        shown = signed(difference, 1)
    return Cell(f"{shown}, {shown_p(p_value)}")


def _data_notes(content: ReportContent) -> list[str]:
    """Return what was left out or replaced, whom it concerns, and how many test rows leak."""
    notes = [*_perfect_scores(content.frame), *_estimate_notes(content)]
    split = content.split
    if split is not None and split.n_leaking and not split.is_random:
        notes.append(f"{percent(split.n_leaking / split.n_test, 1)} of test rows have later training rows.")
    left_out = _left_out(content)
    # What is in the numbers goes before what never entered, where there is no room for all.
    most = MOST_NOTES if content.page is None else len(notes) + len(left_out)
    shown = [*left_out[: max(0, most - len(notes))], *notes[:most]]
    n_more = len(notes) + len(left_out) - len(shown)
    return [*shown, f"And {n_more} more in .data and .frame."] if n_more else shown


def _left_out(content: ReportContent) -> list[str]:
    """Return what was left out, merged or removed, or might have been, before the estimates."""
    lines = []
    for count in content.counts:
        is_stated = count.what.startswith((*STATED_ELSEWHERE, *STATED_BY_CALLER))
        words = ("left out", "merged", "removed", "no threshold")
        if is_stated or not any(word in count.what for word in words):
            continue
        whole = "" if count.of is None else f" of {count.of:,}"
        subject = "" if count.subject == RESULT else f"{count.subject}: "
        lines.append(f"{subject}{count.count:,}{whole} {count.what}.")
    return lines


def _estimate_notes(content: ReportContent) -> list[str]:
    """Return the notes of estimates, each once; whom and what it concerns where that is not all."""
    frame = content.frame
    diagnostics = content.diagnostics
    elsewhere = {without_propensity_note(content.size)}
    elsewhere |= {
        text
        for flag, cautions in zip(diagnostics["flag"], diagnostics["cautions"], strict=True)
        for text in (*_split_notes(flag), *_split_notes(cautions))
    }
    subjects: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for model, metric, note in zip(frame["model"], frame["metric"], frame["note"], strict=True):
        for text in _split_notes(note):
            if text not in elsewhere and not text.startswith("suppressed"):
                models, metrics = subjects.setdefault(text, ({}, {}))
                models[model] = None
                metrics[metric] = None
    all_models = set(frame["model"])
    all_metrics = set(frame["metric"])
    labels = set(frame["estimator"])
    lines = []
    for text, (models, metrics) in subjects.items():
        whom = "" if set(models) == all_models else listed(list(models))
        what = "" if set(metrics) == all_metrics else listed(list(metrics))
        subject = ", ".join(filter(None, (whom, what)))
        if subject:
            lines.append(f"{subject}: {text}.")
        elif text.split()[0] in labels:
            lines.append(f"{text}.")
        else:
            lines.append(f"{text[:1].upper()}{text[1:]}.")
    return lines


def _perfect_scores(frame: pd.DataFrame) -> list[str]:
    """Ask about training on test items where a recommender is perfect for ten users or more."""
    is_perfect = (frame["estimate"] > 1 - ROUNDING) & (frame["estimate"] < 1 + ROUNDING)
    is_perfect &= (frame["std_error"] == 0) & (frame["n_users"] >= FEW_USERS)
    found: dict[str, None] = {}
    # Where all are perfect, candidates are as few as places, and nothing is learned of anybody.
    for _, part in frame[is_perfect].groupby("metric", sort=False):
        models = part["model"].unique()
        if models.size < frame["model"].nunique() or models.size == 1:
            found |= dict.fromkeys(models)
    return [f"{listed(list(found))}: perfect for every user. Were test items in training?"] if found else []


def _split_notes(note: str) -> list[str]:
    return [text for text in note.split("; ") if text]
