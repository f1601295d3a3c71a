"""Ranks among sampled candidates: the protocol of most published evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from ipseval.data.splits import Split
from ipseval.errors import DataWarning, IdentificationWarning, InputError
from ipseval.ranking._factors import Factors
from ipseval.ranking._rank_counts import check_nan, select_kernels, to_comparable
from ipseval.ranking._sampling import Pool, Sampling
from ipseval.ranking._scorers import AnyScorer
from ipseval.ranking.candidates import HeldOutPositives
from ipseval.ranking.ranked_positives import RankedPositives
from ipseval.utils.checks import (
    as_float_vector,
    as_generator,
    check_choice,
    check_finite,
    check_positive_int,
    format_examples,
    warn_user,
)
from ipseval.utils.compute import Resources
from ipseval.utils.public import public_class
from ipseval.utils.types import AnyArray, FloatArray, IntArray, RngLike

POOLS = ("candidates", "unobserved", "unobserved+positives")


@public_class
@dataclass(frozen=True, eq=False)
class SampledCandidates:
    """Draw m competitors of each positive instead of ranking it against all candidates.

    Sampled metrics, with the exception of AUC, do not estimate the full-ranking metrics. Pass the ranks to
    `ipseval.correct_sampled`, or rank all candidates, which is fast enough for most catalogues.

    Parameters
    ----------
    n_sampled : int
        m, the number of competitors drawn for each positive.
    distribution : "uniform", "popularity" or (n_items,) array, default "uniform"
        Probability that an item is drawn: equal, proportional to its number of training interactions, or
        proportional to the array (in the order of `split.item_ids`). Only the user's candidates are drawn.
    per : {"user", "positive"}, default "user"
        "user": all positives of a user share one sequence of draws, in which each positive skips itself.
        "positive": each positive has its own sequence. Metrics of lists, such as ndcg, ap and rr, need
        "user", because they are computed from one list with all of the user's positives and the draws.
        Recall, mean_dcg, atop and auc are computed from each positive separately.
    replacement : bool, default True
        Whether items are drawn with replacement. Draws without replacement and with unequal probabilities are
        made one after the other, in proportion to the weights of the remaining items (by exponential keys, in
        time proportional to the catalogue).
    pool : {"candidates", "unobserved", "unobserved+positives"}, default "candidates"
        The set of items that is drawn from. "candidates": all items except the user's training items and the
        positive itself, so that other positives may be drawn. "unobserved": all of the user's test positives
        are excluded as well. "unobserved+positives": as "unobserved", and the user's positives compete with
        each other. With the last two, the competitors depend on which positives were observed; the metrics
        are biased for this reason, and an `IdentificationWarning` is issued.
    rng : int, Generator or None, default None
        Source of randomness. Each user has a separate generator that is derived from it, so the draws depend
        neither on the remaining users nor on blocks and threads. A Generator or None is read once, when this
        object is created: the same object draws the same candidates for every recommender.

    Raises
    ------
    InputError
        For an unknown choice, m < 1, or a distribution that is negative, not finite or all 0.

    See Also
    --------
    correct_sampled : Estimate a full-ranking metric from sampled ranks.

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
        """Description of the draw, for reports."""
        law = "by given probabilities"
        if isinstance(self.distribution, str):
            law = {"uniform": "uniformly", "popularity": "by popularity"}[self.distribution]
        source = f"key {self.key}"
        if isinstance(self.rng, (int, np.integer)):
            source = f"seed {self.rng}"
        pool = ""
        if self.pool != "candidates":
            pool = f" from pool {self.pool!r}"
        preposition = "with" if self.replacement else "without"
        return f"{self.n_sampled} drawn {law}{pool}, {preposition} replacement, per {self.per}, {source}"

    def weights(self, split: Split) -> FloatArray | None:
        """Return the unnormalised probabilities of the items.

        Parameters
        ----------
        split : Split
            Its training part gives the popularity and the number of items.

        Returns
        -------
        (n_items,) float array or None
            None for the uniform distribution.

        Raises
        ------
        InputError
            For a distribution of another length than the items, and one that is negative, not finite or all 0.
        """
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
    """Draw the competitors of users, each user with a separate generator."""

    def __init__(
        self, candidates: SampledCandidates, targets: HeldOutPositives, weights: FloatArray | None
    ) -> None:
        self.candidates = candidates
        self.targets = targets
        self.weights = weights
        self.n_items = int(targets.item_ids.size)
        self.cumulative: FloatArray | None = None
        self.n_drawable = self.n_items
        if weights is not None:
            self.cumulative = np.cumsum(weights)
            self.n_drawable = int((weights > 0).sum())

    def draw(self, user: int, items: IntArray) -> tuple[int, Draws]:
        """Return n, the size of the set drawn from with the positive, and the draws for `items` (s,)."""
        targets = self.targets
        candidates = self.candidates
        excluded_items = targets.excluded_items[
            targets.excluded_start[user] : targets.excluded_start[user + 1]
        ]
        includes_positives = candidates.pool == "candidates"
        if not includes_positives:
            excluded_items = np.union1d(excluded_items, items)

        n_competitors = self.n_items - excluded_items.size - includes_positives
        self._check_size(user, n_competitors, excluded_items)
        # Philox is keyed by (seed, user): the draws do not depend on the other users that are ranked.
        key = np.array([candidates.key, user], dtype=np.uint64)
        generator = np.random.Generator(np.random.Philox(key=key))
        if candidates.per == "user":
            draws = self._draw_sequence(generator, excluded_items, items)
        else:
            draws = self._draw_for_each(generator, excluded_items, items)
        return n_competitors + 1, draws

    def _check_size(self, user: int, n_competitors: int, excluded_items: IntArray) -> None:
        """Raise `InputError` if the user has too few candidates to draw from."""
        n_drawable = n_competitors
        if self.weights is not None:
            n_drawable = self.n_drawable - int((self.weights[excluded_items] > 0).sum())
            if self.candidates.pool == "candidates":
                n_drawable -= 1  # the positive itself, in the worst case
        n_needed = 1 if self.candidates.replacement else self.candidates.n_sampled
        if n_drawable < n_needed:
            raise InputError(
                f"user {format_examples(self.targets.user_ids[[user]])} has {n_drawable} other candidates that can "
                f"be drawn, but {n_needed} are needed.",
                advice="Use a smaller number of candidates, or SampledCandidates(…, replacement=True)",
                shell_advice="Use a smaller number of {candidates}",
            )

    def _draw_for_each(
        self, generator: np.random.Generator, excluded_items: IntArray, items: IntArray
    ) -> Draws:
        """Return draws with a separate sequence for each of the positives `items`."""
        competitors = []
        inverses = []
        for i in range(items.size):
            drawn_items, inverse = self._draw_sequence(generator, excluded_items, items[i : i + 1])
            competitors.append(drawn_items)
            if inverse is not None:
                inverses.append(inverse)
        if not inverses:
            return np.concatenate(competitors), None
        return np.concatenate(competitors), np.concatenate(inverses)

    def _draw_sequence(
        self, generator: np.random.Generator, excluded_items: IntArray, items: IntArray
    ) -> Draws:
        """Return draws from one sequence that the positives `items` share."""
        candidates = self.candidates
        if self.weights is not None and not candidates.replacement:
            return self._draw_by_keys(generator, excluded_items, items)

        m = candidates.n_sampled
        includes_positives = candidates.pool == "candidates"
        if candidates.replacement:
            sequence = self._draw_with_replacement(generator, excluded_items, m)
            # A positive skips itself in the shared sequence: draw more until each has m other items.
            while ((sequence == items[:, None]).sum(axis=1) > sequence.size - m).any():
                sequence = np.concatenate(
                    [sequence, self._draw_with_replacement(generator, excluded_items, m)]
                )
        else:
            n_free = self.n_items - excluded_items.size
            chosen = generator.choice(n_free, size=m + includes_positives, replace=False, shuffle=True)
            sequence = positions_to_items(chosen, excluded_items)

        drawn_items = np.stack([sequence[sequence != item][:m] for item in items])
        if self.weights is None:
            return drawn_items, None
        total = np.full(items.shape, self.weights.sum() - self.weights[excluded_items].sum())
        if includes_positives:
            total -= self.weights[items]
        # Given that it is not the positive itself, a draw is j with probability weight_j / total.
        return drawn_items, total[:, None] / (m * self.weights[drawn_items])

    def _draw_with_replacement(
        self, generator: np.random.Generator, excluded_items: IntArray, size: int
    ) -> IntArray:
        """Return `size` items that are not excluded, each drawn by the weights."""
        if self.cumulative is None:
            return positions_to_items(
                generator.integers(self.n_items - excluded_items.size, size=size), excluded_items
            )
        parts: list[IntArray] = []
        n_drawn = 0
        while n_drawn < size:
            # With side="right", the search never returns an item of probability 0.
            point = generator.random(size) * self.cumulative[-1]
            drawn_items = np.searchsorted(self.cumulative, point, side="right")
            drawn_items = drawn_items[~np.isin(drawn_items, excluded_items)]
            parts.append(drawn_items)
            n_drawn += drawn_items.size
        return np.concatenate(parts)[:size]

    def _draw_by_keys(
        self, generator: np.random.Generator, excluded_items: IntArray, items: IntArray
    ) -> Draws:
        """Return weighted draws without replacement: the items with the m smallest keys E/weight."""
        # Given the next smallest key τ, an item is among them with probability 1 − exp(−weight·τ), whatever
        # its score: the inverse makes sums over the drawn items unbiased (Cohen & Kaplan 2007,
        # 10.1145/1281100.1281133).
        assert self.weights is not None
        m = self.candidates.n_sampled
        with np.errstate(divide="ignore"):
            keys = generator.standard_exponential(self.n_items) / self.weights
        keys[excluded_items] = np.inf
        n_smallest = min(m + 2, self.n_items)
        order = np.argpartition(keys, n_smallest - 1)[:n_smallest]
        order = order[np.argsort(keys[order], kind="stable")]

        drawn_items = []
        inverse = []
        for item in items:
            competitors = order[order != item]
            threshold = np.inf
            if competitors.size > m:
                threshold = keys[competitors[m]]
            drawn_items.append(competitors[:m])
            inverse.append(-1 / np.expm1(-self.weights[competitors[:m]] * threshold))
        return np.stack(drawn_items), np.stack(inverse)


def positions_to_items(position: IntArray, excluded_items: IntArray) -> IntArray:
    """Return the item codes at these positions of the catalogue without the sorted `excluded_items` items."""
    return position + np.searchsorted(excluded_items - np.arange(excluded_items.size), position, side="right")


class SampledCounts:
    """Collect the counts of positives among their drawn competitors, user by user."""

    def __init__(self, candidates: SampledCandidates, n_positives: int) -> None:
        self.pool = candidates.pool
        self.n_above = np.zeros(n_positives, dtype=np.int64)
        self.n_tied = np.zeros(n_positives, dtype=np.int64)
        self.n_pool = np.zeros(n_positives, dtype=np.int64)  # size of the set that was drawn from
        self.above_estimate = np.zeros(n_positives)
        self.tied_estimate = np.zeros(n_positives)
        self.order = np.zeros(n_positives, dtype=np.int64)
        self.n_nan = 0
        self.n_scores = 0
        self._drawn_rows: list[IntArray] = []
        self._drawn_inverse: list[FloatArray] = []

    def add_user(
        self, rows: slice, items: IntArray, draws: Draws, positive_score: AnyArray, drawn_score: AnyArray
    ) -> None:
        """Count the competitors of one user's positives `items`, which are in `rows`."""
        competitors, inverse = draws
        score = positive_score[:, None]
        self.n_nan += int((score != score).sum() + (drawn_score != drawn_score).sum())
        self.n_scores += score.size + drawn_score.size

        is_above = drawn_score > score
        is_tied = drawn_score == score
        self.n_above[rows] = is_above.sum(axis=1)
        self.n_tied[rows] = is_tied.sum(axis=1)
        if inverse is not None:
            self.above_estimate[rows] = (is_above * inverse).sum(axis=1)
            self.tied_estimate[rows] = (is_tied * inverse).sum(axis=1)
        self.order[rows] = (score < score.T).sum(axis=1)

        if self.pool == "candidates":
            self._record_drawn_positives(rows.start, items, competitors, inverse)
        elif self.pool == "unobserved+positives":
            self.n_above[rows] += self.order[rows]
            self.n_tied[rows] += (score == score.T).sum(axis=1) - 1

    def _record_drawn_positives(
        self, first_row: int, items: IntArray, competitors: IntArray, inverse: FloatArray | None
    ) -> None:
        """Record which of the user's positives were drawn as competitors of which positive."""
        position = np.minimum(np.searchsorted(items, competitors), items.size - 1)
        i, k = np.nonzero(items[position] == competitors)
        self._drawn_rows.append(first_row + np.column_stack([i, position[i, k]]))
        if inverse is not None:
            self._drawn_inverse.append(inverse[i, k])

    def build_record(self, candidates: SampledCandidates, *, is_uniform: bool) -> Sampling:
        """Return the record of the draws."""
        drawn_items = np.concatenate(self._drawn_rows) if self._drawn_rows else None
        drawn_inverse = np.concatenate(self._drawn_inverse) if self._drawn_inverse else None
        record = Sampling(
            n_sampled=candidates.n_sampled,
            n_candidates=self.n_pool,
            replacement=candidates.replacement,
            uniform=is_uniform,
            pool=candidates.pool,
            order=self.order,
            drawn_pairs=drawn_items,
            drawn_inverse=drawn_inverse,
            per=candidates.per,
        )
        if is_uniform:
            return record
        return replace(record, above_estimate=self.above_estimate, tied_estimate=self.tied_estimate)


def rank_sampled_candidates(
    scorer: AnyScorer,
    split: Split,
    targets: HeldOutPositives,
    candidates: SampledCandidates,
    resources: Resources,
) -> RankedPositives:
    """Return the rank of each positive among its drawn competitors; `n_candidates` is the list's length."""
    weights = candidates.weights(split)
    _warn_about_draws(candidates, targets, weights)
    drawer = Drawer(candidates, targets, weights)
    size = targets.user.size
    counts = SampledCounts(candidates, size)

    users, starts = np.unique(targets.user, return_index=True)
    stops = np.append(starts[1:], size)
    score_functions = _iterate_score_functions(scorer, users, targets.item_ids.size, resources)
    for user, start, stop, score_items in zip(users, starts, stops, score_functions, strict=True):
        rows = slice(int(start), int(stop))
        items = targets.item[rows]
        counts.n_pool[rows], draws = drawer.draw(int(user), items)
        positive_score = score_items(items)
        drawn_score = score_items(draws[0])
        counts.add_user(rows, items, draws, positive_score, drawn_score)
    check_nan(counts.n_nan, counts.n_scores, resources.name)

    n_candidates = np.full(size, candidates.n_sampled + 1, dtype=np.int64)
    if candidates.pool == "unobserved+positives":
        n_positives = stops - starts
        n_candidates += np.repeat(n_positives - 1, n_positives)
    return targets.build_ranks(
        counts.n_above,
        counts.n_tied,
        n_candidates=n_candidates,
        candidates_by_user=None,
        candidates=f"sampled candidates: {candidates.description}",
        sampling=counts.build_record(candidates, is_uniform=weights is None),
    )


def _iterate_score_functions(
    scorer: AnyScorer, users: IntArray, n_items: int, resources: Resources
) -> Iterator[Callable[[IntArray], AnyArray]]:
    """Yield, for one user after another, a function from item codes to their scores."""
    if isinstance(scorer, Factors):
        # Only drawn items are scored, by the same definition as exact ranks.
        kernels = select_kernels("numpy", 0)
        for user in users:

            def score_items(items: IntArray, user: int = int(user)) -> AnyArray:
                return scorer.scores(np.full(items.size, user), items.ravel(), kernels).reshape(items.shape)

            yield score_items
        return

    size = resources.users_per_call(n_items)
    for first in range(0, users.size, size):
        for row in to_comparable(scorer.block(users[first : first + size])):
            yield row.__getitem__


def _warn_about_draws(
    candidates: SampledCandidates, targets: HeldOutPositives, weights: FloatArray | None
) -> None:
    """Warn about items that are never drawn, and about pools that depend on the observed positives."""
    if weights is not None and (weights == 0).any():
        n_zero = int((weights == 0).sum())
        warn_user(
            f"{n_zero:,} of {weights.size:,} items have probability 0 and are never drawn, so no correction "
            "can count those that rank above a positive. Give every item a positive probability, for example "
            "popularity + 1.",
            DataWarning,
        )
    if candidates.pool == "candidates":
        return

    _, counts = np.unique(targets.user, return_counts=True)
    positives = f"the {counts.mean():.1f} observed positives per user"
    if candidates.pool == "unobserved":
        effect = f"{positives} cannot be drawn"
    else:
        share = float(np.mean((counts - 1) / (counts - 1 + candidates.n_sampled)))
        effect = f"{positives} are always among the competitors ({share:.1%} of them)"
    warn_user(
        f"pool={candidates.pool!r}: {effect}, so the competitors depend on which positives were observed, "
        "and every estimator, including IPS and SNIPS, is biased for this reason. Use pool='candidates'.",
        IdentificationWarning,
    )
