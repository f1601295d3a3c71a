"""Metric cards: the definition and the claims of a metric as text."""

from __future__ import annotations

from typing import ClassVar, cast

from ipseval.metrics._base import Metric
from ipseval.metrics._claims import claim
from ipseval.metrics._conventions import differences

ESTIMATORS_SHOWN = ("aoa", "aoa-pooled", "ips", "snips", "snips-global", "snips-pooled")
TIE_WORDS = {
    "mean": "mean rank, above + tied/2 + 1",
    "expected": "exact expectation over random tie breaking",
}


def card(metric: Metric) -> str:
    """Return the card of a metric: formula, denominators, discount, ties, users left out, claims.

    Claims are those with P on the scale of probabilities and s_u known; each result states its own.
    """
    words = metric.definition
    empty = "the constant of its formula" if metric.label == "auc" else "0"
    lines = [
        metric.label,
        f"  formula      {words.formula}",
        f"  denominator  {words.denominator}",
        f"  discount     {words.discount}",
        f"  cutoff       {'none: the whole ranking' if metric.cutoff is None else f'k = {metric.cutoff}'}",
        f"  ties         {TIE_WORDS[metric.default_ties]} (default)",
    ]
    if getattr(metric, "library", None):
        return "\n".join([*lines, f"  left out     {words.undefined}", "  estimators   aoa only"])
    lines += [
        f"  left out     {words.undefined}; ips counts a user without positives as {empty}",
        f"  with weights {words.plug_in}",
        "  claims",
    ]
    for label in ESTIMATORS_SHOWN:
        text = claim(metric, label, is_probability=True, n_relevant="known")
        lines.append(f"    {label:<13}{text}")
    elsewhere = [] if "(" in metric.label and "rbp" not in metric.label else differences(_name(metric))
    if elsewhere:
        lines += ["  elsewhere (compat=)", *(f"    {text}" for text in elsewhere)]
    return "\n".join(lines)


def _name(metric: Metric) -> str:
    return metric.label.partition("@")[0].partition("(")[0]


class Labelled:
    """Gives a metric its printed form: the label as repr, and the card."""

    by_user: ClassVar[bool] = True  # a user's value depends on that user's positives alone

    def __repr__(self) -> str:
        return str(self.label)  # type: ignore[attr-defined]  # a field of every metric

    def card(self) -> str:
        """Return the definition of the metric and what is claimed of each estimator, as text."""
        return card(cast("Metric", self))
