"""Standard output and standard error: what is written to them, and what happens where that fails."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Iterator
from typing import TextIO


class UnwritableOutputError(Exception):
    """Standard output cannot be written, for example because its device is full."""


@contextlib.contextmanager
def _report_failure() -> Iterator[None]:
    """Turn the errors of a failing device into `UnwritableOutputError`; a closed pipe stays what it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableOutputError(error.strerror or str(error)) from error
    except ValueError as error:  # Python's error for a stream that was closed
        raise UnwritableOutputError(str(error)) from error


def write_output(text: str) -> None:
    """Write text to standard output.

    Raises
    ------
    UnwritableOutputError
        When there is no standard output, or its device cannot be written.
    BrokenPipeError
        When the reader of a pipe has closed it.
    """
    if sys.stdout is None:
        raise UnwritableOutputError("it is closed")
    with _report_failure():
        sys.stdout.write(text)  # in one piece, also where output is not buffered


def flush_output() -> None:
    """Write what is buffered for standard output; errors as `write_output`."""
    if sys.stdout is not None:
        with _report_failure():
            sys.stdout.flush()


def discard_output() -> None:
    """Send what is still buffered for standard output nowhere, so that Python does not fail at its end."""
    _discard(sys.stdout)


def _discard(stream: TextIO | None) -> None:
    if stream is None:
        return
    with contextlib.suppress(OSError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_error(text: str) -> None:
    """Write a line to standard error; where that is impossible the exit code alone remains."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        _discard(sys.stderr)


def write_traceback() -> None:
    """Write the traceback of the current exception to standard error."""
    write_error(traceback.format_exc().rstrip("\n"))
