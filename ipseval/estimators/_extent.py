"""Extent: how large a sample is, in counts that add up over partitions of the users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._base.checks import counted
from ipseval._base.types import IntArray
from ipseval.estimators._sample import Sample


@dataclass(frozen=True, eq=False)
class Extent:
    """How large a sample is."""

    positives_per_user: IntArray  # users of the population with 0, 1, 2, … positives
    n_without_propensity: int = 0  # positives left out because they have none
    n_left_out: int = 0  # users left out because some model has no list of them
    n_clusters: int = 0  # where users are queries: persons that they belong to; 0: users

    def __repr__(self) -> str:
        return f"Extent({counted(self.n_positives, 'positive')} of {self.units})"

    @property
    def unit(self) -> str:
        """What values are of, in a word: "user", or "query"."""
        return "query" if self.n_clusters else "user"

    @property
    def unit_plural(self) -> str:
        """The same of several: "users", or "queries"."""
        return "queries" if self.n_clusters else "users"

    @property
    def units(self) -> str:
        """How many users, or queries and users, have positives, in words."""
        own = counted(self.n_users, self.unit)
        return f"{own} of {counted(self.n_clusters, 'user')}" if self.n_clusters else own

    @classmethod
    def of(cls, sample: Sample) -> Extent:
        """Return the extent of a sample."""
        ranked = sample.ranked
        counts = np.bincount(ranked.counts, minlength=1)
        counts[0] = ranked.n_population - ranked.users.size
        n_out = 0 if ranked.left_out is None else int(ranked.left_out.sum())
        n_clusters = 0 if ranked.cluster is None else np.unique(ranked.cluster[ranked.users]).size
        return cls(counts, sample.n_without_propensity, n_out, n_clusters)

    def merge(self, other: Extent) -> Extent:
        """Return the extent of the users of both."""
        counts = np.zeros(max(self.positives_per_user.size, other.positives_per_user.size), dtype=np.int64)
        for one in (self, other):
            counts[: one.positives_per_user.size] += one.positives_per_user
        n_without = self.n_without_propensity + other.n_without_propensity
        return Extent(counts, n_without, self.n_left_out + other.n_left_out)

    @property
    def n_positives(self) -> int:
        """Positives that entered."""
        return int(np.arange(self.positives_per_user.size) @ self.positives_per_user)

    @property
    def n_users(self) -> int:
        """Users with positives."""
        return int(self.positives_per_user[1:].sum())

    @property
    def n_population(self) -> int:
        """All users, with or without positives."""
        return int(self.positives_per_user.sum())

    @property
    def counts(self) -> IntArray:
        """Numbers of positives of the users that have any, ascending, (n_users,)."""
        return np.repeat(np.arange(1, self.positives_per_user.size), self.positives_per_user[1:])

    @property
    def median_positives(self) -> float:
        """Median number of positives of users with positives; NaN without any."""
        below, n = np.cumsum(self.positives_per_user[1:]), self.n_users
        if not n:
            return float("nan")
        middle = [1 + int(np.searchsorted(below, place, side="right")) for place in ((n - 1) // 2, n // 2)]
        return sum(middle) / 2
