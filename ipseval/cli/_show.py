"""`ipseval show`: print a stored result again, in any format."""

from __future__ import annotations

import argparse
from typing import Any

from ipseval.cli import _options
from ipseval.cli._command import Command
from ipseval.cli._output import check_out, deliver


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT", help=".npz of `ipseval evaluate --out`")
    _options.add_output(parser)
    _options.add_explain(parser)


def load(path: str) -> Any:
    """Return a stored evaluation."""
    from ipseval.evaluation import Evaluation

    return Evaluation.load(path)


def _run(options: argparse.Namespace) -> int:
    check_out(options)
    deliver(load(options.result), options)
    return 0


COMMAND = Command(
    name="show",
    summary="print a stored result again, in any format",
    description="Print a stored evaluation as it was printed, or as Markdown, LaTeX, CSV, JSON or a page.",
    examples=("ipseval show result.npz", "ipseval show result.npz --format latex > table.tex"),
    add=_add,
    run=_run,
)
