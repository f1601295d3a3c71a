"""`ipseval show`, `report`, `compare` and `diff`: what is done with stored results."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ipseval.cli import _options
from ipseval.cli._options import Command
from ipseval.cli._output import check_out, deliver, say
from ipseval.errors import InputError


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT", help=".npz of `ipseval evaluate --out`")
    _options.add_output(parser)
    _options.add_explain(parser)


def load(path: str) -> Any:
    """Return a stored evaluation."""
    from ipseval.evaluation import Evaluation

    return Evaluation.load(path)


def _run_show(options: argparse.Namespace) -> int:
    check_out(options)
    deliver(load(options.result), options)
    return 0


SHOW = Command(
    name="show",
    summary="print a stored result again, in any format",
    description="Print a stored evaluation as it was printed, or as Markdown, LaTeX, CSV, JSON or a page.",
    examples=("ipseval show result.npz", "ipseval show result.npz --format latex > table.tex"),
    add=_add_show,
    run=_run_show,
)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "result",
        metavar="RESULT",
        nargs="+",
        help=".npz of `ipseval evaluate --out`; of several the page says who leads, and how often",
    )
    parser.add_argument("--out", metavar="FILE", default="report.html", help="default: report.html")
    parser.add_argument("--title", metavar="TEXT", help="of the page")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _run_report(options: argparse.Namespace) -> int:
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


REPORT = Command(
    name="report",
    summary="stored results as a page that can be sent around",
    description="Write one HTML file that holds everything it shows: nothing is loaded from elsewhere.",
    examples=(
        "ipseval report result.npz --out page.html --title 'Spring models'",
        "ipseval report books.npz music.npz --out shops.html",
    ),
    add=_add_report,
    run=_run_report,
)


def _add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("new", metavar="NEW", help=".npz of `ipseval evaluate --out`")
    add("old", metavar="OLD", help="the same, to compare with")
    add("--metric", required=True, metavar="LABEL", help="label, e.g. ndcg@10")
    add("--estimator", metavar="LABEL", help="default: every one that both hold")
    add("--model", action="append", metavar="NAME[=OLD]", help="default: every model of the new result")
    add("--margin", type=float, default=0.0, metavar="X", help="loss that is tolerated; default: 0")
    add("--non-inferior", action="store_true", help="fail unless the loss is shown to be below the margin")
    add("--confidence-level", type=float, default=0.95, metavar="X", help="in (0, 1); default: 0.95")


def _run_compare(options: argparse.Namespace) -> int:
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


COMPARE = Command(
    name="compare",
    summary="whether a stored result is worse than another",
    description="Exit code 0: not worse. 1: worse by more than the margin. 2: not comparable.",
    examples=("ipseval compare new.npz baseline.npz --metric ndcg@10 --margin 0.005",),
    add=_add_compare,
    run=_run_compare,
)


def _add_diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("new", metavar="NEW", help=".npz of `ipseval evaluate --out`")
    parser.add_argument("old", metavar="OLD", help="the same, to compare with")
    parser.add_argument(
        "--model", action="append", metavar="NAME[=OLD]", help="default: every recommender of the same name"
    )
    _options.add_output(parser)


def _run_diff(options: argparse.Namespace) -> int:
    check_out(options)
    deliver(load(options.new).diff(load(options.old), models=renamed(options.model)), options)
    return 0


DIFF = Command(
    name="diff",
    summary="what changed between two stored results, as a table or a page",
    description=(
        "Print every estimate of both results with its difference, paired by user where the users are the\n"
        "same, and what else is different between them. `compare` decides by exit code; this shows."
    ),
    examples=("ipseval diff new.npz old.npz", "ipseval diff new.npz old.npz --model v2=v1 --out diff.html"),
    add=_add_diff,
    run=_run_diff,
)
