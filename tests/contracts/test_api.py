"""Public names and signatures change only on purpose: `api.txt` shows the change as a reviewer reads it."""

from __future__ import annotations

import difflib
import importlib
import inspect

import pytest

from tests.contracts import api

REFRESH = (
    "a public name or signature changed: add a line to CHANGELOG.md (docs/support.md says what may change, "
    "and when) and refresh by `python -m tests.contracts.api --write`"
)


def test_public_names_and_signatures_are_those_of_the_snapshot():
    kept, current_lines = api.FILE.read_text(encoding="utf-8").splitlines(), api.snapshot().splitlines()
    changed = list(difflib.unified_diff(kept, current_lines, "api.txt", "now", lineterm="", n=2))
    assert not changed, "\n".join([REFRESH, *changed])


SEEDED = {
    "ipseval.studies.protocols.study",  # a study goes on where it stopped
    "ipseval.validation.datasets.load_cm100k",  # a data set is the same for everybody who loads it
}


def test_nothing_is_drawn_with_a_seed_that_nobody_asked_for():
    defaults = {
        f"{name}{method}": inspect.signature(one).parameters["rng"].default
        for home, name in api.homes().items()
        for method, one in [("", home), *methods(home)]
        if not (inspect.isclass(one) and issubclass(one, Exception))
        if "rng" in inspect.signature(one).parameters
    }
    assert len(defaults) > 30
    fixed = {name for name, default in defaults.items() if default not in (None, inspect.Parameter.empty)}
    assert fixed == SEEDED


def methods(home) -> list[tuple[str, object]]:
    """Return the public methods of a class."""
    return [
        (f".{name}", one) for name, one in vars(home).items() if inspect.isfunction(one) and name[0] != "_"
    ]


@pytest.mark.parametrize("name", api.public_modules())
def test_a_module_lists_its_public_names_once(name):
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__) > 0
    assert not [public_name for public_name in module.__all__ if not hasattr(module, public_name)]
    assert not [
        public_name
        for public_name in module.__all__
        if public_name.startswith("_") and public_name != "__version__"
    ]


@pytest.mark.parametrize("name", api.public_modules())
def test_the_list_of_a_package_is_complete(name):
    module = importlib.import_module(name)
    if not hasattr(module, "__path__"):
        pytest.skip("a file may define more than it offers; what it offers is its list")
    public = {key: one for key, one in vars(module).items() if not key.startswith("_")}
    mine = {
        key
        for key, one in public.items()
        if (inspect.isclass(one) or inspect.isfunction(one)) and one.__module__.startswith(f"{name}.")
    }
    assert mine <= set(module.__all__)


def a_function(first, /, second: int = 1, *more, third="x" * 99, made=object(), **rest) -> None:  # noqa: B008
    """Every kind of parameter."""


class Private:
    def inherited(self, *, kept: bool = True) -> int:
        """Stand with the public class."""

    def _hidden(self):
        """Stand nowhere."""


class Public(Private):
    attribute: int

    @property
    def seen(self) -> float:
        """Stand as a property."""

    @classmethod
    def made(cls, one: str) -> Public:
        """Stand without `cls`."""


def test_the_snapshot_shows_every_kind_of_parameter_and_member():
    assert list(api.signature("def f", a_function)) == [
        "def f -> None",
        "    first, /, second: int = 1, *more,",
        f"    third = {'x' * 99!r},",
        "    made = object(), **rest",
    ]
    Private.__module__ = Public.__module__ = "ipseval.example"
    assert list(api.of_class("Public", Public, {Public: "ipseval.example.Public"})) == [
        "class Public",
        "    attribute: int",
        "    def inherited(*, kept: bool = True) -> int",
        "    classmethod made(one: str) -> Public",
        "    seen: float  (property)",
    ]
