"""The usual names of columns, and which column of a source is read as what."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ipseval._base.checks import examples
from ipseval.errors import Problem

# Letters and digits of the usual names in lower case, the usual ones first.
_NAMES = """
user: user uid userid customer customerid client clientid visitor visitorid member memberid account accountid
user: profile profileid reviewer reviewerid msno qid queryid
item: item iid itemid sku product productid article articleid movie movieid film filmid book bookid isbn
item: track trackid song songid artist artistid video videoid news newsid content contentid asin
item: docid docno document documentid
timestamp: timestamp time ts t datetime date eventtime eventtimestamp createdat created unixtime
timestamp: unixreviewtime
value: value rating ratings stars gain relevance rel grade weight plays playcount count
clicked: clicked click clicks isclick isclicked clk
outcome: label labels target y outcome purchased purchase ispurchased bought isbought converted conversion
outcome: liked like islike response reward relevant isrelevant positive ispositive interacted
shown: shown isshown impressed exposed isexposed displayed viewed
position: position pos slot place rank
propensity: propensity propensityscore pscore pshown pexposed showprobability exposureprobability
query: query queryid qid impression impressionid impid request requestid slate slateid pageview pageviewid
rank: rank position pos place
score: score prediction predicted predictedrating pred relevancescore estimate est rating
"""
USUAL: dict[str, list[str]] = {}
for _line in _NAMES.split("\n")[1:-1]:
    _role, _, _words = _line.partition(": ")
    USUAL.setdefault(_role, []).extend(_words.split())
NEEDED = ("user", "item")


def plain(name: object) -> str:
    """Return the letters and digits of a name in lower case, without a type as RecBole writes it."""
    return re.sub(r"[^0-9a-z]", "", re.sub(r":\w+$", "", str(name)).lower())


@dataclass(frozen=True)
class Chosen:
    """Which column is read as what, and what is wrong with the choice."""

    columns: dict[str, str]
    problems: tuple[Problem, ...]
    left: tuple[str, ...]

    @property
    def said(self) -> str:
        """The choice in words."""
        return said(self.columns)


def said(columns: Mapping[str, str]) -> str:
    """Return in words which column is read as what."""
    return ", ".join(role if column == role else f"{column} → {role}" for role, column in columns.items())


def choose(
    have: Sequence[str], given: Mapping[str, str | None], roles: Iterable[str], needed: Sequence[str] = NEEDED
) -> Chosen:
    """Return the columns that were given, and for the other roles those with a usual name."""
    # A role with several columns of usual names takes the most usual one, unless it is needed: then it must
    # be said which is meant. No column is read twice.
    columns: dict[str, str] = {}
    problems: list[Problem] = []

    def fault(what: str, way_out: str) -> None:
        problems.append(Problem(what, way_out))

    for role in roles:
        name = given.get(role)
        if name is None:
            continue
        if name in have:
            columns[role] = name
        else:
            near = difflib.get_close_matches(str(name), [str(one) for one in have], n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            fault(
                f"column {name!r} is not there{hint}; {_all(have)}", f"Name the {role} column by {{{role}}}"
            )
    for role in roles:
        if given.get(role) is not None:
            continue
        taken = set(columns.values())
        known = {usual: place for place, usual in enumerate(USUAL[role])}
        found = sorted(
            (name for name in have if plain(name) in known and name not in taken),
            key=lambda name: known[plain(name)],  # used at once
        )
        if len(found) > 1 and role in needed:
            fault(
                f"columns {examples(found, 12)} could all be the {role}",
                f"Say which by {{{role}={found[0]}}}",
            )
        elif found:
            columns[role] = found[0]
        elif role in needed:
            fault(f"no column has a usual name of {role}s; {_all(have)}", f"Name it by {{{role}=…}}")
    for name in dict.fromkeys(columns.values()):
        shared = [role for role, column in columns.items() if column == name]
        for role in shared[1:]:
            del columns[role]
        if len(shared) > 1:
            fault(
                f"column {name!r} is named for {' and '.join(shared)}",
                f"Give each its own column by {{{shared[-1]}}}",
            )
    ordered = {role: columns[role] for role in roles if role in columns}
    left = tuple(name for name in have if name not in ordered.values())
    return Chosen(ordered, tuple(problems), left)


def _all(have: Sequence[str]) -> str:
    return f"the columns are {examples(have, 12)}" if have else "there are no columns"
