"""The contents of a report of an evaluation, and its estimates and flags as every output prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ipseval.data.splits.split import SplitSummary
from ipseval.estimators import Estimator
from ipseval.estimators.estimate import RATIO_OF_SUMS
from ipseval.estimators.labels import display_names
from ipseval.estimators.sample import SampleSize
from ipseval.evaluation._page_curves import PageCurves
from ipseval.evaluation.cold_start import ColdStart, describe_cold_users
from ipseval.evaluation.sanity import SanityWarning
from ipseval.evaluation.verdict import Verdict
from ipseval.evaluation.verdict_text import VerdictText, describe_assumption
from ipseval.inference.intervals import Key
from ipseval.propensity import Propensity
from ipseval.reporting.formatting import count_decimals, format_fixed
from ipseval.reporting.tables import Cell
from ipseval.utils.notes import Count, Note, join_notes

EMPTY = Cell("")
UNRELIABLE = "unreliable"  # follows the name of a column with a flag in every output


@dataclass(frozen=True)
class TableLayout:
    """The rows and columns of one table: one metric and one estimand.

    Attributes
    ----------
    title : str
        The metric, with its estimand where a report holds several.
    estimand : str
        "mean over users" or "mean over interactions".
    verdict : Verdict
        The verdict of the metric.
    labels : tuple of str
        Estimators, a column each.
    models : tuple of str
        Recommenders, a row each: the highest estimate of the first column first, undefined ones last.
    """

    title: str
    estimand: str
    verdict: Verdict
    labels: tuple[str, ...]
    models: tuple[str, ...]

    @property
    def metric(self) -> str:
        """The label of the metric."""
        return self.verdict.metric


def build_rows(models: Sequence[str], columns: Sequence[Mapping[str, Cell]]) -> tuple[tuple[Cell, ...], ...]:
    """Return the rows of a table: the name of each recommender, and its cell of each column."""
    rows = []
    for model in models:
        cells = [column.get(model, EMPTY) for column in columns]
        rows.append((Cell(model), *cells))
    return tuple(rows)


def sort_rows(rows: pd.DataFrame, layout: TableLayout) -> pd.DataFrame:
    """Return rows in the order of the recommenders of a table."""
    positions = {model: position for position, model in enumerate(layout.models)}
    return rows.sort_values("model", key=lambda models: models.map(positions), kind="stable")


def describe_estimand(estimand: str, units: str) -> str:
    """Return an estimand in the plural, with the units that are averaged: users, or queries."""
    if estimand == RATIO_OF_SUMS:
        return f"ratios of sums over {units}"
    return estimand.replace("mean over users", f"means over {units}").replace("mean over", "means over")


@dataclass(frozen=True, eq=False)
class PageContent:
    """The contents that only a page shows.

    Attributes
    ----------
    differences : DataFrame
        Differences from the first recommender of each metric, as `compare` returns them; empty for a single
        recommender.
    curves : PageCurves
        Curves over γ, and weights by popularity.
    record : mapping
        Versions, options and hashes.
    definitions : mapping
        Metric -> its definition and guarantees.
    """

    differences: pd.DataFrame
    curves: PageCurves
    record: Mapping[str, str]
    definitions: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class ReportContent:
    """The contents of a report of an evaluation."""

    models: tuple[str, ...]
    frame: pd.DataFrame
    diagnostics: pd.DataFrame
    verdicts: tuple[Verdict, ...]
    text: VerdictText
    estimators: tuple[Estimator, ...]
    propensity: Propensity | None
    flags: Mapping[tuple[str, str], tuple[Note, ...]]
    notes: Mapping[Key, tuple[Note, ...]]
    size: SampleSize
    candidates: str
    confidence_level: float
    counts: tuple[Count, ...] = ()
    split: SplitSummary | None = None
    sanity: tuple[SanityWarning, ...] = ()
    cold_start: ColdStart | None = None
    page: PageContent | None = None

    @property
    def cold_users(self) -> str:
        """The sentences on users without training interactions; "" where they are few or none."""
        if self.cold_start is None or not self.cold_start.is_reported:
            return ""
        return describe_cold_users(self.cold_start)

    @property
    def names(self) -> dict[str, str]:
        """Estimator label -> its name in tables."""
        return display_names([estimator.label for estimator in self.estimators])

    @property
    def column_names(self) -> dict[str, str]:
        """Estimator label -> the head of its column: its name, and whether it is weighted and with which assumption."""
        support = next((verdict.support for verdict in self.verdicts if verdict.support is not None), None)
        names = self.names
        for estimator in self.estimators:
            if not estimator.weighted:
                names[estimator.label] += " (unweighted)"
            elif support is not None:
                names[estimator.label] += f" ({describe_assumption(support)})"
        return names

    @property
    def estimands(self) -> dict[str, list[str]]:
        """Estimand -> the labels of the estimators that estimate it, in the order given."""
        groups: dict[str, list[str]] = {}
        for estimator in self.estimators:
            groups.setdefault(estimator.estimand, []).append(estimator.label)
        return groups

    @cached_property
    def layouts(self) -> tuple[TableLayout, ...]:
        """The tables of the report: one for each metric and estimand."""
        has_several = len(self.list_estimands()) > 1
        layouts = []
        for verdict in self.verdicts:
            for estimand, labels in self.group_estimators(verdict.metric).items():
                title = verdict.metric
                if has_several:
                    title = f"{title}, {describe_estimand(estimand, self.size.unit_plural)}"
                layout = TableLayout(
                    title=title,
                    estimand=estimand,
                    verdict=verdict,
                    labels=tuple(labels),
                    models=verdict.rankings[labels[0]].order,
                )
                layouts.append(layout)
        return tuple(layouts)

    def find_estimand(self, metric: str, estimator: str) -> str:
        """Return the estimand of a metric by an estimator."""
        rows = self.rows(metric, estimator)
        return str(rows["estimand"].iloc[0])

    def group_estimators(self, metric: str) -> dict[str, list[str]]:
        """Return estimand of a metric -> the labels of the estimators that estimate it, in the order given."""
        groups: dict[str, list[str]] = {}
        for estimator in self.estimators:
            estimand = self.find_estimand(metric, estimator.label)
            groups.setdefault(estimand, []).append(estimator.label)
        return groups

    def list_estimands(self) -> list[str]:
        """Return the distinct estimands of all metrics and estimators."""
        return list(dict.fromkeys(self.frame["estimand"]))

    def flag(self, metric: str, estimator: str) -> str:
        """Return why the estimates of a metric by an estimator are unreliable; "" where they are not."""
        return join_notes(*self.flags.get((metric, estimator), ()))

    def is_suppressed(self, model: str, metric: str, estimator: str) -> bool:
        """Return whether an estimate is not shown because it is unreliable."""
        notes = self.notes[model, metric, estimator]
        return any(note.severity == "suppression" for note in notes)

    def head(self, metric: str, estimator: str) -> str:
        """Return the head of a column: the estimator, its assumption, and whether it is unreliable."""
        head = self.column_names[estimator]
        if self.flag(metric, estimator):
            return f"{head}, {UNRELIABLE}"
        return head

    def rows(self, metric: str, estimator: str) -> pd.DataFrame:
        """Return the rows of the frame of one metric and estimator."""
        return self._rows_by_column.get((metric, estimator), self.frame.iloc[:0])

    @cached_property
    def _rows_by_column(self) -> dict[tuple[str, str], pd.DataFrame]:
        """Metric and estimator -> their rows of the frame, which every table asks for several times."""
        rows_by_column = {}
        for (metric, estimator), rows in self.frame.groupby(["metric", "estimator"], sort=False):
            rows_by_column[str(metric), str(estimator)] = rows
        return rows_by_column


@dataclass(frozen=True)
class PrintedEstimate:
    """One estimate as outputs print it.

    Attributes
    ----------
    value : float
        NaN where it is undefined or suppressed.
    text : str
        The value with its decimals; "undefined" or "suppressed" without one.
    interval : str
        "[low, high]"; empty where there is none, and where the estimate is unreliable.
    bounds : (float, float)
        The confidence interval; NaN where none is printed.
    flag : str
        Why the estimate is unreliable; empty where it is not.
    is_best : bool
        Whether it is the highest of its column, or is printed with the same digits as the highest.
    is_behind : bool
        Whether it differs significantly from the highest of its column.
    """

    value: float
    text: str
    interval: str = ""
    bounds: tuple[float, float] = (np.nan, np.nan)
    flag: str = ""
    is_best: bool = False
    is_behind: bool = False

    @property
    def mark(self) -> str:
        """The mark of an estimate that differs significantly from the highest of its column."""
        if self.is_behind:
            return "†"
        return ""


def print_estimates(
    content: ReportContent, verdict: Verdict, label: str, digits: int
) -> dict[str, PrintedEstimate]:
    """Return recommender -> estimate; an unreliable column has neither intervals nor a best one."""
    rows = content.rows(verdict.metric, label)
    ranking = verdict.rankings[label]
    flag = content.flag(verdict.metric, label)
    is_compared = not flag and len(ranking.ranked) > 1
    half_widths = ((rows["ci_high"] - rows["ci_low"]) / 2).tolist()
    common_places = count_decimals(half_widths, digits)
    highest = ""
    if ranking.highest:
        highest = format_fixed(ranking.values[ranking.highest], common_places)
    estimates = {}
    columns = [rows[name].tolist() for name in ("model", "estimate", "ci_low", "ci_high")]
    for model, value, low, high, half_width in zip(*columns, half_widths, strict=True):
        if np.isnan(value):
            text = "undefined"
            if content.is_suppressed(model, verdict.metric, label):
                text = "suppressed"
            estimates[model] = PrintedEstimate(value, text, flag=flag)
            continue
        places = common_places
        if not flag:  # an error far below the other errors of its column is still visible
            places = max(common_places, count_decimals([half_width], 1, default=0))
        interval = ""
        bounds = (np.nan, np.nan)
        if not np.isnan(half_width) and not flag:
            interval = f"[{format_fixed(low, places)}, {format_fixed(high, places)}]"
            bounds = (low, high)
        estimates[model] = PrintedEstimate(
            value=value,
            text=format_fixed(value, places),
            interval=interval,
            bounds=bounds,
            flag=flag,
            is_best=is_compared and format_fixed(value, common_places) == highest,
            is_behind=is_compared and model not in ranking.top_group,
        )
    return estimates


def flag_warnings(
    flags: Mapping[tuple[str, str], Sequence[Note]], estimators: Iterable[str], names: Mapping[str, str]
) -> list[str]:
    """Return one sentence for the flags of estimates, with the metrics where those are not all."""
    lines = []
    for label in estimators:
        metrics_by_text: dict[str, list[str]] = {}
        n_metrics = 0
        for (metric, estimator), metric_flags in flags.items():
            if estimator == label:
                n_metrics += 1
                metrics_by_text.setdefault(join_notes(*metric_flags), []).append(metric)

        for text, metrics in metrics_by_text.items():
            if not text:
                continue
            subject = names.get(label, label)
            if len(metrics) < n_metrics:
                subject += f" of {', '.join(metrics)}"
            lines.append(f"Unreliable: {subject}. {text[:1].upper()}{text[1:]}.")
    return lines
