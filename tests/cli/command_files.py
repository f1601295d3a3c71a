"""Files that commands are tried on."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ipseval.validation.simulation import World

FAST = ("--model", "popularity", "--model", "random", "--metrics", "recall@5")
QUICK = (*FAST[:-1], "auc")  # no average over relevant items, so nothing is corrected


def write_files() -> None:
    """Write a log, ratings, impressions, lists and random exposure into the working folder."""
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame(np.argwhere(rng.random((40, 30)) < 0.3), columns=["user_id", "sku"])
    pairs = pairs.assign(ts=1_700_000_000 + rng.permutation(len(pairs)), plays=rng.integers(1, 6, len(pairs)))
    pairs.to_csv("log.csv", index=False)
    pd.concat([pairs] * 2).to_csv("twice.csv", index=False)
    pairs.rename(columns={"user_id": "who", "sku": "what"}).to_csv("odd.csv", index=False)
    shown = pd.DataFrame({"user": np.repeat(range(40), 10), "item": np.tile(range(10), 40)})
    shown = shown.assign(
        position=np.concatenate([rng.permutation(10) + 1 for _ in range(40)]), clicked=rng.random(400) < 0.4
    )
    shown.to_csv("impressions.csv", index=False)
    pd.DataFrame({"user": np.repeat(range(40), 3), "item": [1, 2, 99] * 40, "rank": [1, 2, 3] * 40}).to_csv(
        "lists.csv", index=False
    )
    pd.DataFrame({"user": range(40), "age": ["old", "young"] * 20}).to_csv("users.csv", index=False)
    vectors = pd.DataFrame(rng.normal(size=(30, 3)), columns=["x", "y", "z"])
    np.save("vectors.npy", vectors.to_numpy())
    vectors.assign(sku=range(30)).to_csv("vectors.csv", index=False)
    exposure = World(n_users=40, n_items=30, mean_relevant=8, rng=0).expose(5, 1).to_frame()
    exposure.to_csv("shown.csv", index=False)
    pd.DataFrame({"item": range(20)}).to_csv("items.csv", index=False)
