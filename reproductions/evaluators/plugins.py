"""Files of users that add evaluators or logs to the registries: loading, errors, and hashes of their source."""

from __future__ import annotations

import hashlib
import runpy
import traceback
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import ipseval
from ipseval.errors import IpsevalError

LOADED: set[Path] = set()
Result = TypeVar("Result")


class PluginError(Exception):
    """An exception in a file of a user, described by its last line in that file."""


def load_plugins(files: Iterable[Path]) -> None:
    """Run files that add evaluators or logs, each once per process."""
    for file in files:
        place = file.resolve()
        if place in LOADED:
            continue
        try:
            runpy.run_path(str(place))
        except Exception as error:
            raise PluginError(describe_error(error, place)) from error
        LOADED.add(place)


def find_source(function: Callable[..., object]) -> Path | None:
    """Return the file that defines a function, or None for a function without Python code."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    return Path(code.co_filename).resolve()


def hash_source(function: Callable[..., object]) -> str:
    """Return a hash of the file that defines a function; an empty string if there is no such file."""
    file = find_source(function)
    if file is None or not file.exists():
        return ""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


@cache
def hash_library() -> str:
    """Return a hash of all source files of ipseval, on which every estimate depends."""
    content = hashlib.sha256()
    for file in sorted(Path(ipseval.__file__).parent.rglob("*.py")):
        content.update(file.read_bytes())
    return content.hexdigest()[:16]


def describe_error(error: BaseException, file: Path) -> str:
    """Return the last line of a file that an exception came through, and its message."""
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return f"{file.name}, line {error.lineno}: SyntaxError: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_file(frame.filename, file)]
    if not frames:
        return f"{file.name}: {message}"
    last = frames[-1]
    return f"{file.name}, line {last.lineno}, in {last.name}: {last.line}\n{message}"


def is_file(name: str, file: Path) -> bool:
    """Return whether a name of a file in a traceback is a file."""
    return Path(name).resolve() == file


def call_plugin(function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function; if a file of a user defines it, describe its exceptions by that file.

    Errors of ipseval are passed on, because an evaluator raises them to refuse a log.
    """
    try:
        return function(*arguments)
    except IpsevalError:
        raise
    except Exception as error:
        file = find_source(function)
        if file not in LOADED:
            raise
        raise PluginError(describe_error(error, file)) from error
