"""Results: what each of them offers beside its numbers, in every language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from ipseval.errors import InputError
from ipseval.reporting._html import to_html_tables
from ipseval.reporting._page import to_html
from ipseval.reporting.formatting import format_csv, write_or_return
from ipseval.reporting.markup import to_latex, to_markdown
from ipseval.reporting.tables import Heading, Table, Tables
from ipseval.reporting.text import to_text
from ipseval.utils import codec
from ipseval.utils.checks import check_positive_int
from ipseval.utils.public import public_class


@public_class
class Reported(ABC):
    """What can be printed, and written as Markdown, LaTeX and HTML.

    Every `to_…` returns the text, or the path that it is written to where one is given.
    """

    @abstractmethod
    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return what the report says; `page` adds what only a page has room for."""

    def _printed_tables(self) -> Tables:
        """Return the report that is printed as text."""
        return self.tables()

    def __repr__(self) -> str:
        return to_text(self._printed_tables())

    def _repr_html_(self) -> str:
        return to_html_tables(self.tables())

    def to_markdown(self, path: str | Path | None = None, *, digits: int = 2) -> str:
        """Return the report as Markdown; standard errors have `digits` significant digits."""
        return write_or_return(to_markdown(self.tables(digits=_checked(digits))), path)

    def to_latex(self, path: str | Path | None = None, *, digits: int = 2) -> str:
        """Return LaTeX tables for booktabs and threeparttable."""
        return write_or_return(to_latex(self.tables(digits=_checked(digits))), path)

    def to_html(self, path: str | Path | None = None, *, title: str | None = None, digits: int = 2) -> str:
        """Return one self-contained page: tables, pictures, diagnostics, definitions, provenance."""
        tables = self.tables(digits=_checked(digits), page=True)
        return write_or_return(to_html(tables if title is None else replace(tables, title=title)), path)


@public_class
class Result(Reported):
    """A result: a tidy `frame`, what to conclude in words, everything that can be said, and a picture."""

    if TYPE_CHECKING:  # a property, or a field of a data class

        @property
        def frame(self) -> pd.DataFrame:
            """The tidy table of the result."""

    @property
    def verdict(self) -> str:
        """What to conclude, in words; "" where nothing is concluded."""
        tables = self.tables()
        lines = [line for one in tables.verdict if one.name == "Verdict" for line in one.lines]
        below = [line for part in tables.parts if isinstance(part, Table) for line in part.below]
        return " ".join(lines or below)

    def explain(self, *, digits: int = 2) -> Explanation:
        """Return everything that can be said: the whole report, with what else only its page has."""
        whole = self.tables(digits=_checked(digits), page=True)
        return Explanation(replace(whole, parts=(*whole.parts, *whole.appendix), appendix=(), hint=""))

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the frame as CSV; an apostrophe stands before names that a spreadsheet would compute."""
        return write_or_return(format_csv(self.frame), path)

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Return axes with values and intervals by metric (default: the first), of one estimator or all."""
        from ipseval.reporting.plots.estimates import plot_result

        return plot_result(self.frame, metric, estimator, ax=ax)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything as one file, which must end in .npz, that `load` reads; nothing is pickled.

        Raises
        ------
        InputError
            When the file cannot be written, or ids are neither numbers nor text.
        """
        codec.save(path, self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return what `save` has written; everything that it prints, compares and plots is as it was.

        Raises
        ------
        InputError
            When the file is missing, damaged, of something else, or of a version that is not read.
        """
        return codec.load(path, cls)[0]


def render_for_shell(result: Reported) -> str:
    """Return the printed report with options of the command line in place of methods of Python."""
    return to_text(result._printed_tables().for_shell())


def load(path: str | PathLike[str]) -> Result:
    """Return the result that a file holds, of whatever kind; see `Result.load`."""
    return codec.load(path, Result)[0]  # type: ignore[type-abstract]  # a file holds one of its kinds


def _checked(digits: int) -> int:
    """Return the number of significant digits, or raise `InputError`: a float has no more than 17."""
    if check_positive_int("digits", digits) > 17:
        raise InputError(f"digits must be at most 17; got {digits!r:.80}.")
    return digits


@dataclass(frozen=True, eq=False, repr=False)
class Report(Reported):
    """Several results as one report, one behind the other: an evaluation, its segments, its lists.

    Parameters
    ----------
    results : sequence of results
        The first gives the title and the summary.

    Raises
    ------
    InputError
        Without a result, and for what is none.
    """

    results: Sequence[Reported]

    def __post_init__(self) -> None:
        given = self.results if isinstance(self.results, Sequence) else ()
        if not given or not all(isinstance(one, Reported) for one in given):
            raise InputError("a report takes a sequence of results, such as [evaluation, segments].")

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the tables of all results; a page has those behind the first folded, by one metric."""
        first, *others = (one.tables(digits=digits, page=page) for one in self.results)
        behind = [part for one in others for part in (Heading(one.summary[0], folded=page), *one.parts)]
        if not page:
            return replace(first, parts=(*first.parts, *behind))
        own = ("", getattr(first.parts[0], "metric", ""))
        shown = [part for part in behind if getattr(part, "metric", "") in own]
        more = ["Groups by other metrics: .frame."] * (len(shown) < len(behind))
        return replace(first, appendix=(*shown, *more, *first.appendix))


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Reported):
    """All that a report can say, as a value that is printed, or written like the report itself."""

    whole: Tables

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return what it says; the digits are those it was made with."""
        del digits, page
        return self.whole
