"""`ipseval study`: does the order of recommenders survive another protocol."""

from __future__ import annotations

import argparse

from ipseval.cli import _options
from ipseval.cli._command import Command
from ipseval.cli._output import check_out, deliver


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="FILE", help="TOML file; the page on protocols shows one")
    _options.add_output(parser)
    parser.set_defaults(format="md")


def _run(options: argparse.Namespace) -> int:
    from ipseval.studies.protocols import run_config

    check_out(options)
    deliver(run_config(options.config), options)
    return 0


COMMAND = Command(
    name="study",
    summary="does the order of recommenders survive another protocol",
    description="Evaluate the same recommenders under many protocols, and print how far the orders agree.",
    examples=("ipseval study study.toml --out study.html",),
    add=_add,
    run=_run,
)
