"""The registry of evaluators: name, citation, and a function from the context of a split to estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import pandas as pd

from reproductions.evaluators.context import Context, Estimand

Needs = Literal["log", "measured", "100 users", "half of the users"]
ComputeEstimates = Callable[[Context], pd.DataFrame]

# What an evaluator needs, in the order of the tables.
NEEDS: tuple[Needs, ...] = ("log", "measured", "100 users", "half of the users")
COLUMNS = ("model", "metric", "estimate", "low", "high")
# Optional column: whether the method warned that its model does not fit the log, the same in all rows.
WARNED = "warned"


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """A method that estimates the metrics of recommenders from a log.

    Attributes
    ----------
    name : str
    citation : str
        Paper that states the method.
    compute : callable
        Context -> frame with the columns model, metric, estimate, low, high, and `warned` where the method
        warns of logs that its model does not fit.
    estimand : {"interactions", "users"}
        Whether the mean is over relevant interactions or over users.
    needs : str
        Data that the method reads: the log, measured propensities, or random exposure of some users.
    has_level : bool
        False if the values are on another scale than the metric, so that only their order is compared.
    """

    name: str
    citation: str
    compute: ComputeEstimates
    estimand: Estimand = "interactions"
    needs: Needs = "log"
    has_level: bool = True


class EstimatesError(ValueError):
    """Estimates of an evaluator that do not have the form of a table of estimates."""


EVALUATORS: dict[str, Evaluator] = {}


def add_evaluator(
    name: str,
    citation: str,
    *,
    estimand: Estimand = "interactions",
    needs: Needs = "log",
    has_level: bool = True,
) -> Callable[[ComputeEstimates], ComputeEstimates]:
    """Return a decorator that adds a function (context) -> frame to the registry."""
    if name in EVALUATORS:
        raise ValueError(f"the evaluator {name!r} is there already. Choose another name.")
    if needs not in NEEDS:
        raise ValueError(f"needs must be one of {', '.join(NEEDS)}; got {needs!r}.")
    if estimand not in get_args(Estimand):
        raise ValueError(f"estimand must be one of {', '.join(get_args(Estimand))}; got {estimand!r}.")

    def register(compute: ComputeEstimates) -> ComputeEstimates:
        """Add the function to the registry, and return it unchanged."""
        EVALUATORS[name] = Evaluator(
            name=name,
            citation=citation,
            compute=compute,
            estimand=estimand,
            needs=needs,
            has_level=has_level,
        )
        return compute

    return register


def check_estimates(estimates: object, name: str, context: Context) -> pd.DataFrame:
    """Return the estimates of an evaluator in the order of models and metrics, or raise `EstimatesError`."""
    if not isinstance(estimates, pd.DataFrame):
        raise EstimatesError(
            f"the evaluator {name!r} must return a DataFrame; got {type(estimates).__name__}."
        )
    missing = [column for column in COLUMNS if column not in estimates.columns]
    if missing:
        raise EstimatesError(
            f"the frame of {name!r} must have the columns {', '.join(COLUMNS)}; it lacks {missing}."
        )
    if estimates.duplicated(["model", "metric"]).any():
        raise EstimatesError(
            f"the frame of {name!r} must have one row per model and metric; some are repeated."
        )
    cells = pd.MultiIndex.from_product([list(context.models), context.metrics], names=["model", "metric"])
    unknown = pd.MultiIndex.from_frame(estimates[["model", "metric"]]).difference(cells)
    if len(unknown):
        raise EstimatesError(
            f"the frame of {name!r} has rows of unknown models or metrics: {list(unknown)[:3]}."
        )
    values = estimates.set_index(["model", "metric"])[list(COLUMNS[2:])].astype(float)
    return values.reindex(cells).reset_index()
