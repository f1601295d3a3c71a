"""Figures as SVG: files of their own, and elements of a page that follow its colours.

The SVG of matplotlib cannot be part of a page unchanged: the content security policy of the page refuses its style
attributes, its colours are those of white paper, its ids repeat from picture to picture, and two thirds of its
characters are metadata, font names and decimals. `write_element` removes what the page does not need.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ipseval.reporting.plots._base import COLOURS

HINT_ID = "hint"  # begins the ids of the areas that have a tooltip
PIXELS_PER_POINT = 96 / 72
LEGEND_WIDTH = 64  # characters of one line of a legend below a picture
KEY_WIDTH = 7  # characters that the line or marker of an entry takes

# Text stays text. The salt makes ids, and so the bytes, the same each time.
_OPTIONS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ipseval",
    "font.size": 11,
    "axes.titlesize": 11,
    "lines.solid_capstyle": "butt",
}
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}

# Attributes that stand in a page as they are, and those in which numbers are rounded.
_KEPT = ("class", "x", "y", "width", "height", "d", "transform", "text-anchor")
_KEPT_STYLES = (
    *("fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap"),
    *("opacity", "fill-opacity", "stroke-opacity", "text-anchor"),
)
_SKIPPED_TAGS = ("metadata", "style", "title")
_DECIMAL_NUMBER = re.compile(r"-?\d+\.\d+")
_SPACE_AT_COMMAND = re.compile(r"\s*([MLHVCQZz])\s*")
_NO_ROTATION = re.compile(r"rotate\(-?0[ ,)]")
_REFERENCE = re.compile(r"#([\w.-]+)")


def write_file(draw: Callable[[], Figure]) -> str:
    """Return the figure that a function draws as an SVG file; the same figure gives the same text."""
    with style.context(["default", _OPTIONS]), warnings.catch_warnings():
        # A browser has fonts with the letters that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = draw()
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    return buffer.getvalue()


def write_element(draw: Callable[[], Axes], *, alt: str, hints: Sequence[str], id_prefix: str) -> str:
    """Return the plot that a function draws as an `svg` element of a page.

    Parameters
    ----------
    draw : callable
        Returns the axes of a figure of its own.
    alt : str
        Description of the picture for readers who cannot see it.
    hints : sequence of str
        The tooltip of each area whose id is `HINT_ID` and its number.
    id_prefix : str
        The beginning of the ids in the element, which distinguishes the pictures of a page.

    Returns
    -------
    str
        The element. Colours of series are the classes c0, c1, …, greys are the classes `rule` and `soft`, and
        black is the colour of the text around it. Coordinates have one decimal, a tenth of a point.
    """
    text = write_file(lambda: _prepare_figure(draw()))
    # matplotlib has just written it, and has escaped every name in it.
    source = ElementTree.fromstring(text)  # nosec B314
    return _ElementWriter(hints, id_prefix).write(source, alt)


def _prepare_figure(ax: Axes) -> Figure:
    """Return the figure of axes without background and ticks, with a grid and with the legend below it."""
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)  # a plot of a page has a figure of its own
    figure.patch.set_visible(False)
    ax.patch.set_visible(False)
    ax.spines[:].set_visible(False)
    ax.tick_params(bottom=False, left=False)
    ax.grid(axis="y", color="0.85", linewidth=0.8, clip_on=False)
    ax.set_axisbelow(True)
    _move_legend_below(figure, ax)
    return figure


def _move_legend_below(figure: Figure, ax: Axes) -> None:
    """Put the legend below the axes, in as many columns as fit, and make the figure as much higher."""
    handles, labels = ax.get_legend_handles_labels()
    old_legend = ax.get_legend()
    if old_legend is not None:
        old_legend.remove()
    entry_width = max(map(len, labels)) + KEY_WIDTH
    n_columns = max(1, min(len(labels), LEGEND_WIDTH // entry_width))
    n_lines = math.ceil(len(labels) / n_columns)
    figure.set_figheight(figure.get_figheight() + 0.2 * n_lines)
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=n_columns, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a "$" in a name begins no formula


class _ElementWriter:
    """Writes the SVG of matplotlib as an element of a page."""

    def __init__(self, hints: Sequence[str], id_prefix: str) -> None:
        self.hints = hints
        self.id_prefix = id_prefix
        self.new_ids: dict[str, str] = {}

    def write(self, source: Element, alt: str) -> str:
        """Return the element as text."""
        width = float(source.attrib["viewBox"].split()[2]) * PIXELS_PER_POINT
        target = Element(
            "svg",
            {
                "class": "p",
                "role": "img",
                "aria-label": alt,
                "viewBox": _round_numbers(source.attrib["viewBox"]),
                "width": f"{width:.0f}",
            },
        )
        self._copy_children(source, target)
        return ElementTree.tostring(target, encoding="unicode")

    def _copy_children(self, source: Element, target: Element) -> None:
        """Add the shapes inside an element to another one; groups without attributes are dissolved."""
        for child in source:
            tag = child.tag.rpartition("}")[2]
            if tag in _SKIPPED_TAGS:
                continue
            child_id = child.get("id", "")
            if tag == "g" and child_id.startswith(HINT_ID):
                self._add_hint(child, target, self.hints[int(child_id.removeprefix(HINT_ID))])
                continue

            attributes = self._convert_attributes(child, tag)
            if tag == "defs" and not self._has_shapes(child):
                continue
            if tag == "g" and not attributes:
                self._copy_children(child, target)
                continue
            copy = SubElement(target, tag, attributes)
            copy.text = (child.text or "").strip() or None
            self._copy_children(child, copy)

    def _has_shapes(self, definitions: Element) -> bool:
        """Return whether definitions contain more than a style sheet."""
        return any(child.tag.rpartition("}")[2] not in _SKIPPED_TAGS for child in definitions)

    def _add_hint(self, source: Element, target: Element, hint: str) -> None:
        """Add the invisible shape of an area with its tooltip."""
        for path in source:
            copy = SubElement(target, "path", {"class": "h", "d": _shorten_path(path.attrib["d"])})
            SubElement(copy, "title").text = hint

    def _convert_attributes(self, source: Element, tag: str) -> dict[str, str]:
        """Return the attributes of an element: classes for colours, rounded numbers, ids of this picture."""
        attributes: dict[str, str] = {}
        is_definition = tag in ("path", "clipPath") and "id" in source.attrib
        if is_definition:
            attributes["id"] = self._rename_id(source.attrib["id"])
        else:
            attributes |= _convert_style(source.get("style", ""))

        for name, value in source.attrib.items():
            local_name = name.rpartition("}")[2]
            if local_name in ("href", "clip-path"):
                attributes[local_name] = _REFERENCE.sub(self._rename_reference, value)
            elif local_name == "d":
                attributes["d"] = _shorten_path(value)
            elif local_name in _KEPT and not _NO_ROTATION.match(value):
                attributes[local_name] = _round_numbers(value)
        return attributes

    def _rename_id(self, old_id: str) -> str:
        """Return the id of this page for an id of matplotlib."""
        return self.new_ids.setdefault(old_id, f"{self.id_prefix}{len(self.new_ids)}")

    def _rename_reference(self, match: re.Match[str]) -> str:
        """Return a reference to an id of this page."""
        return f"#{self._rename_id(match.group(1))}"


def _convert_style(text: str) -> dict[str, str]:
    """Return a style attribute as attributes of SVG, which the policy of a page allows; fonts are omitted."""
    attributes: dict[str, str] = {}
    for declaration in text.split(";"):
        name, _, value = declaration.partition(":")
        name = name.strip()
        value = value.strip()
        if name not in _KEPT_STYLES:
            continue
        if name in ("fill", "stroke"):
            colour_class = _choose_class(value)
            if colour_class is not None:
                value = "currentColor"
            if colour_class:
                attributes["class"] = colour_class
        attributes[name] = _round_numbers(value)
    return attributes


def _choose_class(colour: str) -> str | None:
    """Return the class of a page that has a colour, "" for black, or None if there is none.

    Examples
    --------
    >>> _choose_class("#d55e00"), _choose_class("#000000"), _choose_class("#d9d9d9"), _choose_class("none")
    ('c1', '', 'rule', None)
    """
    if not re.fullmatch("#[0-9a-f]{6}", colour):
        return None
    if colour == "#000000":
        return ""
    if colour.upper() in COLOURS:
        return f"c{COLOURS.index(colour.upper())}"
    is_grey = colour[1:3] == colour[3:5] == colour[5:7]
    if not is_grey:
        return None
    is_light = int(colour[1:3], base=16) > 0xC0
    if is_light:
        return "rule"
    return "soft"


def _shorten_path(path: str) -> str:
    r"""Return a path with rounded numbers, and without spaces around its commands.

    Examples
    --------
    >>> _shorten_path("M 53.050312 39.326215 \nL 74.0 -0.04 \nz\n")
    'M53.1 39.3L74 0z'
    """
    return _SPACE_AT_COMMAND.sub(r"\1", _round_numbers(path)).strip()


def _round_numbers(text: str) -> str:
    """Round the decimal numbers of a text to one decimal.

    Examples
    --------
    >>> _round_numbers("rotate(-90 14.798438 113.148828)"), _round_numbers("5.55,2.4")
    ('rotate(-90 14.8 113.1)', '5.5,2.4')
    """
    return _DECIMAL_NUMBER.sub(_round_number, text)


def _round_number(match: re.Match[str]) -> str:
    """Return a number with one decimal at most."""
    number = round(float(match.group()), 1) + 0.0  # the sum turns −0.0 into 0.0
    return f"{number:.1f}".removesuffix(".0")
