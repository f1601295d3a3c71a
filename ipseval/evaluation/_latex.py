"""One LaTeX table of an evaluation for a paper: booktabs, all metrics, captions and notes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ipseval.data.splits.split import GIVEN_AS_FRAMES
from ipseval.errors import InputError
from ipseval.evaluation.report_content import (
    PrintedEstimate,
    ReportContent,
    TableLayout,
    flag_warnings,
    print_estimates,
)
from ipseval.evaluation.report_tables import describe_size
from ipseval.evaluation.verdict import choose_headline
from ipseval.evaluation.verdict_text import POWER_OF_POPULARITY, describe_range, write_first_among_warm
from ipseval.metrics.rating_metrics import RATING_METRICS
from ipseval.reporting.formatting import LEVEL
from ipseval.reporting.markup import escape_latex, format_latex_formula
from ipseval.utils.checks import check_bool, check_choice, check_positive_int

LONG = "long"
WIDE = "models x metrics"
LAYOUTS = (LONG, WIDE)
MOST_DIGITS = 17  # a float has no more
MARK = r"$^{u}$"  # mark of an unreliable estimate
SIGNIFICANT = (
    r"$^{\dagger}$"  # mark of an estimate that is significantly lower than the highest of its column
)
UNDEFINED = "--"


def write_latex(
    content: ReportContent,
    labels: Sequence[str],
    *,
    layout: str,
    caption: str | None,
    label: str | None,
    notes: bool,
    bold: bool,
    significance: bool,
    digits: int,
) -> str:
    """Write the table; see `Evaluation.to_latex` for the options."""
    check_choice("layout", layout, LAYOUTS)
    check_bool("notes", notes)
    check_bool("bold", bold)
    check_bool("significance", significance)
    if check_positive_int("digits", digits) > MOST_DIGITS:
        raise InputError(f"digits must be at most {MOST_DIGITS}; got {digits}.")
    _check_text("caption", caption)
    _check_label(label)
    tables = _choose_tables(content, labels)
    style = CellStyle(bold=bold, significance=significance)
    columns = _print_columns(content, tables, digits)
    if layout == LONG:
        lines = _write_long_tabular(content, tables, columns, style)
    else:
        lines = _write_wide_tabular(content, tables, columns, style)
    if notes:
        with_intervals = layout == LONG
        note_lines = _write_notes(content, tables, columns, style, with_intervals=with_intervals)
        lines = _wrap_in_threeparttable(lines, note_lines)
    if caption is not None or label is not None:
        lines = _wrap_in_table(lines, caption, label)
    return "\n".join(lines) + "\n"


def write_joint_latex(contents: Mapping[str, ReportContent], digits: int) -> str:
    """Write one table of several evaluations by name, with a block of rows per metric and evaluation.

    Notes that all evaluations share are printed once; the name of its evaluation precedes every other one.
    """
    first_content = next(iter(contents.values()))
    labels = list(first_content.column_names)
    for name, content in contents.items():
        if content.column_names != first_content.column_names:
            expected = ", ".join(first_content.column_names.values())
            differing = ", ".join(content.column_names.values())
            raise InputError(
                f"results must have the same columns in one table; got {expected} and, in {name}, {differing}. "
                "Evaluate them with the same estimators and propensities, or write one table for each."
            )
    style = CellStyle(bold=True, significance=True)
    facts = {}
    legend: dict[str, None] = {}
    blocks_by_metric: dict[str, list[str]] = {}
    for name, content in contents.items():
        tables = _choose_tables(content, labels)
        columns = _print_columns(content, tables, digits)
        facts[name] = [
            *_list_facts(content, tables, with_intervals=True),
            *_state_no_difference(tables, style),
        ]
        legend |= dict.fromkeys(_list_legend(content, tables, columns, style))
        for table in tables:
            block = _write_block(f"{table.metric}, {name}", table, columns, style)
            blocks_by_metric.setdefault(table.metric, []).extend(block)
    lines = _write_long_head(first_content, labels)
    for blocks in blocks_by_metric.values():
        lines += blocks
    lines += [r"\bottomrule", r"\end{tabular}"]
    notes = [*_name_facts(facts), *legend]
    return "\n".join(_wrap_in_threeparttable(lines, notes)) + "\n"


def _name_facts(facts: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the facts of several evaluations: each with its name, and common facts once, at the end."""
    facts_of_all = dict.fromkeys(next(iter(facts.values())))
    for lines in facts.values():
        facts_of_all = {line: None for line in facts_of_all if line in lines}
    named_facts = []
    for name, lines in facts.items():
        own_lines = [line for line in lines if line not in facts_of_all]
        if own_lines:
            named_facts.append(f"{escape_latex(name)}: {' '.join(own_lines)}")
    return [*named_facts, *facts_of_all]


Columns = dict[tuple[str, str], dict[str, PrintedEstimate]]


@dataclass(frozen=True)
class CellStyle:
    """Whether the highest estimates are bold, and whether significantly lower ones are marked."""

    bold: bool
    significance: bool


def _check_text(name: str, value: object) -> None:
    """Raise `InputError` for a value other than a text or None."""
    if value is not None and not isinstance(value, str):
        raise InputError(f"{name} must be a text or None; got {type(value).__name__}.")


def _check_label(label: object) -> None:
    """Raise `InputError` for a label that LaTeX would not read as one."""
    _check_text("label", label)
    if isinstance(label, str) and not re.fullmatch(r"[A-Za-z0-9:._/-]+", label):
        raise InputError(
            f"label must consist of ASCII letters, digits and : . _ / -; got {label!r}. "
            "Choose a label such as 'tab:results'."
        )


def _choose_tables(content: ReportContent, labels: Sequence[str]) -> list[TableLayout]:
    """Return a table for each metric with these estimators, which must have one estimand."""
    if not labels:
        raise InputError("columns must name at least one estimator; got none.")
    if len(set(labels)) < len(labels):
        raise InputError(f"columns must be unique; got {', '.join(labels)}. Name each estimator once.")
    groups = {}
    for estimand, members in content.estimands.items():
        group = []
        for name in labels:
            if name in members:
                group.append(name)

        if group:
            groups[estimand] = group
    if len(groups) > 1:
        group_texts = []
        for estimand, group in groups.items():
            group_texts.append(f"{', '.join(group)}: {estimand}")

        description = "; ".join(group_texts)
        raise InputError(
            f"columns must have one estimand; got {description}. Write one table for each, with columns=."
        )
    tables = []
    for verdict in content.verdicts:
        models = verdict.rankings[labels[0]].order
        estimand = content.find_estimand(verdict.metric, labels[0])
        tables.append(TableLayout(verdict.metric, estimand, verdict, tuple(labels), models))
    return tables


def _print_columns(content: ReportContent, tables: Sequence[TableLayout], digits: int) -> Columns:
    """Return the printed estimates of every metric and estimator of the tables."""
    columns: Columns = {}
    for table in tables:
        for label in table.labels:
            columns[table.metric, label] = print_estimates(content, table.verdict, label, digits)
    return columns


def _write_long_tabular(
    content: ReportContent, tables: Sequence[TableLayout], columns: Columns, style: CellStyle
) -> list[str]:
    """Return a block of rows per metric; an estimator has a column of numbers and one of intervals."""
    lines = _write_long_head(content, tables[0].labels)
    for table in tables:
        lines += _write_block(table.metric, table, columns, style)
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _write_long_head(content: ReportContent, labels: Sequence[str]) -> list[str]:
    """Return the lines that open a table of numbers and intervals, with the names of its columns."""
    heads = [rf"\multicolumn{{2}}{{c}}{{{escape_latex(content.column_names[label])}}}" for label in labels]
    letters = r"r@{\ \ }l" * len(labels)  # a mark fits between a number and its interval
    return [
        rf"\begin{{tabular}}{{l{letters}}}",
        r"\toprule",
        " & ".join(["", *heads]) + r" \\",
    ]


def _write_block(title: str, table: TableLayout, columns: Columns, style: CellStyle) -> list[str]:
    """Return the rows of one metric below their title, a row per recommender."""
    width = 1 + 2 * len(table.labels)
    lines = [
        r"\midrule",
        rf"\multicolumn{{{width}}}{{l}}{{\emph{{{escape_latex(title)}}}}} \\",
    ]
    for model in table.models:
        row = [escape_latex(model)]
        for label in table.labels:
            estimate = columns[table.metric, label][model]
            interval = escape_latex(estimate.interval)
            if _is_marked(estimate):
                interval = MARK
            row += [_format_estimate(estimate, style), interval]
        lines.append(" & ".join(row) + r" \\")
    return lines


def _write_wide_tabular(
    content: ReportContent, tables: Sequence[TableLayout], columns: Columns, style: CellStyle
) -> list[str]:
    """Return a row per recommender, with the estimators of each metric side by side."""
    labels = tables[0].labels
    n_columns = len(labels)
    metrics = [table.metric for table in tables]
    heads = [rf"\multicolumn{{{n_columns}}}{{c}}{{{escape_latex(metric)}}}" for metric in metrics]
    starts = [2 + n_columns * index for index in range(len(metrics))]
    rules = [rf"\cmidrule(lr){{{start}-{start + n_columns - 1}}}" for start in starts]
    estimators = [_break_head(content.column_names[label]) for label in labels]
    lines = [
        rf"\begin{{tabular}}{{l{'r' * n_columns * len(metrics)}}}",
        r"\toprule",
        " & ".join(["", *heads]) + r" \\",
        " ".join(rules),
        " & ".join(["", *(estimators * len(metrics))]) + r" \\",
        r"\midrule",
    ]
    for model in tables[0].models:
        row = [escape_latex(model)]
        for metric in metrics:
            for label in labels:
                estimate = columns[metric, label][model]
                cell = _format_estimate(estimate, style)
                if _is_marked(estimate):
                    cell += rf"\rlap{{{MARK}}}"  # without width, so that the numbers stay aligned
                row.append(cell)
        lines.append(" & ".join(row) + r" \\")
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _break_head(head: str) -> str:
    """Return the head of a narrow column: the assumption below the name of the estimator."""
    name, parenthesis, assumption = head.partition(" (")
    if not parenthesis:
        return escape_latex(head)
    return rf"\shortstack[r]{{{escape_latex(name)}\\{escape_latex('(' + assumption)}}}"


def _format_estimate(estimate: PrintedEstimate, style: CellStyle) -> str:
    """Return the LaTeX of an estimate without its interval."""
    if np.isnan(estimate.value):
        return UNDEFINED
    text = escape_latex(estimate.text)
    if style.bold and estimate.is_best:
        text = rf"\textbf{{{text}}}"
    if style.significance and estimate.is_behind:
        text += rf"\rlap{{{SIGNIFICANT}}}"  # without width, so that the numbers stay aligned
    return text


def _is_marked(estimate: PrintedEstimate) -> bool:
    """Return whether an estimate has the mark of unreliable ones."""
    return bool(estimate.flag) and not np.isnan(estimate.value)


def _write_notes(
    content: ReportContent,
    tables: Sequence[TableLayout],
    columns: Columns,
    style: CellStyle,
    *,
    with_intervals: bool,
) -> list[str]:
    """Return the notes below the table: the facts on the evaluation and the legend of the marks."""
    facts = _list_facts(content, tables, with_intervals=with_intervals)
    return [*facts, *_list_legend(content, tables, columns, style), *_state_no_difference(tables, style)]


def _list_facts(content: ReportContent, tables: Sequence[TableLayout], *, with_intervals: bool) -> list[str]:
    """Return the notes on the evaluation: data, assumption, weights and range of γ."""
    estimands = list(dict.fromkeys(table.estimand for table in tables))
    lines = _describe_data(content, estimands, with_intervals=with_intervals)
    if content.text.assumption:
        power = format_latex_formula(POWER_OF_POPULARITY)
        assumption = escape_latex(content.text.assumption)
        lines.append(assumption.replace(escape_latex(POWER_OF_POPULARITY), power))
    return lines + _describe_sensitivity(content, tables)


def _list_legend(
    content: ReportContent, tables: Sequence[TableLayout], columns: Columns, style: CellStyle
) -> list[str]:
    """Return the notes on the signs of the table: bold and marks, undefined estimates, warnings."""
    lines = []
    estimates: list[PrintedEstimate] = []
    for column in columns.values():
        estimates += column.values()
    first, behind = "highest", "lower"
    if all(layout.verdict.metric in RATING_METRICS for layout in tables):
        first, behind = "lowest", "higher"
    if style.bold and any(estimate.is_best for estimate in estimates):
        lines.append(f"Bold: the {first} estimate of each column and metric.")
    if style.significance and any(estimate.is_behind for estimate in estimates):
        lines.append(
            f"{SIGNIFICANT} significantly {behind} than the {first} estimate of its column and metric "
            f"(paired test, Holm's correction, $p < {LEVEL:g}$)."
        )
    if any(np.isnan(estimate.value) for estimate in estimates):
        lines.append(f"{UNDEFINED}: undefined or suppressed.")
    flags = {}
    for cell, cell_flags in content.flags.items():
        if cell in columns:
            flags[cell] = cell_flags

    for warning in flag_warnings(flags, tables[0].labels, content.names):
        lines.append(f"{MARK} {escape_latex(warning)}")
    return lines


def _state_no_difference(tables: Sequence[TableLayout], style: CellStyle) -> list[str]:
    """Return the note that no pair of recommenders differs significantly in any column; empty where one does."""
    if not style.significance:
        return []
    n_tests = 0
    for table in tables:
        for label in table.labels:
            ranking = table.verdict.rankings[label]
            if ranking.tests is None or len(ranking.ranked) < 2:
                continue
            if ranking.tests.is_significant(ranking.ranked, LEVEL).any():
                return []
            n_tests += 1
    if n_tests == 0:
        return []
    return [rf"No difference is significant (paired test, Holm's correction, $p \geq {LEVEL:g}$)."]


def _describe_data(content: ReportContent, estimands: Sequence[str], *, with_intervals: bool) -> list[str]:
    """Return the size of the evaluation, its split, and the users without training interactions."""
    lines = [escape_latex(describe_size(content, estimands, with_intervals=with_intervals))]
    if content.split is not None and content.split.description not in ("", GIVEN_AS_FRAMES):
        lines.append(escape_latex(f"Split: {content.split.description}."))
    if content.cold_users:
        first_among_warm = write_first_among_warm(choose_headline(content.verdicts))
        lines.append(escape_latex(f"{content.cold_users} {first_among_warm}".rstrip()))
    return lines


def _describe_sensitivity(content: ReportContent, tables: Sequence[TableLayout]) -> list[str]:
    """Return the effective sample size of the weighted column, and the range of γ of each metric."""
    headline = choose_headline(content.verdicts)
    lines = []
    if headline.support is not None and headline.weighted in tables[0].labels:
        name = content.names[headline.weighted]
        lines.append(escape_latex(f"Effective sample size of {name}: {headline.support.ess:,.0f}."))
    ranges = []
    for table in tables:
        gamma_range = table.verdict.gamma_range
        if gamma_range is not None:
            place = f"{gamma_range.highest_model} ranks first"
            if len(tables) > 1:
                place += f" on {table.metric}"
            ranges.append(f"{place} for {describe_range(gamma_range)}")
    if ranges:
        lines.append(escape_latex(f"{'; '.join(ranges)}."))
    return lines


def _wrap_in_threeparttable(lines: Sequence[str], notes: Sequence[str]) -> list[str]:
    """Return the table with its notes below."""
    items = [rf"\item {note}" for note in notes]
    return [
        r"\begin{threeparttable}",
        *lines,
        r"\begin{tablenotes}\footnotesize",
        *items,
        r"\end{tablenotes}",
        r"\end{threeparttable}",
    ]


def _wrap_in_table(lines: Sequence[str], caption: str | None, label: str | None) -> list[str]:
    """Return the table in a floating environment with a caption and a label."""
    head = [r"\begin{table}", r"\centering"]
    if caption is not None:
        head.append(rf"\caption{{{escape_latex(caption)}}}")
    if label is not None:
        head.append(rf"\label{{{label}}}")
    return [*head, *lines, r"\end{table}"]
