"""The summary of a split that an evaluation stores."""

from __future__ import annotations

from dataclasses import dataclass

from ipseval.data.splits import Split


@dataclass(frozen=True)
class SplitSummary:
    """The kind of a split, and the number of test rows that have later training rows.

    Attributes
    ----------
    description : str
        Description by the split itself.
    is_random : bool
        Whether test rows were drawn at random, so that rows of both parts are of all times.
    n_test : int
        Test rows with a time; 0 without times.
    n_leaking : int
        Test rows that have later training rows.
    median_future : float
        Median share of the training rows that are later than a test row, in [0, 1].
    """

    description: str
    is_random: bool
    n_test: int = 0
    n_leaking: int = 0
    median_future: float = 0.0

    @classmethod
    def from_split(cls, split: Split) -> SplitSummary:
        """Summarise a split."""
        leakage = split.leakage
        if leakage is None:
            return cls(split.description, split.is_random)
        return cls(
            description=split.description,
            is_random=split.is_random,
            n_test=leakage.n_test,
            n_leaking=leakage.n_leaking,
            median_future=leakage.median_future,
        )
