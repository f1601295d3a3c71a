"""The sections of an evaluation's page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ipseval.evaluation._sweeps import SweptMetric
from ipseval.evaluation.report_content import PageContent, ReportContent
from ipseval.reporting.formatting import LEVEL, decimals, number, percent, shown_p, signed_at
from ipseval.reporting.pictures import curves
from ipseval.reporting.tables import Cell, Code, Heading, Part, Table
from ipseval.utils.counts import counts_frame

GAMMA = (
    "γ says how much more often popular items are shown: P ∝ (n*)^((γ+1)/2), n* the training interactions of "
    "an item. At −1 all weights are equal. The larger γ is, the less popular items count."
)


def build_page_sections(content: ReportContent) -> list[Part]:
    """Return the sections below the tables."""
    page = content.page
    assert page is not None  # only a page has them
    record = pd.DataFrame(list(page.record.items()), columns=["key", "value"])
    return [
        *_differences(content, page),
        *_sensitivity(content, page),
        *_popularity(content, page),
        *_weights(content),
        *_data(content),
        Heading("Definitions and guarantees"),
        *(Code(name, text) for name, text in page.definitions.items()),
        Heading("Provenance"),
        Table.of(record, "Versions, options and data", folded=True),
    ]


def _differences(content: ReportContent, page: PageContent) -> list[Part]:
    """Return a table per metric: every recommender minus the first, by every estimator."""
    if page.differences.empty:
        return []
    parts: list[Part] = [
        Heading("Differences"),
        "Paired differences on the same users, with confidence intervals. A difference whose interval "
        "includes 0 may "
        f"be chance. p-values are adjusted over all pairs of a column (Holm); bold: p < {LEVEL:g}.",
    ]
    for layout in content.layouts:
        first = layout.models[0]
        others = layout.models[1:]
        metric = layout.metric
        rows = page.differences[page.differences["metric"] == metric]
        columns = []
        header = ["recommender"]
        for label in layout.labels:
            header.append(content.head(metric, label))
            by_model = rows[rows["estimator"] == label].set_index("model").reindex(others)
            flag = content.flag(metric, label)
            cells = by_model.to_dict("index")
            columns.append({model: _difference(cells[model], flag) for model in others})
        body = tuple((Cell(model), *(column[model] for column in columns)) for model in others)
        if body:
            title = f"{layout.title}, minus {first}"
            words = frozenset(range(len(header)))
            parts.append(Table(tuple(header), body, title, words=words, signed=True, metric=metric))
    return parts


def _difference(row: Mapping[Any, Any], flag: str) -> Cell:
    """Return the cell of one difference; an unreliable one has neither interval nor p-value."""
    difference = row["difference"]
    low = row["ci_low"]
    high = row["ci_high"]
    p_value = row["p_adjusted"]
    if math.isnan(difference):
        return Cell("undefined", flag=flag)
    if math.isnan(low):
        return Cell(signed_at(difference, 4), "not tested", flag=flag)
    places = decimals([high - low])
    shown = signed_at(difference, places)
    if flag:
        return Cell(shown, flag=flag, at=(math.nan, difference, math.nan))
    bounds = f"[{signed_at(low, places)}, {signed_at(high, places)}]"
    return Cell(
        shown,
        f"{bounds} {shown_p(p_value)}",
        strong=p_value < LEVEL,
        at=(low, difference, high),
    )


def _sensitivity(content: ReportContent, page: PageContent) -> list[Part]:
    """Return how the estimates change with γ, and where the first recommender is overtaken."""
    parts: list[Part] = []
    for sweep in page.curves.sweeps:
        n_drawn = len(sweep.values)
        n_models = len(content.models)
        name = content.names[sweep.estimator]
        here = f"this evaluation, γ = {number(sweep.at)}"
        caption = [f"{sweep.metric}, {name}. Dotted: {here}."]
        if content.flag(sweep.metric, sweep.estimator):
            caption.append("The estimates of this evaluation are unreliable.")
        if n_drawn < n_models:
            caption.append(f"The highest {n_drawn} of {n_models} recommenders are drawn.")
        caption += _swaps(sweep)
        parts.append(
            curves(
                sweep.gamma.tolist(),
                {model: values.tolist() for model, values in sweep.values.items()},
                alt=f"{sweep.metric}, {name}, over γ, a line per recommender",
                x_name="γ",
                x_label="γ (−1: equal weights)",
                marks={sweep.at: here},
                caption=" ".join(caption),
                metric=sweep.metric,
            )
        )
    return [Heading("Sensitivity to the propensity"), GAMMA, *parts] if parts else []


def _swaps(sweep: SweptMetric) -> list[str]:
    """Return for which γ a recommender is ahead of the first one, and which never overtake it."""
    first = next(iter(sweep.values))
    span = f"γ from {number(sweep.gamma[0])} to {number(sweep.gamma[-1])}"
    statements = [f"{statement}." for _, points, statement in sweep.swaps if points]
    never = [other for other, points, _ in sweep.swaps if not points]
    if never:
        statements.append(f"{', '.join(never)}: no change of order with {first} for {span}.")
    return statements


def _popularity(content: ReportContent, page: PageContent) -> list[Part]:
    """Return the shares of weight and of interactions, from rare items to popular ones."""
    frame = pd.DataFrame(dict(page.curves.popularity))
    if frame.empty:
        return []
    words = {"n*": "training interactions", "P": "propensity"}[str(frame["by"].iloc[0])]
    by_estimator = {str(label): part for label, part in frame.groupby("estimator", sort=False)}
    first = next(iter(by_estimator.values()))
    shares = [first["share"], *(part["weight_share"] for part in by_estimator.values())]
    rows = []
    for index in range(len(first)):
        group = first.iloc[index]
        counts = (Cell(group["group"]), Cell(f"{group['n_items']:,}"), Cell(f"{group['n_positives']:,}"))
        values = [share.iloc[index] for share in shares]
        rows.append(
            (*counts, *(Cell(percent(value, 1), hint=percent(value, 3), at=(value,)) for value in values))
        )
    names = [content.names[label] for label in by_estimator]
    header = (words, "items", "interactions", "share of interactions", *names)
    return [
        Heading("Popularity"),
        "Which items carry the estimates. AOA counts every held-out interaction once. Weighting moves "
        "weight to "
        "items that are shown less.",
        Table(header, tuple(rows), f"Held-out interactions by {words} of their item"),
    ]


def _weights(content: ReportContent) -> list[Part]:
    """Return the effective sample size and the largest weight of each estimator."""
    diagnostics = content.diagnostics
    n_interactions = diagnostics["n_positives"].max()
    of_rows = "".join(
        f" of {count.count:,} test rows" for count in content.counts if count.what == "test pairs"
    )
    rows = []
    for row in diagnostics.to_dict("records"):
        size = Cell(
            f"{row['ess_own']:,.0f}", f"of {row['ess_equal']:,.0f}", flag=row["flag"], at=(row["ess_own"],)
        )
        rare = "not known" if math.isnan(row["rare_share"]) else percent(row["rare_share"], 1)
        remark = Cell(row["flag"] or row["cautions"])
        name = Cell(content.names[row["estimator"]])
        rows.append((name, size, Cell(percent(row["share_own"], 2)), Cell(rare), remark))
    header = ("estimator", "effective sample size", "largest weight", "on rare items", "remark")
    return [
        Heading("Weights"),
        f"{n_interactions:,} held-out interactions{of_rows} entered. The effective sample size, (Σw)²/Σw², "
        f"is the "
        'number of equally weighted interactions that are as precise; "of" is its value with equal '
        "propensities. "
        "Rare items have at most 2 training interactions.",
        Table(header, tuple(rows), "Weights of each estimator", words=frozenset({0, 4})),
    ]


def _data(content: ReportContent) -> list[Part]:
    """Return what was counted while the data were read, split and ranked."""
    if not content.counts:
        return []
    frame = counts_frame(content.counts)
    shown = frame.assign(of=frame["of"].astype(object).where(frame["of"].notna(), ""))
    table = Table.of(shown, "What was counted", n_keys=2, folded=True)
    return [Heading("Data"), "What was read, left out and added.", table]
