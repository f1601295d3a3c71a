"""`ipseval show`: print a stored result again, in any format."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path
from typing import Any

from ipseval.cli import _options
from ipseval.cli._command import Command
from ipseval.cli._output import check_out, deliver
from ipseval.errors import InputError


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT", help=".npz of `ipseval evaluate --out`")
    _options.add_output(parser)
    _options.add_explain(parser)


def load(path: str) -> Any:
    """Return a stored evaluation; a .json holds numbers for `compare` only, which the error says."""
    from ipseval.evaluation import Evaluation

    if Path(path).is_file() and not zipfile.is_zipfile(path):
        raise InputError(
            f"{path} is no .npz of an evaluation. A .json is for `ipseval compare` and holds numbers only: "
            "evaluate with --out result.npz."
        )
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
