"""What the pictures share: marks, texts, the style of their classes, and a picture as a file of its own."""

from __future__ import annotations

import html
from functools import cache
from pathlib import Path

from ipseval.report._escape import visible
from ipseval.report._tables import Picture

# Shapes repeat what the colours c0, c1, … say.
SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.5-3.5h7v7h-7z",
    "M0-5L4.5 0L0 5L-4.5 0z",
    "M0-4.5L4.5 3.5h-9z",
    "M0 4.5L4.5-3.5h-9z",
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
)
N_STYLES = 8
_LONGEST = 30


def svg_file(picture: Picture) -> str:
    """Return a picture of a fixed width as the text of an SVG file, on white."""
    width, height = picture.width, picture.height
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    inside = f"<title>{safe(picture.alt)}</title><style>{picture_style()}</style>"
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" class="p" role="img" {size}>'
    return f"{opened}{inside}{paper}{picture.drawn}</svg>\n"


@cache
def picture_style() -> str:
    """Return the style of the classes in pictures."""
    return Path(__file__).with_name("_picture.css").read_text(encoding="utf-8")


def mark(number: int, x: float, y: float) -> str:
    """Return the mark of one series."""
    return f'<path class="m" d="{SHAPES[number % len(SHAPES)]}" transform="translate({x:.1f} {y:.1f})"/>'


def series(number: int, marks: list[str]) -> str:
    """Return the marks of one series in its colour."""
    return f'<g class="c{number % N_STYLES}">{"".join(marks)}</g>'


def text(x: float, y: float, words: str, anchor: str) -> str:
    """Return words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{safe(words)}</text>'


def short(name: str) -> str:
    """Return a name without the middle of a long one."""
    shown = visible(name)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 13]}…{shown[-12:]}"


def safe(words: str) -> str:
    """Return words that are text in SVG."""
    return html.escape(visible(words))
