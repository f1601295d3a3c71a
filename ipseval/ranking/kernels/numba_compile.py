"""Compiling with Numba: what every kernel is compiled with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, **options: Any) -> Function:
    """Return a function compiled without the lock of Python, and cached on disk where that is possible."""
    jit: Any = numba.njit
    # Nobody calls a kernel from C: without a wrapper for that, compiling takes a tenth less.
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, **options}
    try:
        fast: Any = jit(function, cache=True, **options)
    except RuntimeError:  # there is no directory to write a cache to
        fast = jit(function, **options)
    else:
        _forgive_damage(fast._cache)  # Numba has no other way to what reads and writes its files
    made: Function = fast
    return made


def borrowing(function: Function) -> Function:
    """Return a function compiled without counting who refers to its arrays: it makes none, and keeps none."""
    # A function that is called for each user and tile would spend half its time on counting.
    return compiled(function, _nrt=False)


def _forgive_damage(cache: Any) -> None:
    """Let files that cannot be read count as missing: they are emptied, and the function compiled again."""
    load, save = cache.load_overload, cache.save_overload

    def load_or_empty(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception:  # half a pickle may raise anything
            with suppress(OSError):
                cache.flush()
            return None

    def save_if_possible(*arguments: Any) -> None:
        with suppress(Exception):  # damaged, and not to be written: there is no cache then
            save(*arguments)

    cache.load_overload, cache.save_overload = load_or_empty, save_if_possible
