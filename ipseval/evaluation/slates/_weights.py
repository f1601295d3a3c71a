"""Propensities of users and items, as those of the positives of queries."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ipseval._base.checks import examples
from ipseval._base.types import AnyArray
from ipseval.errors import PropensityError
from ipseval.evaluation.slates._slates import Slates
from ipseval.propensity import Propensity


@dataclass(frozen=True)
class _Ids:
    item_ids: AnyArray
    user_ids: AnyArray


def of_queries(propensity: Propensity, slates: Slates) -> Propensity:
    """Return a propensity of users and items as P of the positives of their queries.

    One per item is matched by item ids; items that it does not know have none. Others must be over the users
    and items of the slates.

    Raises
    ------
    PropensityError
        When it belongs to other users, or knows none of the items.
    """
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
