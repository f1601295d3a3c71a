"""Whether columns that nobody has named fit what they are read as."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from ipseval.data.reading._text import MIN_LINES
from ipseval.data.reading.column_names import said
from ipseval.errors import Problem
from ipseval.utils.types import AnyArray

CHECKED = ("user", "item", "value", "timestamp")
MIN_ROWS = 50  # below, whether ids repeat is chance: a doubt is a note
N_WIDE = 5  # columns of a file without a header from which on places are no custom
EARLIEST, LATEST = 631_152_000, 2_051_222_400  # 1990 and 2035, in seconds since 1970
UNITS_PER_SECOND = (1, 10**3, 10**6, 10**9)
SHARED = 0.3  # of the values of two columns, from which on they may hold ids of one kind
SMALL = 10
MAX_LEVELS = 21
_WRITTEN_TIME = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}( .*)?|\d{1,2}:\d\d(:\d\d.*)?"
)


@dataclass(frozen=True)
class Traits:
    """What the first cells of a column say of it."""

    is_time: bool
    is_number: bool
    is_fraction: bool
    is_list: bool
    is_constant: bool
    repeats: bool
    is_small: bool  # few different numbers, none above ten

    def suits(self, role: str) -> bool:
        """Return whether the column can be read as this, whatever else there is."""
        if role == "timestamp":
            return self.is_time
        if role == "value":
            return self.is_number and not self.is_time
        if self.is_list:  # each entry becomes a row
            return role == "item"
        return not (self.is_time or self.is_fraction)

    def fits(self, role: str) -> bool:
        """Return whether the column is also as such a column usually is."""
        if role == "timestamp":
            return self.is_time
        if role == "value":
            return self.suits(role) and self.is_small
        return self.suits(role) and (self.is_list or self.repeats) and not self.is_constant


@dataclass(frozen=True)
class Doubt:
    """What speaks against an assignment of columns; an impossible one is an error with any number of rows."""

    problem: Problem
    is_error: bool


def doubt_roles(
    assigned: Mapping[str, str],
    unnamed: Mapping[str, str],
    cells: Mapping[str, Sequence[str]],
    *,
    n_rows: int,
    lists: Sequence[str] = (),
) -> Doubt | None:
    """Return what speaks against reading columns as they are assigned; None where nothing does.

    Parameters
    ----------
    assigned
        Role → column.
    unnamed
        Role → "place" or "name" for the roles that the caller has not named: by which they were assigned.
    cells
        The first cells of all columns that could be meant instead, as text.
    n_rows
        Number of rows of the file.
    lists
        Columns of lists, which are taken apart.
    """
    roles = [role for role in CHECKED if role in assigned and role in unnamed]
    if not roles or not cells:
        return None
    traits = {name: find_traits(column, name in lists) for name, column in cells.items()}
    by_place = any(unnamed[role] == "place" for role in roles)
    unsuitable = [role for role in roles if not traits[assigned[role]].suits(role)]
    is_wide = by_place and len(cells) >= N_WIDE
    if is_wide and _is_matrix(cells):
        return _doubt(assigned, roles, cells, "all columns hold the same few values, as a matrix does", True)
    if by_place and _may_be_neighbours(list(cells.values())):
        reason = "whole numbers of one kind in all columns but the first, as in lines of a user and its items"
        doubt = _doubt(assigned, roles, cells, reason, True)
        way_out = "Pass {layout=adjacency} for lines of a user and its items, or name the columns"
        return Doubt(Problem(doubt.problem.what, f"{way_out} by {{user}} and {{item}}"), True)
    named = {name for role, name in assigned.items() if role not in unnamed}
    better = _better(assigned, roles, traits, named, is_wide=is_wide, by_place=by_place)
    impossible = by_place and "value" in unsuitable and traits[assigned["value"]].is_time
    # Dates are never ids, whatever the header says: a header may stand above the wrong columns.
    impossible |= any(role in ("user", "item") and _is_written(cells[assigned[role]]) for role in unsuitable)
    if better is None and not impossible:
        return None
    reason = _reason(assigned, roles, traits, better)
    is_error = impossible or n_rows >= MIN_ROWS or (by_place and (is_wide or bool(unsuitable)))
    return _doubt(assigned, roles, cells, reason, is_error)


def find_traits(cells: Sequence[str], is_list: bool = False) -> Traits:
    """Return what cells say of their column."""
    filled = [cell for cell in cells if cell]
    different = set(filled)
    parsed = pd.to_numeric(pd.Series(sorted(different), dtype=object), errors="coerce").to_numpy(float)
    is_number = bool(different) and not np.isnan(parsed).any()
    is_whole = is_number and bool((parsed == np.floor(parsed)).all())
    is_small = is_number and parsed.size <= MAX_LEVELS and float(np.abs(parsed).max()) <= SMALL
    return Traits(
        is_time=_is_written(filled) or (is_number and _is_epoch(parsed)),
        is_number=is_number,
        is_fraction=is_number and not is_whole,
        is_list=is_list,
        is_constant=len(different) == 1 and len(filled) > 1,
        repeats=len(different) < len(filled),
        is_small=is_small,
    )


def _is_written(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(_WRITTEN_TIME.fullmatch(cell) for cell in filled)


def _is_epoch(numbers: AnyArray) -> bool:
    """Return whether numbers are times between 1990 and 2035 in some unit since 1970."""
    low, high = float(numbers.min()), float(numbers.max())
    return any(low >= EARLIEST * unit and high < LATEST * unit for unit in UNITS_PER_SECOND)


def _is_matrix(cells: Mapping[str, Sequence[str]]) -> bool:
    """Return whether all columns share few values, as ratings of users (rows) and items (columns) do."""
    together = {cell for column in cells.values() for cell in column}
    return len(together) <= MAX_LEVELS and len(together) <= max(len(cells), N_WIDE)


def _may_be_neighbours(columns: Sequence[Sequence[str]]) -> bool:
    """Return whether rows may be "user item item …": each user once, and items that columns share."""
    if len(columns) < 3 or len(columns[0]) < MIN_LINES or len(set(columns[0])) < len(columns[0]):
        return False
    sets = [set(column) for column in columns]
    if not all(cell.isdigit() for cells in sets for cell in cells):
        return False
    return all(len(first & second) >= SHARED * len(first | second) for first, second in pairwise(sets[1:]))


def _better(
    assigned: Mapping[str, str],
    roles: Sequence[str],
    traits: Mapping[str, Traits],
    named: set[str],
    *,
    is_wide: bool,
    by_place: bool,
) -> dict[str, str] | None:
    """Return another assignment in which every column fits, where the given one has one that does not."""
    misfits = [role for role in roles if not traits[assigned[role]].fits(role)]
    unsuitable = [role for role in roles if not traits[assigned[role]].suits(role)]
    # By a usual name, only what cannot be is a misfit: names say more than how often values repeat.
    if not (misfits if by_place else unsuitable):
        return None
    pool = [name for name in (traits if is_wide or by_place else assigned.values()) if name not in named]
    pool = pool if is_wide else [name for name in pool if name in assigned.values() or unsuitable]
    fitting = {role: [name for name in pool if traits[name].fits(role)] for role in roles}
    if not all(fitting.values()):
        return None
    return _assign_distinct(roles, fitting)


def _assign_distinct(
    roles: Sequence[str], fitting: Mapping[str, Sequence[str]], used: tuple[str, ...] = ()
) -> dict[str, str] | None:
    """Return a column for each role, no column twice."""
    if not roles:
        return {}
    for name in fitting[roles[0]]:
        if name not in used:
            rest = _assign_distinct(roles[1:], fitting, (*used, name))
            if rest is not None:
                return {roles[0]: name} | rest
    return None


def _reason(
    assigned: Mapping[str, str],
    roles: Sequence[str],
    traits: Mapping[str, Traits],
    better: Mapping[str, str] | None,
) -> str:
    """Return in words which column does not fit, and which assignment does."""
    words = []
    for role in roles:
        column = traits[assigned[role]]
        if column.fits(role):
            continue
        if role != "timestamp" and column.is_time:
            what = "times"
        elif role == "timestamp":
            what = "no times"
        elif column.is_list:
            what = "lists"
        elif role == "value":
            what = "other numbers than ratings" if column.is_number else "text"
        elif column.is_fraction:
            what = "fractions"
        else:
            what = "one value in all rows" if column.is_constant else "another value in each row"
        words.append(f"{assigned[role]!r} as {role} holds {what}")
    fitting = f"; {said(better)} would fit" if better else ""
    return f"{', '.join(words)}{fitting}"


def _doubt(
    assigned: Mapping[str, str],
    roles: Sequence[str],
    cells: Mapping[str, Sequence[str]],
    reason: str,
    is_error: bool,
) -> Doubt:
    names = list(cells)[:6]
    rows = zip(*(cells[name][:3] for name in names), strict=True)
    shown = "; ".join(", ".join(f"{cell:.30}" for cell in row) for row in rows)
    what = (
        f"the columns must be what they are read as ({said({role: assigned[role] for role in roles})}); got "
        f"{reason} (first rows: {shown})"
    )
    ways = ", ".join(f"{{{role}}}" for role in roles)
    way_out = f"Name the columns by {ways}"
    return Doubt(Problem(what, f"{way_out}, or pass {{ignore}} for what is not to be read"), is_error)
