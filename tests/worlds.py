"""Small random worlds for tests: a split, scores with ties, propensities, and the oracle's view of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

import ipseval
from tests.golden import oracle

# A study of two baselines on the pairs of clicks.csv; what follows adds to its protocols.
STUDY = """path = "results"
[logs.clicks]
file = "clicks.csv"
[models.popularity]
function = "ipseval.ranking.baselines:popularity"
[models.random]
function = "ipseval.ranking.baselines:random"
options = {rng = 0}
[protocols]
order = ["random"]
k_core = [0]
"""


@dataclass
class SmallWorld:
    split: ipseval.Split
    scores: np.ndarray
    propensity: np.ndarray

    def users(self) -> list[oracle.User]:
        train = set(zip(self.split.train.user.tolist(), self.split.train.item.tolist(), strict=True))
        test = list(zip(self.split.test.user.tolist(), self.split.test.item.tolist(), strict=True))
        return [
            oracle.User(
                scores={
                    i: float(self.scores[u, i]) for i in range(self.split.n_items) if (u, i) not in train
                },
                weights={i: 1 / float(self.propensity[i]) for v, i in test if v == u},
            )
            for u in range(self.split.n_users)
        ]

    def rewards(self) -> ipseval.policies.rewards.Rewards:
        """Impressions of the test positives, clicked, and of a quarter of the other candidates."""
        split, rng = self.split, np.random.default_rng(0)
        free = np.setdiff1d(np.arange(split.n_users * split.n_items), split.train.pair_key)
        key = free[np.isin(free, split.test.pair_key) | (rng.random(free.size) < 0.25)]
        clicked = np.isin(key, split.test.pair_key)
        user, item = np.divmod(key, split.n_items)
        return ipseval.policies.rewards.Rewards(
            ipseval.ImpressionLog(user, item, split.user_ids, split.item_ids, clicked), rng=0
        )


def random_split(rng: np.random.Generator, n_users: int, n_items: int, chance: float = 0.4) -> ipseval.Split:
    """Return a random split of pairs that are each there with a chance."""
    pairs = pd.DataFrame(np.argwhere(rng.random((n_users, n_items)) < chance), columns=["user", "item"])
    return ipseval.split_random(ipseval.Interactions.from_frame(pairs), test_fraction=0.4, rng=0)


def top_ten(split: ipseval.Split) -> pd.DataFrame:
    """Return lists of the ten best candidates by random scores, of all users but the last."""
    scores = np.random.default_rng(1).random((split.n_users, split.n_items))
    scores[split.train.user, split.train.item] = -1
    best = (-scores).argsort(axis=1)[:-1, :10]
    user, item = np.repeat(np.arange(len(best)), 10), best.ravel()
    rows = {"user": split.user_ids[user], "item": split.item_ids[item], "score": scores[user, item]}
    return pd.DataFrame(rows).assign(rank=np.tile(np.arange(1, 11), len(best)))


def small_world(
    seed: int, *, n_users: int = 4, n_items: int = 6, levels: int = 3, infinite: bool = False
) -> SmallWorld:
    """Scores take few values, so that ties abound; some users have no positives, some items no training."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, size=(n_users, n_items), p=[0.45, 0.2, 0.35])
    kind[0, :2] = 1, 2  # at least one training and one test pair
    train, test = np.argwhere(kind == 1), np.argwhere(kind == 2)
    split = ipseval.Split.from_frames(
        pd.DataFrame(train, columns=["user", "item"]),
        pd.DataFrame(test, columns=["user", "item"]),
        users=np.arange(n_users),
        items=np.arange(n_items),
    )
    scores = rng.integers(0, levels, size=(n_users, n_items)).astype(float)
    if infinite:
        scores[rng.random(scores.shape) < 0.3] = -np.inf
    return SmallWorld(split, scores, rng.uniform(0.1, 1.0, size=n_items))


def random_world(seed: int, *, n_users: int = 40, n_items: int = 30, density: float = 0.3) -> SmallWorld:
    """A larger world without an oracle, for identities."""
    rng = np.random.default_rng(seed)
    log = ipseval.Interactions.from_frame(
        pd.DataFrame(np.argwhere(rng.random((n_users, n_items)) < density), columns=["user", "item"])
    )
    split = ipseval.split_random(log, test_fraction=0.3, rng=rng)
    scores = rng.normal(size=(split.n_users, split.n_items)).round(1)
    return SmallWorld(split, scores, rng.uniform(0.1, 1.0, size=split.n_items))
