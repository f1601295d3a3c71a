"""Intervals for the value of another policy at the sparsity of Open Bandit, where the truth is known.

    python -m reproductions.open_bandit_worlds [--logs 400] [--write]

Items at three places have click rates around .5%, and two policies show them: a uniform one, and one that
prefers good items, differently in each of six periods. Each world has another draw of rates and policies for
every fourth log. Each policy's value is estimated from the other's log; the rate in a log of its own is what
the difference is judged against. 10,000 impressions are a log of Open Bandit, 1,667 half of one position.

The interval was chosen in this simulation, with other seeds, out of: normal, normal on the log scale, Student
with the effective number of clicks, and gamma limits that count in a further click of the mean weight
(Tiwari et al.), of the largest weight (Fay & Feuer), or of Σw²/Σw. The last was the shortest of those that
held 95% in the worlds "mild", "steep" and "at random". The covariate of the reward model was chosen there,
too, with seeds of its own. OBP's dr has OBP's reward model, a logistic regression of clicks on the items at
each place with three folds, and the same logs.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from ipseval import ImpressionLog
from reproductions.open_bandit import LABELS, PAGE, Z, formulas, judged, policy_of
from reproductions.tables import markdown, write_tables

SIZES, PERIODS, PLACES, SEED = (10_000, 1_667), 6, (1, 2, 3), 31
# How far rates of items differ (sd of their logarithm), how sharply the policy prefers, how well it knows.
WORLDS = {
    "mild": (34, 0.6, 1.3, 0.5),
    "steep": (34, 0.9, 2.0, 0.6),
    "at random": (46, 0.4, 2.0, 0.0),
    "no overlap": (46, 0.6, 4.0, 0.5),
}


class World:
    """Click rates (n_items, 3) and the chances (n_periods, n_items, 3) of two policies."""

    def __init__(self, kind: str, rng: np.random.Generator, base: float = 0.005) -> None:
        n_items, spread, sharp, known = WORLDS[kind]
        quality = rng.normal(size=n_items)
        rate = np.exp(spread * quality)
        noise = np.exp(0.2 * rng.normal(size=(n_items, 3)))
        self.rate = base * rate[:, None] / rate.mean() * noise * np.array([0.9, 1.1, 1.0])
        own = rng.normal(size=(PERIODS, n_items, 3))
        odds = np.exp(sharp * (known * quality[None, :, None] + np.sqrt(1 - known**2) * own))
        self.chance = {"bts": odds / odds.sum(axis=1, keepdims=True)}
        self.chance["random"] = np.full((1, n_items, 3), 1 / n_items)

    def log(self, policy: str, n: int, rng: np.random.Generator) -> ImpressionLog:
        """Return n impressions, each of a user of its own."""
        chance = self.chance[policy]
        period, place, row = rng.integers(0, len(chance), n), rng.integers(0, 3, n), np.arange(n)
        below = chance.cumsum(axis=1)[period, :, place]
        item = (below < rng.random((n, 1)) * below[:, -1:]).sum(axis=1)
        clicked = rng.random(n) < self.rate[item, place]
        ids = row, np.arange(len(self.rate))
        return ImpressionLog(
            row, item, *ids, clicked, position=place + 1, propensity=chance[period, item, place]
        )


def covered(kind: str, source: str, target: str, n: int, n_logs: int) -> pd.DataFrame:
    """Return one row per log and estimator: whether the value and the difference are held, and widths."""
    rng, rows = np.random.default_rng([SEED, n]), []
    for number in range(n_logs):
        if number % 4 == 0:
            world = World(kind, rng)
        log, other = world.log(source, n, rng), world.log(target, n, rng)
        found, against = judged(log, other, target, PLACES)
        policy = policy_of(other, target, PLACES)
        truth = float((policy * world.rate).sum(axis=0).mean())
        peers = formulas(log, policy, PLACES, number)
        rows += [
            {
                "estimator": row.estimator,
                "value": row.ci_low <= truth <= row.ci_high,
                "normal": abs(row.estimate - truth) <= Z * row.std_error,
                "difference": against.loc[row.estimator, "agrees"],
                "width": (row.ci_high - row.ci_low) / truth,
                "normal width": 2 * Z * row.std_error / truth,
                "error": abs(row.estimate / truth - 1),
                "of obp": abs(peers[row.estimator] / truth - 1),
                "ess": row.ess,
                "clicks": int(log.clicked.sum()),
            }
            for row in found.frame.itertuples()
        ]
    return pd.DataFrame(rows)


def lines(n_logs: int) -> list[list[str]]:
    """Return the rows of the table."""
    made = []
    for source, target in (("random", "bts"), ("bts", "random")):
        for n in SIZES:
            for kind in WORLDS:
                found = covered(kind, source, target, n, n_logs)
                by = found.groupby("estimator")[["value", "difference", "normal"]].mean() * 100
                own = found[found["estimator"] == "dr"]
                width = found["width"].median() / found["normal width"].median()
                made.append(
                    [f"{source} → {target}", f"{n:,}", kind]
                    + [f"{found['ess'].median():,.0f}", f"{found['clicks'].mean():.0f}"]
                    + [f"{by['normal'].min():.0f}–{by['normal'].max():.0f}"]
                    + [f"{by.loc[label, 'value']:.1f}" for label in LABELS]
                    + [f"{by['difference'].min():.1f}–{by['difference'].max():.1f}", f"{width:.1f}"]
                    + [f"{own['error'].mean():.3f}", f"{own['error'].mean() / own['of obp'].mean():.2f}"]
                )
                print(*made[-1], sep=" | ", flush=True)
    return made


HEADER = (
    *("log", "impressions", "world", "ess", "clicks", "normal, %", *(f"{one}, %" for one in LABELS)),
    *("difference, %", "width / normal", "relative error of dr", "in parts of OBP's"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=400)
    parser.add_argument("--write", action="store_true", help="put the table into docs/off-policy.md")
    options = parser.parse_args()
    table = markdown(HEADER, lines(options.logs))
    print(table)
    if options.write:
        write_tables({"policy-coverage": table}, PAGE)


if __name__ == "__main__":
    main()
