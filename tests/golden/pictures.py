"""Pictures of small tables of round numbers: where every mark, line and word stands.

`python -m tests.golden.pictures` writes them beside this file, to be looked at before they are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from ipseval.report import Picture, curves, forest, scatter, svg_file

FOLDER = Path(__file__).parent / "pictures"


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
    return curves(
        [-1.3, 0.5, 2.2], values, alt="an example", x_name="γ", x_label="γ of the log", marks={0.5: "tips"}
    )


PICTURES: dict[str, Callable[[], Picture]] = {
    "forest": lambda: forest(rows()),
    "scatter": lambda: scatter(rows(), estimators=["aoa", "snips-global"]),
    "curves": lines,
}


def drawn(name: str) -> str:
    """Return a picture as a file, a shape on a line."""
    return svg_file(PICTURES[name]()).replace("><", ">\n<") + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        (FOLDER / f"{name}.svg").write_text(drawn(name), encoding="utf-8")
