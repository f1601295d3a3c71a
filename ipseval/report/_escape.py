"""Names and other foreign text made safe: for a terminal, and for the cell of a spreadsheet."""

from __future__ import annotations

import unicodedata

# Other characters of this kind join letters of real scripts; these reorder or hide what follows.
_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_FORMULA = "=+-@\t\r"


def visible(text: str, *, keep: str = "") -> str:
    r"""Return the text with control characters written out, so that it cannot steer a terminal.

    Escape sequences, carriage returns, controls of the direction of text, and lone surrogates. `keep` holds
    characters that stay as they are, such as the line breaks of a whole table.

    Examples
    --------
    >>> visible("als\x1b[2K\rbest")
    'als\\x1b[2K\\rbest'
    """
    return "".join(one if one in keep or not _steers(one) else _written(one) for one in text)


def _steers(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _BIDI


def _written(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def csv_cell(value: object) -> object:
    """Return text that a spreadsheet would run as a formula with an apostrophe before it.

    Examples
    --------
    >>> csv_cell("=cmd|x"), csv_cell("als"), csv_cell(-0.5)
    ("'=cmd|x", 'als', -0.5)
    """
    return f"'{value}" if isinstance(value, str) and value[:1] and value[0] in _FORMULA else value
