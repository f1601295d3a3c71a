"""What users wrote, made safe for each language: terminal, Markdown, LaTeX, CSV (HTML: see `_html`)."""

from __future__ import annotations

import re

# Characters that move a cursor, recolour, end a line, turn the direction of writing, or cannot be encoded.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# An underscore within a word is none to Markdown.
_MARKDOWN = re.compile(r"([\\`*|\[\]~#$]|(?<![^\W_])_|_(?![^\W_]))")
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    # At the start of a row they would be an argument of the `\\` before it; in `\item` its label.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "√": r"$\surd$",
    "∝": r"$\propto$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "∞": r"$\infty$",
    "†": r"$^\dagger$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "Σ": r"$\Sigma$",
    "Λ": r"$\Lambda$",
    "γ": r"$\gamma$",
    "η": r"$\eta$",
    "τ": r"$\tau$",
    "ρ": r"$\rho$",
}


def visible(text: object, *, keep: str = "") -> str:
    r"""Return text whose control characters, turns of direction and lone surrogates are shown as codes.

    `keep` holds characters that stay as they are, such as the line breaks of a whole table.

    Examples
    --------
    >>> print(visible("als\x1b[31m"))
    als\x1b[31m
    """

    def code(found: re.Match[str]) -> str:
        character = found.group()
        return character if character in keep else character.encode("unicode_escape").decode("ascii")

    return _HIDDEN.sub(code, str(text))


def markdown(text: object) -> str:
    """Return text that cannot end a table cell, or begin markup, mathematics or an HTML tag."""
    escaped = _MARKDOWN.sub(r"\\\1", visible(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def latex(text: object) -> str:
    """Return text in which no character is a command, in the default encoding of LaTeX."""
    # Two hyphens would be drawn as one dash.
    shown = "".join(_LATEX.get(character, character) for character in visible(text).replace("--", "-\0-"))
    return shown.replace("\0", "{}")


def csv_cell(value: object) -> object:
    """Return text that a spreadsheet would run as a formula with an apostrophe before it.

    Examples
    --------
    >>> csv_cell("=cmd|x"), csv_cell("als"), csv_cell(-0.5)
    ("'=cmd|x", 'als', -0.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
