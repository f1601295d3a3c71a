"""Every exception and warning that ipseval raises."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "DataWarning",
    "IdentificationWarning",
    "InputError",
    "IpsevalError",
    "PositivityWarning",
    "Problem",
    "ProblemsError",
    "PropensityError",
    "UnknownNameError",
]


class IpsevalError(Exception):
    """Base of every error that ipseval raises on purpose."""


class InputError(IpsevalError, ValueError):
    """Input that cannot be used; the text says what was expected, what came and what to do."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with an input, and the way out.

    Attributes
    ----------
    what : str
        What is wrong, how often, and where first; one sentence without its full stop.
    way_out : str
        What to do. Options stand in braces, ``{duplicates=drop}`` or ``{user}``, and are phrased in the words
        of the caller.
    """

    what: str
    way_out: str = ""

    def said(self, *, as_options: bool = False) -> str:
        """Return the sentences, with arguments of Python or options of the command line.

        Examples
        --------
        >>> repeats = Problem("3 rows repeat a pair", "Pass {duplicates=drop} to keep the first")
        >>> repeats.said()
        "3 rows repeat a pair. Pass duplicates='drop' to keep the first."
        >>> repeats.said(as_options=True)
        '3 rows repeat a pair. Pass --duplicates drop to keep the first.'
        """
        phrase = _option if as_options else _argument
        way_out = re.sub(r"\{(\w+)(?:=([^}]*))?\}", lambda found: phrase(found[1], found[2]), self.way_out)
        return f"{self.what}. {way_out}." if way_out else f"{self.what}."


def _argument(name: str, value: str | None) -> str:
    if value is None:
        return f"{name}="
    return f"{name}={value if value in ('True', 'False', '…') else repr(value)}"


def _option(name: str, value: str | None) -> str:
    option = f"--{name.replace('_', '-')}"
    if value in ("True", "False"):
        return option if value == "True" else option.replace("--", "--no-")
    return option if value is None else f"{option} {value}"


class ProblemsError(InputError):
    """Everything that is wrong with one input, at once: each problem with its count, examples and way out.

    Attributes
    ----------
    source : str
        What was read.
    problems : tuple of Problem
    takes_options : str
        What takes the options that the ways out name, where that is not what was called.
    """

    def __init__(self, source: str, problems: Iterable[Problem], takes_options: str = "") -> None:
        self.source = source
        self.problems = tuple(problems)
        self.takes_options = takes_options
        super().__init__(self.said())

    def said(self, *, as_options: bool = False) -> str:
        """Return the whole text, with arguments of Python or options of the command line."""
        said = [one.said(as_options=as_options) for one in self.problems]
        optional = self.takes_options and not as_options and any("{" in one.way_out for one in self.problems)
        taker = f"Options go to {self.takes_options}." if optional else ""
        if len(said) == 1:
            return f"{self.source}: {said[0]} {taker}".rstrip()
        listed = "".join(f"\n  {place}. {text}" for place, text in enumerate(said, 1))
        have = "have" if self.source.endswith("lists") else "has"
        return f"{self.source} {have} {len(said)} problems:{listed}" + (f"\n{taker}" if taker else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.problems, self.takes_options)


class PropensityError(InputError):
    """A propensity that is out of range, missing, or not on the scale that an estimator needs."""


class UnknownNameError(InputError):
    """A name that is not registered; the text lists the choices and suggests the nearest, or `advice`."""

    def __init__(self, what: str, name: object, choices: Iterable[str], advice: str = "") -> None:
        known = sorted(choices)
        by_case = {one.casefold(): one for one in known}
        near = [] if advice else difflib.get_close_matches(str(name).casefold(), by_case, n=1)
        hint = f" Did you mean {by_case[near[0]]!r}?" if near else f" {advice}" if advice else ""
        listed = ", ".join(known) if known else "none"
        super().__init__(f"unknown {what} {name!r}.{hint} Choices: {listed}.")
        self.what = what
        self.name = name
        self.choices = tuple(known)
        self.advice = advice

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from their text alone; a pool of processes hangs on one that cannot be.
        return type(self), (self.what, self.name, self.choices, self.advice)


class DataWarning(UserWarning):
    """Something in the data limits what the result can say."""


class PositivityWarning(UserWarning):
    """Some positives have little or no chance to be observed: weights are large or missing."""


class IdentificationWarning(UserWarning):
    """The data do not identify the quantity that was asked for without a further assumption."""
