"""Look-up in the literal dicts that hold metrics, estimators, propensity models and data sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ipseval.errors import UnknownNameError

T = TypeVar("T")


def lookup(registry: Mapping[str, T], name: str, what: str) -> T:
    """Return the member called `name`.

    Raises
    ------
    UnknownNameError
        When there is none; the text lists the choices and suggests the nearest.
    """
    try:
        return registry[name]
    except (KeyError, TypeError):
        raise UnknownNameError(what, name, registry) from None
