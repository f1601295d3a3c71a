"""The sections of an evaluation's page."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from ipseval.estimators._labels import spoken
from ipseval.evaluation._estimates import Estimates
from ipseval.evaluation._sweeps import Swept
from ipseval.report._pictures import curves
from ipseval.report._tables import Cell, Code, Heading, Part, Table
from ipseval.report._words import LEVEL, decimals, number, shown_p, signed_at

GAMMA = (
    "γ says how much more often popular items are shown: P ∝ (n*)^((γ+1)/2), n* the training interactions of "
    "an item. At −1 all weights are equal. The larger γ is, the less popular items count."
)


def page_parts(page: Estimates) -> list[Part]:
    """Return the sections below the tables."""
    record = [(name, str(value)) for name, value in page._record.items()]
    return [
        *_differences(page),
        *_sensitivity(page),
        *_popularity(page),
        *_weights(page),
        *_data(page.data),
        Heading("Definitions and claims"),
        *(Code(name, text) for name, text in page._cards.items()),
        Heading("Provenance"),
        Table.of(pd.DataFrame(record, columns=["key", "value"]), "Versions, options and data", folded=True),
    ]


def _differences(page: Estimates) -> list[Part]:
    """Return a table per metric: every recommender minus the highest, by every estimator, with a picture."""
    if len(page.models) < 2:
        return []
    differences = page._behind
    parts: list[Part] = [
        Heading("Differences"),
        "Paired differences on the same users, with intervals. A difference whose interval holds 0 may be "
        f"chance. Holm's correction is over the pairs of a column; p < {LEVEL:g} tells two apart.",
    ]
    for verdict in page.verdicts:
        behind = [model for model in verdict.order if model != verdict.first]
        rows = differences[differences["metric"] == verdict.metric]
        estimators = list(dict.fromkeys(rows["estimator"]))
        columns, header = [], ["recommender"]
        for label in estimators:
            flag = page._flags.get((verdict.metric, label), "")
            header.append(f"{spoken(label)}, unreliable" if flag else spoken(label))
            found = rows[rows["estimator"] == label].set_index("model").reindex(behind)
            columns.append({model: _difference(found.loc[model], flag) for model in behind})
        body = tuple((Cell(model), *(column[model] for column in columns)) for model in behind)
        if body:
            title = f"{verdict.metric}, minus {verdict.first}"
            words = frozenset(range(len(header)))
            parts.append(Table(tuple(header), body, title, words=words, signed=True, metric=verdict.metric))
    return parts


def _difference(row: pd.Series[Any], flag: str) -> Cell:
    gap, low, high, p_value = (row[name] for name in ("difference", "ci_low", "ci_high", "p_adjusted"))
    if math.isnan(gap):
        return Cell("undefined", flag=flag)
    if math.isnan(low):
        return Cell(signed_at(gap, 4), "not tested", flag=flag)
    places = decimals([high - low])
    bounds = f"[{signed_at(low, places)}, {signed_at(high, places)}]"
    return Cell(
        signed_at(gap, places),
        f"{bounds} {shown_p(p_value)}",
        strong=p_value < LEVEL and not flag,
        flag=flag,
        at=(low, gap, high),
    )


def _sensitivity(page: Estimates) -> list[Part]:
    """Return how the estimates change with γ, and where the highest recommender is passed."""
    parts: list[Part] = []
    for one in page._drawn.sweeps:
        n, n_all = len(one.values), len(page.models)
        others = [f"The highest {n} of {n_all} recommenders are drawn."] if n < n_all else []
        here = f"this evaluation, γ = {number(one.at)}"
        caption = [f"{one.metric}, {spoken(one.estimator)}. Dotted: {here}.", *others, *_swaps(one)]
        parts.append(
            curves(
                one.gamma.tolist(),
                {model: values.tolist() for model, values in one.values.items()},
                alt=f"{one.metric}, {spoken(one.estimator)}, over γ, a line per recommender",
                x_name="γ",
                x_label="γ (−1: equal weights)",
                marks={one.at: here},
                caption=" ".join(caption),
                metric=one.metric,
            )
        )
    return [Heading("Sensitivity to the propensity"), GAMMA, *parts] if parts else []


def _swaps(swept: Swept) -> list[str]:
    """Return for which γ a recommender is ahead of the highest one, and which never change places with it."""
    best, span = next(iter(swept.values)), f"γ from {number(swept.gamma[0])} to {number(swept.gamma[-1])}"
    never = [other for other, points, _ in swept.swaps if not points]
    alike = [f"{', '.join(never)}: no change of places with {best} for {span}."] if never else []
    return [*(f"{statement}." for _, points, statement in swept.swaps if points), *alike]


def _popularity(page: Estimates) -> list[Part]:
    """Return the share of the weight beside the share of the positives, from rare items to popular ones."""
    found = pd.DataFrame(dict(page._drawn.popularity))
    if found.empty:
        return []
    words = {"n*": "training interactions", "P": "propensity"}[str(found["by"].iloc[0])]
    by_estimator = {str(label): part for label, part in found.groupby("estimator", sort=False)}
    first = next(iter(by_estimator.values()))
    shares = (first["share"], *(part["weight_share"] for part in by_estimator.values()))
    rows = tuple(
        (
            *(Cell(group), Cell(f"{n_items:,}"), Cell(f"{n_positives:,}")),
            *(Cell(f"{one:.1%}", hint=f"{one:.3%}", at=(one,)) for one in of_group),
        )
        for group, n_items, n_positives, *of_group in zip(
            first["group"], first["n_items"], first["n_positives"], *shares, strict=True
        )
    )
    header = (words, "items", "positives", "share of positives", *map(spoken, by_estimator))
    return [
        Heading("Popularity"),
        "Which items carry the estimates. The plain average counts every positive once. Weighting moves "
        "weight to items that are shown less.",
        Table(header, rows, f"Test positives by {words} of their item"),
    ]


def _weights(page: Estimates) -> list[Part]:
    diagnostics, data = page.diagnostics, page.data
    rows, n_positives = [], diagnostics["n_positives"].max()
    of_rows = "".join(f" of {count:,} test rows" for count in data.loc[data["what"] == "test pairs", "count"])
    for row in diagnostics.to_dict("records"):
        size = Cell(
            f"{row['ess_own']:,.0f}", f"of {row['ess_equal']:,.0f}", flag=row["flag"], at=(row["ess_own"],)
        )
        rare = "not known" if math.isnan(row["rare_share"]) else f"{row['rare_share']:.1%}"
        shares = (Cell(f"{row['share_own']:.2%}"), Cell(rare))
        rows.append((Cell(spoken(row["estimator"])), size, *shares, Cell(row["flag"] or row["cautions"])))
    header = ("estimator", "effective sample size", "largest weight", "on rare items", "remark")
    return [
        Heading("Weights"),
        f"{n_positives:,} held-out positives{of_rows} entered. The effective sample size, (Σw)²/Σw², is how "
        'many of equal weight are as exact; "of" is its value if all items were equally likely to be seen. '
        "Rare items have at most 2 training interactions.",
        Table(header, tuple(rows), "Weights of each estimator", words=frozenset({0, 4})),
    ]


def _data(data: pd.DataFrame) -> list[Part]:
    if data.empty:
        return []
    shown = data.assign(of=data["of"].astype(object).where(data["of"].notna(), ""))
    table = Table.of(shown, "What was counted", n_keys=2, folded=True)
    return [Heading("Data"), "What was read, left out and added.", table]
