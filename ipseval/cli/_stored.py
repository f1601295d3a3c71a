"""`ipseval report` and `compare`: what is done with stored results."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ipseval.cli import _options
from ipseval.cli._options import Command
from ipseval.cli._output import check_out, deliver, say
from ipseval.errors import InputError


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "result",
        metavar="RESULT",
        nargs="+",
        help=".npz of `ipseval evaluate --out`; of several the report says who leads, and how often",
    )
    _options.add_output(parser)
    _options.add_explain(parser)


def _run_report(options: argparse.Namespace) -> int:
    from ipseval.evaluation._leaderboard import report_of
    from ipseval.report import load

    check_out(options)
    loaded: dict[str, Any] = {Path(path).stem: load(path) for path in options.result}
    if len(loaded) < len(options.result):
        raise InputError("several results have one name, which the report would show; rename the files.")
    deliver(next(iter(loaded.values())) if len(loaded) == 1 else report_of(loaded), options)
    return 0


REPORT = Command(
    name="report",
    summary="print stored results again, in any format, or write a page of them",
    description=(
        "Print a stored evaluation as it was printed, or as Markdown, LaTeX, CSV or JSON. A page of --out\n"
        "holds everything it shows: nothing is loaded from elsewhere."
    ),
    examples=(
        "ipseval report result.npz --format latex > table.tex",
        "ipseval report books.npz music.npz --out shops.html",
    ),
    options=(_add_report,),
    run=_run_report,
)


def _add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("new", metavar="NEW", help=".npz of `ipseval evaluate --out`")
    add("old", metavar="OLD", help="the same, to compare with")
    add("--metric", metavar="LABEL", help="decide by this metric; without it, all differences are printed")
    add("--estimator", metavar="LABEL", help="default: every one that both hold")
    add("--model", action="append", metavar="NAME[=OLD]", help="default: every model of the new result")
    add("--margin", type=float, default=0.0, metavar="X", help="loss that is tolerated; default: 0")
    add("--non-inferior", action="store_true", help="fail unless the loss is shown to be below the margin")
    add("--confidence-level", type=float, default=0.95, metavar="X", help="in (0, 1); default: 0.95")
    _options.add_output(parser)


def _run_compare(options: argparse.Namespace) -> int:
    from ipseval.evaluation import Evaluation
    from ipseval.testing import compare_results, concluded

    check_out(options)
    new, old = Evaluation.load(options.new), Evaluation.load(options.old)
    if options.metric is None:
        deliver(new.diff(old, models=renamed(options.model)), options)
        return 0
    found = compare_results(
        new,
        old,
        metric=options.metric,
        estimator=options.estimator,
        models=renamed(options.model),
        margin=options.margin,
        rule="non-inferior" if options.non_inferior else "no-evidence",
        confidence_level=options.confidence_level,
    )
    say("\n".join([concluded(found), *map(str, found)]))
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


COMPARE = Command(
    name="compare",
    summary="what changed between two stored results, or whether one is worse by a metric",
    description=(
        "Print every estimate of both results with its difference, paired by user where the users are the\n"
        "same. With --metric decide. Exit code 0: not worse. 1: worse by more than the margin. 2: not\n"
        "comparable."
    ),
    examples=(
        "ipseval compare new.npz old.npz --model v2=v1 --out differences.html",
        "ipseval compare new.npz baseline.npz --metric recall@10 --margin 0.005",
    ),
    options=(_add_compare,),
    run=_run_compare,
)
