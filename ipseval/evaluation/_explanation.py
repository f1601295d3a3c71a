"""Everything that an evaluation holds: where its numbers come from, orders, claims, notes, definitions."""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.artefacts import sha256
from ipseval._base.checks import check_positive_int, counted, examples
from ipseval._base.counts import Count
from ipseval._version import __version__
from ipseval.errors import InputError
from ipseval.estimators import Sample
from ipseval.estimators._sample import Extent
from ipseval.evaluation._verdict import Standing, Verdict
from ipseval.metrics import metric as parse_metric
from ipseval.propensity import Propensity
from ipseval.ranking._ranked import ALL_ITEMS
from ipseval.report import Tables
from ipseval.report._tables import Cell, Code, Notes, Table
from ipseval.report._words import LEVEL, decimals, listed


def headline(
    n_models: int, extent: Extent, options: Mapping[str, Any], propensity: Propensity | None
) -> list[str]:
    """Return the lines that say what was evaluated."""
    lines = [
        f"{counted(n_models, 'recommender')}, {counted(extent.n_positives, 'held-out positive')} of "
        f"{extent.units} ({extent.median_positives:g} each in the median)",
        f"candidates: {options['candidates']}",
    ]
    if "leakage" in options:
        lines.append(f"leakage:    {options['leakage']}")
    if propensity is not None:
        scale = "" if propensity.is_probability else ", known up to a factor"
        lines.append(f"propensity: {propensity.model}{scale}")
    if extent.n_without_propensity:
        has = "has" if extent.n_without_propensity == 1 else "have"
        left_out = counted(extent.n_without_propensity, "positive")
        lines.append(f"left out:   {left_out} that {has} no propensity")
    return lines


READ = "rows read from "
RANDOM = "; the split is random"  # so that rows of both parts are of all times


def dated(counts: Iterable[Count], otherwise: str) -> str:
    """Return the line of a page that names the files that were read, or what they are, and the day.

    SOURCE_DATE_EPOCH, in seconds, is the day of a page that has to have the same bytes whenever it is made.
    """
    day = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time()), UTC).date()
    read = [one.what.removeprefix(READ).partition(": ")[0] for one in counts if one.what.startswith(READ)]
    files = [one for one in dict.fromkeys(read) if one != "the data frame"]
    return f"Data: {listed(files) if files else otherwise} · page of {day.isoformat()}"


def rows_read(counts: Iterable[Count]) -> list[str]:
    """Return a line for each source that was read: its rows, and which column was taken for what."""
    found = [one for one in counts if one.what.startswith(READ)]
    return [f"{one.subject + ':':<12}{one.count:,} rows from {one.what.removeprefix(READ)}" for one in found]


def short_headline(n_models: int, extent: Extent, options: Mapping[str, Any], level: float) -> list[str]:
    """Return one line that says what was evaluated; candidates where they are not the whole catalogue."""
    positives = counted(extent.n_positives, "held-out positive")
    texts = [counted(n_models, "recommender"), extent.units, positives]
    if options["candidates"] != ALL_ITEMS:
        texts.append(f"candidates: {options['candidates']}")
    return [" · ".join([*texts, f"{level * 100:.4g} % intervals in brackets"])]


def versions() -> dict[str, str]:
    """Return the versions that numbers may depend on."""
    names = {"ipseval": __version__, "python": platform.python_version()}
    return {**names, "numpy": np.__version__, "pandas": pd.__version__}


def basis(
    sample: Sample, propensity: Propensity | None, metrics: Iterable[str], missing: Any, positives: str
) -> dict[str, Any]:
    """Return what the numbers are of: hashes of the data, options, and definitions of the metrics."""
    return {
        "data": _fingerprints(sample, positives),
        "options": {
            "ties": sample.ties,
            "candidates": sample.ranked.candidates,
            "n_relevant": sample.n_relevant_kind,
            "propensity": None if propensity is None else propensity.model,
            "missing": missing,
        },
        "metrics": {label: _definition(label) for label in metrics},
    }


def _fingerprints(sample: Sample, positives: str) -> dict[str, str | None]:
    """Return hashes of positives, users, graded relevance and propensities; null for what there is not."""
    columns: dict[str, Any] = {
        "gains": sample.ranked.gain,
        "n_relevant": sample.n_relevant,
        "propensity": sample.propensity,
    }
    ranked = sample.ranked
    owners = () if ranked.cluster is None else ranked.unit_ids[ranked.cluster]
    users = sha256("\x1f".join(map(str, [*ranked.user_ids, *owners])))
    # Nine digits: the last bits of a power depend on the machine.
    hashes = {
        f"{name}_sha256": None if values is None else sha256("\x1f".join(map("{:.9g}".format, values)))
        for name, values in columns.items()
    }
    return {"positives_sha256": positives, "users_sha256": users, **hashes}


def data_hash(sample: Sample) -> str:
    """Return the SHA-256 of the positives (user id, item id) and their numbers of candidates."""
    ranked = sample.ranked
    columns = (ranked.user_ids[ranked.user], ranked.item_ids[ranked.item], ranked.n_candidates)
    return sha256(*("\x1f".join(map(str, column)) for column in columns))


def _definition(label: str) -> dict[str, Any] | None:
    """Return the definition of a metric that has a label of ours; None for a caller's own metric."""
    try:
        known = parse_metric(label)
    except InputError:
        return None
    return {
        "kind": known.kind,
        "cutoff": known.cutoff,
        "default_ties": known.default_ties,
        **dataclasses.asdict(known.definition),
    }


GLOSSARY = (
    "Propensity P: the chance that a relevant item is observed; relative: known up to a common factor.",
    "A weight w is 1/P. The effective sample size (Σw)²/Σw² says how many equal weights are as exact.",
    "S: a user's held-out positives; s: the number of all relevant items of the user.",
    "r_i: rank of item i; c: what a positive contributes to the metric; n: number of candidates.",
)
OF_GAMMA = (
    "γ: a power law takes the propensity to grow as popularity^((γ + 1)/2). At γ = −1 all weights are equal; "
    "the larger γ, the less popular items count. A verdict tries γ from −1 to 3 in steps of 0.1, and in "
    "steps of 1 for metrics that are no weighted mean. Two changes within one step are not seen."
)


LEGEND = (
    "Bold: highest of its column. †: the paired test tells it from the highest, with Holm's correction over "
    f"the pairs of the column, p < {LEVEL:g}. Unreliable columns have neither."
)


def explained_tables(
    frame: pd.DataFrame,
    diagnostics: pd.DataFrame,
    verdicts: Iterable[Verdict],
    *,
    flags: Mapping[tuple[str, str], str],
    summary: Iterable[str],
    verdict: Iterable[str] = (),
    digits: int = 2,
    cards: Mapping[str, str] | None = None,
) -> Tables:
    """Return the tables of an evaluation with all that can be said of them."""
    check_positive_int("digits", digits)
    parts = [_leaderboard(frame[frame["metric"] == one.metric], one, flags, digits) for one in verdicts]
    several = frame["model"].nunique() > 1
    reading = ["± is one standard error over users."]
    if several:
        reading.append(
            "> in an order: the paired test tells every recommender before it from every one after it "
            f"(Holm, p < {LEVEL:g}). Commas join those that are not all told apart."
        )
    reading += [*GLOSSARY, OF_GAMMA] if diagnostics["weighted"].any() else GLOSSARY[2:]
    return Tables(
        summary=tuple(summary),
        warnings=tuple(flag_warnings(flags, diagnostics["estimator"])),
        parts=(
            *parts,
            Notes(tuple(verdict)),
            Notes((*_claims(frame, diagnostics), *reading)),
            *(Code(name, text.removeprefix(f"{name}\n")) for name, text in (cards or {}).items()),
        ),
        legend=(LEGEND,) if several else (),
    )


def flag_warnings(flags: Mapping[tuple[str, str], str], estimators: Iterable[str]) -> list[str]:
    """Return one sentence for every flag, with the metrics it is of where those are not all."""
    lines = []
    for label in estimators:
        own = {metric: flag for (metric, one), flag in flags.items() if one == label}
        for text in dict.fromkeys(filter(None, own.values())):
            named = [metric for metric, flag in own.items() if flag == text]
            of = "" if len(named) == len(own) else f" of {', '.join(named)}"
            lines.append(f"Unreliable: {label}{of}. {text[:1].upper()}{text[1:]}.")
    return lines


def _leaderboard(
    rows: pd.DataFrame, verdict: Verdict, flags: Mapping[tuple[str, str], str], digits: int
) -> Table:
    """Return the table of one metric: a row per recommender, a column per estimator."""
    models = list(dict.fromkeys(rows["model"]))
    shown: tuple[str, ...] = ()
    columns: dict[str, dict[str, Cell]] = {}
    orders: dict[str, list[str]] = {}
    unreliable = []
    for label, standing in verdict.standings.items():
        flag = flags.get((verdict.metric, label), "")
        marked = not flag and len(models) > 1
        columns[label] = _column(rows[rows["estimator"] == label], standing, flag, marked, digits)
        if flag:
            unreliable.append(label)
        elif marked and standing.ranked:
            orders.setdefault(supported_order(standing), []).append(label)
            shown = shown or standing.ranked
    below = [f"unreliable, see the warning above: {', '.join(unreliable)}"] if unreliable else []
    for order, labels in orders.items():
        everyone = len(labels) == len(columns) > 1
        below.append(f"order by {'every estimator' if everyone else ', '.join(labels)}: {order}")
    # Rows stand in the order of the first column that can be trusted.
    listed_first = (*shown, *(model for model in models if model not in shown))
    body = tuple((Cell(model), *(column[model] for column in columns.values())) for model in listed_first)
    return Table(("recommender", *columns), body, verdict.metric, below=tuple(below))


def supported_order(standing: Standing) -> str:
    """Return the order in words, with ">" only where all before it are told from all after it."""
    text, ranked = standing.best, standing.ranked
    apart = None if standing.tests is None else standing.tests.told_apart(ranked, LEVEL)
    for place in range(1, len(ranked)):
        cut = apart is not None and apart[:place, place:].all()
        text += (" > " if cut else ", ") + ranked[place]
    return text


def _column(part: pd.DataFrame, standing: Standing, flag: str, marked: bool, digits: int) -> dict[str, Cell]:
    """Return recommender -> cell; only a column that can be relied on has a best, and marks."""
    common = decimals(part["std_error"], digits)
    cells = {}
    for row in part.to_dict("records"):
        model, value, error = row["model"], row["estimate"], row["std_error"]
        if np.isnan(value):
            cells[model] = undefined(row["note"], flag)
            continue
        shown = max(common, decimals([error], digits, default=0))
        cells[model] = Cell(
            f"{value:.{shown}f}",
            "" if np.isnan(error) else f"± {error:.{shown}f}",
            strong=marked and model == standing.best,
            mark="†" if marked and model not in standing.leaders else "",
            flag=flag,
            hint=f"interval {row['ci_low']:.{shown}f} to {row['ci_high']:.{shown}f}",
        )
    return cells


def undefined(note: str, flag: str) -> Cell:
    """Return the cell of an estimate that is not shown."""
    return Cell("suppressed" if "suppressed" in note else "undefined", flag=flag)


def _claims(frame: pd.DataFrame, diagnostics: pd.DataFrame) -> list[str]:
    """Return what is claimed of each estimator, and every note once, with the estimators it is of."""
    lines: list[str] = []
    said: dict[str, list[str]] = {}
    models = list(frame["model"].unique())
    for row in diagnostics.to_dict("records"):
        label = row["estimator"]
        part = frame[frame["estimator"] == label]
        by_claim = part.groupby("claim", sort=False)["metric"].unique()
        for claim, metrics in by_claim.items():
            on = "" if len(by_claim) == 1 else f" ({', '.join(metrics)})"
            lines.append(f"{label}{on}: {claim}.")
        if row["remark"] and not row["flag"]:
            lines.append(f"  {row['remark']}.")
        for text in dict.fromkeys(text for note in part["note"].unique() for text in note.split("; ")):
            if text and text != row["flag"]:
                said.setdefault(text, []).append(label)
    everywhere = list(diagnostics["estimator"])
    for text, labels in said.items():
        who = "all" if labels == everywhere and len(labels) > 1 else ", ".join(labels)
        told = [text in note.split("; ") for note in frame["note"]]
        named = list(frame["model"][told].unique())
        lines.append(f"{who}{'' if named == models else f' of {examples(named)}'}: {text}.")
    return lines
