"""Measure what lists, measures beyond accuracy and groups add to the ranking that they read.

    python benchmarks/segments.py [--scale-users X] [--write docs/performance.md]

Prints, for each engine, shares of the processor time of the ranking of W1 with one thread: of keeping the
first ten items of each user, of all measures beyond accuracy of these lists, and of an evaluation by
popularity and by activity.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from functools import partial

import numpy as np
from clocks import in_turn
from page import add_write_option, deliver
from workloads import Workload, make

import ipseval
from ipseval.evaluation.beyond import MEASURES
from ipseval.evaluation.segments import TrainingCounts
from reproductions.tables import markdown


def measure_engine(workload: Workload, engine: str, repeats: int) -> list[float]:
    """Return shares of the time of the ranking: lists, measures of lists, groups."""
    split = workload.split
    compute = ipseval.ComputeOptions(engine=engine, n_threads=1, progress=False)
    model = (workload.user_factors, workload.item_factors)
    rank = partial(ipseval.rank_positives, model, split, compute=compute)
    ranked = rank()
    lists = rank(top_k=10)
    propensity = ipseval.PowerLawPropensity(gamma=0, unseen="smooth").fit(split.train)
    evaluation = ipseval.evaluate_ranks({"m": ranked}, propensity=propensity, low_ess="ignore")
    counts = TrainingCounts.from_interactions(split.train)
    labels = [f"{name}@10" for name in MEASURES]
    vectors = np.asarray(workload.item_factors, dtype=np.float64)

    def evaluate_groups() -> None:
        for by in ("popularity", "activity"):
            _ = evaluation.by(by, counts=counts).frame

    runs = {
        "ranking": rank,
        "ranking with lists": partial(rank, top_k=10),
        "measures": partial(
            ipseval.beyond_accuracy, {"m": lists}, split, measures=labels, item_vectors=vectors
        ),
        "groups": evaluate_groups,
    }
    seconds = {name: statistics.median(times) for name, times in in_turn(runs, repeats).items()}
    ranking = seconds["ranking"]
    additions = (seconds["ranking with lists"] - ranking, seconds["measures"], seconds["groups"])
    return [addition / ranking for addition in additions]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale-users", type=float, default=1.0, metavar="X")
    parser.add_argument("--repeats", type=int, default=3)
    add_write_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    workload = make("W1", scale_users=options.scale_users)
    numba = measure_engine(workload, "numba", options.repeats)
    numpy = measure_engine(workload, "numpy", options.repeats)
    names = (
        "lists of ten items for each user",
        "all measures beyond accuracy of these lists",
        "evaluation by popularity and by activity",
    )
    rows = []
    for name, numba_share, numpy_share in zip(names, numba, numpy, strict=True):
        rows.append((name, f"{numba_share:.2f}", f"{numpy_share:.2f}"))
    deliver("segments", markdown(("addition", "Numba", "NumPy"), rows), options.write)


if __name__ == "__main__":
    main()
