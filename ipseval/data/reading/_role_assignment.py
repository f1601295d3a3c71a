"""Assignment of the columns of a log to roles: by the caller, by usual names, or by positions in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipseval.data.reading._role_checks import ColumnTraits
from ipseval.data.reading._source import Source
from ipseval.data.reading._text import Layout
from ipseval.data.reading._value_columns import read_truth_values
from ipseval.data.reading.column_names import (
    N_EXAMPLES,
    USUAL_NAMES,
    ColumnMatch,
    Evidence,
    match_columns,
    normalize_name,
)
from ipseval.errors import Problem
from ipseval.utils.checks import format_examples

ROLES = ("user", "item", "query", "timestamp", "clicked", "shown", "position", "propensity", "value")
IMPRESSION_ROLES = ("query", "clicked", "shown", "position", "propensity")  # roles of impression logs only


def match_log_columns(
    source: Source, names: Mapping[str, str | None], ignore: Sequence[str], *, use_outcomes: bool
) -> ColumnMatch:
    """Return the columns of a log by role.

    Parameters
    ----------
    source : Source
        The table.
    names : mapping
        Role -> column that the caller has named, or None.
    ignore : sequence of str
        Columns that are not read.
    use_outcomes : bool
        Whether a column of 0 and 1 with the name of an outcome is read as clicks, because negatives would
        otherwise count as positives.
    """
    match = _match_columns(source, names, ignore)
    if not use_outcomes or names["value"] is not None:
        return match
    outcome = _find_outcome(source, match, ignore)
    if outcome is None:
        return match
    return _match_columns(source, {**names, "clicked": outcome}, ignore)


def _match_columns(source: Source, names: Mapping[str, str | None], ignore: Sequence[str]) -> ColumnMatch:
    """Return the columns by their names, or by their positions in a file without a header."""
    named_roles = {role for role, name in names.items() if name is not None}
    by_position: dict[str, str] = {}
    if source.layout is not None and not source.layout.header:
        by_position = _match_positions(source.layout, names, ignore)
    readable_columns = [name for name in source.columns if name not in ignore]
    match = match_columns(readable_columns, {**names, **by_position}, ROLES, list_columns=source.lists)
    problems = list(match.problems)
    unknown_columns = [name for name in ignore if name not in source.columns]
    if unknown_columns:
        problems.append(
            Problem(
                f"columns to ignore do not exist: {format_examples(unknown_columns)}; the columns are "
                f"{format_examples(source.columns, N_EXAMPLES)}",
                "Correct {ignore}",
            )
        )
    unread_roles = ("value",) if "clicked" in match.columns else IMPRESSION_ROLES
    wrong_roles = []
    for role in unread_roles:
        if role in named_roles and role in match.columns:
            wrong_roles.append(role)

    problems += [_describe_wrong_log_type(role, match.columns) for role in wrong_roles]
    columns = {}
    for role, name in match.columns.items():
        if role not in unread_roles:
            columns[role] = name

    evidence: dict[str, Evidence] = {}
    for role in columns:
        if role not in named_roles:
            evidence[role] = "position" if role in by_position else "name"
    return ColumnMatch(columns, tuple(problems), evidence)


def _match_positions(
    layout: Layout, names: Mapping[str, str | None], ignore: Sequence[str]
) -> dict[str, str]:
    """Return the roles of columns by position, without roles and columns that the caller has named."""
    columns = _find_customary_positions(layout)
    for role, name in list(columns.items()):
        is_named = names.get(role) is not None or name in names.values()
        if is_named or name in ignore:
            del columns[role]
    return columns


def _find_customary_positions(layout: Layout) -> dict[str, str]:
    """Return the roles of the columns of a file without a header by custom."""
    columns = layout.columns
    pair_columns = dict(zip(("user", "item"), columns, strict=False))
    if layout.name == "adjacency" or layout.name == "pairs":
        return pair_columns
    if layout.trec == "qrels":
        return {"user": columns[0], "item": columns[2], "value": columns[3]}
    if len(columns) == 4:
        return dict(zip(("user", "item", "value", "timestamp"), columns, strict=True))
    if len(columns) == 3 and layout.body:
        traits = ColumnTraits.from_cells([row[2] for row in layout.body])
        if traits.is_small and not traits.is_constant:
            return {**pair_columns, "value": columns[2]}
    return pair_columns


def _find_outcome(source: Source, match: ColumnMatch, ignore: Sequence[str]) -> str | None:
    """Return a column of 0 and 1 with the name of an outcome, such as "purchased"; None if there is none."""
    if "clicked" in match.columns or match.problems:
        return None
    for name in dict.fromkeys((*match.columns.values(), *source.columns)):
        if normalize_name(name) not in USUAL_NAMES["outcome"] or name in (*ignore, *source.lists):
            continue
        column = read_truth_values(source.load([name], [])[name], name, "clicked")
        truth_values = column.values[~column.missing]
        if column.problem is None and truth_values.any() and not truth_values.all():
            return str(name)
    return None


def _describe_wrong_log_type(role: str, columns: Mapping[str, str]) -> Problem:
    """Return the problem of a named column that the log cannot have: values, or columns of impressions."""
    if role == "value":
        fix = f"Leave {{value}} out, or pass {{ignore={columns['clicked']}}} to read interactions"
        return Problem("impressions have clicks, and no values", fix)
    return Problem(
        f"the {role} is a column of impressions, and no column of clicks was found",
        f"Name it by {{clicked}}, or leave {{{role}}} out",
    )
