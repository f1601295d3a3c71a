"""A log while it is read: columns, rows that stay, counts, and everything that is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ipseval._base.checks import article, examples
from ipseval._base.columns import to_numbers
from ipseval._base.counts import Count
from ipseval._base.ids import Ids, distinct, header_among, places, repeated, to_id_array
from ipseval._base.types import AnyArray, BoolArray, unchecked
from ipseval.data._impression_log import ImpressionLog
from ipseval.data._impressions import Treatment, first_pair, rows_of
from ipseval.data._interactions import Interactions
from ipseval.data.reading._columns import (
    Numbers,
    Units,
    encoded,
    numbers,
    rows_said,
    times,
    tried,
    truths,
)
from ipseval.data.reading._names import USUAL, Chosen, choose, plain, said
from ipseval.data.reading._source import Source
from ipseval.errors import Problem, ProblemsError

IDS = ("user", "item", "query")
ROLES = ("user", "item", "query", "timestamp", "clicked", "shown", "position", "propensity", "value")
CLICKS = ("query", "clicked", "shown", "position", "propensity")  # what only an exposure log has


@dataclass(eq=False, kw_only=True)
class Draft(Treatment):
    """A log while it is read: its columns, the rows that stay, what was counted, and what is wrong."""

    name: str
    names: dict[str, str]
    noun: str
    keep: BoolArray
    ids: dict[str, Ids] = field(default_factory=dict)
    columns: dict[str, Numbers] = field(default_factory=dict)
    has_threshold: bool = False

    @classmethod
    def of(cls, source: Source, chosen: Chosen, units: Units = "auto", noun: str = "rows") -> Draft:
        """Return the chosen columns of a source."""
        names = chosen.columns
        table = source.load(list(names.values()), [names[one] for one in IDS if one in names])
        n_rows = len(table)
        keep, problems = np.ones(n_rows, dtype=bool), list(chosen.problems)
        draft = cls(name=source.name, names=names, noun=noun, keep=keep, problems=problems)
        if names and not n_rows:
            draft.fault(f"there are no {noun}", "Give at least one")
            draft.raise_problems()
        for role, name in names.items():
            column, words = table[name], f"column {name!r}"
            if role in IDS:
                found = tried(draft.problems, encoded, column, words, from_text=name in source.written)
                if found is not None:
                    draft.ids[role] = found
                    header = "" if role == "query" else header_among(found.codes, found.ids, words)
                    if header:
                        draft.fault(
                            header, "Read the file by its path with {header=True}, or without that row"
                        )
                continue
            one = draft.columns[role] = _read_as(role, column, words, units)
            if one.problem is not None:
                draft.problems.append(_without(one.problem, name) if role == "timestamp" else one.problem)
        words = said(names, {role: one.said for role, one in draft.columns.items()})
        left = [name for name in source.columns if name not in names.values()]
        words += f"; not read: {examples(left, 12)}" if left else ""
        draft.counted += [Count(f"{noun} read from {source.name}: {words}", n_rows), *source.counted]
        return draft

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

    def leave_out_low(self, threshold: float | None) -> None:
        """Leave out rows with a value below the threshold."""
        if threshold is None:
            return
        self.has_threshold = True
        if "value" not in self.columns:
            what, way_out = "a threshold needs a column of values, and none was found", "Name it by {value}"
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
        place = tried(self.problems, places, own.ids, known, f"column {self.names[role]!r} and {role}s=")
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


def choose_log(
    source: Source, given: dict[str, str | None], ignore: Sequence[str], *, outcomes: bool
) -> Chosen:
    """Return the columns of a log; with `outcomes`, one that tells what happened counts as clicks."""
    chosen = _chosen(source, given, ignore)
    outcome = _outcome(source, chosen, ignore) if outcomes and given["value"] is None else None
    return chosen if outcome is None else _chosen(source, given | {"clicked": outcome}, ignore)


def _chosen(source: Source, given: dict[str, str | None], ignore: Sequence[str]) -> Chosen:
    """Return the columns by their names, or by their places in a text file without a header."""
    if source.layout is not None and not source.layout.header:
        columns = list(source.columns)
        by_place = ("user", "item", "value", "timestamp")[: 4 if len(columns) == 4 else 2]
        usual = dict(zip(by_place, columns, strict=False))
        if source.layout.trec == "qrels":
            usual = {"user": columns[0], "item": columns[2], "value": columns[3]}
        taken = {*filter(None, given.values()), *ignore}
        given = {
            role: name or (usual.get(role) if usual.get(role) not in taken else None)
            for role, name in given.items()
        }
    unknown = [name for name in ignore if name not in source.columns]
    have = [name for name in source.columns if name not in ignore]
    chosen = choose(have, given, ROLES, lists=source.lists)
    problems = list(chosen.problems)
    if unknown:
        what = f"columns to ignore are not there: {examples(unknown)}; the columns are "
        problems.append(Problem(what + examples(source.columns, 12), "Correct {ignore}"))
    without = ("value",) if "clicked" in chosen.columns else CLICKS
    kept = {role: name for role, name in chosen.columns.items() if role not in without}
    asked = [role for role in without if given[role] is not None and role in chosen.columns]
    problems += [_of_the_other_kind(role, chosen.columns) for role in asked]
    return Chosen(kept, tuple(problems))


def _outcome(source: Source, chosen: Chosen, ignore: Sequence[str]) -> str | None:
    """Return a column of 0 and 1 that tells what happened by its name; without it, negatives would count."""
    if "clicked" in chosen.columns or chosen.problems:
        return None
    for name in dict.fromkeys((*chosen.columns.values(), *source.columns)):
        if plain(name) in USUAL["outcome"] and name not in (*ignore, *source.lists):
            found = truths(source.load([name], [])[name], name, "clicked")
            values = found.values[~found.missing]
            if found.problem is None and values.any() and not values.all():
                return str(name)
    return None


def _of_the_other_kind(role: str, columns: Mapping[str, str]) -> Problem:
    if role == "value":
        way_out = f"Leave {{value}} out, or pass {{ignore={columns['clicked']}}} to read interactions"
        return Problem("impressions hold clicks, and no values", way_out)
    what = f"the {role} is one of impressions, and no column of clicks was found"
    return Problem(what, f"Name it by {{clicked}}, or leave {{{role}}} out")


def _with_ignore(fault: Problem, columns: Mapping[str, str]) -> Problem:
    """Return a fault of impressions with what one can do about it while a log is read."""
    for role, word in {"propensity": "propensit", "position": "position", "query": "slate"}.items():
        if word in fault.what and role in columns:
            return _without(fault, columns[role])
    return fault


def _without(fault: Problem, column: str) -> Problem:
    """Return a fault of a column with leaving it out as another way."""
    return Problem(fault.what, f"{fault.way_out}; or do without the column by {{ignore={column}}}")


def _read_as(role: str, column: Any, words: str, units: Units) -> Numbers:
    if role == "timestamp":
        return times(column, words, units)
    if role in ("clicked", "shown"):
        return truths(column, words, role)
    return numbers(column, words, role, infinite=role == "score")
