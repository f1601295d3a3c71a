"""The detailed report of an evaluation: data, orders, guarantees, notes, definitions and hashes."""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections.abc import Iterable
from datetime import UTC, datetime

import numpy as np
import pandas as pd

from ipseval._version import __version__
from ipseval.errors import InputError
from ipseval.estimators import Sample
from ipseval.evaluation.report_content import (
    ReportContent,
    TableLayout,
    build_rows,
    flag_warnings,
    print_estimates,
)
from ipseval.evaluation.verdict import ModelRanking, Verdict
from ipseval.evaluation.verdict_text import write_verdict
from ipseval.metrics import metric as parse_metric
from ipseval.metrics.base import describe_plug_in
from ipseval.metrics.rating_metrics import RATING_METRICS
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.reporting import Tables
from ipseval.reporting.formatting import LEVEL, count_decimals, format_fixed, format_percent, join_names
from ipseval.reporting.tables import Cell, Code, Notes, Part, Table
from ipseval.utils.artefacts import array_digest, sha256
from ipseval.utils.checks import check_positive_int, format_count, format_examples
from ipseval.utils.notes import Count, Note, SourceCount
from ipseval.utils.types import FloatArray


def describe_evaluation(content: ReportContent) -> list[str]:
    """Return the lines that describe the recommenders, data, candidates and propensities."""
    size = content.size
    models = format_count(len(content.models), "recommender")
    interactions = format_count(size.n_positives, "held-out interaction")
    lines = [
        f"{models}, {interactions} of {size.units} ({size.median_positives:g} each in the median)",
        f"candidates: {content.candidates}",
    ]
    split = content.split
    if split is not None and split.n_leaking:
        reason = ""
        if split.is_random:
            reason = "; the split is random"
        lines.append(
            f"leakage:    {split.n_leaking:,} of {split.n_test:,} test rows "
            f"({format_percent(split.n_leaking / split.n_test, 1)}) have later training rows; in the median "
            f"{format_percent(split.median_future, 1)} of training is later{reason}"
        )
    if content.cold_users:
        lines.append(f"cold users: {content.cold_users}")
    if content.propensity is not None:
        line = f"propensity: {content.propensity.model}"
        if not content.propensity.is_probability:
            line += ", relative (known up to a constant factor)"
        lines.append(line)
    if size.n_without_propensity:
        interactions = format_count(size.n_without_propensity, "held-out interaction")
        lines.append(f"excluded:   {interactions} without a propensity")
    return lines


SEPARATOR = "\x1f"  # between hashed values; no id contains it


def describe_date(counts: Iterable[Count], otherwise: str) -> str:
    """Return the line of a page with the names of the files that were read, or `otherwise`, and the date.

    SOURCE_DATE_EPOCH, in seconds, is the date of a page that must have the same bytes whenever it is written.
    """
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    date = datetime.fromtimestamp(seconds, UTC).date()
    files: dict[str, None] = {}
    for count in counts:
        if isinstance(count, SourceCount) and count.unit == "rows" and count.is_file:
            files[count.source] = None
    data = otherwise
    if files:
        data = join_names(list(files))
    return f"Data: {data} · page of {date.isoformat()}"


def describe_sources(counts: Iterable[Count]) -> list[str]:
    """Return a line for each source: the number of its rows, and the column that has each role."""
    lines = []
    for count in counts:
        if isinstance(count, SourceCount) and count.unit == "rows":
            subject = f"{count.subject}:"
            lines.append(f"{subject:<12}{count.count:,} rows from {count.source}: {count.columns}")
    return lines


def collect_versions() -> dict[str, str]:
    """Return the versions that numbers may depend on."""
    return {
        "ipseval": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pandas": pd.__version__,
    }


def collect_basis(
    sample: Sample,
    propensity: Propensity | None,
    metrics: Iterable[str],
    missing_lists: str | None,
    positives_hash: str,
) -> dict[str, object]:
    """Return hashes of the data, options, and definitions of the metrics, which determine the quantity."""
    propensity_model = None
    if propensity is not None:
        propensity_model = propensity.model
    metric_definitions = {}
    for label in metrics:
        metric_definitions[label] = _define_metric(label)

    return {
        "data": _hash_data(sample, positives_hash),
        "options": {
            "ties": sample.ties,
            "candidates": sample.ranked.candidates,
            "n_relevant": sample.n_relevant_kind,
            "propensity": propensity_model,
            "missing_lists": missing_lists,
        },
        "metrics": metric_definitions,
    }


def _hash_data(sample: Sample, positives_hash: str) -> dict[str, str | None]:
    """Return hashes of positives, users, graded relevance and propensities; None for absent data."""
    ranked = sample.ranked
    users = [*ranked.user_ids]
    if ranked.cluster is not None:
        users += [*ranked.unit_ids[ranked.cluster]]
    return {
        "positives_sha256": positives_hash,
        "users_sha256": sha256(SEPARATOR.join(map(str, users))),
        "gains_sha256": _hash_numbers(ranked.gain),
        "n_relevant_sha256": _hash_numbers(sample.n_relevant),
        "propensity_sha256": _hash_numbers(sample.propensity),
    }


def _hash_numbers(values: FloatArray | None) -> str | None:
    """Return the SHA-256 of numbers with nine digits, as the last bits of a power depend on the machine."""
    if values is None:
        return None
    return sha256(SEPARATOR.join(map("{:.9g}".format, values)))


def hash_positives(sample: Sample) -> str:
    """Return the SHA-256 of the positives (user id, item id) and their numbers of candidates."""
    ranked = sample.ranked
    columns = (ranked.user_ids[ranked.user], ranked.item_ids[ranked.item], ranked.n_candidates)
    joined_columns = []
    for column in columns:
        joined_columns.append(SEPARATOR.join(map(str, column)))

    return sha256(*joined_columns)


def hash_ranks(ranked: RankedPositives) -> str:
    """Return the SHA-256 of the ranks of all held-out interactions, or of whole lists that end before some of them.

    Two recommenders with the same hash rank every held-out interaction of the same data equally, or have the
    same lists. The hash is "" where ranks are unknown and there is no hash of the lists.
    """
    columns = []
    if ranked.max_rank is not None and (ranked.n_above >= ranked.max_rank).any():
        if not ranked.list_hash:
            return ""
        columns.append(ranked.list_hash)
    for counts in (ranked.n_above, ranked.n_tied, ranked.n_candidates):
        columns.append(array_digest(np.asarray(counts, dtype="<i8")))
    return sha256(*columns)


def _define_metric(label: str) -> dict[str, object] | None:
    """Return the definition of a metric of ipseval; None for a custom metric."""
    try:
        metric = parse_metric(label)
    except InputError:
        return None
    return {
        "kind": metric.kind,
        "cutoff": metric.cutoff,
        "default_ties": metric.default_ties,
        **dataclasses.asdict(metric.definition),
        "plug_in": describe_plug_in(metric),
    }


GLOSSARY = (
    "Propensity P: the chance that a relevant item is observed; relative: known up to a common factor.",
    "A weight w is 1/P, and v is the weight of an interaction in the estimate. The effective sample size "
    "(Σv)²/Σv² states how uneven the weights are: it is the number of equally weighted interactions that would "
    "be as precise, if hits did not depend on the weights.",
    "S: a user's held-out positives; s: the number of all relevant items of the user.",
    "r_i: rank of item i; c: contribution of a positive to the metric; n: number of candidates.",
)
UNWEIGHTED_GLOSSARY = GLOSSARY[2:]
GAMMA_ENTRY = (
    "γ: a power law assumes that the propensity is proportional to popularity^((γ + 1)/2). At γ = −1 all "
    "weights are equal; the larger γ, the less popular items count. A verdict tries γ from −1 to 3 in steps "
    "of 0.1, and in steps of 1 for metrics that are not a weighted mean. Two changes within one step are not "
    "detected."
)


LEGEND = (
    "Bold: the highest estimate of its column. †: differs significantly from the highest (paired test, Holm "
    f"over all pairs of the column, p < {LEVEL:g}). Unreliable columns have neither."
)
ORDER_LEGEND = (
    "In an order, > separates recommenders that differ significantly: every one before it from every one "
    f"after it (paired test, Holm, p < {LEVEL:g}). Commas join those that do not all differ significantly."
)


def describe_marks(content: ReportContent) -> str:
    """Return what bold estimates and daggers mean; of errors, such as "mae", the lowest is bold."""
    if all(verdict.metric in RATING_METRICS for verdict in content.verdicts):
        return LEGEND.replace("highest", "lowest")
    return LEGEND


def build_explanation(content: ReportContent, *, digits: int = 2) -> Tables:
    """Return the tables of an evaluation with all orders, guarantees, notes and definitions."""
    check_positive_int("digits", digits)
    has_several_models = len(content.models) > 1
    legend_lines = ["± is one standard error over users."]
    legend: tuple[str, ...] = ()
    if has_several_models:
        legend_lines.append(ORDER_LEGEND)
        legend = (describe_marks(content),)
    if content.diagnostics["weighted"].any():
        legend_lines += [*GLOSSARY, GAMMA_ENTRY]
    else:
        legend_lines += UNWEIGHTED_GLOSSARY
    parts: list[Part] = [_build_estimate_table(content, layout, digits) for layout in content.layouts]
    parts.append(
        Notes(tuple(f"{verdict.metric}: {write_verdict([verdict])}" for verdict in content.verdicts))
    )
    parts.append(Notes((*_describe_guarantees(content), *_describe_notes(content), *legend_lines)))
    if content.page is not None:
        for metric, definition in content.page.definitions.items():
            parts.append(Code(metric, definition.removeprefix(f"{metric}\n")))
    return Tables(
        summary=(*describe_evaluation(content), *describe_sources(content.counts)),
        warnings=tuple(flag_warnings(content.flags, content.diagnostics["estimator"], content.names)),
        parts=tuple(parts),
        legend=legend,
    )


def _build_estimate_table(content: ReportContent, layout: TableLayout, digits: int) -> Table:
    """Return one table: a row per recommender, a column per estimator, and the orders below it."""
    verdict = layout.verdict
    columns = []
    header = ["recommender"]
    orders: dict[str, list[str]] = {}
    unreliable = []
    for label in layout.labels:
        name = content.names[label]
        ranking = verdict.rankings[label]
        columns.append(_standard_error_column(content, verdict, label, digits))
        header.append(content.head(verdict.metric, label))
        if content.flag(verdict.metric, label):
            unreliable.append(name)
        elif len(content.models) > 1 and ranking.ranked:
            orders.setdefault(write_order(ranking), []).append(name)
    below = []
    if unreliable:
        below.append(f"unreliable, see the warning above: {', '.join(unreliable)}")
    for order, names in orders.items():
        subject = ", ".join(names)
        if len(names) == len(columns) > 1:
            subject = "every estimator"
        below.append(f"order by {subject}: {order}")
    return Table(tuple(header), build_rows(layout.models, columns), layout.title, below=tuple(below))


def write_order(ranking: ModelRanking) -> str:
    """Return the order as text, with ">" only where all before it differ significantly from all after it."""
    text = ranking.highest
    ranked = ranking.ranked
    differs = None
    if ranking.tests is not None:
        differs = ranking.tests.is_significant(ranked, LEVEL)
    for position in range(1, len(ranked)):
        separator = ", "
        if differs is not None and differs[:position, position:].all():
            separator = " > "
        text += separator + ranked[position]
    return text


def _standard_error_column(
    content: ReportContent, verdict: Verdict, label: str, digits: int
) -> dict[str, Cell]:
    """Return recommender -> estimate with its standard error; an unreliable column has no errors or marks."""
    rows = content.rows(verdict.metric, label)
    estimates = print_estimates(content, verdict, label, digits)
    common_places = count_decimals(rows["std_error"], digits)
    cells = {}
    for row in rows.to_dict("records"):
        estimate = estimates[row["model"]]
        error = row["std_error"]
        if np.isnan(estimate.value):
            cells[row["model"]] = Cell(estimate.text, flag=estimate.flag)
            continue
        places = common_places
        if not estimate.flag:
            places = max(common_places, count_decimals([error], digits, default=0))
        shows_error = not np.isnan(error) and not estimate.flag
        margin = ""
        interval = ""
        if shows_error:
            margin = f"± {format_fixed(error, places)}"
            interval = (
                f"interval {format_fixed(row['ci_low'], places)} to {format_fixed(row['ci_high'], places)}"
            )
        cells[row["model"]] = Cell(
            format_fixed(estimate.value, places),
            margin,
            strong=estimate.is_best,
            mark=estimate.mark,
            flag=estimate.flag,
            hint=interval,
        )
    return cells


def _describe_guarantees(content: ReportContent) -> list[str]:
    """Return the statistical guarantee of each estimator, with the metrics that it is for."""
    lines = []
    for row in content.diagnostics.to_dict("records"):
        estimates = content.frame[content.frame["estimator"] == row["estimator"]]
        metrics_by_claim = estimates.groupby("claim", sort=False)["metric"].unique()
        for claim, metrics in metrics_by_claim.items():
            subject = content.names[row["estimator"]]
            if len(metrics_by_claim) > 1:
                subject += f" ({', '.join(metrics)})"
            lines.append(f"{subject}: {claim}.")
        if row["remark"] and not row["flag"]:
            lines.append(f"  {row['remark']}.")
    return lines


def _describe_notes(content: ReportContent) -> list[str]:
    """Return every note once, with the estimators and recommenders that it is about."""
    labels_by_note: dict[Note, dict[str, None]] = {}
    models_by_note: dict[Note, dict[str, None]] = {}
    for label in content.diagnostics["estimator"]:
        for (model, _, estimator), notes in content.notes.items():
            if estimator != label:
                continue
            for note in notes:
                if note.severity != "flag":  # the warnings state the flags
                    labels_by_note.setdefault(note, {})[label] = None
                    models_by_note.setdefault(note, {})[model] = None
    lines = []
    for note, labels in labels_by_note.items():
        subject = ", ".join(content.names[label] for label in labels)
        if len(labels) == len(content.diagnostics) > 1:
            subject = "all"
        models = [model for model in content.models if model in models_by_note[note]]
        if len(models) < len(content.models):
            subject += f" of {format_examples(models)}"
        lines.append(f"{subject}: {note}.")
    return lines
