"""Axes of small tables of round numbers: every mark, line, bar and word of each kind of plot.

`python -m tests.golden.axes` writes them to axes.txt, to be looked at before they are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgba
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

from ipseval.reporting import plots
from tests.inside import reporting as report

FILE = Path(__file__).parent / "axes.txt"


def rows() -> pd.DataFrame:
    """Return three recommenders by two estimators, with intervals and the truth."""
    return pd.DataFrame(
        {
            "model": ["als", "als", "ease", "ease", "popular", "popular"],
            "metric": "recall@10",
            "estimator": ["aoa", "snips-global"] * 3,
            "estimate": [0.3, 0.2, 0.25, 0.22, 0.4, 0.1],
            "ci_low": [0.28, 0.15, 0.2, 0.18, 0.35, 0.05],
            "ci_high": [0.32, 0.25, 0.3, 0.26, 0.45, 0.15],
            "truth": [0.2, 0.2, 0.21, 0.21, 0.12, 0.12],
        }
    )


def sizes(**more: Iterable[object]) -> pd.DataFrame:
    """Return two names by two numbers of users, in falling order."""
    return pd.DataFrame({"metric": "atop", "n_users": [400, 25, 400, 25]} | more)


def cells(names: Iterable[str]) -> pd.DataFrame:
    """Return two recommenders in each group, with what a plot of groups reads."""
    groups = [name for name in names for _ in range(2)]
    number = np.arange(len(groups))
    estimate = number / 10
    return pd.DataFrame(
        {
            "by": "activity",
            "group": groups,
            "model": ["als", LONG] * (len(groups) // 2),
            "metric": "rr",
            "estimator": "aoa",
            "estimate": estimate,
            "ci_low": estimate - 0.1,
            "ci_high": estimate + 0.2,
            "share": number / 20,
            "share_weighted": number / 25,
            "value": np.where(number == 1, np.nan, estimate),
        }
    )


LONG = "a$^2$ that is far too long to stand beside a row of marks"
COUNTED = ("10 (n* 1 to 3)", "12 (n* 4 to 9)", "9 (n* 10 and more)")
EXPERIMENTS = pd.DataFrame(
    {
        "offline": [-0.1, 0.2, 0.3],
        "offline_error": 0.05,
        "online": [0.1, 0.3, 0.2],
        "online_error": [0.01, 0.02, 0.03],
    }
)
SHARES = pd.DataFrame(
    {
        "by": "n*",
        "estimator": ["snips"] * 3 + ["ips"] * 3,
        "group": list(COUNTED) * 2,
        "share": [0.2, 0.3, 0.5] * 2,
        "weight_share": [0.5, 0.3, 0.2, 0.6, 0.3, 0.1],
    }
)
REDUCTIONS = pd.DataFrame(
    {
        "propensity": ["gamma = 0", "direct"],
        "estimator": "snips",
        "metric": "rr",
        "reduction": [0.4, -0.2],
        "reduction_low": [0.3, -0.5],
        "reduction_high": [0.5, 0.1],
    }
)
SQUARE = pd.DataFrame([[1.0, 0.3], [0.3, 1.0]], ["a", "_b"], ["a", "_b"])
COUNTS = {"popularity": [0, 4, 2, 1], "n_at_least": [9, 2, 3, 5], "frequency": [1, 8, 0, 3]}
SWEPT = rows().assign(gamma=[0.0, 0.1, 1.0, 0.9, 0.5, 0.4], model="als", estimator="snips")
DIFFERENCES = rows().rename(columns={"estimate": "difference"})
TIPPING = pd.DataFrame({"metric": "recall@10", "estimator": "snips", "tipping_points": [(0.7, 0.2)]})
WEIGHTS = pd.DataFrame(
    {"estimator": ["aoa", "ips"], "ess_own": [90, 5.5], "ess_equal": 90.0, "share_own": [0.011, 0.4]}
)
ERRORS = sizes(
    estimator=["aoa", "aoa", "ips", "ips"], error=[0.1, 0.2, 0.3, 0.4], half_width=[0.2, 0.3, 0.1, 0.5]
)
PLAN = sizes(n_items=[5, 5, 50, 50], half_width=[0.1, 0.2, 0.05, 0.1])
DRAWN_SAMPLES = rows().assign(n_sampled=[100, 10] * 3, exact=0.25)

AXES: dict[str, Callable[[], Axes]] = {
    "estimates": lambda: plots.plot_estimates(rows()),
    "result": lambda: report.plot_result(DIFFERENCES, estimator="aoa"),
    "sensitivity": lambda: plots.plot_sensitivity(SWEPT, tipping=TIPPING),
    "weights": lambda: plots.plot_weights(WEIGHTS),
    "differences": lambda: report.plot_differences(DIFFERENCES.assign(reference="ease")),
    "weight shares": lambda: report.plot_weight_shares(SHARES),
    "groups by count": lambda: report.plot_segments(cells(COUNTED), metric="rr", estimator="aoa"),
    "groups below 0": lambda: report.plot_segments(
        cells(COUNTED).assign(estimate=-0.1), metric="rr", estimator="aoa"
    ),
    "groups": lambda: report.plot_segments(cells(("new", "old")), metric="rr", estimator="aoa"),
    "decomposition": lambda: report.plot_decomposition(cells(COUNTED)),
    "decomposition by name": lambda: report.plot_decomposition(cells(("new", "old"))),
    "examination": lambda: plots.plot_examination(
        pd.DataFrame({"position": [2, 1], "theta": [0.5, 1.0], "std_error": [0.1, 0.0], "method": "em"})
    ),
    "sampled": lambda: plots.plot_sampled(DRAWN_SAMPLES),
    "popularity": lambda: plots.plot_popularity(pd.DataFrame(COUNTS).assign(fitted=[np.nan, 1, 2, np.nan])),
    "frequency": lambda: plots.plot_frequency(pd.DataFrame(COUNTS)),
    "frequency with its fit": lambda: plots.plot_frequency(pd.DataFrame(COUNTS).assign(fitted=[1, 7, 4, 2])),
    "exposure curve": lambda: report.plot_exposure_curve(ERRORS),
    "plan": lambda: plots.plot_plan(PLAN, bound=0.02),
    "bias": lambda: plots.plot_bias(rows(), estimators=["snips-global", "aoa"]),
    "validation": lambda: plots.plot_validation(REDUCTIONS),
    "online": lambda: report.plot_online(EXPERIMENTS, line=(0.5, 0.1), label="aoa"),
    "agreement": lambda: plots.plot_agreement(SQUARE, value="tau_b", ends=[1]),
}


def numbers(values: object) -> str:
    """Return an array in four digits, a row after the other."""
    return " ".join(f"{value:.4g}" for value in np.ravel(np.asarray(values, dtype=float)) + 0.0)


def colour(artist: Any) -> str:
    """Return the colour of a line, bar or field, with how far it covers what is below."""
    value = artist.get_color() if hasattr(artist, "get_color") else artist.get_facecolor()
    return to_hex(
        np.ravel(to_rgba(value, artist.get_alpha()) if isinstance(value, str) else value)[:4], keep_alpha=True
    )


def describe_position(words: Text) -> str:
    """Return how words are turned, and which of their sides is where they are put."""
    return f"{words.get_rotation():g}° {words.get_ha()} {words.get_va()}"


def describe_axes(ax: Axes) -> str:
    """Return the words of axes, and where their marks, lines, bars and fields are."""
    legend = ax.get_legend()
    size = numbers(ax.figure.get_size_inches())
    words = (ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale(), ax.get_yscale())
    lines = [f"{size}: {' | '.join(words)}"]
    for axis in (ax.yaxis, ax.xaxis):
        if isinstance(axis.get_major_locator(), FixedLocator):
            words = [text.get_text() for text in axis.get_ticklabels()]
            lines.append(f"ticks {words} at {numbers(axis.get_ticklocs())}")
    shapes = []
    for line in ax.lines:
        sizes = numbers((line.get_linewidth(), line.get_markersize(), line.get_zorder()))
        filling = " hollow" if line.get_markerfacecolor() == "none" else ""
        style = f"line {line.get_linestyle()} {line.get_marker()}{filling} ({colour(line)}, {sizes})"
        shapes.append((style, numbers(line.get_data())))
    for artist in ax.collections:
        style = f"field ({colour(artist)}, {numbers(artist.get_linewidth())})"
        shapes += [(style, numbers(path.vertices)) for path in artist.get_paths()]
    for artist in ax.patches:
        place = numbers([artist.get_xy(), (artist.get_width(), artist.get_height())])
        shapes.append((f"bar ({colour(artist)})", place))
    for style, alike in groupby(shapes, key=itemgetter(0)):
        lines.append(f"{style}: {'; '.join(place for _, place in alike)}")
    lines += [
        f"text {artist.get_text()!r} {artist.get_color()}: {numbers(artist.get_position())} "
        f"({numbers(getattr(artist, 'xy', ()))}; {describe_position(artist)}, {numbers(artist.get_size())})"
        for artist in ax.texts
    ]
    lines += [f"image: {numbers(artist.get_array())}; {numbers(artist.get_clim())}" for artist in ax.images]
    between = ax.get_xticks(minor=True) if ax.get_xscale() == "linear" else []
    lines += [f"between ticks: {numbers(between)}"] if len(between) else []
    texts = [*(legend.get_texts() if legend else ()), ax.xaxis.label, ax.yaxis.label, ax.title, *ax.texts]
    formulas = [artist.get_text() for artist in texts if "$" in artist.get_text() and artist.get_parse_math()]
    lines += [f"formulas {formulas}"] if formulas else []
    if legend:
        corner = ax.transAxes.inverted().transform(legend.get_bbox_to_anchor().p0)
        lines.append(
            f"legend at {numbers(corner.round(3))}: {[artist.get_text() for artist in legend.get_texts()]} "
            f"({legend._ncols}, {numbers(legend.get_texts()[0].get_size())}, {legend.get_frame_on()})"
        )
    lines += [f"limits {numbers((ax.get_xlim(), ax.get_ylim()))}"]
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        # All ticks of a kind are alike, and to make one takes time.
        ticks = [*axis.get_major_ticks(1), *axis.get_minor_ticks(min(1, len(axis.get_minorticklocs())))]
        crossed = any(artist.gridline.get_visible() for artist in ticks)
        length, label = ticks[0].tick1line.get_markersize(), ticks[0].label1
        how = f"{numbers(length)} ({label.get_rotation():g}° {label.get_ha()})"
        lines.append(f"{name} ticks of {how}{', with lines' * crossed}")
    sides = [name for name, artist in ax.spines.items() if artist.get_visible()]
    lines.append(
        f"sides {' '.join(sides)}; {'below' if ax.get_axisbelow() is True else 'not below'} the marks"
    )
    return "\n".join(lines)


def text() -> str:
    """Return all axes in words and numbers, below the styles of their series."""
    styles = f"{plots.COLOURS}\n{plots.MARKS}\n{plots.LINES}\n\n"
    return styles + "\n\n".join(f"== {name}\n{describe_axes(make())}" for name, make in AXES.items()) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
