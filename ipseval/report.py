"""Reports: what an evaluation looks like in print."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation


def to_text(evaluation: Evaluation) -> str:
    """Return the evaluation as plain text: one block per metric, estimators side by side, then the notes."""
    lines = [_headline(evaluation), ""]
    width = max(len(name) for name in evaluation.models)
    for metric in evaluation.metrics:
        lines += _block(evaluation, metric, max(width, len(metric)))
        lines.append("")
    return "\n".join(lines + _footer(evaluation))


def _headline(evaluation: Evaluation) -> str:
    sample = next(iter(evaluation.samples.values()))
    ranked = sample.ranked
    words = (
        f"{len(evaluation.models)} recommenders on {len(ranked):,} held-out positives of "
        f"{ranked.users.size:,} users; candidates: {ranked.candidates}."
    )
    if sample.n_without_propensity:
        words += f"\n{sample.n_without_propensity:,} positives without a propensity are left out everywhere."
    if evaluation.propensity is not None:
        words += f"\nPropensity: {evaluation.propensity.model}"
        words += "." if evaluation.propensity.is_probability else ", known up to a factor."
    return words


def _block(evaluation: Evaluation, metric: str, width: int) -> list[str]:
    labels = evaluation.estimators
    column = max(17, *(len(label) + 2 for label in labels))
    lines = [f"{metric:<{width}}" + "".join(f"{label:>{column}}" for label in labels)]
    first = [evaluation.estimate(model, metric, labels[0]).value for model in evaluation.models]
    for model in evaluation.models:
        cells = []
        for label in labels:
            one = evaluation.estimate(model, metric, label)
            values = [evaluation.estimate(other, metric, label).value for other in evaluation.models]
            cells.append(f"{_cell(one.value, one.standard_error)} {_mark(values, first, one.value)}")
        lines.append(f"{model:<{width}}" + "".join(f"{cell:>{column}}" for cell in cells))
    order = _order(evaluation, metric, labels[0])
    for label in labels[1:]:
        other = _order(evaluation, metric, label)
        if other != order:
            lines.append(f"  order by {label}: {' > '.join(other)} (by {labels[0]}: {' > '.join(order)})")
    return lines


def _cell(value: float, standard_error: float) -> str:
    if np.isnan(value):
        return "undefined"
    return f"{value:.4f} ± {standard_error:.4f}" if not np.isnan(standard_error) else f"{value:.4f}"


def _mark(values: list[float], first: list[float], value: float) -> str:
    return "*" if value == np.nanmax(values) else " " if first else ""


def _order(evaluation: Evaluation, metric: str, estimator: str) -> list[str]:
    return sorted(evaluation.models, key=lambda model: -evaluation.estimate(model, metric, estimator).value)


def _footer(evaluation: Evaluation) -> list[str]:
    lines = ["± one standard error over users; * the best of its column."]
    for label, weights in evaluation.weights.items():
        if weights.flag:
            lines.append(f"Not to be trusted: {label}: {weights.flag}.")
    notes: dict[str, list[str]] = {}
    for (_, _, estimator), one in evaluation.estimates.items():
        for note in one.notes:
            if note not in notes.setdefault(estimator, []):
                notes[estimator].append(note)
    lines += [f"Note: {label}: {'; '.join(texts)}." for label, texts in notes.items() if texts]
    claims: dict[str, list[str]] = {}
    for (_, metric, estimator), one in evaluation.estimates.items():
        claims.setdefault(f"{estimator}: {one.claim}", [])
        if metric not in claims[f"{estimator}: {one.claim}"]:
            claims[f"{estimator}: {one.claim}"].append(metric)
    lines += [f"Claim: {claim} [{', '.join(metrics)}]" for claim, metrics in claims.items()]
    return lines


def to_json(evaluation: Evaluation) -> str:
    """Return the frame, options, versions and data hash of an evaluation as JSON; NaN becomes null."""
    frame = evaluation.frame
    records = frame.astype(object).where(frame.notna(), None).to_dict(orient="records")
    return json.dumps({**provenance(evaluation), "estimates": records}, indent=2, ensure_ascii=False)


def provenance(evaluation: Evaluation) -> dict[str, Any]:
    """Return what is needed to know where the numbers come from: versions, options, data hash."""
    import ipseval

    propensity = evaluation.propensity
    return {
        "ipseval": ipseval.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pandas": pd.__version__,
        "data_sha256": evaluation.data_hash,
        "confidence_level": evaluation.confidence_level,
        "propensity": None if propensity is None else propensity.model,
        **evaluation.provenance,
    }
