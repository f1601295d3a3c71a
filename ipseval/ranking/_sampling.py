"""Sampling: the record of how the competitors of sampled ranks were drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.ids import ranks_within_group
from ipseval.utils.types import BoolArray, FloatArray, IntArray, as_readonly, freeze


def count_ranked_above(group: IntArray, level: IntArray, is_counted: BoolArray) -> tuple[IntArray, IntArray]:
    """Return how many counted entries of the same group have a lower level, and the same level, >= 0."""
    n_above = np.zeros(group.size, np.int64)
    n_equal = np.zeros(group.size, np.int64)
    rows = np.flatnonzero(np.isin(group, group[is_counted]))  # the groups with counted entries
    if not rows.size:
        return n_above, n_equal

    rows = rows[np.lexsort((level[rows], group[rows]))]
    group = group[rows]
    level = level[rows]
    is_group_start = np.append(True, group[1:] != group[:-1])
    is_level_start = is_group_start | np.append(True, level[1:] != level[:-1])
    level_starts = np.flatnonzero(is_level_start)
    level_size = np.diff(level_starts, append=rows.size)

    # n_preceding[i] counts the entries before row i, in all groups.
    n_preceding = np.concatenate([[0], np.cumsum(is_counted[rows])])
    n_in_level = np.diff(n_preceding[np.append(level_starts, rows.size)])
    group_start = np.maximum.accumulate(np.where(is_group_start, np.arange(rows.size), 0))
    n_above[rows] = np.repeat(n_preceding[level_starts], level_size) - n_preceding[group_start]
    n_equal[rows] = np.repeat(n_in_level, level_size)
    return n_above, n_equal


PER_POSITIVE = ("n_candidates", "above_estimate", "tied_estimate", "order")
PER_DRAW = ("drawn_pairs", "drawn_inverse")
UNKNOWN_DRAWS = "these sampled ranks do not say which positives were drawn; rank the positives again."
Pool = Literal["candidates", "unobserved", "unobserved+positives"]


@dataclass(frozen=True, eq=False)
class Sampling:
    """Record how the competitors of sampled ranks were drawn, with the values that a correction needs."""

    n_sampled: int  # m, the number of drawn competitors of each positive
    n_candidates: IntArray  # (n_pos,) n, the size of the set that was drawn from, including the positive
    replacement: bool
    uniform: bool  # whether all candidates had the same probability
    pool: Pool = "candidates"  # the set that was drawn from; only "candidates" does not depend on observation
    # (n_pos,) unbiased estimates of the number of all candidates above and tied: draws weighted by the
    # inverse of their known probability. None for uniform draws, for which the sampled rank has this
    # information.
    above_estimate: FloatArray | None = None
    tied_estimate: FloatArray | None = None
    order: IntArray | None = None  # (n_pos,) number of the user's positives with a higher score
    drawn_pairs: IntArray | None = (
        None  # (k, 2) rows (i, j): the positive j was drawn as a competitor of i; by i
    )
    drawn_inverse: FloatArray | None = None  # (k,) their inverse probability
    per: Literal["user", "positive"] = "user"  # whether a user's positives share their draws

    def __post_init__(self) -> None:
        freeze(self, *PER_POSITIVE, *PER_DRAW)
        if self.drawn_pairs is not None:
            object.__setattr__(
                self, "drawn_pairs", as_readonly(self.drawn_pairs.astype(np.int64).reshape(-1, 2))
            )

    def __repr__(self) -> str:
        law = "uniform" if self.uniform else "weighted"
        preposition = "with" if self.replacement else "without"
        size = f"{self.n_sampled:,} competitors of each of {self.n_candidates.size:,} positives"
        return f"Sampling({size}, {law}, {preposition} replacement, from {self.pool!r})"

    @property
    def rank_estimate(self) -> FloatArray | None:
        """1 + above + tied/2, unbiased for the exact mean rank, (n_pos,); None for uniform draws."""
        if self.above_estimate is None or self.tied_estimate is None:
            return None
        return 1 + self.above_estimate + self.tied_estimate / 2

    def select(self, keep: IntArray | slice) -> Sampling:
        """Return the record of the chosen positives."""
        selected: dict[str, Any] = {}
        for name in PER_POSITIVE:
            values = getattr(self, name)
            if values is not None:
                selected[name] = values[keep]

        if self.drawn_pairs is not None:
            row = np.full(self.n_candidates.size, -1)
            row[keep] = np.arange(selected["n_candidates"].size)
            stays = (row[self.drawn_pairs] >= 0).all(axis=1)
            selected["drawn_pairs"] = row[self.drawn_pairs[stays]]
            if self.drawn_inverse is not None:
                selected["drawn_inverse"] = self.drawn_inverse[stays]
        return replace(self, **selected)

    def count_in_shared_list(self, user: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return how many more are above, tied and listed when a user's positives share one list."""
        if self.pool == "unobserved+positives":
            zeros = np.zeros(user.size, np.int64)
            return zeros, zeros, zeros
        if self.order is None or (self.drawn_pairs is None and self.pool == "candidates"):
            raise InputError(UNKNOWN_DRAWS)

        n_above_added, n_tied_added = ranks_within_group(user, -self.order)
        n_listed_added = np.bincount(user)[user] - 1
        if self.drawn_pairs is not None and self.pool == "candidates":
            # A positive that was drawn as a competitor is in the sampled list already.
            positive, competitor = self.drawn_pairs.T
            gap = self.order[competitor] - self.order[positive]
            n_above_added -= np.bincount(positive[gap < 0], minlength=user.size)
            n_tied_added -= np.bincount(positive[gap == 0], minlength=user.size)
            n_listed_added -= np.bincount(positive, minlength=user.size)
        return n_above_added, n_tied_added, n_listed_added

    def remove_positives(
        self, user: IntArray, mask: BoolArray, n_removed: IntArray
    ) -> tuple[IntArray, IntArray, IntArray, Sampling]:
        """Return how many above, tied and listed each positive loses with `mask`, and the new record.

        The result is the one of draws in which the positives of `mask` never occurred. `n_removed` (n_users,)
        is the number of these positives by user.
        """
        if self.order is None or (self.drawn_pairs is None and self.pool == "candidates"):
            raise InputError(UNKNOWN_DRAWS)
        if self.pool == "unobserved":
            zeros = np.zeros(user.size, np.int64)
            return zeros, zeros, zeros, self
        if self.pool == "unobserved+positives":
            n_above_removed, n_tied_removed = count_ranked_above(user, self.order, mask)
            return n_above_removed, n_tied_removed, n_removed[user], self
        return self._remove_draws(user, mask, n_removed)

    def _remove_draws(
        self, user: IntArray, mask: BoolArray, n_removed: IntArray
    ) -> tuple[IntArray, IntArray, IntArray, Sampling]:
        """Return the result of `remove_positives` for the pool of all candidates."""
        order = self.order
        assert order is not None
        assert self.drawn_pairs is not None
        is_removed = mask[self.drawn_pairs[:, 1]]
        positive, competitor = self.drawn_pairs[is_removed].T
        is_above = order[competitor] < order[positive]
        is_tied = order[competitor] == order[positive]
        n_above_removed = np.bincount(positive[is_above], minlength=user.size)
        n_tied_removed = np.bincount(positive[is_tied], minlength=user.size)
        n_listed_removed = np.bincount(positive, minlength=user.size)

        record = replace(self, n_candidates=self.n_candidates - n_removed[user])
        if self.above_estimate is None or self.tied_estimate is None:
            return n_above_removed, n_tied_removed, n_listed_removed, record

        assert self.drawn_inverse is not None
        inverse = self.drawn_inverse[is_removed]
        lost_above_estimate = np.bincount(positive, weights=inverse * is_above, minlength=user.size)
        lost_tied_estimate = np.bincount(positive, weights=inverse * is_tied, minlength=user.size)
        # The maximum with 0 removes rounding errors: where no draw remains, nothing is above or tied.
        record = replace(
            record,
            above_estimate=np.maximum(self.above_estimate - lost_above_estimate, 0.0),
            tied_estimate=np.maximum(self.tied_estimate - lost_tied_estimate, 0.0),
        )
        return n_above_removed, n_tied_removed, n_listed_removed, record
