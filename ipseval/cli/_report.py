"""`ipseval report`: stored results as a page that can be sent around."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ipseval.cli._advice import say
from ipseval.cli._command import Command
from ipseval.cli._show import load
from ipseval.errors import InputError


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "result",
        metavar="RESULT",
        nargs="+",
        help=".npz of `ipseval evaluate --out`; of several the page says who leads, and how often",
    )
    parser.add_argument("--out", metavar="FILE", default="report.html", help="default: report.html")
    parser.add_argument("--title", metavar="TEXT", help="of the page")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _run(options: argparse.Namespace) -> int:
    from ipseval._base.artefacts import writable
    from ipseval.evaluation._leaderboard import report_of

    if not options.out.lower().endswith((".html", ".htm")):
        raise InputError(f"--out of a report must end in .html; got {options.out!r}.")
    writable(options.out)
    loaded = {Path(path).stem: load(path) for path in options.result}
    if len(loaded) < len(options.result):
        raise InputError("several results have one name, which the report would show; rename the files.")
    result: Any = next(iter(loaded.values())) if len(loaded) == 1 else report_of(loaded)
    result.to_html(options.out, title=options.title)
    if not options.quiet:
        say(options.out)
    return 0


COMMAND = Command(
    name="report",
    summary="stored results as a page that can be sent around",
    description="Write one HTML file that holds everything it shows: nothing is loaded from elsewhere.",
    examples=(
        "ipseval report result.npz --out page.html --title 'Spring models'",
        "ipseval report books.npz music.npz --out shops.html",
    ),
    add=_add,
    run=_run,
)
