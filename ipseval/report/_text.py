"""The printed form of an evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ipseval._checks import counted
from ipseval.report._table import SYMBOLS

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation


def to_text(evaluation: Evaluation) -> str:
    """Return the evaluation as plain text: what was evaluated, one block per metric, how to read it."""
    blocks = [_headline(evaluation)]
    blocks += [_block(evaluation, metric) for metric in evaluation.metrics]
    blocks.append(_footer(evaluation))
    return "\n\n".join(blocks)


def _headline(evaluation: Evaluation) -> str:
    sample = next(iter(evaluation.samples.values()))
    ranked = sample.ranked
    lines = [
        f"{counted(len(evaluation.models), 'recommender')}, {counted(len(ranked), 'held-out positive')} of "
        f"{counted(ranked.users.size, 'user')} ({np.median(ranked.counts):g} each in the median)",
        f"candidates: {ranked.candidates}",
    ]
    if evaluation.propensity is not None:
        scale = "" if evaluation.propensity.is_probability else ", known up to a factor"
        lines.append(f"propensity: {evaluation.propensity.model}{scale}")
    if sample.n_without_propensity:
        number = sample.n_without_propensity
        has = "has" if number == 1 else "have"
        lines.append(f"left out:   {counted(number, 'positive')} that {has} no propensity")
    return "\n".join(lines)


def _block(evaluation: Evaluation, metric: str) -> str:
    labels, models = evaluation.estimators, evaluation.models
    several = len(models) > 1
    width = max(len(text) for text in (metric, *models))
    column = max(19, *(len(label) + 2 for label in labels))
    lines = [f"{metric:<{width}}" + "".join(f"{label:>{column}}" for label in labels)]
    best = {label: _order(evaluation, metric, label)[0] for label in labels}
    for model in models:
        cells = [
            _cell(evaluation, (model, metric, label)) + ("*" if several and best[label] == model else " ")
            for label in labels
        ]
        lines.append(f"{model:<{width}}" + "".join(f"{cell:>{column}}" for cell in cells))
    flagged = [label for label in labels if evaluation.weights[label].flag]
    if flagged:
        lines.append(f"  not to be trusted, see below: {', '.join(flagged)}")
    return "\n".join(lines + _changes_of_order(evaluation, metric))


def _changes_of_order(evaluation: Evaluation, metric: str) -> list[str]:
    """Return one line per order of the recommenders that differs from that of the first estimator."""
    by_order: dict[str, list[str]] = {}
    for label in evaluation.estimators:
        by_order.setdefault(" > ".join(_order(evaluation, metric, label)), []).append(label)
    if len(by_order) == 1:
        return []
    return [f"  order by {', '.join(labels)}: {order}" for order, labels in by_order.items()]


def _cell(evaluation: Evaluation, key: tuple[str, str, str]) -> str:
    one, error = evaluation.estimates[key], evaluation.intervals[key].std_error
    if np.isnan(one.value):
        return "withheld" if one.withheld else "undefined"
    return f"{one.value:.4f}" if np.isnan(error) else f"{one.value:.4f} ± {error:.4f}"


def _order(evaluation: Evaluation, metric: str, estimator: str) -> list[str]:
    def key(model: str) -> float:
        value = evaluation.estimate(model, metric, estimator).value
        return np.inf if np.isnan(value) else -value

    return sorted(evaluation.models, key=key)


def _footer(evaluation: Evaluation) -> str:
    best = "; * best of its column" if len(evaluation.models) > 1 else ""
    lines = [f"± one standard error over users{best}"]
    for label in evaluation.estimators:
        estimates = {key: one for key, one in evaluation.estimates.items() if key[2] == label}
        by_claim: dict[str, dict[str, None]] = {}
        for (_, metric, _), one in estimates.items():
            by_claim.setdefault(str(one.claim), {})[metric] = None
        for claim, metrics in by_claim.items():
            on = "" if len(by_claim) == 1 else f" ({', '.join(metrics)})"
            lines.append(f"{label}{on}: {claim}")
        weights = evaluation.weights[label]
        if weights.flag:
            lines.append(f"  NOT TO BE TRUSTED: {weights.flag}")
        if weights.remark:
            lines.append(f"  {weights.remark}")
        said = dict.fromkeys(evaluation.intervals[key].note for key in estimates)
        lines += [f"  interval: {note}" for note in said if note]
        notes = dict.fromkeys(note for one in estimates.values() for note in one.notes)
        lines += [f"  note: {note}" for note in notes if "without a propensity" not in note]
    by_caution: dict[str, list[str]] = {}
    for label in evaluation.estimators:
        for words in evaluation.weights[label].cautions:
            by_caution.setdefault(words, []).append(label)
    lines += [f"caution ({', '.join(labels)}): {words}" for words, labels in by_caution.items()]
    lines += SYMBOLS.split("\n")
    return "\n".join(lines)
