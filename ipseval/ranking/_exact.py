"""Exact ranks of held-out positives among all candidates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval._types import IntArray
from ipseval.errors import InputError
from ipseval.ranking._lists import is_list_frame, rank_lists
from ipseval.ranking._ranked import RankedPositives, Targets
from ipseval.ranking._scorers import Scorer, as_scorer
from ipseval.splits import Split

BLOCK_ENTRIES = 4_000_000


def rank_positives(
    model: Any,
    split: Split,
    *,
    name: str = "the model",
    candidates: Any = "all",
    n_threads: int | None = None,
    progress: bool | None = None,
    max_memory: int | str | None = None,
) -> RankedPositives:
    """Return the exact rank of every test positive among the catalogue minus the user's training items.

    Parameters
    ----------
    model : scorer
        An (n_users, n_items) array or memmap in the order of `split.user_ids`, `split.item_ids`; a DataFrame
        with ids as labels; a (user_factors, item_factors[, item_bias]) tuple; a callable
        users -> (len(users), n_items); or a top-K frame with columns user, item and rank or score.
    split : Split
        `split.test` is ranked; `split.train` is excluded from the candidates.
    name : str
        Used in error messages.

    Raises
    ------
    InputError
        For NaN scores (with their number), a shape that does not match, an unsupported type.

    Examples
    --------
    >>> import pandas as pd
    >>> split = Split.from_frames(
    ...     pd.DataFrame({"user": [0], "item": [0]}), pd.DataFrame({"user": [0, 0], "item": [1, 3]}),
    ...     items=[0, 1, 2, 3])
    >>> ranked = rank_positives(np.array([[9.0, 1.0, 5.0, 1.0]]), split)
    >>> ranked.n_above, ranked.n_tied
    (array([1, 1]), array([1, 1]))
    """
    if isinstance(model, RankedPositives):
        return model
    targets = Targets.from_split(split)
    if is_list_frame(model):
        return rank_lists(model, split, targets, name=name)
    return _rank(as_scorer(model, split, name), targets, split.n_items, name)


def _rank(scorer: Scorer, targets: Targets, n_items: int, name: str) -> RankedPositives:
    n_above = np.empty(targets.user.size, dtype=np.int64)
    n_tied = np.empty_like(n_above)
    users, starts = np.unique(targets.user, return_index=True)
    stops = np.append(starts[1:], targets.user.size)
    per_block = max(1, BLOCK_ENTRIES // n_items)
    for first in range(0, users.size, per_block):
        block = users[first : first + per_block]
        scores = scorer.block(block)
        n_nan = int(np.isnan(scores).sum()) if scores.dtype.kind == "f" else 0
        if n_nan:
            raise InputError(
                f"{name}: {n_nan:,} of {scores.size:,} scores in a block of {block.size} users are NaN; "
                "a NaN has no place in a ranking. Use -inf for items that should come last."
            )
        for row, user in enumerate(block):
            rows = slice(starts[first + row], stops[first + row])
            excluded = targets.excluded[targets.excluded_start[user] : targets.excluded_start[user + 1]]
            n_above[rows], n_tied[rows] = _count(scores[row], targets.item[rows], excluded)
    return targets.ranked(n_above, n_tied)


def _count(scores: Any, items: IntArray, excluded: IntArray) -> tuple[IntArray, IntArray]:
    candidates = np.sort(np.delete(scores, excluded))
    low = np.searchsorted(candidates, scores[items], side="left")
    high = np.searchsorted(candidates, scores[items], side="right")
    return candidates.size - high, high - low - 1
