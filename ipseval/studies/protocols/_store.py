"""Files of a study: ranks and values, keyed by a fingerprint of the inputs they were computed from."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data import Interactions
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking import RankedPositives
from ipseval.utils.artefacts import array_digest, check_writable, remove_leftovers, sha256
from ipseval.utils.codec import load, save
from ipseval.utils.ids import is_member, same_ids
from ipseval.utils.types import AnyArray, FloatArray

DATA_LIBRARIES = ("builtins", "collections", "functools", "numpy", "pandas")  # objects read by content
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
ADVICE = "Delete it and run `study(…)` or `ipseval study` again."


def fingerprint(value: object) -> str:
    """Return a text that is the same for the same content, or raise `InputError` where it cannot be read.

    Functions count with their source, defaults, captured variables and, recursively, the names in their
    module that they refer to: functions, classes and data. `functools.partial` counts with its arguments.
    Libraries count with their version; other objects with their class and attributes.
    """
    return _FingerprintReader().read(value)


def fingerprint_log(log: Interactions) -> str:
    """Return a hash of the pairs, ids, values and times of a log, in row order."""
    arrays = (log.user, log.item, log.user_ids, log.item_ids, log.value, log.timestamp)
    digests = []
    for array in arrays:
        if array is None:
            digests.append("none")
        else:
            digests.append(array_digest(array))
    return sha256(*digests)


class _FingerprintReader:
    """Turn values into texts; a function that is read again, as in a circle of calls, counts by its name."""

    def __init__(self) -> None:
        self._visited: set[int] = set()  # identities of functions and classes

    def read(self, value: object) -> str:
        """Return the text of any value."""
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
            return f"{type(value).__name__}:{value!r}"
        if hasattr(value, "to_pandas") and not isinstance(value, np.ndarray):
            value = value.to_pandas()
        for kinds, read in self._readers():
            if isinstance(value, kinds):
                return read(value)
        if inspect.ismethod(value):
            return f"method({self.read([value.__func__, value.__self__])})"
        if inspect.isfunction(value):
            return self._read_function(value)
        if isinstance(value, type):
            return self._read_class(value)
        if inspect.isbuiltin(value):
            return _qualified_name(value)
        return self._read_object(value)

    def _readers(self) -> list[tuple[tuple[type, ...], Callable[[Any], str]]]:
        """Return the methods that read instances of types."""
        return [
            ((np.ndarray,), self._read_array),
            ((np.random.Generator,), self._read_generator),
            ((pd.Series, pd.Index, pd.DataFrame), self._read_frame),
            ((Mapping,), self._read_mapping),
            ((list, tuple), self._read_sequence),
            ((set, frozenset), self._read_set),
            ((functools.partial,), self._read_partial),
        ]

    def _read_array(self, array: AnyArray) -> str:
        if array.dtype.hasobject:
            return f"array({array.shape},{self.read(array.ravel().tolist())})"
        return f"array({array_digest(array)})"

    def _read_generator(self, generator: np.random.Generator) -> str:
        return f"Generator:{generator.bit_generator.state!r}"

    def _read_frame(self, frame: pd.DataFrame | pd.Series | pd.Index) -> str:
        if not isinstance(frame, pd.DataFrame):
            frame = frame.to_frame().reset_index()
        columns = {}
        for name in frame.columns:
            columns[name] = frame[name].to_numpy()

        return f"frame{self.read(columns)}"

    def _read_mapping(self, mapping: Mapping[object, object]) -> str:
        pairs = []
        for key, value in mapping.items():
            pairs.append(f"{self.read(key)}={self.read(value)}")

        return f"{{{','.join(sorted(pairs))}}}"

    def _read_sequence(self, sequence: Sequence[object]) -> str:
        return f"[{','.join(map(self.read, sequence))}]"

    def _read_set(self, members: Iterable[object]) -> str:
        return f"set[{','.join(sorted(map(self.read, members)))}]"

    def _read_partial(self, partial: functools.partial[Any]) -> str:
        return f"partial({self.read([partial.func, partial.args, partial.keywords])})"

    def _read_function(self, function: FunctionType) -> str:
        """Return the text of a function: its source, defaults, captured variables and references."""
        if id(function) in self._visited:
            return f"again {_qualified_name(function)}"
        self._visited.add(id(function))
        code = function.__code__
        try:
            source = inspect.getsource(function)
        except (OSError, TypeError):  # typed at a prompt, or compiled: only the byte code is available
            constants = _ADDRESS.sub("", repr(code.co_consts))
            source = f"{code.co_code!r}{code.co_names!r}{constants}"
        captured = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            captured[name] = cell.cell_contents
        outer_names = _list_outer_names(code)
        references = {}
        for name in sorted(outer_names & function.__globals__.keys()):
            references[name] = self._read_reference(function.__globals__[name], outer_names)
        inputs = self.read([function.__defaults__, function.__kwdefaults__, captured, references])
        return f"function({sha256(_qualified_name(function), source, inputs)})"

    def _read_reference(self, value: object, outer_names: set[str]) -> str:
        """Return the text of an object that a function refers to; unreadable objects count by their type."""
        if inspect.ismodule(value):
            return self._read_module(value, outer_names)
        is_code = isinstance(value, type) or inspect.isroutine(value)
        definition = value if is_code else type(value)
        module = getattr(definition, "__module__", None) or "builtins"
        library = _describe_library(module)
        if library and module.partition(".")[0] not in DATA_LIBRARIES:
            text = getattr(definition, "__qualname__", definition) if is_code else repr(value)
            return f"{library} {_ADDRESS.sub('', str(text))}"
        try:
            return self.read(value)
        except (InputError, RecursionError):
            return f"unread {_qualified_name(type(value))}"

    def _read_module(self, module: ModuleType, outer_names: set[str]) -> str:
        """Return the version of a library, or the text of the used names of another module."""
        library = _describe_library(module.__name__)
        if library:
            return library
        references = {}
        for name in sorted(outer_names & vars(module).keys()):
            references[name] = self._read_reference(vars(module)[name], set())
        return self.read(references)

    def _read_class(self, kind: type) -> str:
        """Return the text of a class: its name, and its functions unless it belongs to a library."""
        if _describe_library(kind.__module__) or id(kind) in self._visited:
            return _qualified_name(kind)
        self._visited.add(id(kind))
        functions = []
        for _, member in sorted(vars(kind).items()):
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function):
                functions.append(function)
        return f"{_qualified_name(kind)}{self.read(functions)}"

    def _read_object(self, value: object) -> str:
        """Return the text of another object: its class and attributes."""
        kind = self._read_class(type(value))
        if is_dataclass(value):
            attributes = {field.name: getattr(value, field.name) for field in fields(value)}
            return f"{kind}{self.read(attributes)}"
        if hasattr(value, "__dict__"):
            return f"{kind}{self.read(vars(value))}"
        text = repr(value)
        if _ADDRESS.search(text):
            raise InputError(
                f"{text} cannot be distinguished from another {type(value).__name__}, so a stored result "
                "could be mistaken for it. Pass a function, a functools.partial or a dataclass."
            )
        return f"{kind}:{text}"


def _list_outer_names(code: CodeType) -> set[str]:
    """Return the names that a function, and the functions inside of it, look up outside of themselves."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if inspect.iscode(constant):
            names |= _list_outer_names(constant)
    return names


def _describe_library(module: str) -> str:
    """Return name and version of the library that a module belongs to; empty for the caller's own code."""
    top_level_name = module.partition(".")[0]
    if top_level_name in sys.stdlib_module_names:
        return top_level_name
    try:
        package: ModuleType | None = importlib.import_module(top_level_name)
    except ImportError:
        package = None
    file = str(getattr(package, "__file__", "") or "")
    folders = Path(file).parts
    is_installed = "site-packages" in folders or "dist-packages" in folders
    if top_level_name == "ipseval" or is_installed:
        return f"{top_level_name} {getattr(package, '__version__', '')}"
    return ""


def _qualified_name(value: Any) -> str:
    """Return the module and the qualified name of a function or class."""
    return f"{value.__module__}.{value.__qualname__}"


@dataclass(frozen=True)
class Store:
    """A folder of ranks, one file each, keyed by content; many processes and threads may share it."""

    folder: Path

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> Store:
        """Return the store in `path`, created if needed; leftovers of killed processes are removed."""
        folder = check_writable(Path(path) / "ranks" / "any").parent
        remove_leftovers(folder)
        return cls(folder)

    def file(self, key: str) -> Path:
        """Return where the ranks of `key` are, or would be."""
        return self.folder / f"{key}.npz"

    def write(self, key: str, data: RankedPositives | FloatArray, description: Mapping[str, object]) -> None:
        """Store ranks or values of users, completely or not at all, with a readable description."""
        save(self.file(key), data, **description)

    def read(self, key: str, split: Split) -> tuple[RankedPositives, dict[str, Any]]:
        """Return stored ranks of a split and their description; an error when they are of another split."""
        ranked, description = load(self.file(key), RankedPositives, ADVICE)
        if not _are_ranks_of(ranked, split):
            raise InputError(
                f"{self.file(key)} contains ranks of other positives than this split: it was written by "
                "another version. Delete it, or give the study another folder."
            )
        return ranked, description

    def read_values(self, key: str) -> FloatArray:
        """Return the stored validation metric of each user."""
        values, _ = load(self.file(key), np.ndarray, ADVICE)
        return np.asarray(values, dtype=np.float64)


def _are_ranks_of(positives: RankedPositives, split: Split) -> bool:
    """Return whether ranked positives are the test positives of a split that are candidates."""
    if not same_ids(positives, split):
        return False
    pair_key = positives.user * np.int64(split.n_items) + positives.item
    if pair_key.size != len(split.test) - positives.n_not_candidates:
        return False
    return bool(is_member(pair_key, split.test.pair_key).all())
