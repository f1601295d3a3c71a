"""Every exception and warning that ipseval raises."""

from __future__ import annotations

import difflib
import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
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
        return self._phrased(_option if as_options else _argument)

    def _phrased(self, phrase: Callable[[str, str | None], str]) -> str:
        way_out = re.sub(r"\{(\w+)(?:=([^}]*))?\}", lambda found: phrase(found[1], found[2]), self.way_out)
        return f"{self.what}. {way_out}." if way_out else f"{self.what}."


def _argument(name: str, value: str | None) -> str:
    if value is None:
        return f"{name}="
    is_literal = value in ("True", "False", "…") or re.fullmatch(r"-?\d+(\.\d+)?", value) is not None
    return f"{name}={value if is_literal else repr(value)}"


# Arguments whose option has another name, as the option of that name means something else.
_RENAMED = {"propensity": "propensity-column", "missing": "incomplete"}


def _option(name: str, value: str | None) -> str:
    if value in ("True", "False"):
        return f"--{'' if value == 'True' else 'no-'}{name}"
    option = f"--{_RENAMED.get(name, name).replace('_', '-')}"
    return option if value is None else f"{option} {value}"


def _option_of_lists(name: str, value: str | None) -> str:
    """Return an option of a file of lists, whose columns are named behind the file."""
    return f"FILE:{name}=COLUMN" if value in (None, "…") else _option(name, value)


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
        option = _option_of_lists if "Lists" in self.takes_options else _option
        said = [one._phrased(option if as_options else _argument) for one in self.problems]
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


@cache
def _peers() -> dict[str, str]:
    """Return what other libraries call something -> what ipseval has."""
    text = (pkgutil.get_data("ipseval", "utils/peers.txt") or b"").decode("utf-8")
    entries = [one.rsplit(": ", 1) for one in text.replace("\n  ", " ").splitlines()[1:]]
    return {name: here for here, names in entries for name in names.split()}


def hint(name: object) -> str:
    """Return what to use in place of a name of another library, in a sentence; "" for others."""
    here = _peers().get(str(name).strip("-=").replace("-", "_").lower(), "")
    return f"Use {here}." if here else ""


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
