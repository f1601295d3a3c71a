"""Squared influences along γ of estimates linear in contributions: users' means are made once for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ipseval._types import FloatArray, IntArray
from ipseval.inference._linear import LinearGroup
from ipseval.ranking import RankedPositives

# Entries of one block: 2 MB, which stay near the processor.
BLOCK_ENTRIES = 262_144
Sums = tuple[FloatArray, FloatArray]


def influences(
    groups: Sequence[LinearGroup],
    ratios: Sequence[FloatArray | None],
    level: IntArray,
    weights: FloatArray,
    units: Units,
    *,
    share: int = 1,
) -> list[Sums]:
    """Return R and Σψ² over the independent units of each group, (n_gamma, n_columns) each.

    With x_u = Σwc/Σw over the positives of a user and m_u = Σbw, ψ = m (x − r)/m̄ in a global form, and
    f x − R per user; a sum of a metric adds r (V_u − V̄), and R = r V̄.

    Parameters
    ----------
    groups : sequence of LinearGroup
        With the same weights: the same `weighted` and `own` in their forms.
    ratios : sequence of (n_gamma, n_columns) float array or None
        R of each group. None: found here, for per-user forms without clusters.
    level : (n_pos,) int array
    weights : (n_levels, n_gamma) float array
    units : Units
    share : int
        One of so many users is taken: all, or a few that tell how smooth the curves are.
    """
    form = groups[0].form
    sums = [_Psi.of(*one, level, weights, units) for one in zip(groups, ratios, strict=True)]
    stacks = {id(one.contributions): one.contributions for one in groups}
    widest = max(one.shape[1] for one in stacks.values())
    centres: dict[int, FloatArray] = {}
    for one in sums:
        if one.ratio is not None:
            centres.setdefault(id(one.group.contributions), one.ratio)
    n = 0
    for users, rows in alike(form.ranked, weights.shape[1], widest, share):
        n += users.size
        w = weights[level[rows]]  # (n_users, n_positives, n_gamma)
        if form.own is not None:
            w *= form.own[rows][:, :, None]
        total = np.matmul(np.ones((1, rows.shape[1])), w)
        w *= np.divide(1, total, out=np.zeros_like(total), where=total != 0)  # own weights may be 0
        for name, contributions in stacks.items():
            x = np.matmul(contributions[rows].transpose(0, 2, 1), w)  # (n_users, n_columns, n_gamma)
            # Squares are of differences from a value near all of them, so that equal users have no error.
            centre = centres[name] if name in centres else centres.setdefault(name, x.mean(axis=0))
            x -= centre
            squares = x * x
            for one in sums:
                if id(one.group.contributions) == name:
                    one.add(users, x, squares, centre, total[:, 0])
    return [one.found(centres[id(one.group.contributions)], n) for one in sums]


@dataclass(frozen=True, eq=False)
class _Psi:
    """Σψ' and Σψ'² of a group, (n_columns, n_gamma): ψ' is ψ, or f (x − d) + d (f − f̄) where R is sought.

    Attributes
    ----------
    group : LinearGroup
    ratio : (n_columns, n_gamma) float array or None
        r, where it is known.
    scale : (n_gamma,) float array or None
        V̄/m̄ of a global form.
    volume : float
        V̄; 1 where the metric is no sum.
    units : Units
    first, second : float array
    added : (n_units, n_columns, n_gamma) float array or None
        Σψ by unit, where units have several queries.
    """

    group: LinearGroup
    ratio: FloatArray | None
    scale: FloatArray | None
    volume: float
    units: Units
    first: FloatArray
    second: FloatArray
    added: FloatArray | None

    @classmethod
    def of(
        cls,
        group: LinearGroup,
        estimates: FloatArray | None,
        level: IntArray,
        weights: FloatArray,
        units: Units,
    ) -> _Psi:
        form = group.form
        volume = float(form.ranked.counts.mean()) if form.is_sum else 1.0
        scale = None
        if not form.per_user:
            total = np.bincount(level, form.base, weights.shape[0]) @ weights
            scale = volume * form.ranked.users.size / total
        shape = (group.contributions.shape[1], weights.shape[1])
        added = np.zeros((units.n, *shape)) if units.clustered else None
        ratio = None if estimates is None else np.ascontiguousarray(estimates.T) / volume
        return cls(group, ratio, scale, volume, units, np.zeros(shape), np.zeros(shape), added)

    def add(
        self, users: IntArray, x: FloatArray, squares: FloatArray, centre: FloatArray, total: FloatArray
    ) -> None:
        """Add users with equally many positives: x less the centre, (n_users, n_columns, n_gamma), and Σw."""
        form, count = self.group.form, int(self.group.form.ranked.counts[users[0]])
        ratio = centre if self.ratio is None else self.ratio
        if self.scale is None:
            mass = np.full((1, 1), float(count if form.is_sum else 1))
        else:
            mass = total * (self.scale / count if form.users_equal else self.scale)
        ones, shape = np.ones(users.size), self.second.shape
        if self.added is None and ratio is centre and not (form.is_sum and count != self.volume):
            if self.scale is None:
                self.first[...] += mass * (ones @ x.reshape(users.size, -1)).reshape(shape)
                self.second[...] += mass**2 * (ones @ squares.reshape(users.size, -1)).reshape(shape)
            else:
                self.second[...] += np.einsum("ug,ucg->cg", mass**2, squares)
            return
        psi = (x - (ratio - centre)) * mass[:, None]
        if form.is_sum:
            psi += ratio * (count - self.volume)
        if self.added is not None:
            np.add.at(self.added, self.units.place[users], psi)
            return
        flat = psi.reshape(users.size, -1)
        self.first[...] += (ones @ flat).reshape(shape)
        self.second[...] += np.einsum("uk,uk->k", flat, flat).reshape(shape)

    def found(self, centre: FloatArray, n: int) -> Sums:
        """Return R and Σψ² of n users, (n_gamma, n_columns)."""
        if self.ratio is None:
            return (self.volume * centre + self.first / n).T, (self.second - self.first**2 / n).T
        squares = self.second
        if self.added is not None:
            squares = np.einsum("ucg,ucg->cg", self.added, self.added)
            squares *= (self.units.n / self.units.place.size) ** 2
        return (self.volume * self.ratio).T, squares.T


@dataclass(frozen=True, eq=False)
class Units:
    """The independent units with positives: users, or those to whom queries belong.

    Attributes
    ----------
    n : int
    clustered : bool
        Whether a unit may have several queries.
    place : (n_users,) int array
        Unit of each user, or query, with positives.
    """

    n: int
    clustered: bool
    place: IntArray

    @classmethod
    def of(cls, ranked: RankedPositives) -> Units:
        """Return the units of all users with positives."""
        units, place = np.unique(ranked.unit(ranked.users), return_inverse=True)
        return cls(units.size, ranked.cluster is not None, place)


def alike(
    ranked: RankedPositives, n_gamma: int, n_columns: int = 1, share: int = 1
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield users with equally many positives, and their rows (n_users, n_positives).

    A block holds weights, γ × positives, and γ × columns of each of its users. Of all users in the order of
    their numbers of positives one in `share` is taken.
    """
    order = np.argsort(ranked.counts, kind="stable")[::share]
    counts = ranked.counts[order]
    edges = np.flatnonzero(np.diff(counts, prepend=0, append=0))
    for first, last in pairwise(edges.tolist()):
        count = int(counts[first])
        size = max(1, BLOCK_ENTRIES // (n_gamma * max(count, n_columns)))
        for start in range(first, last, size):
            users = order[start : min(start + size, last)]
            yield users, ranked.starts[users][:, None] + np.arange(count)
