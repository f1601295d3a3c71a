"""Members by name: folded, suggested, and loaded from the packages that offer them."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from types import SimpleNamespace
from typing import Any

import pytest

from ipseval.errors import InputError, UnknownNameError
from tests.inside.utils import registry

GROUP = "ipseval.things"


def offering(monkeypatch: pytest.MonkeyPatch, *given: tuple[str, str], group: str = GROUP) -> None:
    """Let packages offer members by name and place."""
    points = EntryPoints(EntryPoint(name, place, group) for name, place in given)
    monkeypatch.setattr(registry, "_entry_points", lambda path, group: tuple(points.select(group=group)))


def things(check: Any = lambda name, given: given) -> registry.Registry[Any]:
    members = {"one": 1, "two words": 2, "later": "collections:OrderedDict", "text": "plain"}
    return registry.Registry("thing", GROUP, members, check, {"uno": "one"})


def test_a_label_stands_for_the_name_that_is_equal_but_for_case_and_gaps():
    assert registry.fold_label("Two -_Words") == "twowords"
    assert registry.find_match("TWO_WORDS", ["one", "two words"]) == "two words"
    assert registry.find_match("a-b", ["a b", "a-b"]) == "a-b"
    for none in (3, None, "three", "A_B"):
        assert registry.find_match(none, ["a b", "a-b"]) is None
    assert registry.look_up({"a": 1}, "A", "thing") == 1
    with pytest.raises(UnknownNameError, match=r"^unknown thing 'B'.*Say a\."):
        registry.look_up({"a": 1}, "B", "thing", {"b": "Say a."})


def test_members_are_found_by_name_and_alias_and_loaded_once(monkeypatch):
    offering(monkeypatch)
    checked: list[str] = []
    known = things(lambda name, given: (checked.append(name), given)[1])
    assert [known.find(name) for name in ("One", "UNO", "two-words", "text")] == [1, 1, 2, "plain"]
    assert known.find("later").__name__ == known["later"].__name__ == "OrderedDict"
    assert checked == ["later"]
    assert (known.kind, known.group) == ("thing", GROUP)


def test_a_name_that_is_taken_is_refused_but_for_the_same_class_anew(monkeypatch):
    offering(monkeypatch)
    known = things()
    for taken in ("one", "ONE", "uno", "two_words"):
        with pytest.raises(InputError, match=f"^the thing '{taken}' is there already; choose another name.$"):
            known.add(taken, 5)
    mine, anew, different_class = (
        type(name, (), {"__module__": "lab"}) for name in ("Mine", "Mine", "Other")
    )
    known.add("mine", mine)
    known.add("mine", anew())
    assert isinstance(known["mine"], anew)
    elsewhere = type("Mine", (), {"__module__": "office"})
    for member in (different_class, elsewhere):
        with pytest.raises(InputError, match="'mine' is there already"):
            known.add("mine", member)


def test_other_packages_offer_members_that_are_loaded_when_they_are_asked_for(monkeypatch):
    offering(monkeypatch, ("deque", "collections:deque"), ("one", "collections:Counter"))
    known = things()
    assert list(known.list_offers()) == ["deque"]
    assert [known.offers(name) for name in ("one", "deque", "Deque", "uno")] == [True, True, False, False]
    assert "deque" not in known
    assert known.find("De_que").__name__ == "deque"
    assert "deque" in known
    assert known.list_offers() == {}
    offering(monkeypatch, ("deque", "collections:deque"), group="others")
    assert things().list_offers() == {}


def test_what_a_package_offers_and_cannot_give_is_named(monkeypatch):
    offering(monkeypatch, ("a", "nowhere:A"), ("b", "collections:deque"), ("b", "collections:Counter"))
    with pytest.raises(InputError) as caught:
        things().find("a")
    assert str(caught.value) == (
        "the thing 'a' of the package unknown cannot be used (nowhere:A): ModuleNotFoundError: No module "
        "named 'nowhere'. Update or uninstall the package."
    )
    with pytest.raises(
        InputError, match=r"^the thing 'b' is offered by unknown and unknown; uninstall all but one\.$"
    ):
        things().find("b")

    def refusing(name: str, given: Any) -> Any:
        raise InputError("it has no label.")

    offering(monkeypatch, ("a", "collections:deque"))
    with pytest.raises(InputError, match=r"\(collections:deque\): it has no label\. Update"):
        things(refusing).find("a")
    with pytest.raises(
        UnknownNameError, match=r"unknown thing 'tow'\. Choices: a, later, one, text, two words, uno\."
    ):
        things().find("tow")
    dist = SimpleNamespace(name="lab", version="1.0")
    assert registry.describe_package(SimpleNamespace(dist=dist)) == "lab 1.0"


def test_members_of_the_library_are_not_from_outside():
    assert registry.is_external(SimpleNamespace())
    assert not registry.is_external(things())
