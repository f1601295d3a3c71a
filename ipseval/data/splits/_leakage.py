"""Leakage of a split: training rows that are later than test rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval.data.interactions import Interactions
from ipseval.errors import DataWarning
from ipseval.utils.checks import format_count, warn_user


@dataclass(frozen=True)
class Leakage:
    """Count the test rows that have later training rows.

    A row is later if its time is strictly greater; rows of the same time do not leak.

    Attributes
    ----------
    n_test, n_train : int
        Numbers of rows of both parts.
    n_leaking : int
        Number of test rows with at least one later training row.
    median_future : float
        Median over the test rows of the share of training rows that are later, in [0, 1].

    Examples
    --------
    >>> Leakage(n_test=4, n_train=10, n_leaking=1, median_future=0.0)
    Leakage(1 of 4 test rows (25.0%) have later training rows; in the median 0.0% of training is later)
    """

    n_test: int
    n_train: int
    n_leaking: int
    median_future: float

    @classmethod
    def from_parts(cls, train: Interactions, test: Interactions) -> Leakage | None:
        """Return the leakage of a split; None if a part has no timestamps, or training has no rows."""
        if train.timestamp is None or test.timestamp is None or not len(train):
            return None
        n_not_later = np.searchsorted(np.sort(train.timestamp), test.timestamp, side="right")
        n_later = len(train) - n_not_later
        return cls(
            n_test=len(test),
            n_train=len(train),
            n_leaking=int((n_later > 0).sum()),
            median_future=float(np.median(n_later)) / len(train),
        )

    @property
    def share(self) -> float:
        """Share of test rows with a later training row, in [0, 1]."""
        return self.n_leaking / self.n_test

    @property
    def text(self) -> str:
        """Description of the leakage as text."""
        rows = f"{self.n_leaking:,} of {format_count(self.n_test, 'test row')} ({100 * self.share:.1f}%)"
        later_share = f"{100 * self.median_future:.1f}%"
        return f"{rows} have later training rows; in the median {later_share} of training is later"

    def __repr__(self) -> str:
        return f"Leakage({self.text})"


def warn_about_leakage(leakage: Leakage | None) -> None:
    """Warn that recommenders of a split by time per user train on rows that are later than test rows."""
    if leakage is not None and leakage.n_leaking:
        warn_user(
            f"{leakage.text}. The cut is at a different time for each user, so that recommenders learn from "
            "later interactions of other users.",
            DataWarning,
            advice="Use split_global_time or split_sliding to prevent this",
            shell_advice="Use --split global-time to prevent this",
        )
