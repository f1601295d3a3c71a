"""Base classes of results and reports: printing, export to files, plots and storage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from ipseval.errors import InputError
from ipseval.reporting._html import to_html, to_html_tables
from ipseval.reporting.formatting import format_csv, write_or_return
from ipseval.reporting.markup import to_latex, to_markdown
from ipseval.reporting.tables import VERDICT, Heading, Notes, Part, Picture, Table, Tables
from ipseval.reporting.text import to_text
from ipseval.utils import codec
from ipseval.utils.checks import check_positive_int
from ipseval.utils.public import public_class

MAX_DIGITS = 17  # significant digits of a floating-point number


@public_class
class Reported(ABC):
    """Base class of values that are printed as text, and written as Markdown, LaTeX and HTML.

    The methods `to_markdown`, `to_latex` and `to_html` return the text, or write it to a path and return the path.
    """

    @abstractmethod
    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the content of the report.

        Parameters
        ----------
        digits : int, default 2
            Number of significant digits of standard errors, or of half the width of intervals.
        page : bool, default False
            Whether to add the parts that only a page contains: pictures, diagnostics, definitions.

        Returns
        -------
        Tables
            The content, which every output writes in its language.
        """

    def _printed_tables(self) -> Tables:
        """Return the content of the report that is printed as text."""
        return self.tables()

    def __repr__(self) -> str:
        return to_text(self._printed_tables())

    def _repr_html_(self) -> str:
        return to_html_tables(self.tables())

    def to_markdown(self, path: str | Path | None = None, *, digits: int = 2) -> str:
        """Return the report as Markdown, or write it to a file.

        Parameters
        ----------
        path : str or Path, optional
            The file to write.
        digits : int, default 2
            Number of significant digits of standard errors, or of half the width of intervals, at most 17.

        Returns
        -------
        str
            The Markdown text, or the path if one is given.

        Raises
        ------
        InputError
            If `digits` is out of range, or the file cannot be written.
        """
        tables = self.tables(digits=_check_digits(digits))
        return write_or_return(to_markdown(tables), path)

    def to_latex(self, path: str | Path | None = None, *, digits: int = 2) -> str:
        """Return the report as LaTeX tables, or write them to a file.

        The tables need the packages booktabs and threeparttable.

        Parameters
        ----------
        path : str or Path, optional
            The file to write.
        digits : int, default 2
            Number of significant digits of standard errors, or of half the width of intervals, at most 17.

        Returns
        -------
        str
            The LaTeX text, or the path if one is given.

        Raises
        ------
        InputError
            If `digits` is out of range, or the file cannot be written.
        """
        return write_or_return(self._write_latex(_check_digits(digits)), path)

    def _write_latex(self, digits: int) -> str:
        """Return the report as LaTeX tables."""
        return to_latex(self.tables(digits=digits))

    @classmethod
    def _write_joint_latex(cls, results: Mapping[str, Any], digits: int) -> str:
        """Return results of this class, by name, as LaTeX: one after another unless they have a joint table."""
        return to_latex(Report(tuple(results.values())).tables(digits=digits))

    def to_html(self, path: str | Path | None = None, *, title: str | None = None, digits: int = 2) -> str:
        """Return the report as one self-contained HTML page, or write it to a file.

        The page contains tables, pictures, diagnostics, definitions and provenance. It loads nothing else.

        Parameters
        ----------
        path : str or Path, optional
            The file to write.
        title : str, optional
            The title of the page; by default that of the report.
        digits : int, default 2
            Number of significant digits of standard errors, or of half the width of intervals, at most 17.

        Returns
        -------
        str
            The HTML text, or the path if one is given.

        Raises
        ------
        InputError
            If `digits` is out of range, or the file cannot be written.
        """
        tables = self.tables(digits=_check_digits(digits), page=True)
        if title is not None:
            tables = replace(tables, title=title)
        return write_or_return(to_html(tables), path)


@public_class
class Result(Reported):
    """Base class of results: a tidy `frame`, a verdict, an explanation, a plot, and storage in a file."""

    if TYPE_CHECKING:  # subclasses define it as a property or as a field of a data class

        @property
        def frame(self) -> pd.DataFrame:
            """The tidy table of the result."""

    @property
    def verdict(self) -> str:
        """The conclusion in sentences; "" if the result has none.

        A report without a verdict has the lines below its tables as its conclusion.
        """
        tables = self.tables()
        lines: list[str] = []
        for remark in tables.remarks:
            if remark.name == VERDICT:
                lines += remark.lines
        if not lines:
            for part in tables.parts:
                if isinstance(part, Table):
                    lines += part.below
        return " ".join(lines)

    def explain(self, *, digits: int = 2) -> Explanation:
        """Return the full report, including the parts that otherwise only its page contains.

        Parameters
        ----------
        digits : int, default 2
            Number of significant digits of standard errors, or of half the width of intervals, at most 17.

        Returns
        -------
        Explanation
            The report, which is printed, or written as Markdown, LaTeX and HTML.

        Raises
        ------
        InputError
            If `digits` is out of range.
        """
        tables = self.tables(digits=_check_digits(digits), page=True)
        all_parts = (*tables.parts, *tables.appendix)
        return Explanation(replace(tables, parts=all_parts, appendix=(), hint=""))

    def to_frame(self) -> pd.DataFrame:
        """Return the tidy table of the result, `frame`.

        Returns
        -------
        DataFrame
            A copy, which can be changed without changing the result.
        """
        return self.frame.copy()

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the frame as CSV, or write it to a file.

        Names that a spreadsheet would read as a formula get an apostrophe before them.

        Parameters
        ----------
        path : str or Path, optional
            The file to write.

        Returns
        -------
        str
            The CSV text, or the path if one is given.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        return write_or_return(format_csv(self.frame), path)

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Draw the values of one metric with their intervals.

        Parameters
        ----------
        metric : str, optional
            The metric; by default the first.
        estimator : str, optional
            The estimator; by default all.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on; by default new ones.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the plot.
        """
        from ipseval.reporting.plots.estimates import plot_result

        confidence_level = getattr(self, "confidence_level", None)
        return plot_result(self.frame, metric, estimator, confidence_level=confidence_level, ax=ax)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to one file, from which `load` restores it.

        The file contains arrays and text only, nothing that is pickled.

        Parameters
        ----------
        path : str or path-like
            The file to write; its name must end in .npz.

        Raises
        ------
        InputError
            If the file cannot be written, or ids are neither numbers nor text.

        See Also
        --------
        load : Read the file.
        """
        codec.save(path, self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a result from a file that `save` has written.

        Parameters
        ----------
        path : str or path-like
            The file to read.

        Returns
        -------
        Result
            The result, which prints, compares and plots the same values as before.

        Raises
        ------
        InputError
            If the file is missing, damaged, of another kind, or of a version that is not supported.

        See Also
        --------
        save : Write the file.
        """
        return codec.load(path, cls)[0]


def render_for_shell(result: Reported) -> str:
    """Return the printed report with options of the command line in place of Python methods."""
    return to_text(result._printed_tables().for_shell())


def load(path: str | PathLike[str]) -> Result:
    """Read a result of any kind from a file.

    Parameters
    ----------
    path : str or path-like
        A file that the `save` method of a result has written.

    Returns
    -------
    Result
        The result, of the class that was saved.

    Raises
    ------
    InputError
        If the file is missing, damaged, contains no result, or is of a version that is not supported.

    See Also
    --------
    Result.save : Write a result to a file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> evaluation = evaluate(models, split, metrics=["recall@10"], estimators=["aoa"])
    >>> with TemporaryDirectory() as folder:
    ...     evaluation.save(f"{folder}/evaluation.npz")
    ...     stored = load(f"{folder}/evaluation.npz")
    >>> stored.frame.equals(evaluation.frame)
    True
    """
    return codec.load(path, Result)[0]  # type: ignore[type-abstract]  # a file contains a subclass of Result


def _check_digits(digits: int) -> int:
    """Return a number of significant digits, or raise `InputError` if it is out of range."""
    if check_positive_int("digits", digits) > MAX_DIGITS:
        raise InputError(f"digits must be at most {MAX_DIGITS}; got {digits!r:.80}.")
    return digits


@dataclass(frozen=True, eq=False, repr=False)
class Report(Reported):
    """Report of several results in sequence, such as an evaluation, its segments and its lists.

    Parameters
    ----------
    results : sequence of results, or mapping of str to results
        The results; the first gives the title and the summary. The warnings, the verdict and the other remarks of each
        later one are printed below its heading. The names of a mapping precede the summaries. In LaTeX, evaluations
        with names become one table, with a block of rows per metric and evaluation.

    Raises
    ------
    InputError
        If there is no result, or an element is not a result. By `to_latex`, if evaluations with names have different
        columns.

    See Also
    --------
    Result.to_html : Write the page of one result.

    Examples
    --------
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> evaluation = evaluate(models, split, metrics=["recall@10"], estimators=["aoa"])
    >>> report = Report([evaluation, evaluation.by("activity")])
    >>> [line for line in report.to_markdown().splitlines() if "activity" in line][:1]
    ['## By activity: 4 groups of users']

    One LaTeX table of two evaluations:

    >>> other = evaluate(models, world.split(rng=3), metrics=["recall@10"], estimators=["aoa"])
    >>> latex = Report({"first split": evaluation, "second split": other}).to_latex()
    >>> "recall@10, first split" in latex, latex.count("begin{tabular}")
    (True, 1)
    """

    results: Sequence[Reported] | Mapping[str, Reported]

    def __post_init__(self) -> None:
        results = self.results
        if isinstance(results, Mapping) and all(isinstance(name, str) for name in results):
            results = list(results.values())
        if not _is_sequence_of_results(results):
            raise InputError(
                "results must be a sequence of at least one result, or a mapping of names to results; "
                f"got {self.results!r:.80}. Pass a list such as [evaluation, segments]."
            )

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the content of all results.

        Parameters
        ----------
        digits : int, default 2
            Number of significant digits of standard errors, or of half the width of intervals.
        page : bool, default False
            Whether the content is for a page: then the results after the first are folded, and their tables
            are limited to the first metric.

        Returns
        -------
        Tables
            The content of the first result, with the warnings, remarks and parts of the other results under
            headings.
        """
        contents = self._list_contents(digits=digits, page=page)
        first_content = contents[0]
        other_parts: list[Part] = []
        for content in contents[1:]:
            other_parts.append(Heading(content.summary[0], folded=page))
            notes = _list_own_notes(content)
            if notes:
                other_parts.append(Notes(notes))
            other_parts += content.parts
        if not page:
            return replace(first_content, parts=(*first_content.parts, *other_parts))

        first_metric = _get_metric(first_content.parts[0])
        page_parts = [part for part in other_parts if _get_metric(part) in ("", first_metric)]
        if len(page_parts) < len(other_parts):
            page_parts.append("Groups by other metrics: .frame.")
        return replace(first_content, appendix=(*page_parts, *first_content.appendix))

    def _list_contents(self, *, digits: int, page: bool) -> list[Tables]:
        """Return the content of each result; a name precedes its summary."""
        if not isinstance(self.results, Mapping):
            return [result.tables(digits=digits, page=page) for result in self.results]
        contents = []
        for name, result in self.results.items():
            content = result.tables(digits=digits, page=page)
            summary = (f"{name}: {content.summary[0]}", *content.summary[1:])
            contents.append(replace(content, summary=summary))
        return contents

    def _write_latex(self, digits: int) -> str:
        """Return the results as LaTeX; named results of one class as one table, if the class has a joint table."""
        if isinstance(self.results, Mapping):
            classes = {type(result) for result in self.results.values()}
            if len(classes) == 1:
                return classes.pop()._write_joint_latex(self.results, digits)
        return super()._write_latex(digits)


def _list_own_notes(content: Tables) -> tuple[str, ...]:
    """Return the warnings and remarks of a result that follows others, such as its verdict."""
    notes = list(content.warnings)
    for remark in content.remarks:
        if remark.lines:
            notes.append(f"{remark.name}: {' '.join(remark.lines)}")

    return tuple(notes)


def _is_sequence_of_results(value: object) -> bool:
    """Return whether a value is a sequence of at least one result."""
    if not isinstance(value, Sequence) or len(value) == 0:
        return False
    return all(isinstance(element, Reported) for element in value)


def _get_metric(part: Part) -> str:
    """Return the metric of a table or a picture; "" for other parts, and for those of no single metric."""
    if isinstance(part, (Table, Picture)):
        return part.metric
    return ""


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Reported):
    """Full report of a result, which is printed, or written like the report itself.

    Parameters
    ----------
    whole : Tables
        The content of the report.

    See Also
    --------
    Result.explain : Return the full report of a result.

    Examples
    --------
    The full report has the definitions of the metrics:

    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> evaluation = evaluate(models, split, metrics=["recall@10"], estimators=["aoa"])
    >>> explanation = evaluation.explain()
    >>> "denominator" in str(evaluation), "denominator" in str(explanation)
    (False, True)
    """

    whole: Tables

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the content of the report.

        Parameters
        ----------
        digits : int, default 2
            Without effect: the digits were chosen by `explain`.
        page : bool, default False
            Without effect: the report always contains all parts.

        Returns
        -------
        Tables
            The content.
        """
        del digits, page
        return self.whole
