"""The printed form of an evaluation: a table per metric, then what to conclude from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.checks import check_positive_int
from ipseval._base.counts import RESULT
from ipseval.estimators import Estimator
from ipseval.estimators._labels import spoken
from ipseval.estimators._sums import ROUNDING
from ipseval.evaluation._estimates import Estimates
from ipseval.evaluation._explanation import LEGEND, RANDOM, dated, flag_warnings, short_headline, undefined
from ipseval.evaluation._page import page_parts
from ipseval.evaluation._sentences import probability, verdict_lines
from ipseval.evaluation._verdict import Standing, Verdict
from ipseval.propensity import Propensity
from ipseval.report import Tables
from ipseval.report._tables import Cell, Remark, Table
from ipseval.report._words import LEVEL, bare, decimals, listed, number, shown_p, signed, signed_at

# Rows that text prints of all metrics together, and of one metric at least and at most.
ALL_ROWS, FEWEST_ROWS, MOST_ROWS = 40, 3, 12
# Counts that notes of estimates say as well, and for which estimates.
IN_NOTES = ("users without a list", "positives without a propensity", "users with test positives and no list")
ASKED = ("rows with a value below",)  # the threshold that the caller gave
MOST_NOTES = 6
UNTOLD = "not told apart"
FEW_USERS = 10  # of whom all may be perfect by chance
HINT = "More: .explain()"
POPULATIONS = "Corrected: the mean over relevant pairs."


def evaluation_tables(made: Estimates, *, digits: int = 2, page: bool = False) -> Tables:
    """Return the tables of an evaluation with its verdict; of a `page` with the sections below them."""
    check_positive_int("digits", digits)
    frame, diagnostics, verdicts, flags = made._frame, made.diagnostics, made.verdicts, made._flags
    propensity, estimators = made.propensity, made.definitions[1]
    summary = short_headline(len(made.models), made.extent, made.provenance, made.confidence_level)
    if page:
        size = f"{made.extent.units} × {diagnostics['n_items'].max():,} test items"
        summary.append(dated(made.counted, size))
    by_metric = {str(metric): part for metric, part in frame.groupby("metric", sort=False)}
    n_rows = min(MOST_ROWS, max(FEWEST_ROWS, ALL_ROWS // len(by_metric)))
    headers = _headers(estimators, propensity)
    parts = [_table(by_metric[one.metric], one, headers, flags, digits, n_rows) for one in verdicts]
    remarks = [Remark("Verdict", verdict_lines(verdicts))]
    notes, left_out = [*_perfect(frame), *_notes(frame, diagnostics)], _left_out(made.data)
    leakage = str(made.provenance.get("leakage", ""))
    later = re.search(r"\((.* %)\)", leakage)
    drawn = ["The split is random."] if leakage.endswith(RANDOM) else []
    notes += [f"{later[1]} of test rows have later training rows."] if later and not drawn else []
    if notes or left_out or drawn:
        # What is in the numbers goes before what never entered, where there is no room for all.
        most = len(notes) + len(left_out) if page else MOST_NOTES
        shown = [*left_out[: max(0, most - len(notes))], *notes[:most]]
        n_more = len(notes) + len(left_out) - len(shown)
        more = [f"And {n_more} more in .data and .frame."] if n_more else []
        remarks.append(Remark("Data", (" ".join([*shown, *drawn, *more]),)))
    remarks.append(Remark("Claim", tuple(_claims(frame, verdicts))))
    remarks.append(Remark("Weights", (_weights(diagnostics, verdicts[0], propensity),)))
    return Tables(
        summary=tuple(summary),
        warnings=tuple(flag_warnings(flags, diagnostics["estimator"])),
        parts=tuple(parts),
        title="Evaluation of recommenders" if page else "",
        verdict=tuple(remarks),
        hint=HINT,
        legend=(LEGEND,) if frame["model"].nunique() > 1 else (),
        appendix=tuple(page_parts(made)) if page else (),
    )


def _headers(estimators: Sequence[Estimator], propensity: Propensity | None) -> dict[str, str]:
    """Return the header of each estimator's column; of weights that nobody measured, as a condition."""
    if len(estimators) > 2:
        return {one.label: one.label for one in estimators}
    gamma = None if propensity is None or propensity.basis != "assumed" else propensity.gamma
    return {
        one.label: spoken(one.label)
        if gamma is None or not one.weighted
        else f"if γ = {number(gamma)} were right"
        for one in estimators
    }


def _table(
    rows: pd.DataFrame,
    verdict: Verdict,
    headers: Mapping[str, str],
    flags: Mapping[tuple[str, str], str],
    digits: int,
    n_rows: int,
) -> Table:
    """Return the table of one metric, in the order of the verdict: estimates, then what tells them apart."""
    models = [*verdict.order, *(one for one in rows["model"].unique() if one not in verdict.order)]
    columns, header = [], []
    for label, name in headers.items():
        flag = flags.get((verdict.metric, label), "")
        part, own = rows[rows["estimator"] == label], verdict.standings[label]
        columns.append(_column(part, own, flag, digits, of_record=label == verdict.estimator))
        header.append(name + (", unreliable" if flag else ""))
    if verdict.posterior is not None:
        columns.append(_corrected(verdict.posterior, digits))
        header.append("corrected")
    if len(models) > 1 and (verdict.posterior is None or verdict.measured):
        common = decimals(_half_widths(rows[rows["estimator"] == verdict.estimator]), digits)
        columns.append({model: _behind(verdict, model, common) for model in models})
        header.append("vs best")
    elif len(models) > 1:
        after = zip(models, [*models[1:], ""], strict=True)
        ahead = {one: verdict.p_ahead(one, other) for one, other in after}
        said = {one: probability(p, verdict.informed) for one, p in ahead.items() if not np.isnan(p)}
        columns.append({one: Cell(text) for one, text in said.items()})
        header.append("ahead of next")
    nothing = Cell("")
    body = tuple((Cell(model), *(column.get(model, nothing) for column in columns)) for model in models)
    fits = len(models) <= n_rows
    n_apart = len([one for one in models[n_rows:] if one in verdict.leaders])
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


def _corrected(posterior: Any, digits: int) -> dict[str, Cell]:
    """Return recommender -> what the correction makes of it, with its interval."""
    places = max(2, decimals((posterior.high - posterior.low) / 2, max(1, digits - 1)))
    numbers = zip(posterior.models, posterior.mean, posterior.low, posterior.high, strict=True)
    return {
        model: Cell(
            f"{mean:.{places}f}", f"[{bare(low, places)}, {bare(high, places)}]", at=(low, mean, high)
        )
        for model, mean, low, high in numbers
    }


def _half_widths(part: pd.DataFrame) -> list[float]:
    return ((part["ci_high"] - part["ci_low"]) / 2).tolist()


def _column(
    part: pd.DataFrame, standing: Standing, flag: str, digits: int, *, of_record: bool
) -> dict[str, Cell]:
    """Return recommender -> estimate with its interval; a column that can be relied on has marks."""
    half = _half_widths(part)
    marked = not flag and len(standing.ranked) > 1
    common, cells = decimals(half, digits), {}
    read = (part[name] for name in ("model", "estimate", "ci_low", "ci_high", "note"))
    for model, value, low, high, note, width in zip(*read, half, strict=True):
        if np.isnan(value):
            cells[model] = undefined(note, flag)
            continue
        places = max(common, decimals([width], 1, default=0))
        bounds = "" if np.isnan(width) else f"[{bare(low, places)}, {bare(high, places)}]"
        cells[model] = Cell(
            f"{value:.{places}f}".replace("-", "−"),
            bounds,
            strong=marked and model == standing.best,
            mark="†" if marked and model not in standing.leaders else "",
            flag=flag,
            at=(low, value, high),
            short=None if of_record else "",
        )
    return cells


def _behind(verdict: Verdict, model: str, places: int) -> Cell:
    """Return how far a recommender is behind the highest one, and whether a test tells them apart."""
    standing = verdict.standing
    if model == verdict.first:
        return Cell("best" if len(standing.leaders) == 1 else "highest")
    gap, p_value = standing.difference(model, verdict.first)
    if np.isnan(p_value):
        return Cell("not tested")
    if gap == 0:
        return Cell("no difference")
    text = signed_at(gap, places) if float(f"{gap:.{places}f}") else signed(gap, 1)
    if p_value < LEVEL:
        return Cell(text, shown_p(p_value))
    return Cell(text, f"{shown_p(p_value)}  {UNTOLD}", short=UNTOLD)


BASES = {
    "design": "by design",
    "exposure": "fitted to random exposure",
    "fitted": "fitted to shown pairs",
    "assumed": "assumed",
}


def _weights(diagnostics: pd.DataFrame, verdict: Verdict, propensity: Propensity | None) -> str:
    """Return what the weights are, whether they can be relied on, and where the propensity comes from."""
    texts = [f"Those {one.words}: {one.size}." for one in verdict.weights[bool(verdict.weighted) :]]
    if not verdict.weighted:
        return " ".join(texts) or "None, so popular items count in full."
    cautions = diagnostics.set_index("estimator")["cautions"][verdict.weighted]
    own = (
        f"{verdict.weights[0].size.removesuffix(': fine')}; {cautions}"
        if cautions
        else verdict.weights[0].size
    )
    if propensity is None:
        return " ".join([f"{own}.", *texts])
    model = propensity.model.replace("gamma", "γ")
    return " ".join([f"{own}.", f"{model[:1].upper()}{model[1:]}, {BASES[propensity.basis]}.", *texts])


def _left_out(data: pd.DataFrame) -> list[str]:
    """Return what was left out, merged or removed, or might have been, before the estimates."""
    lines = []
    what = data["what"].str
    told = what.contains("left out|merged|removed|no threshold") & ~what.startswith((*IN_NOTES, *ASKED))
    for row in data[told].to_dict("records"):
        of = "" if pd.isna(row["of"]) else f" of {row['of']:,}"
        subject = "" if row["subject"] == RESULT else f"{row['subject']}: "
        lines.append(f"{subject}{row['count']:,}{of} {row['what']}.")
    return lines


def _notes(frame: pd.DataFrame, diagnostics: pd.DataFrame) -> list[str]:
    """Return what was left out or replaced, each once; whom and what it concerns where that is not all."""
    said: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    said_below = zip(diagnostics["flag"], diagnostics["cautions"], strict=True)
    elsewhere = {text for notes in said_below for text in _parts(*notes)}
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


def _claims(frame: pd.DataFrame, verdicts: Sequence[Verdict]) -> list[str]:
    """Return what is claimed of the estimates that the verdict rests on, and of whom each is the average."""
    claims: dict[tuple[str, str], list[str]] = {}
    for one in verdicts:
        rows = frame[(frame["metric"] == one.metric) & (frame["estimator"] == one.estimator)]
        claims.setdefault((one.estimator, str(rows["claim"].iloc[0])), []).append(one.metric)
    lines = []
    for (label, claim), metrics in claims.items():
        of = "" if len(claims) == 1 else f"{', '.join(metrics)}: "
        lines.append(f"{of}{label}{':' if claim.startswith('plug-in') else ' is'} {claim}.")
    if any(one.posterior is not None for one in verdicts):
        lines[-1] += f" {POPULATIONS}"
    return lines
