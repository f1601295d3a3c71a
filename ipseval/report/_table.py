"""The table behind Markdown, LaTeX and HTML: cells with interval, best of column, and paired tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ipseval.inference import Correction, compare

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation

# The letters that claims are written in.
SYMBOLS = (
    "P: propensity, the chance that a relevant item is observed; S*_u: held-out positives of user u;\n"
    "s_u: number of all relevant items of user u"
)
CORRECTION_WORDS = {"holm": "Holm", "bh": "Benjamini–Hochberg", "bonferroni": "Bonferroni"}


@dataclass(frozen=True)
class Cell:
    """One estimate in a table.

    Attributes
    ----------
    value, std_error, ci_low, ci_high : float
        In the unit of the metric; NaN where undefined.
    best : bool
        Whether it is the largest of its column.
    below_best : bool
        Whether it differs from the best of its column in a paired test, adjusted within the column.
    moved : int
        Places won (+) or lost (−) against the first estimator's order.
    flag : str
        Why it should not be trusted; empty when nothing is wrong.
    """

    value: float
    std_error: float
    ci_low: float
    ci_high: float
    best: bool
    below_best: bool
    moved: int
    flag: str


@dataclass(frozen=True)
class Leaderboard:
    """The cells of one metric: `cells[model][estimator]`, recommenders in the first estimator's order."""

    metric: str
    estimators: list[str]
    cells: dict[str, dict[str, Cell]]


def leaderboards(
    evaluation: Evaluation, *, correction: Correction = "holm", level: float = 0.05
) -> list[Leaderboard]:
    """Return one leaderboard per metric.

    Paired tests compare every recommender with the best of its column; `correction` holds within the column
    over all its pairs.
    """
    several = len(evaluation.models) > 1
    tests = compare(evaluation.estimates, correction=correction) if several else None
    significant = set()
    if tests is not None:
        for row in tests[tests["p_adjusted"] < level].to_dict(orient="records"):
            significant.add((row["metric"], row["estimator"], frozenset((row["model"], row["reference"]))))
    boards = []
    for metric in evaluation.metrics:
        places = {label: _places(evaluation, metric, label) for label in evaluation.estimators}
        first = places[evaluation.estimators[0]]
        models = sorted(evaluation.models, key=lambda model: first[model])
        cells: dict[str, dict[str, Cell]] = {model: {} for model in models}
        for label in evaluation.estimators:
            best = min(places[label], key=lambda model: places[label][model])
            for model in models:
                one = evaluation.estimate(model, metric, label)
                interval = evaluation.intervals[model, metric, label]
                differs = (metric, label, frozenset((model, best))) in significant
                cells[model][label] = Cell(
                    value=one.value,
                    std_error=interval.std_error,
                    ci_low=interval.low,
                    ci_high=interval.high,
                    best=several and model == best and not np.isnan(one.value),
                    below_best=differs,
                    moved=first[model] - places[label][model],
                    flag=evaluation.weights[label].flag,
                )
        boards.append(Leaderboard(metric, evaluation.estimators, cells))
    return boards


def footnotes(evaluation: Evaluation, *, correction: Correction = "holm", level: float = 0.05) -> list[str]:
    """Return what has to stand below every table: how to read it, claims, notes."""
    words = CORRECTION_WORDS.get(str(correction), "no")
    notes = ["± one standard error over users."]
    if len(evaluation.models) > 1:
        notes[0] += (
            " Bold: best of its column. †: differs from the best, paired test, "
            f"{words} correction over pairs of the column, p < {level:g}."
        )
    if len(evaluation.models) > 1 and len(evaluation.estimators) > 1:
        notes.append(f"↑↓: places won or lost against the order by {evaluation.estimators[0]}.")
    said: dict[str, list[str]] = {}
    for label in evaluation.estimators:
        by_claim: dict[str, dict[str, None]] = {}
        texts: dict[str, None] = {}
        for (_, metric, estimator), one in evaluation.estimates.items():
            if estimator == label:
                by_claim.setdefault(str(one.claim), {})[metric] = None
                texts.update(dict.fromkeys(one.notes))
        for claim, metrics in by_claim.items():
            on = "" if len(by_claim) == 1 else f" ({', '.join(metrics)})"
            notes.append(f"{label}{on}: {claim}.")
        weights = evaluation.weights[label]
        if weights.flag:
            notes.append(f"{label}: NOT TO BE TRUSTED: {weights.flag}.")
        if weights.remark:
            notes.append(f"{label}: {weights.remark}.")
        for text in (*texts, *weights.cautions):
            said.setdefault(text, []).append(label)
    notes += [f"{', '.join(labels)}: {text}." for text, labels in said.items()]
    notes.append(SYMBOLS.replace("\n", " ") + ".")
    return notes


def arrow(moved: int) -> str:
    """Return ↑n or ↓n for places won or lost, empty for none."""
    return "" if moved == 0 else f"{'↑' if moved > 0 else '↓'}{abs(moved)}"


def _places(evaluation: Evaluation, metric: str, label: str) -> dict[str, int]:
    """Return the place of every recommender, 0 for the best; undefined values come last."""
    values = {model: evaluation.estimate(model, metric, label).value for model in evaluation.models}
    order = sorted(values, key=lambda model: np.inf if np.isnan(values[model]) else -values[model])
    return {model: place for place, model in enumerate(order)}
