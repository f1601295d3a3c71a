"""Fingerprints: the same text for the same content, in every process."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

from ipseval._types import AnyArray
from ipseval.errors import InputError
from ipseval.interactions import Interactions

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def digest(*texts: str) -> str:
    """Return a short hash of texts."""
    joined = "\x1f".join(texts)
    return hashlib.sha256(joined.encode()).hexdigest()[:32]


def fingerprint(value: Any) -> str:
    """Return a text that is the same for the same content.

    Functions count with their source, defaults and captured variables, and `functools.partial` with its
    arguments; what a function calls is not followed. Other objects count with their class and attributes.

    Raises
    ------
    InputError
        For an object whose content cannot be read, so that a change would go unnoticed.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, np.ndarray):
        return array_fingerprint(value)
    if isinstance(value, np.random.Generator):
        return f"Generator:{value.bit_generator.state!r}"
    if hasattr(value, "to_pandas"):
        value = value.to_pandas()
    if isinstance(value, pd.DataFrame):
        return f"frame{fingerprint({name: value[name].to_numpy() for name in value.columns})}"
    if isinstance(value, Mapping):
        pairs = (f"{fingerprint(key)}={fingerprint(one)}" for key, one in value.items())
        return f"{{{','.join(sorted(pairs))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(fingerprint, value))}]"
    if isinstance(value, (set, frozenset)):
        return f"set[{','.join(sorted(map(fingerprint, value)))}]"
    if isinstance(value, functools.partial):
        return f"partial({fingerprint(value.func)},{fingerprint(value.args)},{fingerprint(value.keywords)})"
    if inspect.ismethod(value):
        return f"method({fingerprint(value.__func__)},{fingerprint(value.__self__)})"
    if inspect.isfunction(value):
        return _function(value)
    if isinstance(value, type) or inspect.isbuiltin(value):
        return f"{value.__module__}.{value.__qualname__}"
    return _object(value)


def array_fingerprint(array: AnyArray) -> str:
    """Return a hash of an array's type, shape and content."""
    if array.dtype == object:
        content = "\x1f".join(f"{type(one).__name__}:{one!r}" for one in array.ravel().tolist()).encode()
    else:
        content = np.ascontiguousarray(array).tobytes()
    return f"array({array.dtype},{array.shape},{hashlib.sha256(content).hexdigest()})"


def log_fingerprint(log: Interactions) -> str:
    """Return a hash of the pairs, ids, values and times of a log, in row order."""
    arrays = (log.user, log.item, log.user_ids, log.item_ids, log.value, log.timestamp)
    return digest(*("none" if array is None else array_fingerprint(array) for array in arrays))


def _function(function: Callable[..., Any]) -> str:
    code = function.__code__
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):  # typed at a prompt, or compiled: the byte code is what there is
        source = f"{code.co_code!r}{code.co_names!r}{_constants(code)}"
    captured = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        captured[name] = cell.cell_contents
    parts = (
        f"{function.__module__}.{function.__qualname__}",
        source,
        fingerprint(function.__defaults__),
        fingerprint(function.__kwdefaults__),
        fingerprint(captured),
    )
    return f"function({digest(*parts)})"


def _constants(code: Any) -> str:
    return _ADDRESS.sub("", repr(code.co_consts))


def _object(value: Any) -> str:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_dataclass(value):
        content = {field.name: getattr(value, field.name) for field in fields(value)}
        return f"{name}{fingerprint(content)}"
    if hasattr(value, "__dict__"):
        return f"{name}{fingerprint(vars(value))}"
    shown = repr(value)
    if _ADDRESS.search(shown):
        raise InputError(
            f"{shown} cannot be told apart from another {type(value).__name__}, so a stored result could be "
            "mistaken for it. Pass a function, a functools.partial or a dataclass."
        )
    return f"{name}:{shown}"
