"""What a computation may use and show: threads, memory, engine, a bar. None of it changes a number."""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from ipseval.errors import InputError
from ipseval.utils.border import guard
from ipseval.utils.checks import check_choice, check_positive_int

ENGINES = ("numpy", "numba")
DEFAULT_MEMORY = 128 * 2**20
UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


@dataclass(frozen=True, kw_only=True)
class ComputeOptions:
    """How a result is computed: the same integers whatever is chosen, in other time and memory.

    Parameters
    ----------
    n_threads : int, optional
        Default: all cores that this process may use.
    max_memory : int or str, optional
        Bound on the buffers of a ranking, in bytes or as "200 MB"; default 128 MB. Inputs and results are
        not counted.
    block_size : int, optional
        Users ranked together; default: what fits the caches and `max_memory`.
    engine : {"numpy", "numba"}, optional
        Default: Numba where it is installed, once the rankings of a process are worth loading it.
    progress : bool, optional
        A bar after two seconds, on standard error. Default: only on a terminal.

    Raises
    ------
    InputError
        For a number below 1, or a text that is no size; UnknownNameError for another engine.

    Examples
    --------
    >>> ComputeOptions(n_threads=2, max_memory="200 MB").memory == 200 * 2**20
    True
    """

    n_threads: int | None = None
    max_memory: int | str | None = None
    block_size: int | None = None
    engine: Literal["numpy", "numba"] | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        for name in ("n_threads", "block_size"):
            if getattr(self, name) is not None:
                check_positive_int(name, getattr(self, name))
        if self.engine is not None:
            check_choice("engine", self.engine, ENGINES)
        _ = self.memory

    @property
    def threads(self) -> int:
        """The number of threads: `n_threads`, or all cores that this process may use."""
        return available_cores() if self.n_threads is None else self.n_threads

    @property
    def memory(self) -> int:
        """`max_memory` in bytes."""
        return DEFAULT_MEMORY if self.max_memory is None else _bytes_of(self.max_memory)


DEFAULT_COMPUTE = ComputeOptions()


def check_compute(compute: Any) -> ComputeOptions:
    """Return `compute`, or raise `InputError` when it is no `ComputeOptions`."""
    if not isinstance(compute, ComputeOptions):
        raise InputError(
            "compute must be ipseval.ComputeOptions(n_threads=…, max_memory=…, block_size=…, engine=…, "
            f"progress=…); got {type(compute).__name__}."
        )
    return compute


def available_cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def quiet_tqdm() -> Any:
    """Return tqdm of terminal or notebook; a notebook without ipywidgets has the terminal's, unsaid."""
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm.auto import tqdm
    return tqdm


_LOCK = threading.Lock()
_HOLDERS: list[None] = []
_BEFORE: list[tuple[Callable[[int], Any], int]] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS at one thread: many products at once are faster than one product by many threads."""
    # The limit belongs to the process. The last of overlapping calls restores what the first has found.
    with _LOCK:
        if not _HOLDERS:
            _BEFORE[:] = [(put, library.num_threads) for library, put in _blas_libraries(len(sys.modules))]
            for set_threads, _ in _BEFORE:
                set_threads(1)
        _HOLDERS.append(None)
    try:
        yield
    finally:
        with _LOCK:
            _HOLDERS.pop()
            for set_threads, n_threads in _BEFORE if not _HOLDERS else []:
                set_threads(n_threads)


@lru_cache(maxsize=1)
def _blas_libraries(n_modules: int) -> list[tuple[Any, Callable[[int], Any]]]:
    """Return the BLAS libraries and what sets their threads; to find them takes 10 ms, modules bring more."""
    from threadpoolctl import ThreadpoolController

    found = [one for one in ThreadpoolController().lib_controllers if one.user_api == "blas"]
    # From version 3.8 on `set_num_threads` does nothing in all threads but one, which need not be the last.
    return [(one, getattr(one, "_real_set_num_threads", one.set_num_threads)) for one in found]


def _bytes_of(max_memory: int | str) -> int:
    """Return a number of bytes from an int or a text such as "200 MB"."""
    if isinstance(max_memory, str):
        found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([KMG]?B?)\s*", max_memory.upper())
        if found:
            unit = found[2] if found[2] in UNITS else found[2] + "B"
            return check_positive_int("max_memory", int(float(found[1]) * UNITS[unit]))
        raise InputError(f"max_memory must be a number of bytes or a text like '200 MB'; got {max_memory!r}.")
    return check_positive_int("max_memory", max_memory)


guard(__name__)
