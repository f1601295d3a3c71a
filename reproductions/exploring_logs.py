"""When the report of `correct` warns of a log that a recommender produced, by the share of random slots.

    python -m reproductions.exploring_logs [--worlds 6] [--write]

Logs of the second simulator in which a recommender fills the slates from its own log, with more and more random
slots. *Reach* is the size of the correction at a strength of 0.45 relative to AOA above chance, mean over the
logs; below 0.25 the report says that the model of exposure does not fit the log. Coverage is of
atop, recall@5 and mean_dcg@10. Five minutes of processor time.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ipseval.correction import CORRECTED, correct_path
from reproductions import feedback_worlds
from reproductions.correction_truth import PAGE, of_world, scores
from reproductions.tables import deliver, markdown

SEED = 640
SHARES = (0.015, 0.05, 0.1, 0.2, 0.4)
SIZES = (0, 25, 100)


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
    for share in SHARES:
        for number in range(options.worlds):
            rows += judge_share(share, number)
    made = table(pd.DataFrame(rows))
    print(made)
    deliver({"truth-exploring": made}, PAGE if options.write else None)


if __name__ == "__main__":
    main()
