"""`ipseval diff`: what changed between two stored results."""

from __future__ import annotations

import argparse

from ipseval.cli import _options
from ipseval.cli._command import Command
from ipseval.cli._compare import renamed
from ipseval.cli._output import check_out, deliver
from ipseval.cli._show import load


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("new", metavar="NEW", help=".npz of `ipseval evaluate --out`")
    parser.add_argument("old", metavar="OLD", help="the same, to compare with")
    parser.add_argument(
        "--model", action="append", metavar="NAME[=OLD]", help="default: every recommender of the same name"
    )
    _options.add_output(parser)


def _run(options: argparse.Namespace) -> int:
    check_out(options)
    deliver(load(options.new).diff(load(options.old), models=renamed(options.model)), options)
    return 0


COMMAND = Command(
    name="diff",
    summary="what changed between two stored results, as a table or a page",
    description=(
        "Print every estimate of both results with its difference, paired by user where the users are the\n"
        "same, and what else is different between them. `compare` decides by exit code; this shows."
    ),
    examples=("ipseval diff new.npz old.npz", "ipseval diff new.npz old.npz --model v2=v1 --out diff.html"),
    add=_add,
    run=_run,
)
