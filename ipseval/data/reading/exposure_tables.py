"""Random exposure in tables of any form: pairs with an outcome of 0 and 1, or with ratings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.random_exposure import RandomExposure
from ipseval.data.reading._logs import read
from ipseval.data.reading.column_names import match_columns
from ipseval.data.reading.held_tables import unpack_table
from ipseval.data.reading.rating_scale import Threshold, check_threshold
from ipseval.errors import InputError
from ipseval.utils.columns import as_frame
from ipseval.utils.types import BoolArray, HasIds

NO_OUTCOME = "the random exposure must tell which items the users liked; got users and items alone."


def read_random_exposure(table: Any, ids: HasIds, threshold: Threshold | None = None) -> RandomExposure:
    """Read pairs that were shown at random from a table, and whether the users liked the items.

    Parameters
    ----------
    table : data frame, path, mapping or list of tuples
        As in `read`: users, items, and an outcome of 0 and 1 (positive, label, clicked, …) or a rating.
    ids : Split, Interactions or another object with user_ids and item_ids
        The universe of ids.
    threshold : float or None, default None
        Smallest rating of a positive pair. A table with an outcome needs none.

    Returns
    -------
    RandomExposure
        All pairs of the table.

    Raises
    ------
    InputError
        For a table without outcomes and ratings, ratings without a threshold, an outcome and ratings that
        disagree, ids outside the universe, and repeated pairs.

    See Also
    --------
    RandomExposure.from_frame : Read a frame with an allocation, or with other names of columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from ipseval.data import Interactions
    >>> shown = pd.DataFrame({"user_id": ["a", "a", "b"], "item_id": [1, 2, 1], "rating": [5, 2, 4]})
    >>> read_random_exposure(shown, read(shown, threshold="all"), threshold=4)
    RandomExposure(3 pairs, 2 positive; 2 of 2 users)
    """
    threshold = check_threshold(threshold)
    table = unpack_table(table)
    outcome = _find_outcome(table)
    log = read(table, users=ids.user_ids, items=ids.item_ids, threshold="all", clicked=outcome)
    if isinstance(log, ImpressionLog):
        positive = np.asarray(log.clicked, dtype=bool)
        _refuse_contradiction(table, threshold)
    else:
        positive = _apply_threshold(log.value, threshold)
    return RandomExposure._from_rows(log, positive)


def _find_outcome(table: Any) -> str | None:
    """Return the column of a frame whose name is that of an outcome and whose values are 0 and 1.

    `read` takes such a column for outcomes only if both values occur. Of random exposure, all pairs can be
    positive, or none.
    """
    frame = as_frame(table)
    if frame is None:
        return None
    columns = [str(column) for column in frame.columns]
    match = match_columns(columns, {}, ("clicked", "outcome"), essential=()).columns
    column = match.get("clicked", match.get("outcome"))
    if column is None or not np.isin(frame[column].to_numpy(), (0, 1)).all():
        return None
    return column


def _apply_threshold(values: Any, threshold: Threshold | None) -> BoolArray:
    """Return whether each value is an outcome of 1, or a rating that reaches the threshold."""
    if values is None:
        raise InputError(
            NO_OUTCOME,
            advice="Add a column positive of 0 and 1, or a column rating, which needs threshold=",
            shell_advice="Add a column positive of 0 and 1, or a column rating, which needs --threshold",
        )
    if np.isin(values, (0, 1)).all():
        return np.asarray(values == 1)
    if isinstance(threshold, float):
        return np.asarray(values >= threshold)
    raise InputError(
        f"the random exposure has values from {values.min():g} to {values.max():g} and no threshold, which would "
        "tell the positive ones.",
        advice="Pass threshold=4 for ratings of which 4 and more are positive",
        shell_advice="Pass --threshold 4, or FILE:threshold=4, for ratings of which 4 and more are positive",
    )


def _refuse_contradiction(table: Any, threshold: Threshold | None) -> None:
    """Raise `InputError` for a frame with outcomes that contradict its ratings and the threshold."""
    frame = as_frame(table)
    if frame is None or not isinstance(threshold, float):
        return
    columns = [str(column) for column in frame.columns]
    match = match_columns(columns, {}, ("value", "clicked", "outcome"), essential=()).columns
    if "value" not in match:
        return
    outcome = match.get("clicked", match.get("outcome"))
    assert outcome is not None
    is_liked = frame[outcome].to_numpy().astype(float) == 1
    if np.array_equal(is_liked, frame[match["value"]].to_numpy() >= threshold):
        return
    raise InputError(
        f"columns {outcome!r} and {match['value']!r} of the random exposure disagree about the positives for "
        f"threshold={threshold:g}. Leave one out: frame.drop(columns={outcome!r})."
    )
