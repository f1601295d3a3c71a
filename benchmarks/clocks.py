"""Measure calls in turn, because the speed of a shared machine changes during a run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

Name = TypeVar("Name")
PAUSE = 0.1  # seconds; threads of OpenBLAS keep a core busy for a while after a product


@dataclass(frozen=True)
class Times:
    """Seconds of the repeats of one call: processor time of all threads, and wall time."""

    processor: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def median_processor(self) -> float:
        return statistics.median(self.processor)

    @property
    def median_wall(self) -> float:
        return statistics.median(self.wall)

    def processor_ratio(self, reference: Times) -> float:
        """Return the median over the rounds of the processor time relative to another call."""
        return _median_ratio(self.processor, reference.processor)

    def wall_ratio(self, reference: Times) -> float:
        """Return the median over the rounds of the wall time relative to another call."""
        return _median_ratio(self.wall, reference.wall)


def _median_ratio(seconds: list[float], reference: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(seconds, reference, strict=True))


def measure_in_turn(runs: Mapping[Name, Callable[[], object]], repeats: int) -> dict[Name, Times]:
    """Return the times of every call, after a round that loads and compiles and is not counted."""
    for run in runs.values():
        run()

    times = {name: Times() for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            time.sleep(PAUSE)
            wall_start = time.perf_counter()
            processor_start = time.process_time()
            run()
            times[name].processor.append(time.process_time() - processor_start)
            times[name].wall.append(time.perf_counter() - wall_start)
    return times


def in_turn(runs: Mapping[Name, Callable[[], object]], repeats: int) -> dict[Name, list[float]]:
    """Return the processor times of every call, measured in turn."""
    return {name: times.processor for name, times in measure_in_turn(runs, repeats).items()}
