"""Plots of data frames.

Every function takes a frame, or the result that has it, and optional axes, and returns the axes. Estimates and
intervals are drawn as they are in the frame; an unreliable estimate has no interval. Results that have a plot
draw it by `.plot()`. A notebook shows the returned axes as a picture; `axes.figure.savefig(path)`
writes one. The colours are those of Okabe and Ito, which colour-blind readers can distinguish; markers and
line styles repeat the distinction.
"""

from __future__ import annotations

from ipseval.reporting.plots._base import COLOURS, LINES, MARKS
from ipseval.reporting.plots.curves import (
    plot_examination,
    plot_frequency,
    plot_plan,
    plot_popularity,
    plot_sampled,
)
from ipseval.reporting.plots.estimates import plot_estimates, plot_sensitivity
from ipseval.reporting.plots.references import (
    plot_agreement,
    plot_bias,
    plot_validation,
)
from ipseval.reporting.plots.weights import plot_weights

__all__ = [
    "COLOURS",
    "LINES",
    "MARKS",
    "plot_agreement",
    "plot_bias",
    "plot_estimates",
    "plot_examination",
    "plot_frequency",
    "plot_plan",
    "plot_popularity",
    "plot_sampled",
    "plot_sensitivity",
    "plot_validation",
    "plot_weights",
]
