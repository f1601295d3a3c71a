"""Where numbers come from: versions, options, data hash; and the JSON form."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.metrics import metric as parse_metric

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation


def to_json(evaluation: Evaluation) -> str:
    """Return the frame of an evaluation and what it was computed from as JSON; NaN becomes null.

    Options, definitions of the metrics and hashes of the data are in it, so that `ipseval.testing` can tell
    whether two results are of the same quantity.
    """
    frame = evaluation.frame
    records = frame.astype(object).where(frame.notna(), None).to_dict(orient="records")
    content = {
        "format": "ipseval-result",
        "format_version": 1,
        **provenance(evaluation),
        "data": _fingerprints(evaluation),
        "options": _options(evaluation),
        "metrics": {label: _definition(label) for label in evaluation.metrics},
        "estimates": records,
    }
    return json.dumps(content, indent=2, ensure_ascii=False)


def _fingerprints(evaluation: Evaluation) -> dict[str, str | None]:
    """Return hashes of positives, users, graded relevance and propensities; null for what there is not."""
    sample = next(iter(evaluation.samples.values()))
    # Nine digits: the last bits of a power depend on the machine.
    columns = {
        "users_sha256": map(str, sample.ranked.user_ids),
        "gains_sha256": None if sample.ranked.gain is None else map("{:.9g}".format, sample.ranked.gain),
        "n_relevant_sha256": (None if sample.n_relevant is None else map("{:.9g}".format, sample.n_relevant)),
        "propensity_sha256": (None if sample.propensity is None else map("{:.9g}".format, sample.propensity)),
    }
    hashes: dict[str, str | None] = {"positives_sha256": evaluation.data_hash}
    for name, values in columns.items():
        text = None if values is None else "\x1f".join(values).encode()
        hashes[name] = None if text is None else hashlib.sha256(text).hexdigest()
    return hashes


def _options(evaluation: Evaluation) -> dict[str, Any]:
    """Return the options that change estimates."""
    sample, propensity = next(iter(evaluation.samples.values())), evaluation.propensity
    return {
        "ties": sample.ties,
        "candidates": sample.ranked.candidates,
        "n_relevant": sample.n_relevant_kind,
        "propensity": None if propensity is None else propensity.model,
    }


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
