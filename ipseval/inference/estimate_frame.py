"""The tidy table of an evaluation, with the reliability flags of its estimates as notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from ipseval.estimators import Estimate
from ipseval.inference.intervals import Interval, Key
from ipseval.inference.weight_diagnostics import WeightDiagnostics
from ipseval.utils.notes import Note, join_notes


@dataclass(frozen=True)
class Row:
    """The estimate, interval and weight diagnostics from which one row of the tidy table is computed."""

    key: Key
    estimate: Estimate
    interval: Interval
    weights: WeightDiagnostics

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes, flags and cautions of the estimate, its weights and its interval."""
        estimate = self.estimate
        return (
            *estimate.notes,
            *estimate.reliability_notes,
            *self.weights.cautions,
            *self.interval.notes,
        )


# The columns of the tidy table, in order. A new column is one entry.
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
    "note": lambda row: join_notes(*row.notes),
    "estimand": lambda row: row.estimate.estimand,
    "flag": lambda row: row.estimate.flag,
}


def collect_rows(
    estimates: Mapping[Key, Estimate],
    intervals: Mapping[Key, Interval],
    weights: Mapping[str, WeightDiagnostics],
) -> list[Row]:
    """Return the row of each estimate."""
    rows = []
    for key, estimate in estimates.items():
        estimator = key[2]
        rows.append(Row(key, estimate, intervals[key], weights[estimator]))
    return rows


def tidy_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Return one row per estimate, with the columns of `FRAME_COLUMNS`."""
    columns = {}
    for name, compute_cell in FRAME_COLUMNS.items():
        columns[name] = list(map(compute_cell, rows))

    return pd.DataFrame(columns)


# Values that replace the numbers of suppressed estimates, in a table of estimates and in a table of pairs.
ESTIMATE_BLANKS: dict[str, object] = {
    "estimate": float("nan"),
    "lower": float("nan"),
    "upper": float("nan"),
}
PAIR_BLANKS: dict[str, object] = {
    "n_tipping": 0,
    "tipping_points": (),
    "statement": "",
}


def add_reliability_notes(frame: pd.DataFrame, estimates: Mapping[Key, Estimate]) -> pd.DataFrame:
    """Return a table of estimates, or of pairs of estimates, with their reliability flags in its notes.

    The table has the columns model, metric, estimator and note, and `other` where its rows are pairs. The
    numbers of suppressed estimates are blanked.
    """
    is_pair_table = "other" in frame.columns
    model_columns = ["model", "other"] if is_pair_table else ["model"]
    blanks = PAIR_BLANKS if is_pair_table else ESTIMATE_BLANKS
    columns = frame.to_dict("list")
    for row in range(len(frame)):
        metric = str(columns["metric"][row])
        estimator = str(columns["estimator"][row])
        row_estimates = []
        for name in model_columns:
            row_estimates.append(estimates[str(columns[name][row]), metric, estimator])

        notes: list[Note] = []
        for estimate in row_estimates:
            notes += estimate.reliability_notes
        columns["note"][row] = join_notes(*notes, str(columns["note"][row]))
        if any(estimate.suppressed for estimate in row_estimates):
            for name, blank in blanks.items():
                if name in columns:
                    columns[name][row] = blank
    return pd.DataFrame(columns, columns=frame.columns)
