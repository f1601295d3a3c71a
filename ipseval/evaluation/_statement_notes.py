"""Notes of authors for a statement: facts that an evaluation does not contain, from a TOML or JSON file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from ipseval.errors import InputError, UnknownNameError
from ipseval.utils.artefacts import reading
from ipseval.utils.checks import describe_type

NotesLike: TypeAlias = Mapping[str, Mapping[str, object]] | str | PathLike[str]

# Table -> its keys, in notes. [recommenders.NAME] has the keys of "recommenders".
KEYS: dict[str, tuple[str, ...]] = {
    "data": ("source", "access", "preprocessing"),
    "split": ("method", "seed", "leakage", "validation"),
    "recommenders": ("implementation", "tuning", "hyperparameters", "seeds"),
    "environment": ("code",),
}
RECOMMENDERS = "recommenders"


@dataclass(frozen=True)
class StatementNotes:
    """Facts that the authors state.

    Attributes
    ----------
    facts : dict
        (table, key) -> text, of the tables other than recommenders.
    recommenders : dict
        Recommender -> {key: text}.
    """

    facts: dict[tuple[str, str], str] = field(default_factory=dict)
    recommenders: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, notes: NotesLike | None, models: Sequence[str]) -> StatementNotes:
        """Return the notes of a mapping or file about these recommenders."""
        if notes is None:
            return cls()
        if not isinstance(notes, Mapping):
            notes = _read_file(Path(notes))
        facts: dict[tuple[str, str], str] = {}
        recommenders: dict[str, dict[str, str]] = {}
        for table, entries in notes.items():
            if table not in KEYS:
                raise UnknownNameError("table of notes", table, KEYS)
            _check_table(table, entries)
            if table != RECOMMENDERS:
                for key, text in _read_entries(table, entries, KEYS[table]).items():
                    facts[table, key] = text
                continue
            for model, model_entries in entries.items():
                if model not in models:
                    raise UnknownNameError("recommender", model, models)
                _check_table(f"recommenders.{model}", model_entries)
                assert isinstance(model_entries, Mapping)
                recommenders[model] = _read_entries(
                    f"recommenders.{model}", model_entries, KEYS[RECOMMENDERS]
                )
        return cls(facts, recommenders)

    def get_fact(self, table: str, key: str) -> str:
        """Return a fact; "" if it is not stated."""
        return self.facts.get((table, key), "")

    def get_by_recommender(self, key: str) -> dict[str, str]:
        """Return recommender -> fact, for the recommenders for which it is stated."""
        facts = {}
        for model, entries in self.recommenders.items():
            if entries.get(key):
                facts[model] = entries[key]
        return facts


def _read_file(path: Path) -> Mapping[str, Mapping[str, object]]:
    """Return the tables of a TOML or JSON file."""
    with reading(path):
        content = path.read_bytes()
    try:
        text = content.decode("utf-8")
        document: object = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} must be a TOML or JSON file; {error}.") from None
    _check_table(str(path), document)
    assert isinstance(document, Mapping)
    return document


def _check_table(name: str, entries: object) -> None:
    """Raise `InputError` unless the entries are a mapping."""
    if not isinstance(entries, Mapping):
        raise InputError(f"{name} must be a table of notes; got {describe_type(entries)}.")


def _read_entries(table: str, entries: Mapping[str, object], keys: Sequence[str]) -> dict[str, str]:
    """Return key -> text of one table; lists become enumerations, and empty texts are left out."""
    texts = {}
    for key, value in entries.items():
        if key not in keys:
            raise UnknownNameError(f"key of [{table}]", key, keys)
        if isinstance(value, Mapping):
            raise InputError(f"{key} of [{table}] must be a text, a number or a list; got a table.")
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = ", ".join(map(str, value))
        text = " ".join(str(value).split())
        if text:
            texts[key] = text.rstrip(".")
    return texts
