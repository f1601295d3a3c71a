"""`ipseval report` and `compare`: what is done with stored results."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ipseval.cli import _options
from ipseval.cli._options import Command
from ipseval.cli._output import check_out, deliver_result
from ipseval.errors import InputError, UnknownNameError


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "result",
        metavar="RESULT",
        help=".npz file that `ipseval evaluate --out` wrote",
    )
    _options.add_output(parser)
    _options.add_explain(parser)


def _run_report(options: argparse.Namespace) -> int:
    from ipseval.reporting import load

    check_out(options)
    deliver_result(load(options.result), options)
    return 0


REPORT = Command(
    name="report",
    summary="print a stored result again, in any format, or write a page of it",
    description=(
        "Print a stored evaluation as it was printed, or as Markdown, LaTeX, CSV or JSON. A page of --out\n"
        "holds everything it shows: nothing is loaded from elsewhere."
    ),
    examples=(
        "ipseval report result.npz --format latex > table.tex",
        "ipseval report result.npz --out result.html",
    ),
    options=(_add_report,),
    run=_run_report,
)


def _add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "new",
        metavar="NEW",
        help=".npz of `ipseval evaluate --out`; a folder of them, or of gates: the history",
    )
    add("old", metavar="OLD", nargs="?", help="that of the incumbent; default: NEW holds both")
    add(
        "--model",
        metavar="NAME[=OLD]",
        help="the candidate, and the incumbent; default: the one that both hold",
    )
    add("--metric", metavar="LABEL", help="that decides; default: the first with a claim after weighting")
    add("--estimator", metavar="LABEL", help="default: weights that were measured, else the plain average")
    add(
        "--margin",
        type=float,
        metavar="X",
        help="loss that is tolerated; default: 0, but .2 of OLD is excluded",
    )
    add(
        "--weeks",
        type=int,
        default=26,
        metavar="N",
        help="decisions that share 5 %% false alarms; default: 26",
    )
    add(
        "--suspicious",
        type=float,
        default=0.5,
        metavar="X",
        help="implausible improvement; default: .5 of OLD",
    )
    add("--lenient", action="store_true", help="exit code 0 where it cannot tell")
    add("--preflight", action="store_true", help="does this gate reject worse ones made of NEW's own ranks?")
    add("--confidence-level", type=float, default=0.95, metavar="X", help="in (0, 1); default: 0.95")
    _options.add_output(parser)


def _run_compare(options: argparse.Namespace) -> int:
    from ipseval.evaluation import Evaluation
    from ipseval.testing import gate, history, preflight

    check_out(options)
    names = ("metric", "estimator", "margin", "weeks", "suspicious", "confidence_level")
    given: dict[str, Any] = {name: getattr(options, name) for name in names} | {"strict": not options.lenient}
    candidate, incumbent = parse_model_pair(options.model)
    whole, pair = {"incumbent": incumbent, **given}, {"candidate": candidate, "incumbent": incumbent, **given}
    found: Any
    if Path(options.new).is_dir():
        found = history(options.new, **pair)
    elif options.preflight:
        found = preflight(Evaluation.load(options.new), rng=0, **whole)
    else:
        new = Evaluation.load(options.new)
        old = new if options.old in (None, options.new) else Evaluation.load(options.old)
        try:
            found = gate(new, old, **pair)
        except UnknownNameError:
            raise
        except InputError:
            if new is not old:  # what changed is shown all the same; the reason is the error
                pairs = None if candidate is None else {candidate: incumbent or candidate}
                deliver_result(new.diff(old, models=pairs), options)
            raise
    deliver_result(found, options)
    return int(found.exit_code)


def parse_model_pair(model: str | None) -> tuple[str | None, str | None]:
    """Return the names of candidate and incumbent of NAME or NAME=OLD; None where there are none."""
    if model is None:
        return None, None
    new, equals, old = model.partition("=")
    if not new or (equals and not old):
        raise InputError(f"--model takes NAME or NAME=OLD; got {model!r}.")
    return new, old or new


COMPARE = Command(
    name="compare",
    summary="is a candidate worse than the incumbent, and could this check have seen it",
    description=(
        "Print what changed between two stored results, paired by user, and the decision in the last line.\n"
        "Exit code 0: better, or not shown to be worse. 1: worse. 2: not comparable. 3: suspiciously\n"
        "better. 4: cannot tell."
    ),
    examples=(
        "ipseval compare new.npz old.npz --model v2=v1 --out gates/2026-W31.npz",
        "ipseval compare gates/ --out history.html",
        "ipseval compare old.npz --model v1 --preflight",
    ),
    options=(_add_compare,),
    run=_run_compare,
)
