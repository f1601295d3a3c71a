"""Ranks among sampled candidates, which most published numbers rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from ipseval.data.splits import Split
from ipseval.errors import DataWarning, IdentificationWarning, InputError
from ipseval.ranking._factors import Factors
from ipseval.ranking._passes import check_nan, comparable
from ipseval.ranking._sampling import Pool, Sampling
from ipseval.ranking._scorers import AnyScorer
from ipseval.ranking._threads import Resources, kernels_for
from ipseval.ranking.candidates import Targets
from ipseval.ranking.ranked_positives import RankedPositives
from ipseval.utils.checks import (
    as_float_vector,
    as_generator,
    check_choice,
    check_finite,
    check_positive_int,
    examples,
    warn_user,
)
from ipseval.utils.types import AnyArray, FloatArray, IntArray, RngLike

POOLS = ("candidates", "unobserved", "unobserved+positives")


@dataclass(frozen=True, eq=False)
class SampledCandidates:
    """Draw m competitors of each positive instead of ranking it against all candidates.

    Sampled metrics are not estimates of the full-ranking metrics (AUC excepted): pass the ranks on to
    `ipseval.correct_sampled`, or rank all candidates, which is fast enough for most catalogues.

    Parameters
    ----------
    n_sampled : int
        m, the number of competitors drawn for each positive.
    distribution : "uniform", "popularity" or (n_items,) array
        Probability of an item to be drawn: equal, proportional to its number of training interactions, or
        proportional to the array (order of `split.item_ids`). Restricted to the user's candidates.
    per : {"user", "positive"}
        One sequence of draws shared by a user's positives (each positive skips itself), or a sequence for
        each positive. Metrics of lists, such as ndcg, ap and rr, need the first: they read one list that
        holds all of the user's positives and the draws. Recall, mean_dcg, atop and auc read each positive
        alone.
    replacement : bool
        Draw with replacement. Without and with unequal probabilities, items are drawn one after the other in
        proportion to what is left (by exponential keys: time proportional to the catalogue).
    pool : {"candidates", "unobserved", "unobserved+positives"}
        What is drawn from. "candidates": all items but the user's training items and the positive itself;
        other positives may be drawn. The other two make the competition depend on which positives were
        observed, are biased for that reason and draw an `IdentificationWarning`: "unobserved" leaves all of
        the user's test positives out; "unobserved+positives" does the same and lets the positives compete
        with each other in addition.
    rng : int, Generator or None
        Source of randomness. Each user has a generator of its own, derived from it, so that the draws depend
        neither on the other users nor on blocks and threads. A Generator or None is read once, here: the same
        object draws the same candidates for every recommender.

    Raises
    ------
    InputError
        For an unknown choice, m < 1, or a distribution that is negative, not finite or all 0.

    Examples
    --------
    >>> SampledCandidates(100, rng=0)
    SampledCandidates(100 drawn uniformly, with replacement, per user, seed 0)
    """

    n_sampled: int
    distribution: str | AnyArray = field(default="uniform", kw_only=True)
    per: Literal["user", "positive"] = field(default="user", kw_only=True)
    replacement: bool = field(default=True, kw_only=True)
    pool: Pool = field(default="candidates", kw_only=True)
    rng: RngLike = field(default=None, kw_only=True)
    key: int = field(init=False)

    def __post_init__(self) -> None:
        check_positive_int("n_sampled", self.n_sampled)
        check_choice("per", self.per, ("user", "positive"))
        check_choice("pool", self.pool, POOLS)
        if isinstance(self.distribution, str):
            check_choice("distribution", self.distribution, ("uniform", "popularity"))
        else:
            as_float_vector("distribution", self.distribution)
        object.__setattr__(self, "key", int(as_generator(self.rng).integers(2**63)))

    def __repr__(self) -> str:
        return f"SampledCandidates({self.description})"

    @property
    def description(self) -> str:
        """The draw in words, for reports."""
        how = {"uniform": "uniformly", "popularity": "by popularity"}
        law = how[self.distribution] if isinstance(self.distribution, str) else "by given probabilities"
        seed = f"seed {self.rng}" if isinstance(self.rng, (int, np.integer)) else f"key {self.key}"
        where = "" if self.pool == "candidates" else f" from pool {self.pool!r}"
        with_or_without = "with" if self.replacement else "without"
        return f"{self.n_sampled} drawn {law}{where}, {with_or_without} replacement, per {self.per}, {seed}"

    def weights(self, split: Split) -> FloatArray | None:
        """Return the unnormalised probabilities of the items (n_items,); None for uniform."""
        if isinstance(self.distribution, str):
            if self.distribution == "uniform":
                return None
            return split.train.popularity.astype(np.float64)
        weights = as_float_vector("distribution", self.distribution, size=split.n_items)
        check_finite("distribution", weights)
        if (weights < 0).any() or weights.sum() <= 0:
            n_negative = int((weights < 0).sum())
            raise InputError(
                f"distribution must be >= 0 with a positive sum; {n_negative} entries are below 0."
            )
        return weights


# Competitors of a user's positives: items (s, m), and their inverse probabilities, None if uniform.
Draws: TypeAlias = tuple[IntArray, FloatArray | None]


class Drawer:
    """Draws the competitors of one user after the other, each user from a generator of its own."""

    def __init__(self, candidates: SampledCandidates, targets: Targets, weights: FloatArray | None) -> None:
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
            inverse = [one for _, one in parts if one is not None]
            draws = np.concatenate([one for one, _ in parts]), np.concatenate(inverse) if inverse else None
        return n_others + 1, draws

    def _check_size(self, user: int, n_others: int, excluded: IntArray) -> None:
        m, drawable = self.candidates.n_sampled, n_others
        if self.weights is not None:
            drawable = self.n_drawable - int((self.weights[excluded] > 0).sum())
            drawable -= self.candidates.pool == "candidates"  # the positive itself, at worst
        needed = 1 if self.candidates.replacement else m
        if drawable < needed:
            raise InputError(
                f"user {examples(self.targets.user_ids[[user]])} has {drawable} other candidates that can be "
                f"drawn, but {needed} are needed; use a smaller n_sampled or replacement=True."
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
            return drawn, None
        total = self.weights.sum() - self.weights[excluded].sum()
        others = total - (self.weights[items] if inside else 0.0)
        # Given that it is not the positive itself, a draw is j with probability weight_j / others.
        return drawn, np.broadcast_to(others, items.shape)[:, None] / (m * self.weights[drawn])

    def _with_replacement(self, generator: np.random.Generator, excluded: IntArray, size: int) -> IntArray:
        if self.cumulative is None:
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
        """Return draws in proportion to what is left: the items with the m smallest keys E/weight."""
        # Given the next smallest key τ, an item is among them with probability 1 − exp(−weight·τ), whatever
        # its score: the inverse makes sums over the drawn items unbiased (Cohen & Kaplan 2007,
        # 10.1145/1281100.1281133).
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
        return np.stack(drawn), np.stack(inverse)


def _skip(position: IntArray, excluded: IntArray) -> IntArray:
    """Return the item codes at these positions of the catalogue without the sorted `excluded` items."""
    return position + np.searchsorted(excluded - np.arange(excluded.size), position, side="right")


def rank_sampled(
    scorer: AnyScorer, split: Split, targets: Targets, candidates: SampledCandidates, resources: Resources
) -> RankedPositives:
    """Return the rank of each positive among its drawn competitors; `n_candidates` is the list's length."""
    weights = candidates.weights(split)
    _warn(candidates, targets, weights)
    drawer = Drawer(candidates, targets, weights)
    size = targets.user.size
    n_above, n_tied, n_full = (np.zeros(size, dtype=np.int64) for _ in range(3))
    above_estimate, tied_estimate, order = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int64)
    drawn_rows, drawn_inverse = list[IntArray](), list[FloatArray]()
    users, starts = np.unique(targets.user, return_index=True)
    stops = np.append(starts[1:], size)
    n_nan, n_scores = 0, 0
    score_rows = _score_rows(scorer, users, targets.item_ids.size, resources)
    for user, start, stop, scores in zip(users, starts, stops, score_rows, strict=True):
        rows = slice(int(start), int(stop))
        items = targets.item[rows]
        n_full[rows], (competitors, inverse) = drawer.draw(int(user), items)
        own, drawn = scores(items)[:, None], scores(competitors)
        n_nan += int((own != own).sum() + (drawn != drawn).sum())
        n_scores += own.size + drawn.size
        above, tied = drawn > own, drawn == own
        n_above[rows], n_tied[rows] = above.sum(axis=1), tied.sum(axis=1)
        if inverse is not None:
            above_estimate[rows] = (above * inverse).sum(axis=1)
            tied_estimate[rows] = (tied * inverse).sum(axis=1)
        order[rows] = (own < own.T).sum(axis=1)
        if candidates.pool == "candidates":
            place = np.minimum(np.searchsorted(items, competitors), items.size - 1)
            i, k = np.nonzero(items[place] == competitors)
            drawn_rows.append(start + np.column_stack([i, place[i, k]]))
            if inverse is not None:
                drawn_inverse.append(inverse[i, k])
        if candidates.pool == "unobserved+positives":
            n_above[rows] += order[rows]
            n_tied[rows] += (own == own.T).sum(axis=1) - 1
    check_nan(n_nan, n_scores, resources.name)
    counts = stops - starts
    extra = np.repeat(counts - 1, counts) if candidates.pool == "unobserved+positives" else 0
    sampling = Sampling(
        candidates.n_sampled,
        n_full,
        candidates.replacement,
        weights is None,
        candidates.pool,
        None if weights is None else above_estimate,
        None if weights is None else tied_estimate,
        order,
        np.concatenate(drawn_rows) if drawn_rows else None,
        np.concatenate(drawn_inverse) if drawn_inverse else None,
        candidates.per,
    )
    return targets.ranked(
        n_above,
        n_tied,
        n_candidates=np.full(size, candidates.n_sampled + 1, dtype=np.int64) + extra,
        candidates_by_user=None,
        candidates=f"sampled candidates: {candidates.description}",
        sampling=sampling,
    )


def _score_rows(
    scorer: AnyScorer, users: IntArray, n_items: int, resources: Resources
) -> Iterator[Callable[[IntArray], AnyArray]]:
    """Give, for one user after the other, a function from item codes to their scores."""
    if isinstance(scorer, Factors):  # only the drawn items, by the definition that exact ranks rest on
        kernels = kernels_for("numpy", 0)
        for user in users:

            def scores(items: IntArray, user: int = int(user)) -> AnyArray:
                return scorer.scores(np.full(items.size, user), items.ravel(), kernels).reshape(items.shape)

            yield scores
        return
    size = resources.users_per_call(n_items)
    for first in range(0, users.size, size):
        for row in comparable(scorer.block(users[first : first + size])):
            yield row.__getitem__


def _warn(candidates: SampledCandidates, targets: Targets, weights: FloatArray | None) -> None:
    if weights is not None and (weights == 0).any():
        n_zero = int((weights == 0).sum())
        warn_user(
            f"{n_zero:,} of {weights.size:,} items have probability 0 and are never drawn: no correction can "
            "count those that stand above a positive. Give every item a positive probability, for example "
            "popularity + 1.",
            DataWarning,
        )
    if candidates.pool == "candidates":
        return
    _, counts = np.unique(targets.user, return_counts=True)
    what = f"the {counts.mean():.1f} observed positives per user"
    if candidates.pool == "unobserved":
        effect = f"{what} cannot be drawn"
    else:
        share = float(np.mean((counts - 1) / (counts - 1 + candidates.n_sampled)))
        effect = f"{what} are always among the competitors ({share:.1%} of them)"
    warn_user(
        f"pool={candidates.pool!r}: {effect}, so who competes depends on which positives were observed, and "
        "every estimator, IPS and SNIPS included, is biased for that reason. Use pool='candidates'.",
        IdentificationWarning,
    )
