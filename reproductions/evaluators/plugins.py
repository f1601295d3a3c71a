"""Files of users that add evaluators or logs to the registries."""

from __future__ import annotations

import runpy
from collections.abc import Iterable
from pathlib import Path

LOADED: set[Path] = set()


def load_plugins(files: Iterable[Path]) -> None:
    """Run files that add evaluators or logs, each once per process."""
    for file in files:
        place = file.resolve()
        if place in LOADED:
            continue
        runpy.run_path(str(place))
        LOADED.add(place)
