"""What is common to all metrics: their printed form."""

from __future__ import annotations

from typing import ClassVar


class Labelled:
    """Gives a metric its label as repr."""

    by_user: ClassVar[bool] = True  # a user's value depends on that user's positives alone
    has_pairs: ClassVar[bool] = False  # whether `pair_sums` gives the ratio of won pairs to pairs

    def __repr__(self) -> str:
        return str(self.label)  # type: ignore[attr-defined]  # a field of every metric
