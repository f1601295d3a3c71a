"""`ipseval compare`: two stored results, an exit code for a pipeline."""

from __future__ import annotations

import argparse
from typing import Any

from ipseval.errors import InputError
from ipseval.report import visible
from ipseval.testing._compare import compare_results
from ipseval.testing._result import StoredResult


def add_compare(commands: Any) -> None:
    """Add the command to the parser of `ipseval`."""
    parser = commands.add_parser(
        "compare",
        help="whether a stored result is worse than another",
        description="Exit code 0: not worse. 1: worse by more than the margin. 2: not comparable.",
    )
    add = parser.add_argument
    add("new", help="JSON of `ipseval evaluate --out`")
    add("old", help="the same, to compare with")
    add("--metric", required=True, help="label, e.g. ndcg@10")
    add("--estimator", help="label; default: every one that both hold")
    add("--model", action="append", metavar="NAME[=OLD]", help="default: every model of the new result")
    add("--margin", type=float, default=0.0, help="loss that is tolerated, in the unit of the metric")
    add("--non-inferior", action="store_true", help="fail unless the loss is shown to be below the margin")
    add("--confidence-level", type=float, default=0.95)
    parser.set_defaults(run=run_compare)


def run_compare(options: argparse.Namespace) -> int:
    """Print the comparisons and return the exit code."""
    found = compare_results(
        StoredResult.read(options.new),
        StoredResult.read(options.old),
        metric=options.metric,
        estimator=options.estimator,
        models=_models(options.model),
        margin=options.margin,
        rule="non-inferior" if options.non_inferior else "no-evidence",
        confidence_level=options.confidence_level,
    )
    print(visible("\n".join(map(str, found)), keep="\n"))
    if not all(one.paired for one in found):
        print("unpaired: a result does not hold users apart, so the intervals are wider than they need be")
    return 0 if all(one.passed for one in found) else 1


def _models(entries: list[str] | None) -> dict[str, str] | None:
    if entries is None:
        return None
    pairs = {}
    for entry in entries:
        new, equals, old = entry.partition("=")
        if not new or (equals and not old):
            raise InputError(f"--model takes NAME or NAME=OLD; got {entry!r}.")
        pairs[new] = old or new
    return pairs
