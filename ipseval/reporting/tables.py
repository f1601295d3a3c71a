"""Tables: what a report says, before any language; frozen values that renderers read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes
    ----------
    text, error : str
        What stands there, and its standard error ("± 0.012"), which is printed paler where that is possible.
    strong : bool
        Whether the text is bold where there is bold.
    mark : str
        Signs after it, where the legend of the table is printed as well.
    flag : str
        Why it should not be trusted; empty when nothing is wrong.
    hint : str
        Shown on demand, on a page.
    short : str or None
        What stands for the error where lines of text would get too long; None: the error itself.
    at : tuple of float
        What a page draws below the text, on the common axis of the table: (value,) a bar from 0; (low,
        value, high) a mark with its interval; empty: nothing. NaN is not drawn.
    """

    text: str
    error: str = ""
    strong: bool = False
    mark: str = ""
    flag: str = ""
    hint: str = ""
    short: str | None = None
    at: tuple[float, ...] = ()

    @property
    def plain(self) -> str:
        """The text with its standard error."""
        return f"{self.text} {self.error}".rstrip()


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes
    ----------
    header : tuple of str
        One name per column.
    rows : tuple of tuples of Cell
    title : str
        What the table is of.
    n_keys : int
        Number of first columns that name a row.
    words : frozenset of int
        Columns that hold words: they stand to the left.
    below : tuple of str
        Lines that belong right below it.
    folded : bool
        Whether a page shows it only on demand.
    n_rows : int or None
        How many rows text prints; None: all.
    rest : str
        What stands in text for the other rows.
    signed : bool
        Whether values below 0 have a meaning: else a page draws none of an interval there.
    metric : str
        The metric that it is about, where a reader can choose one; empty: it is always shown.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    n_keys: int = 1
    words: frozenset[int] = frozenset({0})
    below: tuple[str, ...] = ()
    folded: bool = False
    signed: bool = False
    n_rows: int | None = None
    rest: str = ""
    metric: str = ""

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        title: str = "",
        *,
        formats: Mapping[str, str] | str = ".4g",
        n_keys: int = 1,
        intervals: bool = True,
        folded: bool = False,
    ) -> Table:
        """Return the table of a frame: numbers in the format of their column, or of all; NaN is undefined.

        With `intervals`, the columns x, x_low and x_high are shown as one: ``x [low, high]``.
        """
        header: list[str] = []
        columns, words = [], set(range(n_keys))
        for name in map(str, frame.columns):
            if intervals and name.endswith(("_low", "_high")) and name.rsplit("_", 1)[0] in frame:
                continue
            form = formats if isinstance(formats, str) else formats.get(name, ".4g")
            texts = [_shown(value, form) for value in frame[name]]
            if intervals and f"{name}_low" in frame:
                bounds = zip(texts, frame[f"{name}_low"], frame[f"{name}_high"], strict=True)
                texts = [f"{text} [{_shown(low, form)}, {_shown(high, form)}]" for text, low, high in bounds]
            if not pd.api.types.is_numeric_dtype(frame[name]):
                words.add(len(header))
            header.append(name)
            columns.append([Cell(text) for text in texts])
        rows = tuple(zip(*columns, strict=True))
        return cls(tuple(header), rows, title, n_keys, frozenset(words), folded=folded)


def _shown(value: object, form: str) -> str:
    if value is None or value is pd.NA or value != value:
        return "undefined"
    if isinstance(value, float):
        text = format(value, form)
        return text.lstrip("-") if re.fullmatch("-[0.]+%?", text) else text
    return str(value) if isinstance(value, (str, bool)) or not hasattr(value, "__index__") else f"{value:,}"


@dataclass(frozen=True)
class Heading:
    """The name of what follows; level 2 or 3. `folded`: a page shows what is below only on demand."""

    text: str
    level: int = 2
    folded: bool = False

    @property
    def anchor(self) -> str:
        """What a link on a page names it by."""
        return re.sub(r"[^a-z0-9]+", "-", self.text.lower()).strip("-")


@dataclass(frozen=True)
class Notes:
    """Remarks, one sentence or two each."""

    lines: tuple[str, ...]


# The remarks that stand before the tables in every output: the conclusion, what it rests on, what to do.
VERDICT = "Verdict"
LEADING = (VERDICT, "Assumption", "Next step")


@dataclass(frozen=True)
class Remark:
    """What is concluded or noted, under one name, such as "Verdict", "Weights" or "Data"."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """Text that keeps its lines, with a name."""

    name: str
    text: str


@dataclass(frozen=True)
class Picture:
    """A picture: SVG without its outer element.

    Attributes
    ----------
    alt : str
        What it shows, in words.
    drawn : str
        SVG elements, escaped; classes as in `_picture.css`.
    height : int
        In pixels.
    width : int
        In pixels; 0: it is as wide as its place, and widths in it are in per cent.
    legend : tuple of (int, str)
        Number of the line style, and what it stands for.
    caption : str
        Below it.
    metric : str
        The metric that it is about, as in `Table`.
    """

    alt: str
    drawn: str
    height: int
    width: int = 0
    legend: tuple[tuple[int, str], ...] = ()
    caption: str = ""
    metric: str = ""


Part = Heading | str | Table | Notes | Code | Picture


class InterfaceText(str):
    """A text that names methods of Python, with the text that takes its place on the command line.

    An empty `shell` text removes the line there.
    """

    shell: str

    def __new__(cls, text: str, shell: str) -> InterfaceText:
        """Make a text of both wordings."""
        instance = super().__new__(cls, text)
        instance.shell = shell
        return instance


def join_sentences(sentences: Sequence[str]) -> InterfaceText:
    """Return sentences as one text, which keeps both of their wordings."""
    shell = " ".join(_word_lines_for_shell(tuple(sentences)))
    return InterfaceText(" ".join(sentences), shell=shell)


EXPLAIN_HINT = InterfaceText("More: .explain()", shell="More: --explain")


def _word_for_shell(text: str) -> str:
    """Return the wording of a text on the command line."""
    return text.shell if isinstance(text, InterfaceText) else text


def _word_lines_for_shell(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the wordings of lines on the command line, without empty ones that Python alone has."""
    worded = []
    for line in lines:
        shell_line = _word_for_shell(line)
        if shell_line or not isinstance(line, InterfaceText):
            worded.append(shell_line)
    return tuple(worded)


def _word_part_for_shell(part: Part) -> Part:
    """Return a part of a report with the wording of the command line."""
    if isinstance(part, Notes):
        return Notes(_word_lines_for_shell(part.lines))
    if isinstance(part, Table):
        return replace(part, rest=_word_for_shell(part.rest), below=_word_lines_for_shell(part.below))
    if isinstance(part, str):
        return _word_for_shell(part)
    return part


@dataclass(frozen=True)
class Tables:
    """What a report says.

    Attributes
    ----------
    summary : tuple of str
        Lines that say what was computed.
    parts : tuple
        Headings, paragraphs, tables and notes, in their order.
    title : str
        Of the page; empty: text, Markdown and LaTeX begin with the summary.
    warnings : tuple of str
        What must be read first.
    verdict : tuple of Remark
        What to conclude, below the parts.
    hint : str
        Where to read on; text prints it last.
    legend : tuple of str
        What bold and the marks of the cells mean; for renderers that show them.
    appendix : tuple
        Parts for a page only: pictures, diagnostics, definitions, provenance.
    """

    summary: tuple[str, ...]
    parts: tuple[Part, ...]
    title: str = ""
    warnings: tuple[str, ...] = ()
    verdict: tuple[Remark, ...] = ()
    hint: str = ""
    legend: tuple[str, ...] = ()
    appendix: tuple[Part, ...] = ()

    def for_shell(self) -> Tables:
        """Return the report with options of the command line in place of methods of Python."""
        verdict = tuple(Remark(remark.name, _word_lines_for_shell(remark.lines)) for remark in self.verdict)
        return replace(
            self,
            summary=_word_lines_for_shell(self.summary),
            parts=tuple(_word_part_for_shell(part) for part in self.parts),
            warnings=_word_lines_for_shell(self.warnings),
            verdict=verdict,
            hint=_word_for_shell(self.hint),
            appendix=tuple(_word_part_for_shell(part) for part in self.appendix),
        )
