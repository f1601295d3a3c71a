"""Print results, errors and warnings, and write results to files in the format of their suffix."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ipseval.cli._streams import write_error, write_output
from ipseval.errors import InputError, IpsevalError

SUFFIXES = {".txt": "text", ".md": "md", ".tex": "latex", ".csv": "csv", ".json": "json", ".html": "html"}
TABLES = (".csv", ".tsv", ".parquet")


def _to_json(result: Any) -> str:
    """Return a result as JSON, or its frame as records."""
    if hasattr(result, "to_json"):
        return str(result.to_json())
    return str(result.frame.to_json(orient="records", indent=1))


def _render_result(result: object) -> str:
    """Return the printed report with options of the command line."""
    from ipseval.reporting.results import Reported, render_for_shell

    if isinstance(result, Reported):
        return render_for_shell(result)
    return str(result)


TEXTS: dict[str, Callable[[Any], str]] = {
    "text": _render_result,
    "md": lambda result: str(result.to_markdown()),
    "latex": lambda result: str(result.to_latex()),
    "csv": lambda result: str(result.to_csv()),
    "json": _to_json,
}


def _render(result: Any, further_results: Sequence[Any], form: str, title: str | None) -> str:
    """Return results in a format: as one report, or the first alone as data. A page has the given title."""
    from ipseval.reporting import Report

    if further_results and form not in ("csv", "json"):
        result = Report((result, *further_results))
    if form == "html":
        return str(result.to_html(title=title))
    return TEXTS[form](result)


def _list_files(options: argparse.Namespace) -> list[str]:
    """Return the files of --out, without standard output."""
    paths: list[str] = []
    for path in options.out:
        if path != "-":
            paths.append(path)

    return paths


def check_out(options: argparse.Namespace) -> None:
    """Raise `InputError` unless every file of --out can be written, before anything is computed."""
    from ipseval.utils.artefacts import check_writable

    for path in _list_files(options):
        if Path(path).suffix.lower() not in (*SUFFIXES, ".npz"):
            raise InputError(
                f"--out must end in {', '.join((*SUFFIXES, '.npz'))}, which names the format; got {path!r}."
            )
        check_writable(path)
    suffixes = [Path(path).suffix.lower() for path in _list_files(options)]
    if options.title is not None and options.format != "html" and ".html" not in suffixes:
        raise InputError("--title requires an HTML page; got none. Add --out FILE.html.")


def deliver_result(result: Any, options: argparse.Namespace, further_results: Sequence[Any] = ()) -> None:
    """Print a result in the format of --format, and write it to every file of --out.

    `further_results` follow the first one where the format is a report.
    """
    from ipseval.reporting.results import Result
    from ipseval.utils.artefacts import write_text

    files = _list_files(options)
    if "-" in options.out or not (options.quiet and files):
        printed = result
        if options.format == "text" and getattr(options, "explain", False):
            printed = result.explain()
        text = _render(printed, further_results, options.format, options.title)
        print_text(text.rstrip("\n"))
    for path in files:
        suffix = Path(path).suffix.lower()
        if suffix != ".npz":
            text = _render(result, further_results, SUFFIXES[suffix], options.title)
            write_text(path, text if text.endswith("\n") else f"{text}\n")
        elif isinstance(result, Result):
            result.save(path)
        else:
            raise InputError(f"{path}: only results can be stored as .npz. Use .json or .csv.")
    if files and not options.quiet:
        print_message(f"wrote {', '.join(files)}")


def write_table(frame: Any, path: str | Path) -> None:
    """Write a frame as CSV, TSV or Parquet, by the suffix of the file."""
    from ipseval.utils.artefacts import open_atomically, write_text

    suffix = Path(path).suffix.lower()
    if suffix not in TABLES:
        raise InputError(f"a table must end in {', '.join(TABLES)}; got {str(path)!r}.")
    if suffix == ".parquet":
        try:
            with open_atomically(path) as stream:
                frame.to_parquet(stream, index=False)
        except ImportError:
            raise InputError(
                f"{path} is Parquet, which needs pyarrow. Install it by pip install pyarrow."
            ) from None
    else:
        write_text(path, frame.to_csv(index=False, sep="\t" if suffix == ".tsv" else ","))


def word_error(error: IpsevalError) -> str:
    """Return the text of an error with options of the command line."""
    if isinstance(error, InputError):
        return error.to_text(as_options=True)
    return str(error)


def print_text(text: object) -> None:
    """Print to standard output with control characters replaced by their codes."""
    from ipseval.reporting.markup import escape_controls

    write_output(f"{escape_controls(text, keep=chr(10))}\n")


def print_message(text: str) -> None:
    """Print one line to standard error."""
    from ipseval.reporting.markup import escape_controls

    write_error(f"ipseval: {escape_controls(text, keep=chr(10))}")


def show_warning(
    options: argparse.Namespace, message: Warning | str, category: type[Warning], *_: object, **__: object
) -> None:
    """Print a warning as one line, with options of the command line."""
    if not getattr(options, "quiet", False):
        text = getattr(message, "shell_text", str(message))
        print_message(f"{category.__name__}: {text}")
