"""What a computation may use: threads, memory and engine. None of it changes a number."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Literal

from ipseval._checks import check_choice, check_positive_int
from ipseval.errors import InputError

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
        Default: Numba where it is installed and the work is large enough to be worth loading it.

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
            f"compute must be ipseval.ComputeOptions(n_threads=…, max_memory=…, block_size=…, engine=…); got "
            f"{type(compute).__name__}."
        )
    return compute


def available_cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _bytes_of(max_memory: int | str) -> int:
    """Return a number of bytes from an int or a text such as "200 MB"."""
    if isinstance(max_memory, str):
        found = re.fullmatch(r"\s*([0-9.]+)\s*([KMG]?B?)\s*", max_memory.upper())
        if found and found[1].count(".") <= 1 and found[1] != ".":
            unit = found[2] if found[2] in UNITS else found[2] + "B"
            return check_positive_int("max_memory", int(float(found[1]) * UNITS[unit]))
        raise InputError(f"max_memory must be a number of bytes or a text like '200 MB'; got {max_memory!r}.")
    return check_positive_int("max_memory", max_memory)
