"""What 200 values of γ cost beside one evaluation of the same ranks, in processor time.

    python benchmarks/sensitivity.py [--repeats N]

Ranks of 5 recommenders for 20,000 users, by a power law; without standard errors, with them, and with ndcg, a
metric whose denominator depends on the weights.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import numpy as np
from clocks import in_turn
from inference import ranked_positives

from ipseval import PowerLawPropensity, evaluate_ranks

LINEAR = ("auc", "recall@5", "recall@10", "recall@20", "mean_dcg@10", "dcg@10")
ESTIMATORS = ("snips", "snips-global")
GRID = np.linspace(-1, 3, 200)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    ranks = {f"model {n}": one for n, one in enumerate(ranked_positives(np.random.default_rng(0)))}
    first = next(iter(ranks.values()))
    popularity = np.maximum(np.bincount(first.item, minlength=first.item_ids.size), 1)
    propensity = PowerLawPropensity(gamma=1.0).fit(popularity=popularity)
    for metrics in (LINEAR, ("ndcg@10",)):
        runs: dict[str, Callable[[], object]] = {
            "evaluation": lambda metrics=metrics: evaluate_ranks(
                ranks, propensity=propensity, metrics=metrics, estimators=ESTIMATORS, low_ess="ignore"
            )
        }
        evaluation = runs["evaluation"]()
        for errors in (False, True):
            runs[f"errors {errors}"] = lambda of=evaluation, errors=errors: of.sensitivity(
                gamma=GRID, standard_errors=errors
            )
        medians = {name: statistics.median(values) for name, values in in_turn(runs, options.repeats).items()}
        for name, seconds in medians.items():
            ratio = seconds / medians["evaluation"]
            print(f"{', '.join(metrics)}: {name:14} {seconds:7.3f} s, {ratio:6.1f} × evaluation", flush=True)


if __name__ == "__main__":
    main()
