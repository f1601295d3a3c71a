"""Command line: `ipseval demo`, `evaluate`, `validate`, `compare`, `study`, `metrics`."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ipseval._files import read_scores, read_table
from ipseval._version import __version__
from ipseval.errors import InputError, IpsevalError
from ipseval.estimators import card
from ipseval.evaluation import evaluate
from ipseval.metrics import METRICS, RATING_METRICS
from ipseval.propensity import KnownPropensity, PowerLawPropensity
from ipseval.splits import Split
from ipseval.testing import write_baseline
from ipseval.testing._command import add_compare


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 worse, 2 unusable input (reason on stderr)."""
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            warnings.simplefilter("always", UserWarning)
            return int(options.run(options))
    except IpsevalError as error:
        print(f"ipseval: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ipseval: interrupted", file=sys.stderr)
        return 130


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
    add("--user-column", default="user")
    add("--item-column", default="item")
    add("--value-column", help="graded relevance of the test positives")
    exponent = parser.add_mutually_exclusive_group()
    exponent.add_argument("--gamma", type=float, help="power-law propensity P ∝ n*^((gamma+1)/2)")
    exponent.add_argument("--eta", type=float, help="the same by its exponent")
    exponent.add_argument("--propensity", help="table with item, propensity or user, item, propensity")
    add("--scale", help="'max' or a number: puts the power law on the scale of probabilities, for ips")
    add("--unseen", choices=("drop", "smooth", "raise"), default="drop")
    add("--metrics", default="auc,recall@10,dcg@10", help="comma-separated labels")
    add("--estimators", help="comma-separated; default: aoa, with a propensity also snips, snips-global")
    add("--ties", default="default", choices=("default", "mean", "min", "max", "expected"))
    add("--n-relevant", help="relevant items per user, an integer or 'estimated', for ips")
    add("--confidence-level", type=float, default=0.95)
    add("--duplicates", choices=("raise", "drop"), default="raise")
    add("--overlap", choices=("raise", "drop"), default="raise")
    add("--out", help="write the result as JSON, for `ipseval compare`")
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

    demo = run_demo(rng=options.seed)
    print(demo, flush=True)
    if options.picture:
        drawn = plot_demo(demo, Path(options.picture))
        without = "none, as matplotlib is not installed; get it with: pip install 'ipseval[plot]'"
        print(f"\nPicture: {options.picture if drawn else without}")
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    split = Split.from_frames(
        read_table(options.train),
        read_table(options.test),
        user=options.user_column,
        item=options.item_column,
        value=options.value_column,
        users=_universe(options.users, options.user_column),
        items=_universe(options.items, options.item_column),
        duplicates=options.duplicates,
        overlap=options.overlap,
    )
    estimators = None if options.estimators is None else _names(options.estimators)
    result = evaluate(
        _models(options.scores),
        split,
        propensity=_propensity(options),
        metrics=_names(options.metrics),
        estimators=estimators,
        ties=options.ties,
        confidence_level=options.confidence_level,
        n_relevant=_n_relevant(options.n_relevant),
    )
    print(result)
    if options.out:
        write_baseline(result, options.out)
    return 0


def _validate(options: argparse.Namespace) -> int:
    from ipseval.validation import run_validation

    result = run_validation(options.study, options.data, n_splits=options.splits, rng=options.seed)
    print(result)
    if options.html:
        result.to_html(options.html)
    return 0


def _study(options: argparse.Namespace) -> int:
    from ipseval.protocols import run_config

    print(run_config(options.config).to_markdown())
    return 0


def _metrics(options: argparse.Namespace) -> int:
    if options.labels:
        print("\n\n".join(card(label) for label in options.labels))
        return 0
    for name, family in METRICS.items():
        cutoff = {"required": "@k", "optional": "[@k]", "none": ""}[family.cutoff]
        parameters = ", ".join(family.parameters)
        print(f"{name + cutoff:<14}{family.summary}{f' ({parameters})' if parameters else ''}")
    print(f"\nOn predicted ratings (evaluate_ratings): {', '.join(RATING_METRICS)}")
    print("\nipseval metrics LABEL prints the definition of a metric and what is claimed of each estimator.")
    return 0


def _names(text: str) -> list[str]:
    """Return the labels of a comma-separated list; commas inside parentheses belong to a label."""
    names, depth, current = [], 0, ""
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            names.append(current)
            current = ""
        else:
            current += character
    return [name.strip() for name in (*names, current) if name.strip()]


def _models(entries: Sequence[str]) -> dict[str, Any]:
    models: dict[str, Any] = {}
    for entry in entries:
        name, equals, path = entry.partition("=")
        if not (name and equals and path):
            raise InputError(f"--scores takes NAME=FILE; got {entry!r}.")
        if name in models:
            raise InputError(f"--scores names {name!r} twice.")
        models[name] = read_scores(path)
    return models


def _universe(path: str | None, column: str) -> Any:
    if path is None:
        return None
    table = read_table(path)
    if column not in table.columns:
        raise InputError(f"{path} has no column {column!r}; it has {', '.join(map(str, table.columns))}.")
    return table[column].to_numpy()


def _propensity(options: argparse.Namespace) -> Any:
    if options.propensity is not None:
        table = read_table(options.propensity)
        if "user" in table.columns:
            return KnownPropensity(pair=table)
        return KnownPropensity(item=table)
    if options.gamma is None and options.eta is None:
        return None
    scale: Any = options.scale
    if scale is not None and scale != "max":
        try:
            scale = float(scale)
        except ValueError:
            raise InputError(f"--scale must be 'max' or a number; got {scale!r}.") from None
    return PowerLawPropensity(gamma=options.gamma, eta=options.eta, scale=scale, unseen=options.unseen)


def _seed(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"a seed is an integer >= 0; got {text!r}")
    return int(text)


def _n_relevant(text: str | None) -> Any:
    if text is None or text == "estimated":
        return text
    if not text.isdigit():
        raise InputError(f"--n-relevant must be an integer or 'estimated'; got {text!r}.")
    return int(text)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    print(f"ipseval: {category.__name__}: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
