"""Members of a family by name, those of other packages too: registered by hand, or by an entry point.

Case, spaces, hyphens and underscores of a name do not count. For an unknown name the nearest is suggested.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, TypeVar

from ipseval.errors import InputError, UnknownNameError

T = TypeVar("T")
IGNORED = str.maketrans("", "", " -_")


class Registry(dict[str, T]):
    """The members of a family by name. Members of other packages are loaded when they are asked for.

    A member of our own may be "module:name", loaded when it is asked for. `what` names the family in
    messages, `group` the entry points of other packages. `check` takes a name and what is registered by it,
    and returns the member. `aliases` are other names of members.
    """

    def __init__(
        self,
        what: str,
        group: str,
        members: Mapping[str, Any],
        check: Callable[[str, Any], T],
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(members)
        self.what, self.group, self.check = what, group, check
        self.aliases = dict(aliases or {})
        self._own = frozenset(members)

    def __getitem__(self, name: str) -> T:
        member: Any = super().__getitem__(name)
        if isinstance(member, str) and ":" in member:
            module, _, kind = member.partition(":")
            self[name] = member = self.check(name, getattr(importlib.import_module(module), kind))
        found: T = member
        return found

    def add(self, name: str, given: Any) -> None:
        """Add a member; the same class, defined anew, takes the place of the former."""
        member = self.check(name, given)
        taken = matching(name, [*self, *self.aliases])
        if taken is not None and (taken not in self or taken in self._own or not _same(self[taken], member)):
            raise InputError(f"the {self.what} {name!r} is there already; choose another name.")
        self[name] = member

    def offers(self, name: str) -> bool:
        """Return whether a member has exactly this name, be it loaded or not."""
        return name in self or name in self.offered()

    def find(self, name: str, advice: Mapping[str, str] | None = None) -> T:
        """Return the member that a name or alias stands for, loaded from a package that offers it."""
        if matching(name, [*self, *self.aliases]) is None:
            offered = self.offered()
            elsewhere = matching(name, offered)
            if elsewhere is not None:
                self._load(elsewhere, offered[elsewhere])
        named = {one: one for one in (*self, *self.offered())} | self.aliases
        return self[lookup(named, name, self.what, advice)]

    def offered(self) -> dict[str, list[EntryPoint]]:
        """Return the entry points of other packages by name, without the names that are known."""
        found: dict[str, list[EntryPoint]] = {}
        for point in _entry_points(tuple(sys.path), self.group):
            if point.name not in self:
                found.setdefault(point.name, []).append(point)
        return found

    def _load(self, name: str, points: list[EntryPoint]) -> None:
        packages = [package_of(point) for point in points]
        if len(points) > 1:
            raise InputError(
                f"the {self.what} {name!r} is offered by {' and '.join(packages)}; uninstall all but one."
            )
        try:
            self.add(name, points[0].load())
        except Exception as error:  # a package may fail in any way when it is imported
            why = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            raise InputError(
                f"the {self.what} {name!r} of the package {packages[0]} cannot be used ({points[0].value}): "
                f"{why.rstrip('.')}. Update or uninstall the package."
            ) from error


@cache
def _entry_points(path: tuple[str, ...], group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group; all are read anew when the import path has changed."""
    return tuple(_all_points(path).select(group=group))


@cache
def _all_points(_path: tuple[str, ...]) -> EntryPoints:
    return entry_points()


def package_of(point: EntryPoint) -> str:
    """Return name and version of the package of an entry point."""
    return "unknown" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _same(one: Any, other: Any) -> bool:
    """Return whether both are of one class or function by name, as when a cell of a notebook runs again."""
    first, second = (value if hasattr(value, "__qualname__") else type(value) for value in (one, other))
    return (first.__module__, first.__qualname__) == (second.__module__, second.__qualname__)


def from_outside(member: object) -> bool:
    """Return whether an object's class is defined outside of this library."""
    return type(member).__module__.partition(".")[0] != __name__.partition(".")[0]


def folded(name: str) -> str:
    """Return a label without what does not count in it."""
    return name.casefold().translate(IGNORED)


def matching(name: object, choices: Iterable[str]) -> str | None:
    """Return the choice that a label stands for: itself, or the only one that is equal when folded."""
    known = list(choices)
    if not isinstance(name, str) or name in known:
        return name if isinstance(name, str) else None
    found = [one for one in known if folded(one) == folded(name)]
    return found[0] if len(found) == 1 else None


def lookup(registry: Mapping[str, T], name: object, what: str, advice: Mapping[str, str] | None = None) -> T:
    """Return the member called `name`."""
    found = matching(name, registry)
    if found is None:
        said = {folded(key): text for key, text in (advice or {}).items()}
        raise UnknownNameError(what, name, registry, said.get(folded(str(name)), "")) from None
    return registry[found]
