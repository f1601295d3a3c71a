"""Ranks of the positives of slates, among the items listed for their query."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval._base.ids import by_row
from ipseval._base.keys import ranks_within_group
from ipseval._base.types import AnyArray, BoolArray
from ipseval.errors import InputError
from ipseval.evaluation.slates._slates import Slates
from ipseval.ranking import RankedPositives

LISTED = "the items listed for each query"


def rank_slates(
    scores: AnyArray, slates: Slates, *, listed: BoolArray | None = None, name: str = "the model"
) -> RankedPositives:
    """Return the rank of every positive among the items listed for its query.

    Parameters
    ----------
    scores : (n,) array
        One score for each row of the slates, higher is better; NaN is an error.
    slates : Slates
    listed : (n,) bool array, optional
        Rows that the model has scored, where it retrieved a part of the items only. The others follow
        unranked: metrics with a cutoff count them as misses.
    name : str
        Used in error messages.

    Raises
    ------
    InputError
        For another number of scores, scores that are not numbers, and NaN.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"query": [1, 1, 1], "item": [7, 8, 9], "label": [0, 1, 0]})
    >>> ranked = rank_slates(np.array([0.9, 0.5, 0.5]), Slates.from_frame(frame))
    >>> ranked.n_above, ranked.n_tied, ranked.n_candidates
    (array([1]), array([1]), array([3]))
    """
    values = _scores(scores, slates, name)
    whole = listed is None or bool(listed.all())
    rows = slates.positive_rows
    if whole or listed is None:
        n_above, n_tied = (one[rows] for one in ranks_within_group(slates.query, values))
        cut: dict[str, Any] = {}
    else:
        length = np.bincount(slates.query[listed], minlength=slates.query_ids.size)
        n_above = np.full(len(slates), length.max(initial=0))
        n_tied = np.zeros(len(slates), dtype=np.int64)
        n_above[listed], n_tied[listed] = ranks_within_group(slates.query[listed], values[listed])
        n_above, n_tied = n_above[rows], n_tied[rows]
        cut = {"max_rank": int(length.max(initial=0)), "list_length": length}
    return RankedPositives.trusted(
        user=slates.query[rows],
        item=slates.item[rows],
        n_above=n_above,
        n_tied=n_tied,
        n_candidates=slates.size[slates.query[rows]],
        user_ids=slates.query_ids,
        item_ids=slates.item_ids,
        gain=slates.label[rows],
        candidates_by_user=slates.size,
        candidates=LISTED,
        cluster=slates.user,
        cluster_ids=slates.user_ids,
        **cut,
    )


def _scores(scores: Any, slates: Slates, name: str) -> AnyArray:
    values = np.asarray(by_row(scores, f"{name}: scores", slates.row_labels))
    if values.dtype.kind not in "iuf" or values.shape != (len(slates),):
        raise InputError(
            f"{name}: scores must be numbers, one for each of the {len(slates):,} rows of the slates; got "
            f"{values.dtype} of shape {values.shape}."
        )
    n_nan = int((values != values).sum())
    if n_nan:
        raise InputError(
            f"{name}: {n_nan:,} of {values.size:,} scores are NaN; a NaN has no place in a ranking. "
            "Use -inf for items that should come last."
        )
    return values
