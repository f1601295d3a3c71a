"""Content of a report as frozen values, which renderers write in their languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes
    ----------
    text, error : str
        The text of the cell, and its standard error ("± 0.012"), which a page prints in a paler colour.
    strong : bool
        Whether the text is bold, in outputs that have bold text.
    mark : str
        Signs after the text, in outputs that print the legend of the report.
    flag : str
        The reason why the value is unreliable; empty for a reliable value.
    hint : str
        The tooltip of the cell on a page.
    short : str or None
        The text in place of the error if lines of plain text would be too long; None: the error itself.
    at : tuple of float
        The values that a page draws below the text, on the common axis of the table: (value,) as a bar
        from 0; (low, value, high) as a mark with its interval; nothing if it is empty. NaN is not drawn.
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
        The title; if there is one key column, text and Markdown print it as the name of that column.
    n_keys : int
        The number of key columns: the first columns, which identify a row.
    words : frozenset of int
        Numbers of the columns that contain words, which are aligned to the left.
    below : tuple of str
        Lines that are printed directly below the table.
    folded : bool
        Whether a page hides the table until the reader opens it.
    n_rows : int or None
        The number of rows that plain text prints; None: all.
    rest : str
        The line that replaces the other rows in plain text.
    signed : bool
        Whether values below 0 have a meaning. If not, a page cuts intervals at 0.
    metric : str
        The metric of the table, by which the reader of a page can select tables; empty: always visible.
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
    def from_frame(
        cls,
        frame: pd.DataFrame,
        title: str = "",
        *,
        formats: Mapping[str, str] | str = ".4g",
        n_keys: int = 1,
        intervals: bool = True,
        folded: bool = False,
    ) -> Table:
        """Return the table of a frame.

        Parameters
        ----------
        frame : pandas.DataFrame
            The values; missing values are printed as "undefined".
        title : str, default ""
            The title of the table.
        formats : mapping of str to str, or str, default ".4g"
            The format of floating-point numbers by column, or of all columns. Columns that are missing in the
            mapping have ".4g".
        n_keys : int, default 1
            The number of key columns.
        intervals : bool, default True
            Whether the columns x, x_low and x_high are printed as one: ``x [low, high]``.
        folded : bool, default False
            Whether a page hides the table until the reader opens it.

        Examples
        --------
        >>> frame = pd.DataFrame({"model": ["als"], "auc": [0.75], "auc_low": [0.7], "auc_high": [0.8]})
        >>> table = Table.from_frame(frame, formats=".2f")
        >>> table.header, [cell.text for cell in table.rows[0]]
        (('model', 'auc'), ['als', '0.75 [0.70, 0.80]'])
        """
        header: list[str] = []
        columns: list[list[Cell]] = []
        word_columns = set(range(n_keys))
        for name in map(str, frame.columns):
            if intervals and _is_bound(name, frame):
                continue
            number_format = formats if isinstance(formats, str) else formats.get(name, ".4g")
            if not pd.api.types.is_numeric_dtype(frame[name]):
                word_columns.add(len(header))
            header.append(name)
            texts = _format_column(frame, name, number_format, intervals=intervals)
            columns.append([Cell(text) for text in texts])
        return cls(
            header=tuple(header),
            rows=tuple(zip(*columns, strict=True)),
            title=title,
            n_keys=n_keys,
            words=frozenset(word_columns),
            folded=folded,
        )


def _is_bound(name: str, frame: pd.DataFrame) -> bool:
    """Return whether a column contains the lower or upper bounds of another column."""
    for suffix in ("_low", "_high"):
        if name.endswith(suffix) and name.removesuffix(suffix) in frame:
            return True
    return False


def _format_column(frame: pd.DataFrame, name: str, number_format: str, *, intervals: bool) -> list[str]:
    """Return the values of a column as text, followed by their bounds if the frame has them."""
    texts = [_format_value(value, number_format) for value in frame[name]]
    low_name = f"{name}_low"
    if not intervals or low_name not in frame:
        return texts

    texts_with_bounds = []
    for text, low, high in zip(texts, frame[low_name], frame[f"{name}_high"], strict=True):
        low_text = _format_value(low, number_format)
        high_text = _format_value(high, number_format)
        texts_with_bounds.append(f"{text} [{low_text}, {high_text}]")
    return texts_with_bounds


def _format_value(value: object, number_format: str) -> str:
    """Return a value as text; a missing value is "undefined"."""
    is_missing = value is None or value is pd.NA or value != value
    if is_missing:
        return "undefined"
    if isinstance(value, float):
        return _remove_sign_of_zero(format(value, number_format))
    is_integer = hasattr(value, "__index__") and not isinstance(value, (str, bool))
    if is_integer:
        return f"{value:,}"
    return str(value)


def _remove_sign_of_zero(text: str) -> str:
    """Return a formatted number without its sign if all its digits are 0."""
    if re.fullmatch("-[0.]+%?", text):
        return text.removeprefix("-")
    return text


@dataclass(frozen=True)
class Heading:
    """Heading of the parts that follow.

    Attributes
    ----------
    text : str
        The words of the heading.
    level : {2, 3}
        The level; a page links to headings of level 2.
    folded : bool
        Whether a page hides the parts of this section until the reader opens it.
    """

    text: str
    level: int = 2
    folded: bool = False

    @property
    def anchor(self) -> str:
        """The name of the heading in links of a page."""
        words_with_hyphens = re.sub(r"[^a-z0-9]+", "-", self.text.lower())
        return words_with_hyphens.strip("-")


@dataclass(frozen=True)
class Notes:
    """Notes of one or two sentences each."""

    lines: tuple[str, ...]


# Names of the remarks that every output prints before the tables.
VERDICT = "Verdict"
LEADING = (VERDICT, "Assumption", "Next step")


@dataclass(frozen=True)
class Remark:
    """Sentences under one name, such as "Verdict", "Weights" or "Data"."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """A named text whose line breaks are kept."""

    name: str
    text: str


@dataclass(frozen=True)
class Picture:
    """A picture, which is drawn when a page is written.

    Attributes
    ----------
    alt : str
        A description of the picture for readers who cannot see it.
    draw : callable
        Returns axes of matplotlib with the picture, in a figure of their own.
    hints : tuple of str
        The tooltips of the areas of the picture, as in `plots.svg.write_element`.
    caption : str
        The text below the picture.
    metric : str
        The metric of the picture, as in `Table`.
    """

    alt: str
    draw: Callable[[], Axes]
    hints: tuple[str, ...] = ()
    caption: str = ""
    metric: str = ""


Part = Heading | str | Table | Notes | Code | Picture


class InterfaceText(str):
    """A text that names Python methods, with the wording that replaces it on the command line.

    An empty `shell` wording removes the line there.
    """

    shell: str

    def __new__(cls, text: str, shell: str) -> InterfaceText:
        """Create a text from both wordings."""
        instance = super().__new__(cls, text)
        instance.shell = shell
        return instance


def join_sentences(sentences: Sequence[str]) -> InterfaceText:
    """Return sentences as one text, which keeps both of their wordings."""
    shell = " ".join(_word_lines_for_shell(tuple(sentences)))
    return InterfaceText(" ".join(sentences), shell=shell)


EXPLAIN_HINT = InterfaceText(
    "Call .explain() on this result for details.", shell="Add --explain for details."
)


def _word_for_shell(text: str) -> str:
    """Return the wording of a text on the command line."""
    if isinstance(text, InterfaceText):
        return text.shell
    return text


def _word_lines_for_shell(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the wordings of lines on the command line, without lines that only Python has."""
    shell_lines = []
    for line in lines:
        shell_line = _word_for_shell(line)
        if shell_line or not isinstance(line, InterfaceText):
            shell_lines.append(shell_line)
    return tuple(shell_lines)


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
    """Content of a report.

    Parameters
    ----------
    summary : tuple of str
        Lines that describe the computation: data, metrics, estimators.
    parts : tuple
        Headings, paragraphs, tables and notes, in their order.
    title : str
        The title of the page; if it is empty, text and Markdown begin with the summary.
    warnings : tuple of str
        Sentences that have to be read before the tables.
    remarks : tuple of Remark
        Conclusions and remarks. Those named in `LEADING` are printed before the parts, the others below.
    hint : str
        A pointer to further information; text prints it last.
    legend : tuple of str
        The meaning of bold text and of the marks of cells, for outputs that have them.
    appendix : tuple
        Parts that only a page contains: pictures, diagnostics, definitions, provenance.
    formulas : tuple of str
        Formulas in the texts, which LaTeX writes in mathematics.

    See Also
    --------
    ipseval.Evaluation.tables : Return the content of the report of an evaluation.

    Examples
    --------
    A result with one table, which all outputs print:

    >>> import pandas as pd
    >>> table = Table.from_frame(pd.DataFrame({"model": ["knn"], "recall@10": [0.31]}))
    >>> tables = Tables(summary=("One recommender",), parts=(table,))
    >>> from ipseval.reporting.text import to_text
    >>> print(to_text(tables))
    One recommender
    <BLANKLINE>
    model  recall@10
    knn         0.31
    """

    summary: tuple[str, ...]
    parts: tuple[Part, ...]
    title: str = ""
    warnings: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    hint: str = ""
    legend: tuple[str, ...] = ()
    appendix: tuple[Part, ...] = ()
    formulas: tuple[str, ...] = ()

    def for_shell(self) -> Tables:
        """Return the report with options of the command line in place of methods of Python.

        Returns
        -------
        Tables
            The same content with other wordings.
        """
        remarks = [Remark(remark.name, _word_lines_for_shell(remark.lines)) for remark in self.remarks]
        return replace(
            self,
            summary=_word_lines_for_shell(self.summary),
            parts=tuple(map(_word_part_for_shell, self.parts)),
            warnings=_word_lines_for_shell(self.warnings),
            remarks=tuple(remarks),
            hint=_word_for_shell(self.hint),
            appendix=tuple(map(_word_part_for_shell, self.appendix)),
        )
