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

    A member of our own may be "module:name", loaded when it is asked for. `kind` names the family in
    messages, `group` the entry points of other packages. `check` takes a name and what is registered by it,
    and returns the member. `aliases` are other names of members.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        members: Mapping[str, Any],
        check: Callable[[str, Any], T],
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(members)
        self.kind = kind
        self.group = group
        self.check = check
        self.aliases = dict(aliases or {})
        self._built_in_names = frozenset(members)

    def __getitem__(self, name: str) -> T:
        member: Any = super().__getitem__(name)
        if isinstance(member, str) and ":" in member:
            module, _, class_name = member.partition(":")
            self[name] = self.check(name, getattr(importlib.import_module(module), class_name))
        return super().__getitem__(name)

    def add(self, name: str, candidate: object) -> None:
        """Add a member; the same class, defined anew, takes the place of the former."""
        member = self.check(name, candidate)
        taken = find_match(name, [*self, *self.aliases])
        if taken is not None and not self._may_replace(taken, member):
            raise InputError(f"the {self.kind} {name!r} is there already; choose another name.")
        self[name] = member

    def _may_replace(self, name: str, member: object) -> bool:
        """Return whether a member was registered by the user and is the same class, defined anew."""
        is_registered = name in self and name not in self._built_in_names
        return is_registered and _have_same_name(self[name], member)

    def offers(self, name: str) -> bool:
        """Return whether a member has exactly this name, be it loaded or not."""
        return name in self or name in self.list_offers()

    def find(self, name: str, advice: Mapping[str, str] | None = None) -> T:
        """Return the member that a name or alias stands for, loaded from a package that offers it."""
        if find_match(name, [*self, *self.aliases]) is None:
            offered = self.list_offers()
            offered_name = find_match(name, offered)
            if offered_name is not None:
                self._load(offered_name, offered[offered_name])
        names = {member_name: member_name for member_name in (*self, *self.list_offers())}
        return self[look_up(names | self.aliases, name, self.kind, advice)]

    def list_offers(self) -> dict[str, list[EntryPoint]]:
        """Return the entry points of other packages by name, without the names that are known."""
        points_by_name: dict[str, list[EntryPoint]] = {}
        for point in _entry_points(tuple(sys.path), self.group):
            if point.name not in self:
                points_by_name.setdefault(point.name, []).append(point)
        return points_by_name

    def _load(self, name: str, points: list[EntryPoint]) -> None:
        packages = [describe_package(point) for point in points]
        if len(points) > 1:
            raise InputError(
                f"the {self.kind} {name!r} is offered by {' and '.join(packages)}; uninstall all but one."
            )
        try:
            self.add(name, points[0].load())
        except Exception as error:  # a package may fail in any way when it is imported
            reason = f"{type(error).__name__}: {error}"
            if isinstance(error, InputError):
                reason = str(error)
            raise InputError(
                f"the {self.kind} {name!r} of the package {packages[0]} cannot be used ({points[0].value}): "
                f"{reason.rstrip('.')}. Update or uninstall the package."
            ) from error


@cache
def _entry_points(path: tuple[str, ...], group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group; all are read anew when the import path has changed."""
    return tuple(_all_points(path).select(group=group))


@cache
def _all_points(_path: tuple[str, ...]) -> EntryPoints:
    return entry_points()


def describe_package(point: EntryPoint) -> str:
    """Return name and version of the package of an entry point."""
    if point.dist is None:
        return "unknown"
    return f"{point.dist.name} {point.dist.version}"


def _have_same_name(first: object, second: object) -> bool:
    """Return whether two members are defined under one name, as when a cell of a notebook runs again."""
    return _qualified_name(first) == _qualified_name(second)


def _qualified_name(member: object) -> tuple[str, str]:
    """Return module and name of a class or function, or of the class of an object."""
    definition = member if hasattr(member, "__qualname__") else type(member)
    return definition.__module__, definition.__qualname__


def is_external(member: object) -> bool:
    """Return whether an object's class is defined outside of this library."""
    return type(member).__module__.partition(".")[0] != __name__.partition(".")[0]


def fold_label(name: str) -> str:
    """Return a label without what does not count in it."""
    return name.casefold().translate(IGNORED)


def find_match(name: object, choices: Iterable[str]) -> str | None:
    """Return the choice that a label stands for: itself, or the only one that is equal when folded."""
    if not isinstance(name, str):
        return None
    known = list(choices)
    if name in known:
        return name
    matches = []
    for choice in known:
        if fold_label(choice) == fold_label(name):
            matches.append(choice)

    if len(matches) == 1:
        return matches[0]
    return None


def look_up(registry: Mapping[str, T], name: object, kind: str, advice: Mapping[str, str] | None = None) -> T:
    """Return the member called `name`."""
    match = find_match(name, registry)
    if match is None:
        advice_by_label = {}
        for label, text in (advice or {}).items():
            advice_by_label[fold_label(label)] = text

        raise UnknownNameError(kind, name, registry, advice_by_label.get(fold_label(str(name)), "")) from None
    return registry[match]
