"""Compare the processor time of `ipseval.rank_positives` with another commit, in alternating processes.

    python benchmarks/ranking.py --against 64e6b051              # version 1.0.0
    python benchmarks/ranking.py --against HEAD~10 --cases W2 --rounds 9

Every process ranks all cases a few times after a warm-up and reports the median of `rank_positives`
relative to the bare product of the same factors, because the clock of a shared machine changes. The
table shows the median over the rounds for both commits, and the ratio of the two in each round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

from clocks import measure_in_turn
from page import add_write_option, deliver
from run import ROOT, git
from workloads import Product, make

from reproductions.tables import markdown

CASES = ("W1", "W2", "W3")


def measure_ranking(name: str, repeats: int) -> float:
    """Return the processor time of `rank_positives` relative to the product, on a synthetic workload."""

    import ipseval

    workload = make(name)
    factors = (workload.user_factors, workload.item_factors)
    compute = ipseval.ComputeOptions(n_threads=os.cpu_count(), progress=False)
    runs = {
        "product": partial(Product([factors]).multiply, 1),
        "ranking": partial(ipseval.rank_positives, factors, workload.split, compute=compute),
    }
    times = measure_in_turn(runs, repeats)
    return times["ranking"].processor_ratio(times["product"])


def run_process(tree: Path, options: argparse.Namespace) -> dict[str, float]:
    """Return the ratios by case, measured in a process that imports the library of `tree`."""
    command = [sys.executable, __file__, "--cases", *options.cases, "--repeats", str(options.repeats)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree), str(ROOT)])}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare_commits(options: argparse.Namespace) -> str:
    """Return a table of the ratios of this commit and of another one."""
    ratios: dict[str, list[dict[str, float]]] = {"this": [], "other": []}
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        git("worktree", "add", "--detach", str(other), options.against)
        trees = {"this": ROOT, "other": other}
        try:
            for number in range(options.rounds):
                for label in sorted(trees, reverse=bool(number % 2)):
                    ratios[label].append(run_process(trees[label], options))
                print(number, ratios["this"][-1], ratios["other"][-1], flush=True)
        finally:
            git("worktree", "remove", "--force", str(other))

    rows = []
    for name in options.cases:
        this = [ratio[name] for ratio in ratios["this"]]
        that = [ratio[name] for ratio in ratios["other"]]
        changes = sorted(a / b for a, b in zip(this, that, strict=True))
        row = (
            name,
            f"{statistics.median(that):.2f}",
            f"{statistics.median(this):.2f}",
            f"{statistics.median(changes):.3f}",
            f"{changes[0]:.3f}–{changes[-1]:.3f}",
        )
        rows.append(row)
    other_name = f"{options.against}, × product"
    return markdown(("workload", other_name, "this commit, × product", "this ÷ other", "range"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="REV", help="a commit to compare with")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--rounds", type=int, default=7, help="pairs of processes; default: 7")
    parser.add_argument("--repeats", type=int, default=3, help="calls in each process; default: 3")
    add_write_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")

    if options.against is None:
        print(json.dumps({name: measure_ranking(name, options.repeats) for name in options.cases}))
        return
    deliver("ranking", compare_commits(options), options.write)


if __name__ == "__main__":
    main()
