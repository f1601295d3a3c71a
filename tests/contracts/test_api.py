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
    kept, found = api.FILE.read_text(encoding="utf-8").splitlines(), api.snapshot().splitlines()
    changed = list(difflib.unified_diff(kept, found, "api.txt", "now", lineterm="", n=2))
    assert not changed, "\n".join([REFRESH, *changed])


@pytest.mark.parametrize("name", api.public_modules())
def test_a_module_lists_its_public_names_once(name):
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__) > 0
    assert not [one for one in module.__all__ if not hasattr(module, one)]
    assert not [one for one in module.__all__ if one.startswith("_") and one != "__version__"]


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
        "    first",
        "    /",
        "    second: int = 1",
        "    *more",
        f"    third = {'x' * 99!r}",
        "    made = object()",
        "    **rest",
    ]
    Private.__module__ = Public.__module__ = "ipseval.example"
    assert list(api.of_class("Public", Public, {Public: "ipseval.example.Public"})) == [
        "class Public",
        "    attribute: int",
        "    def inherited(*, kept: bool = True) -> int",
        "    classmethod made(one: str) -> Public",
        "    seen: float  (property)",
    ]
