"""Ranks among sampled candidates: what most published numbers rest on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ipseval._checks import as_float_vector, as_generator, check_choice, check_finite, check_positive_int
from ipseval._types import AnyArray, FloatArray, IntArray, RngLike
from ipseval.errors import DataWarning, IdentificationWarning, InputError
from ipseval.ranking._draws import Drawer
from ipseval.ranking._factors import Factors
from ipseval.ranking._passes import CALL_TARGET, check_nan, comparable
from ipseval.ranking._ranked import RankedPositives
from ipseval.ranking._run import Resources, kernels_for
from ipseval.ranking._sampling import Pool, Sampling
from ipseval.ranking._scorers import FactorScorer, Scorer
from ipseval.ranking._targets import Targets
from ipseval.splits import Split

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
        each positive.
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
        """Return the unnormalised probabilities of the items (n_items,); None for uniform.

        Raises
        ------
        InputError
            For an array of the wrong length, negative or non-finite entries, or a sum of 0.
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


def rank_sampled(
    scorer: Scorer, split: Split, targets: Targets, candidates: SampledCandidates, resources: Resources
) -> RankedPositives:
    """Return the rank of each positive among its drawn competitors; `n_candidates` is the list's length.

    Raises
    ------
    InputError
        For NaN scores, and for users with too few candidates to draw from.
    """
    weights = candidates.weights(split)
    _warn(candidates, targets, weights)
    drawer = Drawer(candidates, targets, weights)
    size, reader = targets.user.size, _ScoreReader(scorer, targets.item_ids.size, resources)
    n_above, n_tied, n_full = (np.zeros(size, dtype=np.int64) for _ in range(3))
    above_estimate, tied_estimate, order = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int64)
    drawn_rows: list[IntArray] = []
    drawn_inverse: list[FloatArray] = []
    users, starts = np.unique(targets.user, return_index=True)
    stops = np.append(starts[1:], size)
    n_nan, n_scores = 0, 0
    for user, start, stop, scores in zip(users, starts, stops, reader.rows(users), strict=True):
        rows = slice(int(start), int(stop))
        items = targets.item[rows]
        n_full[rows], draws = drawer.draw(int(user), items)
        own, drawn = scores(items)[:, None], scores(draws.items)
        n_nan, n_scores = n_nan + int((own != own).sum() + (drawn != drawn).sum()), n_scores + drawn.size
        above, tied = drawn > own, drawn == own
        n_above[rows], n_tied[rows] = above.sum(axis=1), tied.sum(axis=1)
        if draws.inverse is not None:
            above_estimate[rows] = (above * draws.inverse).sum(axis=1)
            tied_estimate[rows] = (tied * draws.inverse).sum(axis=1)
        order[rows] = (own < own.T).sum(axis=1)
        if candidates.pool == "candidates":
            place = np.minimum(np.searchsorted(items, draws.items), items.size - 1)
            i, k = np.nonzero(items[place] == draws.items)
            drawn_rows.append(start + np.column_stack([i, place[i, k]]))
            if draws.inverse is not None:
                drawn_inverse.append(draws.inverse[i, k])
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
    )
    return targets.ranked(
        n_above,
        n_tied,
        n_candidates=np.full(size, candidates.n_sampled + 1, dtype=np.int64) + extra,
        candidates_by_user=None,
        candidates=f"sampled candidates: {candidates.description}",
        sampling=sampling,
    )


class _ScoreReader:
    """Gives, for one user after the other, a function from item codes to their scores."""

    def __init__(self, scorer: Scorer, n_items: int, resources: Resources) -> None:
        self.scorer = scorer
        self.n_items = n_items
        self.resources = resources

    def rows(self, users: IntArray) -> Iterator[Callable[[IntArray], AnyArray]]:
        if isinstance(self.scorer, FactorScorer):
            yield from self._products(self.scorer, users)
            return
        per_user = 8 * self.n_items * 2
        size = self.resources.users_per_block(
            per_user, wanted=CALL_TARGET // per_user, n_workers=1, what="one user"
        )
        for first in range(0, users.size, size):
            block = comparable(self.scorer.block(users[first : first + size]))
            for row in block:
                yield row.__getitem__

    def _products(self, scorer: FactorScorer, users: IntArray) -> Iterator[Callable[[IntArray], AnyArray]]:
        """Score only the drawn items, by the definition that exact ranks rest on."""
        factors = Factors.of(scorer.user_factors, scorer.item_factors, scorer.item_bias, self.resources.name)
        kernels = kernels_for(None, 0)
        for user in users:

            def scores(items: IntArray, user: int = int(user)) -> AnyArray:
                flat = items.ravel()
                out = np.empty(flat.size)
                kernels.pair_scores(
                    factors.user, factors.item, factors.bias, np.full(flat.size, user), flat, out
                )
                return out.reshape(items.shape)

            yield scores


def _warn(candidates: SampledCandidates, targets: Targets, weights: FloatArray | None) -> None:
    if weights is not None and (weights == 0).any():
        n_zero = int((weights == 0).sum())
        warnings.warn(
            f"{n_zero:,} of {weights.size:,} items have probability 0 and are never drawn: no correction can "
            "count those that stand above a positive. Give every item a positive probability, for example "
            "popularity + 1.",
            DataWarning,
            stacklevel=5,  # the caller of ipseval.rank_positives
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
    warnings.warn(
        f"pool={candidates.pool!r}: {effect}, so who competes depends on which positives were observed, and "
        "every estimator, IPS and SNIPS included, is biased for that reason. Use pool='candidates'.",
        IdentificationWarning,
        stacklevel=5,  # the caller of ipseval.rank_positives
    )
