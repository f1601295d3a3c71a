"""Ranks of the positives of slates among the items listed for their query, and their propensities."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ipseval.errors import InputError, PropensityError
from ipseval.evaluation.slates._slates import Slates
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import format_examples
from ipseval.utils.ids import align_rows, ranks_within_group
from ipseval.utils.public import public_function
from ipseval.utils.types import AnyArray, BoolArray

CANDIDATE_RULE = "the items listed for each query"


@public_function
def rank_slates(
    scores: AnyArray, slates: Slates, *, listed: BoolArray | None = None, name: str = "the model"
) -> RankedPositives:
    """Rank every positive among the items listed for its query.

    Parameters
    ----------
    scores : (n,) array
        One score for each row of the slates, higher is better; NaN is an error.
    slates : Slates
        The listed items and their labels.
    listed : (n,) bool array, optional
        Whether the model has scored each row, where it retrieved only a part of the items. Other rows follow
        unranked: metrics with a cutoff count them as misses. Default: all rows are scored.
    name : str, default "the model"
        Name of the model in error messages.

    Returns
    -------
    RankedPositives
        Ranks by query, for `evaluate_ranks`.

    Raises
    ------
    InputError
        For another number of scores or of `listed`, scores that are not numbers, and NaN.

    See Also
    --------
    evaluate_slates : Rank and evaluate several models.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"query": [1, 1, 1], "item": [7, 8, 9], "label": [0, 1, 0]})
    >>> ranked = rank_slates(np.array([0.9, 0.5, 0.5]), Slates.from_frame(frame))
    >>> ranked.n_above, ranked.n_tied, ranked.n_candidates
    (array([1]), array([1]), array([3]))
    """
    values = _check_scores(scores, slates, name)
    is_scored = np.ones(len(slates), dtype=bool) if listed is None else listed
    if is_scored.shape != (len(slates),):
        raise InputError(f"listed must have one entry for each of the {len(slates):,} rows of the slates.")
    list_length = np.bincount(slates.query[is_scored], minlength=slates.query_ids.size)
    longest = int(list_length.max(initial=0))
    n_above = np.full(len(slates), longest)
    n_tied = np.zeros(len(slates), dtype=np.int64)
    scored_queries = slates.query[is_scored]
    n_above[is_scored], n_tied[is_scored] = ranks_within_group(scored_queries, values[is_scored])

    truncation: dict[str, object] = {}
    if not is_scored.all():
        truncation = {"max_rank": longest, "list_length": list_length}
    rows = slates.positive_rows
    return RankedPositives.from_validated(
        user=slates.query[rows],
        item=slates.item[rows],
        n_above=n_above[rows],
        n_tied=n_tied[rows],
        n_candidates=slates.size[slates.query[rows]],
        user_ids=slates.query_ids,
        item_ids=slates.item_ids,
        gain=slates.label[rows],
        candidates_by_user=slates.size,
        candidates=CANDIDATE_RULE,
        cluster=slates.user,
        cluster_ids=slates.user_ids,
        **truncation,
    )


def _check_scores(scores: object, slates: Slates, name: str) -> AnyArray:
    """Return one number for each row of the slates, or raise `InputError`."""
    values = np.asarray(align_rows(scores, f"{name}: scores", slates.row_labels))
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
class _SlateIds:
    """The ids that a propensity of users and items is checked against."""

    item_ids: AnyArray
    user_ids: AnyArray


def expand_to_queries(propensity: Propensity, slates: Slates) -> Propensity:
    """Return a propensity of users and items as P of the positives of their queries."""
    if propensity.item is not None:
        return _align_to_items(propensity, slates.item_ids)
    if propensity.user_ids is not None and np.array_equal(propensity.user_ids, slates.query_ids):
        return propensity

    rows = slates.positive_rows
    queries = slates.query[rows]
    if slates.user is None or slates.user_ids is None:
        users = queries
        user_ids = slates.query_ids
    else:
        users = slates.user[queries]
        user_ids = slates.user_ids
    propensity.check_ids(_SlateIds(slates.item_ids, user_ids))
    unclipped = None
    if propensity.unclipped_propensity is not None:
        unclipped = expand_to_queries(propensity.unclipped_propensity, slates)
    values = propensity.for_pairs(users, slates.item[rows])
    return slates.of_positives(values, propensity.is_probability, propensity.model, unclipped)


def _align_to_items(propensity: Propensity, item_ids: AnyArray) -> Propensity:
    """Return a propensity per item in the order of `item_ids`; NaN for items that it does not have."""
    known_ids = propensity.item_ids
    if known_ids is None or np.array_equal(known_ids, item_ids):
        return propensity
    codes = pd.Index(known_ids).get_indexer(pd.Index(item_ids))
    if (codes < 0).all():
        raise PropensityError(
            f"the propensity knows none of the {item_ids.size:,} items of the slates ({format_examples(known_ids)} "
            f"against {format_examples(item_ids)}); fit it to a log with the same item ids."
        )
    return _reorder_items(propensity, codes, item_ids)


def _reorder_items(propensity: Propensity, codes: AnyArray, item_ids: AnyArray) -> Propensity:
    """Return a propensity per item with its values at `codes`; -1 stands for no value."""
    assert propensity.item is not None
    popularity = None
    if propensity.popularity is not None:
        popularity = np.append(propensity.popularity, 0.0)[codes]
    unclipped = None
    if propensity.unclipped_propensity is not None:
        unclipped = _reorder_items(propensity.unclipped_propensity, codes, item_ids)
    return replace(
        propensity,
        item=np.append(propensity.item, np.nan)[codes],
        n_items=item_ids.size,
        popularity=popularity,
        item_ids=item_ids,
        unclipped_propensity=unclipped,
    )
