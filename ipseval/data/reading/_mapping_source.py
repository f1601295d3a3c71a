"""Mappings as sources: columns, or users with their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.reading._frame_source import build_object_frame, open_frame
from ipseval.data.reading._source import ReadOptions, Source
from ipseval.data.reading.column_names import ALL_USUAL_NAMES, normalize_name
from ipseval.errors import InputError
from ipseval.utils.checks import describe_type, has_default_index

# Keys of a mapping that are columns; a single letter may be the id of a user.
COLUMN_KEYS = frozenset(name for name in ALL_USUAL_NAMES if len(name) > 1)


def open_mapping(
    mapping: Mapping[Any, Any], options: ReadOptions, name: str, dtype: type | None = None
) -> Source:
    """Return a mapping of columns, or of users to their items, as a source."""
    has_named_column = not mapping.keys().isdisjoint(options.named_columns)
    if has_named_column or has_column_key(mapping):
        return _open_columns(mapping, name, dtype)
    return _open_user_lists(mapping, name, score_column="score" if options.lists == "ranks" else "value")


def has_column_key(mapping: Mapping[Any, Any]) -> bool:
    """Return whether a key of a mapping is the usual name of a column."""
    return not COLUMN_KEYS.isdisjoint(normalize_name(key) for key in mapping)


def _open_columns(mapping: Mapping[Any, Any], name: str, dtype: type | None) -> Source:
    """Return a mapping of columns as a source."""
    try:
        return open_frame(pd.DataFrame(dict(mapping), dtype=dtype), name)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"a mapping must give each column a sequence, all of one length; {error!s:.150}."
        ) from None


def _open_user_lists(mapping: Mapping[Any, Any], name: str, score_column: str) -> Source:
    """Return a mapping of users to their items, with or without scores, as a source of lists."""
    users = []
    items = []
    scores = []
    have_scores = set()
    for user, entries in mapping.items():
        if isinstance(entries, Set) and score_column == "value":  # of a log, whose rows have no order
            entries = sorted(entries, key=str)
        user_items, user_scores = _parse_user_list(user, entries)
        users.append(user)
        items.append(user_items)
        scores.append(user_scores or [])
        if user_items:
            have_scores.add(user_scores is not None)

    if len(have_scores) > 1:
        raise InputError("some lists have scores and others none; give all of them in one form.")
    columns = {"user": users, "item": items}
    if True in have_scores:
        columns[score_column] = scores
    return replace(open_frame(build_object_frame(columns), name), has_fixed_roles=True)


def _parse_user_list(user: object, entries: object) -> tuple[list[object], list[object] | None]:
    """Return the items of a user and their scores; None in place of scores if there are none."""
    if isinstance(entries, Mapping):
        return list(entries), list(entries.values())
    if isinstance(entries, pd.Series):
        if has_default_index(entries.index):
            return entries.tolist(), None
        return entries.index.tolist(), entries.tolist()
    if isinstance(entries, (str, bytes)) or not isinstance(entries, (Sequence, np.ndarray)):
        raise InputError(
            f"the list of {user!r:.60} is {describe_type(entries)}; expected {{item: score}}, "
            "[item, …] or [(item, score), …]."
        )
    pairs = [entry for entry in entries if isinstance(entry, (tuple, list))]
    if not pairs:
        return list(entries), None
    if len(pairs) < len(entries) or any(len(pair) != 2 for pair in pairs):
        raise InputError(f"the list of {user!r:.60} has entries that are not pairs (item, score).")
    return [item for item, _ in pairs], [score for _, score in pairs]
