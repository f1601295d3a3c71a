"""Sampled ranks as the corrections read them, from arrays or from RankedPositives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ipseval.errors import InputError
from ipseval.metrics.sampled._expected import check_sizes, is_whole_rank
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import as_float_vector, check_positive_int
from ipseval.utils.ids import by_row
from ipseval.utils.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SampledData:
    """Sampled ranks as the corrections read them, all arrays (n_pos,)."""

    n_above: IntArray
    n_tied: IntArray
    n_candidates: FloatArray
    n_sampled: int
    replacement: bool
    share: FloatArray  # weight of each positive in the average; sums to 1
    segment: IntArray  # position of its user
    n_users: int
    estimated_rank: FloatArray | None = None

    def shares(self, rows: BoolArray) -> FloatArray:
        """Return the shares of the sampled ranks 1 … m + 1 among some rows; ties spread over their run."""
        above, tied = self.n_above[rows], self.n_tied[rows]
        step = self.share[rows] / (tied + 1)
        size = self.n_sampled + 2
        change = np.bincount(above, step, minlength=size) - np.bincount(
            above + tied + 1, step, minlength=size
        )
        # A run that ended leaves rounding behind; a share is never below 0.
        return np.maximum(np.cumsum(change)[:-1], 0.0)


def with_best_and_worst(data: SampledData) -> SampledData:
    """Return the data with two more users, one positive first and one last (Agresti and Coull)."""
    # Resamples of few positives often hold no extreme rank. The two count as the mean user.
    n = np.median(data.n_candidates)
    rank = data.estimated_rank
    return replace(
        data,
        n_above=np.append(data.n_above, [0, data.n_sampled]),
        n_tied=np.append(data.n_tied, [0, 0]),
        n_candidates=np.append(data.n_candidates, [n, n]),
        share=np.append(data.share, np.full(2, 1 / data.n_users)),
        segment=np.append(data.segment, [data.n_users, data.n_users + 1]),
        n_users=data.n_users + 2,
        estimated_rank=None if rank is None else np.append(rank, [1.0, n]),
    )


def read_sampled(
    sampled_ranks: Any,
    n_candidates: npt.ArrayLike | None,
    n_sampled: int | None,
    replacement: bool | None,
    users: npt.ArrayLike | None,
    weights: npt.ArrayLike | None,
    method: str,
) -> SampledData:
    """Return checked sampled ranks, or raise `InputError`; parameters as in `correct_sampled`."""
    if isinstance(sampled_ranks, RankedPositives):
        given = (n_candidates, n_sampled, replacement, users)
        if any(one is not None for one in given):
            raise InputError(
                "RankedPositives bring n_candidates, n_sampled, replacement and users along; leave them out."
            )
        return _read_ranked(sampled_ranks, by_row(weights, "weights"), method)
    if n_candidates is None or n_sampled is None:
        raise InputError("n_candidates and n_sampled are needed with an array of sampled ranks.")
    if method == "importance":
        raise InputError(
            "method='importance' needs the probabilities of the drawn candidates; pass the RankedPositives "
            "of rank_positives(..., candidates=SampledCandidates(...))."
        )
    n_candidates, users, weights = (
        by_row(one, name, sampled_ranks)
        for name, one in (("n_candidates", n_candidates), ("users", users), ("weights", weights))
    )
    m = check_positive_int("n_sampled", n_sampled)
    drawn = True if replacement is None else bool(replacement)
    rank = as_float_vector("sampled_ranks", sampled_ranks)
    if not rank.size:
        raise InputError("sampled_ranks is empty; at least one rank is needed.")
    bad = ~is_whole_rank(rank, m + 1)
    if bad.any():
        raise InputError(
            f"sampled_ranks must be whole numbers in 1 … n_sampled + 1 = {m + 1}; {int(bad.sum())} of "
            f"{rank.size} are not (first: {rank[bad][0]:g})."
        )
    n = check_sizes(n_candidates, rank.size, m, drawn)
    segment, n_users = np.arange(rank.size), rank.size
    if users is not None:
        given_users = np.asarray(users)
        if given_users.shape != rank.shape:
            raise InputError(
                f"users must have shape {rank.shape} like sampled_ranks; got {given_users.shape}."
            )
        _, segment = np.unique(given_users, return_inverse=True)
        n_users = int(segment.max()) + 1
    above = rank.astype(np.int64) - 1
    return SampledData(
        above, np.zeros_like(above), n, m, drawn, _shares_of(segment, n_users, weights), segment, n_users
    )


def _read_ranked(ranked: RankedPositives, weights: npt.ArrayLike | None, method: str) -> SampledData:
    sampling = ranked.sampling
    if sampling is None:
        raise InputError(
            "these are ranks among all candidates: there is nothing to correct. Sampled ranks come from "
            "rank_positives(..., candidates=SampledCandidates(...))."
        )
    if not len(ranked):
        raise InputError("there is no positive to correct.")
    if sampling.pool == "unobserved+positives" and method != "none":
        raise InputError(
            "lists that always hold the other positives have no correction; draw from pool='candidates'."
        )
    if not sampling.uniform and method not in ("none", "importance"):
        raise InputError(
            f"method={method!r} assumes that all candidates are equally likely to be drawn; these were drawn "
            "with unequal probabilities, and the sampled rank tells the share of probability above, not the "
            "rank. Use method='importance', or draw uniformly."
        )
    if sampling.uniform and method == "importance":
        raise InputError("the candidates were drawn uniformly; use method='rank', which is the same.")
    return SampledData(
        ranked.n_above,
        ranked.n_tied,
        sampling.n_candidates.astype(np.float64),
        sampling.n_sampled,
        sampling.replacement,
        _shares_of(ranked.segment, int(ranked.users.size), weights),
        ranked.segment,
        int(ranked.users.size),
        sampling.rank_estimate,
    )


def _shares_of(segment: IntArray, n_users: int, weights: npt.ArrayLike | None) -> FloatArray:
    """Return the share of each positive in Σ_u mean(w c) / Σ_u mean(w), (n_pos,); w = 1 without weights."""
    counts = np.bincount(segment)[segment]
    if weights is None:
        return np.asarray(1 / (n_users * counts), dtype=np.float64)
    weight = as_float_vector("weights", weights, size=segment.size)
    bad = ~(np.isfinite(weight) & (weight > 0))
    if bad.any():
        raise InputError(f"weights must be positive and finite; {int(bad.sum())} of {bad.size} are not.")
    share = weight / counts
    return np.asarray(share / share.sum(), dtype=np.float64)
