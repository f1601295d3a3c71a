"""Where the numbers of an evaluation come from: data, versions, options; in words and as JSON."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.artefacts import sha256
from ipseval._base.checks import counted
from ipseval._base.counts import Count
from ipseval._base.types import AnyArray
from ipseval._version import __version__
from ipseval.errors import InputError
from ipseval.estimators import Sample
from ipseval.estimators._sample import Extent
from ipseval.metrics import metric as parse_metric
from ipseval.propensity import Propensity
from ipseval.ranking._ranked import ALL_ITEMS


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


def rows_read(counts: Iterable[Count]) -> list[str]:
    """Return a line for each source that was read: its rows, and which column was taken for what."""
    start = "rows read from "
    found = [one for one in counts if one.what.startswith(start)]
    return [f"{one.subject + ':':<12}{one.count:,} rows from {one.what.removeprefix(start)}" for one in found]


def short_headline(n_models: int, extent: Extent, options: Mapping[str, Any], level: float) -> list[str]:
    """Return one line that says what was evaluated; candidates where they are not the whole catalogue."""
    positives = counted(extent.n_positives, "held-out positive")
    texts = [counted(n_models, "recommender"), extent.units, positives]
    if options["candidates"] != ALL_ITEMS:
        texts.append(f"candidates: {options['candidates']}")
    if "leakage" in options:
        texts.append(f"leakage: {options['leakage']}")
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


def json_text(frame: pd.DataFrame, record: Mapping[str, Any]) -> str:
    """Return a frame and where it comes from as JSON in ASCII; NaN becomes null."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict(orient="records")
    return json.dumps({**record, "estimates": rows}, indent=2)


def _fingerprints(sample: Sample, positives: str) -> dict[str, str | None]:
    """Return hashes of positives, users, graded relevance and propensities; null for what there is not."""
    # Nine digits: the last bits of a power depend on the machine.
    columns = {
        "users_sha256": map(str, [*sample.ranked.user_ids, *_owners(sample)]),
        "gains_sha256": None if sample.ranked.gain is None else map("{:.9g}".format, sample.ranked.gain),
        "n_relevant_sha256": None if sample.n_relevant is None else map("{:.9g}".format, sample.n_relevant),
        "propensity_sha256": None if sample.propensity is None else map("{:.9g}".format, sample.propensity),
    }
    hashes: dict[str, str | None] = {"positives_sha256": positives}
    for name, values in columns.items():
        hashes[name] = None if values is None else sha256("\x1f".join(values))
    return hashes


def _owners(sample: Sample) -> AnyArray | tuple[()]:
    """Return the id of whose query each is; nothing where users are not queries."""
    ranked = sample.ranked
    return () if ranked.cluster is None else ranked.unit_ids[ranked.cluster]


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
