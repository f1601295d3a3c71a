"""The tidy table of an evaluation, and the reliability flags of its estimates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ipseval.errors import PositivityWarning, PropensityError
from ipseval.estimators import Estimate
from ipseval.inference.intervals import Interval, Key
from ipseval.inference.weight_diagnostics import WeightDiagnostics
from ipseval.metrics import Metric
from ipseval.utils.checks import warn_user
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


Flags = Mapping[tuple[str, str], tuple[Note, ...]]

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


def apply_flags(
    estimates: Mapping[Key, Estimate], flags: Flags, metrics: Sequence[Metric], low_ess: str
) -> dict[Key, Estimate]:
    """Return the estimates with their flags, after the warning or error that `low_ess` requests.

    `low_ess` is "warn", "raise", "nan" (suppress flagged estimates) or "ignore". Unless it is "ignore", an
    estimate whose standard error exceeds the width of the range of its metric is flagged and suppressed.
    """
    metrics_by_label = {metric.label: metric for metric in metrics}
    flagged_estimates = {}
    summaries: dict[Key, list[Note]] = {}
    for key, estimate in estimates.items():
        _, metric_label, estimator_label = key
        weight_flags = flags.get((metric_label, estimator_label), ())
        error_flags: tuple[Note, ...] = ()
        if low_ess != "ignore":
            error_flags = find_error_flags(metrics_by_label[metric_label], estimate.standard_error)
        all_flags = (*weight_flags, *error_flags)
        if all_flags:
            is_suppressed = bool(error_flags) or low_ess == "nan"
            estimate = replace(estimate, flags=all_flags, suppressed=is_suppressed)
        flagged_estimates[key] = estimate
        # The summary states a wide standard error without the numbers of one recommender.
        summaries[key] = [flag.generalize() for flag in all_flags]
    if low_ess in ("warn", "raise"):
        _warn_or_raise(summaries, low_ess)
    return flagged_estimates


def find_error_flags(metric: Metric, standard_error: float) -> tuple[Note, ...]:
    """Return a flag where a standard error exceeds the width of the range of the metric."""
    low, high = metric.value_range
    if not standard_error > high - low:
        return ()
    return (Note.of("wide_error", error=standard_error, metric=metric.label, low=low, high=high),)


def _warn_or_raise(flags_by_estimate: Mapping[Key, Sequence[Note]], low_ess: str) -> None:
    """Issue one warning or error with all flags, if there are any."""
    text = _summarize_flags(flags_by_estimate)
    if not text:
        return
    if low_ess == "raise":
        raise PropensityError(
            f"{text}.", advice="Clip the propensity, use a smaller γ, or pass {low_ess=warn}"
        )
    warn_user(text, PositivityWarning)


def _summarize_flags(flags_by_estimate: Mapping[Key, Sequence[Note]]) -> str:
    """Return every flag once, with its estimator, and with its metrics unless all metrics share it."""
    metrics_by_flag: dict[tuple[str, Note], list[str]] = {}
    metrics_by_estimator: dict[str, set[str]] = {}
    for (_, metric, estimator), flags in flags_by_estimate.items():
        metrics_by_estimator.setdefault(estimator, set()).add(metric)
        for flag in flags:
            metrics_by_flag.setdefault((estimator, flag), []).append(metric)

    texts = []
    for (estimator, flag), metrics in metrics_by_flag.items():
        distinct_metrics = list(dict.fromkeys(metrics))
        subject = estimator
        if set(distinct_metrics) != metrics_by_estimator[estimator]:
            subject = f"{', '.join(distinct_metrics)} by {estimator}"
        texts.append(f"{subject}: {flag}")
    return "; ".join(texts)


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
