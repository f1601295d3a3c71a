"""Small worlds of hashed integers, for the contract of numbers.

They are not drawn: they follow from SplitMix64 on whole numbers, which gives the same bits everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd

import ipseval
from ipseval.data import Interactions
from ipseval.propensity import DirectPropensity, JainPropensity, LoggedPropensity, StratifiedPropensity

N_USERS, N_ITEMS = 60, 40


def bits(size: int, seed: int) -> np.ndarray:
    """Return `size` numbers of 64 bits: SplitMix64 (Steele, Lea & Flood, 2014) at `seed`."""
    places = np.arange(seed << 20, (seed << 20) + size, dtype=np.uint64)
    x = places * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def parts(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return numbers in [0, 1), multiples of 2^-53."""
    return (bits(int(np.prod(shape)), seed) >> np.uint64(11)).reshape(shape) * 2.0**-53


def wholes(below: int, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return whole numbers >= 0 below a bound."""
    return (bits(int(np.prod(shape)), seed) % np.uint64(below)).astype(np.int64).reshape(shape)


@cache
def log() -> Interactions:
    """Return a log of 60 users and 40 items, the first items the most popular, with times and ratings."""
    chance = 1 / (1.2 + np.arange(N_ITEMS) / 4)
    user, item = np.nonzero(parts((N_USERS, N_ITEMS), 1) < chance)
    frame = pd.DataFrame({"user": user, "item": item})
    frame["value"] = 1 + wholes(5, (len(frame),), 2)
    frame["time"] = np.argsort(bits(len(frame), 3), kind="stable")
    return Interactions.from_frame(
        frame, value="value", timestamp="time", users=range(N_USERS), items=range(N_ITEMS)
    )


@cache
def split() -> ipseval.Split:
    """Return a split of the log: a third of the pairs is for the test."""
    whole = log()
    test = wholes(3, (len(whole),), 4) == 0
    frames = [
        pd.DataFrame({"user": whole.user[rows], "item": whole.item[rows], "value": whole.value[rows]})
        for rows in (~test, test)
    ]
    return ipseval.Split.from_frames(*frames, value="value", users=range(N_USERS), items=range(N_ITEMS))


@cache
def models() -> dict[str, np.ndarray]:
    """Return whole scores: one without ties that knows the test, one of five levels, one of popularity."""
    free = wholes(10**6, (N_USERS, N_ITEMS), 5)
    free[split().test.user, split().test.item] += 400_000
    popular = np.tile(split().train.popularity, (N_USERS, 1))
    return {"free": free, "levels": wholes(5, (N_USERS, N_ITEMS), 6) + popular // 8, "popular": popular}


@cache
def exposure() -> ipseval.RandomExposure:
    """Return random exposure of an eighth of the pairs outside training; what scores high is positive."""
    taken = np.zeros((N_USERS, N_ITEMS), dtype=bool)
    taken[split().train.user, split().train.item] = True
    user, item = np.nonzero((wholes(8, (N_USERS, N_ITEMS), 7) == 0) & ~taken)
    liked = models()["free"][user, item] > 500_000
    return ipseval.RandomExposure(
        user, item, liked, N_USERS, N_ITEMS, user_ids=log().user_ids, item_ids=log().item_ids
    )


@cache
def shown() -> ipseval.ImpressionLog:
    """Return lists of four items for each of 150 queries of the users, with chances and clicks."""
    n = 150
    first = wholes(N_ITEMS, (n,), 8)
    item = (first[:, None] + np.array([0, 7, 13, 22])) % N_ITEMS
    chance = (1 + wholes(7, (n, 4), 9)) / 8
    frame = pd.DataFrame(
        {
            "query": np.repeat(np.arange(n), 4),
            "user": np.repeat(wholes(N_USERS, (n,), 10), 4),
            "item": item.ravel(),
            "position": np.tile(np.arange(1, 5), n),
            "clicked": parts((n * 4,), 11) < np.tile([0.5, 0.4, 0.3, 0.2], n),
            "propensity": chance.ravel(),
            "shown": np.arange(n * 4),
        }
    )
    return ipseval.ImpressionLog.from_frame(
        frame, position="position", propensity="propensity", query="query", timestamp="shown",
        users=range(N_USERS), items=range(N_ITEMS),
    )  # fmt: skip


FITTED_PROPENSITIES: dict[str, Callable[[], ipseval.propensity.Propensity]] = {
    "power law": lambda: ipseval.PowerLawPropensity(gamma=0.5, scale="max", unseen="drop").fit(split().train),
    "smoothed": lambda: ipseval.PowerLawPropensity(gamma=1, unseen="smooth").fit(split().train),
    "item": lambda: ipseval.KnownPropensity(item=0.9 / (1 + np.arange(N_ITEMS) / 8)).fit(split().train),
    "pair": lambda: ipseval.KnownPropensity(
        function=lambda user, item: 0.05 + 0.9 * parts((N_USERS, N_ITEMS), 12)[user, item]
    ).fit(split().train),
    "rank one": lambda: ipseval.KnownPropensity(
        item=0.9 / (1 + np.arange(N_ITEMS) / 8), user=0.5 + parts((N_USERS,), 13) / 2
    ).fit(split().train),
    "clipped": lambda: FITTED_PROPENSITIES["pair"]().clip(floor=0.2),
    "held out": lambda: FITTED_PROPENSITIES["pair"]().held_out(test_fraction=1 / 3, popularity_source="log"),
    "direct": lambda: DirectPropensity(exposure(), shrinkage=3.0, unseen="drop").fit(split().train),
    "stratified": lambda: StratifiedPropensity(n_strata=4, exposure=exposure()).fit(split().train),
    "jain": lambda: JainPropensity().fit(split().train),
    "impressions": lambda: ipseval.ImpressionPropensity(shown(), shrinkage=3.0).fit(split().train),
    "logged": lambda: LoggedPropensity(shown()).fit(split().train),
}  # fmt: skip
