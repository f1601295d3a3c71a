"""Pictures of a page: estimates over γ, and estimates against known true values.

A picture is a value that is drawn when a page is written. matplotlib is imported only then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pandas as pd

from ipseval.reporting.bars import format_tick
from ipseval.reporting.markup import escape_controls
from ipseval.reporting.tables import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_STYLES = 8  # of lines that a reader can distinguish by colour and by dashes


def build_sensitivity_picture(
    frame: pd.DataFrame, *, gamma: float, alt: str, caption: str = "", metric: str = ""
) -> Picture:
    """Return the picture of the estimates of recommenders over γ.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows of one metric and estimator, as `plot_sensitivity` reads them.
    gamma : float
        γ of the evaluation, which a vertical line marks.
    alt, caption, metric : str
        As in `Picture`.
    """
    safe_frame = _escape_texts(frame)
    return Picture(
        alt=alt,
        draw=partial(_draw_sensitivity, safe_frame, gamma),
        hints=_list_hints(safe_frame),
        caption=caption,
        metric=metric,
    )


def build_bias_picture(frame: pd.DataFrame, *, metric: str, estimators: Sequence[str]) -> Picture:
    """Return the picture of the estimates of one metric against the true values.

    Parameters
    ----------
    frame : pandas.DataFrame
        The columns metric, estimator, truth, estimate, ci_low and ci_high.
    metric : str
        The metric that is drawn.
    estimators : sequence of str
        The estimators that are drawn, in the order of the legend.
    """
    rows = frame[(frame["metric"] == metric) & frame["estimator"].isin(list(estimators))]
    names = tuple(map(escape_controls, estimators))
    return Picture(
        alt=f"Estimates of {metric} against the truth; on the diagonal an estimate is right",
        draw=partial(_draw_bias, _escape_texts(rows), names),
        metric=metric,
    )


def write_bias_file(frame: pd.DataFrame, *, estimators: Sequence[str]) -> str:
    """Return an SVG file of the estimates against the true values, with one panel per metric."""
    from ipseval.reporting.plots import svg
    from ipseval.reporting.plots.references import plot_bias_panels

    return svg.write_file(partial(plot_bias_panels, frame, estimators))


def render_picture(picture: Picture, *, id_prefix: str) -> str:
    """Return a picture as an SVG element of a page; ids inside it begin with a prefix."""
    from ipseval.reporting.plots import svg

    return svg.write_element(
        picture.draw,
        alt=escape_controls(picture.alt),
        hints=picture.hints,
        id_prefix=id_prefix,
    )


def _draw_sensitivity(frame: pd.DataFrame, gamma: float) -> Axes:
    """Return axes with a line over γ for each recommender, and a band with a tooltip at each γ."""
    from ipseval.reporting.plots import plot_sensitivity
    from ipseval.reporting.plots.svg import HINT_ID

    ax = plot_sensitivity(frame)
    ax.axvline(gamma, color="0.45", linewidth=1, linestyle=(0, (2, 3)), zorder=0)
    ax.set_xlabel("γ (−1: equal weights)")
    for number, (left, right) in enumerate(_list_bands(frame)):
        ax.axvspan(left, right, color="none", gid=f"{HINT_ID}{number}")
    return ax


def _draw_bias(frame: pd.DataFrame, estimators: Sequence[str]) -> Axes:
    """Return axes with the estimates of one metric against the true values."""
    from ipseval.reporting.plots import plot_bias

    return plot_bias(frame, estimators=estimators)


def _escape_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with escaped control characters in its names."""
    safe_frame = frame.copy()
    for name in ("model", "metric", "estimator"):
        if name in safe_frame:
            safe_frame[name] = list(map(escape_controls, safe_frame[name]))
    return safe_frame


def _list_bands(frame: pd.DataFrame) -> list[tuple[float, float]]:
    """Return the ends of the band around each γ, which is closer to it than to every other γ."""
    gammas = sorted(frame["gamma"].unique())
    middles = [(left + right) / 2 for left, right in pairwise(gammas)]
    return list(pairwise([gammas[0], *middles, gammas[-1]]))


def _list_hints(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the tooltip of each γ: the estimates of all recommenders, the highest first."""
    hints = []
    for gamma in sorted(frame["gamma"].unique()):
        rows = frame[frame["gamma"] == gamma]
        lines = [f"γ = {format_tick(gamma)}"]
        values = dict(zip(rows["model"], rows["estimate"], strict=True))
        for model in sorted(values, key=lambda model: _rank_descending(values[model])):
            lines.append(f"{model}  {values[model]:.4g}")
        hints.append("\n".join(lines))
    return tuple(hints)


def _rank_descending(value: float) -> tuple[bool, float]:
    """Return a sort key by which the highest value comes first and NaN last."""
    return math.isnan(value), -value
