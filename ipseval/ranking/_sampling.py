"""Sampling: the record of how the competitors of sampled ranks were drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.ids import ranks_within_group
from ipseval.utils.types import BoolArray, FloatArray, IntArray, freeze, readonly


def counted_above(group: IntArray, level: IntArray, counted: BoolArray) -> tuple[IntArray, IntArray]:
    """Return how many `counted` entries of the same group have a lower, and the same, level >= 0."""
    above, same = np.zeros(group.size, np.int64), np.zeros(group.size, np.int64)
    rows = np.flatnonzero(np.isin(group, group[counted]))  # the groups that hold any
    if rows.size:
        rows = rows[np.lexsort((level[rows], group[rows]))]
        group, level = group[rows], level[rows]
        before = np.concatenate([[0], np.cumsum(counted[rows])])
        starts_group = np.append(True, group[1:] != group[:-1])
        starts_level = np.flatnonzero(starts_group | np.append(True, level[1:] != level[:-1]))
        size = np.diff(starts_level, append=rows.size)
        in_level = np.diff(before[np.append(starts_level, rows.size)])
        first = np.maximum.accumulate(np.where(starts_group, np.arange(rows.size), 0))
        above[rows] = np.repeat(before[starts_level], size) - before[first]
        same[rows] = np.repeat(in_level, size)
    return above, same


PER_POSITIVE = ("n_candidates", "above_estimate", "tied_estimate", "order")
PER_DRAW = ("drawn", "drawn_inverse")
UNKNOWN = "these sampled ranks do not say which positives were drawn; rank the positives again."
Pool = Literal["candidates", "unobserved", "unobserved+positives"]


@dataclass(frozen=True, eq=False)
class Sampling:
    """How sampled ranks came about, with what a correction needs."""

    n_sampled: int  # m, the number of drawn competitors of each positive
    n_candidates: IntArray  # (n_pos,) n, the size of the set that was drawn from, the positive included
    replacement: bool
    uniform: bool  # whether all candidates had the same probability
    pool: Pool = "candidates"  # what was drawn from; only this does not depend on what was observed
    # (n_pos,) unbiased numbers of all candidates above, and tied: draws weighted by the inverse of their
    # known probability. None for uniform draws, where the sampled rank itself says as much.
    above_estimate: FloatArray | None = None
    tied_estimate: FloatArray | None = None
    order: IntArray | None = None  # (n_pos,) how many of the user's positives score higher
    drawn: IntArray | None = None  # (k, 2) rows (i, j): the positive j was drawn as a competitor of i; by i
    drawn_inverse: FloatArray | None = None  # (k,) their inverse probability
    per: Literal["user", "positive"] = "user"  # whether a user's positives share their draws

    def __post_init__(self) -> None:
        freeze(self, *PER_POSITIVE, *PER_DRAW)
        if self.drawn is not None:
            object.__setattr__(self, "drawn", readonly(self.drawn.astype(np.int64).reshape(-1, 2)))

    def __repr__(self) -> str:
        law = f"{'uniform' if self.uniform else 'weighted'}, {'with' if self.replacement else 'without'}"
        size = f"{self.n_sampled:,} competitors of each of {self.n_candidates.size:,} positives"
        return f"Sampling({size}, {law} replacement, from {self.pool!r})"

    @property
    def rank_estimate(self) -> FloatArray | None:
        """1 + above + tied/2, unbiased for the exact mean rank, (n_pos,); None for uniform draws."""
        if self.above_estimate is None or self.tied_estimate is None:
            return None
        return 1 + self.above_estimate + self.tied_estimate / 2

    def select(self, keep: IntArray | slice) -> Sampling:
        """Return the record of the chosen positives."""
        values = {name: getattr(self, name) for name in (*PER_POSITIVE, *PER_DRAW)}
        kept = {name: values[name][keep] for name in PER_POSITIVE if values[name] is not None}
        if self.drawn is not None:
            row = np.full(self.n_candidates.size, -1)
            row[keep] = np.arange(kept["n_candidates"].size)
            stays = (row[self.drawn] >= 0).all(axis=1)
            kept["drawn"] = row[self.drawn[stays]]
            if self.drawn_inverse is not None:
                kept["drawn_inverse"] = self.drawn_inverse[stays]
        return replace(self, **kept)

    def in_one_list(self, user: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return how many more stand above, tie, and are listed with all positives of the user."""
        if self.pool == "unobserved+positives":
            nothing = np.zeros(user.size, np.int64)
            return nothing, nothing, nothing
        if self.order is None or (self.drawn is None and self.pool == "candidates"):
            raise InputError(UNKNOWN)
        above, tied = ranks_within_group(user, -self.order)
        listed = np.bincount(user)[user] - 1
        if self.drawn is not None and self.pool == "candidates":
            by, other = self.drawn.T
            gap = self.order[other] - self.order[by]
            above -= np.bincount(by[gap < 0], minlength=user.size)
            tied -= np.bincount(by[gap == 0], minlength=user.size)
            listed -= np.bincount(by, minlength=user.size)
        return above, tied, listed

    def without(
        self, user: IntArray, mask: BoolArray, gone: IntArray
    ) -> tuple[IntArray, IntArray, IntArray, Sampling]:
        """Return how many above, tied and listed each positive loses with `mask`, and the new record."""
        # As if they had never been drawn. `gone` (n_users,): their number.
        order, drawn = self.order, self.drawn
        if order is None or (drawn is None and self.pool == "candidates"):
            raise InputError(UNKNOWN)
        if self.pool == "unobserved":
            nothing = np.zeros(user.size, np.int64)
            return nothing, nothing, nothing, self
        if self.pool == "unobserved+positives":
            above, tied = counted_above(user, order, mask)
            return above, tied, gone[user], self
        assert drawn is not None
        leaves = mask[drawn[:, 1]]
        by, other = drawn[leaves].T
        is_above, is_tied = order[other] < order[by], order[other] == order[by]
        changes: dict[str, Any] = {"n_candidates": self.n_candidates - gone[user]}
        if self.above_estimate is not None and self.tied_estimate is not None:
            assert self.drawn_inverse is not None
            inverse = self.drawn_inverse[leaves]
            for name, chosen in (("above_estimate", is_above), ("tied_estimate", is_tied)):
                lost = np.bincount(by, weights=inverse * chosen, minlength=user.size)
                # The sum of what is left, up to rounding; nothing drawn above leaves nothing.
                changes[name] = np.maximum(getattr(self, name) - lost, 0.0)
        counts = [np.bincount(by[chosen], minlength=user.size) for chosen in (is_above, is_tied)]
        return counts[0], counts[1], np.bincount(by, minlength=user.size), replace(self, **changes)
