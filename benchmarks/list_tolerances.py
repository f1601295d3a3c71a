"""How many training items, and how many items without interactions, real recommendation lists hold.

`python -m benchmarks.list_tolerances` computes, on public logs and for lists of 10, 20 and 50 items of four baselines,
the share of entries that are training items of their user: in lists from which nothing was removed, and in lists
from which a part of the training items was removed, because the recommender did not know the newest tenth of them, or
only knew those with a high rating. It then computes the share of entries whose item has no interactions in a split,
because it came after the split, or because the split has a minimum of interactions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import ipseval
from benchmarks.page import add_write_option, deliver
from benchmarks.sanity import BASELINES, fit_scores
from ipseval.data.splits import split_random
from reproductions.tables import data_folder, markdown

DEPTHS = (10, 20, 50)
LIMITS = (0.05, 0.1, 0.15, 0.2, 0.25)
Shares = dict[tuple[str, int], list[float]]  # reason and depth -> share of each baseline
MOST_USERS = 500  # whose lists are made
MOST_ITEMS = 4_000  # beyond which EASE takes minutes


def read_logs(folder: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield logs with the columns user and item, and time and rating where the log has them."""
    path = folder / "ml-100k" / "u.data"
    if path.exists():
        yield (
            "MovieLens 100K",
            pd.read_csv(path, sep="\t").set_axis(["user", "item", "rating", "time"], axis=1),
        )
    path = folder / "ml-latest-small" / "ratings.csv"
    if path.exists():
        frame = pd.read_csv(path).set_axis(["user", "item", "rating", "time"], axis=1)
        yield "MovieLens latest small", frame
    path = folder / "coat" / "train.ascii"
    if path.exists():
        ratings = np.loadtxt(path)
        user, item = np.nonzero(ratings)
        yield "Coat", pd.DataFrame({"user": user, "item": item, "rating": ratings[user, item]})
    path = folder / "kuairand" / "train.txt"
    if path.exists():
        lines = [line.split() for line in path.read_text().splitlines()[:3000]]
        rows = [(int(user), int(item)) for user, *items in lines for item in items]
        yield "KuaiRand, 3,000 users", pd.DataFrame(rows, columns=["user", "item"]).drop_duplicates()


def list_best(scores: np.ndarray, hidden: np.ndarray, depth: int) -> np.ndarray:
    """Return the best items of each user outside the hidden pairs, users × depth."""
    visible = np.where(hidden, -np.inf, scores)
    return np.argsort(-visible, axis=1, kind="stable")[:, :depth]


def to_mask(log: ipseval.Interactions) -> np.ndarray:
    mask = np.zeros((log.n_users, log.n_items), dtype=bool)
    mask[log.user, log.item] = True
    return mask


def fit_baselines(train: ipseval.Interactions) -> Iterator[tuple[str, np.ndarray]]:
    for baseline in BASELINES:
        if baseline != "ease" or train.n_items <= MOST_ITEMS:
            yield baseline, fit_scores(baseline, train)


def measure_seen(frame: pd.DataFrame, seed: int) -> Shares:
    """Return the shares of training items in lists, by what was removed from the lists and by depth."""
    split = split_random(ipseval.read(frame[["user", "item"]]), rng=seed)
    train = split.train
    seen = to_mask(train)
    rng = np.random.default_rng(seed)
    hidden = {"none": np.zeros_like(seen)}
    hidden["nine of ten"] = seen & (rng.random(seen.shape) >= 0.1)
    if "rating" in frame:
        ratings = np.zeros(seen.shape)
        user = pd.Index(split.user_ids).get_indexer(frame["user"])
        item = pd.Index(split.item_ids).get_indexer(frame["item"])
        ratings[user, item] = frame["rating"]
        hidden["those rated 4 or more"] = seen & (ratings >= 4)
    users = rng.permutation(train.n_users)[:MOST_USERS]
    shares: Shares = {}
    for _, scores in fit_baselines(train):
        for name, mask in hidden.items():
            for depth in DEPTHS:
                best = list_best(scores[users], mask[users], depth)
                share = float(np.take_along_axis(seen[users], best, axis=1).mean())
                shares.setdefault((name, depth), []).append(share)
    return shares


def measure_unknown(frame: pd.DataFrame, seed: int) -> Shares:
    """Return the shares of list entries with items that have no interactions in a split, by the reason."""
    pairs = frame[["user", "item"]]
    known: dict[str, pd.Series] = {}
    for minimum in (2, 5):
        counts = pairs["item"].map(pairs["item"].value_counts())
        known[f"items with fewer than {minimum} interactions are left out"] = pairs["item"][counts >= minimum]
    if "time" in frame:
        order = frame["time"].rank(method="first", pct=True)
        for share in (0.05, 0.1, 0.2):
            known[f"the newest {share:.0%} of interactions are later"] = pairs["item"][order <= 1 - share]
    log = ipseval.read(pairs)
    seen = to_mask(log)
    users = np.random.default_rng(seed).permutation(log.n_users)[:MOST_USERS]
    shares: Shares = {}
    for _, scores in fit_baselines(log):
        for depth in DEPTHS:
            positions = list_best(scores[users], seen[users], depth)
            share = float((~np.isin(positions, log.item_ids)).mean())
            shares.setdefault(("positions in place of ids", depth), []).append(share)
            best = log.item_ids[positions]
            for name, items in known.items():
                share = float((~np.isin(best, items.unique())).mean())
                shares.setdefault((name, depth), []).append(share)
    return shares


def add_rows(rows: list[tuple[str, ...]], log_name: str, kind: str, shares: Shares) -> None:
    """Add a row for each reason, with the lowest and the highest share of the baselines at each depth."""
    for reason in dict.fromkeys(name for name, _ in shares):
        cells = []
        for depth in DEPTHS:
            values = shares[reason, depth]
            cells.append(f"{100 * min(values):.1f}–{100 * max(values):.1f}")
        rows.append((log_name, kind, reason, *cells))
        print(*rows[-1], sep="; ", flush=True)


def count_accepted(shares: Shares, reason: str, limit: float) -> str:
    """Return how many lists of a baseline at a depth have at most a share of such entries."""
    values = np.array([value for (name, _), group in shares.items() if name == reason for value in group])
    return f"{int((values <= limit).sum())} of {values.size}"


def main() -> None:
    """Print the lowest and the highest share of each kind, and the lists that some limits accept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    add_write_option(parser)
    options = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    all_shares: Shares = {}
    for name, frame in read_logs(data_folder()):
        seen_shares = measure_seen(frame, options.seed)
        unknown_shares = measure_unknown(frame, options.seed)
        add_rows(rows, name, "training items, removed:", seen_shares)
        add_rows(rows, name, "unknown items:", unknown_shares)
        for key, values in (seen_shares | unknown_shares).items():
            all_shares.setdefault(key, []).extend(values)
    header = ("log", "entries", "reason", *(f"% of {depth} items" for depth in DEPTHS))
    reasons = dict.fromkeys(name for name, _ in all_shares)
    limit_rows = [
        (reason, *(count_accepted(all_shares, reason, limit) for limit in LIMITS)) for reason in reasons
    ]
    limit_header = ("lists accepted", *(f"limit {limit:.0%}" for limit in LIMITS))
    table = f"{markdown(header, rows)}\n\n{markdown(limit_header, limit_rows)}"
    deliver("list-tolerances", table, options.write)


if __name__ == "__main__":
    main()
