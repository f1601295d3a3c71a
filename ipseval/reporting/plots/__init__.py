"""Plots of tidy frames: they compute nothing, draw intervals always, and stay readable in grey.

Every function takes a frame, or the result that has it, and optional axes, and returns the axes. Results that
have a picture of their own draw it by `.plot()`. A notebook
shows returned axes as a picture; `axes.figure.savefig(path)` writes one. Colours are those of Okabe and Ito,
which colour-blind readers can tell apart; marks and line styles repeat what colours say.
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
from ipseval.reporting.plots.estimates import plot_estimates, plot_sensitivity, plot_weights
from ipseval.reporting.plots.references import (
    plot_agreement,
    plot_bias,
    plot_validation,
)

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
