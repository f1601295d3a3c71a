"""The gate on recommenders that were trained on the training part and the test part together.

`python -m benchmarks.gate_leaks` compares three baselines after this mistake with the same baselines without it, on
public logs of at most 2,000 items and on simulated logs. It prints how much recall@10 they gain, how many of them
`evaluate` warns about, and how many the gate stops: as it is, without the warning, and with `--suspicious 0.2`. The
last column is the number of such warnings about the baselines without the mistake. `--splits N` sets the number of
random splits of each log, and `--write docs/regression-tests-accuracy.md` puts the table into the page.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import ipseval
from benchmarks.page import add_write_option, deliver
from benchmarks.sanity import ROOT, fit_scores, join_parts, read_logs
from ipseval.data.splits import split_random
from ipseval.testing import gate
from reproductions.tables import markdown

MOST_ITEMS = 2000  # EASE inverts a matrix of this size
BASELINES = ("item_knn", "ease", "pure_svd")
N_SIMULATED_USERS = 3000
N_SIMULATED_ITEMS = 500
HEADER = (
    "log",
    *(f"{baseline} gains" for baseline in BASELINES),
    "leaked, with a warning of the scores",
    "leaked, stopped",
    "leaked, stopped without the check of the scores",
    "leaked, stopped with --suspicious 0.2",
    "correct, with a warning of the scores",
)


def list_splits(n_splits: int) -> Iterator[tuple[str, list[ipseval.Split]]]:
    """Yield random splits of public logs, and pairs of simulated logs in which popularity decides most."""
    folder = Path(os.environ.get("IPSEVAL_DATA") or ROOT.parent / "shared" / "data")
    for name, log in read_logs(folder):
        if log.n_items <= MOST_ITEMS:
            yield name, [split_random(log, rng=seed) for seed in range(n_splits)]
    splits = []
    for seed in range(n_splits):
        world = ipseval.simulation.World(
            n_users=N_SIMULATED_USERS, n_items=N_SIMULATED_ITEMS, mean_relevant=40, rng=seed
        )
        splits.append(world.split(rng=seed))
    yield "simulated", splits


def evaluate_baseline(name: str, log: ipseval.Interactions, split: ipseval.Split) -> ipseval.Evaluation:
    """Return recall@10 of a baseline that was trained on a log."""
    return ipseval.evaluate({name: fit_scores(name, log)}, split, metrics=["recall@10"])


def format_gain(gain: float) -> str:
    """Return a relative gain in percent, with its sign unless it is 0."""
    if abs(gain) < 0.005:
        return "0%"
    return f"{gain:+,.0%}".replace("-", "−")


def warns_of_leak(evaluation: ipseval.Evaluation) -> bool:
    """Return whether an evaluation warns that its recommender was trained on the test part."""
    return any(warning.code == "test-like-training" for warning in evaluation.sanity)


def summarise_log(name: str, splits: list[ipseval.Split]) -> tuple[str, ...]:
    """Return the row of a log under `HEADER`."""
    gains: dict[str, list[float]] = {baseline: [] for baseline in BASELINES}
    n_stopped: Counter[str] = Counter()
    n_decisions = len(splits) * len(BASELINES)
    for split in splits:
        for baseline in BASELINES:
            correct = evaluate_baseline(baseline, split.train, split)
            leaked = evaluate_baseline(baseline, join_parts(split), split)
            decision = gate(leaked, correct)
            gains[baseline].append(decision.difference / decision.old)
            n_stopped["warned"] += warns_of_leak(leaked)
            n_stopped["stopped"] += not decision.has_passed
            n_stopped["by gain"] += not gate(replace(leaked, sanity=()), correct).has_passed
            n_stopped["strict"] += not gate(leaked, correct, suspicious=0.2).has_passed
            n_stopped["correct"] += warns_of_leak(correct)
    cells = [format_gain(float(np.mean(values))) for values in gains.values()]
    kinds = ("warned", "stopped", "by gain", "strict", "correct")
    counts = [f"{n_stopped[kind]} of {n_decisions}" for kind in kinds]
    return name, *cells, *counts


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=3, help="random splits of each log; default: 3")
    add_write_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name, splits in list_splits(options.splits):
        rows.append(summarise_log(name, splits))
        print(*rows[-1], sep="; ", flush=True)
    deliver("gate leaks", markdown(HEADER, rows), options.write)


if __name__ == "__main__":
    main()
