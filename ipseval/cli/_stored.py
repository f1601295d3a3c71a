"""Commands `report` and `compare`, which print and compare stored results."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipseval.cli import _options
from ipseval.cli._options import Command
from ipseval.cli._output import check_out, deliver_result
from ipseval.errors import InputError

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation
    from ipseval.testing import MetricGates


def _add_report(parser: argparse.ArgumentParser) -> None:
    """Add the stored result and the output."""
    parser.add_argument(
        "result",
        nargs="+",
        metavar="RESULT",
        help=".npz file written by `ipseval evaluate --out`; with --format latex, evaluations in several files "
        "become one table",
    )
    parser.add_argument(
        "--statement",
        action="store_true",
        help="statement on the methods of an evaluation for reviewers, which names what is not stated",
    )
    parser.add_argument(
        "--notes",
        metavar="FILE",
        help="TOML or JSON file for --statement with facts that the result does not contain, such as the tuning",
    )
    _options.add_output(parser)
    _options.add_explain(parser)


def _run_report(options: argparse.Namespace) -> int:
    from ipseval.reporting import load

    check_out(options)
    if options.statement:
        return _run_statement(options)
    if options.notes is not None:
        raise InputError("needs --statement.", argument="--notes")
    if len(options.result) > 1:
        return _run_joint_report(options)
    deliver_result(load(options.result[0]), options)
    return 0


def _run_joint_report(options: argparse.Namespace) -> int:
    """Print several stored results as one report, each with the name of its file."""
    from ipseval.reporting import Report, load

    if options.explain:
        raise InputError("is for one result. Name one file.", argument="--explain")
    suffixes = [Path(path).suffix.lower().removeprefix(".") for path in options.out]
    for form in (options.format, *suffixes):
        if form in ("csv", "json", "npz"):
            raise InputError(
                f"{len(options.result)} results can be printed as text, Markdown, LaTeX or HTML; got {form}. "
                "Name one file, or another format."
            )
    results = {}
    for path in options.result:
        name = Path(path).stem
        if name in results:
            raise InputError(f"the files of several results must have different names; got {name} twice.")
        results[name] = load(path)
    deliver_result(Report(results), options)
    return 0


def _run_statement(options: argparse.Namespace) -> int:
    """Print the statement on a stored evaluation."""
    from ipseval.evaluation import Evaluation, write_statement

    if options.explain:
        raise InputError("has no effect with --statement. Leave it out.", argument="--explain")
    if len(options.result) > 1:
        raise InputError("is for one result. Name one file.", argument="--statement")
    deliver_result(write_statement(Evaluation.load(options.result[0]), options.notes), options)
    return 0


REPORT = Command(
    name="report",
    summary="print a stored result in any format",
    description=(
        "Print a stored evaluation as text, Markdown, LaTeX, CSV or JSON, or write it as an HTML page, which\n"
        "loads nothing from other places. With --statement, print a statement on its methods for reviewers."
    ),
    examples=(
        "ipseval report result.npz --format latex > table.tex",
        "ipseval report random.npz time.npz --format latex > table.tex",
        "ipseval report result.npz --statement --notes notes.toml --out statement.md",
        "ipseval report result.npz --out result.html",
    ),
    options=(_add_report,),
    run=_run_report,
)


def _add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the two results, the pair of recommenders and the options of the gate."""
    add = parser.add_argument
    add(
        "new",
        metavar="NEW",
        help=".npz file of `ipseval evaluate --out`, or a folder of such files or of gates for the history",
    )
    add("old", metavar="OLD", nargs="?", help="file with the incumbent; default: NEW")
    add(
        "--model",
        metavar="NAME[=OLD]",
        help="candidate and incumbent; default: the recommender that both files contain",
    )
    add(
        "--metric",
        metavar="LABEL",
        help="metric of the decision; default: that with which the verdict of `ipseval evaluate` begins",
    )
    add(
        "--estimator",
        metavar="LABEL",
        help="estimator of the decision; default: aoa, or that with weights if its propensities are known by design "
        "and its effective sample size suffices",
    )
    add(
        "--margin",
        type=parse_margin,
        metavar="X",
        help="tolerated loss in units of the metric, not in percent; default: 0, and a pass excludes a loss of 20%% of "
        "the old value",
    )
    add(
        "--at-least",
        action="append",
        default=[],
        metavar="METRIC=X",
        help="absolute limit of the candidate, such as recall@10=0.08; repeatable",
    )
    add(
        "--rules",
        metavar="FILE",
        help="TOML file with margin, suspicious and at-least of several metrics in its table [gate]",
    )
    add(
        "--comparisons",
        dest="n_comparisons",
        type=int,
        default=26,
        metavar="N",
        help="number of comparisons that share a false-alarm probability of 5%%; default: 26",
    )
    add(
        "--suspicious",
        type=float,
        default=0.5,
        metavar="X",
        help="improvement that is implausible, as a share of the old value; default: 0.5",
    )
    words = "exit code 0 if the gate cannot tell or no user differs; a significant loss still fails"
    add("--lenient", action="store_true", help=words)
    add(
        "--preflight",
        action="store_true",
        help="test whether the gate stops worse recommenders, which are derived from the ranks of the incumbent in "
        "NEW; with --model NAME=OLD, also how often a loss passes, and the margin against it",
    )
    add(
        "--confidence-level",
        type=float,
        default=0.95,
        metavar="X",
        help="confidence level, in (0, 1); default: 0.95",
    )
    _options.add_output(parser)


def _run_compare(options: argparse.Namespace) -> int:
    from ipseval.evaluation import Evaluation
    from ipseval.testing import gate, history, preflight

    check_out(options)
    candidate, incumbent = parse_model_pair(options.model)
    arguments: dict[str, Any] = {
        "incumbent": incumbent,
        "metric": options.metric,
        "estimator": options.estimator,
        "margin": options.margin,
        "n_comparisons": options.n_comparisons,
        "suspicious": options.suspicious,
        "confidence_level": options.confidence_level,
        "strict": not options.lenient,
    }
    has_rules = options.rules is not None or bool(options.at_least)
    result: Any
    if has_rules and (options.preflight or Path(options.new).is_dir()):
        raise InputError(
            "is for the comparison of two results, not for --preflight or a folder.",
            argument="--rules" if options.rules is not None else "--at-least",
        )
    _refuse_unused_files(options)
    if Path(options.new).is_dir():
        result = history(options.new, candidate=candidate, **arguments)
    elif options.preflight:
        if candidate != incumbent:
            arguments["candidate"] = candidate
        result = preflight(Evaluation.load(options.new), rng=0, **arguments)
    else:
        new = Evaluation.load(options.new)
        old = new
        if options.old not in (None, options.new):
            old = Evaluation.load(options.old)
        if has_rules:
            rules = {"rules": options.rules, "limits": parse_limits(options.at_least)}
            result = _gate_by_rules(new, old, candidate, {**arguments, **rules})
        else:
            result = gate(new, old, candidate=candidate, **arguments)
    deliver_result(result, options)
    return int(result.exit_code)


def _refuse_unused_files(options: argparse.Namespace) -> None:
    """Raise `InputError` for OLD or --preflight where they would not be used."""
    is_folder = Path(options.new).is_dir()
    if is_folder and options.preflight:
        raise InputError(
            f"is for one file; got the folder {options.new}. Name a file of `ipseval evaluate --out`.",
            argument="--preflight",
        )
    if options.old in (None, options.new):
        return
    if is_folder:
        raise InputError(
            f"the history of a folder has no OLD; got {options.old}. Leave it out, or name a file in place of "
            f"{options.new}."
        )
    if options.preflight:
        raise InputError(
            f"reads all recommenders from one file; got {options.new} and {options.old}. Call `ipseval compare "
            f"{options.old} --preflight`, with --model NAME if the file has several recommenders. To state how often a "
            "loss passes, evaluate candidate, incumbent and popularity into one file, and pass --model NAME=OLD.",
            argument="--preflight",
        )


def _gate_by_rules(
    new: Evaluation, old: Evaluation, candidate: str | None, arguments: dict[str, Any]
) -> MetricGates:
    """Return the decision by rules; one recommender of one result has limits but no incumbent."""
    from ipseval.testing import gate_metrics

    if new is not old:
        return gate_metrics(new, old, candidate=candidate, **arguments)
    if arguments["incumbent"] == candidate:
        arguments = {**arguments, "incumbent": None}
    return gate_metrics(new, candidate=candidate, **arguments)


def parse_margin(text: str) -> float | str:
    """Return the margin as a number, and a percentage as text, which the gate refuses with the number to pass."""
    if text.endswith("%"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid float value: {text!r}") from None


def parse_limits(texts: Sequence[str]) -> dict[str, float]:
    """Return the limit of each metric from texts such as recall@10=0.08."""
    limits = {}
    for text in texts:
        metric, _, value = text.rpartition("=")
        try:
            limits[metric] = float(value)
        except ValueError:
            metric = ""
        if not metric:
            raise InputError(f"--at-least must be METRIC=X, such as recall@10=0.08; got {text!r}.")
    return limits


def parse_model_pair(model: str | None) -> tuple[str | None, str | None]:
    """Return candidate and incumbent of NAME or NAME=OLD, and None for both without a text."""
    if model is None:
        return None, None
    new, equals, old = model.partition("=")
    if not new or (equals and not old):
        raise InputError(f"--model must be NAME or NAME=OLD; got {model!r}.")
    return new, old or new


COMPARE = Command(
    name="compare",
    summary="decide whether a candidate is worse than the incumbent",
    description=(
        "Print the paired difference of two stored results, and the decision in the last line.\n"
        "Exit code 0: better, identical, or not worse. 1: worse, or below a limit. 2: not comparable.\n"
        "3: suspicious, probably a leak. 4: cannot tell. 5: no difference, and margin 0."
    ),
    examples=(
        "ipseval compare result.npz --model item_knn=ease",
        "ipseval compare new.npz old.npz --model v2=v1 --out gates/2026-W31.npz",
        "ipseval compare new.npz old.npz --model v2=v1 --rules gate.toml --at-least recall@10=0.08",
        "ipseval compare gates/ --out history.html",
        "ipseval compare old.npz --model v1 --preflight",
    ),
    options=(_add_compare,),
    run=_run_compare,
)
