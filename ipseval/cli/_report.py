"""`ipseval report`: a stored result as a page that can be sent around."""

from __future__ import annotations

import argparse

from ipseval.cli._advice import say
from ipseval.cli._command import Command
from ipseval.cli._show import load
from ipseval.errors import InputError


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT", help=".npz of `ipseval evaluate --out`")
    parser.add_argument("--out", metavar="FILE", default="report.html", help="default: report.html")
    parser.add_argument("--title", metavar="TEXT", help="of the page")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _run(options: argparse.Namespace) -> int:
    from ipseval._artefacts import writable

    if not options.out.lower().endswith((".html", ".htm")):
        raise InputError(f"--out of a report must end in .html; got {options.out!r}.")
    writable(options.out)
    load(options.result).to_html(options.out, title=options.title)
    if not options.quiet:
        say(options.out)
    return 0


COMMAND = Command(
    name="report",
    summary="a stored result as a page that can be sent around",
    description="Write one HTML file that holds everything it shows: nothing is loaded from elsewhere.",
    examples=("ipseval report result.npz --out page.html --title 'Spring models'",),
    add=_add,
    run=_run,
)
