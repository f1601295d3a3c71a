"""Which column of a log is read as what: named by the caller, by a usual name, or by its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipseval.data.reading._columns import truths
from ipseval.data.reading._roles import find_traits
from ipseval.data.reading._source import Source
from ipseval.data.reading._text import Layout
from ipseval.data.reading.column_names import USUAL, Chosen, choose, plain
from ipseval.errors import Problem
from ipseval.utils.checks import examples

ROLES = ("user", "item", "query", "timestamp", "clicked", "shown", "position", "propensity", "value")
CLICKS = ("query", "clicked", "shown", "position", "propensity")  # what only an impression log has


def choose_log(
    source: Source, given: dict[str, str | None], ignore: Sequence[str], *, outcomes: bool
) -> Chosen:
    """Return the columns of a log; with `outcomes`, one that tells what happened counts as clicks."""
    chosen = _choose_columns(source, given, ignore)
    outcome = _find_outcome(source, chosen, ignore) if outcomes and given["value"] is None else None
    return chosen if outcome is None else _choose_columns(source, given | {"clicked": outcome}, ignore)


def _choose_columns(source: Source, given: dict[str, str | None], ignore: Sequence[str]) -> Chosen:
    """Return the columns by their names, or by their places in a file without a header."""
    named = {role for role, name in given.items() if name is not None}
    places: dict[str, str] = {}
    if source.layout is not None and not source.layout.header:
        taken = {*filter(None, given.values()), *ignore}
        usual = _places_of(source.layout)
        places = {role: name for role, name in usual.items() if role not in named and name not in taken}
        given = {**given, **places}
    unknown = [name for name in ignore if name not in source.columns]
    have = [name for name in source.columns if name not in ignore]
    chosen = choose(have, given, ROLES, lists=source.lists)
    problems = list(chosen.problems)
    if unknown:
        what = f"columns to ignore are not there: {examples(unknown)}; the columns are "
        problems.append(Problem(what + examples(source.columns, 12), "Correct {ignore}"))
    unread = ("value",) if "clicked" in chosen.columns else CLICKS
    columns = {role: name for role, name in chosen.columns.items() if role not in unread}
    asked = [role for role in unread if role in named and role in chosen.columns]
    problems += [_of_the_other_kind(role, chosen.columns) for role in asked]
    unnamed = {role: "place" if role in places else "name" for role in columns if role not in named}
    return Chosen(columns, tuple(problems), unnamed)


def _places_of(layout: Layout) -> dict[str, str]:
    """Return what the columns of a file without a header are by their places."""
    columns = layout.columns
    if layout.name == "adjacency" or layout.name == "pairs":
        return dict(zip(("user", "item"), columns, strict=False))
    if layout.trec == "qrels":
        return {"user": columns[0], "item": columns[2], "value": columns[3]}
    if len(columns) == 4:
        return dict(zip(("user", "item", "value", "timestamp"), columns, strict=True))
    places = dict(zip(("user", "item"), columns, strict=False))
    if len(columns) == 3 and layout.body:
        third = find_traits([row[2] for row in layout.body])
        if third.is_small and not third.is_constant:
            places["value"] = columns[2]
    return places


def _find_outcome(source: Source, chosen: Chosen, ignore: Sequence[str]) -> str | None:
    """Return a column of 0 and 1 that tells what happened by its name; without it, negatives would count."""
    if "clicked" in chosen.columns or chosen.problems:
        return None
    for name in dict.fromkeys((*chosen.columns.values(), *source.columns)):
        if plain(name) in USUAL["outcome"] and name not in (*ignore, *source.lists):
            outcome = truths(source.load([name], [])[name], name, "clicked")
            values = outcome.values[~outcome.missing]
            if outcome.problem is None and values.any() and not values.all():
                return str(name)
    return None


def _of_the_other_kind(role: str, columns: Mapping[str, str]) -> Problem:
    if role == "value":
        way_out = f"Leave {{value}} out, or pass {{ignore={columns['clicked']}}} to read interactions"
        return Problem("impressions hold clicks, and no values", way_out)
    what = f"the {role} is one of impressions, and no column of clicks was found"
    return Problem(what, f"Name it by {{clicked}}, or leave {{{role}}} out")
