"""Groups by the counts of training: popularity of items, activity of users, cold and warm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.evaluation.segments._groups import (
    Axis,
    Grouping,
    Groups,
    TrainingCounts,
    columns_named,
    groupings_of,
    series_axis,
)
from ipseval.utils.checks import check_positive_int, counted
from ipseval.utils.registry import lookup
from ipseval.utils.types import AnyArray, IntArray

Rule = Callable[[IntArray, int, Axis, str], Groups]


def resolve(
    by: Any, user_ids: AnyArray, item_ids: AnyArray, counts: TrainingCounts | None
) -> tuple[Groups, ...]:
    """Return the groups that a label, frame, Series, grouping, or a list of these names, by the ids."""
    made = tuple(_resolved(one, user_ids, item_ids, counts) for one in _each(by))
    names = [one.name for one in made]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"by= names {', '.join(repeated)} twice; name one by user_groups or item_groups.")
    if not made:
        raise InputError("by= is empty; name at least one grouping.")
    return made


def of_items_alone(by: Any) -> bool:
    """Return whether `by` names groups of items only, which can be made without knowing the users."""
    return all(_axis(one) == "item" for one in _each(by))


def _each(by: Any) -> list[Any]:
    """Return the single groupings of `by`, one for each attribute of a frame."""
    if columns_named(by):
        return [*groupings_of(by)]
    if not isinstance(by, (list, tuple)):
        return [by]
    if any(isinstance(each, (list, tuple)) for each in by):  # it may hold itself
        raise InputError("by holds a list inside a list; name every grouping once, in one list.")
    return [one for each in by for one in _each(each)]


def _axis(by: Any) -> str | None:
    """Return what a grouping is of, where that is known without the ids."""
    if isinstance(by, str):
        return BUILT_IN.get(by.partition(":")[0].strip().lower(), (None,))[0]
    return str(by.index.name) if isinstance(by, pd.Series) else getattr(by, "axis", None)


def _resolved(by: Any, users: AnyArray, items: AnyArray, counts: TrainingCounts | None) -> Groups:
    if isinstance(by, str):
        return _built_in(by, users, items, counts)
    if isinstance(by, Mapping) and any(by.keys() <= set(ids.tolist()) for ids in (users, items)):
        by = pd.Series(by, name="group")  # a group for each id
    if isinstance(by, pd.Series):
        axis = series_axis(by, users, items)
        by = Grouping(axis, by, str(by.name or f"{axis} group"))
    if isinstance(by, Grouping):
        return by.resolve(users if by.axis == "user" else items)
    if isinstance(by, Groups):
        size = (users if by.axis == "user" else items).size
        if by.codes.size != size:
            raise InputError(f"{by.name} groups {by.codes.size:,} {by.axis}s; there are {size:,} here.")
        return by
    raise InputError(
        f"by= must be a label ({', '.join(BUILT_IN)}), a frame with a column user or item, a Series by id; "
        f"got {type(by).__name__}. Groups are also what user_groups and item_groups return."
    )


def quantile_groups(counts: IntArray, n_groups: int, axis: Axis, name: str) -> Groups:
    """Return groups of about equally many, from the lowest count up; equal counts stay together."""
    what = COUNTED[axis]
    level, inverse, size = np.unique(counts, return_inverse=True, return_counts=True)
    middle = (np.cumsum(size) - size / 2) / counts.size
    group = (middle * min(n_groups, counts.size)).astype(np.int64)
    used, of_level = np.unique(group, return_inverse=True)
    labels = []
    for number in range(used.size):
        low, high = level[of_level == number][[0, -1]]
        span = f"{low:,}" if low == high else f"{low:,}–{high:,}"
        labels.append(f"{number + 1} ({what} {span})")
    note = f"{counted(used.size, 'group')} of about equally many {axis}s by {what}"
    return Groups(axis, name, tuple(labels), of_level[inverse], note)


def cold_groups(counts: IntArray, below: int, axis: Axis, name: str) -> Groups:
    """Return two groups: those with fewer than `below` training interactions, and the others."""
    few = f"fewer than {below:,}"
    labels = (f"cold ({'none' if below == 1 else few})", f"warm ({below:,} or more)")
    note = f"cold: {'no training interaction' if below == 1 else f'{few} training interactions'}"
    return Groups(axis, name, labels, (counts >= below).astype(np.int64), note)


COUNTED: dict[Axis, str] = {"item": "n*", "user": "interactions"}
# Label -> what is grouped, the rule, and the number that a label without one stands for.
BUILT_IN: dict[str, tuple[Axis, Rule, int]] = {
    "popularity": ("item", quantile_groups, 10),
    "activity": ("user", quantile_groups, 4),
    "cold-users": ("user", cold_groups, 1),
    "cold-items": ("item", cold_groups, 1),
}


def _built_in(label: str, users: AnyArray, items: AnyArray, counts: TrainingCounts | None) -> Groups:
    name, _, number = label.partition(":")
    axis, rule, default = lookup(BUILT_IN, name.strip().lower(), "grouping")
    if number and not (number.isascii() and number.strip().isdigit()):
        raise InputError(f"grouping {label!r}: what follows the colon must be a whole number >= 1.")
    if counts is None:
        raise InputError(
            f"groups by {name} need the training counts, which ranks alone do not have. Evaluate with "
            "ipseval.evaluate, or pass counts=ipseval.evaluation.segments.TrainingCounts.of(train)."
        )
    size = (users if axis == "user" else items).size
    if counts.along(axis).size != size:
        raise InputError(
            f"groups by {name} need the training counts of the {size:,} {axis}s that are evaluated, in their "
            f"order; got {counts.along(axis).size:,}."
        )
    chosen = check_positive_int(name, int(number or default))
    return rule(counts.along(axis), chosen, axis, name.strip().lower())
