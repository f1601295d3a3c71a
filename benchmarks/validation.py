"""What a validation costs beside the rankings that it needs, in processor time.

    python benchmarks/validation.py                     # simulated worlds
    python benchmarks/validation.py --coat FOLDER       # and Coat, from its original files

All propensities, metrics and estimators of `ipseval validate`, one split, recommenders trained before. The
rankings are those of held-out and random positives by each recommender, and its lists, which γ from lists
reads.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from clocks import in_turn
from page import add_write_option, deliver

from ipseval import Interactions, rank_positives, split_random
from ipseval.data.random_exposure import RandomExposure
from ipseval.propensity import count_recommendations
from ipseval.ranking import top_items
from ipseval.validation import default_models, default_propensities, validate
from ipseval.validation.datasets import STUDIES, RandomExposureStudy
from ipseval.validation.simulation import World
from ipseval.validation.validation_study import METRICS, NOT_A_LOGGER
from reproductions.tables import markdown

ESTIMATORS = ("snips", "snips-global", "snips-pooled")


def compare(name: str, study: RandomExposureStudy, repeats: int) -> tuple[str, ...]:
    """Return the processor time of the rankings and of the validation, and their ratios."""
    split = split_random(study.positives().biased, test_fraction=0.2, rng=0)
    models = {label: train(split.train) for label, train in default_models().items()}
    shown = RandomExposure.from_ratings(study.random, threshold=study.threshold).exclude(split.train)
    key = np.unique(np.concatenate([split.test.pair_key, shown.pair_key[shown.positive]]))
    both = Interactions(key // split.n_items, key % split.n_items, split.user_ids, split.item_ids)
    union, propensities = replace(split, test=both), default_propensities(study)
    given = {"propensities": propensities, "metrics": METRICS, "estimators": ESTIMATORS}
    runs: dict[str, Callable[[], object]] = {
        "ranks": lambda: [rank_positives(one, union, name=label) for label, one in models.items()],
        "lists": lambda: [
            count_recommendations(top_items(one, split, k=50), split.train, rng=0)
            for label, one in models.items()
            if label not in NOT_A_LOGGER
        ],
        "validate": lambda: validate(models, study, split=split, rng=0, **given),
    }
    ranks, lists, whole = (statistics.median(values) for values in in_turn(runs, repeats).values())
    size = f"{name}, {split.n_users:,} × {split.n_items:,}"
    seconds = [f"{value:.2f}" for value in (ranks, lists, whole)]
    ratios = [f"{whole / ranks:.1f}", f"{whole / (ranks + lists):.1f}"]
    row = (size, str(len(models)), str(len(propensities)), *seconds, *ratios)
    print(" | ".join(row), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--coat", metavar="FOLDER", help="the original files of Coat")
    parser.add_argument("--repeats", type=int, default=3)
    add_write_option(parser)
    options = parser.parse_args()
    rows = []
    warnings.simplefilter("ignore")  # what propensities say of these worlds is not the question
    if options.coat:
        rows.append(compare("Coat", STUDIES["coat"](options.coat), options.repeats))
    for n_users, n_items, relevant in ((2_000, 1_000, 30.0), (15_000, 1_000, 60.0), (15_000, 5_000, 60.0)):
        world = World(n_users=n_users, n_items=n_items, mean_relevant=relevant, rng=0)
        rows.append(compare("simulated", world.study(1), options.repeats))
    header = (
        "log, users × items",
        "recommenders",
        "propensities",
        "ranks, s",
        "lists, s",
        "`validate`, s",
        "× ranks",
        "× ranks and lists",
    )
    deliver("validation", markdown(header, rows), options.write)


if __name__ == "__main__":
    main()
