"""Every exception and warning that ipseval raises."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class IpsevalError(Exception):
    """Base of every error that ipseval raises on purpose."""


class InputError(IpsevalError, ValueError):
    """Input that cannot be used; the text says what was expected, what came and what to do."""


class PropensityError(InputError):
    """A propensity that is out of range, missing, or not on the scale that an estimator needs."""


class UnknownNameError(InputError):
    """A name that is not registered; the text lists the choices and suggests the nearest."""

    def __init__(self, what: str, name: object, choices: Iterable[str]) -> None:
        known = sorted(choices)
        near = difflib.get_close_matches(str(name), known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"unknown {what} {name!r}.{hint} Choices: {', '.join(known)}.")
        self.what = what
        self.name = name
        self.choices = tuple(known)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from their text alone; a pool of processes hangs on one that cannot be.
        return type(self), (self.what, self.name, self.choices)


class DataWarning(UserWarning):
    """Something in the data limits what the result can say."""


class PositivityWarning(UserWarning):
    """Some positives have little or no chance to be observed: weights are large or missing."""


class IdentificationWarning(UserWarning):
    """The data do not identify the quantity that was asked for without a further assumption."""
