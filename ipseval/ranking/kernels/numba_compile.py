"""Compilation of the counting kernels with Numba."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import numba

from ipseval.ranking._types import Untyped

Function = TypeVar("Function", bound=Callable[..., Any])
NumbaCache: TypeAlias = Untyped


def compile_kernel(function: Function, **options: object) -> Function:
    """Return the function compiled without the lock of Python, and cached on disk where that is possible."""
    jit: Untyped = numba.njit
    # No kernel is called from C: without a wrapper for that, compiling takes a tenth less.
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, **options}
    try:
        kernel: Untyped = jit(function, cache=True, **options)
    except RuntimeError:  # there is no directory to write a cache to
        kernel = jit(function, **options)
    else:
        # Numba offers no public access to the object that reads and writes its files.
        _tolerate_damaged_cache(kernel._cache)
    compiled_function: Function = kernel
    return compiled_function


def compile_inner_kernel(function: Function) -> Function:
    """Return the function compiled without counting references to its arrays.

    The function must neither create nor store arrays. A function that is called for each user and tile would
    spend half of its time on these counts.
    """
    return compile_kernel(function, _nrt=False)


def _tolerate_damaged_cache(cache: NumbaCache) -> None:
    """Delete cache files that cannot be read, so that the function is compiled again."""
    load = cache.load_overload
    save = cache.save_overload

    def load_or_empty(*arguments: object) -> object:
        try:
            return load(*arguments)
        except Exception:  # a damaged pickle may raise anything
            with suppress(OSError):
                cache.flush()
            return None

    def save_if_possible(*arguments: object) -> None:
        with suppress(Exception):  # damaged and not writable: there is no cache then
            save(*arguments)

    cache.load_overload = load_or_empty
    cache.save_overload = save_if_possible
