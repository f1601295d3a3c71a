"""Pictures of small tables of round numbers: where every mark, line and word stands.

`python -m tests.golden.pictures` writes them beside this file, to be looked at before they are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from tests.inside.reporting import Picture, draw_curves, draw_scatter, format_svg_file

FOLDER = Path(__file__).parent / "pictures"
NAN = float("nan")


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


def lines() -> Picture:
    """Return three curves with a mark."""
    values = {"als": [0.4, 0.3, 0.2], "ease": [0.35, 0.31, 0.25], "popular": [0.5, 0.2, 0.05]}
    return draw_curves(
        [-1.3, 0.5, 2.2], values, alt="an example", x_name="γ", x_label="γ of the log", marks={0.5: "tips"}
    )


def many() -> pd.DataFrame:
    """Return one recommender by nine estimators; three of them say nothing, or have no interval."""
    estimate = [0.1 * number for number in range(1, 10)]
    estimate[0] = -0.05  # its interval ends at 0
    estimate[4], low = NAN, [value - 0.05 for value in estimate]
    low[6] = NAN
    return pd.DataFrame(
        {
            "model": "a name of more than thirty letters",
            "metric": "dcg",
            "estimator": [f"e{number}" for number in range(9)],
            "estimate": estimate,
            "ci_low": low,
            "ci_high": [value + 0.05 for value in estimate],
            "truth": [-0.2, *[0.5] * 7, NAN],
        }
    )


def gaps() -> Picture:
    """Return nine curves, one with a gap, and marks at the ends and beyond them."""
    values = {f"m{number}": [0.1 * number, -0.1, 0.4 - 0.1 * number, 0.2] for number in range(9)}
    values["m1"][2] = NAN
    marks = {-2.0: "before", 0.0: "first", 4.0: "last", 4.5: "beyond"}
    return draw_curves(
        [0.0, 1.0, 2.0, 4.0],
        values,
        alt="gaps",
        x_name="b",
        x_label="b",
        marks=marks,
        caption="c",
        metric="m",
    )


def two() -> pd.DataFrame:
    """Return rows of two metrics."""
    return pd.concat([rows(), many().assign(estimator="aoa")])


PICTURES: dict[str, Callable[[], Picture]] = {
    "scatter": lambda: draw_scatter(rows(), estimators=["aoa", "snips-global"]),
    "curves": lines,
    "scatter_of_two_metrics": lambda: draw_scatter(two(), estimators=["aoa"]),
    "curves_with_gaps": gaps,
}


def drawn(name: str) -> str:
    """Return a picture as a file, a shape on a line."""
    return format_svg_file(PICTURES[name]()).replace("><", ">\n<") + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        (FOLDER / f"{name}.svg").write_text(drawn(name), encoding="utf-8")
