"""Groups that the training counts define: popularity of items, activity of users, cold and warm."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from ipseval.data.interactions import TrainingCounts
from ipseval.errors import InputError
from ipseval.evaluation.segments._groups import (
    Axis,
    Grouping,
    Groups,
    column_names,
    detect_axis,
    split_attributes,
)
from ipseval.utils.checks import check_positive_int, format_count
from ipseval.utils.registry import look_up
from ipseval.utils.types import AnyArray, IntArray

Rule = Callable[[IntArray, int, Axis, str], Groups]


def resolve_groups(
    groupings: object, user_ids: AnyArray, item_ids: AnyArray, counts: TrainingCounts | None
) -> tuple[Groups, ...]:
    """Return the groups that a label, frame, Series, grouping, or a list of these names, by the ids."""
    resolved_groups = []
    for grouping in _flatten(groupings):
        resolved_groups.append(_resolve_grouping(grouping, user_ids, item_ids, counts))

    names = [groups.name for groups in resolved_groups]
    repeated_names = sorted({name for name in names if names.count(name) > 1})
    if repeated_names:
        raise InputError(
            f"by= names {', '.join(repeated_names)} twice; name one by user_groups or item_groups."
        )
    if not resolved_groups:
        raise InputError("by= is empty; name at least one grouping.")
    return tuple(resolved_groups)


def names_only_items(groupings: object) -> bool:
    """Return whether all groupings are of items, which can be built without knowing the users."""
    return all(_known_axis(grouping) == "item" for grouping in _flatten(groupings))


def _flatten(groupings: object) -> list[object]:
    """Return the single groupings of `groupings`: the entries of a list, the attributes of a frame."""
    if column_names(groupings):
        return [*split_attributes(groupings)]
    if not isinstance(groupings, (list, tuple)):
        return [groupings]
    # A list may contain itself, so nested lists are refused instead of walked through.
    if any(isinstance(entry, (list, tuple)) for entry in groupings):
        raise InputError("by holds a list inside a list; name every grouping once, in one list.")
    entries = []
    for grouping in groupings:
        entries.extend(_flatten(grouping))
    return entries


def _known_axis(grouping: object) -> str | None:
    """Return "user" or "item" as far as it is known without the ids, else None."""
    if isinstance(grouping, str):
        name = grouping.partition(":")[0].strip().lower()
        if name in BUILT_IN:
            return BUILT_IN[name][0]
        return None
    if isinstance(grouping, pd.Series):
        return str(grouping.index.name)
    return getattr(grouping, "axis", None)


def _resolve_grouping(
    grouping: object, user_ids: AnyArray, item_ids: AnyArray, counts: TrainingCounts | None
) -> Groups:
    """Return the groups that a single label, mapping, Series or grouping names."""
    if isinstance(grouping, str):
        return _build_from_label(grouping, user_ids, item_ids, counts)
    if isinstance(grouping, Mapping) and any(
        grouping.keys() <= set(ids.tolist()) for ids in (user_ids, item_ids)
    ):
        grouping = pd.Series(grouping, name="group")  # a group for each id
    if isinstance(grouping, np.ndarray) and grouping.ndim == 1 and user_ids.size != item_ids.size:
        grouping = _group_by_position(grouping, user_ids, item_ids)
    if isinstance(grouping, pd.Series):
        axis = detect_axis(grouping, user_ids, item_ids)
        grouping = Grouping(axis, grouping, str(grouping.name or f"{axis} group"))
    if isinstance(grouping, Grouping):
        return grouping.resolve(_select_axis(grouping.axis, user_ids, item_ids))
    if isinstance(grouping, Groups):
        n_ids = _select_axis(grouping.axis, user_ids, item_ids).size
        if grouping.codes.size != n_ids:
            raise InputError(
                f"{grouping.name} groups {grouping.codes.size:,} {grouping.axis}s; there are {n_ids:,} here."
            )
        return grouping
    raise InputError(
        f"by= must be a label ({', '.join(BUILT_IN)}), a frame with a column user or item, a Series by id; "
        f"got {type(grouping).__name__}. Groups are also what user_groups and item_groups return."
    )


def _group_by_position(labels: AnyArray, user_ids: AnyArray, item_ids: AnyArray) -> object:
    """Return labels in the order of the users or of the items as groups; labels of another number unchanged."""
    if labels.size == user_ids.size:
        return Grouping("user", labels, "user group")
    if labels.size == item_ids.size:
        return Grouping("item", labels, "item group")
    return labels


def _select_axis(axis: Axis, user_ids: AnyArray, item_ids: AnyArray) -> AnyArray:
    """Return the ids of the users or of the items."""
    return user_ids if axis == "user" else item_ids


def quantile_groups(counts: IntArray, n_groups: int, axis: Axis, name: str) -> Groups:
    """Return groups of about equal size in ascending order of counts; equal counts are in one group."""
    noun = COUNT_NOUNS[axis]
    levels, level_codes, level_sizes = np.unique(counts, return_inverse=True, return_counts=True)
    # The rank of the middle member of a level, as a share of all, decides the group of the level.
    middle = (np.cumsum(level_sizes) - level_sizes / 2) / counts.size
    group_of_level = (middle * min(n_groups, counts.size)).astype(np.int64)
    used_groups, level_groups = np.unique(group_of_level, return_inverse=True)

    labels = []
    for number in range(used_groups.size):
        levels_of_group = levels[level_groups == number]
        low = levels_of_group[0]
        high = levels_of_group[-1]
        span = f"{low:,}–{high:,}"
        if low == high:
            span = f"{low:,}"
        labels.append(f"{number + 1} ({noun} {span})")
    note = f"{format_count(used_groups.size, 'group')} of about equally many {axis}s by {noun}"
    return Groups(axis=axis, name=name, labels=tuple(labels), codes=level_groups[level_codes], note=note)


def cold_groups(counts: IntArray, min_warm: int, axis: Axis, name: str) -> Groups:
    """Return two groups: cold with fewer than `min_warm` training interactions, and warm."""
    limit = f"fewer than {min_warm:,}"
    cold_label = f"cold ({limit})"
    note = f"cold: {limit} training interactions"
    if min_warm == 1:
        cold_label = "cold (none)"
        note = "cold: no training interaction"
    labels = (cold_label, f"warm ({min_warm:,} or more)")
    codes = (counts >= min_warm).astype(np.int64)
    return Groups(axis=axis, name=name, labels=labels, codes=codes, note=note)


COUNT_NOUNS: dict[Axis, str] = {"item": "n*", "user": "interactions"}
# Label -> axis, rule, and the number that is used where the label has none.
BUILT_IN: dict[str, tuple[Axis, Rule, int]] = {
    "popularity": ("item", quantile_groups, 10),
    "activity": ("user", quantile_groups, 4),
    "cold-users": ("user", cold_groups, 1),
    "cold-items": ("item", cold_groups, 1),
}


def _build_from_label(
    label: str, user_ids: AnyArray, item_ids: AnyArray, counts: TrainingCounts | None
) -> Groups:
    """Return the groups that a label such as "popularity:5" names."""
    name, _, number = label.partition(":")
    axis, rule, default = look_up(BUILT_IN, name.strip().lower(), "grouping")
    if number and not (number.isascii() and number.strip().isdigit()):
        raise InputError(f"grouping {label!r}: what follows the colon must be a whole number >= 1.")
    if counts is None:
        raise InputError(
            f"groups by {name} need the training counts, which ranks alone do not have. Evaluate with "
            "ipseval.evaluate, or pass counts=ipseval.evaluation.segments.TrainingCounts.from_interactions(train)."
        )
    n_ids = _select_axis(axis, user_ids, item_ids).size
    if counts.along(axis).size != n_ids:
        raise InputError(
            f"groups by {name} need the training counts of the {n_ids:,} {axis}s that are evaluated, in "
            f"their order; got {counts.along(axis).size:,}."
        )
    parameter = check_positive_int(name, int(number or default))
    return rule(counts.along(axis), parameter, axis, name.strip().lower())
