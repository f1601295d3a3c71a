"""Where a result goes: printed in a format, and written to files whose suffix says theirs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ipseval.cli._advice import say
from ipseval.errors import InputError

SUFFIXES = {".txt": "text", ".md": "md", ".tex": "latex", ".csv": "csv", ".json": "json", ".html": "html"}
TABLES = (".csv", ".tsv", ".parquet")


def _csv(result: Any) -> str:
    from ipseval.report._words import csv_text

    return csv_text(result.frame)


def _json(result: Any) -> str:
    from ipseval.evaluation import Evaluation

    if isinstance(result, Evaluation):
        return result.to_json()
    return str(result.frame.to_json(orient="records", indent=1))


TEXTS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "md": lambda result: str(result.to_markdown()),
    "latex": lambda result: str(result.to_latex()),
    "csv": _csv,
    "json": _json,
    "html": lambda result: str(result.to_html()),
}


def _text(result: Any, more: Sequence[Any], form: str) -> str:
    """Return results in a format: as one report, or the first alone as data."""
    from ipseval.report import Report

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


def check_out(options: argparse.Namespace) -> None:
    """Raise `InputError` unless every file of --out can be written, before anything is computed."""
    from ipseval._base.artefacts import writable

    for path in options.out:
        suffix = Path(path).suffix.lower()
        if path != "-" and suffix not in (*SUFFIXES, ".npz"):
            raise InputError(
                f"--out must end in {', '.join((*SUFFIXES, '.npz'))}, which says the format; got {path!r}."
            )
        if path != "-":
            writable(path)


def deliver(result: Any, options: argparse.Namespace, more: Sequence[Any] = ()) -> None:
    """Print a result as --format says, and write it to every file of --out.

    `more`: other results, which stand behind it where the format is a report.
    """
    from ipseval._base.artefacts import write_text
    from ipseval._base.codec import Stored

    files = [path for path in options.out if path != "-"]
    if "-" in options.out or not (options.quiet and files):
        explained = options.format == "text" and getattr(options, "explain", False)
        text = _text(result.explain() if explained else result, more, options.format)
        for phrase, words in IN_OPTIONS.items():
            text = re.sub(phrase, words, text)
        say(text.rstrip("\n"))
    for path in files:
        suffix = Path(path).suffix.lower()
        if suffix != ".npz":
            text = _text(result, more, SUFFIXES[suffix])
            write_text(path, text if text.endswith("\n") else f"{text}\n")
        elif isinstance(result, Stored):
            result.save(path)
        else:
            raise InputError(f"{path}: only an evaluation is stored as .npz; take .json or .csv.")


def write_table(frame: Any, path: str | Path) -> None:
    """Write a frame as CSV, TSV or Parquet, as the suffix says."""
    from ipseval._base.artefacts import write_text, writing

    suffix = Path(path).suffix.lower()
    if suffix not in TABLES:
        raise InputError(f"a table must end in {', '.join(TABLES)}; got {str(path)!r}.")
    if suffix == ".parquet":
        try:
            with writing(path) as stream:
                frame.to_parquet(stream, index=False)
        except ImportError:
            raise InputError(f"{path} is Parquet; pip install 'ipseval[parquet]'.") from None
    else:
        write_text(path, frame.to_csv(index=False, sep="\t" if suffix == ".tsv" else ","))
