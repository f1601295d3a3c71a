"""Usual names of columns, and the columns of a source that are read for each role."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ipseval.errors import Problem
from ipseval.utils.checks import format_examples

# Letters and digits of the usual names in lower case, in order of preference.
_NAMES = """
user: user uid userid customer customerid client clientid visitor visitorid member memberid account accountid
user: profile profileid reviewer reviewerid msno qid queryid
item: item iid itemid sku product productid article articleid movie movieid film filmid book bookid isbn
item: track trackid song songid artist artistid video videoid news newsid content contentid asin
item: docid docno document documentid
timestamp: timestamp time ts t datetime timems date eventtime eventtimestamp createdat created unixtime
timestamp: unixreviewtime purchasedat orderedat clickedat viewedat playedat listenedat
value: value rating ratings stars starrating userrating bookrating overallrating reviewrating
value: rui overall reviewoverall reviewscore gain relevance rel grade weight plays playcount count
clicked: clicked click clicks isclick isclicked clk
outcome: label labels target y outcome purchased purchase ispurchased bought isbought converted conversion
outcome: liked like islike response reward relevant isrelevant positive ispositive interacted
shown: shown isshown impressed exposed isexposed displayed viewed
position: position pos slot place rank
propensity: propensity propensities propensityscore pscore pshown pexposed showprobability exposureprobability
query: query queryid qid impression impressionid impid request requestid slate slateid pageview pageviewid
rank: rank position pos place
score: score prediction predicted predictedrating pred relevancescore estimate est rating
"""
ESSENTIAL_ROLES = ("user", "item")
N_EXAMPLES = 12  # columns that are listed in an error

# How the column of a role was found without the caller: by its position in the file, or by its usual name.
Evidence = Literal["position", "name"]


def _parse_usual_names(text: str) -> dict[str, list[str]]:
    """Return the usual names of each role."""
    usual_names: dict[str, list[str]] = {}
    for line in text.strip().splitlines():
        role, _, names = line.partition(": ")
        usual_names.setdefault(role, []).extend(names.split())
    return usual_names


USUAL_NAMES = _parse_usual_names(_NAMES)
ALL_USUAL_NAMES: frozenset[str] = frozenset().union(*USUAL_NAMES.values())


def normalize_name(name: object, *, holds_lists: bool = False) -> str:
    """Return the letters and digits of a column name in lower case, to compare it with the usual names.

    A type suffix of RecBole (such as ":token") is removed. For a column that holds lists, a plural ending is
    removed too, unless the name is a usual one with it.
    """
    without_type = re.sub(r":\w+$", "", str(name))
    normalized = re.sub(r"[^0-9a-z]", "", without_type.lower())
    if holds_lists and normalized not in ALL_USUAL_NAMES:
        return re.sub(r"(s|list)$", "", normalized)
    return normalized


@dataclass(frozen=True)
class ColumnMatch:
    """Store the column of each role, and the problems of the choice.

    Attributes
    ----------
    columns : dict
        Role -> name of the column.
    problems : tuple of Problem
        Columns that are missing, ambiguous or used twice.
    evidence : mapping
        Role -> "position" or "name", for roles whose column the caller has not named.
    """

    columns: dict[str, str]
    problems: tuple[Problem, ...]
    evidence: Mapping[str, Evidence] = field(default_factory=dict)


def describe_mapping(columns: Mapping[str, str], notes: Mapping[str, str] | None = None) -> str:
    """Return as text which column is read for each role, followed by a note on it."""
    descriptions = []
    for role, column in columns.items():
        description = role
        if column != role:
            description = f"{column} → {role}"
        if notes is not None:
            description += notes.get(role, "")
        descriptions.append(description)
    return ", ".join(descriptions)


def match_columns(
    columns: Sequence[str],
    names: Mapping[str, str | None],
    roles: Sequence[str],
    essential: Sequence[str] = ESSENTIAL_ROLES,
    list_columns: Sequence[str] = (),
) -> ColumnMatch:
    """Return the column of each role: the one that the caller names, or one with a usual name.

    Parameters
    ----------
    columns : sequence of str
        Columns of the source.
    names : mapping
        Role -> column that the caller has named; None or absent for the other roles.
    roles : sequence of str
        Roles to find, in order; no column is used for two roles.
    essential : sequence of str
        Roles that must have a column, and only one candidate. For other roles, the most usual name wins.
    list_columns : sequence of str
        Columns that hold lists, whose names may be plural.
    """
    problems: list[Problem] = []
    matches = _match_named_columns(columns, names, roles, problems)
    normalized = {}
    for name in columns:
        normalized[name] = normalize_name(name, holds_lists=name in list_columns)

    for role in roles:
        if names.get(role) is not None:
            continue
        columns_in_use = set(matches.values())
        candidates = _find_usual_columns(role, normalized, columns_in_use)
        if candidates and (len(candidates) == 1 or role not in essential):
            matches[role] = candidates[0]
        elif candidates:
            candidate_list = format_examples(candidates, N_EXAMPLES)
            description = f"columns {candidate_list} could all be the {role}"
            problems.append(Problem(description, f"Name one by {{{role}={candidates[0]}}}"))
        elif role in essential:
            problems.append(
                Problem(
                    f"no column has a usual name of {role}s; {_list_columns(columns)}",
                    f"Name it by {{{role}=…}}",
                )
            )
    _remove_shared_columns(matches, problems)
    columns_by_role = {}
    for role in roles:
        if role in matches:
            columns_by_role[role] = matches[role]

    return ColumnMatch(columns_by_role, tuple(problems))


def _list_columns(columns: Sequence[str]) -> str:
    """Return the columns of a source as the end of a sentence."""
    if not columns:
        return "there are no columns"
    return f"the columns are {format_examples(columns, N_EXAMPLES)}"


def _match_named_columns(
    columns: Sequence[str], names: Mapping[str, str | None], roles: Sequence[str], problems: list[Problem]
) -> dict[str, str]:
    """Return the columns that the caller has named; add a problem for each name that does not exist."""
    matches = {}
    for role in roles:
        name = names.get(role)
        if name is None:
            continue
        if name in columns:
            matches[role] = name
            continue
        similar_names = difflib.get_close_matches(str(name), list(map(str, columns)), n=1)
        suggestion = ""
        if similar_names:
            suggestion = f" (did you mean {similar_names[0]!r}?)"
        description = f"column {name!r} does not exist{suggestion}; {_list_columns(columns)}"
        problems.append(Problem(description, f"Name the {role} column by {{{role}}}"))
    return matches


def _find_usual_columns(role: str, normalized: Mapping[str, str], columns_in_use: set[str]) -> list[str]:
    """Return the unused columns with a usual name of a role, the most usual first."""
    candidates = []
    for usual_name in USUAL_NAMES[role]:
        for column, simple_name in normalized.items():
            if simple_name == usual_name and column not in columns_in_use:
                candidates.append(column)
    return candidates


def _remove_shared_columns(matches: dict[str, str], problems: list[Problem]) -> None:
    """Leave a column that is named for several roles to the first of them, and add a problem."""
    n_roles = Counter(matches.values())
    for column, count in n_roles.items():
        if count == 1:
            continue
        roles = []
        for role, name in matches.items():
            if name == column:
                roles.append(role)

        problems.append(
            Problem(
                f"column {column!r} is named for {' and '.join(roles)}",
                f"Give each its own column by {{{roles[-1]}}}",
            )
        )
        for role in roles[1:]:
            del matches[role]
