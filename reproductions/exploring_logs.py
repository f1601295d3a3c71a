"""When the report of `correct` warns of a log that a recommender produced, by the share of random slots.

    python -m reproductions.exploring_logs [--worlds 6] [--write]

Logs of the second simulator in which a recommender fills the slates from its own log, with more and more random
slots. *Reach* is the size of the correction at a strength of 0.45 relative to AOA above chance, mean over the
logs; below 0.25 the report says that the model of exposure does not fit the log. Coverage is of
atop, recall@5 and mean_dcg@10.

A second table passes the random slots of the log itself as random exposure, with clicks as answers (users click here
what they see and like): those of all rounds or of the test period, and with or without the same slots in the log. It
has the random sample, too. Ten minutes of processor time in all.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ipseval import correct
from ipseval.correction import CORRECTED, RANDOM_SAMPLE, correct_path
from reproductions import feedback_worlds
from reproductions.correction_family import METRICS
from reproductions.correction_truth import PAGE, of_world, scores
from reproductions.tables import deliver, markdown

SEED = 640
SHARES = (0.015, 0.05, 0.1, 0.2, 0.4)
SIZES = (0, 25, 100)
# (the passed slots are of the test period only, they are taken out of the log, the service shows nothing twice)
RECIPES = ((False, True, False), (True, True, False), (True, False, False), (True, False, True))


def judge_share(share: float, number: int) -> Iterator[dict[str, Any]]:
    """Yield the scores of the correction on one log with a share of random slots."""
    rng = np.random.default_rng([SEED, number, int(1000 * share)])
    world = feedback_worlds.build("explore", feedback_worlds.HELD_OUT, rng, explored=share)
    case = of_world(world.simulated(np.random.default_rng(number)))
    for size in SIZES:
        shown, truth, error = case.draw(size, np.random.default_rng([SEED, number, size]))
        for name, path in case.paths.items():
            correction = correct_path(path, shown)
            for row in scores(correction, truth, error):
                if row["estimator"] == CORRECTED:
                    yield row | {"share": share, "size": size, "estimator": name, "reach": path.reach}


def judge_recipes(share: float, number: int) -> Iterator[dict[str, Any]]:
    """Yield the scores on one log whose random slots are passed as random exposure."""
    for test_only, removes_random, hides_shown in RECIPES:
        rng = np.random.default_rng([SEED, number, int(1000 * share)])
        world = feedback_worlds.build(
            "explore",
            feedback_worlds.HELD_OUT,
            rng,
            explored=share,
            removes_random=removes_random,
            hides_shown=hides_shown,
        )
        exposure = world.expose_random_slots(share, test_only=test_only)
        correction = correct(world.models, world.split, random_exposure=exposure, metrics=METRICS, rng=number)
        truth = world.truth()
        for row in scores(correction, truth, np.zeros(truth.size)):
            if row["estimator"] in (CORRECTED, RANDOM_SAMPLE):
                recipe = {
                    "test_only": test_only,
                    "removes_random": removes_random,
                    "hides_shown": hides_shown,
                }
                yield row | {"share": share} | recipe


def recipe_table(rows: pd.DataFrame) -> str:
    """Return warnings, error, coverage and ranking by share of random slots, their use, and estimator."""
    lines = []
    keys = ["share", "test_only", "removes_random", "hides_shown", "estimator"]
    for (share, test_only, removes_random, hides_shown, estimator), part in rows.groupby(keys, sort=False):
        lines.append(
            (
                f"{100 * share:g}",
                "test period" if test_only else "all rounds",
                "no" if removes_random else "yes",
                "what was shown" if hides_shown else "what was seen",
                str(estimator),
                "" if estimator == RANDOM_SAMPLE else f"{100 * part['warned'].mean():.0f}",
                f"{part['error'].mean():.3f}",
                f"{100 * part['covered'].mean():.0f}",
                f"{part['tau'].mean():.2f}",
            )
        )
    header = (
        "random slots, %",
        "passed slots",
        "also in the log",
        "not repeated",
        "estimator",
        "warned, %",
        "error",
        "coverage, %",
        "τ",
    )
    return markdown(header, lines)


def table(rows: pd.DataFrame) -> str:
    """Return warnings and coverage by share of random slots, estimator and number of exposed users."""
    lines = []
    for (share, size, estimator), part in rows.groupby(["share", "size", "estimator"], sort=False):
        lines.append((
            f"{100 * share:g}", f"{size}", str(estimator), f"{part['reach'].mean():.2f}",
            f"{100 * part['warned'].mean():.0f}", f"{100 * part['covered'].mean():.0f}",
        ))  # fmt: skip
    header = ("random slots, %", "exposed users", "estimator", "reach", "warned, %", "coverage, %")
    return markdown(header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=6, help="logs of each share")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    recipe_rows = []
    for share in SHARES:
        for number in range(options.worlds):
            rows += judge_share(share, number)
            recipe_rows += judge_recipes(share, number)
    tables = {
        "truth-exploring": table(pd.DataFrame(rows)),
        "exploring-recipes": recipe_table(pd.DataFrame(recipe_rows)),
    }
    print("\n\n".join(tables.values()))
    deliver(tables, PAGE if options.write else None)


if __name__ == "__main__":
    main()
