"""One LaTeX table of an evaluation for a paper: booktabs, all metrics, captions and notes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ipseval._base.checks import check_bool, check_choice, check_positive_int
from ipseval.errors import InputError
from ipseval.evaluation.report_content import ReportContent
from ipseval.evaluation.report_tables import describe_size, order_models
from ipseval.evaluation.verdict import Verdict
from ipseval.report._markup import latex
from ipseval.report._words import decimals, fixed

LONG = "long"
WIDE = "models x metrics"
LAYOUTS = (LONG, WIDE)
MOST_DIGITS = 17  # a float has no more


def write_latex(
    content: ReportContent,
    labels: Sequence[str],
    *,
    layout: str,
    caption: str | None,
    label: str | None,
    notes: bool,
    bold: bool,
    digits: int,
) -> str:
    """Write the table; see `Evaluation.to_latex` for the options."""
    check_choice("layout", layout, LAYOUTS)
    check_bool("notes", notes)
    check_bool("bold", bold)
    if check_positive_int("digits", digits) > MOST_DIGITS:
        raise InputError(f"digits must be at most {MOST_DIGITS}; got {digits}.")
    _check_estimands(content, labels)
    if layout == LONG:
        lines = _long_tabular(content, labels, digits, bold=bold)
    else:
        lines = _wide_tabular(content, labels, digits, bold=bold)
    if notes:
        lines = _with_notes(lines, _note_lines(content, labels))
    if caption is not None or label is not None:
        lines = _floating(lines, caption, label)
    return "\n".join(lines) + "\n"


def _check_estimands(content: ReportContent, labels: Sequence[str]) -> None:
    """Raise `InputError` for columns of different estimands: they do not belong into one table."""
    if not labels:
        raise InputError("columns must name at least one estimator; got none.")
    groups = {
        estimand: [label for label in labels if label in members]
        for estimand, members in content.estimands.items()
    }
    present = {estimand: members for estimand, members in groups.items() if members}
    if len(present) > 1:
        named = "; ".join(f"{', '.join(members)}: {estimand}" for estimand, members in present.items())
        raise InputError(
            f"columns must have one estimand; got {named}. Write one table for each, with columns=."
        )


def _long_tabular(content: ReportContent, labels: Sequence[str], digits: int, *, bold: bool) -> list[str]:
    """Return a block of rows per metric, a column per estimator, with confidence intervals."""
    heads = [latex(content.column_names[label]) for label in labels]
    lines = [
        rf"\begin{{tabular}}{{l{'l' * len(labels)}}}",
        r"\toprule",
        " & ".join(["", *heads]) + r" \\",
    ]
    for verdict in content.verdicts:
        lines.append(r"\midrule")
        lines.append(rf"\multicolumn{{{len(labels) + 1}}}{{l}}{{\emph{{{latex(verdict.metric)}}}}} \\")
        cells = {
            label: _cells(content, verdict, label, digits, bold, with_intervals=True) for label in labels
        }
        models = order_models(verdict.standings[labels[0]])
        rows = [[latex(model), *(cells[label][model] for label in labels)] for model in models]
        lines += [" & ".join(row) + r" \\" for row in rows]
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _wide_tabular(content: ReportContent, labels: Sequence[str], digits: int, *, bold: bool) -> list[str]:
    """Return a row per recommender, with the estimators of each metric side by side."""
    n_columns = len(labels)
    metrics = [verdict.metric for verdict in content.verdicts]
    heads = [
        rf"\multicolumn{{{n_columns}}}{{c}}{{{latex(metric)}}}" if n_columns > 1 else latex(metric)
        for metric in metrics
    ]
    lines = [
        rf"\begin{{tabular}}{{l{'r' * n_columns * len(metrics)}}}",
        r"\toprule",
        " & ".join(["", *heads]) + r" \\",
    ]
    if n_columns > 1:
        starts = [2 + n_columns * index for index in range(len(metrics))]
        rules = [rf"\cmidrule(lr){{{start}-{start + n_columns - 1}}}" for start in starts]
        estimators = [latex(content.column_names[label]) for label in labels]
        lines.append("".join(rules))
        lines.append(" & ".join(["", *(estimators * len(metrics))]) + r" \\")
    lines.append(r"\midrule")
    cells = {
        (verdict.metric, label): _cells(content, verdict, label, digits, bold, with_intervals=False)
        for verdict in content.verdicts
        for label in labels
    }
    first_standing = content.verdicts[0].standings[labels[0]]
    for model in order_models(first_standing):
        row = [latex(model), *(cells[metric, label][model] for metric in metrics for label in labels)]
        lines.append(" & ".join(row) + r" \\")
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _cells(
    content: ReportContent,
    verdict: Verdict,
    label: str,
    digits: int,
    bold: bool,
    *,
    with_intervals: bool,
) -> dict[str, str]:
    """Return recommender -> LaTeX of its estimate; an unreliable one has a mark and no interval."""
    rows = content.rows(verdict.metric, label)
    standing = verdict.standings[label]
    flag = content.flags.get((verdict.metric, label), "")
    half_widths = ((rows["ci_high"] - rows["ci_low"]) / 2).tolist()
    common_places = decimals(half_widths, digits)
    cells = {}
    for row, half_width in zip(rows.to_dict("records"), half_widths, strict=True):
        value = row["estimate"]
        if np.isnan(value):
            cells[row["model"]] = "--"
            continue
        places = max(common_places, decimals([half_width], 1, default=0))
        text = latex(fixed(value, places))
        is_best = (
            bold
            and not flag
            and len(standing.ranked) > 1
            and row["model"] in (standing.tied or (standing.best,))
        )
        if is_best:
            text = rf"\textbf{{{text}}}"
        if flag:
            text += r"$^{u}$"
        elif with_intervals and not np.isnan(half_width):
            text += latex(f" [{fixed(row['ci_low'], places)}, {fixed(row['ci_high'], places)}]")
        cells[row["model"]] = text
    return cells


def _note_lines(content: ReportContent, labels: Sequence[str]) -> list[str]:
    """Return what a reader of the paper must know of the numbers."""
    notes = [describe_size(content)]
    if content.text.assumption:
        notes.append(content.text.assumption)
    unreliable = [
        f"{content.names[label]} of {verdict.metric}"
        for verdict in content.verdicts
        for label in labels
        if content.flags.get((verdict.metric, label))
    ]
    lines = [latex(note) for note in notes]
    if unreliable:
        names = latex(", ".join(unreliable))
        lines.append(rf"$^{{u}}$ Unreliable, as few interactions carry the weights: {names}.")
    return lines


def _with_notes(lines: Sequence[str], notes: Sequence[str]) -> list[str]:
    items = [rf"\item {note}" for note in notes]
    return [
        r"\begin{threeparttable}",
        *lines,
        r"\begin{tablenotes}\footnotesize",
        *items,
        r"\end{tablenotes}",
        r"\end{threeparttable}",
    ]


def _floating(lines: Sequence[str], caption: str | None, label: str | None) -> list[str]:
    head = [r"\begin{table}", r"\centering"]
    if caption is not None:
        head.append(rf"\caption{{{latex(caption)}}}")
    if label is not None:
        head.append(rf"\label{{{label}}}")
    return [*head, *lines, r"\end{table}"]
