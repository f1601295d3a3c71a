"""`ipseval split`: a log into training, validation and test files."""

from __future__ import annotations

import argparse
from pathlib import Path

from ipseval.cli import _options
from ipseval.cli._advice import say
from ipseval.cli._command import Command
from ipseval.cli._inputs import work_of
from ipseval.cli._output import TABLES, write_table
from ipseval.errors import InputError


def _add(parser: argparse.ArgumentParser) -> None:
    _options.add_log(parser)
    _options.add_split(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--out", metavar="FOLDER", required=True, help="for train, test and validation files")
    group.add_argument(
        "--format", choices=[suffix[1:] for suffix in TABLES], default="csv", help="default: csv"
    )
    group.add_argument("--quiet", action="store_true", help="print nothing but errors")
    _options.add_config(parser)


def _run(options: argparse.Namespace) -> int:
    folder = Path(options.out)
    if folder.is_file():
        raise InputError(f"--out must be a folder; {folder} is a file.")
    split = work_of(options).split
    lines = [split.description or "split"]
    for name in ("train", "validation", "test"):
        part = getattr(split, name)
        if part is not None:
            path = folder / f"{name}.{options.format}"
            write_table(part.to_frame(), path)
            lines.append(f"{path}  {len(part):,} pairs")
    if not options.quiet:
        say("\n".join(lines))
        files = " ".join(f"--{name} {folder / name}.{options.format}" for name in ("train", "test"))
        say(f"Next: ipseval evaluate {files}")
    return 0


COMMAND = Command(
    name="split",
    summary="divide a log into training and test files",
    description=(
        "Write the training and the test part of a log into a folder, so that you train your recommender on\n"
        "one and evaluate it on the other. The same log, options and seed give the same files."
    ),
    examples=(
        "ipseval split clicks.csv --out parts",
        "ipseval split log.parquet --split global-time --test-start 2026-05-01 --out parts --format parquet",
    ),
    add=_add,
    run=_run,
)
