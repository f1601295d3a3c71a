"""Plots are drawn as their description says; after a change `python -m tests.golden.axes`, and look."""

from __future__ import annotations

from tests.golden import axes


def test_axes_agree_with_their_stored_description():
    assert axes.text() == axes.FILE.read_text(encoding="utf-8"), (
        "run `python -m tests.golden.axes`, and check the changed lines of tests/golden/axes.txt"
    )
