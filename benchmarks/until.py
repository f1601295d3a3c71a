"""Coverage and cost of stopping early, `evaluate(until=…)`, in simulated worlds.

    python benchmarks/until.py                 # 1,000 runs of each world, in 5 to 10 minutes
    python benchmarks/until.py --runs 100

In every run users are drawn anew: one to thirty positives each, ranks that depend on the popularity of the
item and on the user, weights over a range of a hundred. The truth, and the variance from which the fixed
number of users follows, are those of a million users. Printed for each world and estimate: the share of runs
in which the interval after stopping holds the truth, and the median number of users as a multiple of the
fixed one: the users whose plain 95 % interval has the half-width that was asked for.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import ipseval
from ipseval import Interactions, KnownPropensity, RankedPositives, Split, Until
from ipseval.splits._base import made

N_ITEMS = 1_000
N_TRUTH = 1_000_000
Z = 1.959964
METRIC = "recall@10"
# name -> (estimators, of, users that a fixed sample needs, weights spread as n*^spread)
WORLDS = {
    "levels, mean": (["aoa"], "levels", 3_000, 0.0),
    "levels, weighted": (["snips-global"], "levels", 3_000, 0.7),
    "levels, weighted per user": (["snips"], "levels", 3_000, 0.7),
    "differences, mean": (["aoa"], "differences", 3_000, 0.0),
    "differences, weighted": (["snips-global"], "differences", 3_000, 0.7),
}
POPULARITY = (1.0 + np.arange(N_ITEMS)) ** -0.8


def draw(rng: np.random.Generator, n_users: int) -> tuple[Split, dict[str, RankedPositives]]:
    """Return test positives of new users, and their ranks by two recommenders."""
    counts = 1 + np.minimum(rng.geometric(0.25, n_users) - 1, 29)
    user = np.repeat(np.arange(n_users), counts)
    item = rng.choice(N_ITEMS, user.size, p=POPULARITY / POPULARITY.sum())
    key = np.unique(user * N_ITEMS + item)
    user, item = key // N_ITEMS, key % N_ITEMS
    taste = rng.normal(size=n_users)[user]
    ids = np.arange(n_users), np.arange(N_ITEMS)
    log = Interactions(user, item, *ids)
    ranks = {}
    for name, skill in (("a", 1.0), ("b", 1.15)):
        level = skill * (0.5 * taste - 0.004 * item - 2.2) + rng.normal(size=user.size)
        above = np.floor((N_ITEMS - 1) / (1 + np.exp(2 * level + 8))).astype(np.int64)
        none, all_items = np.zeros(user.size, np.int64), np.full(user.size, N_ITEMS)
        ranks[name] = RankedPositives.trusted(
            user=user,
            item=item,
            n_above=above,
            n_tied=none,
            n_candidates=all_items,
            user_ids=ids[0],
            item_ids=ids[1],
        )
    empty = log.select(np.zeros(len(log), dtype=bool))
    return made(empty, log), ranks


def options(estimators: list[str], spread: float, split: Split) -> dict[str, object]:
    propensity = KnownPropensity(item=(POPULARITY**spread)).fit(split.train) if spread else None
    return {
        "propensity": propensity,
        "metrics": [METRIC],
        "estimators": estimators,
        "on_low_ess": "ignore",
    }


def values(evaluation: ipseval.Evaluation, of: str) -> np.ndarray:
    """Return estimate, standard error, low and high of each recommender, or of their difference."""
    if of == "levels":
        return evaluation.frame[["estimate", "std_error", "ci_low", "ci_high"]].to_numpy()
    return evaluation.compare()[["difference", "std_error", "ci_low", "ci_high"]].to_numpy(float)


def measure(name: str, n_runs: int, seed: int) -> tuple[np.ndarray, float, float, float]:
    """Return coverage of each estimate, the median and 90th percentile of the ratio, and n of one look."""
    estimators, of, n_fixed, spread = WORLDS[name]
    rng = np.random.default_rng(seed)
    split, ranks = draw(rng, N_TRUTH)
    truth = values(ipseval.evaluate(ranks, split, **options(estimators, spread, split)), of)
    width = Z * truth[:, 1].max() * np.sqrt(N_TRUTH / n_fixed)
    held, users = [], []
    for _ in range(n_runs):
        split, ranks = draw(rng, 2 * n_fixed)
        asked = options(estimators, spread, split)
        found = ipseval.evaluate(ranks, split, **asked, until=Until(width, of=of), rng=rng)
        low, high = values(found, of)[:, 2:].T
        assert (high - low).max() / 2 <= width * (1 + 1e-9)
        held.append((low <= truth[:, 0]) & (truth[:, 0] <= high))
        users.append(found.extent.n_users / n_fixed)
    return np.mean(held, axis=0), float(np.median(users)), float(np.quantile(users, 0.9)), width


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", ipseval.errors.DataWarning)  # few positives per user, as is the world
    for name in chosen.worlds:
        start = time.process_time()
        coverage, median, most, width = measure(name, chosen.runs, chosen.seed)
        took = time.process_time() - start
        shown = ", ".join(f"{100 * one:.1f} %" for one in coverage)
        print(
            f"{name:25} ± {width:.4f}: coverage {shown}; users, as multiples of {WORLDS[name][2]:,}: median "
            f"{median:.2f}, 90 % below {most:.2f} ({chosen.runs:,} runs, {took:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
