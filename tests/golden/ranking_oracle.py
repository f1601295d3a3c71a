"""Ranks by the definition, one pair at a time, in plain Python; slow, and independent of the library."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby


def rank(scores: Mapping[int, float], positive: int, excluded: Collection[int]) -> tuple[int, int]:
    """Return (n_above, n_tied) of `positive` among the scored items without the excluded ones."""
    above = tied = 0
    for item, score in scores.items():
        if item in excluded or item == positive:
            continue
        if score > scores[positive]:
            above += 1
        elif score == scores[positive]:
            tied += 1
    return above, tied


def rank_all(
    scores: Sequence[Sequence[float]],
    train: Collection[tuple[int, int]],
    test: Collection[tuple[int, int]],
    allowed: Collection[int] | None = None,
    candidates: Collection[tuple[int, int]] | None = None,
) -> list[tuple[int, int, int, int]]:
    """Return (user, item, n_above, n_tied) of every test pair, sorted."""
    result = []
    for user, pairs in groupby(sorted(test), key=lambda pair: pair[0]):
        row = {
            j: score
            for j, score in enumerate(scores[user])
            if (allowed is None or j in allowed) and (candidates is None or (user, j) in candidates)
        }
        excluded = {j for u, j in train if u == user}
        result += [(user, item, *rank(row, item, excluded)) for _, item in pairs if item in row]
    return result
