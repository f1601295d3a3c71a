"""Top-K lists: ranks within the list are exact, ranks beyond K are censored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ipseval._checks import examples
from ipseval._columns import columns_of
from ipseval._types import AnyArray, IntArray
from ipseval.errors import InputError
from ipseval.interactions import Interactions
from ipseval.ranking._candidates import CandidateLists, frame_columns
from ipseval.ranking._order import ranks_within_group
from ipseval.ranking._ranked import RankedPositives
from ipseval.ranking._targets import Targets
from ipseval.splits import Split


def is_list_frame(model: Any) -> bool:
    """Return whether `model` is a data frame with columns user, item and rank or score."""
    columns = frame_columns(model)
    return {"user", "item"} <= columns and bool(columns & {"rank", "score"})


def rank_lists(
    model: Any,
    split: Split,
    targets: Targets,
    *,
    lists: CandidateLists | None = None,
    allowed: IntArray | None = None,
    name: str,
) -> RankedPositives:
    """Return ranks of the test positives in top-K lists.

    The list of a user is ordered by `rank` (1-based, ascending) or, without it, by `score` (descending, ties
    counted). K is the length of the longest list; shorter lists are padded with misses, and a positive that
    is not in its user's list gets rank K + 1, which only says "beyond K". Lists of all candidates give the
    whole ranking.
    """
    by_rank = "rank" in frame_columns(model)
    try:
        log = Interactions.from_frame(model, users=split.user_ids, items=split.item_ids)
        order_by = _numbers(model, "rank" if by_rank else "score")
    except InputError as error:
        raise InputError(f"{name} (top-K lists): {error}") from None
    seen = np.isin(log.pair_key, split.excluded.pair_key)
    if seen.any():
        pair = (split.user_ids[log.user[seen][0]], split.item_ids[log.item[seen][0]])
        raise InputError(
            f"{name}: {int(seen.sum())} entries of the lists are training items of their user (first: "
            f"{examples(pair)}), which are no candidates; remove them when recommending."
        )
    _check_candidates(log, lists, allowed, name)
    n_above, n_tied = ranks_within_group(log.user, -order_by if by_rank else order_by)
    if by_rank:
        _check_ranks(log, order_by, n_above, n_tied, name)
    length = int(log.activity.max())
    order = np.argsort(log.pair_key)
    keys, wanted = log.pair_key[order], targets.user * np.int64(split.n_items) + targets.item
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    found, row = keys[place] == wanted, order[place]
    n_above, n_tied = np.where(found, n_above[row], length), np.where(found, n_tied[row], 0)
    if (log.activity >= targets.candidates_by_user)[targets.user].all():  # the lists hold all candidates
        return targets.ranked(n_above, n_tied, list_length=log.activity)
    return targets.ranked(n_above, n_tied, max_rank=length, list_length=log.activity)


def _check_candidates(
    log: Interactions, lists: CandidateLists | None, allowed: IntArray | None, name: str
) -> None:
    """Raise `InputError` when a list holds an item that does not compete."""
    if lists is not None:
        inside = lists.contains(log.user, log.item, log.n_items)
    elif allowed is not None:
        inside = np.isin(log.item, allowed)
    else:
        return
    if not inside.all():
        pair = (log.user_ids[log.user[~inside][0]], log.item_ids[log.item[~inside][0]])
        raise InputError(
            f"{name}: {int((~inside).sum()):,} entries of the lists are not candidates (first: "
            f"{examples(pair)}); recommend among the candidates only."
        )


def _numbers(frame: Any, column: str) -> AnyArray:
    """Return a column of numbers; infinite scores are scores, NaN is not."""
    values = columns_of(frame, [column])[column]
    if values.dtype.kind not in "iuf":
        raise InputError(f"column {column!r} must be numeric; got {values.dtype}.")
    return values.astype(np.float64) if column == "rank" else values


def _check_ranks(log: Interactions, rank: AnyArray, n_above: IntArray, n_tied: IntArray, name: str) -> None:
    wrong = (rank != n_above + 1) | (n_tied > 0)
    if wrong.any():
        user = pd.unique(log.user_ids[log.user[wrong]])
        raise InputError(
            f"{name}: the ranks of {user.size} users are not 1, 2, 3, … without gap or repetition "
            f"(e.g. user {examples(user)})."
        )
