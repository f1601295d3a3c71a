"""The sections of an evaluation's page, and what they draw of the ranked positives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.types import FloatArray
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Estimator, Sample
from ipseval.estimators._labels import spoken
from ipseval.evaluation._verdict import Verdict
from ipseval.inference._sensitivity import sensitivity
from ipseval.inference._weights import popularity_weights
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.report._drawing import N_STYLES
from ipseval.report._pictures import curves
from ipseval.report._tables import Cell, Code, Heading, Part, Table
from ipseval.report._words import LEVEL, decimals, number, shown_p

# γ of the curves, with that of the evaluation. Two swaps within one step are not seen.
GAMMAS = np.linspace(-1, 3, 17)
# Values that a metric may take which is computed anew for each γ; beyond, fewer recommenders and γ.
MOST_VALUES, FEWER = 1_500_000, 4
PRECISION = 0.001  # of the γ of swaps, which are shown with two decimals

Definitions = tuple[Sequence[Metric], Sequence[Estimator]]


@dataclass(frozen=True, eq=False)
class Swept:
    """The estimates of the highest recommenders over γ, by one metric and estimator."""

    metric: str
    estimator: str
    gamma: FloatArray
    values: Mapping[str, FloatArray]
    at: float
    swaps: tuple[tuple[str, tuple[float, ...], str], ...]


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a page draws, so that a file can hold it: sweeps over γ, and weights by popularity."""

    sweeps: tuple[Swept, ...] = ()
    popularity: Mapping[str, list[Any]] = field(default_factory=dict)


def drawn_of(
    verdicts: Sequence[Verdict],
    samples: Mapping[str, Sample],
    definitions: Definitions,
    propensity: Propensity | None,
) -> Drawn:
    """Return what a page draws; nothing where the ranked positives or their weights are not known."""
    if not samples or propensity is None:
        return Drawn()
    try:
        sweeps = [_swept(one, samples, definitions, propensity) for one in verdicts]
    except (PropensityError, InputError):
        # No power law; or the file does not hold the code of a caller's own metric or estimator.
        sweeps = []
    found = popularity_weights(next(iter(samples.values())), definitions[1], propensity)
    return Drawn(
        tuple(one for one in sweeps if one is not None),
        {str(name): column.tolist() for name, column in found.items()},
    )


def _swept(
    verdict: Verdict, samples: Mapping[str, Sample], definitions: Definitions, propensity: Propensity
) -> Swept | None:
    (metric,) = [one for one in definitions[0] if one.label == verdict.metric]
    ranked = verdict.order[:N_STYLES]
    if not verdict.weighted or not ranked:
        return None
    (estimator,) = [one for one in definitions[1] if one.label == verdict.weighted]
    first = samples[ranked[0]]
    form = estimator.linear_form(metric, first.ranked, is_probability=first.is_probability)
    is_linear = form is not None and first.contributions(metric) is not None
    heavy = not is_linear and len(first.ranked) * len(ranked) * len(GAMMAS) > MOST_VALUES
    ranked, gammas = (ranked[:FEWER], GAMMAS[::2]) if heavy else (ranked, GAMMAS)
    at = float(propensity.gamma or 0.0)
    found = sensitivity(
        {model: samples[model] for model in ranked},
        [metric],
        [estimator],
        propensity,
        gamma=np.union1d(gammas, at),
        standard_errors=False,
    )
    rows = found.frame.groupby("model")["estimate"]
    swaps = []
    for row in found.tipping_points(ranked[0], tolerance=PRECISION).to_dict("records"):
        other = row["other"] if row["model"] == ranked[0] else row["model"]
        swaps.append((other, row["tipping_points"], row["statement"]))
    values = {model: rows.get_group(model).to_numpy() for model in ranked}
    return Swept(metric.label, estimator.label, found.gamma, values, at, tuple(swaps))


GAMMA = (
    "γ says how much more often popular items are shown: P ∝ (n*)^((γ+1)/2), n* the training interactions of "
    "an item. At −1 all weights are equal. The larger γ is, the less popular items count."
)


@dataclass(frozen=True, eq=False)
class PageData:
    """What the page of an evaluation shows beyond its tables."""

    differences: pd.DataFrame | None
    diagnostics: pd.DataFrame
    data: pd.DataFrame
    verdicts: Sequence[Verdict]
    flags: Mapping[tuple[str, str], str]
    models: Sequence[str]
    drawn: Drawn
    cards: Mapping[str, str]
    provenance: Mapping[str, object]


def page_parts(page: PageData) -> list[Part]:
    """Return the sections below the tables."""
    return [
        *_differences(page),
        *_sensitivity(page),
        *_popularity(page),
        *_weights(page.diagnostics, page.data),
        *_data(page.data),
        Heading("Definitions and claims"),
        *(Code(name, text) for name, text in page.cards.items()),
        Heading("Provenance"),
        _pairs(page.provenance),
    ]


def _differences(page: PageData) -> list[Part]:
    """Return a table per metric: every recommender minus the highest, by every estimator, with a picture."""
    if page.differences is None:
        return []
    parts: list[Part] = [
        Heading("Differences"),
        "Paired differences on the same users, with intervals. A difference whose interval holds 0 may be "
        f"chance. Holm's correction is over the pairs of a column; p < {LEVEL:g} tells two apart.",
    ]
    for verdict in page.verdicts:
        behind = [model for model in verdict.order if model != verdict.first]
        rows = page.differences[page.differences["metric"] == verdict.metric]
        estimators = list(dict.fromkeys(rows["estimator"]))
        columns, header = [], ["recommender"]
        for label in estimators:
            flag = page.flags.get((verdict.metric, label), "")
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
        return Cell(_signed(gap, 4), "not tested", flag=flag)
    places = decimals([high - low])
    bounds = f"[{_signed(low, places)}, {_signed(high, places)}]"
    return Cell(
        _signed(gap, places),
        f"{bounds} {shown_p(p_value)}",
        strong=p_value < LEVEL and not flag,
        flag=flag,
        at=(low, gap, high),
    )


def _signed(value: float, places: int) -> str:
    return f"{value:+.{places}f}".replace("-", "−")


def _sensitivity(page: PageData) -> list[Part]:
    """Return how the estimates change with γ, and where the highest recommender is passed."""
    parts: list[Part] = []
    for one in page.drawn.sweeps:
        n_others = len(page.models) - len(one.values)
        others = [f"The {n_others} lower ones are not drawn."] if n_others else []
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


def _popularity(page: PageData) -> list[Part]:
    """Return the share of the weight beside the share of the positives, from rare items to popular ones."""
    found = pd.DataFrame(dict(page.drawn.popularity))
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


def _weights(diagnostics: pd.DataFrame, data: pd.DataFrame) -> list[Part]:
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


def _pairs(named: Mapping[str, object]) -> Table:
    rows = tuple((Cell(name), Cell(str(value))) for name, value in named.items())
    return Table(("key", "value"), rows, "Versions, options and data", words=frozenset({0, 1}), folded=True)
