"""Ranks among sampled candidates: what most published numbers rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ipseval._base.checks import warn_user
from ipseval._base.types import AnyArray, FloatArray, IntArray
from ipseval.data.splits import Split
from ipseval.errors import DataWarning, IdentificationWarning
from ipseval.ranking._draws import Drawer, SampledCandidates
from ipseval.ranking._factors import Factors
from ipseval.ranking._passes import CALL_TARGET, check_nan, comparable
from ipseval.ranking._ranked import RankedPositives
from ipseval.ranking._sampling import Sampling
from ipseval.ranking._scorers import FactorScorer, Scorer
from ipseval.ranking._targets import Targets
from ipseval.ranking._threads import Resources, kernels_for


def rank_sampled(
    scorer: Scorer, split: Split, targets: Targets, candidates: SampledCandidates, resources: Resources
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
        n_full[rows], draws = drawer.draw(int(user), items)
        own, drawn = scores(items)[:, None], scores(draws.items)
        n_nan += int((own != own).sum() + (drawn != drawn).sum())
        n_scores += own.size + drawn.size
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
    scorer: Scorer, users: IntArray, n_items: int, resources: Resources
) -> Iterator[Callable[[IntArray], AnyArray]]:
    """Give, for one user after the other, a function from item codes to their scores."""
    if isinstance(scorer, FactorScorer):  # only the drawn items, by the definition that exact ranks rest on
        factors = Factors.of(scorer.user_factors, scorer.item_factors, scorer.item_bias, resources.name)
        kernels = kernels_for(None, 0)
        for user in users:

            def scores(items: IntArray, user: int = int(user)) -> AnyArray:
                return factors.scores(np.full(items.size, user), items.ravel(), kernels).reshape(items.shape)

            yield scores
        return
    per_user = 8 * n_items * 2
    size = resources.users_per_block(per_user, wanted=CALL_TARGET // per_user, n_workers=1, what="one user")
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
