"""What a validation concludes, in words: which weights come nearest to random exposure, and what is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ipseval.report._tables import Remark

BENCHMARK = "random-sample"  # the plain average over random positives of other users


def remarks(summary: pd.DataFrame, data: str) -> tuple[Remark, ...]:
    """Return the verdict, and what was left out."""
    metrics = summary.groupby("metric", sort=False)
    one = len(metrics) == 1
    verdict = [_verdict(part, "" if one else f"By {metric}, ") for metric, part in metrics]
    return Remark("Verdict", tuple(verdict)), Remark("Data", (data,))


def _verdict(rows: pd.DataFrame, before: str) -> str:
    """Return which weights come nearest by one metric, whether bias is left, and the order."""
    weighted = rows[rows["propensity"] != BENCHMARK]
    if weighted["reduction"].isna().all():
        return f"{before}no weighted estimate is defined."
    best: dict[Any, Any] = weighted.sort_values("reduction", kind="stable").to_dict("records")[-1]
    name = f"{best['propensity']} with {best['estimator']}"
    share = f"{best['reduction']:.0%} of the plain average's error"
    if not pd.isna(best["reduction_low"]):
        share = f"{best['reduction']:.0%} [{best['reduction_low']:.0%}, {best['reduction_high']:.0%}]"
        share += " of the plain average's error"
    if best["reduction"] <= 0:
        return f"{before}no weights come nearer to random exposure than the plain average does."
    texts = [f"{before}{name} comes nearest to random exposure: it removes {share}."]
    if best["reduction_low"] <= 0:
        texts = [f"{before}no weights are shown to help. {name} comes nearest: it removes {share}."]
    if not pd.isna(best["falls_short"]):
        unbiased = f"an unbiased estimate would remove {best['if_unbiased']:.0%}"
        texts.append(
            f"Bias is left: {unbiased}." if best["falls_short"] else f"What is left is noise: {unbiased}."
        )
    return " ".join([*texts, *_order(best)])


def _order(row: Mapping[Any, Any]) -> list[str]:
    """Return whether recommenders stand in a better order than by the plain average; nothing if unknown."""
    if pd.isna(row["tau_b"]) or pd.isna(row["tau_b_aoa"]):
        return []
    values = f"(tau {row['tau_b']:.2f}, plain {row['tau_b_aoa']:.2f})"
    if row["tau_change_low"] > 0:
        return [f"Its order of recommenders is better than the plain one {values}."]
    if row["tau_change_high"] < 0:
        return [f"Its order of recommenders is worse than the plain one {values}."]
    return [f"Its order of recommenders is not clearly better or worse {values}."]
