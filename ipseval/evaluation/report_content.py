"""The contents of a report of an evaluation, as one value that renderers read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from ipseval.estimators import Estimator
from ipseval.estimators.labels import display_names
from ipseval.estimators.sample import SampleSize
from ipseval.evaluation._page_curves import PageCurves
from ipseval.evaluation.sanity import SanityWarning
from ipseval.evaluation.split_summary import SplitSummary
from ipseval.evaluation.verdict import Verdict
from ipseval.evaluation.verdict_text import VerdictText, describe_assumption
from ipseval.inference.intervals import Key
from ipseval.propensity import Propensity
from ipseval.reporting.tables import Cell
from ipseval.utils.counts import Count
from ipseval.utils.notes import Note, join_notes

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
    page: PageContent | None = None

    @property
    def names(self) -> dict[str, str]:
        """Estimator label -> its name in tables."""
        return display_names([estimator.label for estimator in self.estimators])

    @property
    def column_names(self) -> dict[str, str]:
        """Estimator label -> the head of its column: its name and the assumption of its weights."""
        support = next((verdict.support for verdict in self.verdicts if verdict.support is not None), None)
        names = self.names
        for estimator in self.estimators:
            if estimator.weighted and support is not None:
                names[estimator.label] += f" ({describe_assumption(support)})"
        return names

    @property
    def estimands(self) -> dict[str, list[str]]:
        """Estimand -> the labels of the estimators that estimate it, in the order given."""
        groups: dict[str, list[str]] = {}
        for estimator in self.estimators:
            groups.setdefault(estimator.estimand, []).append(estimator.label)
        return groups

    @property
    def layouts(self) -> list[TableLayout]:
        """The tables of the report: one for each metric and estimand."""
        estimands = self.estimands
        layouts = []
        for verdict in self.verdicts:
            for estimand, labels in estimands.items():
                title = verdict.metric
                if len(estimands) > 1:
                    title = f"{title}, {describe_estimand(estimand, self.size.unit_plural)}"
                layout = TableLayout(
                    title=title,
                    estimand=estimand,
                    verdict=verdict,
                    labels=tuple(labels),
                    models=verdict.standings[labels[0]].order,
                )
                layouts.append(layout)
        return layouts

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
        frame = self.frame
        return frame[(frame["metric"] == metric) & (frame["estimator"] == estimator)]
