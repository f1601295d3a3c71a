"""Look-up of labels: case, spaces, hyphens and underscores do not count, and the nearest is suggested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ipseval.errors import UnknownNameError

T = TypeVar("T")
IGNORED = str.maketrans("", "", " -_")


def folded(name: str) -> str:
    """Return a label without what does not count in it.

    Examples
    --------
    >>> folded("SNIPS_Global"), folded("snips-global")
    ('snipsglobal', 'snipsglobal')
    """
    return name.casefold().translate(IGNORED)


def matching(name: object, choices: Iterable[str]) -> str | None:
    """Return the choice that a label stands for: itself, or the only one that is equal when folded."""
    known = list(choices)
    if not isinstance(name, str) or name in known:
        return name if isinstance(name, str) else None
    found = [one for one in known if folded(one) == folded(name)]
    return found[0] if len(found) == 1 else None


def lookup(registry: Mapping[str, T], name: str, what: str, advice: Mapping[str, str] | None = None) -> T:
    """Return the member called `name`.

    `advice`: what to do instead, for names that are known from elsewhere and are none here.

    Raises
    ------
    UnknownNameError
        When there is none; the text lists the choices and suggests the nearest.
    """
    found = matching(name, registry)
    if found is None:
        said = {folded(key): text for key, text in (advice or {}).items()}
        raise UnknownNameError(what, name, registry, said.get(folded(str(name)), "")) from None
    return registry[found]
