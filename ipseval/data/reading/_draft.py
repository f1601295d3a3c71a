"""A log while it is read: columns, rows that stay, counts, and everything that is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data._impressions import Treatment, first_pair, rows_of
from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Interactions
from ipseval.data.reading._columns import (
    Numbers,
    Units,
    encode,
    find_places,
    numbers,
    rows_said,
    times,
    tried,
    truths,
)
from ipseval.data.reading._roles import CHECKED, doubt_roles
from ipseval.data.reading._source import Source
from ipseval.data.reading._values import Threshold, find_scale, means_ratings
from ipseval.data.reading.column_names import Chosen, said
from ipseval.errors import Problem, ProblemsError
from ipseval.utils.checks import article, examples
from ipseval.utils.columns import to_numbers
from ipseval.utils.counts import Count
from ipseval.utils.ids import Ids, distinct, header_among, repeated, to_id_array
from ipseval.utils.types import AnyArray, BoolArray, unchecked

IDS = ("user", "item", "query")
N_CELLS = 2_000  # first cells of each column, from which it is told whether columns fit their roles


@dataclass(eq=False, kw_only=True)
class Draft(Treatment):
    """A log while it is read: its columns, the rows that stay, what was counted, and what is wrong."""

    name: str
    names: dict[str, str]
    unnamed: dict[str, str]  # role -> "place" or "name", by which its column was chosen
    noun: str
    keep: BoolArray
    first_cells: dict[str, list[str]] = field(default_factory=dict)  # of columns of a frame, as text
    written: set[str] = field(default_factory=set)  # roles whose ids are text of a file
    ids: dict[str, Ids] = field(default_factory=dict)
    columns: dict[str, Numbers] = field(default_factory=dict)
    has_threshold: bool = False

    @classmethod
    def of(
        cls,
        source: Source,
        chosen: Chosen,
        units: Units = "auto",
        noun: str = "rows",
        na_values: Sequence[str] = (),
    ) -> Draft:
        """Return the chosen columns of a source."""
        names = chosen.columns
        table = source.load(list(names.values()), [names[role] for role in IDS if role in names])
        n_rows = len(table)
        draft = cls(
            name=source.name,
            names=names,
            unnamed=dict(chosen.unnamed),
            noun=noun,
            keep=np.ones(n_rows, dtype=bool),
            problems=list(chosen.problems),
        )
        if source.layout is None:
            checked = [name for role, name in names.items() if role in CHECKED]
            draft.first_cells = {name: _as_text(table[name].head(N_CELLS).to_list()) for name in checked}
        if names and not n_rows:
            draft.fault(f"there are no {noun}", "Give at least one")
            draft.raise_problems()
        for role, name in names.items():
            if role in IDS:
                draft._read_ids(role, table[name], source, na_values)
            else:
                column = draft.columns[role] = _read_as(
                    role, table[name], f"column {name!r}", units, na_values
                )
                if column.problem is not None:
                    draft.problems.append(
                        _without(column.problem, name) if role == "timestamp" else column.problem
                    )
        words = said(names, {role: column.said for role, column in draft.columns.items()})
        left = [name for name in source.columns if name not in names.values()]
        words += f"; not read: {examples(left, 12)}" if left else ""
        notes = draft.counted
        draft.counted = [Count(f"{noun} read from {source.name}: {words}", n_rows), *source.counted, *notes]
        return draft

    def _read_ids(self, role: str, column: Any, source: Source, na_values: Sequence[str]) -> None:
        """Read a column of ids, with what does not fit."""
        name = self.names[role]
        words = f"column {name!r}"
        from_text = name in source.written
        options = {"from_text": from_text, "na_values": na_values, "strip": source.strips_ids}
        encoded = tried(self.problems, encode, column, words, **options)
        if encoded is None:
            return
        ids = self.ids[role] = encoded.ids
        self.counted += encoded.notes
        self.problems += encoded.problems
        if from_text:
            self.written.add(role)
        header = "" if role == "query" else header_among(ids.codes, ids.ids, words)
        if header:
            self.fault(header, "Read the file by its path with {header=True}, or without that row")
        elif source.layout is not None and source.layout.header and name in ids.ids.tolist():
            row = int(np.flatnonzero(ids.codes == ids.ids.tolist().index(name))[0])
            self.fault(f"row {row} of {words} repeats the header", "Remove that line")

    def check_roles(self, source: Source) -> None:
        """Add what speaks against the columns that nobody has named: a fault, or a note of few rows."""
        assigned = {role: name for role, name in self.names.items() if role in CHECKED}
        has_layout = source.layout is not None and not source.layout.header
        if not self.unnamed or self.problems or (source.layout is not None and source.layout.trec):
            return
        if source.layout is not None and source.layout.name in ("pairs", "adjacency"):
            return
        pool = list(source.columns) if has_layout else list(assigned.values())
        cells = _first_cells(source, pool) if source.layout is not None else self.first_cells
        n_rows = self.keep.size
        doubt = doubt_roles(assigned, self.unnamed, cells, n_rows=n_rows, lists=source.lists)
        if doubt is not None and has_layout and self.keep.size > N_CELLS:
            # In a file that is sorted, ids repeat further below.
            cells = _all_cells(source, pool)
            doubt = doubt_roles(assigned, self.unnamed, cells, n_rows=n_rows, lists=source.lists)
        if doubt is not None and doubt.is_error:
            self.problems.append(doubt.problem)
        elif doubt is not None:
            self.counted.append(Count(f"rows of which {doubt.problem.what}", self.keep.size))

    def raise_problems(self) -> None:
        """Raise everything that is wrong."""
        if self.problems:
            raise ProblemsError(self.name, self.problems)

    def _leave_out(self, rows: BoolArray, what: str) -> None:
        rows = rows & self.keep
        self.count(f"{self.noun} {what}, left out", int(rows.sum()), self.keep.size)
        self.keep &= ~rows

    def leave_out_missing(self, missing: str, way_out: str = "Pass {missing=drop} to leave them out") -> None:
        """Leave out rows that lack something, or say that they do."""
        for role, rows in self._lacking().items():
            if rows.any() and missing == "drop":
                self._leave_out(rows, f"without {article(role)}")
            elif rows.any():
                what = f"{int(rows.sum()):,} of {rows.size:,} {self.noun} have no {role} ({rows_said(rows)})"
                self.fault(what, way_out)

    def apply_threshold(self, threshold: Threshold | None) -> None:
        """Leave out rows with a value below the threshold; without one, those of 0, and refuse ratings."""
        self.has_threshold = threshold is not None
        if threshold == "all":
            return
        if threshold is None:
            if "value" in self.columns and "clicked" not in self.names:
                self._leave_out_zeros()
            return
        if "value" not in self.columns:
            what = "a threshold needs a column of values, and none was found"
            way_out = "Name it by {value}"
            if "clicked" in self.names:
                clicked = self.names["clicked"]
                what = "a threshold is of values, and impressions hold clicks"
                way_out = f"Leave {{threshold}} out, or pass {{ignore={clicked}}} to read interactions"
            self.fault(what, way_out)
            return
        low = self.columns["value"].values < threshold
        self._leave_out(low, f"with a value below {threshold:g}")
        if not self.keep.any() and low.any():
            self.fault(f"no row has a value of at least {threshold:g}", "Pass a smaller {threshold}")

    def _leave_out_zeros(self) -> None:
        """Leave out rows of value 0, and add what is wrong with ratings that have no threshold."""
        column = self.columns["value"]
        if column.problem is not None:
            return
        name = self.names["value"]
        zero = column.values == 0
        self._leave_out(zero, "with a value of 0")
        if zero.all():
            self.fault(
                f"all values of column {name!r} are 0", "Pass {threshold=0} if these rows are positives"
            )
        scale = find_scale(column.values[self.keep], name)
        by = self.unnamed.get("value", "caller")
        meaning = means_ratings(name, by)
        if scale is None or meaning == "no":
            return
        if by == "caller" or meaning == "perhaps":
            scale.warn()
            self.counted.append(Count(scale.note(), int(self.keep.sum())))
            self.has_threshold = True  # it is said already that low ones count
        else:
            self.problems.append(scale.problem())

    def fit_to(self, role: str, universe: Any | None, unknown: str) -> None:
        """Bring the codes of users or items to a universe that was given."""
        if role not in self.ids:
            return
        own = self.ids[role]
        if universe is None:
            lacking = [rows for rows in self._lacking().values() if rows.any()]
            if not lacking:
                return
            # Other ids are only in rows that lack something else.
            used = distinct(own.codes[~np.logical_or.reduce(lacking)])
            rank = np.full(own.ids.size + 1, -1)
            rank[used] = np.arange(used.size)
            self.ids[role] = Ids(rank[own.codes], own.ids[used])
            return
        known = tried(self.problems, to_id_array, universe, f"{role}s")
        if known is None:
            return
        words = f"column {self.names[role]!r} and {role}s="
        from_text = role in self.written
        place = tried(self.problems, find_places, own.ids, known, words, from_text=from_text)
        if place is None:
            return
        strange = (np.append(place, 0)[own.codes] < 0) & self.keep
        if strange.any() and unknown == "drop":
            self._leave_out(strange, f"with {article(role)} outside the universe")
        elif strange.any():
            self.fault(
                f"{int(strange.sum()):,} of {strange.size:,} rows have {article(role)} outside the "
                f"given {known.size:,} ({rows_said(strange)}: {examples(own.ids[place < 0])}; the given "
                f"ones start with {examples(known)})",
                f"Add them to {{{role}s}}, or pass {{unknown=drop}} to leave the rows out",
            )
        self.ids[role] = Ids(np.append(place, -1)[own.codes], known)

    def _lacking(self) -> dict[str, BoolArray]:
        """Return for each column the rows without an entry."""
        ids = {role: one.missing for role, one in self.ids.items()}
        return ids | {role: one.missing for role, one in self.columns.items()}

    def _ready(self) -> dict[str, AnyArray]:
        """Return the columns of the rows that stay, or raise what is wrong."""
        if not self.problems and not self.keep.any():
            left_out = "; ".join(f"{one.count:,} {one.what}" for one in self.counted[1:])
            self.fault(f"no row is left: {left_out}", "Leave out less")
        whole = bool(self.keep.all())
        data: dict[str, AnyArray] = {}
        for role, one in self.columns.items():
            values = one.values if whole else one.values[self.keep]
            if role == "timestamp" and one.problem is None and not (one.missing & self.keep).any():
                found = tried(self.problems, to_numbers, values, f"column {self.names[role]!r}")
                values = values if found is None else found
            data[role] = values
        for role, ids in self.ids.items():
            data |= {role: ids.codes if whole else ids.codes[self.keep], f"{role}_ids": ids.ids}
        return data

    def _sound(self, data: dict[str, AnyArray]) -> dict[str, AnyArray]:
        """Return the rows without a gap, of columns without a fault: what else can be said of the log."""
        faulty = {role for role, one in self.columns.items() if one.problem is not None}
        sound = {role: one for role, one in data.items() if role not in faulty}
        complete = [~rows[self.keep] for rows in self._lacking().values()]
        known = [data[role] >= 0 for role in ("user", "item") if role in data]
        return rows_of(sound, np.logical_and.reduce([*complete, *known]))

    def interactions(self, duplicates: str) -> Interactions:
        """Return the pairs, or raise everything that is wrong."""
        data = self._ready()
        again = np.zeros(0, dtype=bool)
        if {"user", "item"} <= set(data):
            key = data["user"] * np.int64(data["item_ids"].size) + data["item"]
            known = (data["user"] >= 0) & (data["item"] >= 0)
            again = np.zeros(key.size, dtype=bool)
            again[known] = repeated(key[known])
        if again.any() and duplicates == "raise":
            what = f"{int(again.sum()):,} of {again.size:,} rows repeat an earlier user–item pair"
            way_out = "Pass {duplicates=drop} to keep the first row of each pair, {duplicates=keep}"
            self.fault(
                f"{what} (first: {first_pair(data, again)})", f"{way_out} where users take items again"
            )
        self.raise_problems()
        n_again = int(again.sum())
        fate = "kept" if duplicates == "keep" else "left out"
        self.count(f"rows that repeat an earlier pair, {fate}", n_again, self.keep.size)
        n_dropped = n_again if duplicates == "drop" else 0
        if n_dropped:
            data = rows_of(data, ~again)
        values = data.get("value")
        if not self.has_threshold and values is not None and values.min() < values.max():
            extent = f"from {values.min():g} to {values.max():g}"
            what = f"rows with a value {extent}; low ones count as well, as there is no threshold"
            self.counted.append(Count(what, values.size))
        kept = {"n_duplicates_dropped": n_dropped, "repeats": duplicates == "keep"}
        return unchecked(Interactions, **data, **kept, counted=tuple(self.counted))

    def exposures(self, duplicates: str, gaps: str, unshown_clicks: str) -> ImpressionLog:
        """Return the impressions, or raise everything that is wrong."""
        data = self._ready()
        if self.problems:
            data = self._sound(data)
        n_known = len(self.problems)
        if all(role in data for role in ("user", "item", "clicked")) and data["user"].size:
            data = self.settle(data, duplicates, gaps, unshown_clicks)
        self.problems[n_known:] = [_with_ignore(one, self.names) for one in self.problems[n_known:]]
        self.raise_problems()
        return ImpressionLog(**data, counted=tuple(self.counted))


def _with_ignore(fault: Problem, columns: Mapping[str, str]) -> Problem:
    """Return a fault of impressions with what one can do about it while a log is read."""
    for role, word in {"propensity": "propensit", "position": "position", "query": "slate"}.items():
        if word in fault.what and role in columns:
            return _without(fault, columns[role])
    return fault


def _without(fault: Problem, column: str) -> Problem:
    """Return a fault of a column with leaving it out as another way."""
    return Problem(fault.what, f"{fault.way_out}; or do without the column by {{ignore={column}}}")


def _read_as(role: str, column: Any, words: str, units: Units, na_values: Sequence[str]) -> Numbers:
    if role == "timestamp":
        return times(column, words, units, na_values)
    if role in ("clicked", "shown"):
        return truths(column, words, role)
    return numbers(column, words, role, infinite=role == "score", na_values=na_values)


def _first_cells(source: Source, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the first cells of columns of a file as text: those that its layout was found on."""
    if source.layout is None:
        return {}
    body = source.layout.body
    place = {name: at for at, name in enumerate(source.layout.columns)}
    return {name: [row[place[name]] for row in body] for name in names if name in place}


def _all_cells(source: Source, names: Sequence[str]) -> dict[str, list[str]]:
    """Return all cells of columns as text."""
    table = source.load(list(names), list(names))
    return {name: _as_text(table[name].to_list()) for name in names}


def _as_text(cells: Sequence[Any]) -> list[str]:
    """Return cells as text, missing ones (None, NaN, NaT and pandas' NA) as the empty text."""
    return ["" if np.ndim(cell) == 0 and pd.isna(cell) else str(cell) for cell in cells]
