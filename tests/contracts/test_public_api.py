"""public-api.txt lists every public name with a decision, and the library has the names that it keeps."""

from __future__ import annotations

import re
from pathlib import Path

from tests.contracts.api import FILE

PAGE = Path(__file__).resolve().parents[2] / "public-api.txt"
DECISIONS = {"keep", "rename", "remove", "add"}


def decisions() -> dict[str, tuple[str, str, str]]:
    """Return name -> decision, new name, reason."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [[part.strip() for part in line.split("|")] for line in lines if line and not line.startswith("#")]
    return {name: (decision, new_name, reason) for name, decision, new_name, reason in rows}


def public_names(snapshot: str) -> set[str]:
    """Return the names of modules, and of the members of their classes, in a snapshot of the interface."""
    names = set()
    module = owner = ""
    for line in snapshot.splitlines():
        depth = len(line) - len(line.lstrip())
        text = line.strip()
        if not text:
            continue
        if depth == 0:
            module = text
        elif depth == 4:
            name = re.match(r"(?:class |def )?(\w+)", text)[1]
            owner = name if text.startswith("class ") else ""
            names.add(f"{module}.{name}")
        elif depth == 8 and owner:
            member = re.match(r"(?:classmethod|staticmethod|def) (\w+)|(\w+):.*\(property\)", text)
            if member is not None:
                names.add(f"{module}.{owner}.{member[1] or member[2]}")
    return names


def test_every_public_name_has_a_decision_and_every_kept_name_is_there():
    names = public_names(FILE.read_text(encoding="utf-8"))
    assert len(names) > 500
    found = decisions()
    expected = {name for name, (decision, _, _) in found.items() if decision in ("keep", "add")}
    expected |= {new_name for decision, new_name, _ in found.values() if decision == "rename"}
    missing = sorted(names - expected)
    rows = "\n".join(f"{name} | add | | <why it is public>" for name in missing)
    assert not missing, f"add to public-api.txt:\n{rows}"
    removed = sorted(expected - names)
    assert not removed, f"no longer public; remove or rename in public-api.txt: {', '.join(removed)}"


def test_every_decision_is_known_and_has_a_reason_and_removed_names_are_gone():
    names = public_names(FILE.read_text(encoding="utf-8"))
    for name, (decision, new_name, reason) in decisions().items():
        assert decision in DECISIONS, name
        assert bool(new_name) == (decision == "rename"), name
        assert len(reason) > 10, name
        if decision in ("rename", "remove"):
            assert name not in names
