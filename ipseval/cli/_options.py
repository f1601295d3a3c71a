"""What a subcommand is, and options that several share, named after the arguments in Python."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ipseval.utils.compute import ENGINES

SPLITS = ("random", "temporal", "leave-one-out", "global-time")
FORMATS = ("text", "md", "latex", "csv", "json", "html")
COLUMNS = {
    "user": "ids of users",
    "item": "ids of items",
    "timestamp": "times",
    "value": "ratings or counts",
    "clicked": "whether an impression was clicked; the log holds impressions then",
    "shown": "whether an item was shown",
    "position": "places in a list, from 1 on",
    "query": "the query or slate that impressions belong to",
}
TABLE = "CSV, TSV, JSON, Parquet, u.data, packed or not; '-': standard input"


@dataclass(frozen=True)
class Command:
    """A subcommand: `description` and `examples` stand in its help, `run` returns the exit code."""

    name: str
    summary: str
    description: str
    examples: tuple[str, ...]
    options: Sequence[Callable[[argparse.ArgumentParser], None]]
    run: Callable[[argparse.Namespace], int]


def integer_type(low: int, *words: str) -> Any:
    """Return a reader of whole numbers from `low` on, or of some words."""

    def read(text: str) -> int | str:
        if text in words:
            return text
        if not text.isdigit() or int(text) < low:
            known = " or ".join((f"an integer >= {low}", *map(repr, words)))
            raise argparse.ArgumentTypeError(f"{known}; got {text!r}")
        return int(text)

    return read


def number_type(*words: str) -> Any:
    def read(text: str) -> float | str:
        try:
            return text if text in words else float(text)
        except ValueError:
            named = " or ".join(repr(word) for word in words)
            raise argparse.ArgumentTypeError(f"{named} or a number; got {text!r}") from None

    return read


def parse_integers(text: str) -> list[int]:
    """Return the whole numbers of a comma-separated list."""
    return [integer_type(1)(part.strip()) for part in text.split(",")]


def add_choice(group: Any, name: str, choices: Sequence[str], words: str = "") -> None:
    """Add an option that takes one of some words; the first is the default."""
    group.add_argument(name, choices=choices, default=choices[0], help=words or None)


def add_log_or_parts(parser: argparse.ArgumentParser) -> None:
    """Add the log, or the files of a split made elsewhere."""
    add_log(parser, optional="?")
    group = parser.add_argument_group("a split made elsewhere, in place of LOG")
    group.add_argument("--train", metavar="FILE", help="the training part")
    group.add_argument("--test", metavar="FILE", help="the held-out positives")
    add_choice(group, "--overlap", ("raise", "drop"), "pairs in both")


def add_log(parser: argparse.ArgumentParser, *, optional: Any = None) -> None:
    """Add the log, and how it is read."""
    parser.add_argument("log", metavar="LOG", nargs=optional, help=f"clicks, purchases, ratings: {TABLE}")
    group = parser.add_argument_group(
        "what the log holds",
        "Columns with usual names are found. A file can name its own: log.csv:user=uid,item=sku.",
    )
    add = group.add_argument
    for name, words in COLUMNS.items():
        add(f"--{name}", metavar="COLUMN", help=f"column with {words}")
    add("--propensity-column", metavar="COLUMN", help="column with the chance to be shown")
    add("--ignore", metavar="COLUMNS", help="comma-separated; not read, whatever their names are")
    add(
        "--threshold",
        type=number_type("all"),
        metavar="X",
        help="least value of a positive; smaller ones are left out. 'all': every row is a positive",
    )
    add("--users", metavar="FILE", help="the whole user universe, in the order of the rows of arrays")
    add("--items", metavar="FILE", help="the whole catalogue, in the order of the columns of arrays")
    add_choice(group, "--units", ("auto", "s", "ms", "us", "ns", "none"), "of times as numbers")
    words = "arrangement of the lines of a text file; default: auto"
    add_choice(group, "--layout", ("auto", "table", "pairs", "adjacency", "trec"), words)
    add("--na-values", metavar="TEXTS", help="comma-separated; text that names a missing entry")
    add("--separator", metavar="TEXT", help="between columns; default: found")
    header = argparse.BooleanOptionalAction
    add("--header", action=header, help="whether the first line names the columns; default: found")
    add("--encoding", default="utf-8", metavar="NAME", help="default: utf-8")
    _add_row_policies(parser)


def _add_row_policies(parser: argparse.ArgumentParser) -> None:
    """Add what is done with what does not fit; every choice is counted in the result."""
    group = parser.add_argument_group(
        "what does not fit", "Left out only where you say so, and counted in the result."
    )
    add_choice(group, "--duplicates", ("raise", "drop", "keep"), "pairs that occur again")
    add_choice(group, "--incomplete", ("raise", "drop"), "rows that lack something")
    words = "ids outside the universe; in lists, 'candidate' lets them keep their places"
    add_choice(group, "--unknown", ("raise", "drop", "candidate"), words)
    words = "training items in lists, which are no candidates; 'include' makes them candidates"
    add_choice(group, "--seen", ("raise", "drop", "keep", "include"), words)
    add_choice(group, "--gaps", ("raise", "keep"), "positions that are not 1, 2, 3, …")
    add_choice(group, "--unshown-clicks", ("raise", "drop"), "clicks on what was not shown")


def add_split(parser: argparse.ArgumentParser) -> None:
    """Add how a log is divided."""
    group = parser.add_argument_group("how LOG is split")
    add = group.add_argument
    add_choice(group, "--split", SPLITS, "how test positives are chosen; default: random")
    add("--test-fraction", type=float, default=0.2, metavar="X", help="in (0, 1); default: 0.2")
    add("--validation-fraction", type=float, default=0.0, metavar="X", help="in [0, 1); default: 0")
    add_choice(group, "--order", ("random", "temporal"), "of leave-one-out: which is last")
    add("--n-validation", type=int, default=1, metavar="N", help="of leave-one-out; default: 1")
    add("--test-start", metavar="TIME", help="of global-time: where the test part begins")
    add(
        "--k-core",
        type=integer_type(1),
        metavar="K",
        help="first keep users and items with K interactions each",
    )
    add_seed(group)


def add_seed(parser: Any) -> None:
    """Add the seed of everything that is drawn."""
    parser.add_argument(
        "--seed", type=integer_type(0), default=0, metavar="N", help="of all that is drawn; default: 0"
    )


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add which recommenders."""
    group = parser.add_argument_group("recommenders")
    group.add_argument(
        *("--model", "--models"),
        action="append",
        metavar="NAME=FILE",
        help="once per recommender: .npy or .npz (users × items, in the order of the sorted ids or of "
        "--users/--items), or lists: a table with user, item and rank or score. A name alone is a baseline: "
        "popularity, random, item_knn, ease or pure_svd. Default: all of these",
    )
    add_choice(group, "--missing-lists", ("zero", "drop", "raise"), "users without a list")


def add_propensity(parser: argparse.ArgumentParser) -> None:
    """Add where propensities come from."""
    group = parser.add_argument_group("propensity", "The chance that a relevant item is in the log.")
    add = group.add_argument
    exponent = group.add_mutually_exclusive_group()
    exponent.add_argument(
        "--gamma",
        type=number_type("fit"),
        metavar="X",
        help="power law P ∝ n*^((gamma+1)/2); 'fit' with --recommendations or --random-exposure",
    )
    exponent.add_argument("--eta", type=float, metavar="X", help="the same by its exponent")
    exponent.add_argument(
        "--propensity",
        metavar="LABEL|FILE",
        help="label such as power-law:gamma=0,scale=max; of impressions: impressions or logged; or a table "
        "with item (or user and item) and propensity, or relative_propensity where it lacks a factor",
    )
    add(
        "--examination",
        choices=("randomised", "harvesting", "em"),
        help="of impressions: how the chance to look at a position is fitted; default: all are looked at",
    )
    add(
        "--scale",
        type=number_type("max", "calibrated"),
        metavar="X",
        help="the power law as probabilities, for ips: the largest P, 'max' for 1, or 'calibrated'",
    )
    add("--unseen", choices=("drop", "smooth", "raise"), help="items without interactions; default: drop")
    add("--recommendations", metavar="FILE", help="lists of the recommender that made the log, for a fit")
    words = "what made --recommendations: the system that logged, or a recommender that is evaluated here"
    add("--source", choices=("logging-policy", "evaluated", "unknown"), default="unknown", help=words)
    add_random_exposure(group, "; read by --gamma fit and --scale calibrated")


def add_correction(parser: argparse.ArgumentParser) -> None:
    """Add the data that bias-corrected estimates read in addition to the log."""
    group = parser.add_argument_group(
        "further data", "Each narrows the intervals; without any, they depend on the prior."
    )
    add_random_exposure(group)
    group.add_argument(
        "--interactions",
        metavar="FILE",
        help="all logged pairs, positive or not, such as all ratings",
    )
    group.add_argument(
        "--reference-values",
        action="append",
        default=[],
        metavar="NAME:METRIC=VALUE+-ERROR",
        help="value of a recommender from an experiment with its standard error, as in "
        "old:recall@10=0.081+-0.006; with --source ab-ratio the ratio of two recommenders, as in "
        "new/old:recall@10=1.08+-0.03; may be repeated",
    )
    group.add_argument(
        "--source",
        choices=("randomised", "ab-ratio"),
        help="how the reference values were measured; required with --reference-values",
    )


def add_random_exposure(parser: Any, purpose: str = "") -> None:
    """Add a file of random exposure; `purpose` is appended to its help."""
    parser.add_argument(
        "--random-exposure",
        metavar="FILE",
        help="pairs shown at random: a table with user, item and positive (0 or 1), or ratings as in "
        f"FILE:value=rating,threshold=4{purpose}. In Python, RandomExposure.from_log reads exploration rows "
        "of a log",
    )


def add_metrics(parser: argparse.ArgumentParser) -> None:
    """Add what is computed of each recommender."""
    group = parser.add_argument_group("what is computed")
    add = group.add_argument
    words = "separated by commas: %(default)s"
    add("--metrics", "--metric", metavar="LABELS", default="recall@10,mean_dcg@10", help=words)
    add_choice(group, "--ties", ("default", "mean", "min", "max", "expected"))
    add("--confidence-level", type=float, default=0.95, metavar="X", help="in (0, 1); default: 0.95")


def add_estimation(parser: argparse.ArgumentParser) -> None:
    """Add what else `evaluate` can be asked."""
    group = parser.add_argument_group("how it is estimated")
    add = group.add_argument
    add("--estimators", metavar="LABELS", help="default: aoa, with a propensity also snips-global")
    add(
        "--n-relevant",
        type=integer_type(0, "estimated"),
        metavar="N",
        help="relevant items per user, or 'estimated', for ips",
    )
    add("--candidates", default="all", metavar="all|N", help="all items, or N drawn at random; default: all")
    add("--allowed-items", metavar="FILE", help="only these items compete (column item)")
    add(
        "--by",
        action="append",
        default=[],
        metavar="GROUPS",
        help="also in groups: popularity, activity, cold-users, cold-items, also as in popularity:4; or "
        "FILE[:column] with a column user or item and attributes; may be repeated",
    )
    add("--beyond", metavar="LABELS", help="measures of the lists: coverage@10,gini@10,arp@10,novelty@10,…")
    add(
        "--item-vectors",
        metavar="FILE",
        help="for ild@k: a table with item and a column per coordinate, or one of arrays; or .npy, with "
        "rows in the order of the sorted ids or of --items",
    )
    words = "from the standard error, or from a bootstrap over users; default: normal"
    add_choice(group, "--interval", ("normal", "percentile", "bca"), words)
    add(
        "--n-resamples",
        type=integer_type(1),
        default=10_000,
        metavar="N",
        help="of the bootstrap; default: 10000",
    )
    words = "weighted estimates of a small effective sample size; default: warn"
    add_choice(group, "--low-ess", ("warn", "raise", "nan", "ignore"), words)


def add_compute(parser: argparse.ArgumentParser) -> None:
    """Add what changes time and memory, and no number."""
    group = parser.add_argument_group("time and memory")
    add = group.add_argument
    add("--threads", type=integer_type(1), metavar="N", help="default: all cores")
    add("--memory", metavar="SIZE", help="bound on the buffers, such as '200 MB'; default: 128 MB")
    add("--engine", choices=ENGINES, help="default: numba where it is worth loading it")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add where the result goes and in which form."""
    group = parser.add_argument_group("output")
    add = group.add_argument
    add_choice(group, "--format", FORMATS, "of what is printed; default: text")
    add(
        *("--out", "--output", "-o"),
        action="append",
        default=[],
        metavar="FILE",
        help="also write it: .html, .md, .tex, .csv, .txt, .json, .npz (all, for report and compare); may be "
        "repeated; '-': standard output",
    )
    add("--quiet", action="store_true", help="no bar, no warnings, and with --out nothing printed")


def add_explain(parser: argparse.ArgumentParser) -> None:
    """Add whether everything is printed that an evaluation says."""
    parser.add_argument("--explain", action="store_true", help="print all orders, claims and definitions")
