"""The usual names of columns, and which column of a source is read as what."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ipseval.errors import Problem
from ipseval.utils.checks import examples

# Letters and digits of the usual names in lower case, the usual ones first.
_NAMES = """
user: user uid userid customer customerid client clientid visitor visitorid member memberid account accountid
user: profile profileid reviewer reviewerid msno qid queryid
item: item iid itemid sku product productid article articleid movie movieid film filmid book bookid isbn
item: track trackid song songid artist artistid video videoid news newsid content contentid asin
item: docid docno document documentid
timestamp: timestamp time ts t datetime date eventtime eventtimestamp createdat created unixtime
timestamp: unixreviewtime purchasedat orderedat clickedat viewedat playedat listenedat
value: value rating ratings stars starrating userrating bookrating overallrating reviewrating
value: overall reviewoverall reviewscore gain relevance rel grade weight plays playcount count
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
for _line in _NAMES.strip().splitlines():
    _role, _, _words = _line.partition(": ")
    USUAL.setdefault(_role, []).extend(_words.split())
NEEDED = ("user", "item")


def plain(name: object, *, of_lists: bool = False) -> str:
    """Return the letters and digits of a name in lower case, without a type as RecBole writes it."""
    said = re.sub(r"[^0-9a-z]", "", re.sub(r":\w+$", "", str(name)).lower())
    known = any(said in words for words in USUAL.values())
    return re.sub(r"(s|list)$", "", said) if of_lists and not known else said


@dataclass(frozen=True)
class Chosen:
    """Which column is read as what, and what is wrong with the choice."""

    columns: dict[str, str]
    problems: tuple[Problem, ...]
    unnamed: Mapping[str, str] = field(
        default_factory=dict
    )  # role -> "place" or "name", by which it was chosen


def said(columns: Mapping[str, str], notes: Mapping[str, str] | None = None) -> str:
    """Return in words which column is read as what, with what is noted of it."""
    return ", ".join(
        (role if column == role else f"{column} → {role}") + (notes or {}).get(role, "")
        for role, column in columns.items()
    )


def choose(
    have: Sequence[str],
    given: Mapping[str, str | None],
    roles: Sequence[str],
    needed: Sequence[str] = NEEDED,
    lists: Sequence[str] = (),
) -> Chosen:
    """Return the columns that were given, and for the other roles those with a usual name."""
    # A role with several columns of usual names takes the most usual one, unless it is needed: then it must
    # be said which is meant. No column is read twice.
    columns: dict[str, str] = {}
    problems: list[Problem] = []
    listed = f"the columns are {examples(have, 12)}" if have else "there are no columns"
    for role in roles:
        name = given.get(role)
        if name is not None and name in have:
            columns[role] = name
        elif name is not None:
            near = difflib.get_close_matches(name, have, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            what = f"column {name!r} is not there{hint}; {listed}"
            problems.append(Problem(what, f"Name the {role} column by {{{role}}}"))
    usual = {name: plain(name, of_lists=name in lists) for name in have}
    for role in roles:
        if given.get(role) is not None:
            continue
        free = [name for name in have if name not in columns.values()]
        found = [name for word in USUAL[role] for name in free if usual[name] == word]
        if found and (len(found) == 1 or role not in needed):
            columns[role] = found[0]
        elif found:
            what = f"columns {examples(found, 12)} could all be the {role}"
            problems.append(Problem(what, f"Say which by {{{role}={found[0]}}}"))
        elif role in needed:
            what = f"no column has a usual name of {role}s; {listed}"
            problems.append(Problem(what, f"Name it by {{{role}=…}}"))
    for name in dict.fromkeys(columns.values()):
        shared = [role for role, column in columns.items() if column == name]
        if len(shared) > 1:
            what = f"column {name!r} is named for {' and '.join(shared)}"
            problems.append(Problem(what, f"Give each its own column by {{{shared[-1]}}}"))
            columns = {role: column for role, column in columns.items() if role not in shared[1:]}
    return Chosen({role: columns[role] for role in roles if role in columns}, tuple(problems))
