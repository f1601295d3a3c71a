"""An evaluation in a tracker of experiments: metrics, table, page and hash, in the form each tracker has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ipseval.errors import InputError

FOLDER = "ipseval"
TRACKERS = "mlflow, wandb, or objects with the same functions"


@dataclass(frozen=True)
class Logged:
    """What a tracker is given.

    Attributes
    ----------
    metrics : mapping
        Name -> estimate; undefined ones are left out, as a tracker would draw NaN as a gap without a reason.
    tags : mapping
        What says where the numbers come from: hash, versions, options, verdict.
    frame : DataFrame
        The tidy table.
    page, csv : str
    """

    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    frame: pd.DataFrame
    page: str
    csv: str


def metric_names(frame: pd.DataFrame) -> dict[str, float]:
    """Return metric/estimator/recommender -> estimate; "@" and what a tracker refuses are written otherwise.

    Raises
    ------
    InputError
        When two names become the same.
    """
    found: dict[str, float] = {}
    for row in frame.to_dict("records"):
        parts = (row["metric"], row["estimator"], row["model"])
        name = "/".join(re.sub(r"[^\w.\- ]", "_", str(part).replace("@", "_at_")) for part in parts)
        if name in found:
            raise InputError(
                f"two estimates would be logged as {name!r}. Rename a recommender: letters, digits, spaces "
                "and ._- are kept, other characters become _."
            )
        found[name] = float(row["estimate"])
    return found


def log_to(tracker: Any, logged: Logged) -> None:
    """Hand an evaluation over to a tracker.

    Raises
    ------
    InputError
        When the tracker is none that is known, or no run is open.
    """
    if all(hasattr(tracker, name) for name in ("log_metrics", "log_text", "set_tags")):
        tracker.log_metrics(dict(logged.metrics))
        tracker.set_tags({f"{FOLDER}.{name}": text for name, text in logged.tags.items()})
        tracker.log_text(logged.csv, f"{FOLDER}/estimates.csv")
        tracker.log_text(logged.page, f"{FOLDER}/report.html")
    elif all(hasattr(tracker, name) for name in ("log", "Table", "Html", "run")):
        if tracker.run is None:
            raise InputError("no run of wandb is open; call wandb.init() first.")
        tracker.run.config.update({FOLDER: dict(logged.tags)}, allow_val_change=True)
        table, page = tracker.Table(dataframe=logged.frame), tracker.Html(logged.page, inject=False)
        tracker.log({**logged.metrics, f"{FOLDER}/estimates": table, f"{FOLDER}/report": page})
    else:
        raise InputError(f"log takes {TRACKERS}; got {type(tracker).__name__}.")
