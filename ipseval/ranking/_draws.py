"""Draws of competitors: for each user, from a generator of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ipseval._types import FloatArray, IntArray
from ipseval.errors import InputError
from ipseval.ranking._targets import Targets


class DrawScheme(Protocol):
    """The choices that the draws follow: `SampledCandidates`."""

    @property
    def n_sampled(self) -> int: ...
    @property
    def per(self) -> str: ...
    @property
    def replacement(self) -> bool: ...
    @property
    def pool(self) -> str: ...
    @property
    def key(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Draws:
    """Competitors of a user's positives: items (s, m) and their inverse probabilities, or None if uniform."""

    items: IntArray
    inverse: FloatArray | None


class Drawer:
    """Draws the competitors of one user after the other, each user from a generator of its own."""

    def __init__(self, candidates: DrawScheme, targets: Targets, weights: FloatArray | None) -> None:
        self.candidates = candidates
        self.targets = targets
        self.weights = weights
        self.n_items = n_items = int(targets.item_ids.size)
        self.cumulative = None if weights is None else np.cumsum(weights)
        self.n_drawable = n_items if weights is None else int((weights > 0).sum())

    def draw(self, user: int, items: IntArray) -> tuple[int, Draws]:
        """Return n, the size of the set drawn from with the positive, and the draws for `items` (s,)."""
        targets, spec = self.targets, self.candidates
        excluded = targets.excluded[targets.excluded_start[user] : targets.excluded_start[user + 1]]
        if spec.pool != "candidates":
            excluded = np.union1d(excluded, items)
        inside = spec.pool == "candidates"  # whether a positive is in the set that is drawn from
        n_others = self.n_items - excluded.size - inside
        self._check_size(user, n_others, excluded)
        # Philox is keyed by (seed, user): the draws do not depend on who else is ranked.
        generator = np.random.Generator(np.random.Philox(key=np.array([spec.key, user], dtype=np.uint64)))
        if spec.per == "user":
            draws = self._sequence(generator, excluded, items, inside)
        else:
            parts = [self._sequence(generator, excluded, items[i : i + 1], inside) for i in range(items.size)]
            inverse = [part.inverse for part in parts if part.inverse is not None]
            draws = Draws(
                np.concatenate([part.items for part in parts]), np.concatenate(inverse) if inverse else None
            )
        return n_others + 1, draws

    def _check_size(self, user: int, n_others: int, excluded: IntArray) -> None:
        m, drawable = self.candidates.n_sampled, n_others
        if self.weights is not None:
            drawable = self.n_drawable - int((self.weights[excluded] > 0).sum())
            drawable -= self.candidates.pool == "candidates"  # the positive itself, at worst
        needed = 1 if self.candidates.replacement else m
        if drawable < needed:
            raise InputError(
                f"user {self.targets.user_ids[user]!r} has {drawable} other candidates that can be drawn, "
                f"but {needed} are needed; use a smaller n_sampled or replacement=True."
            )

    def _sequence(
        self, generator: np.random.Generator, excluded: IntArray, items: IntArray, inside: bool
    ) -> Draws:
        if self.weights is not None and not self.candidates.replacement:
            return self._by_keys(generator, excluded, items)
        m = self.candidates.n_sampled
        if self.candidates.replacement:
            sequence = self._with_replacement(generator, excluded, m)
            # A positive skips itself in the shared sequence: draw on until each has m others.
            while ((sequence == items[:, None]).sum(axis=1) > sequence.size - m).any():
                sequence = np.concatenate([sequence, self._with_replacement(generator, excluded, m)])
        else:
            n_free = self.n_items - excluded.size
            chosen = generator.choice(n_free, size=m + inside, replace=False, shuffle=True)
            sequence = _skip(chosen, excluded)
        drawn = np.stack([sequence[sequence != item][:m] for item in items])
        if self.weights is None:
            return Draws(drawn, None)
        total = self.weights.sum() - self.weights[excluded].sum()
        others = total - (self.weights[items] if inside else 0.0)
        # Given that it is not the positive itself, a draw is j with probability weight_j / others.
        return Draws(drawn, np.broadcast_to(others, items.shape)[:, None] / (m * self.weights[drawn]))

    def _with_replacement(self, generator: np.random.Generator, excluded: IntArray, size: int) -> IntArray:
        if self.weights is None or self.cumulative is None:
            return _skip(generator.integers(self.n_items - excluded.size, size=size), excluded)
        kept: list[IntArray] = []
        found = 0
        while found < size:
            # side="right" never lands on an item of probability 0.
            point = generator.random(size) * self.cumulative[-1]
            drawn = np.searchsorted(self.cumulative, point, side="right")
            drawn = drawn[~np.isin(drawn, excluded)]
            kept.append(drawn)
            found += drawn.size
        return np.concatenate(kept)[:size]

    def _by_keys(self, generator: np.random.Generator, excluded: IntArray, items: IntArray) -> Draws:
        """Return successive draws in proportion to what is left: the items with the m smallest keys E/weight.

        Given the next smallest key τ, an item is among them with probability 1 − exp(−weight·τ), whatever
        its score: the inverse makes sums over the drawn items unbiased (Cohen & Kaplan 2007,
        doi:10.1145/1281100.1281133).
        """
        assert self.weights is not None
        m = self.candidates.n_sampled
        with np.errstate(divide="ignore"):
            keys = generator.standard_exponential(self.n_items) / self.weights
        keys[excluded] = np.inf
        count = min(m + 2, self.n_items)
        order = np.argpartition(keys, count - 1)[:count]
        order = order[np.argsort(keys[order], kind="stable")]
        drawn, inverse = [], []
        for item in items:
            others = order[order != item]
            threshold = keys[others[m]] if others.size > m else np.inf
            drawn.append(others[:m])
            inverse.append(-1 / np.expm1(-self.weights[others[:m]] * threshold))
        return Draws(np.stack(drawn), np.stack(inverse))


def _skip(position: IntArray, excluded: IntArray) -> IntArray:
    """Return the item codes at these positions of the catalogue without the sorted `excluded` items."""
    return position + np.searchsorted(excluded - np.arange(excluded.size), position, side="right")
