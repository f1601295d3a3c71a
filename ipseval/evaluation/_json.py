"""An evaluation as JSON: everything that its page shows, under documented keys."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from ipseval.evaluation._sweeps import SweptMetric
from ipseval.evaluation.report_content import ReportContent
from ipseval.evaluation.verdict import Verdict, choose_headline

SCHEMA = "ipseval.evaluation"
SCHEMA_VERSION = 1  # a key that is renamed, removed or changes its meaning makes it one larger


def evaluation_record(
    content: ReportContent,
    estimates: pd.DataFrame,
    order: pd.DataFrame,
    record: Mapping[str, Any],
    basis: Mapping[str, Any],
) -> str:
    """Return an evaluation as a JSON text; NaN becomes null."""
    page = content.page
    assert page is not None  # the record holds what the page shows
    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "created_with": dict(record),
        "summary": {
            "n_models": len(content.models),
            "n_users": content.size.n_users,
            "n_interactions": content.size.n_positives,
            "n_without_propensity": content.size.n_without_propensity,
            "confidence_level": content.confidence_level,
            "candidates": content.candidates,
        },
        "verdict": {
            "conclusion": content.text.conclusion,
            "assumption": content.text.assumption,
            "next_step": content.text.next_step,
            "leader": choose_headline(content.verdicts).leader,
            "metrics": [_verdict_record(verdict) for verdict in content.verdicts],
        },
        "columns": content.column_names,
        "estimates": _rows(estimates),
        "order": _rows(order),
        "differences": _rows(page.differences),
        "diagnostics": _rows(content.diagnostics),
        "gamma_curves": [_curve_record(sweep) for sweep in page.curves.sweeps],
        "weight_by_popularity": _rows(pd.DataFrame(dict(page.curves.popularity))),
        "counts": [asdict(count) for count in content.counts],
        "definitions": dict(page.definitions),
        **basis,
    }
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False)


def _verdict_record(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict of one metric."""
    return {
        "metric": verdict.metric,
        "outcome": str(verdict.outcome),
        "estimator": verdict.primary,
        "first": verdict.first or None,
        "first_by_weights": verdict.first_by_weights or None,
        "leader": verdict.leader,
        "has_guarantee": verdict.has_guarantee,
        "detectable_difference": verdict.detectable,
        "gamma_range": None if verdict.gamma_range is None else asdict(verdict.gamma_range),
        "weights": None
        if verdict.support is None
        else asdict(verdict.support) | {"quality": verdict.support.quality},
    }


def _curve_record(sweep: SweptMetric) -> dict[str, Any]:
    return {
        "metric": sweep.metric,
        "estimator": sweep.estimator,
        "gamma": sweep.gamma,
        "values": dict(sweep.values),
        "gamma_of_evaluation": sweep.at,
        "statements": [statement for _, _, statement in sweep.swaps],
    }


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.to_dict(orient="records")  # type: ignore[return-value]  # names of columns are text


def _plain(value: Any) -> Any:
    """Return a value of plain types, with null for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)
