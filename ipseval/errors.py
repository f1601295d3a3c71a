"""Exceptions and warnings of ipseval."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "DataWarning",
    "HighGammaWarning",
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
    """Input that cannot be used; the text names the requirement, the value and a correction.

    Parameters
    ----------
    text : str
        Requirement and value as sentences. With `argument`, the first sentence continues after its name.
    argument : str, optional
        Argument that the first sentence is about.
    advice : str, optional
        Correction as a sentence without the full stop. Options are in braces, as in `Problem`.
    shell_advice : str, optional
        Correction for the command line, where it differs by more than the wording of options.

    Examples
    --------
    >>> error = InputError("must be in (0, 1); got 2.", argument="test_fraction")
    >>> str(error)
    'test_fraction must be in (0, 1); got 2.'
    >>> error.to_text(as_options=True)
    '--test-fraction must be in (0, 1); got 2.'
    """

    def __init__(
        self, text: str = "", *, argument: str = "", advice: str = "", shell_advice: str = ""
    ) -> None:
        self.text = text
        self.argument = argument
        self.advice = advice
        self.shell_advice = shell_advice or advice
        super().__init__(InputError.to_text(self))

    def to_text(self, *, as_options: bool = False) -> str:
        """Return the whole text, with arguments of Python or options of the command line."""
        text = self.text
        if self.argument:
            subject = self.argument
            if as_options and subject.isidentifier():
                subject = _format_shell_option(subject, None)
            text = f"{subject} {text}"
        advice = self.shell_advice if as_options else self.advice
        if advice:
            text = f"{text} {format_options(advice, as_options=as_options)}."
        return text


@dataclass(frozen=True)
class Problem:
    """A problem of an input, with its correction.

    Parameters
    ----------
    description : str
        The problem, its count and its first place, as a sentence without the full stop.
    advice : str
        The correction. Options are in braces, ``{duplicates=drop}`` or ``{user}``, and are worded as
        arguments of Python or as options of the command line.

    See Also
    --------
    InputError : The exception that lists problems of an input.

    Examples
    --------
    >>> problem = Problem("3 rows repeat a pair", "Pass {duplicates=drop} to keep the first")
    >>> problem.to_text()
    "3 rows repeat a pair. Pass duplicates='drop' to keep the first."
    """

    description: str
    advice: str = ""

    def to_text(self, *, as_options: bool = False) -> str:
        """Return problem and correction, with arguments of Python or options of the command line.

        Parameters
        ----------
        as_options : bool, default False
            Whether the advice names options of the command line instead of arguments of Python.

        Returns
        -------
        str
            Description and advice as sentences; only the description if there is no advice.

        Examples
        --------
        >>> repeats = Problem("3 rows repeat a pair", "Pass {duplicates=drop} to keep the first")
        >>> repeats.to_text()
        "3 rows repeat a pair. Pass duplicates='drop' to keep the first."
        >>> repeats.to_text(as_options=True)
        '3 rows repeat a pair. Pass --duplicates drop to keep the first.'
        """
        if not self.advice:
            return f"{self.description}."
        return f"{self.description}. {format_options(self.advice, as_options=as_options)}."


def format_options(text: str, *, as_options: bool, of_lists: bool = False) -> str:
    """Return a text with every option in braces worded for Python or for the command line.

    `of_lists` words them as options of a file of recommendation lists.
    """
    if not as_options:
        format_option = _format_argument
    elif of_lists:
        format_option = _format_list_option
    else:
        format_option = _format_shell_option
    return re.sub(r"\{(\w+)(?:=([^}]*))?\}", lambda match: format_option(match[1], match[2]), text)


def _format_argument(name: str, value: str | None) -> str:
    """Return an argument of Python, such as ``duplicates='drop'``."""
    if value is None:
        return f"{name}="
    is_literal = value in ("True", "False", "…") or re.fullmatch(r"-?\d+(\.\d+)?", value) is not None
    if is_literal:
        return f"{name}={value}"
    return f"{name}={value!r}"


# Arguments whose option has another name, because an option of the same name has another meaning.
_OPTION_NAMES = {
    "propensity": "propensity-column",
    "rng": "seed",
    "n_threads": "threads",
    "max_memory": "memory",
}


def _format_shell_option(name: str, value: str | None) -> str:
    """Return an option of the command line, such as ``--duplicates drop``."""
    if value == "True":
        return f"--{name}"
    if value == "False":
        return f"--no-{name}"
    option = f"--{_OPTION_NAMES.get(name, name).replace('_', '-')}"
    if value is None:
        return option
    return f"{option} {value}"


def _format_list_option(name: str, value: str | None) -> str:
    """Return an option of a file of lists, whose columns are named after the file."""
    if value in (None, "…"):
        return f"FILE:{name}=COLUMN"
    return _format_shell_option(name, value)


class ProblemsError(InputError):
    """All problems of an input, each with its count, examples and correction.

    Attributes
    ----------
    source : str
        Name of the input.
    problems : tuple of Problem
    options_of : str
        Function that has the options named in the corrections, if it is not the one that was called.
    """

    def __init__(self, source: str, problems: Iterable[Problem], options_of: str = "") -> None:
        self.source = source
        self.problems = tuple(problems)
        self.options_of = options_of
        super().__init__(self.to_text())

    @property
    def _of_lists(self) -> bool:
        """Whether the options belong to a file of recommendation lists."""
        return self.options_of.startswith("ipseval.Lists")

    def to_text(self, *, as_options: bool = False) -> str:
        """Return the whole text, with arguments of Python or options of the command line."""
        texts = []
        for problem in self.problems:
            text = f"{problem.description}."
            if problem.advice:
                advice = format_options(problem.advice, as_options=as_options, of_lists=self._of_lists)
                text = f"{text} {advice}."
            texts.append(text)

        note = ""
        names_options = any("{" in problem.advice for problem in self.problems)
        if self.options_of and names_options and not as_options:
            note = f"Options go to {self.options_of}."
        if len(texts) == 1:
            return f"{self.source}: {texts[0]} {note}".rstrip()

        verb = "have" if self.source.endswith("lists") else "has"
        lines = [f"{self.source} {verb} {len(texts)} problems:"]
        lines += [f"  {number}. {text}" for number, text in enumerate(texts, start=1)]
        if note:
            lines.append(note)
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.source, self.problems, self.options_of)


class PropensityError(InputError):
    """A propensity that is out of range, missing, or not on the scale that an estimator needs."""


def _suggest_choice(name: str, choices: Iterable[str]) -> str:
    """Return the choice that is most similar to a name, as a question, and "" if none is similar."""
    choices_by_case = {choice.casefold(): choice for choice in choices}
    similar = difflib.get_close_matches(name.casefold(), choices_by_case, n=1)
    if not similar:
        return ""
    return f"Did you mean {choices_by_case[similar[0]]!r}?"


class UnknownNameError(InputError):
    """A name that is not registered; its text lists the choices and the most similar one, or `suggestion`."""

    def __init__(
        self, kind: str, name: object, choices: Iterable[str], suggestion: str = "", advice: str = ""
    ) -> None:
        known = sorted(choices)
        suggestion = suggestion or _suggest_choice(str(name), known)
        parts = [f"unknown {kind} {name!r}.", suggestion, f"Choices: {', '.join(known) or 'none'}."]
        present_parts = []
        for part in parts:
            if part:
                present_parts.append(part)

        super().__init__(" ".join(present_parts), advice=advice)
        self.kind = kind
        self.name = name
        self.choices = tuple(known)
        self.suggestion = suggestion

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are rebuilt from their text alone; a pool of processes hangs on one that cannot be.
        return type(self), (self.kind, self.name, self.choices, self.suggestion, self.advice)


class DataWarning(UserWarning):
    """Something in the data limits what the result can say."""


class PositivityWarning(UserWarning):
    """Some positives have little or no chance to be observed: weights are large or missing."""


class IdentificationWarning(UserWarning):
    """The data do not identify the quantity that was asked for without a further assumption."""


class HighGammaWarning(IdentificationWarning):
    """γ exceeds 1, so that true popularity would fall as observed popularity rises."""
