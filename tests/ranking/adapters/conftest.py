"""Two splits for all adapters: Coat, if it is available, and a small split with text ids."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval.data import Interactions
from ipseval.data.splits import Split, split_random


@pytest.fixture(scope="session")
def small() -> Split:
    """A split of 40 users and 30 items with text ids for users and training pairs of every item."""
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((40, 30)) < 0.3)
    frame = pd.DataFrame({"user": [f"u{code:02d}" for code in user], "item": item + 100})
    split = split_random(Interactions.from_frame(frame), test_fraction=0.3, rng=0)
    assert (split.train.popularity > 0).all()
    assert (split.train.activity > 0).all()
    return split


@pytest.fixture(scope="session")
def coat_matrix(shared_data) -> np.ndarray:
    """Coat's biased ratings, (290, 300), 0 for missing ratings."""
    return np.loadtxt(shared_data("coat") / "train.ascii")


@pytest.fixture(scope="session")
def coat(coat_matrix) -> Split:
    """Positives (rating >= 4) of Coat's biased log, split 80/20 per user."""
    user, item = np.nonzero(coat_matrix >= 4)
    frame = pd.DataFrame({"user": user + 1, "item": item + 1})  # ids from 1: they are not the codes
    log = Interactions.from_frame(frame, users=np.arange(1, 291), items=np.arange(1, 301))
    return split_random(log, test_fraction=0.2, rng=0)


@pytest.fixture(scope="session")
def coat_ratings(coat, coat_matrix) -> pd.DataFrame:
    """All ratings of Coat's biased log except the test positives, with columns user, item, rating."""
    ratings = coat_matrix.copy()
    ratings[coat.test.user, coat.test.item] = 0
    user, item = np.nonzero(ratings)
    return pd.DataFrame({"user": user + 1, "item": item + 1, "rating": ratings[user, item]})


@pytest.fixture
def folder(tmp_path, monkeypatch, shared_data):
    """A working folder with Coat in it, where a library may write."""
    (tmp_path / "coat").symlink_to(shared_data("coat"))
    monkeypatch.chdir(tmp_path)
    return tmp_path
