"""What doubly robust estimation adds to the ranking, in processor time of one thread.

    python benchmarks/doubly_robust.py [--workload W1] [--models 5] [--depth 50]

Five recommenders, five metrics, `dr` and `dm` with an item and with a factor reward model, against ranking
the test positives of the same recommenders. Impressions: the test positives and 20 more pairs for each user.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial

import numpy as np
from clocks import in_turn
from page import add_write_option, deliver
from workloads import SIZES, make

import ipseval
from ipseval import ComputeOptions, ImpressionLog, KnownPropensity, rank_positives
from ipseval.policies.rewards import FactorReward, ItemReward, RewardModel, Rewards
from reproductions.tables import markdown

METRICS = ("recall@5", "recall@10", "precision@10", "dcg@10")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=sorted(SIZES), default="W1")
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--engine", choices=("numpy", "numba"), default="numba")
    parser.add_argument("--depth", type=int, default=50, help="the places that the fifth metric reads")
    parser.add_argument("--repeats", type=int, default=5)
    add_write_option(parser)
    options = parser.parse_args()
    work, rng = make(options.workload), np.random.default_rng(1)
    split, compute = work.split, ComputeOptions(n_threads=1, engine=options.engine)
    models = {}
    for number in range(options.models):
        noise = rng.normal(scale=0.1 * number, size=work.user_factors.shape).astype(np.float32)
        models[f"m{number}"] = (work.user_factors + noise, work.item_factors)
    key = rng.integers(0, split.n_users * split.n_items, 20 * split.n_users)
    key = np.union1d(np.setdiff1d(key, split.train.pair_key), split.test.pair_key)
    user, item = np.divmod(key, split.n_items)
    log = ImpressionLog(user, item, split.user_ids, split.item_ids, np.isin(key, split.test.pair_key))
    known = KnownPropensity(item=np.full(split.n_items, 0.05))
    warnings.simplefilter("ignore")

    def ranking() -> None:
        for model in models.values():
            rank_positives(model, split, compute=compute)

    def evaluating(reward: RewardModel) -> None:
        ipseval.policies.evaluate_rewards(
            models,
            split,
            Rewards(log, reward, rng=0),
            propensity=known,
            metrics=(*METRICS, f"mean_dcg@{options.depth}"),
            estimators=["dm", "dr"],
            low_ess="ignore",
            compute=compute,
        )

    rewards = {
        type(reward).__name__: partial(evaluating, reward) for reward in (ItemReward(), FactorReward())
    }
    found = in_turn({"ranking": ranking, **rewards}, options.repeats)
    base = np.array(found.pop("ranking"))
    rows = [("ranking", f"{np.median(base):.2f}", "1")]
    for name, seconds in found.items():
        ratio = np.median(np.array(seconds) / base)
        rows.append((f"`dm` and `dr` with `{name}`", f"{np.median(seconds):.2f}", f"{ratio:.2f}"))
    deliver("doubly-robust", markdown(("call", "s", "× ranking"), rows), options.write)


if __name__ == "__main__":
    main()
