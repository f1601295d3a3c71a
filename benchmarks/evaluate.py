"""Measure `ipseval.evaluate` against its parts, the bare matrix product, and other libraries.

    python benchmarks/evaluate.py                                # both tables of docs/performance.md
    python benchmarks/evaluate.py --cases W1 --no-libraries
    python benchmarks/evaluate.py --write docs/performance.md

The first table compares, for every workload,

* the bare matrix product of user and item factors in blocks of 512 users, which every exact ranking needs;
* `rank_positives` of every recommender, followed by `evaluate_ranks`;
* `ipseval.evaluate`, the function that users call: seven metrics by three estimators with standard errors.

The second table compares the product, `ipseval.evaluate` and other libraries on a tenth of the users of each
synthetic workload. There BLAS has one thread, and the libraries have all threads of their own.

All calls of a table are warm and run in turn. Processor time is that of all threads. The product is measured
with one thread of BLAS for processor time, because more threads wait for each other actively, and with all
threads for wall time.

MovieLens 100K and Gowalla are read from the folder in the environment variable IPSEVAL_DATA, by default
`../shared/data` beside the project. Libraries that are not installed are named below the second table.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from clocks import Times, measure_in_turn
from page import add_write_option, deliver
from peers import PEERS, Values, describe_peer, largest_difference, prepare_ipseval
from threadpoolctl import threadpool_limits
from workloads import Factors, Product, make

import ipseval
from ipseval import ComputeOptions, PowerLawPropensity, evaluate_ranks, rank_positives
from reproductions.leaderboard import splits
from reproductions.tables import data_folder, markdown

METRICS = ("auc", "atop", "recall@5", "recall@10", "recall@50", "mean_dcg", "ndcg@10")
ESTIMATORS = ("aoa", "snips", "snips-global")
N_FACTORS = 64
SYNTHETIC = ("W1", "W2", "W3")
LIBRARY_SHARE = 0.1  # of the users of a synthetic workload, because some libraries loop over users in Python
SMALL_NAMES = {"W1": "S1", "W2": "S2", "W3": "S3"}  # of these smaller workloads in the second table
ENGINE_NAMES = {"numba": "Numba", "numpy": "NumPy"}


@dataclass(frozen=True)
class Case:
    """A split with recommenders to evaluate on it, and the engines to measure."""

    split: ipseval.Split
    models: dict[str, Any]
    engines: tuple[str, ...] = ("numba",)

    @property
    def factors(self) -> list[Factors]:
        """The factor matrices that the bare product multiplies."""
        return [model for model in self.models.values() if isinstance(model, tuple)]


def make_synthetic(name: str, share: float = 1.0) -> Case:
    """Return a synthetic workload with one recommender."""
    workload = make(name, scale_users=share)
    models = {"model": (workload.user_factors, workload.item_factors)}
    return Case(workload.split, models, engines=("numba", "numpy"))


@functools.cache
def read_split(log: str) -> ipseval.Split:
    """Return the split of a public log."""
    if log == "Gowalla":
        return splits("Gowalla", data_folder())[1]
    interactions = ipseval.datasets.load_movielens(data_folder() / "ml-100k")
    return ipseval.split_random(interactions, test_fraction=0.2, rng=0)


@functools.cache
def train_factors(log: str) -> Factors:
    """Return single-precision factors of PureSVD."""
    user, item = ipseval.baselines.pure_svd(read_split(log).train, n_factors=N_FACTORS)
    return user.astype(np.float32), item.astype(np.float32)


def make_public(log: str, n_models: int) -> Case:
    """Return a public log with PureSVD, and variants of it whose user factors have noise."""
    user, item = train_factors(log)
    rng = np.random.default_rng(0)
    models = {}
    for number in range(n_models):
        noise = rng.normal(scale=0.1 * number * user.std(), size=user.shape)
        models[f"model {number}"] = ((user + noise).astype(np.float32), item)
    return Case(read_split(log), models)


def make_popularity(log: str) -> Case:
    """Return a public log with the popularity baseline, which has no factors."""
    split = read_split(log)
    return Case(split, {"popularity": ipseval.baselines.popularity(split.train)})


CASES: dict[str, Callable[[], Case]] = {
    **{name: partial(make_synthetic, name) for name in SYNTHETIC},
    "MovieLens 100K, one recommender": partial(make_public, "MovieLens 100K", 1),
    "MovieLens 100K, three": partial(make_public, "MovieLens 100K", 3),
    "Gowalla, one recommender": partial(make_public, "Gowalla", 1),
    "Gowalla, three": partial(make_public, "Gowalla", 3),
    "Gowalla, popularity": partial(make_popularity, "Gowalla"),
}


def evaluate_parts(case: Case, compute: ComputeOptions) -> ipseval.Evaluation:
    """Rank every recommender and evaluate the ranks."""
    ranks = {name: rank_positives(model, case.split, compute=compute) for name, model in case.models.items()}
    propensity = PowerLawPropensity(gamma=1.0).fit(case.split.train)
    return evaluate_ranks(
        ranks, propensity=propensity, metrics=METRICS, estimators=ESTIMATORS, compute=compute
    )


def evaluate_whole(case: Case, compute: ComputeOptions) -> ipseval.Evaluation:
    """Call the function that users call."""
    return ipseval.evaluate(
        case.models,
        case.split,
        propensity=PowerLawPropensity(gamma=1.0),
        metrics=METRICS,
        estimators=ESTIMATORS,
        compute=compute,
    )


def measure_case(case: Case, n_threads: int, repeats: int) -> dict[str, Times]:
    """Return the times of the products, and of the parts and the whole with each engine."""
    runs: dict[str, Callable[[], object]] = {}
    if case.factors:
        product = Product(case.factors)
        runs["product, one thread"] = partial(product.multiply, 1)
        runs["product, all threads"] = partial(product.multiply, n_threads)
    for engine in case.engines:
        compute = ComputeOptions(engine=engine, n_threads=n_threads, progress=False)
        runs[f"parts, {engine}"] = partial(evaluate_parts, case, compute)
        runs[f"whole, {engine}"] = partial(evaluate_whole, case, compute)
    return measure_in_turn(runs, repeats)


def describe_size(case: Case) -> str:
    """Return the numbers of users, items and positives."""
    split = case.split
    return f"{split.n_users:,} × {split.n_items:,}, {len(split.test):,}"


def tabulate_case(name: str, case: Case, times: dict[str, Times]) -> list[tuple[str, ...]]:
    """Return the rows of a workload, one for each engine."""
    rows = []
    for engine in case.engines:
        parts = times[f"parts, {engine}"]
        whole = times[f"whole, {engine}"]
        product, processor_ratio, wall_ratio = "–", "–", "–"
        if case.factors:
            one_thread = times["product, one thread"]
            product = f"{one_thread.median_processor:.3f}"
            processor_ratio = f"{whole.processor_ratio(one_thread):.2f}"
            wall_ratio = f"{whole.wall_ratio(times['product, all threads']):.2f}"
        row = (
            name,
            describe_size(case),
            ENGINE_NAMES[engine],
            product,
            f"{parts.median_processor:.3f}",
            f"{whole.median_processor:.3f}",
            f"{whole.processor_ratio(parts):.2f}",
            processor_ratio,
            wall_ratio,
        )
        rows.append(row)
    return rows


EVALUATE_HEADER = (
    "workload",
    "users × items, positives",
    "engine",
    "product, s",
    "ranks and `evaluate_ranks`, s",
    "`evaluate`, s",
    "× ranks and `evaluate_ranks`",
    "× product",
    "× product, wall time",
)


def compare_parts(options: argparse.Namespace) -> str:
    """Return the first table."""
    rows = []
    for name in options.cases:
        case = CASES[name]()
        case_rows = tabulate_case(name, case, measure_case(case, options.threads, options.repeats))
        for row in case_rows:
            print(" | ".join(row), flush=True)
        rows += case_rows
    return markdown(EVALUATE_HEADER, rows)


@dataclass(frozen=True)
class Comparison:
    """Ratios to the product by program, and the metrics of each, on one synthetic workload."""

    ratios: dict[str, float]
    values: dict[str, Values]


def compare_on_workload(name: str, peers: Iterable[str], options: argparse.Namespace) -> Comparison:
    """Measure the product, `ipseval.evaluate` and the other libraries on a tenth of the users."""
    workload = make(name, scale_users=LIBRARY_SHARE)
    product = partial(Product([(workload.user_factors, workload.item_factors)]).multiply, 1)
    programs: dict[str, Callable[[], Values]] = {}
    for engine, label in ENGINE_NAMES.items():
        programs[f"`ipseval.evaluate`, {label}"] = prepare_ipseval(workload, options.threads, engine)
    for peer in peers:
        programs[describe_peer(peer)] = PEERS[peer](workload, options.threads)

    with quiet_output(), threadpool_limits(1, user_api="blas"):
        values = {label: program() for label, program in programs.items()}
        times = measure_in_turn({"product": product, **programs}, options.library_repeats)
    base = times["product"]
    ratios = {label: times[label].processor_ratio(base) for label in programs}
    for label, ratio in ratios.items():
        print(
            f"{SMALL_NAMES[name]} | {label} | {ratio:.2f} | {times[label].median_processor:.3f} s", flush=True
        )
    return Comparison(ratios, values)


@contextlib.contextmanager
def quiet_output() -> Iterator[None]:
    """Discard the progress bars of other libraries."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def compare_libraries(options: argparse.Namespace) -> str:
    """Return the second table."""
    peers = [peer for peer in PEERS if peer in options.libraries and is_installed(peer)]
    absent = [peer for peer in options.libraries if peer not in peers]
    comparisons = {name: compare_on_workload(name, peers, options) for name in SYNTHETIC}

    rows = [("bare product", *["1"] * len(SYNTHETIC), "", "")]
    first = comparisons[SYNTHETIC[0]]
    reference = next(iter(first.values.values()))
    for label, values in first.values.items():
        ratios = [f"{comparisons[name].ratios[label]:.2f}" for name in SYNTHETIC]
        difference = f"{largest_difference(values, reference):.1g}"
        rows.append((label, *ratios, difference, ", ".join(values)))
    header = ("program", *(SMALL_NAMES[name] for name in SYNTHETIC), "largest difference", "metrics")
    table = markdown(header, rows)
    if absent:
        table += f"\n\nNot installed: {', '.join(absent)}."
    return table


def is_installed(peer: str) -> bool:
    """Return whether a library can be used here."""
    try:
        describe_peer(peer)
    except ImportError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), metavar="CASE")
    parser.add_argument("--libraries", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--no-libraries", action="store_true", help="make the first table only")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--library-repeats", type=int, default=3)
    add_write_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")

    if options.cases:
        deliver("evaluate", compare_parts(options), options.write)
    if not options.no_libraries:
        deliver("libraries", compare_libraries(options), options.write)


if __name__ == "__main__":
    main()
