"""How much of the training data lies in the future of what is tested."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._base.checks import counted, warn_user
from ipseval.data._interactions import Interactions
from ipseval.errors import DataWarning


@dataclass(frozen=True)
class Leakage:
    """How many test rows have later training rows, and how many of them.

    A row is later when its time is strictly greater; rows of the same time count as known together.

    Attributes
    ----------
    n_test, n_train : int
        Rows of both parts.
    n_leaking : int
        Test rows with at least one later training row.
    median_future : float
        Median over the test rows of the share of training rows that are later, in [0, 1].

    Examples
    --------
    >>> Leakage(n_test=4, n_train=10, n_leaking=1, median_future=0.0)
    Leakage(1 of 4 test rows (25.0 %) have later training rows; in the median 0.0 % of training is later)
    """

    n_test: int
    n_train: int
    n_leaking: int
    median_future: float

    @classmethod
    def of(cls, train: Interactions, test: Interactions) -> Leakage | None:
        """Return the leakage of a split; None where a part has no timestamps or no rows."""
        if train.timestamp is None or test.timestamp is None or not len(train) or not len(test):
            return None
        n_leaking = int((test.timestamp < train.timestamp.max()).sum())
        # The later a test row, the fewer rows are later than it: the middle ones in time are in the middle.
        middle = [(len(test) - 1) // 2, len(test) // 2]
        times = np.partition(test.timestamp, middle)[middle]
        later = [int((train.timestamp > time).sum()) for time in times]
        return cls(len(test), len(train), n_leaking, float(np.mean(later)) / len(train))

    @property
    def share(self) -> float:
        """Share of test rows with a later training row, in [0, 1]."""
        return self.n_leaking / self.n_test

    @property
    def text(self) -> str:
        """All of it in words."""
        rows = f"{self.n_leaking:,} of {counted(self.n_test, 'test row')} ({100 * self.share:.1f} %)"
        later = f"{100 * self.median_future:.1f} %"
        return f"{rows} have later training rows; in the median {later} of training is later"

    def __repr__(self) -> str:
        return f"Leakage({self.text})"


def warn_about_leakage(leakage: Leakage | None) -> None:
    """Warn that a split in the order of time trains on what came after test rows."""
    if leakage is not None and leakage.n_leaking:
        warn_user(
            f"{leakage.text}. The order in time is each user's own: recommenders learn from what other users "
            "did later. Use split_global_time or split_sliding to keep the future out.",
            DataWarning,
        )
