"""Plots of an evaluation: the rows of each kind of plot, in the order and with the names of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators import Estimator
from ipseval.evaluation.report_content import ReportContent, TableLayout, sort_rows
from ipseval.evaluation.segments import Decomposition, Segments
from ipseval.evaluation.verdict import Verdict
from ipseval.inference import Sensitivity
from ipseval.metrics import Metric
from ipseval.utils.checks import check_choice
from ipseval.utils.notes import Note, join_notes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class _PlottedEvaluation(Protocol):
    """The parts of an `Evaluation` that plots read; the class itself imports this module."""

    @property
    def definitions(self) -> tuple[Sequence[Metric], Sequence[Estimator]]: ...

    @property
    def segments(self) -> dict[str, Segments]: ...

    @property
    def verdicts(self) -> tuple[Verdict, ...]: ...

    @property
    def confidence_level(self) -> float: ...

    @property
    def frame(self) -> pd.DataFrame: ...

    @property
    def diagnostics(self) -> pd.DataFrame: ...

    @property
    def popularity(self) -> pd.DataFrame: ...

    @property
    def _flags(self) -> dict[tuple[str, str], tuple[Note, ...]]: ...

    def by(self, by: Any) -> Segments: ...

    def compare(self, reference: str | None = None) -> pd.DataFrame: ...

    def decomposition(self, metric: str | None = None, *, by: Any = "popularity") -> Decomposition: ...

    def _sensitivity(self, definitions: tuple[Sequence[Metric], Sequence[Estimator]]) -> Sensitivity: ...

    def _content(self) -> ReportContent: ...

    def _metric_label(self, label: str) -> str: ...

    def _estimator_label(self, label: str) -> str: ...


@dataclass(frozen=True, eq=False)
class _PlotRequest:
    """Describe one plot of an evaluation.

    Attributes
    ----------
    evaluation : Evaluation
        The evaluation.
    layout : TableLayout
        The table of the metric in the report, with its recommenders and estimators in order.
    metric, estimator : str
        Labels of the metric and of the estimator.
    names, column_names : mapping
        Label of an estimator -> its name in texts, and its name in the header of a table.
    by : object
        Groups of users or items, or None for the default.
    ax : Axes or None
        Axes to draw on.
    """

    evaluation: _PlottedEvaluation
    layout: TableLayout
    metric: str
    estimator: str
    names: Mapping[str, str]
    column_names: Mapping[str, str]
    by: object
    ax: Axes | None


def plot_evaluation(
    evaluation: _PlottedEvaluation,
    kind: str,
    *,
    metric: str | None,
    estimator: str | None,
    by: object,
    ax: Axes | None,
) -> Axes:
    """Draw one kind of plot; see `Evaluation.plot` for the parameters."""
    metric = _check_kind_and_metric(evaluation, kind, metric)
    content = evaluation._content()
    layout = _find_layout(content, metric, None)
    chosen_estimator = layout.verdict.weighted or layout.verdict.unweighted
    if estimator is not None:
        chosen_estimator = evaluation._estimator_label(estimator)
    check_choice("estimator", chosen_estimator, list(layout.verdict.rankings))
    if estimator is not None:
        layout = _find_layout(content, metric, chosen_estimator)
    request = _PlotRequest(
        evaluation=evaluation,
        layout=layout,
        metric=metric,
        estimator=chosen_estimator,
        names=content.names,
        column_names=content.column_names,
        by=by,
        ax=ax,
    )
    return _PLOTS[kind](request)


def _plot_estimates(request: _PlotRequest) -> Axes:
    """Draw every recommender by every estimator."""
    from ipseval.reporting import plots

    evaluation = request.evaluation
    rows = _select_rows(evaluation.frame, request.layout, request.column_names)
    return plots.plot_estimates(rows, confidence_level=evaluation.confidence_level, ax=request.ax)


def _plot_differences(request: _PlotRequest) -> Axes:
    """Draw the paired differences from the first recommender."""
    from ipseval.reporting.plots.estimates import plot_differences

    evaluation = request.evaluation
    differences = _flag_differences(evaluation, request.layout.models[0])
    rows = _select_rows(differences, request.layout, request.column_names)
    return plot_differences(rows, confidence_level=evaluation.confidence_level, ax=request.ax)


def _plot_sensitivity(request: _PlotRequest) -> Axes:
    """Draw the estimates over γ."""
    from ipseval.reporting import plots

    definitions = _select_definitions(request.evaluation, request.metric, request.estimator)
    sensitivity = request.evaluation._sensitivity(definitions)
    tipping_points = _select_rows(sensitivity.tipping_points(), request.layout, request.names)
    # In the order of the evaluation, so that a recommender has the same colour in plots of several metrics.
    rows = _select_rows(sensitivity.frame, request.layout, request.names, is_sorted=False)
    return plots.plot_sensitivity(rows, tipping=tipping_points, ax=request.ax)


def _plot_sample_sizes(request: _PlotRequest) -> Axes:
    """Draw the effective sample size of every estimator."""
    from ipseval.reporting import plots

    return plots.plot_weights(
        _rename_estimators(request.evaluation.diagnostics, request.names), ax=request.ax
    )


def _plot_popularity(request: _PlotRequest) -> Axes:
    """Draw the shares of positives and of weight by popularity; raise `InputError` without weights."""
    from ipseval.reporting.plots.weights import plot_weight_shares

    frame = request.evaluation.popularity
    if frame.empty:
        raise InputError(
            "the plot of popularity compares shares of the positives with shares of the weight, and this "
            "evaluation has no weights; evaluate with propensity= and a weighted estimator."
        )
    return plot_weight_shares(_rename_estimators(frame, request.names), ax=request.ax)


def _plot_segments(request: _PlotRequest) -> Axes:
    """Draw the estimates by groups, by default the first ones of the evaluation."""
    from ipseval.reporting.plots.estimates import plot_segments

    by = request.by
    if by is None:
        by = next(iter(request.evaluation.segments), "popularity")
    rows = _select_rows(request.evaluation.by(by).frame, request.layout, request.column_names)
    estimator_name = request.column_names[request.estimator]
    return plot_segments(rows, metric=request.metric, estimator=estimator_name, ax=request.ax)


def _plot_decomposition(request: _PlotRequest) -> Axes:
    """Draw the decomposition by groups, by default by popularity."""
    from ipseval.reporting.plots.estimates import plot_decomposition

    by = "popularity" if request.by is None else request.by
    decomposition = request.evaluation.decomposition(request.metric, by=by)
    rows = _select_rows(decomposition.frame, request.layout, request.column_names)
    return plot_decomposition(rows, ax=request.ax)


# Kind of plot -> the function that draws it. The gallery has a picture of each (reproductions/gallery.py).
_PLOTS: dict[str, Callable[[_PlotRequest], Axes]] = {
    "estimates": _plot_estimates,
    "differences": _plot_differences,
    "sensitivity": _plot_sensitivity,
    "weights": _plot_sample_sizes,
    "popularity": _plot_popularity,
    "segments": _plot_segments,
    "decomposition": _plot_decomposition,
}
PLOT_KINDS = tuple(_PLOTS)


def _check_kind_and_metric(evaluation: _PlottedEvaluation, kind: str, metric: str | None) -> str:
    """Return the label of the metric to plot, by default the first; raise an error for unknown names."""
    labels = [verdict.metric for verdict in evaluation.verdicts]
    if evaluation._metric_label(kind) in labels:
        raise InputError(f'the first argument is the kind of plot: plot("estimates", metric={kind!r}).')
    check_choice("kind", kind, PLOT_KINDS)
    label = labels[0]
    if metric is not None:
        label = evaluation._metric_label(metric)
    check_choice("metric", label, labels)
    return label


def _find_layout(content: ReportContent, metric: str, estimator: str | None) -> TableLayout:
    """Return the table of a metric that has an estimator; without one the first table of the metric."""
    layouts = []
    for layout in content.layouts:
        if layout.metric == metric:
            layouts.append(layout)

    for layout in layouts:
        if estimator in layout.labels:
            return layout
    return layouts[0]


def _flag_differences(evaluation: _PlottedEvaluation, reference: str) -> pd.DataFrame:
    """Return the differences from a recommender, with the flags of their estimates."""
    frame = evaluation.compare(reference)
    cells = zip(frame["metric"], frame["estimator"], strict=True)
    return frame.assign(flag=[join_notes(*evaluation._flags[cell]) for cell in cells])


def _select_definitions(
    evaluation: _PlottedEvaluation, metric: str, estimator: str
) -> tuple[list[Metric], list[Estimator]]:
    """Return one metric and one estimator, because the others would take time without being drawn."""
    metrics, estimators = evaluation.definitions
    metric_definitions = [definition for definition in metrics if definition.label == metric]
    estimator_definitions = [definition for definition in estimators if definition.label == estimator]
    return metric_definitions, estimator_definitions


def _select_rows(
    frame: pd.DataFrame, layout: TableLayout, names: Mapping[str, str], *, is_sorted: bool = True
) -> pd.DataFrame:
    """Return the rows of one table, with one metric and one estimand, in its order or in that of the frame.

    The rows have the names of estimators; estimators of other estimands are left out.
    """
    rows = frame
    if "metric" in rows:
        rows = rows[rows["metric"] == layout.metric]
    if "estimator" in rows:
        rows = rows[rows["estimator"].isin(layout.labels)]
    rows = _rename_estimators(rows, names)
    if not is_sorted:
        return rows
    return sort_rows(rows, layout)


def _rename_estimators(frame: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Return a frame with the estimators' names in tables in place of their labels."""
    if "estimator" not in frame:
        return frame
    return frame.assign(estimator=frame["estimator"].map(names))
