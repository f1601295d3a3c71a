"""Squared influences along γ of estimates linear in contributions: users' means are made once for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ipseval._base.types import FloatArray, IntArray
from ipseval.inference._linear import LinearGroup
from ipseval.ranking import RankedPositives

# Entries of one block: 2 MB, which stay near the processor.
BLOCK_ENTRIES = 262_144


@dataclass(frozen=True, eq=False)
class Units:
    """The independent units with positives: users, or those to whom queries belong."""

    n: int
    clustered: bool  # whether a unit may have several queries
    place: IntArray  # (n_users,), unit of each user, or query, with positives

    @classmethod
    def of(cls, ranked: RankedPositives) -> Units:
        """Return the units of all users with positives."""
        units, place = np.unique(ranked.unit(ranked.users), return_inverse=True)
        return cls(units.size, ranked.cluster is not None, place)


def squared_influences(
    groups: Sequence[LinearGroup],
    ratios: Sequence[FloatArray],
    level: IntArray,
    weights: FloatArray,
    units: Units,
) -> list[FloatArray]:
    """Return Σψ² over the units, (n_gamma, n_columns) a group, from R and weights (n_levels, n_gamma)."""
    # With x_u = Σwc/Σw over the positives of a user and m_u = Σbw, ψ = m (x − r)/m̄ in a global form, and
    # f x − R per user; a sum of a metric adds r (V_u − V̄), and R = r V̄. Groups share `weighted` and `own`.
    form = groups[0].form
    sums = [_Psi.of(*one, level, weights, units) for one in zip(groups, ratios, strict=True)]
    stacks = {id(one.contributions): one.contributions for one in groups}
    widest = max(one.shape[1] for one in stacks.values())
    for users, rows in users_by_count(form.ranked, weights.shape[1], widest):
        w = weights[level[rows]]  # (n_users, n_positives, n_gamma)
        if form.own is not None:
            w *= form.own[rows][:, :, None]
        total = np.matmul(np.ones((1, rows.shape[1])), w)
        w *= np.divide(1, total, out=np.zeros_like(total), where=total != 0)  # own weights may be 0
        for name, contributions in stacks.items():
            x = np.matmul(contributions[rows].transpose(0, 2, 1), w)  # (n_users, n_columns, n_gamma)
            for one in sums:
                if id(one.group.contributions) == name:
                    one.add(users, x, total[:, 0])
    return [one.found() for one in sums]


@dataclass(frozen=True, eq=False)
class _Psi:
    """Σψ² of a group, (n_columns, n_gamma)."""

    group: LinearGroup
    ratio: FloatArray  # r, (n_columns, n_gamma)
    scale: FloatArray | None  # V̄/m̄ of a global form, (n_gamma,)
    volume: float  # V̄; 1 where the metric is no sum
    units: Units
    squares: FloatArray
    added: FloatArray | None  # Σψ by unit, (n_units, n_columns, n_gamma), where units have several queries

    @classmethod
    def of(
        cls, group: LinearGroup, estimates: FloatArray, level: IntArray, weights: FloatArray, units: Units
    ) -> _Psi:
        form = group.form
        volume = float(form.ranked.counts.mean()) if form.is_sum else 1.0
        scale = None
        if not form.per_user:
            total = np.bincount(level, form.base, weights.shape[0]) @ weights
            scale = volume * form.ranked.users.size / total
        shape = (group.contributions.shape[1], weights.shape[1])
        added = np.zeros((units.n, *shape)) if units.clustered else None
        ratio = np.ascontiguousarray(estimates.T) / volume
        return cls(group, ratio, scale, volume, units, np.zeros(shape), added)

    def add(self, users: IntArray, x: FloatArray, total: FloatArray) -> None:
        """Add users with equally many positives: x, (n_users, n_columns, n_gamma), and Σw."""
        form, count = self.group.form, int(self.group.form.ranked.counts[users[0]])
        psi = x - self.ratio
        if self.scale is not None:
            psi *= (total * (self.scale / count if form.users_equal else self.scale))[:, None]
        elif form.is_sum:
            psi *= count
        if form.is_sum:
            psi += self.ratio * (count - self.volume)
        if self.added is not None:
            np.add.at(self.added, self.units.place[users], psi)
        else:
            np.add(self.squares, np.einsum("ucg,ucg->cg", psi, psi), out=self.squares)

    def found(self) -> FloatArray:
        """Return Σψ², (n_gamma, n_columns)."""
        if self.added is None:
            return self.squares.T
        squares: FloatArray = np.einsum("ucg,ucg->gc", self.added, self.added)
        return squares * (self.units.n / self.units.place.size) ** 2


def users_by_count(
    ranked: RankedPositives, n_gamma: int, n_columns: int = 1
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield users with equally many positives, and their rows (n_users, n_positives), in blocks."""
    # A block holds weights, γ × positives, and γ × columns of each of its users.
    order = np.argsort(ranked.counts, kind="stable")
    counts = ranked.counts[order]
    edges = np.flatnonzero(np.diff(counts, prepend=0, append=0))
    for first, last in pairwise(edges.tolist()):
        count = int(counts[first])
        size = max(1, BLOCK_ENTRIES // (n_gamma * max(count, n_columns)))
        for start in range(first, last, size):
            users = order[start : min(start + size, last)]
            yield users, ranked.starts[users][:, None] + np.arange(count)
