"""Logging an evaluation to MLflow or Weights & Biases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.reporting.formatting import format_csv

FOLDER = "ipseval"
TABLE = f"{FOLDER}/estimates.csv"
TRACKERS = "mlflow, wandb, or objects with the same functions"


def metric_names(frame: pd.DataFrame) -> dict[str, float]:
    """Return metric/estimator/recommender -> estimate, if defined, in characters that trackers accept."""
    estimates: dict[str, float] = {}
    for row in frame.to_dict("records"):
        parts = [_escape(row[column]) for column in ("metric", "estimator", "model")]
        name = "/".join(parts)
        if name in estimates:
            raise InputError(
                f"two estimates would be logged as {name!r}. Rename a recommender: letters, digits, spaces "
                "and ._- are kept, other characters become _."
            )
        estimates[name] = float(row["estimate"])

    finite_estimates = {}
    for label, value in estimates.items():
        if np.isfinite(value):
            finite_estimates[label] = value
    return finite_estimates


def _escape(name: object) -> str:
    """Return a name with "_at_" for "@", and "_" for other characters that trackers reject."""
    return re.sub(r"[^\w.\- ]", "_", str(name).replace("@", "_at_"))


def log_to_tracker(tracker: Any, frame: pd.DataFrame, tags: Mapping[str, str], page: str) -> None:
    """Log metrics, table, page and tags to the open run of a tracker.

    Raises
    ------
    InputError
        When the tracker is neither MLflow nor W&B, or no run of W&B is open.
    """
    metrics = metric_names(frame)
    if all(hasattr(tracker, name) for name in ("log_metrics", "log_text", "set_tags")):
        tracker.log_metrics(metrics)
        tracker.set_tags({f"{FOLDER}.{name}": text for name, text in tags.items()})
        tracker.log_text(format_csv(frame), TABLE)
        tracker.log_text(page, f"{FOLDER}/report.html")
    elif all(hasattr(tracker, name) for name in ("log", "Table", "Html", "run")):
        if tracker.run is None:
            raise InputError("no run of wandb is open; call wandb.init() first.")
        tracker.run.config.update({FOLDER: dict(tags)}, allow_val_change=True)
        table = tracker.Table(dataframe=frame)
        html = tracker.Html(page, inject=False)
        tracker.log({**metrics, f"{FOLDER}/estimates": table, f"{FOLDER}/report": html})
    else:
        raise InputError(f"log takes {TRACKERS}; got {type(tracker).__name__}.")
