"""What groups and measures of lists cost beside the ranking that they read, in processor time on W1.

    python benchmarks/segments.py [--scale-users X]

Prints, for each engine, the ranking with one thread, and as shares of it: keeping the first ten items of each
user together with all measures beyond accuracy, and an evaluation by popularity and by activity.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import clocks
import numpy as np
from workloads import make

import ipseval
from ipseval.evaluation.beyond import MEASURES
from ipseval.evaluation.segments import TrainingCounts

REPEATS = 3


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least processor time of some runs, and the result."""
    found: list[Any] = []
    return min(clocks.seconds(lambda: found.append(work())) for _ in range(REPEATS)), found[-1]


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale-users", type=float, default=1.0, metavar="X")
    work = make("W1", scale_users=parser.parse_args().scale_users)
    split, model = work.split, (work.user_factors, work.item_factors)
    vectors = np.asarray(work.item_factors, dtype=np.float64)
    labels = [f"{name}@10" for name in MEASURES]
    propensity = ipseval.PowerLawPropensity(gamma=0, unseen="smooth").fit(split.train)
    counts = TrainingCounts.of(split.train)
    warnings.simplefilter("ignore")
    for engine in ("numba", "numpy"):
        compute = ipseval.ComputeOptions(engine=engine, n_threads=1)
        ipseval.rank_positives(model, split, compute=compute, top_k=10)  # compiled, and in memory
        plain, ranked = seconds(lambda one=compute: ipseval.rank_positives(model, split, compute=one))
        kept, lists = seconds(lambda one=compute: ipseval.rank_positives(model, split, compute=one, top_k=10))
        measured, _ = seconds(
            lambda ranks=lists: ipseval.beyond_accuracy(
                {"m": ranks}, split, measures=labels, item_vectors=vectors
            )
        )
        evaluation = ipseval.evaluate_ranks({"m": ranked}, propensity=propensity, low_ess="ignore")
        groups, _ = seconds(
            lambda one=evaluation: [one.by(by, counts=counts).frame for by in ("popularity", "activity")]
        )
        print(f"{engine}: ranking {plain:.2f} s")
        print(f"  lists of ten        {(kept - plain) / plain:6.3f} of it")
        print(f"  {len(labels)} measures of lists {measured / plain:6.3f}")
        print(f"  both                {(kept - plain + measured) / plain:6.3f}")
        print(f"  two groupings       {groups / plain:6.3f}")


if __name__ == "__main__":
    main()
