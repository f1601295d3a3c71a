"""Threads, memory and progress of a ranking."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ipseval.errors import InputError
from ipseval.utils.checks import check_type
from ipseval.utils.compute import ComputeOptions, can_start_threads, quiet_tqdm

NAME = "ipseval-ranking"
BAR_DELAY = 2.0  # seconds before the progress bar appears
CALL_TARGET = 32 * 2**20  # bytes of scores that one call of the user's function returns
SMALL_WORK = 5e8  # comparisons below which loading Numba takes longer than it saves


class Work:
    """Number of comparisons that this process has made without a choice of engine."""

    comparisons = 0.0


@dataclass(frozen=True)
class Resources:
    """The options of a ranking for threads, memory and progress, and the name of the recommender."""

    compute: ComputeOptions
    name: str

    def __post_init__(self) -> None:
        check_type("name", self.name, str)

    def users_per_block(
        self,
        bytes_per_user: int,
        *,
        n_users_wanted: int,
        n_workers: int,
        description: str,
        fixed_bytes: int = 0,
    ) -> int:
        """Return the number of users in a block: `n_users_wanted`, or fewer if the memory limit requires it.

        Each worker needs `fixed_bytes`, and `bytes_per_user` for every user of its block. `description` names
        these data in the error that is raised if the limit does not allow a single user.
        """
        memory = self.compute.memory
        n_users_allowed = (memory // n_workers - fixed_bytes) // bytes_per_user
        if n_users_allowed < 1:
            n_bytes_needed = (fixed_bytes + bytes_per_user) * n_workers
            raise InputError(
                f"must be at least {n_bytes_needed:,} bytes for {description} with {n_workers} threads; got "
                f"{memory:,} bytes.",
                argument="max_memory",
                advice="Raise it, or use fewer threads",
            )
        size = self.compute.block_size or max(1, n_users_wanted)
        return int(min(size, n_users_allowed))

    def users_per_call(self, n_items: int) -> int:
        """Return the number of users in one call of a user's function, with space for a copy of the scores."""
        bytes_per_user = 8 * n_items * 2
        n_users = CALL_TARGET // bytes_per_user
        return self.users_per_block(
            bytes_per_user, n_users_wanted=n_users, n_workers=1, description="one user"
        )


def select_kernels(engine: str | None, n_comparisons: float) -> ModuleType:
    """Return the module of counting kernels for an engine: "numpy", "numba", or None for the faster.

    Without a choice, Numba is used if it is installed and all rankings of the process together make so many
    comparisons that loading it saves time. Both modules count the same integers.
    """
    is_installed = "numba" in sys.modules or find_spec("numba") is not None
    if engine == "numba" and not is_installed:
        raise InputError(
            "must be installed to be used; Numba is missing.",
            argument="engine",
            advice="Install it by pip install numba",
        )
    if engine is None:
        Work.comparisons += n_comparisons
        engine = "numpy"
        if is_installed and Work.comparisons > SMALL_WORK:
            engine = "numba"
    return import_module(f"ipseval.ranking.kernels.{engine}_kernels")


def run_workers(
    n_blocks: int,
    make_worker: Callable[[], Callable[[int], Iterator[int]]],
    resources: Resources,
    n_users: int,
    n_workers: int,
) -> None:
    """Process all blocks in `n_workers` threads, each of which takes the next block until none is left.

    `make_worker` is called once in each thread, for buffers of the thread. It returns a function that
    processes the block of a number in steps, each of which yields the number of users that it has completed.
    With one worker, this thread does the work. The first exception, or an interrupt, stops all workers after
    their current step and is raised.
    """
    blocks = iter(range(n_blocks))
    lock = threading.Lock()
    stop = threading.Event()

    def work(advance_bar: Callable[[int], object]) -> None:
        process_block = make_worker()
        while not stop.is_set():
            with lock:
                block = next(blocks, None)
                if block is None:
                    return
            for n_completed in process_block(block):
                if n_completed:
                    with lock:
                        advance_bar(n_completed)
                if stop.is_set():
                    return

    n_workers = min(n_workers, n_blocks)
    disable = None  # tqdm then shows the bar on a terminal only
    if resources.compute.progress is not None:
        disable = not resources.compute.progress
    with quiet_tqdm()(
        total=n_users,
        desc=f"ranking {resources.name}",
        unit="user",
        delay=BAR_DELAY,
        disable=disable,
        miniters=1,
    ) as bar:
        if n_workers == 1 or not can_start_threads():
            work(bar.update)
            return
        with ThreadPoolExecutor(n_workers, NAME) as pool:
            try:
                wait_for_all([pool.submit(work, bar.update) for _ in range(n_workers)])
            finally:
                stop.set()


def wait_for_all(futures: list[Future[None]]) -> None:
    """Wait until all futures are done or one has failed, and raise its exception; interrupts act at once."""
    pending = set(futures)
    while pending:
        completed, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
        for future in completed:
            future.result()
