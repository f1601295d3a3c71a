"""Skip tests of what is not installed: the core of the library has to pass its tests without any extra.

A test that stops because an optional library is missing is skipped, with the name of what is missing. That
cannot hide a core that needs such a library: `tests/test_architecture.py` forbids the import, and noxfile.py
names the number of tests that have to pass without extras.
"""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import shutil
import tomllib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from ipseval.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
# What a library is called in an import, where its distribution has another name.
MODULES = {
    "scikit-learn": "sklearn",
    "pytrec-eval-terrier": "pytrec_eval",
    "scikit-surprise": "surprise",
    "mlflow-skinny": "mlflow",
}


def optional() -> set[str]:
    """Return the modules that come with an extra of pyproject.toml and not with the core."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    names = {re.match(r"[\w.-]+", line)[0] for line in extras}
    core = {re.match(r"[\w.-]+", line)[0] for line in project["dependencies"]} | {"ipseval"}
    return {MODULES.get(name, name) for name in names - core}


OPTIONAL = optional()
# Known before any test hides a library: a test that does so to see the error must fail where the error is another.
MISSING = frozenset(name for name in OPTIONAL if importlib.util.find_spec(name) is None)


def require_program(names: tuple[str, ...], package: str) -> str:
    """Return the path of a program of the system; without it a test skips, and fails where CI=true."""
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return path
    reason = f"no {' or '.join(names)} here; install the package {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it was raised from or during; of a doctest, the error of its example."""
    while error is not None:
        if isinstance(error, doctest.UnexpectedException):
            error = error.exc_info[1]
        yield error
        error = error.__cause__ or error.__context__


def missing(error: BaseException | None) -> str | None:
    """Return why a test cannot run, where an optional library that is not installed is the reason."""
    for cause in causes(error):
        name = ""
        if isinstance(cause, InputError):
            extra = re.search(r"pip install '?(ipseval\[\w+\])", str(cause))
            if extra:
                return f"{extra[1]} is not installed"
            package = re.search(r"pip install (\w+)", str(cause))
            name = package[1] if package else ""
        elif isinstance(cause, ImportError):
            name = named(cause)
        if name in MISSING:
            return f"{name} is not installed"
    return None


def named(error: ImportError) -> str:
    """Return which library an error misses: pandas says "optional dependency 'x'" or "tried using: 'x'"."""
    match = re.search(r"(?:optional dependency|using:) '(\w+)'", str(error))
    return match[1] if match else (error.name or "").partition(".")[0]


class MissingExtras:
    """A plugin of pytest: what stops for want of an optional library is skipped, with the reason."""

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        report = yield
        call = getattr(report, "call", None)
        if report.outcome == "failed" and call is not None and call.excinfo is not None:
            reason = missing(call.excinfo.value)
            if reason:
                report.outcome = "skipped"
                report.longrepr = (str(collector.path), 0, f"Skipped: {reason}")
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        return (yield from skipping())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        return (yield from skipping())


def skipping() -> Generator[None, Any, Any]:
    """Wrap a hook: an error for want of an optional library becomes a skip."""
    try:
        return (yield)
    except Exception as error:
        reason = missing(error)
        if reason:
            pytest.skip(reason)
        raise
