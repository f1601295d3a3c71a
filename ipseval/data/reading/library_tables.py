"""Data sets of other libraries as tables of users and items, found by their methods.

The libraries need not be installed: any object with the same methods is read.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pandas as pd

# Data sets come from libraries that may not be installed, so their types are not available.
LibraryDataset: TypeAlias = Any

RATING_FIELD = "rating"


def unpack_library_table(source: LibraryDataset) -> Any:
    """Return the interactions of a data set of another library, and every other object unchanged.

    Parameters
    ----------
    source : object
        A data set of LensKit, RecTools, RecBole, cornac or Surprise (a Trainset), or a collection of item
        lists of LensKit.

    Returns
    -------
    data frame, list of tuples or object
        The interactions with the ids of the user, and ratings if the data set has them.

    See Also
    --------
    ipseval.read : Reads such tables as logs.

    Examples
    --------
    >>> class Collection:
    ...     def to_df(self):
    ...         return pd.DataFrame({"user_id": ["ann"], "item_id": ["x"]})
    >>> unpack_library_table(Collection())
      user_id item_id
    0     ann       x
    """
    # The class is asked, because lazy frames compute the names of their columns.
    if hasattr(type(source), "columns") or isinstance(source, type):
        return source
    if hasattr(source, "interaction_table"):  # LensKit
        return source.interaction_table(format="pandas", original_ids=True)
    if hasattr(source, "get_raw_interactions"):  # RecTools
        return source.get_raw_interactions()
    if hasattr(source, "build_testset") and hasattr(source, "to_raw_uid"):  # Surprise
        return source.build_testset()
    if hasattr(source, "inter_feat") and hasattr(source, "id2token"):  # RecBole
        return _read_recbole(source)
    if hasattr(source, "uir_tuple") and hasattr(source, "uid_map"):  # cornac
        return _read_cornac(source)
    for method in ("to_df", "to_dataframe"):  # item lists of LensKit
        if hasattr(source, method):
            return getattr(source, method)()
    return source


def _read_recbole(dataset: LibraryDataset) -> pd.DataFrame:
    """Return the interactions of RecBole with the tokens of the files."""
    fields = getattr(dataset.inter_feat, "interaction", dataset.inter_feat)
    columns = {}
    for role, field in (("user", dataset.uid_field), ("item", dataset.iid_field)):
        columns[role] = dataset.id2token(field, np.asarray(fields[field]))
    if RATING_FIELD in fields:
        columns[RATING_FIELD] = np.asarray(fields[RATING_FIELD])
    return pd.DataFrame(columns)


def _read_cornac(dataset: LibraryDataset) -> list[tuple[Any, ...]]:
    """Return the tuples (user, item, rating) of cornac with the ids of the user."""
    users, items, ratings = (np.asarray(part).tolist() for part in dataset.uir_tuple[:3])
    user_by_code = {code: user for user, code in dataset.uid_map.items()}
    item_by_code = {code: item for item, code in dataset.iid_map.items()}
    rows = []
    for user, item, rating in zip(users, items, ratings, strict=True):
        rows.append((user_by_code[user], item_by_code[item], rating))
    return rows
