"""The report of an evaluation as tables: the verdict, then one table per metric and estimand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ipseval._base.checks import check_positive_int, counted
from ipseval._base.counts import RESULT
from ipseval.estimators._estimate import without_propensity_note
from ipseval.estimators._sums import ROUNDING
from ipseval.evaluation._explanation import LEGEND, describe_date, flag_warnings, undefined_cell
from ipseval.evaluation._page import page_parts
from ipseval.evaluation.report_content import ReportContent
from ipseval.evaluation.verdict import Standing, Verdict, choose_headline
from ipseval.ranking._ranked import ALL_ITEMS
from ipseval.report import Tables
from ipseval.report._tables import Cell, Remark, Table
from ipseval.report._words import decimals, fixed, listed, shown_p, signed, signed_at

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


def describe_size(content: ReportContent) -> str:
    """Return one line: how many recommenders, users and interactions, the confidence level, the estimand."""
    size = content.size
    parts = [
        counted(len(content.models), "recommender"),
        size.units,
        counted(size.n_positives, "held-out interaction"),
    ]
    sentence = f"{', '.join(parts)}. {content.confidence_level * 100:.4g}% confidence intervals"
    estimands = list(content.estimands)
    if len(estimands) == 1:
        sentence += f"; {describe_estimand(estimands[0], size.unit_plural)}"
    sentence += "."
    if content.candidates != ALL_ITEMS:
        sentence += f" Candidates: {content.candidates}."
    return sentence


def describe_estimand(estimand: str, units: str) -> str:
    """Return an estimand in the plural, with the units that are averaged: users, or queries."""
    return estimand.replace("mean over users", f"means over {units}").replace("mean over", "means over")


def _remarks(content: ReportContent) -> list[Remark]:
    """Return the verdict, its assumption and the next step, and the notes below the tables."""
    text = content.text
    remarks = [Remark("Verdict", (text.conclusion,))]
    if text.assumption:
        remarks.append(Remark("Assumption", (text.assumption,)))
    if text.next_step:
        remarks.append(Remark("Next step", (text.next_step,)))
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
        f"weights "
        f"({support.n_interactions:,} interactions)"
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
    estimands = content.estimands
    n_tables = len(content.verdicts) * len(estimands)
    n_rows = min(MOST_ROWS, max(FEWEST_ROWS, ALL_ROWS // n_tables))
    tables = []
    for number, verdict in enumerate(content.verdicts):
        for estimand, labels in estimands.items():
            title = verdict.metric
            if len(estimands) > 1:
                title = f"{verdict.metric}, {describe_estimand(estimand, content.size.unit_plural)}"
            table = _metric_table(
                content, verdict, labels, title, digits, n_rows, with_differences=number == 0
            )
            tables.append(table)
    return tables


def _metric_table(
    content: ReportContent,
    verdict: Verdict,
    labels: Sequence[str],
    title: str,
    digits: int,
    n_rows: int,
    *,
    with_differences: bool,
) -> Table:
    """Return the table of one metric and estimand, sorted by its first column."""
    standing = verdict.standings[labels[0]]
    models = order_models(standing)
    columns = []
    header = []
    for label in labels:
        flag = content.flags.get((verdict.metric, label), "")
        is_first = label == labels[0]
        columns.append(_estimate_column(content, verdict, label, digits, is_first=is_first))
        head = content.column_names[label]
        header.append(f"{head}, unreliable" if flag else head)
    first_flag = content.flags.get((verdict.metric, labels[0]), "")
    if with_differences and len(models) > 1 and not first_flag:
        places = decimals(_half_widths(content.rows(verdict.metric, labels[0])), digits)
        columns.append({model: _difference_cell(standing, model, places) for model in models})
        header.append(f"difference from best ({content.names[labels[0]]})")
    empty = Cell("")
    body = tuple((Cell(model), *(column.get(model, empty) for column in columns)) for model in models)
    fits = len(models) <= n_rows
    return Table(
        ("recommender", *header),
        body,
        title,
        words=frozenset(range(len(header) + 1)),
        n_rows=None if fits else n_rows,
        metric=verdict.metric,
        rest="" if fits else _describe_rest(standing, models[n_rows:]),
    )


def order_models(standing: Standing) -> tuple[str, ...]:
    """Return the recommenders by one estimator, the highest first and undefined ones last."""
    undefined = [model for model in standing.values if model not in standing.ranked]
    return (*standing.ranked, *undefined)


def _describe_rest(standing: Standing, models: Sequence[str]) -> str:
    n_similar = len([model for model in models if model in standing.leaders])
    similar = f"; {n_similar} of them do not differ significantly from the best" if n_similar else ""
    return f"and {len(models)} more in .frame{similar}"


def _half_widths(part: pd.DataFrame) -> list[float]:
    return ((part["ci_high"] - part["ci_low"]) / 2).tolist()


def _estimate_column(
    content: ReportContent, verdict: Verdict, label: str, digits: int, *, is_first: bool
) -> dict[str, Cell]:
    """Return recommender -> estimate and interval; an unreliable column has no intervals or marks."""
    rows = content.rows(verdict.metric, label)
    standing = verdict.standings[label]
    flag = content.flags.get((verdict.metric, label), "")
    has_marks = not flag and len(standing.ranked) > 1
    half_widths = _half_widths(rows)
    common_places = decimals(half_widths, digits)
    cells = {}
    for row, half_width in zip(rows.to_dict("records"), half_widths, strict=True):
        model = row["model"]
        value = row["estimate"]
        if np.isnan(value):
            cells[model] = undefined_cell(row["note"], flag)
            continue
        places = max(common_places, decimals([half_width], 1, default=0))
        interval = ""
        drawn: tuple[float, ...] = (np.nan, value, np.nan)
        if not np.isnan(half_width) and not flag:
            interval = f"[{fixed(row['ci_low'], places)}, {fixed(row['ci_high'], places)}]"
            drawn = (row["ci_low"], value, row["ci_high"])
        cells[model] = Cell(
            fixed(value, places),
            interval,
            strong=has_marks and model == standing.best,
            mark="†" if has_marks and model not in standing.leaders else "",
            flag=flag,
            at=drawn,
            short=None if is_first else "",
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
    if float(f"{difference:.{places}f}") == 0:
        shown = signed(difference, 1)
    return Cell(f"{shown}, {shown_p(p_value)}")


def _data_notes(content: ReportContent) -> list[str]:
    """Return what was left out or replaced, whom it concerns, and how many test rows leak."""
    notes = [*_perfect_scores(content.frame), *_estimate_notes(content)]
    split = content.split
    if split is not None and split.n_leaking and not split.is_random:
        notes.append(f"{split.n_leaking / split.n_test:.1%} of test rows have later training rows.")
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
