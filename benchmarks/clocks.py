"""What calls take: one, and several that are run in turn, as the speed of a shared machine changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Name = TypeVar("Name")


def seconds(call: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return what a call takes, by default in processor time of all threads."""
    start = clock()
    call()
    return clock() - start


def in_turn(
    runs: Mapping[Name, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.process_time
) -> dict[Name, list[float]]:
    """Return the times of every run, after a round that loads and compiles and is not counted."""
    for run in runs.values():
        run()
    found: dict[Name, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            time.sleep(0.1)  # threads of BLAS are busy waiting for work for a while
            found[name].append(seconds(run, clock))
    return found
