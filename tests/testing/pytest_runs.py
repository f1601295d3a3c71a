"""Run pytest with the plugin of the library within this process, as a user would in a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ipseval import pytest_plugin


def run_pytest(path: Path | str, *options: str) -> int:
    """Return the exit code of pytest on a test file; the caller captures what it prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        patch.delenv("PYTEST_ADDOPTS", raising=False)  # it may name options of plugins
        # A test file of the same name in another folder, which this process has imported before, is not this file.
        patch.delitem(sys.modules, Path(str(path).split("::")[0]).stem, raising=False)
        code = pytest.main(
            [
                *("-q", "--import-mode=importlib"),
                *("-p", "no:unraisableexception"),  # it collects garbage five times, all that of this process
                *("-p", "no:cacheprovider"),
                *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
                *(*options, str(path)),
            ],
            plugins=[pytest_plugin],
        )
    return int(code)
