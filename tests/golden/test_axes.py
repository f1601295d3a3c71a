"""Plots are drawn as their description says; after a change `python -m tests.golden.axes`, and look."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from ipseval.reporting import plots
from tests.golden import axes


def test_axes_agree_with_their_stored_description():
    assert axes.text() == axes.FILE.read_text(encoding="utf-8"), (
        "run `python -m tests.golden.axes`, and check the changed lines of tests/golden/axes.txt"
    )


def test_every_function_that_draws_on_axes_has_a_description():
    names = set()
    for module in pkgutil.iter_modules(plots.__path__, f"{plots.__name__}."):
        for name, function in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            if name.startswith("plot_") and "ax" in inspect.signature(function).parameters:
                names.add(name)
    source = inspect.getsource(axes)
    missing = [name for name in sorted(names) if f".{name}(" not in source]
    assert len(names) > 10
    assert missing == [], f"add a row to AXES of tests/golden/axes.py for {missing}"
