"""The files of a study: ranks and values, keyed by the content of what they come from."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data import Interactions
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking import RankedPositives
from ipseval.utils.artefacts import array_digest, remove_leftovers, sha256, writable
from ipseval.utils.codec import load, save
from ipseval.utils.ids import among, same_ids
from ipseval.utils.types import FloatArray

# Whose objects are data, to be read by content.
_DATA = ("builtins", "collections", "functools", "numpy", "pandas")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
ADVICE = "Delete it and run `study(…)` or `ipseval study` again."


def fingerprint(value: Any) -> str:
    """Return a text that is the same for the same content, or raise `InputError` where it cannot be read."""
    # Functions count with their source, defaults, captured variables and, followed in turn, what they name in
    # their module: functions, classes and data. `functools.partial` counts with its arguments. Libraries
    # count with their version; other objects with their class and attributes.
    return _Reader().read(value)


def log_fingerprint(log: Interactions) -> str:
    """Return a hash of the pairs, ids, values and times of a log, in row order."""
    arrays = (log.user, log.item, log.user_ids, log.item_ids, log.value, log.timestamp)
    return sha256(*("none" if array is None else array_digest(array) for array in arrays))


class _Reader:
    """Reads values; a function that is met again, as in a circle of calls, counts by its name."""

    def __init__(self) -> None:
        self._met: set[int] = set()

    def read(self, value: Any) -> str:
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
            return f"{type(value).__name__}:{value!r}"
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                return f"array({value.shape},{self.read(value.ravel().tolist())})"
            return f"array({array_digest(value)})"
        if isinstance(value, np.random.Generator):
            return f"Generator:{value.bit_generator.state!r}"
        if hasattr(value, "to_pandas"):
            value = value.to_pandas()
        if isinstance(value, (pd.Series, pd.Index)):
            value = value.to_frame().reset_index()
        if isinstance(value, pd.DataFrame):
            return f"frame{self.read({name: value[name].to_numpy() for name in value.columns})}"
        if isinstance(value, Mapping):
            pairs = (f"{self.read(key)}={self.read(one)}" for key, one in value.items())
            return f"{{{','.join(sorted(pairs))}}}"
        if isinstance(value, (list, tuple)):
            return f"[{','.join(map(self.read, value))}]"
        if isinstance(value, (set, frozenset)):
            return f"set[{','.join(sorted(map(self.read, value)))}]"
        if isinstance(value, functools.partial):
            return f"partial({self.read([value.func, value.args, value.keywords])})"
        if inspect.ismethod(value):
            return f"method({self.read([value.__func__, value.__self__])})"
        if inspect.isfunction(value):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        return _name(value) if inspect.isbuiltin(value) else self._object(value)

    def _function(self, function: Any) -> str:
        if id(function) in self._met:
            return f"again {_name(function)}"
        self._met.add(id(function))
        code = function.__code__
        try:
            source = inspect.getsource(function)
        except (OSError, TypeError):  # typed at a prompt, or compiled: the byte code is what there is
            source = f"{code.co_code!r}{code.co_names!r}{_ADDRESS.sub('', repr(code.co_consts))}"
        captured = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            captured[name] = cell.cell_contents
        named = _names(code)
        followed = {
            name: self._followed(function.__globals__[name], named)
            for name in sorted(named & function.__globals__.keys())
        }
        given = self.read([function.__defaults__, function.__kwdefaults__, captured, followed])
        return f"function({sha256(_name(function), source, given)})"

    def _followed(self, value: Any, named: set[str]) -> str:
        """Return the text of what a function names in its module; what cannot be read counts by its type."""
        if inspect.ismodule(value):
            if library := _library(value.__name__):
                return library
            inside = sorted(named & vars(value).keys())
            return self.read({name: self._followed(vars(value)[name], set()) for name in inside})
        is_code = isinstance(value, type) or inspect.isroutine(value)
        own = value if is_code else type(value)
        module = getattr(own, "__module__", None) or "builtins"
        if module.partition(".")[0] not in _DATA and (library := _library(module)):
            shown = getattr(own, "__qualname__", own) if is_code else repr(value)
            return f"{library} {_ADDRESS.sub('', str(shown))}"
        try:
            return self.read(value)
        except (InputError, RecursionError):
            return f"unread {_name(type(value))}"

    def _class(self, kind: type) -> str:
        if _library(kind.__module__) or id(kind) in self._met:
            return _name(kind)
        self._met.add(id(kind))
        parts = [getattr(one, "__func__", one) for _, one in sorted(vars(kind).items())]
        return f"{_name(kind)}{self.read([one for one in parts if inspect.isfunction(one)])}"

    def _object(self, value: Any) -> str:
        kind = self._class(type(value))
        if is_dataclass(value):
            return f"{kind}{self.read({field.name: getattr(value, field.name) for field in fields(value)})}"
        if hasattr(value, "__dict__"):
            return f"{kind}{self.read(vars(value))}"
        shown = repr(value)
        if _ADDRESS.search(shown):
            raise InputError(
                f"{shown} cannot be told apart from another {type(value).__name__}, so a stored result could "
                "be mistaken for it. Pass a function, a functools.partial or a dataclass."
            )
        return f"{kind}:{shown}"


def _names(code: Any) -> set[str]:
    """Return the names that a function, and the functions inside of it, look up outside of themselves."""
    inner = [one for one in code.co_consts if inspect.iscode(one)]
    return set(code.co_names).union(*map(_names, inner))


def _library(module: str) -> str:
    """Return name and version of the library that a module belongs to; empty for the caller's own code."""
    top = module.partition(".")[0]
    loaded = sys.modules.get(top)
    if top in sys.stdlib_module_names:
        return top
    file = str(getattr(loaded, "__file__", "") or "")
    if top == "ipseval" or {"site-packages", "dist-packages"} & set(Path(file).parts):
        return f"{top} {getattr(loaded, '__version__', '')}"
    return ""


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


@dataclass(frozen=True)
class Store:
    """A folder of ranks, one file each, keyed by content; many processes and threads may share it."""

    folder: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Store:
        """Return the store in `path`, which is made if needed; leftovers of killed processes are removed."""
        folder = writable(Path(path) / "ranks" / "any").parent
        remove_leftovers(folder)
        return cls(folder)

    def file(self, key: str) -> Path:
        """Return where the ranks of `key` are, or would be."""
        return self.folder / f"{key}.npz"

    def write(self, key: str, found: RankedPositives | FloatArray, about: dict[str, Any]) -> None:
        """Store ranks or values of users, whole or not at all; `about` says in words what they are."""
        save(self.file(key), found, **about)

    def read(self, key: str, split: Split) -> tuple[RankedPositives, dict[str, Any]]:
        """Return stored ranks of a split and what was said of them; an error when they are of others."""
        ranked, about = load(self.file(key), RankedPositives, ADVICE)
        known = same_ids(ranked, split)
        if known:
            pair_key = ranked.user * np.int64(split.n_items) + ranked.item
            known = pair_key.size == len(split.test) - ranked.n_not_candidates
            known = known and bool(among(pair_key, split.test.pair_key).all())
        if not known:
            raise InputError(
                f"{self.file(key)} ranks other positives than this split holds: it was made by another "
                "version. Delete it, or give the study another folder."
            )
        return ranked, about

    def read_values(self, key: str) -> FloatArray:
        """Return the stored validation metric of each user."""
        return np.asarray(load(self.file(key), np.ndarray, ADVICE)[0], dtype=np.float64)
