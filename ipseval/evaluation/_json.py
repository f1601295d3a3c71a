"""An evaluation as JSON: the contents of its page, under the keys that docs/json.md documents."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ipseval.evaluation._page_curves import GammaSweep
from ipseval.evaluation.report_content import PageContent, ReportContent, TableLayout
from ipseval.evaluation.report_tables import build_tables, describe_size
from ipseval.evaluation.verdict import Verdict, choose_headline
from ipseval.inference.gamma_range import GammaRange
from ipseval.reporting.tables import LEADING
from ipseval.utils.notes import Count

JsonRecord: TypeAlias = dict[str, Any]
SCHEMA = "ipseval.evaluation"
SCHEMA_VERSION = 1  # a key that is renamed, removed or changes its meaning makes it one larger
# Control characters of terminals outside ASCII; `json` escapes those in ASCII.
HIDDEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
VERSIONS = ("ipseval", "python", "numpy", "pandas")
SETTINGS = (
    "confidence_level",
    "interval",
    "refit",
    "ties",
    "candidates",
    "missing_lists",
    "low_ess",
    "propensity",
    "split",
)
DEFINITION = (
    "kind",
    "cutoff",
    "default_ties",
    "formula",
    "denominator",
    "discount",
    "undefined",
    "plug_in",
)
PRECISION = ("std_error", "ci_low", "ci_high")
TEST = ("p_value", "p_adjusted", "minimum_detectable_difference", "n_users_needed", "effect_size")


def hide_precision(frame: pd.DataFrame, flags: pd.Series[str]) -> pd.DataFrame:
    """Return a frame in which rows with a flag have no standard error, interval or test."""
    columns = []
    for name in (*PRECISION, *TEST):
        if name in frame:
            columns.append(name)

    result = frame.copy()
    result.loc[(flags != "").to_numpy(), columns] = np.nan
    return result


def evaluation_record(
    content: ReportContent,
    estimates: pd.DataFrame,
    order: pd.DataFrame,
    record: Mapping[str, Any],
    basis: Mapping[str, Any],
) -> str:
    """Return an evaluation as a JSON text; NaN becomes null."""
    page = content.page
    assert page is not None  # the record has the contents of a page
    tables = build_tables(replace(content, page=None))  # its notes and warnings are those of the page
    settings = {name: record.get(name) for name in SETTINGS}
    remarks = []
    for remark in tables.remarks:
        if remark.name not in LEADING:
            remarks.append(remark)

    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "created_with": {name: record[name] for name in VERSIONS},
        "summary": {
            "text": describe_size(content),
            "n_models": len(content.models),
            "n_users": content.size.n_users,
            "n_items": content.size.n_items or None,
            "n_interactions": content.size.n_positives,
            "n_without_propensity": content.size.n_without_propensity,
        },
        "settings": {**settings, "n_relevant": basis["options"]["n_relevant"]},
        "verdict": {
            "conclusion": content.text.conclusion,
            "assumption": content.text.assumption or None,
            "next_step": content.text.next_step or None,
            "leader": choose_headline(content.verdicts).leader,
            "metrics": [_verdict_record(verdict) for verdict in content.verdicts],
        },
        "warnings": list(tables.warnings),
        "notes": [{"name": remark.name, "text": " ".join(remark.lines)} for remark in remarks],
        "tables": [_table_record(content, layout) for layout in content.layouts],
        "estimates": _to_records(estimates),
        "order": _to_records(hide_precision(order, _flags(content, order))),
        "differences": _to_records(hide_precision(page.differences, _flags(content, page.differences))),
        "diagnostics": _to_records(content.diagnostics),
        "gamma_curves": [_curve_record(sweep) for sweep in page.curves.sweeps],
        "weight_by_popularity": _to_records(pd.DataFrame(dict(page.curves.popularity))),
        "counts": [_count_record(count) for count in content.counts],
        "metrics": _metric_records(page, basis["metrics"]),
        "data": basis["data"],
    }
    text = json.dumps(_to_plain(document), indent=2, ensure_ascii=False, allow_nan=False)
    return HIDDEN.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _flags(content: ReportContent, frame: pd.DataFrame) -> pd.Series[str]:
    """Return the flag of each row of a frame with columns metric and estimator."""
    if frame.empty:
        return pd.Series([], dtype=object)
    cells = zip(frame["metric"], frame["estimator"], strict=True)
    return pd.Series([content.flag(metric, estimator) for metric, estimator in cells])


def _table_record(content: ReportContent, layout: TableLayout) -> JsonRecord:
    """Return the columns and rows of a printed table; the numbers are in "estimates"."""
    columns = []
    for label in layout.labels:
        columns.append(
            {
                "estimator": label,
                "name": content.column_names[label],
                "unreliable": bool(content.flag(layout.metric, label)),
            }
        )

    return {
        "metric": layout.metric,
        "estimand": layout.estimand,
        "columns": columns,
        "models": list(layout.models),
    }


def _verdict_record(verdict: Verdict) -> JsonRecord:
    """Return the verdict of one metric."""
    gamma_range = verdict.gamma_range
    support = verdict.support
    weights = None
    if support is not None:
        weights = asdict(support) | {"quality": support.quality}
    return {
        "metric": verdict.metric,
        "outcome": str(verdict.outcome),
        "estimator": verdict.primary_estimator,
        "first": verdict.highest_model or None,
        "first_by_weights": verdict.highest_by_weights or None,
        "leader": verdict.leader,
        "has_guarantee": verdict.has_guarantee,
        "detectable_difference": verdict.detectable,
        "gamma_range": _gamma_range_record(gamma_range),
        "weights": weights,
    }


def _gamma_range_record(gamma_range: GammaRange | None) -> JsonRecord | None:
    """Return the range of γ in which a recommender stays first, and its successors; null for none."""
    if gamma_range is None:
        return None
    record = {"first": gamma_range.highest_model, **asdict(gamma_range)}
    del record["highest_model"]
    record["next_below"] = gamma_range.next_below or None
    record["next_above"] = gamma_range.next_above or None
    return record


def _count_record(count: Count) -> dict[str, object]:
    """Return a count with the names of the columns of `Evaluation.data`."""
    return {"subject": count.subject, "what": count.label, "count": count.count, "of": count.total}


def _curve_record(sweep: GammaSweep) -> JsonRecord:
    """Return the estimates of some recommenders over γ."""
    return {
        "metric": sweep.metric,
        "estimator": sweep.estimator,
        "gamma": sweep.gamma,
        "gamma_of_evaluation": sweep.at,
        "curves": [{"model": model, "estimates": values} for model, values in sweep.values.items()],
        "statements": [statement for _, _, statement in sweep.swaps],
    }


def _metric_records(page: PageContent, definitions: Mapping[str, Any]) -> list[JsonRecord]:
    """Return the definition of each metric; nulls for a custom metric."""
    records = []
    for metric, text in page.definitions.items():
        definition = definitions.get(metric) or {}
        fields = {name: definition.get(name) for name in DEFINITION}
        records.append({"metric": metric, **fields, "text": text})
    return records


def _to_records(frame: pd.DataFrame) -> list[JsonRecord]:
    """Return the rows of a frame as dicts."""
    return frame.to_dict(orient="records")  # type: ignore[return-value]  # column names are text


def _to_plain(value: object) -> Any:
    """Return a value of JSON types, with null for numbers that are not finite."""
    if isinstance(value, Mapping):
        plain_values = {}
        for key, inner in value.items():
            plain_values[str(key)] = _to_plain(inner)

        return plain_values
    if isinstance(value, (list, tuple)):
        return [_to_plain(inner) for inner in value]
    if isinstance(value, np.ndarray):
        return _to_plain(value.tolist())
    if isinstance(value, np.generic):
        return _to_plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)
