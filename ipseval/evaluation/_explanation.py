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

from ipseval._version import __version__
from ipseval.errors import InputError
from ipseval.estimators import Sample
from ipseval.evaluation.printed_estimates import print_estimates
from ipseval.evaluation.report_content import ReportContent, TableLayout
from ipseval.evaluation.verdict import Standing, Verdict
from ipseval.evaluation.verdict_text import write_verdict
from ipseval.metrics import metric as parse_metric
from ipseval.propensity import Propensity
from ipseval.reporting import Tables
from ipseval.reporting.formatting import LEVEL, decimals, fixed, listed, percent
from ipseval.reporting.tables import Cell, Code, Notes, Table
from ipseval.utils.artefacts import sha256
from ipseval.utils.checks import check_positive_int, counted, examples
from ipseval.utils.counts import Count


def describe_evaluation(content: ReportContent) -> list[str]:
    """Return the lines that say what was evaluated."""
    size = content.size
    models = counted(len(content.models), "recommender")
    interactions = counted(size.n_positives, "held-out interaction")
    lines = [
        f"{models}, {interactions} of {size.units} ({size.median_positives:g} each in the median)",
        f"candidates: {content.candidates}",
    ]
    split = content.split
    if split is not None and split.n_leaking:
        reason = "; the split is random" if split.is_random else ""
        lines.append(
            f"leakage:    {split.n_leaking:,} of {split.n_test:,} test rows "
            f"({percent(split.n_leaking / split.n_test, 1)}) have later training rows; in the median "
            f"{percent(split.median_future, 1)} of training is later{reason}"
        )
    if content.propensity is not None:
        scale = "" if content.propensity.is_probability else ", known up to a factor"
        lines.append(f"propensity: {content.propensity.model}{scale}")
    if size.n_without_propensity:
        verb = "has" if size.n_without_propensity == 1 else "have"
        excluded = counted(size.n_without_propensity, "held-out interaction")
        lines.append(f"left out:   {excluded} that {verb} no propensity")
    return lines


READ = "rows read from "


def describe_date(counts: Iterable[Count], otherwise: str) -> str:
    """Return the line of a page that names the files that were read, or what they are, and the day.

    SOURCE_DATE_EPOCH, in seconds, is the day of a page that has to have the same bytes whenever it is made.
    """
    day = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time()), UTC).date()
    read = [one.what.removeprefix(READ).partition(": ")[0] for one in counts if one.what.startswith(READ)]
    files = [one for one in dict.fromkeys(read) if one != "the data frame"]
    return f"Data: {listed(files) if files else otherwise} · page of {day.isoformat()}"


def describe_sources(counts: Iterable[Count]) -> list[str]:
    """Return a line for each source that was read: its rows, and which column was taken for what."""
    found = [one for one in counts if one.what.startswith(READ)]
    return [f"{one.subject + ':':<12}{one.count:,} rows from {one.what.removeprefix(READ)}" for one in found]


def collect_versions() -> dict[str, str]:
    """Return the versions that numbers may depend on."""
    names = {"ipseval": __version__, "python": platform.python_version()}
    return {**names, "numpy": np.__version__, "pandas": pd.__version__}


def collect_basis(
    sample: Sample, propensity: Propensity | None, metrics: Iterable[str], missing_lists: Any, positives: str
) -> dict[str, Any]:
    """Return what the numbers are of: hashes of the data, options, and definitions of the metrics."""
    return {
        "data": _fingerprints(sample, positives),
        "options": {
            "ties": sample.ties,
            "candidates": sample.ranked.candidates,
            "n_relevant": sample.n_relevant_kind,
            "propensity": None if propensity is None else propensity.model,
            "missing_lists": missing_lists,
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


def hash_positives(sample: Sample) -> str:
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
    "Bold: the highest estimate of its column. †: differs significantly from the highest (paired test, Holm "
    "over "
    f"all pairs of the column, p < {LEVEL:g}). Unreliable columns have neither."
)


def build_explanation(content: ReportContent, *, digits: int = 2) -> Tables:
    """Return the tables of an evaluation with everything that can be said of them."""
    check_positive_int("digits", digits)
    several = len(content.models) > 1
    reading = ["± is one standard error over users."]
    if several:
        reading.append(
            "In an order, > separates recommenders that differ significantly: every one before it from "
            "every one "
            f"after it (paired test, Holm, p < {LEVEL:g}). Commas join those that do not all differ "
            f"significantly."
        )
    is_weighted = content.diagnostics["weighted"].any()
    reading += [*GLOSSARY, OF_GAMMA] if is_weighted else GLOSSARY[2:]
    conclusions = [f"{verdict.metric}: {write_verdict([verdict])}" for verdict in content.verdicts]
    definitions = {} if content.page is None else content.page.definitions
    return Tables(
        summary=(*describe_evaluation(content), *describe_sources(content.counts)),
        warnings=tuple(flag_warnings(content.flags, content.diagnostics["estimator"], content.names)),
        parts=(
            *(_explained_table(content, layout, digits) for layout in content.layouts),
            Notes(tuple(conclusions)),
            Notes((*_claims(content), *reading)),
            *(Code(name, text.removeprefix(f"{name}\n")) for name, text in definitions.items()),
        ),
        legend=(LEGEND,) if several else (),
    )


def flag_warnings(
    flags: Mapping[tuple[str, str], str], estimators: Iterable[str], names: Mapping[str, str]
) -> list[str]:
    """Return one sentence for every flag, with the metrics that it concerns where those are not all."""
    lines = []
    for label in estimators:
        by_metric = {metric: flag for (metric, estimator), flag in flags.items() if estimator == label}
        for text in dict.fromkeys(filter(None, by_metric.values())):
            metrics = [metric for metric, flag in by_metric.items() if flag == text]
            of_metrics = "" if len(metrics) == len(by_metric) else f" of {', '.join(metrics)}"
            lines.append(f"Unreliable: {names.get(label, label)}{of_metrics}. {text[:1].upper()}{text[1:]}.")
    return lines


def _explained_table(content: ReportContent, layout: TableLayout, digits: int) -> Table:
    """Return one table: a row per recommender, a column per estimator, orders below."""
    verdict = layout.verdict
    several = len(content.models) > 1
    columns: dict[str, dict[str, Cell]] = {}
    orders: dict[str, list[str]] = {}
    unreliable = []
    for label in layout.labels:
        name = content.names[label]
        standing = verdict.standings[label]
        flag = content.flag(verdict.metric, label)
        columns[label] = _standard_error_column(content, verdict, label, digits)
        if flag:
            unreliable.append(name)
        elif several and standing.ranked:
            orders.setdefault(supported_order(standing), []).append(name)
    below = [f"unreliable, see the warning above: {', '.join(unreliable)}"] if unreliable else []
    for order, names in orders.items():
        is_common = len(names) == len(columns) > 1
        below.append(f"order by {'every estimator' if is_common else ', '.join(names)}: {order}")
    body = tuple((Cell(model), *(column[model] for column in columns.values())) for model in layout.models)
    heads = [content.head(verdict.metric, label) for label in layout.labels]
    return Table(("recommender", *heads), body, layout.title, below=tuple(below))


def supported_order(standing: Standing) -> str:
    """Return the order in words, with ">" only where all before it differ significantly from all after it."""
    text = standing.best
    ranked = standing.ranked
    differs = None if standing.tests is None else standing.tests.told_apart(ranked, LEVEL)
    for place in range(1, len(ranked)):
        is_separated = differs is not None and differs[:place, place:].all()
        text += (" > " if is_separated else ", ") + ranked[place]
    return text


def _standard_error_column(
    content: ReportContent, verdict: Verdict, label: str, digits: int
) -> dict[str, Cell]:
    """Return recommender -> estimate with its standard error; an unreliable column has no errors or marks."""
    rows = content.rows(verdict.metric, label)
    printed = print_estimates(content, verdict, label, digits)
    common_places = decimals(rows["std_error"], digits)
    cells = {}
    for row in rows.to_dict("records"):
        estimate = printed[row["model"]]
        error = row["std_error"]
        if np.isnan(estimate.value):
            cells[row["model"]] = Cell(estimate.text, flag=estimate.flag)
            continue
        places = common_places
        if not estimate.flag:
            places = max(common_places, decimals([error], digits, default=0))
        shows_error = not np.isnan(error) and not estimate.flag
        interval = f"interval {fixed(row['ci_low'], places)} to {fixed(row['ci_high'], places)}"
        cells[row["model"]] = Cell(
            fixed(estimate.value, places),
            f"± {fixed(error, places)}" if shows_error else "",
            strong=estimate.is_best,
            mark="†" if estimate.is_behind else "",
            flag=estimate.flag,
            hint=interval if shows_error else "",
        )
    return cells


def _claims(content: ReportContent) -> list[str]:
    """Return what is claimed of each estimator, and every note once, with the estimators it is of."""
    frame = content.frame
    diagnostics = content.diagnostics
    names = content.names
    lines: list[str] = []
    said: dict[str, list[str]] = {}
    models = list(frame["model"].unique())
    for row in diagnostics.to_dict("records"):
        label = row["estimator"]
        part = frame[frame["estimator"] == label]
        by_claim = part.groupby("claim", sort=False)["metric"].unique()
        for claim, metrics in by_claim.items():
            on = "" if len(by_claim) == 1 else f" ({', '.join(metrics)})"
            lines.append(f"{names[label]}{on}: {claim}.")
        if row["remark"] and not row["flag"]:
            lines.append(f"  {row['remark']}.")
        for text in dict.fromkeys(text for note in part["note"].unique() for text in note.split("; ")):
            if text and text != row["flag"]:
                said.setdefault(text, []).append(label)
    everywhere = list(diagnostics["estimator"])
    for text, labels in said.items():
        who = "all"
        if labels != everywhere or len(labels) == 1:
            who = ", ".join(names[label] for label in labels)
        told = [text in note.split("; ") for note in frame["note"]]
        named = list(frame["model"][told].unique())
        lines.append(f"{who}{'' if named == models else f' of {examples(named)}'}: {text}.")
    return lines
