"""Screenshots of a page at three widths, light and dark, to be looked at, and what can be checked in them.

They are written into the folder that the variable SCREENSHOTS names, else into that of the test:
`SCREENSHOTS=shots python -m pytest -m engines tests/reporting/browser/test_screenshots.py`
"""

from __future__ import annotations

import os
import re
from itertools import product
from pathlib import Path

import pytest

WIDTHS = (1280, 600, 400)
TEXT = 4.5  # the least contrast of text, by the guidelines for accessible content (WCAG 2.1, 1.4.3)
LINES = 3.0  # the least contrast of what a reader has to see in a picture (1.4.11)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG defines it."""
    channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_contrast_of_black_and_white_is_21_and_that_of_a_grey_is_known():
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)") == pytest.approx(4.48, abs=0.005)


def computed(seen, selector: str, name: str) -> set[str]:
    """Return the values of a property of style of all elements that a selector chooses."""
    program = "(all, name) => all.map(one => getComputedStyle(one)[name])"
    return set(seen.page.locator(selector).evaluate_all(program, name))


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """Return where screenshots go."""
    chosen = os.environ.get("SCREENSHOTS")
    made = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    made.mkdir(parents=True, exist_ok=True)
    return made


@pytest.mark.parametrize(("width", "dark"), list(product(WIDTHS, (False, True))))
def test_a_page_is_photographed_and_fits_its_window_with_colours_that_can_be_seen(
    report, visit, folder, width, dark
):
    seen = visit(report, width=width, dark=dark)
    path = folder / f"report-{width}-{'dark' if dark else 'light'}.png"
    seen.page.screenshot(path=path, full_page=True)
    header = path.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    assert int.from_bytes(header[16:20], "big") == width  # as wide as the window: nothing to scroll to
    assert path.stat().st_size > 50_000
    assert seen.console == seen.requests == seen.refused == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width

    (paper,) = computed(seen, "body", "backgroundColor")
    assert (luminance(paper) < 0.02) == dark
    assert (luminance(paper) > 0.98) == (not dark)
    for selector in ("body", "figcaption", "td i", "thead th", ".summary", ".verdict dt"):
        for ink in computed(seen, selector, "color"):
            assert contrast(ink, paper) >= TEXT, selector
    words = computed(seen, "figure .p text", "fill")
    assert len(words) == 1
    assert contrast(words.pop(), paper) >= TEXT
    for kind in ("c0", "c1", "c2", "c3", "c4", "c5", "soft"):
        (line,) = computed(seen, f"figure .p path.{kind}", "stroke")
        assert contrast(line, paper) >= LINES, kind


@pytest.mark.parametrize("width", WIDTHS)
def test_pictures_keep_within_the_page_and_their_words_can_be_read(report, visit, width):
    seen = visit(report, width=width)
    pictures = seen.page.locator("figure svg.p").all()
    assert len(pictures) == 2
    for picture in pictures:
        box = picture.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        drawn_width = float(picture.get_attribute("viewBox").split()[2])
        size = float(picture.evaluate("one => parseFloat(getComputedStyle(one).fontSize)"))
        assert size * box["width"] / drawn_width >= 9.5  # pixels
        # No word of the picture is cut at its edge.
        inside = picture.evaluate(
            "one => [...one.querySelectorAll('text')].every(text => { const word = text.getBoundingClientRect(),"
            " box = one.getBoundingClientRect(); return word.left >= box.left - 1 && word.right <= box.right + 1"
            " && word.top >= box.top - 1 && word.bottom <= box.bottom + 1; })"
        )
        assert inside


def test_the_page_of_six_recommenders_and_two_metrics_is_small(report):
    assert 30_000 < report.stat().st_size < 60_000
