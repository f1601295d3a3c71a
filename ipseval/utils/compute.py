"""Options of a computation (threads, memory, engine, progress bar), and the threads that follow them.

They change no result.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, ParamSpec, TypeVar

from ipseval.errors import InputError
from ipseval.utils.checks import check_choice, check_positive_int, check_type
from ipseval.utils.public import public_class

P = ParamSpec("P")
T = TypeVar("T")
ENGINES = ("numpy", "numba")
DEFAULT_MEMORY = 128 * 2**20
THREAD_NAME = "ipseval-ranking"
BAR_DELAY = 2.0  # seconds before the progress bar appears
CALL_TARGET = 32 * 2**20  # bytes of scores that one call of the user's function returns
UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


@public_class
@dataclass(frozen=True, kw_only=True)
class ComputeOptions:
    """Choose threads, memory and engine of a computation; the results are the same for all choices.

    Parameters
    ----------
    n_threads : int, optional
        Number of threads. Default: all cores that this process may use.
    max_memory : int or str, optional
        Bound on the buffers of a ranking, in bytes or as "200 MB". Default: 128 MB. Inputs and results are
        not counted.
    block_size : int, optional
        Number of users that are ranked together. Default: as many as fit the caches and `max_memory`.
    engine : {"numpy", "numba"}, optional
        Library that counts ranks. Default: Numba if it is installed and the rankings of the process so far
        have made more than 500 million comparisons (held-out interactions times items); otherwise NumPy,
        because loading Numba would take longer than it saves.
    progress : bool, optional
        Whether a progress bar is shown on standard error after two seconds. Default: only on a terminal.

    Raises
    ------
    InputError
        For a number below 1, or a text that is not a size.
    UnknownNameError
        For another engine.

    See Also
    --------
    ipseval.evaluate : Takes these options as `compute`.
    ipseval.rank_positives : Takes these options as `compute`.

    Examples
    --------
    >>> compute = ComputeOptions(n_threads=2, max_memory="200 MB")
    >>> compute.threads, compute.memory
    (2, 209715200)
    """

    n_threads: int | None = None
    max_memory: int | str | None = None
    block_size: int | None = None
    engine: Literal["numpy", "numba"] | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.n_threads is not None:
            check_positive_int("n_threads", self.n_threads)
        if self.block_size is not None:
            check_positive_int("block_size", self.block_size)
        if self.engine is not None:
            check_choice("engine", self.engine, ENGINES)
        if self.max_memory is not None:
            _parse_bytes(self.max_memory)

    @property
    def threads(self) -> int:
        """The number of threads: `n_threads`, or all cores that this process may use."""
        if self.n_threads is None:
            return available_cores()
        return self.n_threads

    @property
    def memory(self) -> int:
        """`max_memory` in bytes."""
        if self.max_memory is None:
            return DEFAULT_MEMORY
        return _parse_bytes(self.max_memory)


DEFAULT_COMPUTE = ComputeOptions()


def check_compute(compute: object) -> ComputeOptions:
    """Return `compute`, or raise `InputError` if it is not a `ComputeOptions`."""
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
    """Return tqdm for a terminal or a notebook, without a thread and without its warning about ipywidgets."""
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm.auto import tqdm

    class Bar(tqdm):  # type: ignore[misc]  # tqdm has no types
        """A progress bar without the thread by which tqdm watches its bars."""

        monitor_interval = 0

    return Bar


class _BlasLimit:
    """Number of threads of the BLAS libraries of this process, which overlapping calls hold at one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n_calls = 0
        self.original: list[tuple[Callable[[int], object], int]] = []

    def start(self) -> None:
        """Set one thread, unless another call has done so."""
        with self.lock:
            if self.n_calls == 0:
                settings = []
                for library, set_threads in _find_blas_libraries():
                    settings.append((set_threads, library.num_threads))

                self.original = settings
                for set_threads, _ in self.original:
                    set_threads(1)
            self.n_calls += 1

    def stop(self) -> None:
        """Restore the numbers of threads after the last of overlapping calls."""
        with self.lock:
            self.n_calls -= 1
            if self.n_calls == 0:
                for set_threads, n_threads in self.original:
                    set_threads(n_threads)


_BLAS_LIMIT = _BlasLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS at one thread, because parallel products are faster than one product with many threads."""
    _BLAS_LIMIT.start()
    try:
        yield
    finally:
        _BLAS_LIMIT.stop()


@cache
def _find_blas_libraries() -> list[tuple[Any, Callable[[int], Any]]]:
    """Return the loaded BLAS libraries with the functions that set their threads.

    The search takes up to 10 ms in a process with many libraries, so it is made once.
    """
    from threadpoolctl import ThreadpoolController

    libraries: list[tuple[Any, Callable[[int], Any]]] = []
    for library in ThreadpoolController().lib_controllers:
        if library.user_api != "blas":
            continue
        # From version 3.8 on `set_num_threads` has no effect in all threads but one.
        set_threads = getattr(library, "_real_set_num_threads", library.set_num_threads)
        libraries.append((library, set_threads))
    return libraries


def _parse_bytes(max_memory: int | str) -> int:
    """Return a number of bytes from an int or a text such as "200 MB"."""
    if not isinstance(max_memory, str):
        return check_positive_int("max_memory", max_memory)
    match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([KMG]?B?)\s*", max_memory.upper())
    if match is None:
        raise InputError(f"max_memory must be a number of bytes or a text like '200 MB'; got {max_memory!r}.")
    number, unit = match.groups()
    if unit not in UNITS:
        unit = f"{unit}B"
    return check_positive_int("max_memory", int(float(number) * UNITS[unit]))


@cache
def can_start_threads() -> bool:
    """Return whether this process can start a thread, which Python in a browser and some sandboxes cannot."""
    thread = threading.Thread(target=lambda: None, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return False
    thread.join()
    return True


class SameThreadExecutor(Executor):
    """Run each task at once in the thread that submits it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run the task, and return a future that has its result or its exception."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def open_executor(n_threads: int, *, name: str = "") -> Executor:
    """Return an executor with up to `n_threads` threads in addition to the calling one; none for 0."""
    if n_threads < 1 or not can_start_threads():
        return SameThreadExecutor()
    return ThreadPoolExecutor(n_threads, name)


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
        with ThreadPoolExecutor(n_workers, THREAD_NAME) as pool:
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
