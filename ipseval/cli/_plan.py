"""`ipseval plan`: how much random exposure it takes to know."""

from __future__ import annotations

import argparse
from typing import Any

from ipseval.cli import _options
from ipseval.cli._advice import say
from ipseval.cli._command import Command
from ipseval.cli._fit import add_interactions, correction_of
from ipseval.cli._output import write_table


def _add(parser: argparse.ArgumentParser) -> None:
    _options.add_log(parser)
    add = parser.add_argument
    add(
        "--positive-share",
        type=float,
        metavar="X",
        help="share of pairs shown at random that are liked, in (0, 1]; default: that of --exposure",
    )
    counts = {"type": _options.whole_numbers, "metavar": "N,N,…"}
    add("--n-users", default="25,50,100,200,500,1000", help="default: %(default)s", **counts)  # type: ignore[arg-type]  # a type and a help text
    add("--n-items", default="10,20,50", help="shown to each; default: %(default)s", **counts)  # type: ignore[arg-type]  # as above
    add("--power", type=float, default=0.8, metavar="X", help="chance to detect a difference; default: 0.8")
    _options.add_exposure(parser)
    add_interactions(parser)
    _options.add_split(parser)
    _options.add_models(parser)
    _options.add_metrics(parser, "recall@10,mean_dcg@10")
    _options.add_compute(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--out", metavar="FILE", help="write the table: .csv, .tsv or .parquet")
    group.add_argument("--quiet", action="store_true", help="no warnings, and with --out nothing printed")
    _options.add_config(parser)


def _run(options: argparse.Namespace) -> int:
    from ipseval.correction import plan_exposure
    from ipseval.report import Tables
    from ipseval.report._tables import Table
    from ipseval.report._text import to_text

    plan = plan_exposure(
        correction_of(options),
        n_users=options.n_users,
        n_items=options.n_items,
        positive_share=options.positive_share,
        power=options.power,
    )
    if options.out:
        write_table(plan, options.out)
    if not (options.quiet and options.out):
        say(to_text(Tables(_reading(options.power), (Table.of(plan, formats=".3g", n_keys=3),))))
    return 0


def _reading(power: float) -> Any:
    return (
        "What random exposure of so many users and items each would tell.",
        "half_width: of the interval of a level, from the log and the exposure together. "
        "half_width_random: from the exposure alone.",
        f"smallest_difference: between two recommenders, found with a chance of {power:.0%}.",
    )


COMMAND = Command(
    name="plan",
    summary="how much random exposure it takes to know",
    description=(
        "Print, for numbers of users and items shown to each at random, how wide intervals would be and how\n"
        "small a difference would be found: what an experiment is worth before it is run."
    ),
    examples=("ipseval plan clicks.csv --positive-share 0.05 --n-users 100,500",),
    add=_add,
    run=_run,
)
