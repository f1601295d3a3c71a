"""`ipseval validate`: does weighting help, by random exposure."""

from __future__ import annotations

import argparse

from ipseval.cli import _options
from ipseval.cli._command import Command
from ipseval.cli._output import check_out, deliver


def _add(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("study", help="data set with random exposure: coat, yahoo-r3 or kuairec")
    add("--data", required=True, metavar="FOLDER", help="folder or archive of the data set")
    add("--splits", type=_options.positive, default=10, metavar="N", help="repeated splits; default: 10")
    add(
        "--exposure-sizes",
        type=_options.counts,
        metavar="LIST",
        help="numbers of users, such as 0,25,100: also how near each estimate comes when so many have random "
        "exposure, judged by all others",
    )
    add("--draws", type=_options.positive, default=20, metavar="N", help="of users for each; default: 20")
    _options.add_seed(parser)
    _options.add_output(parser)


def _run(options: argparse.Namespace) -> int:
    from ipseval.validation import run_validation

    check_out(options)
    result = run_validation(
        options.study,
        options.data,
        n_splits=options.splits,
        exposure_sizes=options.exposure_sizes,
        n_draws=options.draws,
        rng=options.seed,
    )
    deliver(result, options)
    return 0


COMMAND = Command(
    name="validate",
    summary="does weighting help: estimates beside random exposure",
    description=(
        "Compare plain and weighted estimates from a biased log with what random exposure of the same users\n"
        "says, on a public data set that has both."
    ),
    examples=(
        "ipseval validate coat --data data/coat --out coat.html",
        "ipseval validate coat --data data/coat --splits 2 --exposure-sizes 0,25,100 --draws 5",
    ),
    add=_add,
    run=_run,
)
