"""`ipseval demo`: what the library is for, in some seconds."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from ipseval.cli._advice import say
from ipseval.cli._command import Command
from ipseval.cli._options import add_seed


def _add(parser: argparse.ArgumentParser) -> None:
    add_seed(parser)
    parser.add_argument(
        "--picture",
        metavar="FILE",
        help="where to draw it; default: ipseval-demo.png, or .svg without matplotlib; '' for none",
    )
    parser.add_argument("--html", metavar="FILE", help="write all of it as one page")
    parser.add_argument("--log", metavar="FILE", help="write the biased log, to go on with: .csv or .parquet")
    parser.add_argument("--quiet", action="store_true", help="no bar")


def _run(options: argparse.Namespace) -> int:
    if not options.quiet:
        # Before anything is imported that takes time.
        words = "Five recommenders learn in a simulated world; this takes some seconds."
        print(words, file=sys.stderr, flush=True)
    from ipseval._base.artefacts import writable
    from ipseval.cli._demo_world import plot_demo, run_demo
    from ipseval.cli._output import write_table

    default = "ipseval-demo.png" if find_spec("matplotlib") else "ipseval-demo.svg"
    picture = default if options.picture is None else options.picture
    for path in filter(None, (picture, options.html, options.log)):
        writable(path)
    demo = run_demo(rng=options.seed, progress=False if options.quiet else None)
    done = []
    if picture:
        plot_demo(demo, picture)
        done.append(f"Picture: {picture}")
    if options.html:
        demo.to_html(options.html)
        done.append(f"Page:    {options.html}")
    if options.log:
        write_table(demo.log, options.log)
        done.append(f"Log:     {options.log}")
    done.append(f"Next:    ipseval evaluate {options.log or 'YOUR-LOG.csv'} --gamma 0")
    # At once, after all files: a reader that takes one line, such as head, leaves nothing undone.
    say("\n".join((str(demo), "", *done)))
    return 0


COMMAND = Command(
    name="demo",
    summary="evaluate five recommenders in a world whose truth is known",
    description=(
        "Simulate a world whose truth is known and train five recommenders on a biased log of it. Print\n"
        "what the plain and the weighted averages say beside the truth, and draw it."
    ),
    examples=("ipseval demo", "ipseval demo --html demo.html --log clicks.csv"),
    add=_add,
    run=_run,
)
