"""One small split for all adapters: Coat where it is at hand, otherwise a log of the same shape."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval.interactions import Interactions
from ipseval.ranking import rank_positives
from ipseval.splits import Split, split_random


@pytest.fixture(scope="session")
def small() -> Split:
    """A split of 40 users and 30 items with text ids for users, whose catalogue trains on every item."""
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((40, 30)) < 0.3)
    frame = pd.DataFrame({"user": [f"u{code:02d}" for code in user], "item": item + 100})
    split = split_random(Interactions.from_frame(frame), test_fraction=0.3, rng=0)
    assert (split.train.popularity > 0).all()
    assert (split.train.activity > 0).all()
    return split


@pytest.fixture(scope="session")
def coat(shared_data) -> Split:
    """Positives (rating >= 4) of Coat's biased log, split 80/20 per user."""
    ratings = np.loadtxt(shared_data("coat") / "train.ascii")
    user, item = np.nonzero(ratings >= 4)
    frame = pd.DataFrame({"user": user + 1, "item": item + 1})  # ids from 1: they are not the codes
    log = Interactions.from_frame(frame, users=np.arange(1, 291), items=np.arange(1, 301))
    return split_random(log, test_fraction=0.2, rng=0)


def assert_same_ranks(scorer, dense, split: Split) -> None:
    """Check that a scorer ranks the positives as the library's own scores (n_users, n_items) do."""
    ours, theirs = rank_positives(scorer, split), rank_positives(np.asarray(dense), split)
    np.testing.assert_array_equal(ours.n_above, theirs.n_above)
    np.testing.assert_array_equal(ours.n_tied, theirs.n_tied)


@pytest.fixture(scope="session")
def same_ranks():
    return assert_same_ranks
