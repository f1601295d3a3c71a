"""1,000 random queries with relevance, grades, scores and the resulting ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipseval.ranking import RankedPositives

N_QUERIES = 1000
N_ITEMS = 40


@dataclass
class Queries:
    relevant: np.ndarray  # (n_queries, n_items) bool
    grade: np.ndarray  # the same shape, 1–4 where relevant, else 0
    scores: np.ndarray

    @cached_property
    def ranked(self) -> RankedPositives:
        """Ranks by comparing every pair of scores."""
        n_above = (self.scores[:, None, :] > self.scores[:, :, None]).sum(axis=2)
        n_tied = (self.scores[:, None, :] == self.scores[:, :, None]).sum(axis=2) - 1
        user, item = np.nonzero(self.relevant)
        n_queries, n_items = self.relevant.shape
        return RankedPositives(
            user,
            item,
            n_above[user, item],
            n_tied[user, item],
            np.full(user.size, n_items),
            np.arange(n_queries),
            np.arange(n_items),
            gain=self.grade[user, item].astype(float),
            candidates_by_user=np.full(n_queries, n_items),
        )

    @property
    def order(self) -> np.ndarray:
        """Items from best to worst; for scores without ties."""
        return np.argsort(-self.scores, axis=1, kind="stable")


def random_queries(seed: int = 0, *, levels: int | None = None) -> Queries:
    """Scores without ties, or of `levels` values; 1 to 15 relevant items, ranked better than chance."""
    rng = np.random.default_rng(seed)
    count = rng.integers(1, 16, size=N_QUERIES)
    position = rng.random((N_QUERIES, N_ITEMS)).argsort(axis=1)
    relevant = position < count[:, None]
    grade = np.where(relevant, rng.integers(1, 5, size=relevant.shape), 0)
    scores = rng.normal(size=relevant.shape) + relevant
    if levels is not None:
        scores = np.floor((scores - scores.min()) / (np.ptp(scores) + 1e-9) * levels)
    return Queries(relevant, grade, scores)
