"""Tradesy: what users of a second-hand shop bought, wanted, sold and had for sale."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval._checks import check_choice
from ipseval.datasets._base import DataCard
from ipseval.datasets._files import open_file
from ipseval.errors import InputError
from ipseval.interactions import Interactions

# What ast.literal_eval and json.loads raise for damaged text, and a mapping without these keys.
BROKEN = (ValueError, SyntaxError, KeyError, TypeError, AttributeError, RecursionError, MemoryError)
LISTS = ("bought", "want", "selling", "sold")
CARD = DataCard(
    name="tradesy",
    title="Tradesy",
    url="https://cseweb.ucsd.edu/~jmcauley/datasets.html#bartering_data",
    how_to_get="Download tradesy.json.gz from the authors' page; pass that file.",
    licence="research use; terms on the authors' page",
    citation="He, McAuley: VBPR: Visual Bayesian Personalized Ranking from Implicit Feedback, AAAI 2016",
)


def load_tradesy(path: str | Path, *, lists: Iterable[str] = ("bought", "want")) -> Interactions:
    """Return what users of Tradesy bought and wanted, as published: one line per user, without time.

    Each line is a mapping with `uid` and `lists`, of which each entry holds ids of items, as a Python literal
    or as JSON. An item that is in several of the chosen lists of a user counts once; the others are counted
    in `n_duplicates_dropped`.

    Parameters
    ----------
    path : file
        `tradesy.json`, or a copy such as `users.json`; it may end in `.gz`.
    lists : of {"bought", "want", "selling", "sold"}
        Which lists count as positives. Default: those of He and McAuley (2016) and Yang et al. (2018).

    Raises
    ------
    InputError
        When the file is missing or damaged, a line lacks a field, or no positive is left.

    References
    ----------
    He and McAuley, VBPR, AAAI 2016, arXiv 1510.01784; Yang et al., RecSys 2018, doi 10.1145/3240323.3240355
    """
    chosen = [lists] if isinstance(lists, str) else list(lists)
    for name in chosen:
        check_choice("lists", name, LISTS)
    if not chosen:
        raise InputError("lists is empty; name at least one, for example 'bought'.")
    file = Path(path)
    if not file.is_file():
        raise InputError(f"tradesy: {file} is not a file. {CARD.how_to_get} ({CARD.url})")
    users: list[str] = []
    items: list[str] = []
    with open_file(file.parent, file.name.removesuffix(".gz"), CARD) as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                user, found = _read_line(line, number, chosen)
                users += [user] * len(found)
                items += found
    if not users:
        raise InputError(f"tradesy: {file} has no item in {', '.join(chosen)}.")
    frame = pd.DataFrame({"user": np.array(users, dtype=object), "item": np.array(items, dtype=object)})
    return Interactions.from_frame(frame, duplicates="drop")


def _read_line(line: bytes, number: int, chosen: list[str]) -> tuple[str, list[str]]:
    """Return the user of a line and the items of the chosen lists."""
    try:
        text = line.decode("utf-8")
        entry: Any = json.loads(text) if text.lstrip().startswith('{"') else ast.literal_eval(text.strip())
        given = entry["lists"]
        return str(entry["uid"]), [str(item) for name in chosen for item in given.get(name, ())]
    except (
        ValueError,
        SyntaxError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        MemoryError,
    ) as error:
        raise InputError(
            f"tradesy: line {number} is not a mapping with 'uid' and 'lists' ({type(error).__name__}: "
            f"{error!s:.80}); the file is truncated or of another format."
        ) from None
