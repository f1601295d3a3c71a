"""What is printed, and written to files whose suffix says the format: results, errors and warnings."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ipseval.cli._streams import write_error, write_output
from ipseval.errors import InputError, IpsevalError

SUFFIXES = {".txt": "text", ".md": "md", ".tex": "latex", ".csv": "csv", ".json": "json", ".html": "html"}
TABLES = (".csv", ".tsv", ".parquet")


def _to_json(result: Any) -> str:
    if hasattr(result, "to_json"):
        return str(result.to_json())
    return str(result.frame.to_json(orient="records", indent=1))


TEXTS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "md": lambda result: str(result.to_markdown()),
    "latex": lambda result: str(result.to_latex()),
    "csv": lambda result: str(result.to_csv()),
    "json": _to_json,
    "html": lambda result: str(result.to_html()),
}


def _render(result: Any, more: Sequence[Any], form: str) -> str:
    """Return results in a format: as one report, or the first alone as data."""
    from ipseval.reporting import Report

    whole = result if not more or form in ("csv", "json") else Report((result, *more))
    return TEXTS[form](whole)


# What a printed result says of Python, and what to ask of the command line instead. Lines may be broken.
IN_OPTIONS = {
    r"More: \.explain\(\)": "More: --explain",
    r": \.frame, \.differences\(\),\s+\.to_html\(\)\.": ": on the page of --out page.html.",
    r"; the (\S+) intervals of `frame` hold for all groups at once": "",
    r"(\bin) \.data\s+and\s+\.frame": r"\1 --out page.html",
    r"(more in) \.frame": r"\1 --out all.csv",
    r"; ask\s+for\s+\.tipping_points\(\)": "",
}


def _list_files(options: argparse.Namespace) -> list[str]:
    """Return the files of --out, without standard output."""
    return [path for path in options.out if path != "-"]


def check_out(options: argparse.Namespace) -> None:
    """Raise `InputError` unless every file of --out can be written, before anything is computed."""
    from ipseval.utils.artefacts import check_writable

    for path in _list_files(options):
        if Path(path).suffix.lower() not in (*SUFFIXES, ".npz"):
            raise InputError(
                f"--out must end in {', '.join((*SUFFIXES, '.npz'))}, which says the format; got {path!r}."
            )
        check_writable(path)


def deliver_result(result: Any, options: argparse.Namespace, more: Sequence[Any] = ()) -> None:
    """Print a result as --format says, and write it to every file of --out."""
    # `more`: other results, which stand behind it where the format is a report.
    from ipseval.reporting.results import Result
    from ipseval.utils.artefacts import write_text

    files = _list_files(options)
    if "-" in options.out or not (options.quiet and files):
        explained = options.format == "text" and getattr(options, "explain", False)
        text = _render(result.explain() if explained else result, more, options.format)
        for phrase, words in IN_OPTIONS.items():
            text = re.sub(phrase, words, text)
        print_text(text.rstrip("\n"))
    for path in files:
        suffix = Path(path).suffix.lower()
        if suffix != ".npz":
            text = _render(result, more, SUFFIXES[suffix])
            write_text(path, text if text.endswith("\n") else f"{text}\n")
        elif isinstance(result, Result):
            result.save(path)
        else:
            raise InputError(f"{path}: only results are stored as .npz; take .json or .csv.")
    if files and not options.quiet:
        print_message(f"wrote {', '.join(files)}")


def write_table(frame: Any, path: str | Path) -> None:
    """Write a frame as CSV, TSV or Parquet, as the suffix says."""
    from ipseval.utils.artefacts import open_atomically, write_text

    suffix = Path(path).suffix.lower()
    if suffix not in TABLES:
        raise InputError(f"a table must end in {', '.join(TABLES)}; got {str(path)!r}.")
    if suffix == ".parquet":
        try:
            with open_atomically(path) as stream:
                frame.to_parquet(stream, index=False)
        except ImportError:
            raise InputError(f"{path} is Parquet; pip install 'ipseval[parquet]'.") from None
    else:
        write_text(path, frame.to_csv(index=False, sep="\t" if suffix == ".tsv" else ","))


def word_error(error: IpsevalError) -> str:
    """Return the text of an error with options of the command line."""
    if isinstance(error, InputError):
        return error.to_text(as_options=True)
    return str(error)


def print_text(text: object) -> None:
    """Print to standard output; what could steer a terminal is shown as a code."""
    from ipseval.reporting.markup import visible

    write_output(f"{visible(text, keep=chr(10))}\n")


def print_message(text: str) -> None:
    """Print one line to standard error."""
    from ipseval.reporting.markup import visible

    write_error(f"ipseval: {visible(text, keep=chr(10))}")


def show_warning(
    options: argparse.Namespace, message: Warning | str, category: type[Warning], *_: Any, **__: Any
) -> None:
    """Print a warning as one line, with options of the command line."""
    if not getattr(options, "quiet", False):
        text = getattr(message, "shell_text", str(message))
        print_message(f"{category.__name__}: {text}")
