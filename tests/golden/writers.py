"""Small reports with every part that there is, as each writer writes them.

`python -m tests.golden.writers` writes them beside this file, to be read before they are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pandas as pd

from ipseval.reporting import Tables
from tests.inside.reporting import (
    Cell,
    Code,
    Heading,
    Notes,
    Picture,
    Remark,
    Table,
    to_html,
    to_html_tables,
    to_latex,
    to_markdown,
    to_text,
    views,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = Path(__file__).parent / "writers"
LONG = " ".join(["words that fill a line-of-a-hundred-columns"] * 3)
NAN = float("nan")


def results(metric: str = "") -> Table:
    """Return a table of results: bold, errors, marks, a flag, a hint, what is drawn."""
    rows = (
        (Cell("als"), Cell("0.31", "± 0.02", strong=True, at=(0.27, 0.31, 0.35)), Cell("a", mark="*")),
        (Cell("ease"), Cell("12.5", "± 0.003", flag="few users", at=(0.2, NAN, 0.3)), Cell("b", hint="why")),
        (Cell("popular", "(own)"), Cell("undefined", at=(NAN, NAN, NAN)), Cell("")),
    )
    below = ("  of the table", "another line")
    return Table(
        ("recommender", "estimate", "in words"), rows, "recall@10", 1, frozenset({0, 2}), below, metric=metric
    )


def bars() -> Table:
    """Return a table that draws bars on both sides of 0, with more rows than a text has."""
    rows = tuple(
        (Cell(name), Cell(group), Cell(f"{value:g}", at=(value,)), Cell(f"{value:g}", at=(0.5, 1.0, 1.5)))
        for name, group, value in (("a", "x", -0.5), ("a", "y", 1.5), ("b", "x", 0.0), ("b", "y", NAN))
    )
    header = ("model", "group", "difference", "factor")
    return Table(
        header, rows, "Differences", 2, frozenset({0, 1}), signed=True, n_rows=2, rest="… 2 more rows"
    )


def folded() -> Table:
    """Return the table of a frame: numbers in their format, an interval in one column, what is missing."""
    frame = pd.DataFrame(
        {
            "name": ["one", None],
            "n": [1234567, 5],
            "gain": [0.123456, NAN],
            "gain_low": [0.1, NAN],
            "gain_high": [0.2, 1.0],
            "alone_low": [1.0, 2.0],
            "good": [True, False],
            "share": [0.5, 0.25],
        }
    )
    return Table.from_frame(frame, "By group", formats={"share": ".0%"}, folded=True)


def draw_nothing() -> Axes:
    """Stand for a picture; `tests/reporting/test_pictures.py` looks at pictures."""
    raise NotImplementedError


def whole() -> Tables:
    """Return a report of all parts."""
    picture = Picture("two <lines>", draw_nothing, caption="below <it>", metric="recall@10")
    parts = (
        Heading("Results & more"), "A paragraph.", results("recall@10"), Heading("Smaller", 3), bars(),
        Notes(("first note", "second note")), Heading("Data"), folded(), picture,
        Picture("a plot", draw_nothing), Code("session.txt", "line 1\n  line 2"), Table(("empty", "n"), ()),
    )  # fmt: skip
    return Tables(
        ("2 recommenders", LONG), parts, "A title", ("Read this first.",),
        (Remark("Data", ("10 users",)), Remark("Verdict", (LONG, "als leads")), Remark("Weights", ("even",))),
        "explain() says more", ("bold: best", "*: differs"),
        (Heading("More"), Notes(("last",)), results("dcg")),
    )  # fmt: skip


def plain() -> Tables:
    """Return a report of words alone."""
    remarks = (Remark("Claim", ("consistent given P",)), Remark("Data", (f"all {LONG}",)))
    return Tables(("one line",), ("A paragraph.", Heading("Only one")), remarks=remarks, hint="x" * 80)


def wide() -> Tables:
    """Return a table that takes three pieces, with short errors, and names that are wide, long or alike."""
    start, end = "a-name-that-all-of-them-share", "-and-an-end"
    names = [f"{start}-{middle}{end}" for middle in ("als", "ease", "pop")]
    cells = [Cell("0.5", "± 0.123456 of nothing", short="± 0.12"), *[Cell("0.25", "[0.1, 0.4]")] * 9]
    header = ("model", *(f"metric {number}" for number in range(10)))
    rows = tuple((Cell(name), *cells) for name in names)
    different = [
        "short", "日本語の推薦システムの名前はとても長い", "n" * 28, "m" * 29, "m" * 14 + "-" + "m" * 40,
        "first half of a name that differs inside and ends alike", "first half of a name and ends alike",
    ]  # fmt: skip
    table_of_names = Table(("model", "n"), tuple((Cell(name), Cell("1")) for name in different))
    keys = Table(header, tuple((row[0], Cell("group"), *row[2:]) for row in rows[:2]), "Two keys", 2)
    similar = Table(
        ("model", "n"), tuple((Cell("p" * 30 + ending), Cell("1")) for ending in ("", "-and-more"))
    )
    return Tables((), (Table(header, rows, "Three pieces"), table_of_names, keys, similar))


REPORTS = {"whole": whole, "plain": plain, "wide": wide}
WRITERS: dict[str, Callable[[Tables], str]] = {
    "txt": to_text,
    "md": to_markdown,
    "tex": to_latex,
    "html": to_html,
    "notebook.html": to_html_tables,
}
BLOCKS = r"/?(body|caption|details|div|d[ldt]|figure|h\d|header|link|main|meta|nav|p|pre|section|table|title|tr|ul)\b"
FILES = {
    f"{report}.{kind}": (report, kind)
    for report in REPORTS
    for kind in WRITERS
    if report != "wide" or "html" not in kind  # a page has no width: nothing is cut or in pieces there
}


def write_report(name: str) -> str:
    """Return a report in one language; of a page without its style and script, a block or row on a line."""
    report, kind = FILES[name]
    # As without matplotlib, whose pictures differ from release to release.
    with patch.object(views, "find_spec", return_value=None):
        text = WRITERS[kind](REPORTS[report]())
    if "html" in kind:
        text = re.sub(r"(?s)<(style|script)>.*?</\1>", "", text)
        text = re.sub(r"sha256-[^']*", "sha256-", text)
        text = re.sub(rf"><(?={BLOCKS})", ">\n<", text)
    return text + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in FILES:
        (FOLDER / name).write_text(write_report(name), encoding="utf-8")
