"""`ipseval metrics`: what there is, and how it is defined."""

from __future__ import annotations

import argparse

from ipseval.cli._advice import say
from ipseval.cli._command import Command


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("labels", nargs="*", metavar="LABEL", help="such as recall@10; default: list all")


def _run(options: argparse.Namespace) -> int:
    from ipseval._base.registry import package_of
    from ipseval.estimators import card
    from ipseval.metrics import METRICS
    from ipseval.metrics._ratings import RATING_METRICS

    if options.labels:
        say("\n\n".join(card(label) for label in options.labels))
        return 0
    for name, family in METRICS.items():
        cutoff = {"required": "@k", "optional": "[@k]", "none": ""}[family.takes_cutoff]
        parameters = ", ".join(family.parameters)
        say(f"{name + cutoff:<14}{family.summary}{f' ({parameters})' if parameters else ''}")
    for name, points in METRICS.offered().items():
        say(f"{name:<14}of {package_of(points[0])}")
    say(f"\nOn predicted ratings (evaluate_ratings): {', '.join(RATING_METRICS)}")
    say("\nipseval metrics LABEL prints the definition of a metric and what is claimed of each estimator.")
    return 0


COMMAND = Command(
    name="metrics",
    summary="list the metrics, or print the definitions of some",
    description="List the metrics. With labels: print definitions, and what is claimed of each estimator.",
    examples=("ipseval metrics", "ipseval metrics ap@10 auc"),
    add=_add,
    run=_run,
)
