"""Simulated impressions of a shop, and the top lists of two versions of its recommender, as files.

The cookbook and the page docs/reports/two-versions.html are made from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

N_USERS, N_ITEMS, LENGTH = 120, 60, 20


def write_impressions(folder: Path) -> None:
    """Write impressions.parquet, recs_v1.parquet and recs_v2.parquet.

    Some impressions are repeated, some users have no list, and some lists hold unknown items.
    """
    rng = np.random.default_rng(2)
    users = [f"u_{code:04d}" for code in range(N_USERS)]
    items = np.array([f"sku-{code:03d}" for code in range(N_ITEMS)])
    popular = 1 / np.arange(1, N_ITEMS + 1)
    popular /= popular.sum()
    taste = rng.normal(size=(N_USERS, N_ITEMS))
    start = pd.Timestamp("2026-03-01", tz="UTC")
    rows = []
    for user in range(N_USERS):
        for _ in range(int(rng.integers(3, 9))):
            time = start + pd.Timedelta(minutes=int(rng.integers(0, 60 * 24 * 60)))
            slate = rng.choice(N_ITEMS, 10, replace=False, p=popular)
            chance = 0.6 / (1 + np.exp(-taste[user, slate])) / np.arange(1, 11) ** 0.5
            clicked = rng.random(10) < chance
            rows += [
                (users[user], items[item], time, place + 1, 10 * popular[item], bool(clicked[place]))
                for place, item in enumerate(slate)
            ]
    names = ["user_id", "item_id", "ts", "position", "p_shown", "clicked"]
    pd.DataFrame(rows, columns=names).to_parquet(folder / "impressions.parquet")
    for name, scores in (("v1", np.log(popular) + 0.5 * taste), ("v2", 0.3 * np.log(popular) + taste)):
        columns = ["user_id", "item_id", "rank"]
        entries = pd.DataFrame(list_version(users, items, scores, rng), columns=columns)
        entries.to_parquet(folder / f"recs_{name}.parquet")


def list_version(
    users: list[str], items: np.ndarray, scores: np.ndarray, rng: np.random.Generator
) -> Iterator[tuple[str, str, int]]:
    """Yield the lists of a version, of all users but 5 %; one in ten holds an unknown item."""
    for user in np.flatnonzero(rng.random(len(users)) < 0.95):
        ids = items[np.argsort(-scores[user])[:LENGTH]].tolist()
        if rng.random() < 0.1:
            ids[int(rng.integers(LENGTH))] = f"sku-NEW{rng.integers(9)}"
        yield from ((users[user], item, rank) for rank, item in enumerate(ids, start=1))
