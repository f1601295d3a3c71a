"""The tidy table of an evaluation: its columns, each with what stands in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from ipseval.estimators import Estimate
from ipseval.inference._interval_methods import Interval
from ipseval.inference._weights import WeightDiagnostics

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Row:
    """What a row of the tidy table is made of."""

    key: Key
    estimate: Estimate
    interval: Interval
    weights: WeightDiagnostics

    @property
    def note(self) -> str:
        """What a reader must know of the estimate, in one line."""
        parts = (self.estimate.trust, *self.weights.cautions, self.interval.note)
        return "; ".join(filter(None, (*self.estimate.notes, *parts)))


# The columns of the tidy table, in order: a new one is one line here.
FRAME_COLUMNS: dict[str, Callable[[Row], object]] = {
    "model": lambda row: row.key[0],
    "metric": lambda row: row.key[1],
    "estimator": lambda row: row.key[2],
    "estimate": lambda row: row.estimate.value,
    "std_error": lambda row: row.interval.std_error,
    "ci_low": lambda row: row.interval.low,
    "ci_high": lambda row: row.interval.high,
    "n_users": lambda row: row.estimate.sums.n_users,
    "n_positives": lambda row: row.estimate.n_positives,
    "ess": lambda row: row.weights.ess,
    "max_weight_share": lambda row: row.weights.max_weight_share,
    "claim": lambda row: str(row.estimate.claim),
    "note": lambda row: row.note,
}


def tidy_frame(
    estimates: Mapping[Key, Estimate],
    intervals: Mapping[Key, Interval],
    weights: Mapping[str, WeightDiagnostics],
) -> pd.DataFrame:
    """Return one row per estimate, with the columns of `FRAME_COLUMNS`."""
    rows = [Row(key, one, intervals[key], weights[key[2]]) for key, one in estimates.items()]
    return pd.DataFrame({name: [value(row) for row in rows] for name, value in FRAME_COLUMNS.items()})
