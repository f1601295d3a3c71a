"""Ranks of the positives of slates among the items listed for their query, and their propensities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ipseval.errors import InputError, PropensityError
from ipseval.evaluation.slates._slates import Slates
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import examples
from ipseval.utils.ids import by_row, ranks_within_group
from ipseval.utils.types import AnyArray, BoolArray

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
        For another number of scores or of `listed`, scores that are not numbers, and NaN.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"query": [1, 1, 1], "item": [7, 8, 9], "label": [0, 1, 0]})
    >>> ranked = rank_slates(np.array([0.9, 0.5, 0.5]), Slates.from_frame(frame))
    >>> ranked.n_above, ranked.n_tied, ranked.n_candidates
    (array([1]), array([1]), array([3]))
    """
    values = _scores(scores, slates, name)
    rows = slates.positive_rows
    there = np.ones(len(slates), dtype=bool) if listed is None else listed
    if there.shape != (len(slates),):
        raise InputError(f"listed must have one entry for each of the {len(slates):,} rows of the slates.")
    length = np.bincount(slates.query[there], minlength=slates.query_ids.size)
    longest = int(length.max(initial=0))
    n_above, n_tied = np.full(len(slates), longest), np.zeros(len(slates), dtype=np.int64)
    n_above[there], n_tied[there] = ranks_within_group(slates.query[there], values[there])
    cut = {} if there.all() else {"max_rank": longest, "list_length": length}
    return RankedPositives.trusted(
        user=slates.query[rows],
        item=slates.item[rows],
        n_above=n_above[rows],
        n_tied=n_tied[rows],
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


@dataclass(frozen=True)
class _Ids:
    item_ids: AnyArray
    user_ids: AnyArray


def of_queries(propensity: Propensity, slates: Slates) -> Propensity:
    """Return a propensity of users and items as P of the positives of their queries."""
    if propensity.item is not None:
        return _matched(propensity, slates.item_ids)
    if propensity.user_ids is not None and np.array_equal(propensity.user_ids, slates.query_ids):
        return propensity
    users = slates.query_ids if slates.user_ids is None else slates.user_ids
    propensity.check_ids(_Ids(slates.item_ids, users))
    rows = slates.positive_rows
    query = slates.query[rows]
    user = query if slates.user is None else slates.user[query]
    unclipped = None if propensity.unclipped is None else of_queries(propensity.unclipped, slates)
    values = propensity.at(user, slates.item[rows])
    return slates.of_positives(values, propensity.is_probability, propensity.model, unclipped)


def _matched(propensity: Propensity, item_ids: AnyArray) -> Propensity:
    """Return a propensity per item for other items, matched by ids; what it does not know has none."""
    own = propensity.item_ids
    if own is None or np.array_equal(own, item_ids):
        return propensity
    place = pd.Index(own).get_indexer(pd.Index(item_ids))
    if (place < 0).all():
        raise PropensityError(
            f"the propensity knows none of the {item_ids.size:,} items of the slates ({examples(own)} "
            f"against {examples(item_ids)}); fit it to a log with the same item ids."
        )

    def at(one: Propensity) -> Propensity:
        assert one.item is not None
        counts = None if one.popularity is None else np.append(one.popularity, 0.0)[place]
        return replace(
            one,
            item=np.append(one.item, np.nan)[place],
            n_items=item_ids.size,
            popularity=counts,
            item_ids=item_ids,
            unclipped=None if one.unclipped is None else at(one.unclipped),
        )

    return at(propensity)
