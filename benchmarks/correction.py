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

from ipseval import RandomExposure, Split, correct, split_random
from ipseval.correction import rank_with_exposure
from ipseval.validation.datasets import load_kuairand
from ipseval.validation.simulation import World
from reproductions.correction_coat import recommenders

METRICS = ("atop", "recall@10", "mean_dcg@10")


def compare(
    name: str, models: Mapping[str, Any], split: Split, exposure: RandomExposure, repeats: int
) -> None:
    """Print what the ranking and `correct` take, and the rest of the second as a share of the first."""
    users = np.unique(exposure.user)
    drawn = np.random.default_rng(0).choice(users, min(500, users.size), replace=False)
    parts = {"the log": None, "500 users": exposure.select(np.isin(exposure.user, drawn)), "all": exposure}
    for label, shown in parts.items():
        runs: dict[str, Callable[[], object]] = {
            "ranking": lambda shown=shown: rank_with_exposure(models, split, shown),
            "whole": lambda shown=shown: correct(
                models, split, random_exposure=shown, metrics=METRICS, rng=0
            ),
        }
        ranking, whole = (statistics.median(values) for values in in_turn(runs, repeats).values())
        print(
            f"{name}, {len(models)} recommenders, {len(split.test):,} held-out positives, {label}: ranking "
            f"{ranking:.2f} s, correct {whole:.2f} s, {whole / ranking - 1:.2f} × the ranking beyond it",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kuairand", type=Path, metavar="FOLDER", help="the original files of KuaiRand")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for n_users, n_items, relevant in ((2_000, 1_000, 30.0), (15_000, 5_000, 60.0)):
        world = World(n_users=n_users, n_items=n_items, mean_relevant=relevant, rng=0)
        split, study = world.split(rng=1), world.study(1)
        shown = RandomExposure.from_ratings(study.random, threshold=study.threshold)
        compare(
            f"{n_users:,} × {n_items:,}", world.example_models(split, rng=2), split, shown, options.repeats
        )
    if options.kuairand:
        study = load_kuairand(options.kuairand)
        split = split_random(study.positives().biased, test_fraction=0.2, rng=0)
        models = {name: train(split.train) for name, train in recommenders().items()}
        shown = RandomExposure.from_ratings(study.random, threshold=study.threshold)
        compare("KuaiRand", models, split, shown, options.repeats)


if __name__ == "__main__":
    main()
