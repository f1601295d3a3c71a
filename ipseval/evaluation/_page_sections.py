"""The sections of an evaluation's HTML page below its tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ipseval.evaluation._page_curves import GammaSweep
from ipseval.evaluation.report_content import PageContent, ReportContent, TableLayout, build_rows
from ipseval.reporting.formatting import (
    LEVEL,
    count_decimals,
    format_number,
    format_p_value,
    format_percent,
    format_signed,
)
from ipseval.reporting.pictures import build_sensitivity_picture
from ipseval.reporting.tables import Cell, Code, Heading, Part, Table
from ipseval.utils.notes import counts_frame

GAMMA = (
    "γ describes how much more often popular items are shown: P ∝ (n*)^((γ+1)/2), where n* is the number of "
    "training interactions of an item. At γ = −1 all weights are equal. The larger γ is, the less popular "
    "items count."
)


def build_page_sections(content: ReportContent) -> list[Part]:
    """Return the sections below the tables."""
    page = content.page
    assert page is not None  # only a page has them
    record = pd.DataFrame(list(page.record.items()), columns=["key", "value"])
    definitions = []
    for name, text in page.definitions.items():
        definitions.append(Code(name, text))

    return [
        *build_differences(content, page),
        *build_sensitivity(content, page),
        *_build_popularity(content, page),
        *_build_weights(content),
        *_build_data(content),
        Heading("Definitions and guarantees"),
        *definitions,
        Heading("Provenance"),
        Table.from_frame(record, "Versions, options and data", folded=True),
    ]


def build_differences(content: ReportContent, page: PageContent) -> list[Part]:
    """Return a table per metric: every recommender minus the first, by every estimator."""
    if page.differences.empty:
        return []
    parts: list[Part] = [
        Heading("Differences"),
        "Paired differences on the same users, with confidence intervals. A difference whose interval "
        "includes 0 may be due to chance. p-values are adjusted over all pairs of a column (Holm); bold: "
        f"p < {LEVEL:g}.",
    ]
    for layout in content.layouts:
        table = _build_difference_table(content, page, layout)
        if table.rows:
            parts.append(table)
    return parts


def _build_difference_table(content: ReportContent, page: PageContent, layout: TableLayout) -> Table:
    """Return the differences of one table: every recommender minus the first, by every estimator."""
    metric = layout.metric
    first, *rivals = layout.models
    differences = page.differences[page.differences["metric"] == metric]
    columns = []
    header = ["recommender"]
    for label in layout.labels:
        header.append(content.head(metric, label))
        flag = content.flag(metric, label)
        rows = differences[differences["estimator"] == label].set_index("model").reindex(rivals)
        cells = rows.to_dict("index")
        row = {}
        for model in rivals:
            row[model] = build_difference_cell(cells[model], flag)

        columns.append(row)
    return Table(
        tuple(header),
        build_rows(rivals, columns),
        f"{layout.title}, minus {first}",
        words=frozenset(range(len(header))),
        signed=True,
        metric=metric,
    )


def build_difference_cell(row: Mapping[Any, Any], flag: str) -> Cell:
    """Return the cell of one difference; an unreliable one has neither interval nor p-value."""
    difference = row["difference"]
    low = row["ci_low"]
    high = row["ci_high"]
    p_value = row["p_adjusted"]
    if math.isnan(difference):
        return Cell("undefined", flag=flag)
    if math.isnan(low):
        return Cell(format_signed(difference, 4), "not tested", flag=flag)
    places = count_decimals([high - low])
    text = format_signed(difference, places)
    if flag:
        return Cell(text, flag=flag, at=(math.nan, difference, math.nan))
    bounds = f"[{format_signed(low, places)}, {format_signed(high, places)}]"
    return Cell(
        text,
        f"{bounds} {format_p_value(p_value)}",
        strong=p_value < LEVEL,
        at=(low, difference, high),
    )


def build_sensitivity(content: ReportContent, page: PageContent) -> list[Part]:
    """Return curves of the estimates over γ, with the γ at which the first recommender is overtaken."""
    parts: list[Part] = []
    is_weighted_within_users = {}
    for verdict in content.verdicts:
        is_weighted_within_users[verdict.metric] = verdict.is_weighted_within_users
    for sweep in page.curves.sweeps:
        n_drawn = len(sweep.values)
        n_models = len(content.models)
        name = content.names[sweep.estimator]
        here = f"this evaluation, γ = {format_number(sweep.at)}"
        caption = [f"{sweep.metric}, {name}. Dotted: {here}."]
        if content.flag(sweep.metric, sweep.estimator):
            caption.append("The estimates of this evaluation are unreliable.")
        if n_drawn < n_models:
            caption.append(f"The highest {n_drawn} of {n_models} recommenders are drawn.")
        caption += _describe_swaps(sweep)
        if not is_weighted_within_users[sweep.metric]:
            caption.append(
                "Weights change at most how much each user counts, so the curves show the effect of exposure "
                "only in part."
            )
        parts.append(
            build_sensitivity_picture(
                _build_sweep_frame(sweep, content.models, name),
                gamma=sweep.at,
                alt=f"{sweep.metric}, {name}, over γ, a line per recommender",
                caption=" ".join(caption),
                metric=sweep.metric,
            )
        )
    if not parts:
        return []
    return [Heading("Sensitivity to the propensity"), GAMMA, *parts]


def _build_sweep_frame(sweep: GammaSweep, models: Sequence[str], estimator_name: str) -> pd.DataFrame:
    """Return the estimates over γ as rows, without intervals.

    They are in the order of the evaluation, so that a recommender has the same colour in all pictures.
    """
    frames = []
    for model in models:
        if model in sweep.values:
            estimates = {"model": model, "gamma": sweep.gamma, "estimate": sweep.values[model]}
            frames.append(pd.DataFrame(estimates))
    rows = pd.concat(frames, ignore_index=True)
    return rows.assign(metric=sweep.metric, estimator=estimator_name, ci_low=math.nan, ci_high=math.nan)


def _describe_swaps(sweep: GammaSweep) -> list[str]:
    """Return the γ at which a recommender overtakes the first one, and the recommenders that never do."""
    statements = []
    without_change = []
    for model, points, statement in sweep.swaps:
        if points:
            statements.append(f"{statement}.")
        else:
            without_change.append(model)
    if without_change:
        first = next(iter(sweep.values))
        lowest = format_number(sweep.gamma[0])
        highest = format_number(sweep.gamma[-1])
        statements.append(
            f"{', '.join(without_change)}: no change of order with {first} for γ from {lowest} to {highest}."
        )
    return statements


def _build_popularity(content: ReportContent, page: PageContent) -> list[Part]:
    """Return the shares of weight and of interactions, from rare items to popular ones."""
    frame = pd.DataFrame(dict(page.curves.popularity))
    if frame.empty:
        return []
    measure = {"n*": "training interactions", "P": "propensity"}[str(frame["by"].iloc[0])]
    by_estimator = {}
    for label, groups in frame.groupby("estimator", sort=False):
        by_estimator[str(label)] = groups

    first = next(iter(by_estimator.values()))
    shares = [first["share"], *(groups["weight_share"] for groups in by_estimator.values())]
    rows = []
    for index in range(len(first)):
        group = first.iloc[index]
        row = [Cell(group["group"]), Cell(f"{group['n_items']:,}"), Cell(f"{group['n_positives']:,}")]
        for share in shares:
            value = share.iloc[index]
            row.append(Cell(format_percent(value, 1), hint=format_percent(value, 3), at=(value,)))
        rows.append(tuple(row))
    names = [content.names[label] for label in by_estimator]
    header = (measure, "items", "interactions", "share of interactions", *names)
    return [
        Heading("Popularity"),
        "The table shows how much items of each popularity count in the estimates. AOA counts every "
        "held-out interaction once. Weighting moves weight to items that are shown less.",
        Table(header, tuple(rows), f"Held-out interactions by {measure} of their item"),
    ]


def _build_weights(content: ReportContent) -> list[Part]:
    """Return the effective sample size and the largest weight of each estimator."""
    diagnostics = content.diagnostics
    n_interactions = diagnostics["n_positives"].max()
    interactions = f"{n_interactions:,} held-out interactions"
    for count in content.counts:
        if count.code == "test_part":
            interactions += f" of {count.count:,} test rows"
    rows = []
    for row in diagnostics.to_dict("records"):
        size = Cell(
            f"{row['ess_own']:,.0f}", f"of {row['ess_equal']:,.0f}", flag=row["flag"], at=(row["ess_own"],)
        )
        rare_share = "not known"
        if not math.isnan(row["rare_share"]):
            rare_share = format_percent(row["rare_share"], 1)
        remark = Cell(row["flag"] or row["cautions"])
        name = Cell(content.names[row["estimator"]])
        rows.append((name, size, Cell(format_percent(row["share_own"], 2)), Cell(rare_share), remark))
    header = ("estimator", "effective sample size", "largest weight", "on rare items", "remark")
    return [
        Heading("Weights"),
        f"{interactions} are included. The effective sample size is (Σv)²/Σv², where v is the weight of an "
        "interaction in the estimate. It states how uneven the weights are: it is the number of equally "
        "weighted interactions that would be as precise, if hits did not depend on the weights. The number "
        'after "of" is its value with equal propensities. Rare items have at most 2 training interactions.',
        Table(header, tuple(rows), "Weights of each estimator", words=frozenset({0, 4})),
    ]


def _build_data(content: ReportContent) -> list[Part]:
    """Return the counts of the rows that were read, split and ranked."""
    if not content.counts:
        return []
    frame = counts_frame(content.counts)
    totals = frame["of"].astype(object).where(frame["of"].notna(), "")
    table = Table.from_frame(frame.assign(of=totals), "Counts", n_keys=2, folded=True)
    return [Heading("Data"), "The table counts the rows that were read, excluded and added.", table]
