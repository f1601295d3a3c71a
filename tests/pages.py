"""Pages without pictures, which take three quarters of the time of a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def without_pictures() -> Iterator[None]:
    """Write pages as where matplotlib is not installed, for tests that read everything else of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ipseval.reporting._views.can_draw", lambda: False)
        yield
