"""Running the ranking work: threads, memory, progress, and a prompt stop."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ipseval.errors import InputError
from ipseval.utils.checks import check_type
from ipseval.utils.compute import ComputeOptions, quiet_tqdm

NAME = "ipseval-ranking"
BAR_DELAY = 2.0  # seconds before the progress bar appears
CALL_TARGET = 32 * 2**20  # bytes of scores asked of the caller's function at a time
SMALL_WORK = 5e8  # comparisons below which loading Numba takes longer than it saves


class Work:
    """What this process has ranked without naming an engine."""

    comparisons = 0.0


@dataclass(frozen=True)
class Resources:
    """What a ranking may use, whether it shows a progress bar, and the name of the recommender."""

    compute: ComputeOptions
    name: str

    def __post_init__(self) -> None:
        check_type("name", self.name, str)

    def users_per_block(
        self, bytes_per_user: int, *, wanted: int, n_workers: int, what: str, fixed: int = 0
    ) -> int:
        """Return how many users are handled together: `wanted`, or what the memory limit leaves room for."""
        # Each worker needs `fixed` bytes and `bytes_per_user` for every user of its block.
        memory, block_size = self.compute.memory, self.compute.block_size
        most = (memory // n_workers - fixed) // bytes_per_user
        if most < 1:
            raise InputError(
                f"max_memory is {memory:,} bytes; {what} needs at least "
                f"{(fixed + bytes_per_user) * n_workers:,} ({n_workers} threads). "
                "Raise max_memory or use fewer threads."
            )
        return int(min(block_size or max(1, wanted), most))

    def users_per_call(self, n_items: int) -> int:
        """Return for how many users the caller's code is asked at a time, with a copy of their scores."""
        per_user = 8 * n_items * 2
        return self.users_per_block(per_user, wanted=CALL_TARGET // per_user, n_workers=1, what="one user")


def kernels_for(engine: str | None, n_comparisons: float) -> ModuleType:
    """Return the module of counting kernels: NumPy's, or Numba's where it is installed and worth loading.

    It is once all rankings of the process together compare more than so much. Both count the same integers.
    """
    installed = "numba" in sys.modules or find_spec("numba") is not None
    if engine == "numba" and not installed:
        raise InputError("engine='numba' needs Numba, which is not installed; pip install 'ipseval[fast]'.")
    if engine is None:
        Work.comparisons += n_comparisons
    fast = engine == "numba" or (engine is None and installed and Work.comparisons > SMALL_WORK)
    return import_module(f"ipseval.ranking.kernels.{'numba' if fast else 'numpy'}_kernels")


def run_workers(
    n_blocks: int,
    make_worker: Callable[[], Callable[[int], Iterator[int]]],
    resources: Resources,
    n_users: int,
    n_workers: int,
) -> None:
    """Let each of `n_workers` threads take the next block until none is left; one is this thread."""
    # `make_worker()` is called once in each thread, for buffers of its own; what it gives handles one block
    # in steps, each of which gives the number of users that it has completed. The first exception stops all
    # workers and is raised, and so does an interrupt: workers look for it after each step.
    blocks, lock, stop = iter(range(n_blocks)), threading.Lock(), threading.Event()

    def work(advance: Callable[[int], Any]) -> None:
        handle = make_worker()
        while not stop.is_set():
            with lock:
                block = next(blocks, None)
                if block is None:
                    return
            for done in handle(block):
                if done:
                    with lock:
                        advance(done)
                if stop.is_set():
                    return

    n_workers = min(n_workers, n_blocks)
    shown = resources.compute.progress  # None: only on a terminal
    with quiet_tqdm()(
        total=n_users,
        desc=f"ranking {resources.name}",
        unit="user",
        delay=BAR_DELAY,
        disable=None if shown is None else not shown,
    ) as bar:
        if n_workers == 1:
            work(bar.update)
            return
        with ThreadPoolExecutor(n_workers, NAME) as pool:
            try:
                finish([pool.submit(work, bar.update) for _ in range(n_workers)])
            finally:
                stop.set()


def finish(futures: list[Future[None]]) -> None:
    """Wait until all are done or one has failed, and raise what it raised; an interrupt is heard at once."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
