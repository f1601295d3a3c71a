"""The tidy table of an evaluation, and the flags that travel with estimates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ipseval.errors import PositivityWarning, PropensityError
from ipseval.estimators import Estimate
from ipseval.inference.interval_methods import Interval
from ipseval.inference.intervals import Key
from ipseval.inference.weight_diagnostics import WeightDiagnostics
from ipseval.metrics import Metric
from ipseval.utils.checks import warn_user


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
    "estimand": lambda row: row.estimate.estimand,
    "flag": lambda row: row.estimate.flag,
}


def tidy_frame(
    estimates: Mapping[Key, Estimate],
    intervals: Mapping[Key, Interval],
    weights: Mapping[str, WeightDiagnostics],
) -> pd.DataFrame:
    """Return one row per estimate, with the columns of `FRAME_COLUMNS`."""
    rows = [Row(key, one, intervals[key], weights[key[2]]) for key, one in estimates.items()]
    return pd.DataFrame({name: [value(row) for row in rows] for name, value in FRAME_COLUMNS.items()})


Flags = Mapping[tuple[str, str], str]
WIDE = "standard error"
# What stands in place of the numbers of suppressed estimates, in a table of estimates and in one of pairs.
ESTIMATE_BLANKS: dict[str, object] = dict.fromkeys(("estimate", "lower", "upper"), float("nan"))
PAIR_BLANKS: dict[str, object] = {
    "n_tipping": 0,
    "tipping_points": (),
    "statement": "",
}


def judged(
    estimates: Mapping[Key, Estimate], flags: Flags, metrics: Sequence[Metric], low_ess: str
) -> dict[Key, Estimate]:
    """Return the estimates with their flags, suppressed where asked, after warning or raising as asked."""
    # "warn", "raise", "nan" (suppressed) or "ignore" what is flagged. Unless "ignore", an estimate whose
    # error exceeds the width of the metric's range is flagged and suppressed.
    by_label = {one.label: one for one in metrics}
    found = {}
    for key, one in estimates.items():
        flag = flags.get(key[1:], "")
        wide = "" if low_ess == "ignore" else too_wide(by_label[key[1]], one.standard_error)
        text = joined(flag, wide)
        hidden = bool(wide) or (low_ess == "nan" and bool(flag))
        found[key] = replace(one, flag=text, suppressed=hidden) if text else one
    if low_ess in ("warn", "raise"):
        _tell(found, low_ess)
    return found


def joined(*texts: str) -> str:
    """Return the texts that are not empty, each once, as "a; b"."""
    return "; ".join(dict.fromkeys(filter(None, texts)))


def too_wide(metric: Metric, standard_error: float) -> str:
    """Return that a standard error exceeds the width of the metric's range, in words; else ""."""
    low, high = metric.value_range
    if not standard_error > high - low:
        return ""
    return f"{WIDE} {standard_error:,.3g} beyond the range of {metric.label}, {low:g} to {high:g}"


def _tell(estimates: Mapping[Key, Estimate], low_ess: str) -> None:
    """Warn or raise with every flag once: by estimator where all its metrics share it."""
    by_flag: dict[tuple[str, str], list[str]] = {}
    metrics: dict[str, set[str]] = {}
    for (_, metric, estimator), one in estimates.items():
        metrics.setdefault(estimator, set()).add(metric)
        for flag in filter(None, one.flag.split("; ")):
            if flag.startswith(WIDE):
                flag = f"{WIDE} beyond the range of the metric"  # the same words for every recommender
            by_flag.setdefault((estimator, flag), []).append(metric)
    texts = []
    for (estimator, flag), named in by_flag.items():
        everywhere = set(named) == metrics[estimator]
        of = "" if everywhere else f"{', '.join(dict.fromkeys(named))} by "
        texts.append(f"{of}{estimator}: {flag}")
    if not texts:
        return
    text = "; ".join(texts)
    if low_ess == "raise":
        raise PropensityError(f"{text}. Clip the propensity, use a smaller gamma, or low_ess='warn'.")
    warn_user(text, PositivityWarning)


def with_trust(frame: pd.DataFrame, estimates: Mapping[Key, Estimate]) -> pd.DataFrame:
    """Return a table of estimates, or of pairs of them, with what speaks against each in its note."""
    # Columns model, metric, estimator, note, and `other` for pairs. Numbers of suppressed estimates go.
    pairs = "other" in frame.columns
    columns = frame.to_dict("list")
    for place, cell in enumerate(zip(columns["metric"], columns["estimator"], strict=True)):
        models = [columns[name][place] for name in (("model", "other") if pairs else ("model",))]
        found = [estimates[str(model), str(cell[0]), str(cell[1])] for model in models]
        columns["note"][place] = joined(*(one.trust for one in found), str(columns["note"][place]))
        if any(one.suppressed for one in found):
            for name, nothing in (PAIR_BLANKS if pairs else ESTIMATE_BLANKS).items():
                if name in columns:
                    columns[name][place] = nothing
    return pd.DataFrame(columns, columns=frame.columns)
