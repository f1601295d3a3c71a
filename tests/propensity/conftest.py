"""Logs that several propensity tests share."""

from __future__ import annotations

import pandas as pd
import pytest

from ipseval.data import Interactions


@pytest.fixture
def simple_log() -> Interactions:
    """Two users, four items; user 0 has seen item 0, user 1 item 3."""
    frame = pd.DataFrame({"user": [0, 1], "item": [0, 3]})
    return Interactions.from_frame(frame, users=[0, 1], items=[0, 1, 2, 3])
