"""The sampled ranks that corrections read, from arrays or from RankedPositives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ipseval.errors import InputError
from ipseval.metrics.sampled._checks import check_sizes, is_whole_rank
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import as_float_vector, check_positive_int
from ipseval.utils.ids import align_rows
from ipseval.utils.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SampledRanks:
    """Checked sampled ranks; arrays have one entry per positive, (n_pos,)."""

    n_above: IntArray
    n_tied: IntArray
    n_candidates: FloatArray
    n_sampled: int
    replacement: bool
    share: FloatArray  # weight of the positive in the average; sums to 1
    segment: IntArray  # position of its user
    n_users: int
    estimated_rank: FloatArray | None = None

    def rank_shares(self, rows: BoolArray) -> FloatArray:
        """Return the shares of the sampled ranks 1 … m + 1 among some rows, with ties spread evenly."""
        n_above = self.n_above[rows]
        n_tied = self.n_tied[rows]
        share_per_rank = self.share[rows] / (n_tied + 1)
        size = self.n_sampled + 2
        begins = np.bincount(n_above, share_per_rank, minlength=size)
        ends = np.bincount(n_above + n_tied + 1, share_per_rank, minlength=size)
        # The running sum has rounding errors, but a share is never below 0.
        return np.maximum(np.cumsum(begins - ends)[:-1], 0.0)


def add_extreme_users(data: SampledRanks) -> SampledRanks:
    """Return the data with two more users, one with the first and one with the last rank (Agresti and Coull).

    Resamples of few positives often have no extreme rank. The two users count as much as the average user.
    """
    n = np.median(data.n_candidates)
    estimated_rank = data.estimated_rank
    if estimated_rank is not None:
        estimated_rank = np.append(estimated_rank, [1.0, n])
    return replace(
        data,
        n_above=np.append(data.n_above, [0, data.n_sampled]),
        n_tied=np.append(data.n_tied, [0, 0]),
        n_candidates=np.append(data.n_candidates, [n, n]),
        share=np.append(data.share, np.full(2, 1 / data.n_users)),
        segment=np.append(data.segment, [data.n_users, data.n_users + 1]),
        n_users=data.n_users + 2,
        estimated_rank=estimated_rank,
    )


def read_sampled_ranks(
    sampled_ranks: Any,
    *,
    n_candidates: npt.ArrayLike | None,
    n_sampled: int | None,
    replacement: bool | None,
    users: npt.ArrayLike | None,
    weights: npt.ArrayLike | None,
    method: str,
) -> SampledRanks:
    """Return checked sampled ranks from the arguments of `correct_sampled`, or raise `InputError`."""
    if isinstance(sampled_ranks, RankedPositives):
        for argument in (n_candidates, n_sampled, replacement, users):
            if argument is not None:
                raise InputError(
                    "RankedPositives bring n_candidates, n_sampled, replacement and users along; leave them "
                    "out."
                )
        return _read_ranked_positives(sampled_ranks, align_rows(weights, "weights"), method)
    if n_candidates is None or n_sampled is None:
        raise InputError("n_candidates and n_sampled are needed with an array of sampled ranks.")
    if method == "importance":
        raise InputError(
            "method='importance' needs the probabilities of the drawn candidates; pass the RankedPositives "
            "of rank_positives(..., candidates=SampledCandidates(...))."
        )
    # Series and frames are matched to the ranks by their index.
    n_candidates = align_rows(n_candidates, "n_candidates", sampled_ranks)
    users = align_rows(users, "users", sampled_ranks)
    weights = align_rows(weights, "weights", sampled_ranks)
    m = check_positive_int("n_sampled", n_sampled)
    with_replacement = replacement is None or bool(replacement)
    rank = _check_sampled_ranks(sampled_ranks, m)
    n = check_sizes(n_candidates, rank.size, m, with_replacement)
    segment = _encode_users(users, rank)
    n_users = int(segment.max()) + 1
    n_above = rank.astype(np.int64) - 1
    return SampledRanks(
        n_above=n_above,
        n_tied=np.zeros_like(n_above),
        n_candidates=n,
        n_sampled=m,
        replacement=with_replacement,
        share=_compute_shares(segment, n_users, weights),
        segment=segment,
        n_users=n_users,
    )


def _check_sampled_ranks(sampled_ranks: npt.ArrayLike, m: int) -> FloatArray:
    """Return sampled ranks as floats; raise unless they are whole numbers in 1 … m + 1."""
    rank = as_float_vector("sampled_ranks", sampled_ranks)
    if not rank.size:
        raise InputError("sampled_ranks is empty; at least one rank is needed.")
    is_wrong = ~is_whole_rank(rank, m + 1)
    if is_wrong.any():
        raise InputError(
            f"sampled_ranks must be whole numbers in 1 … n_sampled + 1 = {m + 1}; {int(is_wrong.sum())} of "
            f"{rank.size} are not (first: {rank[is_wrong][0]:g})."
        )
    return rank


def _encode_users(users: npt.ArrayLike | None, rank: FloatArray) -> IntArray:
    """Return the position of the user of each positive, (n_pos,); without users, each has its own."""
    if users is None:
        return np.arange(rank.size)
    user_ids = np.asarray(users)
    if user_ids.shape != rank.shape:
        raise InputError(f"users must have shape {rank.shape} like sampled_ranks; got {user_ids.shape}.")
    _, segment = np.unique(user_ids, return_inverse=True)
    return segment


def _read_ranked_positives(
    positives: RankedPositives, weights: npt.ArrayLike | None, method: str
) -> SampledRanks:
    """Return the sampled ranks of RankedPositives; raise if the method cannot correct them."""
    sampling = positives.sampling
    if sampling is None:
        raise InputError(
            "these are ranks among all candidates: there is nothing to correct. Sampled ranks come from "
            "rank_positives(..., candidates=SampledCandidates(...))."
        )
    if not len(positives):
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
    n_users = int(positives.users.size)
    return SampledRanks(
        n_above=positives.n_above,
        n_tied=positives.n_tied,
        n_candidates=sampling.n_candidates.astype(np.float64),
        n_sampled=sampling.n_sampled,
        replacement=sampling.replacement,
        share=_compute_shares(positives.segment, n_users, weights),
        segment=positives.segment,
        n_users=n_users,
        estimated_rank=sampling.rank_estimate,
    )


def _compute_shares(segment: IntArray, n_users: int, weights: npt.ArrayLike | None) -> FloatArray:
    """Return the share of each positive in Σ_u mean(w c) / Σ_u mean(w), (n_pos,); w = 1 without weights."""
    counts = np.bincount(segment)[segment]
    if weights is None:
        return np.asarray(1 / (n_users * counts), dtype=np.float64)
    weight = as_float_vector("weights", weights, size=segment.size)
    is_wrong = ~(np.isfinite(weight) & (weight > 0))
    if is_wrong.any():
        raise InputError(
            f"weights must be positive and finite; {int(is_wrong.sum())} of {is_wrong.size} are not."
        )
    share = weight / counts
    return np.asarray(share / share.sum(), dtype=np.float64)
