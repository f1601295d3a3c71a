"""Threads where they can be started, and the same work in the calling thread where they cannot."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


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
