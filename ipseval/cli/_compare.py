"""`ipseval compare`: two stored results, an exit code for a pipeline."""

from __future__ import annotations

import argparse

from ipseval.cli._advice import say
from ipseval.cli._command import Command
from ipseval.cli._show import load
from ipseval.errors import InputError


def _add(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("new", metavar="NEW", help=".npz of `ipseval evaluate --out`")
    add("old", metavar="OLD", help="the same, to compare with")
    add("--metric", required=True, metavar="LABEL", help="label, e.g. ndcg@10")
    add("--estimator", metavar="LABEL", help="default: every one that both hold")
    add("--model", action="append", metavar="NAME[=OLD]", help="default: every model of the new result")
    add("--margin", type=float, default=0.0, metavar="X", help="loss that is tolerated; default: 0")
    add("--non-inferior", action="store_true", help="fail unless the loss is shown to be below the margin")
    add("--confidence-level", type=float, default=0.95, metavar="X", help="in (0, 1); default: 0.95")


def _run(options: argparse.Namespace) -> int:
    from ipseval.testing import compare_results

    found = compare_results(
        load(options.new),
        load(options.old),
        metric=options.metric,
        estimator=options.estimator,
        models=renamed(options.model),
        margin=options.margin,
        rule="non-inferior" if options.non_inferior else "no-evidence",
        confidence_level=options.confidence_level,
    )
    say("\n".join(map(str, found)))
    return 0 if all(one.passed for one in found) else 1


def renamed(entries: list[str] | None) -> dict[str, str] | None:
    """Return {name in new: name in old} of entries NAME or NAME=OLD; None without any."""
    if entries is None:
        return None
    pairs = {}
    for entry in entries:
        new, equals, old = entry.partition("=")
        if not new or (equals and not old):
            raise InputError(f"--model takes NAME or NAME=OLD; got {entry!r}.")
        pairs[new] = old or new
    return pairs


COMMAND = Command(
    name="compare",
    summary="whether a stored result is worse than another",
    description="Exit code 0: not worse. 1: worse by more than the margin. 2: not comparable.",
    examples=("ipseval compare new.npz baseline.npz --metric ndcg@10 --margin 0.005",),
    add=_add,
    run=_run,
)
