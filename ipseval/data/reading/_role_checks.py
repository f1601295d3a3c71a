"""Checks whether columns that the caller has not named fit the roles for which they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from ipseval.data.reading._text import MIN_LINES
from ipseval.data.reading.column_names import Evidence, describe_mapping
from ipseval.errors import Problem
from ipseval.utils.types import AnyArray

CHECKED_ROLES = ("user", "item", "value", "timestamp")
MIN_ROWS = 50  # with fewer rows, whether ids repeat is chance, so that a misfit is only noted
MIN_WIDE_COLUMNS = 5  # a file without a header and with so many columns has no customary order
# Numbers are times if they lie between 1990 and 2035, in seconds since 1970.
FIRST_SECOND = 631_152_000
LAST_SECOND = 2_051_222_400
UNITS_PER_SECOND = (1, 10**3, 10**6, 10**9)
MIN_OVERLAP = 0.3  # share of common values of two columns that may hold ids of the same kind
MAX_SMALL_VALUE = 10
MAX_LEVELS = 21
N_EXAMPLE_COLUMNS = 6
N_EXAMPLE_ROWS = 3
_WRITTEN_TIME = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}( .*)?|\d{1,2}:\d\d(:\d\d.*)?"
)


@dataclass(frozen=True)
class ColumnTraits:
    """Describe a column by its first cells."""

    is_time: bool
    is_number: bool
    is_fraction: bool
    is_list: bool
    is_constant: bool
    has_repeats: bool
    is_small: bool  # few different numbers, none above ten

    @classmethod
    def from_cells(cls, cells: Sequence[str], is_list: bool = False) -> ColumnTraits:
        """Return the traits of a column with cells of text; empty cells are missing."""
        filled_cells = []
        for cell in cells:
            if cell:
                filled_cells.append(cell)

        distinct_cells = set(filled_cells)
        numbers = _parse_distinct_numbers(distinct_cells)
        is_number = bool(distinct_cells) and not np.isnan(numbers).any()
        is_whole = is_number and bool((numbers == np.floor(numbers)).all())
        has_few_levels = is_number and numbers.size <= MAX_LEVELS
        return cls(
            is_time=_are_written_times(filled_cells) or (is_number and _are_epoch_times(numbers)),
            is_number=is_number,
            is_fraction=is_number and not is_whole,
            is_list=is_list,
            is_constant=len(distinct_cells) == 1 and len(filled_cells) > 1,
            has_repeats=len(distinct_cells) < len(filled_cells),
            is_small=has_few_levels and float(np.abs(numbers).max()) <= MAX_SMALL_VALUE,
        )

    def can_be(self, role: str) -> bool:
        """Return whether the column can be read for a role at all."""
        if role == "timestamp":
            return self.is_time
        if role == "value":
            return self.is_number and not self.is_time
        if self.is_list:  # each entry becomes a row
            return role == "item"
        return not (self.is_time or self.is_fraction)

    def fits(self, role: str) -> bool:
        """Return whether the column is also typical for the role."""
        if role == "timestamp":
            return self.is_time
        if role == "value":
            return self.can_be(role) and self.is_small
        has_typical_ids = (self.is_list or self.has_repeats) and not self.is_constant
        return self.can_be(role) and has_typical_ids

    def describe_misfit(self, role: str) -> str:
        """Return as text which entries a column holds that does not fit a role."""
        if role == "timestamp":
            return "no times"
        if self.is_time:
            return "times"
        if self.is_list:
            return "lists"
        if role == "value" and self.is_number:
            return "numbers other than ratings"
        if role == "value":
            return "text"
        if self.is_fraction:
            return "fractions"
        if self.is_constant:
            return "one value in all rows"
        return "another value in each row"


def _parse_distinct_numbers(cells: set[str]) -> AnyArray:
    """Return distinct cells as sorted numbers; NaN for text."""
    series = pd.Series(sorted(cells), dtype=object)
    return pd.to_numeric(series, errors="coerce").to_numpy(float)


def _are_written_times(cells: Sequence[str]) -> bool:
    """Return whether all filled cells are dates or times."""
    filled_cells = []
    for cell in cells:
        if cell:
            filled_cells.append(cell)

    if not filled_cells:
        return False
    return all(_WRITTEN_TIME.fullmatch(cell) for cell in filled_cells)


def _are_epoch_times(numbers: AnyArray) -> bool:
    """Return whether numbers are times between 1990 and 2035 in some unit since 1970."""
    lowest = float(numbers.min())
    highest = float(numbers.max())
    for factor in UNITS_PER_SECOND:
        if lowest >= FIRST_SECOND * factor and highest < LAST_SECOND * factor:
            return True
    return False


@dataclass(frozen=True)
class RoleProblem:
    """Store the problem of an assignment of columns to roles, and whether it is an error or a note."""

    problem: Problem
    is_error: bool


def check_unread_outcomes(
    unread_columns: Sequence[str], cells: Mapping[str, Sequence[str]], n_rows: int
) -> RoleProblem | None:
    """Return the problem of an unread column of 0 and 1 in a file without names; None if there is none.

    Where such a column holds clicks, the rows with 0 are not positives.
    """
    for name in unread_columns:
        values = {cell.strip() for cell in cells.get(name, ())}
        if values != {"0", "1"}:
            continue
        problem = Problem(
            f"column {name!r} must have a role if it holds clicks; got 0 and 1, and no column is read as clicks "
            "or values",
            f"Name it by {{clicked={name}}} or {{value={name}}}, or pass {{ignore={name}}} to count every row "
            "as a positive",
        )
        return RoleProblem(problem, is_error=n_rows >= MIN_ROWS)
    return None


def check_assignment(
    columns: Mapping[str, str],
    evidence: Mapping[str, Evidence],
    cells: Mapping[str, Sequence[str]],
    *,
    n_rows: int,
    list_columns: Sequence[str] = (),
) -> RoleProblem | None:
    """Return the problem of columns that do not fit their roles; None if there is no problem.

    Parameters
    ----------
    columns : mapping
        Role -> column.
    evidence : mapping
        Role -> "position" or "name", for the roles that the caller has not named.
    cells : mapping
        Column -> its first cells as text, for all columns that may be read instead.
    n_rows : int
        Number of rows of the source.
    list_columns : sequence of str
        Columns of lists, of which each entry becomes a row.
    """
    roles = []
    for role in CHECKED_ROLES:
        if role in columns and role in evidence:
            roles.append(role)

    if not roles or not cells:
        return None
    traits = {}
    for name, column in cells.items():
        traits[name] = ColumnTraits.from_cells(column, name in list_columns)

    by_position = any(evidence[role] == "position" for role in roles)
    assignment = _Assignment(
        columns=columns, roles=roles, traits=traits, cells=cells, by_position=by_position
    )
    if assignment.is_wide and _is_matrix(cells):
        reason = "all columns hold the same few values, as a matrix does"
        return RoleProblem(assignment.describe(reason), is_error=True)
    if by_position and _may_be_adjacency_lists(list(cells.values())):
        return RoleProblem(assignment.describe_adjacency_lists(), is_error=True)
    better_columns = assignment.find_better_columns()
    is_impossible = assignment.is_impossible()
    if better_columns is None and not is_impossible:
        return None
    is_error = is_impossible or n_rows >= MIN_ROWS
    if by_position and (assignment.is_wide or assignment.find_unsuitable_roles()):
        is_error = True
    reason = assignment.explain_misfits(better_columns)
    return RoleProblem(assignment.describe(reason), is_error)


def _is_matrix(cells: Mapping[str, Sequence[str]]) -> bool:
    """Return whether all columns share few values, as ratings of users (rows) and items (columns) do."""
    values: set[str] = set()
    for column in cells.values():
        values.update(column)
    return len(values) <= MAX_LEVELS and len(values) <= max(len(cells), MIN_WIDE_COLUMNS)


def _may_be_adjacency_lists(columns: Sequence[Sequence[str]]) -> bool:
    """Return whether rows may be "user item item …": each user once, and items that columns share."""
    if len(columns) < 3:
        return False
    users = columns[0]
    if len(users) < MIN_LINES or len(set(users)) < len(users):
        return False
    value_sets = [set(column) for column in columns]
    for values in value_sets:
        if not all(value.isdigit() for value in values):
            return False
    for values, next_values in pairwise(value_sets[1:]):
        if len(values & next_values) < MIN_OVERLAP * len(values | next_values):
            return False
    return True


@dataclass(frozen=True)
class _Assignment:
    """Compare the columns that are assigned to roles with the other columns of a source."""

    columns: Mapping[str, str]  # role -> column
    roles: Sequence[str]  # roles that the caller has not named
    traits: Mapping[str, ColumnTraits]  # of all columns that may be read
    cells: Mapping[str, Sequence[str]]
    by_position: bool  # whether some column was found by its position

    @property
    def is_wide(self) -> bool:
        """Whether a file without a header has too many columns for a customary order."""
        return self.by_position and len(self.cells) >= MIN_WIDE_COLUMNS

    def find_unsuitable_roles(self) -> list[str]:
        """Return the roles with a column that cannot be read for the role."""
        unsuitable_roles: list[str] = []
        for role in self.roles:
            if not self.traits[self.columns[role]].can_be(role):
                unsuitable_roles.append(role)

        return unsuitable_roles

    def find_atypical_roles(self) -> list[str]:
        """Return the roles with a column that is not typical for the role."""
        atypical_roles: list[str] = []
        for role in self.roles:
            if not self.traits[self.columns[role]].fits(role):
                atypical_roles.append(role)

        return atypical_roles

    def is_impossible(self) -> bool:
        """Return whether a column certainly does not have its role, whatever the other columns are."""
        unsuitable_roles = self.find_unsuitable_roles()
        if self.by_position and "value" in unsuitable_roles and self.traits[self.columns["value"]].is_time:
            return True
        # Dates are never ids, whatever the header is: it may be shifted against the columns.
        for role in unsuitable_roles:
            if role in ("user", "item") and _are_written_times(self.cells[self.columns[role]]):
                return True
        return False

    def find_better_columns(self) -> dict[str, str] | None:
        """Return an assignment in which every column fits, if the current one has a misfit."""
        unsuitable_roles = self.find_unsuitable_roles()
        # A usual name is stronger evidence than repeated values, so that only unsuitable columns count.
        misfits = self.find_atypical_roles() if self.by_position else unsuitable_roles
        if not misfits:
            return None
        candidates = self._find_candidates(has_unsuitable=bool(unsuitable_roles))
        fitting_columns = {}
        for role in self.roles:
            fitting_names = []
            for name in candidates:
                if self.traits[name].fits(role):
                    fitting_names.append(name)

            fitting_columns[role] = fitting_names
        return _assign_distinct(self.roles, fitting_columns)

    def _find_candidates(self, has_unsuitable: bool) -> list[str]:
        """Return the columns that may be assigned instead, without those that the caller has named."""
        named_columns = set()
        for role, name in self.columns.items():
            if role not in self.roles:
                named_columns.add(name)

        role_columns = list(self.columns.values())
        candidates = role_columns
        if self.by_position and (self.is_wide or has_unsuitable):
            candidates = list(self.traits)
        elif self.by_position:
            candidates = []
            for name in self.traits:
                if name in role_columns:
                    candidates.append(name)

        unnamed_candidates: list[str] = []
        for name in candidates:
            if name not in named_columns:
                unnamed_candidates.append(name)

        return unnamed_candidates

    def explain_misfits(self, better_columns: Mapping[str, str] | None) -> str:
        """Return as text which columns do not fit, and which assignment does."""
        misfits = []
        for role in self.find_atypical_roles():
            name = self.columns[role]
            misfits.append(f"{name!r} as {role} holds {self.traits[name].describe_misfit(role)}")
        explanation = ", ".join(misfits)
        if better_columns:
            explanation += f"; {describe_mapping(better_columns)} would fit"
        return explanation

    def describe(self, reason: str) -> Problem:
        """Return the problem of an assignment, with the first rows of the source."""
        fix = f"Name the columns by {self._list_options()}, or pass {{ignore}} for columns to leave out"
        return Problem(self._describe_columns(reason), fix)

    def describe_adjacency_lists(self) -> Problem:
        """Return the problem of a file that looks like lines of a user and its items."""
        reason = "whole numbers of one kind in all columns but the first, as in lines of a user and its items"
        fix = (
            "Pass {layout=adjacency} for lines of a user and its items, or name the columns by {user} and "
            "{item}"
        )
        return Problem(self._describe_columns(reason), fix)

    def _describe_columns(self, reason: str) -> str:
        """Return which columns are read for which roles, why they do not fit, and the first rows."""
        mapping = describe_mapping({role: self.columns[role] for role in self.roles})
        return (
            f"the columns must fit their roles ({mapping}); got {reason} (first rows: "
            f"{self._format_first_rows()})"
        )

    def _list_options(self) -> str:
        """Return the options that name the columns, as placeholders of a suggested fix."""
        return ", ".join(f"{{{role}}}" for role in self.roles)

    def _format_first_rows(self) -> str:
        """Return the first rows of the first columns as text."""
        names = list(self.cells)[:N_EXAMPLE_COLUMNS]
        first_cells = [self.cells[name][:N_EXAMPLE_ROWS] for name in names]
        rows = zip(*first_cells, strict=True)
        return "; ".join(_format_row(row) for row in rows)


def _format_row(cells: Sequence[str]) -> str:
    """Return the cells of a row as text, each with at most 30 letters."""
    return ", ".join(f"{cell:.30}" for cell in cells)


def _assign_distinct(
    roles: Sequence[str], fitting_columns: Mapping[str, Sequence[str]], columns_in_use: tuple[str, ...] = ()
) -> dict[str, str] | None:
    """Return a column for each role, no column twice; None if there is no such assignment."""
    if not roles:
        return {}
    role = roles[0]
    for name in fitting_columns[role]:
        if name in columns_in_use:
            continue
        columns = _assign_distinct(roles[1:], fitting_columns, (*columns_in_use, name))
        if columns is not None:
            return {role: name} | columns
    return None
