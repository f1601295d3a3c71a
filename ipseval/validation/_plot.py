"""A picture of a validation's summary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def plot_validation(frame: pd.DataFrame, *, ax: Any = None) -> Any:
    """Return axes with the reductions by propensity and estimator, with intervals, one marker per metric.

    Parameters
    ----------
    frame : DataFrame
        `Validation.summary()`, or rows of it.
    ax : matplotlib Axes, optional
        Default: a new figure.
    """
    if ax is None:
        from matplotlib.figure import Figure

        rows = frame[["propensity", "estimator"]].drop_duplicates().shape[0]
        ax = Figure(figsize=(8, 1.5 + 0.3 * rows), layout="constrained").add_subplot()
    labels = list(dict.fromkeys(zip(frame["propensity"], frame["estimator"], strict=True)))
    metrics = list(dict.fromkeys(frame["metric"]))
    markers, shades = "osD^vP*X", np.linspace(0.0, 0.65, max(len(metrics), 2))
    for number, metric in enumerate(metrics):
        part = frame[frame["metric"] == metric]
        place = [labels.index(pair) for pair in zip(part["propensity"], part["estimator"], strict=True)]
        shift = 0.6 * ((number + 0.5) / len(metrics) - 0.5)
        reach = [part["reduction"] - part["reduction_low"], part["reduction_high"] - part["reduction"]]
        ax.errorbar(
            100 * part["reduction"],
            np.asarray(place) + shift,
            xerr=100 * np.asarray(reach),
            fmt=markers[number % len(markers)],
            color=str(shades[number]),
            markersize=4,
            linewidth=1,
            label=metric,
        )
    ax.axvline(0, color="0.5", linewidth=0.8)
    ax.set_yticks(range(len(labels)), [f"{propensity}, {estimator}" for propensity, estimator in labels])
    ax.invert_yaxis()
    ax.set_xlabel("reduction of the plain average's error, %")
    ax.legend(frameon=False)
    return ax
