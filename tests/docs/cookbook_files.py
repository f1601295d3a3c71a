"""The files that the situations of the cookbook begin with: small, made by a seed, like real ones."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd

from reproductions.shop_files import write_impressions

N_USERS, N_ITEMS = 120, 60


def write_files(folder: Path) -> None:
    """Write all of them."""
    write_ratings(folder)
    write_parts(folder)
    write_impressions(folder)
    write_queries(folder)
    write_small(folder)


def write_ratings(folder: Path) -> None:
    """Write a log of ratings as it is downloaded: tabs, a header, seconds since 1970."""
    rng = np.random.default_rng(1)
    weight = 1 / np.arange(1, N_ITEMS + 1) ** 0.7
    rows = [
        (user + 1, item + 1, int(rng.integers(1, 6)), int(874724710 + rng.integers(0, 10**7)))
        for user in range(N_USERS)
        for item in rng.choice(N_ITEMS, 20, replace=False, p=weight / weight.sum())
    ]
    frame = pd.DataFrame(rows, columns=["user-id", "item-id", "rating", "timestamp"])
    frame.to_csv(folder / "u.data", sep="\t", index=False)


def write_parts(folder: Path) -> None:
    """Write the training part and the test part of a log, and lists of ten items made from the first."""
    rng = np.random.default_rng(5)
    weight = 1 / np.arange(1, N_ITEMS + 1) ** 0.7
    weight /= weight.sum()
    train = []
    test = []
    lists = []
    for user in range(N_USERS):
        taken = rng.choice(N_ITEMS, 15, replace=False, p=weight)
        train += [(user, item) for item in taken[:10]]
        test += [(user, item) for item in taken[10:]]
        scores = np.log(weight) + rng.normal(size=N_ITEMS)
        scores[taken[:10]] = -np.inf
        ranked = np.argsort(-scores)[:10]
        lists += [(user, item, rank) for rank, item in enumerate(ranked, start=1)]
    pd.DataFrame(train, columns=["user", "item"]).to_csv(folder / "train.csv", index=False)
    pd.DataFrame(test, columns=["user", "item"]).to_csv(folder / "test.csv", index=False)
    pd.DataFrame(lists, columns=["user", "item", "rank"]).to_csv(folder / "lists.csv", index=False)


def write_queries(folder: Path) -> None:
    """Write candidates of queries with scores of two versions, and scored triples with negatives."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"query": np.repeat(np.arange(30), 6), "item": np.tile(np.arange(6), 30)})
    frame["user"] = frame["query"] // 3
    frame["label"] = (rng.random(len(frame)) < 0.3).astype(int)
    for name in ("v1", "v2"):
        frame[f"score_{name}"] = (frame["label"] + rng.normal(size=len(frame))).round(3)
    frame.to_csv(folder / "candidates.csv", index=False)
    lines = [
        f"h{head}\tmade\tt{tail}\t{int(tail == 0)}\t{(head + tail) % 3}"
        for head in range(4)
        for tail in range(3)
    ]
    (folder / "triples.tsv").write_text("\n".join(lines) + "\n")


def write_small(folder: Path) -> None:
    """Write what can be read at a glance."""
    clicks = [
        (user, item) for user in ("ann", "bob", "cat") for item in "vwxyz" if (user, item) != ("cat", "v")
    ]
    frame = pd.DataFrame([*clicks, clicks[0]], columns=["user", "item"])  # the first click twice
    frame.to_csv(folder / "clicks.csv", index=False)
    logged = frame[:-1].assign(
        clicked=[1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1], chance=np.linspace(0.1, 1, 14)
    )
    logged.to_csv(folder / "logged.csv", index=False)
    (folder / "test.qrels").write_text("q1 0 d1 2\nq1 0 d2 0\nq2 0 d1 1\nq2 0 d3 1\n")
    run = ["q1 Q0 d9 1 2.5 mine", "q1 Q0 d1 2 1.5 mine", "q2 Q0 d3 1 0.9 mine", "q2 Q0 d2 2 0.1 mine"]
    (folder / "mine.run").write_text("\n".join(run) + "\n")
    np.save(folder / "users.npy", ["ann", "bob", "cat"])
    np.save(folder / "items.npy", list("vwxyz"))
    np.save(folder / "scores.npy", np.arange(15.0).reshape(3, 5) % 7)
    # What implicit 0.7.3 returns in this recipe: two items that are new to the user, then one that is not.
    np.save(folder / "columns.npy", [[2, 3, 1], [1, 3, 2], [0, 2, 1]])
    lowest = float(np.finfo(np.float32).min)  # the score of items that implicit should leave out
    column_scores = [[0.0055, 0.0041, lowest], [0.0058, 0.0002, lowest], [0.0043, 0.0002, lowest]]
    np.save(folder / "column_scores.npy", column_scores)
    weeks = [
        (user, item, week) for week in range(4) for user in ("ann", "bob") for item in ("milk", "bread", week)
    ]
    purchases = pd.DataFrame(weeks, columns=["user", "product", "time"])
    purchases.to_csv(folder / "purchases.csv", index=False)
    (folder / "faults.csv").write_text(
        "user_id,sku,ts\nann,x,2026-01-01\n,y,2026-01-02\nann,x,2026-01-03\nbob,,\n"
    )
    (folder / "items.csv").write_text("sku,genre\nv,noir\nw,noir\nx,drama\ny,drama\nz,crime\nq,crime\n")
    with closing(sqlite3.connect(folder / "shop.sqlite")) as connection:
        orders = frame.set_axis(["customer_id", "sku"], axis=1).assign(
            ts=[f"2026-01-{day:02d}" for day in range(1, 16)]
        )
        orders.to_sql("orders", connection, index=False)
