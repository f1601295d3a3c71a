"""LogBuilder: the columns of a log while it is read, with all counts and problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
from narwhals.typing import IntoSeries

from ipseval.data._audit import Audit, ColumnProblem
from ipseval.data._impression_checks import Columns, clean_impressions, format_first_pair, select_rows
from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Duplicates, Interactions
from ipseval.data.reading._id_columns import encode_id_column, find_places
from ipseval.data.reading._role_checks import (
    CHECKED_ROLES,
    RoleProblem,
    check_assignment,
    check_unread_outcomes,
)
from ipseval.data.reading._source import Source
from ipseval.data.reading._time_columns import Units, read_times
from ipseval.data.reading._value_columns import (
    ValueColumn,
    format_rows,
    read_numbers,
    read_truth_values,
)
from ipseval.data.reading.column_names import N_EXAMPLES, ColumnMatch, Evidence, describe_mapping
from ipseval.data.reading.rating_scale import Threshold, find_rating_scale, means_ratings
from ipseval.errors import InputError, Problem, ProblemsError
from ipseval.utils.checks import add_article, format_examples
from ipseval.utils.columns import to_numbers
from ipseval.utils.ids import Ids, describe_header_row, mark_repeats, to_id_array, unique_keys
from ipseval.utils.notes import Count, CountCode, SourceCount
from ipseval.utils.types import AnyArray, BoolArray, build_unchecked

ID_ROLES = ("user", "item", "query")
N_CELLS = 2_000  # first cells of each column that decide whether columns fit their roles


@dataclass(eq=False, kw_only=True)
class LogBuilder:
    """Collect the columns of a log, the rows that are kept, and all counts and problems.

    Attributes
    ----------
    source_name : str
        Name of the source in errors.
    column_names : dict
        Role -> name of the column.
    evidence : dict
        Role -> "position" or "name", for roles whose column the caller has not named.
    row_noun : str
        Noun for the rows of the source, in the plural.
    keep : (n,) bool array
        Rows that are kept.
    audit : Audit
        Counts and problems.
    first_cells : dict
        Name of a column of a frame -> its first cells as text.
    text_roles : set
        Roles of ids that are text of a file.
    ids : dict
        Role -> column of ids.
    values : dict
        Role -> column of numbers, times or truth values.
    reports_low_values : bool
        Whether the result must report that rows with low values count as positives.
    """

    source_name: str
    column_names: dict[str, str]
    evidence: dict[str, Evidence]
    row_noun: str
    keep: BoolArray
    audit: Audit
    first_cells: dict[str, list[str]] = field(default_factory=dict)
    text_roles: set[str] = field(default_factory=set)
    ids: dict[str, Ids] = field(default_factory=dict)
    values: dict[str, ValueColumn] = field(default_factory=dict)
    reports_low_values: bool = True

    @classmethod
    def from_source(
        cls,
        source: Source,
        match: ColumnMatch,
        units: Units = "auto",
        row_noun: str = "rows",
        na_values: Sequence[str] = (),
    ) -> LogBuilder:
        """Read the matched columns of a source."""
        column_names = match.columns
        id_columns = []
        for role in ID_ROLES:
            if role in column_names:
                id_columns.append(column_names[role])

        table = source.load(list(column_names.values()), id_columns)
        builder = cls(
            source_name=source.name,
            column_names=column_names,
            evidence=dict(match.evidence),
            row_noun=row_noun,
            keep=np.ones(len(table), dtype=bool),
            audit=Audit(problems=list(match.problems)),
        )
        if source.layout is None:
            for role, name in column_names.items():
                if role in CHECKED_ROLES:
                    builder.first_cells[name] = _format_cells(table[name].head(N_CELLS).to_list())
        if column_names and not len(table):
            builder.audit.add_problem(f"there are no {row_noun}", "Give at least one")
            builder.raise_problems()
        for role, name in column_names.items():
            if role in ID_ROLES:
                builder._read_ids(role, table[name], source, na_values)
            else:
                builder._read_values(role, table[name], units, na_values)
        count = SourceCount.from_source(
            len(table),
            source=source.name,
            columns=builder._describe_columns(source),
            unit=row_noun,
            is_file=source.is_file,
        )
        builder.audit.counts = [count, *source.counts, *builder.audit.counts]
        return builder

    def _describe_columns(self, source: Source) -> str:
        """Return which columns are read for which roles, and which are not read."""
        notes = {role: column.note for role, column in self.values.items()}
        description = describe_mapping(self.column_names, notes)
        unread_columns = []
        for name in source.columns:
            if name not in self.column_names.values():
                unread_columns.append(name)

        if unread_columns:
            description += f"; not read: {format_examples(unread_columns, N_EXAMPLES)}"
        return description

    def _read_values(
        self, role: str, column: nw.Series[IntoSeries], units: Units, na_values: Sequence[str]
    ) -> None:
        """Read a column of numbers, times or truth values, and add its problem."""
        name = self.column_names[role]
        description = f"column {name!r}"
        if role == "timestamp":
            values = read_times(column, description, units, na_values)
        elif role in ("clicked", "shown"):
            values = read_truth_values(column, description, role)
        else:
            values = read_numbers(
                column, description, role, allow_infinite=role == "score", na_values=na_values
            )
        self.values[role] = values
        if values.problem is None:
            return
        if role == "timestamp":
            self.audit.problems.append(_suggest_ignore(values.problem, name))
        else:
            self.audit.problems.append(values.problem)

    def _read_ids(
        self, role: str, column: nw.Series[IntoSeries], source: Source, na_values: Sequence[str]
    ) -> None:
        """Read a column of ids, and add its counts and problems."""
        name = self.column_names[role]
        description = f"column {name!r}"
        from_text = name in source.text_columns
        try:
            id_column = encode_id_column(
                column, description, from_text=from_text, na_values=na_values, strip=source.strips_ids
            )
        except InputError as error:
            self.audit.add_error(error)
            return
        ids = id_column.ids
        self.ids[role] = ids
        self.audit.counts += id_column.counts
        self.audit.problems += id_column.problems
        if from_text:
            self.text_roles.add(role)
        self._check_header_row(role, source)

    def _check_header_row(self, role: str, source: Source) -> None:
        """Add a problem if a row of ids is a header."""
        ids = self.ids[role]
        name = self.column_names[role]
        description = f"column {name!r}"
        header = describe_header_row(ids.codes, ids.ids, description)
        if header and role != "query":
            self.audit.add_problem(
                header, "Read the file by its path with {header=True}, or without that row"
            )
            return
        if source.layout is None or not source.layout.header:
            return
        labels = ids.ids.tolist()
        if name in labels:
            row = int(np.flatnonzero(ids.codes == labels.index(name))[0])
            self.audit.add_problem(f"row {row} of {description} repeats the header", "Remove that line")

    def check_roles(self, source: Source, ignored_columns: Sequence[str] = ()) -> None:
        """Check that columns fit roles for which the caller has not named them; add a problem or a note."""
        if source.has_fixed_roles or not self.evidence or self.audit.problems:
            return
        layout = source.layout
        columns = {}
        for role, name in self.column_names.items():
            if role in CHECKED_ROLES:
                columns[role] = name

        candidates = list(columns.values())
        has_no_header = layout is not None and not layout.header
        if has_no_header:
            candidates = list(source.columns)
        cells = self.first_cells
        if layout is not None:
            cells = _find_first_cells(source, candidates)
        role_problem = self._check_assignment(columns, cells, source)
        if role_problem is not None and has_no_header and self.keep.size > N_CELLS:
            # In a sorted file, ids may repeat only in later rows.
            cells = _load_all_cells(source, candidates)
            role_problem = self._check_assignment(columns, cells, source)
        self.add_role_problem(role_problem)
        if has_no_header and role_problem is None and not {"value", "clicked"} & set(self.column_names):
            unread_columns = []
            for name in source.columns:
                if name not in self.column_names.values() and name not in ignored_columns:
                    unread_columns.append(name)

            self.add_role_problem(check_unread_outcomes(unread_columns, cells, self.keep.size))

    def add_role_problem(self, role_problem: RoleProblem | None) -> None:
        """Add the problem of columns that do not fit their roles as an error or as a count, if there is one."""
        if role_problem is None:
            return
        if role_problem.is_error:
            self.audit.problems.append(role_problem.problem)
        else:
            note = f"{self.row_noun} of which {role_problem.problem.description}"
            self.audit.counts.append(Count(note, self.keep.size))

    def _check_assignment(
        self, columns: Mapping[str, str], cells: Mapping[str, Sequence[str]], source: Source
    ) -> RoleProblem | None:
        """Return the problem of columns that do not fit their roles by these cells."""
        return check_assignment(
            columns, self.evidence, cells, n_rows=self.keep.size, list_columns=source.lists
        )

    def raise_problems(self) -> None:
        """Raise one error for all problems."""
        if self.audit.problems:
            raise ProblemsError(self.source_name, self.audit.problems)

    def _leave_out(self, rows: BoolArray, description: str, code: CountCode = "exclusion") -> None:
        """Leave out the rows of a mask, and count them."""
        kept_rows = rows & self.keep
        label = f"{self.row_noun} {description}, left out"
        self.audit.add_count(label, int(kept_rows.sum()), self.keep.size, code=code)
        self.keep &= ~kept_rows

    def leave_out_missing(self, missing: str, fix: str = "Pass {missing=drop} to leave them out") -> None:
        """Leave out rows with a missing entry, or add a problem for each column with missing entries."""
        for role, is_missing in self._find_missing().items():
            if not is_missing.any():
                continue
            if missing == "drop":
                self._leave_out(is_missing, f"without {add_article(role)}")
                continue
            n_missing = int(is_missing.sum())
            self.audit.add_problem(
                f"{n_missing:,} of {is_missing.size:,} {self.row_noun} have no {role} "
                f"({format_rows(is_missing)})",
                fix,
            )

    def apply_threshold(self, threshold: Threshold | None) -> None:
        """Leave out rows with a value below the threshold; without one, leave out 0 and refuse ratings."""
        if threshold == "all":
            self.reports_low_values = False
            return
        if threshold is None:
            if "value" in self.values and "clicked" not in self.column_names:
                self._leave_out_zeros()
            return
        self.reports_low_values = False
        if "value" not in self.values:
            self._add_problem_without_values()
            return
        is_low = self.values["value"].values < threshold
        self._leave_out(is_low, f"with a value below {threshold:g}", "stated_exclusion")
        if not self.keep.any() and is_low.any():
            self.audit.add_problem(
                f"no row has a value of at least {threshold:g}", "Pass a smaller {threshold}"
            )

    def _add_problem_without_values(self) -> None:
        """Add the problem of a threshold for a source without a column of values."""
        if "clicked" in self.column_names:
            clicked = self.column_names["clicked"]
            self.audit.add_problem(
                "a threshold applies to values, and impressions have clicks",
                f"Leave {{threshold}} out, or pass {{ignore={clicked}}} to read interactions",
            )
        else:
            self.audit.add_problem(
                "a threshold needs a column of values, and none was found",
                "Name it by {value}, or leave {threshold} out and apply it to the part that has values, as in "
                "test=ipseval.read(test, threshold=1)",
            )

    def _leave_out_zeros(self) -> None:
        """Leave out rows of value 0, and report ratings, which need a threshold."""
        column = self.values["value"]
        if column.problem is not None:
            return
        name = self.column_names["value"]
        is_zero = column.values == 0
        self._leave_out(is_zero, "with a value of 0")
        if is_zero.all():
            self.audit.add_problem(
                f"all values of column {name!r} are 0", "Pass {threshold=0} if these rows are positives"
            )
        scale = find_rating_scale(column.values[self.keep], name)
        evidence = self.evidence.get("value")
        meaning = means_ratings(name, evidence)
        if scale is None or meaning == "no":
            return
        if evidence is None or meaning == "perhaps":
            scale.warn()
            self.audit.counts.append(Count(scale.describe_rows(), int(self.keep.sum()), code="no_threshold"))
            self.reports_low_values = False  # this count reports them already
        else:
            self.audit.problems.append(scale.to_problem())

    def restrict_to_universe(self, role: str, universe: npt.ArrayLike | None, unknown: str) -> None:
        """Recode users or items over the universe; treat rows with unknown ids."""
        if role not in self.ids:
            return
        if universe is None:
            self._remove_unused_ids(role)
            return
        ids = self.ids[role]
        try:
            universe_ids = to_id_array(universe, f"{role}s")
            positions = find_places(
                ids.ids,
                universe_ids,
                f"column {self.column_names[role]!r} and {role}s=",
                from_text=role in self.text_roles,
            )
        except InputError as error:
            self.audit.add_error(error)
            return
        # A missing id has code −1, which selects the appended entry: it is not unknown.
        is_unknown = (np.append(positions, 0)[ids.codes] < 0) & self.keep
        if is_unknown.any() and unknown == "drop":
            self._leave_out(is_unknown, f"with {add_article(role)} outside the universe")
        elif is_unknown.any():
            unknown_ids = ids.ids[positions < 0]
            self.audit.add_problem(
                f"{int(is_unknown.sum()):,} of {is_unknown.size:,} rows have {add_article(role)} outside the "
                f"given {universe_ids.size:,} ({format_rows(is_unknown)}: {format_examples(unknown_ids)}; the given "
                f"ones start with {format_examples(universe_ids)})",
                f"Add them to {{{role}s}}, or pass {{unknown=drop}} to leave the rows out",
            )
        self.ids[role] = Ids(np.append(positions, -1)[ids.codes], universe_ids)

    def _remove_unused_ids(self, role: str) -> None:
        """Remove ids that occur only in rows with a missing entry of another column."""
        incomplete_masks = []
        for is_missing in self._find_missing().values():
            if is_missing.any():
                incomplete_masks.append(is_missing)

        if not incomplete_masks:
            return
        ids = self.ids[role]
        is_complete = ~np.logical_or.reduce(incomplete_masks)
        used_codes = unique_keys(ids.codes[is_complete])
        new_codes = np.full(ids.ids.size + 1, -1)
        new_codes[used_codes] = np.arange(used_codes.size)
        self.ids[role] = Ids(new_codes[ids.codes], ids.ids[used_codes])

    def _find_missing(self) -> dict[str, BoolArray]:
        """Return for each role the rows without an entry."""
        masks = {role: ids.missing for role, ids in self.ids.items()}
        for role, column in self.values.items():
            masks[role] = column.missing
        return masks

    def _select_columns(self) -> Columns:
        """Return the columns of the rows that are kept; add a problem if no row is kept."""
        if not self.audit.problems and not self.keep.any():
            reasons = "; ".join(f"{count.count:,} {count.label}" for count in self.audit.counts[1:])
            self.audit.add_problem(f"no row is left: {reasons}", "Leave out fewer rows")
        columns: Columns = {}
        for role, column in self.values.items():
            values = self._select_kept(column.values)
            if role == "timestamp" and column.problem is None and not (column.missing & self.keep).any():
                values = self._convert_timestamps(values)
            columns[role] = values
        for role, ids in self.ids.items():
            columns[role] = self._select_kept(ids.codes)
            columns[f"{role}_ids"] = ids.ids
        return columns

    def _select_kept(self, values: AnyArray) -> AnyArray:
        """Return the entries of the rows that are kept, without a copy if all are."""
        if self.keep.all():
            return values
        return values[self.keep]

    def _convert_timestamps(self, values: AnyArray) -> AnyArray:
        """Return times as numbers; add a problem for times that nanoseconds cannot represent."""
        try:
            return to_numbers(values, f"column {self.column_names['timestamp']!r}")
        except InputError as error:
            self.audit.add_error(error)
            return values

    def _select_complete(self, columns: Columns) -> Columns:
        """Return the complete rows of columns without a problem, in which further problems can be found."""
        problem_roles = set()
        for role, column in self.values.items():
            if column.problem is not None:
                problem_roles.add(role)

        sound_columns = {}
        for role, values in columns.items():
            if role not in problem_roles:
                sound_columns[role] = values

        masks = []  # an id outside the universe has the code −1 too, as a missing one
        for is_missing in self._find_missing().values():
            masks.append(~is_missing[self.keep])

        return select_rows(sound_columns, np.logical_and.reduce(masks))

    def build_interactions(self, duplicates: Duplicates) -> Interactions:
        """Return the pairs, or raise one error for all problems."""
        columns = self._select_columns()
        is_repeat = _find_repeated_pairs(columns)
        n_repeats = int(is_repeat.sum())
        if n_repeats and duplicates == "raise":
            self.audit.add_problem(
                f"{n_repeats:,} of {is_repeat.size:,} rows repeat an earlier user–item pair (first: "
                f"{format_first_pair(columns, is_repeat)})",
                "Pass {duplicates=drop} to keep the first row of each pair, {duplicates=keep} where users "
                "take items again",
            )
        self.raise_problems()
        n_dropped = 0
        if duplicates == "keep":
            self.audit.add_count(
                "rows that repeat an earlier pair, kept", n_repeats, self.keep.size, code="number"
            )
        elif n_repeats:
            self.audit.add_count("rows that repeat an earlier pair, left out", n_repeats, self.keep.size)
            columns = select_rows(columns, ~is_repeat)
            n_dropped = n_repeats
        if self.reports_low_values and "value" in columns:
            self._count_low_values(columns["value"])
        return build_unchecked(
            Interactions,
            **columns,
            n_duplicates_dropped=n_dropped,
            repeats=duplicates == "keep",
            row_counts=tuple(self.audit.counts),
        )

    def _count_low_values(self, values: AnyArray) -> None:
        """Add the count of rows that are positives whatever their value is."""
        lowest = values.min()
        highest = values.max()
        if lowest < highest:
            description = (
                f"rows with a value from {lowest:g} to {highest:g}; low ones count as well, as there is no "
                "threshold"
            )
            self.audit.counts.append(Count(description, values.size, code="no_threshold"))

    def build_impressions(self, duplicates: str, gaps: str, unshown_clicks: str) -> ImpressionLog:
        """Return the impressions, or raise one error for all problems."""
        columns = self._select_columns()
        if self.audit.problems:
            columns = self._select_complete(columns)
        n_previous = len(self.audit.problems)
        has_roles = all(role in columns for role in ("user", "item", "clicked"))
        if has_roles and columns["user"].size:
            columns = clean_impressions(
                columns, self.audit, duplicates=duplicates, gaps=gaps, unshown_clicks=unshown_clicks
            )
        for position, problem in enumerate(self.audit.problems):
            if position >= n_previous and isinstance(problem, ColumnProblem):
                column_name = self.column_names[problem.role]
                self.audit.problems[position] = _suggest_ignore(problem, column_name)
        self.raise_problems()
        return ImpressionLog(**columns, row_counts=tuple(self.audit.counts))


def _suggest_ignore(problem: Problem, column: str) -> Problem:
    """Return a problem of a column with the further fix of not reading the column."""
    return Problem(problem.description, f"{problem.advice}; or leave the column out by {{ignore={column}}}")


def _find_repeated_pairs(columns: Columns) -> BoolArray:
    """Return the rows that repeat the known ids of an earlier row; no rows without users or items."""
    if "user" not in columns or "item" not in columns:
        return np.zeros(0, dtype=bool)
    user = columns["user"]
    item = columns["item"]
    pair_key = user * np.int64(columns["item_ids"].size) + item
    is_known = (user >= 0) & (item >= 0)
    is_repeat = np.zeros(pair_key.size, dtype=bool)
    is_repeat[is_known] = mark_repeats(pair_key[is_known])
    return is_repeat


def _find_first_cells(source: Source, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the first cells of columns of a file as text, by which its layout was found."""
    if source.layout is None:
        return {}
    positions = {name: position for position, name in enumerate(source.layout.columns)}
    cells: dict[str, list[str]] = {}
    for name in names:
        if name in positions:
            cells[name] = [row[positions[name]] for row in source.layout.body]

    return cells


def _load_all_cells(source: Source, names: Sequence[str]) -> dict[str, list[str]]:
    """Return all cells of columns as text."""
    table = source.load(names, names)
    text_cells: dict[str, list[str]] = {}
    for name in names:
        text_cells[name] = _format_cells(table[name].to_list())

    return text_cells


def _format_cells(cells: Sequence[object]) -> list[str]:
    """Return cells as text; missing ones (None, NaN, NaT and the NA of pandas) become empty."""
    return ["" if _is_missing(cell) else str(cell) for cell in cells]


def _is_missing(cell: Any) -> bool:
    """Return whether a cell is missing; a list is not."""
    if isinstance(cell, (str, int)):  # as most cells are, of which pandas needs not be asked one by one
        return False
    return np.ndim(cell) == 0 and bool(pd.isna(cell))
