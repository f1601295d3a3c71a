"""Intervals of propensity-scored metrics hold the limit of the ratio as often as they state.

Users are drawn from a population in which positives are missing at random by item, and the limit is the ratio
of the two expectations, which 400,000 users approximate.
"""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from ipseval.ranking import RankedPositives

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

N_ITEMS = 40
REPETITIONS = 1000
LABELS = ["psp@1", "psp@5", "psndcg@5"]
RELEVANCE = 0.5 / np.arange(1, N_ITEMS + 1) ** 0.5
PROPENSITY = 1 / (1 + 6 * (np.arange(N_ITEMS, 0, -1) + 1.5) ** -0.55)


def observe(n_users: int, rng: np.random.Generator) -> RankedPositives:
    """Return the observed positives of users, ranked by a noisy score of the relevance."""
    relevant = rng.random((n_users, N_ITEMS)) < RELEVANCE
    observed = relevant & (rng.random((n_users, N_ITEMS)) < PROPENSITY)
    scores = np.log(RELEVANCE) + relevant + rng.normal(size=(n_users, N_ITEMS))
    ranks = (-scores).argsort(axis=1).argsort(axis=1)
    user, item = np.nonzero(observed)
    return RankedPositives(
        user,
        item,
        ranks[user, item],
        np.zeros(user.size, dtype=int),
        np.full(user.size, N_ITEMS),
        np.arange(n_users),
        np.arange(N_ITEMS),
        candidates_by_user=np.full(n_users, N_ITEMS),
    )


def evaluate(n_users: int, rng: np.random.Generator, interval: str = "normal") -> ipseval.Evaluation:
    """Return the evaluation of one sample of users."""
    ranked = observe(n_users, rng)
    return ipseval.evaluate_ranks(
        {"model": ranked},
        propensity=ipseval.KnownPropensity(item=PROPENSITY).fit(ranked),
        metrics=LABELS,
        estimators=["snips-global"],
        low_ess="ignore",
        interval=interval,
        rng=0,
    )


@pytest.mark.parametrize("n_users", [50, 200, 1000])
def test_95_percent_intervals_hold_the_limit_in_93_to_97_percent_of_samples(n_users):
    limits = evaluate(400_000, np.random.default_rng(1)).frame.set_index("metric")["estimate"]
    rng = np.random.default_rng(n_users)
    hits = np.zeros(len(LABELS))
    for _ in range(REPETITIONS):
        frame = evaluate(n_users, rng).frame.set_index("metric").loc[LABELS]
        limit = limits[LABELS].to_numpy()
        hits += (frame["ci_low"].to_numpy() <= limit) & (limit <= frame["ci_high"].to_numpy())
    shares = dict(zip(LABELS, hits / REPETITIONS, strict=True))
    print(n_users, shares)
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares
