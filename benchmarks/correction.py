"""What a correction costs beside the ranking that it needs, in processor time of one thread.

    python benchmarks/correction.py                        # simulated worlds
    python benchmarks/correction.py --kuairand FOLDER      # and KuaiRand, eight recommenders

From the log alone, with 500 exposed users, and with all of them. The ranking is that of held-out positives,
of what was shown at random, and of the candidates that predictions are compared on.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from clocks import in_turn
from page import add_write_option, deliver

from ipseval import RandomExposure, Split, correct, split_random
from ipseval.correction import rank_with_exposure
from ipseval.validation.datasets import load_kuairand
from ipseval.validation.simulation import World
from reproductions.correction_coat import recommenders
from reproductions.tables import markdown

METRICS = ("atop", "recall@10", "mean_dcg@10")


def compare(
    name: str, models: Mapping[str, Any], split: Split, exposure: RandomExposure, repeats: int
) -> list[tuple[str, ...]]:
    """Return what the ranking and `correct` take, and the rest of the second as a share of the first."""
    rows = []
    users = np.unique(exposure.user)
    drawn = np.random.default_rng(0).choice(users, min(500, users.size), replace=False)
    parts = {"none": None, "500": exposure.select(np.isin(exposure.user, drawn)), "all": exposure}
    for label, shown in parts.items():
        runs: dict[str, Callable[[], object]] = {
            "ranking": lambda shown=shown: rank_with_exposure(models, split, shown),
            "whole": lambda shown=shown: correct(
                models, split, random_exposure=shown, metrics=METRICS, rng=0
            ),
        }
        ranking, whole = (statistics.median(values) for values in in_turn(runs, repeats).values())
        seconds = (f"{ranking:.2f}", f"{whole:.2f}", f"{whole / ranking - 1:.2f}")
        rows.append((name, str(len(models)), label, *seconds))
        print(" | ".join(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kuairand", type=Path, metavar="FOLDER", help="the original files of KuaiRand")
    parser.add_argument("--repeats", type=int, default=3)
    add_write_option(parser)
    options = parser.parse_args()
    rows = []
    warnings.simplefilter("ignore")
    for n_users, n_items, relevant in ((2_000, 1_000, 30.0), (15_000, 5_000, 60.0)):
        world = World(n_users=n_users, n_items=n_items, mean_relevant=relevant, rng=0)
        split, study = world.split(rng=1), world.study(1)
        shown = RandomExposure.from_ratings(study.random, threshold=study.threshold)
        models = world.example_models(split, rng=2)
        rows += compare(f"simulated, {n_users:,} × {n_items:,}", models, split, shown, options.repeats)
    if options.kuairand:
        study = load_kuairand(options.kuairand)
        split = split_random(study.positives().biased, test_fraction=0.2, rng=0)
        models = {name: train(split.train) for name, train in recommenders().items()}
        shown = RandomExposure.from_ratings(study.random, threshold=study.threshold)
        rows += compare("KuaiRand", models, split, shown, options.repeats)

    header = (
        "log, users × items",
        "recommenders",
        "users with random exposure",
        "ranking, s",
        "`correct`, s",
        "remainder × ranking",
    )
    deliver("correction", markdown(header, rows), options.write)


if __name__ == "__main__":
    main()
