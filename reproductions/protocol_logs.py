"""The logs of the study of protocols: four simulated domains with timestamps, Coat, users of citeulike-a."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from ipseval import InputError, Interactions, split_leave_one_out, split_random, split_temporal
from ipseval.data.splits import k_core
from ipseval.validation.datasets import load_coat
from ipseval.validation.simulation import World
from reproductions.data import load_citeulike_a
from reproductions.tables import markdown

# Zipf exponent of the items' appeal, and the share of items that come out during the year.
DOMAINS = {"steady": (0.6, 0.0), "slow": (0.6, 0.1), "trend": (0.8, 1.0), "hits": (1.2, 1.0)}
CITEULIKE_USERS = 1_500


def domain(skew: float, new: float, seed: int) -> Interactions:
    """Return a log over a year. A share `new` of the items comes out during it; interest in them fades.

    Nine in ten interactions with a new item come soon after it came out (mean 18 days), the others at any
    time from then on. The other items are there from the start and met at any time. What would come after the
    year is put on its last day, so that late items end the histories of many users.
    """
    world = World(
        n_users=1000, n_items=1000, mean_relevant=80, popularity_skew=skew, affinity=6, gamma=-0.3, rng=seed
    )
    log = world.observe(rng=seed + 1)
    rng = np.random.default_rng(seed + 2)
    released = np.where(rng.random(log.n_items) < new, rng.random(log.n_items), 0.0)[log.item]
    soon = np.minimum(released + rng.exponential(0.05, len(log)), 1.0)
    anytime = released + (1 - released) * rng.random(len(log))
    fades = (rng.random(len(log)) < 0.9) & (released > 0)
    return replace(log, timestamp=np.floor(365 * np.where(fades, soon, anytime)).astype(np.int64))


def logs(folder: Path) -> dict[str, Interactions]:
    """Return the 5-cores of the simulated domains, Coat's chosen ratings and users of citeulike-a."""
    made = {name: domain(*shape, seed=10 * number) for number, (name, shape) in enumerate(DOMAINS.items())}
    articles = load_citeulike_a(folder / "citeulike-a")
    users = np.random.default_rng(0).choice(articles.n_users, CITEULIKE_USERS, replace=False)
    made["Coat"] = load_coat(folder / "coat").biased
    made["citeulike-a"] = articles.select(np.isin(articles.user, users))
    return {name: replace(k_core(log, 5), value=None) for name, log in made.items()}


def open_bandit_core(folder: Path) -> pd.DataFrame:
    """Return, for each log of the Open Bandit sample, what is left when user features stand in for users."""
    rows = []
    for path in sorted((folder / "open-bandit").glob("*/*/*men.csv")):
        clicks = pd.read_csv(path).query("click == 1")
        user = clicks.filter(regex=r"^user_feature_\d+$").astype(str).agg(" ".join, axis=1)
        frame = pd.DataFrame({"user": user, "item": clicks["item_id"]})
        log = Interactions.from_frame(frame, duplicates="drop")
        try:
            left = len(k_core(log, 5))
        except InputError:  # raised when nothing is left
            left = 0
        name = "/".join(path.parts[-3:-1])
        counts = {"clicks": len(clicks), "kinds of users": log.n_users, "pairs": len(log)}
        rows.append({"log": name} | counts | {"pairs of the 5-core": left})
    return pd.DataFrame(rows)


def log_table(folder: Path) -> str:
    """Return the sizes of the logs, and how far popularity drifts: early against late interactions."""
    rows = []
    for name, log in logs(folder).items():
        drift = "no timestamps"
        if log.timestamp is not None:
            late = log.timestamp > np.median(log.timestamp)
            early, later = (log.select(part).popularity for part in (~late, late))
            drift = f"{spearmanr(early, later).statistic:.2f}"
        sizes = f"{len(log):,}", f"{np.count_nonzero(log.activity):,}", f"{log.n_items:,}"
        rows.append([name, *sizes, f"{np.median(log.activity):.0f}", drift])
    header = [
        "log (5-core)",
        "interactions",
        "users",
        "items",
        "per user, median",
        "popularity, first half ~ second",
    ]
    return markdown(header, rows)


def concentration(folder: Path) -> pd.DataFrame:
    """Return, by log and split, the share of test positives that the ten items with most of them hold."""
    shares = {"test_fraction": 0.1, "validation_fraction": 0.1}
    rows = {}
    for name, log in logs(folder).items():
        parts = {
            "RO_RS": split_random(log, rng=0, **shares),
            "RO_LS": split_leave_one_out(log, rng=0, n_validation=1),
        }
        if log.timestamp is not None:
            parts["TO_RS"] = split_temporal(log, **shares)
            parts["TO_LS"] = split_leave_one_out(log, order="temporal", n_validation=1)
        tests = {label: np.sort(part.test.popularity) for label, part in parts.items()}
        rows[name] = {label: counts[-10:].sum() / counts.sum() for label, counts in tests.items()}
    return pd.DataFrame(rows).T
