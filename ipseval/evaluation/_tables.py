"""The printed form of an evaluation: a table per metric, then what to conclude from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ipseval._base.checks import check_positive_int
from ipseval._base.counts import RESULT
from ipseval.estimators import Estimator
from ipseval.estimators._sums import ROUNDING
from ipseval.evaluation._explanation import flag_warnings
from ipseval.evaluation._verdict import Standing, Verdict, verdict_lines
from ipseval.report import Tables

# Rows that text prints of all metrics together, and of one metric at least and at most.
from ipseval.report._tables import Cell, Heading, Part, Remark, Table
from ipseval.report._words import LEVEL, bare, decimals, listed, shown_p, signed

# Rows that text prints of all metrics together, and of one metric at least and at most.
ALL_ROWS, FEWEST_ROWS, MOST_ROWS = 40, 3, 12
LEGEND = (
    "Bold: highest of its column. †: the paired test tells it from the highest, with Holm's correction over "
    f"the pairs of the column, p < {LEVEL:g}. Unreliable columns have neither."
)
# Counts that notes of estimates say as well, and for which estimates.
IN_NOTES = ("users without a list", "positives without a propensity", "users with test positives and no list")
MOST_NOTES = 6
UNTOLD = "not told apart"
FEW_USERS = 10  # of whom all may be perfect by chance
HINT = "More: .explain()"


def evaluation_tables(
    frame: pd.DataFrame,
    diagnostics: pd.DataFrame,
    verdicts: Sequence[Verdict],
    *,
    estimators: Sequence[Estimator],
    flags: Mapping[tuple[str, str], str],
    summary: Iterable[str],
    data: pd.DataFrame,
    weights: str | None = None,
    digits: int = 2,
    title: str = "",
    appendix: Iterable[Part] = (),
) -> Tables:
    """Return the tables of an evaluation with its verdict."""
    check_positive_int("digits", digits)
    by_metric = {str(metric): part for metric, part in frame.groupby("metric", sort=False)}
    n_rows = min(MOST_ROWS, max(FEWEST_ROWS, ALL_ROWS // len(by_metric)))
    parts = [_table(by_metric[one.metric], one, estimators, flags, digits, n_rows) for one in verdicts]
    remarks = [
        Remark("Verdict", verdict_lines(verdicts)),
        Remark("Weights", (_weights(diagnostics, verdicts, weights),)),
    ]
    notes, left_out = [*_perfect(frame), *_notes(frame, diagnostics)], _left_out(data)
    if notes or left_out:
        # What is in the numbers goes before what never entered, where there is no room for all.
        shown = [*left_out[: max(0, MOST_NOTES - len(notes))], *notes[:MOST_NOTES]]
        n_more = len(notes) + len(left_out) - len(shown)
        more = [f"And {n_more} more in .data and .frame."] if n_more else []
        remarks.append(Remark("Data", (" ".join([*shown, *more]),)))
    remarks.append(Remark("Claim", tuple(_claims(frame, verdicts))))
    return Tables(
        summary=tuple(summary),
        warnings=tuple(flag_warnings(flags, diagnostics["estimator"])),
        parts=tuple(parts),
        title=title,
        verdict=tuple(remarks),
        hint=HINT,
        legend=(LEGEND,) if frame["model"].nunique() > 1 else (),
        appendix=tuple(appendix),
    )


def _table(
    rows: pd.DataFrame,
    verdict: Verdict,
    estimators: Sequence[Estimator],
    flags: Mapping[tuple[str, str], str],
    digits: int,
    n_rows: int,
) -> Table:
    """Return the table of one metric: the estimator of record stands last, then differences."""
    standing = verdict.standing
    order = sorted(estimators, key=lambda one: one.label == standing.estimator)
    models = [*standing.ranked, *(one for one in rows["model"].unique() if one not in standing.ranked)]
    columns, header = [], []
    for one in order:
        flag = flags.get((verdict.metric, one.label), "")
        part, own = rows[rows["estimator"] == one.label], verdict.standings[one.label]
        columns.append(_column(part, own, flag, digits, of_record=one.label == standing.estimator))
        header.append(_header(one, len(order)) + (", unreliable" if flag else ""))
    if len(models) > 1:
        common = decimals(_half_widths(rows[rows["estimator"] == standing.estimator]), digits)
        columns.append({model: _behind(verdict, model, common) for model in models})
        header.append("vs best")
    body = tuple((Cell(model), *(column[model] for column in columns)) for model in models)
    fits = len(models) <= n_rows
    n_apart = len([one for one in models[n_rows:] if one in standing.leaders])
    not_apart = f", {n_apart} of them not told apart from the best" if n_apart else ""
    return Table(
        ("recommender", *header),
        body,
        verdict.metric,
        words=frozenset(range(len(header) + 1)),
        n_rows=None if fits else n_rows,
        metric=verdict.metric,
        rest="" if fits else f"and {len(models) - n_rows} more in .frame{not_apart}",
    )


def _header(estimator: Estimator, n_columns: int) -> str:
    if n_columns > 2:
        return estimator.label
    return f"{'weighted' if estimator.weighted else 'plain average'} ({estimator.label})"


def _half_widths(part: pd.DataFrame) -> list[float]:
    return ((part["ci_high"] - part["ci_low"]) / 2).tolist()


def _column(
    part: pd.DataFrame, standing: Standing, flag: str, digits: int, *, of_record: bool
) -> dict[str, Cell]:
    """Return recommender -> estimate with its interval; a column that can be relied on has marks."""
    half = _half_widths(part)
    marked = not flag and len(standing.ranked) > 1
    common, cells = decimals(half, digits), {}
    for row, width in zip(part.to_dict("records"), half, strict=True):
        value = row["estimate"]
        if np.isnan(value):
            text = "suppressed" if "suppressed" in row["note"] else "undefined"
            cells[row["model"]] = Cell(text, flag=flag)
            continue
        places = max(common, decimals([width], 1, default=0))
        bounds = "" if np.isnan(width) else f"[{bare(row['ci_low'], places)}, {bare(row['ci_high'], places)}]"
        cells[row["model"]] = Cell(
            f"{value:.{places}f}".replace("-", "−"),
            bounds,
            strong=marked and row["model"] == standing.best,
            mark="†" if marked and row["model"] not in standing.leaders else "",
            flag=flag,
            at=(row["ci_low"], value, row["ci_high"]),
            short=None if of_record else "",
        )
    return cells


def _behind(verdict: Verdict, model: str, places: int) -> Cell:
    """Return how far a recommender is behind the highest one, and whether a test tells them apart."""
    standing = verdict.standing
    if model == standing.best:
        return Cell("best" if len(standing.leaders) == 1 else "highest")
    gap, p_value = standing.difference(model, standing.best)
    if np.isnan(p_value):
        return Cell("not tested")
    if gap == 0 and p_value == 1:
        return Cell("no difference")
    text = f"{gap:+.{places}f}".replace("-", "−")
    if not float(f"{gap:.{places}f}"):
        text = signed(gap, 1)
    if p_value < LEVEL:
        return Cell(text, shown_p(p_value))
    return Cell(text, f"{shown_p(p_value)}  {UNTOLD}", short=UNTOLD)


def _weights(diagnostics: pd.DataFrame, verdicts: Sequence[Verdict], words: str | None) -> str:
    """Return what the weights of the estimator of record are, and whether they can be relied on."""
    rows = {row["estimator"]: row for row in diagnostics.to_dict("records")}
    used = [
        row
        for row in (rows[label] for label in dict.fromkeys(one.estimator for one in verdicts))
        if row["weighted"]
    ]
    if not used:
        passed = [label for one in verdicts for label in one.unreliable]
        if passed:
            return f"Unreliable, so the verdict rests on the plain average. Propensity: {words}."
        return "None, so popular items count in full."
    texts = []
    for row in used:
        size = f"Effective sample size {row['ess_own']:,.0f} of {row['ess_equal']:,.0f}"
        texts.append(f"{size}; {row['cautions']}." if row["cautions"] else f"{size}: fine.")
    return " ".join([*texts, f"Propensity: {words}."])


def _left_out(data: pd.DataFrame) -> list[str]:
    """Return what was left out, merged or removed, or might have been, before the estimates."""
    lines = []
    told = data["what"].str.contains("left out|merged|removed|no threshold") & ~data["what"].str.startswith(
        IN_NOTES
    )
    for row in data[told].to_dict("records"):
        of = "" if pd.isna(row["of"]) else f" of {row['of']:,}"
        subject = "" if row["subject"] == RESULT else f"{row['subject']}: "
        lines.append(f"{subject}{row['count']:,}{of} {row['what']}.")
    return lines


def _notes(frame: pd.DataFrame, diagnostics: pd.DataFrame) -> list[str]:
    """Return what was left out or replaced, each once; whom and what it concerns where that is not all."""
    said: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    elsewhere = {
        text for row in diagnostics.to_dict("records") for text in _parts(row["flag"], row["cautions"])
    }
    for model, metric, note in zip(frame["model"], frame["metric"], frame["note"], strict=True):
        for text in _parts(note):
            if text not in elsewhere and not text.startswith("suppressed"):
                models, metrics = said.setdefault(text, ({}, {}))
                models[model] = metrics[metric] = None
    everyone, every, labels = (set(frame[name]) for name in ("model", "metric", "estimator"))
    lines = []
    for text, (models, metrics) in said.items():
        who = "" if set(models) == everyone else listed(list(models))
        by = "" if set(metrics) == every else f"by {listed(list(metrics))}"
        whose = ", ".join(filter(None, (who, by if who else by.capitalize())))
        if whose:
            text = f"{whose}: {text}"
        elif text.split()[0] not in labels:
            text = text[:1].upper() + text[1:]
        lines.append(f"{text}.")
    return lines


def _perfect(frame: pd.DataFrame) -> list[str]:
    """Return a question where a recommender, and not every one, is perfect for each of ten users or more."""
    # Where all are perfect, candidates are as few as places, and nothing is learned of anybody.
    perfect = (frame["estimate"] > 1 - ROUNDING) & (frame["std_error"] == 0) & (frame["n_users"] >= FEW_USERS)
    found: dict[str, None] = {}
    for _, part in frame[perfect & (frame["estimate"] < 1 + ROUNDING)].groupby("metric", sort=False):
        models = part["model"].unique()
        if models.size < frame["model"].nunique() or models.size == 1:
            found |= dict.fromkeys(models)
    return [f"{listed(list(found))}: perfect for every user. Were test items in training?"] if found else []


def _parts(*notes: str) -> list[str]:
    return [text for note in notes for text in note.split("; ") if text]


def with_correction(tables: Tables, correction: Tables) -> Tables:
    """Return the tables with what random exposure says below them; its verdict comes first."""
    first = [Remark("Exposure", one.lines) for one in correction.verdict]
    return replace(
        tables,
        parts=(*tables.parts, Heading("With random exposure"), *correction.parts),
        verdict=(*first, *tables.verdict),
    )


def _claims(frame: pd.DataFrame, verdicts: Sequence[Verdict]) -> list[str]:
    """Return what is claimed of the estimates that the verdict rests on."""
    claims: dict[tuple[str, str], list[str]] = {}
    for one in verdicts:
        rows = frame[(frame["metric"] == one.metric) & (frame["estimator"] == one.estimator)]
        claims.setdefault((one.estimator, str(rows["claim"].iloc[0])), []).append(one.metric)
    lines = []
    for (label, claim), metrics in claims.items():
        by = f" by {label}" if len({one.estimator for one in verdicts}) > 1 else ""
        of = "" if len(claims) == 1 else f"{', '.join(metrics)}{by}: "
        lines.append(f"{of}{claim[:1].upper() + claim[1:] if not of else claim}.")
    return lines
