"""Random slates: queries of several sizes, users with several queries, scores with ties, graded labels."""

from __future__ import annotations

import numpy as np
import pandas as pd


def random_slates(
    rng: np.random.Generator,
    n_queries: int,
    *,
    levels: int | None = 5,
    grades: int = 1,
    most: int = 20,
    per_user: int = 4,
) -> pd.DataFrame:
    """Return rows with columns query, user, item, label, score; each query has a positive and another item.

    Scores take `levels` values (None: all different), labels 0 … `grades`.
    """
    size = rng.integers(2, most, size=n_queries)
    query = np.repeat(np.arange(n_queries), size)
    within = np.arange(query.size) - np.repeat(np.cumsum(size) - size, size)
    label = rng.integers(0, grades + 1, size=query.size) * (rng.random(query.size) < 0.5)
    label[within == 0] = 0
    label[within == 1] = rng.integers(1, grades + 1, size=n_queries)
    shift = rng.permutation(1000)[:50]
    score = rng.permutation(query.size) if levels is None else rng.integers(0, levels, size=query.size)
    frame = pd.DataFrame(
        {
            "query": query * 7 + 3,
            "user": query // per_user,
            "item": shift[(within + 3 * query) % 50],  # distinct within a query
            "label": label,
            "score": score.astype(float),
        }
    )
    return frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)
