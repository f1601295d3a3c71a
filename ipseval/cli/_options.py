"""Define commands, and the options that several commands share, named after the arguments of Python."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ipseval.utils.compute import ENGINES
from ipseval.utils.file_formats import READ_FORMATS_WITH_EXAMPLES

SPLITS = ("random", "temporal", "leave-one-out", "global-time")
FORMATS = ("text", "md", "latex", "csv", "json", "html")
COLUMNS = {
    "user": "ids of users",
    "item": "ids of items",
    "timestamp": "times",
    "value": "ratings or counts",
    "clicked": "clicks (0 or 1) of a log of impressions",
    "shown": "0 or 1, whether an item was shown",
    "position": "positions in a list, starting with 1",
    "query": "queries or slates of impressions",
}
PROPENSITY_MODELS = "power-law, jain, impressions, logged"  # those that need no data but the log
TABLE = f"{READ_FORMATS_WITH_EXAMPLES}; text and JSON may be compressed; '-' for standard input"


@dataclass(frozen=True)
class Command:
    """A command of the shell; `description` and `examples` are parts of its help, and `run` returns the exit code."""

    name: str
    summary: str
    description: str
    examples: tuple[str, ...]
    options: Sequence[Callable[[argparse.ArgumentParser], None]]
    run: Callable[[argparse.Namespace], int]


def integer_type(low: int, *words: str) -> Any:
    """Return a function that parses an integer of at least `low`, or one of some words."""

    def parse(text: str) -> int | str:
        if text in words:
            return text
        if not text.isdigit() or int(text) < low:
            requirement = " or ".join((f"an integer >= {low}", *map(repr, words)))
            raise argparse.ArgumentTypeError(f"{requirement}; got {text!r}")
        return int(text)

    return parse


def number_type(*words: str) -> Any:
    """Return a function that parses a number, or one of some words."""

    def parse(text: str) -> float | str:
        if text in words:
            return text
        try:
            return float(text)
        except ValueError:
            choices = " or ".join(repr(word) for word in words)
            raise argparse.ArgumentTypeError(f"{choices} or a number; got {text!r}") from None

    return parse


def parse_integers(text: str) -> list[int]:
    """Return the integers of a comma-separated list."""
    values: list[int] = []
    for part in text.split(","):
        values.append(integer_type(1)(part.strip()))

    return values


def add_choice(group: Any, name: str, choices: Sequence[str], words: str = "") -> None:
    """Add an option with a list of choices; the first is the default."""
    group.add_argument(name, choices=choices, default=choices[0], help=words or None)


def add_log_or_parts(parser: argparse.ArgumentParser) -> None:
    """Add the log, or the files of a split made elsewhere."""
    add_log(parser, optional="?")
    group = parser.add_argument_group("existing split, in place of LOG")
    group.add_argument("--train", metavar="FILE", help="training part")
    group.add_argument("--test", metavar="FILE", help="held-out positives, or TREC qrels")
    add_choice(group, "--overlap", ("raise", "drop"), "pairs in both parts; default: raise")


def add_log(parser: argparse.ArgumentParser, *, optional: Any = None) -> None:
    """Add the log, and the options of reading it."""
    parser.add_argument("log", metavar="LOG", nargs=optional, help=f"clicks, purchases, ratings: {TABLE}")
    group = parser.add_argument_group(
        "columns and format of the log",
        "Usual column names are found. A file can name its own: log.csv:user=uid,item=sku.",
    )
    add = group.add_argument
    for name, words in COLUMNS.items():
        add(f"--{name}", metavar="COLUMN", help=f"column with {words}")
    add("--propensity-column", metavar="COLUMN", help="column with the probability of being shown")
    add("--ignore", metavar="COLUMNS", help="columns that are not read, separated by commas")
    add(
        "--threshold",
        type=number_type("all"),
        metavar="X",
        help="smallest value of a positive; rows with smaller values are excluded. 'all': every row is a positive",
    )
    add("--users", metavar="FILE", help="all users, in the order of the rows of arrays")
    add("--items", metavar="FILE", help="all items, in the order of the columns of arrays")
    add_choice(
        group, "--units", ("auto", "s", "ms", "us", "ns", "none"), "unit of numeric times; default: auto"
    )
    words = "arrangement of the lines of a text file; default: auto"
    add_choice(group, "--layout", ("auto", "table", "pairs", "adjacency", "trec"), words)
    add("--na-values", metavar="TEXTS", help="texts that denote a missing entry, separated by commas")
    add("--separator", metavar="TEXT", help="separator of columns; default: detected")
    header = argparse.BooleanOptionalAction
    add("--header", action=header, help="first line with column names; default: detected")
    add("--encoding", default="utf-8", metavar="NAME", help="encoding of text; default: utf-8")
    _add_row_policies(parser)


def _add_row_policies(parser: argparse.ArgumentParser) -> None:
    """Add the policies for rows and ids that do not fit; excluded rows are counted in the result."""
    group = parser.add_argument_group(
        "rows and ids that do not fit",
        "Nothing is excluded by default, except entries of lists for users without interactions. "
        "Excluded rows are counted in the result.",
    )
    add_choice(group, "--duplicates", ("raise", "drop", "keep"), "repeated pairs; default: raise")
    add_choice(group, "--missing", ("raise", "drop"), "rows with missing entries; default: raise")
    words = "ids outside the universe; in lists, 'candidate' keeps their ranks; default: raise; few allowed in lists"
    add_choice(group, "--unknown", ("raise", "drop", "candidate"), words)
    words = "training items in lists; 'include' makes them candidates; default: raise; few allowed in lists"
    add_choice(group, "--seen", ("raise", "drop", "keep", "include"), words)
    add_choice(group, "--gaps", ("raise", "keep"), "lists with gaps in their positions; default: raise")
    add_choice(
        group, "--unshown-clicks", ("raise", "drop"), "clicks on items that were not shown; default: raise"
    )


def add_split(parser: argparse.ArgumentParser) -> None:
    """Add the options of splitting a log."""
    group = parser.add_argument_group("split of LOG")
    add = group.add_argument
    add_choice(group, "--split", SPLITS, "selection of test positives; default: random")
    add(
        "--test-fraction",
        type=float,
        default=0.2,
        metavar="X",
        help="share of test positives, in (0, 1); default: 0.2",
    )
    add(
        "--validation-fraction",
        type=float,
        default=0.0,
        metavar="X",
        help="share of validation positives, in [0, 1); default: 0",
    )
    add_choice(group, "--order", ("random", "temporal"), "order of leave-one-out; default: random")
    add(
        "--n-validation",
        type=int,
        default=1,
        metavar="N",
        help="validation positives per user in leave-one-out; default: 1",
    )
    add("--test-start", metavar="TIME", help="start of the test part in global-time")
    add(
        "--k-core",
        type=integer_type(1),
        metavar="K",
        help="restriction to users and items with K interactions each",
    )
    add_seed(group)


def add_seed(parser: Any) -> None:
    """Add the seed of the random generator."""
    parser.add_argument(
        "--seed",
        type=integer_type(0),
        default=0,
        metavar="N",
        help="seed of the random generator; default: 0",
    )


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add the recommenders."""
    group = parser.add_argument_group("recommenders")
    group.add_argument(
        *("--model", "--models"),
        action="append",
        metavar="NAME=FILE",
        help="recommender; may be repeated. FILE is an array (.npy or .npz, users × items, in the order of the "
        "sorted ids or of --users and --items), factors (.npz), a TREC run or a table of user, item, rank or score. "
        "NAME alone is a baseline: popularity, random, item_knn, ease, pure_svd. Default: all",
    )
    add_choice(group, "--missing-lists", ("zero", "drop", "raise"), "users without a list; default: zero")


def add_propensity(parser: argparse.ArgumentParser) -> None:
    """Add the propensity model."""
    group = parser.add_argument_group("propensity", "The probability that a relevant item is in the log.")
    add = group.add_argument
    exponent = group.add_mutually_exclusive_group()
    exponent.add_argument(
        "--gamma",
        type=number_type("fit"),
        metavar="X",
        help="γ of propensities P ∝ n^((γ+1)/2), with the popularity n in training; 'fit' requires "
        "--recommendations or --random-exposure",
    )
    exponent.add_argument(
        "--propensity",
        metavar="LABEL|FILE",
        help=f"label of a model ({PROPENSITY_MODELS}) with its options, such as power-law:gamma=0,scale=max; or a "
        "table with item (or user and item) and propensity, or relative_propensity if a common factor is unknown",
    )
    add(
        "--examination",
        choices=("randomised", "harvesting", "em"),
        help="fit of the probability that a position is examined: randomised if items were shown in random "
        "order, harvesting or em if the order was not personalised; default: all positions are examined",
    )
    add(
        "--scale",
        type=number_type("max", "calibrated"),
        metavar="X",
        help="largest probability of the power law, required by ips; 'max' for 1, or 'calibrated'",
    )
    add("--unseen", choices=("smooth", "drop", "raise"), help="items without interactions; default: smooth")
    add(
        "--recommendations",
        metavar="FILE",
        help="lists of the recommender that produced the log, for --gamma fit",
    )
    words = "origin of --recommendations: the logging system, or an evaluated recommender; default: unknown"
    add("--source", choices=("logging-policy", "evaluated", "unknown"), default="unknown", help=words)
    add_random_exposure(group, "; used by --gamma fit and --scale calibrated")


def add_correction(parser: argparse.ArgumentParser) -> None:
    """Add the data that bias-corrected estimates use in addition to the log."""
    group = parser.add_argument_group(
        "further data", "Each narrows the intervals. Without any, the intervals depend on the prior."
    )
    add_random_exposure(group)
    group.add_argument(
        "--allocation",
        metavar="FILE",
        help="pairs of `ipseval plan --design`, to which --random-exposure has the answers; not needed where "
        "these are in a column of the allocation",
    )
    words = "users of an allocation without some answer; default: raise"
    add_choice(group, "--unanswered", ("raise", "drop"), words)
    group.add_argument(
        "--interactions",
        metavar="FILE",
        help="all logged pairs, positive or not, for example all ratings",
    )
    group.add_argument(
        "--reference-values",
        action="append",
        default=[],
        metavar="NAME:METRIC=VALUE+-ERROR",
        help="value of a recommender from an experiment with its standard error, as in "
        "old:recall@10=0.081+-0.006; with --source randomised-ratio the ratio of two recommenders, as in "
        "new/old:recall@10=1.08+-0.03; may be repeated",
    )
    group.add_argument(
        "--source",
        choices=("randomised", "randomised-ratio"),
        help="measurement of the reference values; required with --reference-values",
    )


def add_random_exposure(parser: Any, purpose: str = "") -> None:
    """Add a file of random exposure; `purpose` is appended to its help."""
    parser.add_argument(
        "--random-exposure",
        metavar="FILE",
        help="pairs shown at random: a table with user, item and positive (0 or 1), or ratings as in "
        f"FILE:value=rating,threshold=4{purpose}",
    )


def add_metrics(parser: argparse.ArgumentParser) -> None:
    """Add the metrics, ties and confidence level."""
    group = parser.add_argument_group("metrics")
    add = group.add_argument
    words = "metrics, separated by commas; default: %(default)s"
    add("--metrics", "--metric", metavar="LABELS", default="recall@10,mean_dcg@10", help=words)
    add_choice(group, "--ties", ("default", "mean", "min", "max", "expected"), "rule for tied scores")
    add(
        "--confidence-level",
        type=float,
        default=0.95,
        metavar="X",
        help="confidence level, in (0, 1); default: 0.95",
    )


def add_estimation(parser: argparse.ArgumentParser) -> None:
    """Add the estimators, candidates, groups and intervals of `evaluate`."""
    group = parser.add_argument_group("estimation")
    add = group.add_argument
    add(
        "--estimators",
        metavar="LABELS",
        help="estimators, separated by commas; default: aoa, and with a propensity or a log of impressions "
        "snips-global",
    )
    add(
        "--n-relevant",
        type=integer_type(0, "estimated"),
        metavar="N",
        help="number of relevant items per user, or 'estimated'; used by ips",
    )
    add(
        "--candidates",
        default="all",
        metavar="all|N",
        help="all items, or N random items per user; default: all",
    )
    add("--allowed-items", metavar="FILE", help="items that are candidates (column item)")
    add(
        "--by",
        action="append",
        default=[],
        metavar="GROUPS",
        help="groups with separate estimates: popularity, activity, cold-users or cold-items, with a number as in "
        "popularity:4; or FILE[:column] with a column user or item and attributes; may be repeated",
    )
    add(
        "--beyond",
        metavar="LABELS",
        help="measures beyond accuracy, such as coverage@10,gini@10,arp@10,novelty@10",
    )
    add(
        "--item-vectors",
        metavar="FILE",
        help="vectors for ild@k: a table with item and one column per coordinate or one of arrays; or .npy with "
        "rows in the order of the sorted ids or of --items",
    )
    words = "interval from the standard error, or from a bootstrap over users; default: normal"
    add_choice(group, "--interval", ("normal", "percentile", "bca"), words)
    add(
        "--n-resamples",
        type=integer_type(1),
        default=10_000,
        metavar="N",
        help="samples of the bootstrap; default: 10000",
    )
    words = "estimates with a small effective sample size; default: warn"
    add_choice(group, "--low-ess", ("warn", "raise", "nan", "ignore"), words)


def add_compute(parser: argparse.ArgumentParser) -> None:
    """Add threads, memory and engine, which change no result."""
    group = parser.add_argument_group("time and memory")
    add = group.add_argument
    add("--threads", type=integer_type(1), metavar="N", help="number of threads; default: all cores")
    add("--memory", metavar="SIZE", help="limit of the buffers, such as '200 MB'; default: 128 MB")
    add(
        "--engine",
        choices=ENGINES,
        help="engine of the ranking; default: numba if it is installed and the ranking is large",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the files and the format of the result."""
    group = parser.add_argument_group("output")
    add = group.add_argument
    add_choice(group, "--format", FORMATS, "format of the printed result; default: text")
    add(
        *("--out", "--output", "-o"),
        action="append",
        default=[],
        metavar="FILE",
        help="file with the result: .html, .md, .tex, .csv, .txt, .json, or .npz for report and compare; may be "
        "repeated; '-' for standard output",
    )
    add("--title", metavar="TEXT", help="title of the HTML page; default: that of the report")
    add("--quiet", action="store_true", help="no progress bar, no warnings, and with --out no printed result")


def add_explain(parser: argparse.ArgumentParser) -> None:
    """Add the option that prints all comparisons, guarantees and definitions."""
    parser.add_argument("--explain", action="store_true", help="all comparisons, guarantees and definitions")
