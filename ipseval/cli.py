"""Command line: `ipseval demo`, `evaluate`, `validate`, `compare`, `study`, `metrics`."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ipseval._artefacts import writable
from ipseval._files import read_scores, read_table
from ipseval._requests import DEFAULT_METRICS
from ipseval._version import __version__
from ipseval.errors import InputError, IpsevalError
from ipseval.estimators import card
from ipseval.evaluation import evaluate
from ipseval.metrics import METRICS, RATING_METRICS
from ipseval.propensity import PROPENSITIES, KnownPropensity, PowerLawPropensity, parse_propensity
from ipseval.report import csv_text, deliver, visible
from ipseval.splits import Split
from ipseval.testing import write_baseline
from ipseval.testing._command import add_compare

_WRITERS: dict[str, Callable[[Any, str], object]] = {
    ".json": write_baseline,
    ".html": lambda result, path: result.to_html(path),
    ".md": lambda result, path: result.to_markdown(path),
    ".tex": lambda result, path: result.to_latex(path),
    ".npz": lambda result, path: result.save(path),
    ".csv": lambda result, path: deliver(csv_text(result.frame), path),
}
# What the options are called in Python, where it is not the same.
_COLUMNS = {"user_column": "user", "item_column": "item", "value_column": "value"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done. 1: worse, of `compare`. 2: unusable input or an error in a model, the reason on stderr. 130:
    interrupted. 141: whoever read the output closed it.
    """
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, options)
            warnings.simplefilter("always", UserWarning)
            code = int(options.run(options))
        sys.stdout.flush()
    except IpsevalError as error:
        _complain(f"error: {_in_options(str(error), options)}")
        return 2
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python flushes at its end
        return 141
    except Exception:  # of a caller's model, or our own: 1 would say "worse"
        traceback.print_exc()
        return 2
    return code


def _in_options(text: str, options: argparse.Namespace) -> str:
    """Return the text of an error with options of the command line in place of arguments in Python."""
    text = text.replace(" to Split.from_frames", "")
    for name, argument in [*_COLUMNS.items(), *((name, name) for name in vars(options))]:
        option = f"--{name.replace('_', '-')}"
        text = re.sub(rf"\b{argument}=['\"]?([\w.…<>]+)['\"]?", rf"{option} \1", text)
        text = re.sub(rf"(?<![-\w]){name}\b", option, text) if "_" in name else text
    return text


def _say(text: object) -> None:
    print(visible(text, keep="\n"))


def _complain(text: str) -> None:
    print(f"ipseval: {visible(text)}", file=sys.stderr)


def _show_warning(
    options: argparse.Namespace, message: Warning | str, category: type[Warning], *_: Any, **__: Any
) -> None:
    _complain(f"{category.__name__}: {_in_options(str(message), options)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ipseval", description="Offline evaluation of recommenders from biased implicit feedback."
    )
    parser.add_argument("--version", action="version", version=f"ipseval {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="command")
    _add_demo(commands)
    _add_evaluate(commands)
    _add_validate(commands)
    add_compare(commands)
    _add_study(commands)
    _add_metrics(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser("demo", help="evaluate five recommenders in a world whose truth is known")
    demo.add_argument("--seed", type=_seed, default=0)
    demo.add_argument(
        "--picture", default="ipseval-demo.png", help="where to draw it (needs matplotlib); '' for none"
    )
    demo.set_defaults(run=_demo)


def _add_evaluate(commands: Any) -> None:
    parser = commands.add_parser("evaluate", help="evaluate recommenders on a split made elsewhere")
    add = parser.add_argument
    add("--train", required=True, help="CSV, TSV or Parquet with columns user and item")
    add("--test", required=True, help="the same, with the held-out positives")
    add(
        "--scores",
        action="append",
        required=True,
        metavar="NAME=FILE",
        help="once per recommender: .npy or .npz (users × items, in the order of the sorted ids or of "
        "--users/--items), or a table of top-K lists with columns user, item and rank or score",
    )
    add("--users", help="file with the whole user universe, in the order of the rows (column user)")
    add("--items", help="file with the whole catalogue, in the order of the columns (column item)")
    add("--user-column", default="user", help="its name in all files that have it; elsewhere it is 'user'")
    add("--item-column", default="item", help="the same for the items")
    add("--value-column", help="graded relevance of the test positives")
    exponent = parser.add_mutually_exclusive_group()
    exponent.add_argument("--gamma", type=float, help="power-law propensity P ∝ n*^((gamma+1)/2)")
    exponent.add_argument("--eta", type=float, help="the same by its exponent")
    exponent.add_argument(
        "--propensity",
        help="label such as power-law:gamma=0,scale=max; or a table with item, propensity or user, item, "
        "propensity",
    )
    add("--scale", type=_scale, help="'max' or a number: the power law as probabilities, for ips")
    add("--unseen", choices=("drop", "smooth", "raise"), help="items without interactions; default: drop")
    add("--metrics", default=",".join(DEFAULT_METRICS), help="comma-separated labels")
    add("--estimators", help="comma-separated; default: aoa, with a propensity also snips-global")
    add("--ties", default="default", choices=("default", "mean", "min", "max", "expected"))
    add("--n-relevant", type=_n_relevant, help="relevant items per user, an integer or 'estimated', for ips")
    add("--confidence-level", type=float, default=0.95)
    add("--duplicates", choices=("raise", "drop"), default="raise")
    add("--overlap", choices=("raise", "drop"), default="raise")
    add("--missing", choices=("zero", "drop", "raise"), default="zero", help="users without a list")
    add(
        "--out",
        help="write the result: .json (for `ipseval compare`), .html, .md, .tex, .csv, .npz (all)",
    )
    parser.set_defaults(run=_evaluate)


def _add_validate(commands: Any) -> None:
    parser = commands.add_parser(
        "validate", help="does the correction help: estimates against random exposure"
    )
    add = parser.add_argument
    add("study", help="data set with random exposure: coat, yahoo-r3 or kuairec")
    add("--data", required=True, help="folder or archive of the data set")
    add("--splits", type=int, default=10)
    add("--seed", type=_seed, default=0)
    add("--html", help="write the report as one HTML page")
    parser.set_defaults(run=_validate)


def _add_study(commands: Any) -> None:
    parser = commands.add_parser("study", help="does the order of recommenders survive another protocol")
    parser.add_argument("config", help="TOML file; the documentation of protocols shows one")
    parser.set_defaults(run=_study)


def _add_metrics(commands: Any) -> None:
    metrics = commands.add_parser("metrics", help="list the metrics, or print the cards of some")
    metrics.add_argument("labels", nargs="*", metavar="label")
    metrics.set_defaults(run=_metrics)


def _demo(options: argparse.Namespace) -> int:
    print(
        "Five recommenders learn in a simulated world; this takes some seconds.", file=sys.stderr, flush=True
    )
    from ipseval.demo import plot_demo, run_demo

    if options.picture:
        writable(options.picture)
    demo = run_demo(rng=options.seed)
    _say(demo)
    sys.stdout.flush()
    if options.picture:
        drawn = plot_demo(demo, Path(options.picture))
        without = "none, as matplotlib is not installed; get it with: pip install 'ipseval[plot]'"
        _say(f"\nPicture: {options.picture if drawn else without}")
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    write = _writer(options.out)
    split = Split.from_frames(
        read_table(options.train),
        read_table(options.test),
        user=options.user_column,
        item=options.item_column,
        value=options.value_column,
        users=_universe(options.users, options.user_column, "user"),
        items=_universe(options.items, options.item_column, "item"),
        duplicates=options.duplicates,
        overlap=options.overlap,
    )
    result = evaluate(
        _models(options),
        split,
        propensity=_propensity(options),
        metrics=_names(options.metrics),
        estimators=None if options.estimators is None else _names(options.estimators),
        missing=options.missing,
        ties=options.ties,
        confidence_level=options.confidence_level,
        n_relevant=options.n_relevant,
    )
    _say(result)
    if write is not None:
        write(result, options.out)
    return 0


def _writer(path: str | None) -> Callable[[Any, str], object] | None:
    """Return what writes a result to a file of this name; it can be written, which is found out before."""
    if path is None:
        return None
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise InputError(f"--out must end in {', '.join(_WRITERS)}, which says the format; got {path!r}.")
    writable(path)
    return _WRITERS[suffix]


def _validate(options: argparse.Namespace) -> int:
    from ipseval.validation import run_validation

    if options.html:
        writable(options.html)
    result = run_validation(options.study, options.data, n_splits=options.splits, rng=options.seed)
    _say(result)
    if options.html:
        result.to_html(options.html)
    return 0


def _study(options: argparse.Namespace) -> int:
    from ipseval.protocols import run_config

    _say(run_config(options.config).to_markdown())
    return 0


def _metrics(options: argparse.Namespace) -> int:
    if options.labels:
        _say("\n\n".join(card(label) for label in options.labels))
        return 0
    for name, family in METRICS.items():
        cutoff = {"required": "@k", "optional": "[@k]", "none": ""}[family.takes_cutoff]
        parameters = ", ".join(family.parameters)
        _say(f"{name + cutoff:<14}{family.summary}{f' ({parameters})' if parameters else ''}")
    _say(f"\nOn predicted ratings (evaluate_ratings): {', '.join(RATING_METRICS)}")
    _say("\nipseval metrics LABEL prints the definition of a metric and what is claimed of each estimator.")
    return 0


def _names(text: str) -> list[str]:
    """Return the labels of a comma-separated list; commas inside parentheses belong to a label."""
    return [name.strip() for name in re.split(r",(?![^(]*\))", text) if name.strip()]


def _models(options: argparse.Namespace) -> dict[str, Any]:
    models: dict[str, Any] = {}
    for entry in options.scores:
        name, equals, path = entry.partition("=")
        if not (name and equals and path):
            raise InputError(f"--scores takes NAME=FILE; got {entry!r}.")
        if name in models:
            raise InputError(f"--scores names {name!r} twice.")
        models[name] = read_scores(path, _columns(options))
    return models


def _columns(options: argparse.Namespace) -> dict[str, str]:
    """Return what the columns of users and items are renamed from, in files that have them."""
    return {options.user_column: "user", options.item_column: "item"}


def _universe(path: str | None, column: str, default: str) -> Any:
    if path is None:
        return None
    table = read_table(path, {column: default})
    if default not in table.columns:
        raise InputError(f"{path} has no column {column!r}; it has {', '.join(map(str, table.columns))}.")
    return table[default].to_numpy()


def _propensity(options: argparse.Namespace) -> Any:
    if options.gamma is None and options.eta is None and (options.scale or options.unseen):
        raise InputError("--scale and --unseen belong to a power law; give --gamma or --eta with them.")
    if options.propensity is not None:
        named = options.propensity in PROPENSITIES or re.match(r"[\w-]+[:(]", options.propensity)
        if named and not Path(options.propensity).exists():
            return parse_propensity(options.propensity)
        table = read_table(options.propensity, _columns(options))
        return KnownPropensity(pair=table) if "user" in table.columns else KnownPropensity(item=table)
    if options.gamma is None and options.eta is None:
        return None
    return PowerLawPropensity(
        gamma=options.gamma, eta=options.eta, scale=options.scale, unseen=options.unseen or "drop"
    )


def _seed(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"a seed is an integer >= 0; got {text!r}")
    return int(text)


def _scale(text: str) -> float | str:
    try:
        return text if text == "max" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'max' or a number; got {text!r}") from None


def _n_relevant(text: str) -> int | str:
    if text != "estimated" and not text.isdigit():
        raise argparse.ArgumentTypeError(f"an integer or 'estimated'; got {text!r}")
    return text if text == "estimated" else int(text)


if __name__ == "__main__":
    sys.exit(main())
