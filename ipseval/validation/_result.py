"""Validation: what came out, as a tidy frame, a summary, a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval.inference.intervals import normal_interval
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Heading, Notes, Part, Remark, Table
from ipseval.utils.checks import check_choice, counted
from ipseval.utils.types import FloatArray
from ipseval.validation._criteria import CRITERIA

MAE = CRITERIA.index("mae")
TAU = CRITERIA.index("tau_b")
POWER = 0.8  # of the smallest bias that a verdict names
RANDOM_SAMPLE = "random-sample"  # the plain average over random positives of other users
ROUNDING = 1e-12  # of a share of an error; below it, nothing is removed


@dataclass(frozen=True, eq=False)
class Cell:
    """One metric × propensity × estimator, averaged over splits: criteria of the estimator and of AOA."""

    estimator: FloatArray  # (1 + n_resamples, 6): the value itself, then the bootstrap over users
    baseline: FloatArray  # the same of AOA
    noise: float  # mean absolute error of an unbiased estimator of that variance


@dataclass(frozen=True, eq=False, repr=False)
class Validation(Result):
    """Bias of every estimator against random exposure.

    Attributes
    ----------
    frame : DataFrame
        One row per split, model, metric, propensity and estimator: reference and estimate with standard
        errors, bias = estimate − reference with the standard error of the difference, the factor Λ by which
        weights must be wrong to reach the reference (and to reach it within noise), counts, and weight
        diagnostics. `target` says what the estimator averages, and so which reference it has ("user" or
        "pooled"); `reference_pooled` is the pooled one in every row. Rows of the propensity `random-sample`
        have a `fold`: their reference is that of the users in it, the estimate is from all other users.
    cells : dict
        (metric, propensity, estimator) -> criteria over models, with bootstrap.
    name : str
        Of the study.
    n_splits, n_resamples : int
    n_users : int
        Users of the study.
    n_exposed : int
        Users with random exposure, over whom pooled averages are compared.
    n_compared : float
        Users with held-out and random positives, over whom averages over users are compared; mean over
        splits, 0 where no estimator is such an average.
    n_models : int
    n_random_dropped : float
        Random-exposure positives left out because they are training pairs, mean over splits.
    notes : tuple of str
        What the propensity models warned about, once each.
    confidence_level : float
    """

    frame: pd.DataFrame
    cells: dict[tuple[str, str, str], Cell]
    name: str
    n_splits: int
    n_resamples: int
    n_users: int
    n_exposed: int
    n_compared: float
    n_models: int
    n_random_dropped: float
    notes: tuple[str, ...] = ()
    confidence_level: float = 0.95

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row per metric, propensity and estimator: error of the level and of the order.

        mae: mean over models (and splits) of |estimate − reference|; mae_aoa: the same for the plain average
        on the same positives; reduction = 1 − mae/mae_aoa with a bootstrap interval over users;
        if_unbiased: the reduction that an unbiased estimator of the same variance would show, as reference
        and estimate are noisy; falls_short: whether the interval lies below that, so that bias is left which
        noise does not explain (NA without resamples). Rows of `random-sample` are means over folds: users
        outside a fold estimate, those within it judge. tau_b, src, ipc (inverted pairs), or1 (best model
        found), regret: order of the models against the reference, `…_aoa` for the plain average; tau_change
        = tau_b − tau_b_aoa.
        """
        rows = []
        for key, cell in self.cells.items():
            own, aoa = cell.estimator, cell.baseline
            row: dict[str, Any] = dict(zip(("metric", "propensity", "estimator"), key, strict=True))
            row |= {"mae": own[0, MAE], "mae_aoa": aoa[0, MAE]}
            row |= self._with_interval("reduction", 1 - own[:, MAE] / aoa[:, MAE])
            high, best = row["reduction_high"], 1 - cell.noise / aoa[0, MAE]
            row |= {"if_unbiased": best, "falls_short": None if np.isnan(high) else bool(high < best)}
            row |= self._with_interval("tau_change", own[:, TAU] - aoa[:, TAU])
            for name, values in (("", own), ("_aoa", aoa)):
                row |= {f"{one}{name}": value for one, value in zip(CRITERIA[1:], values[0, 1:], strict=True)}
            rows.append(row)
        return pd.DataFrame(rows).astype({"falls_short": "boolean"})

    def _with_interval(self, name: str, values: FloatArray) -> dict[str, float]:
        """Return value ∓ z · sd of the resamples; a percentile interval would be shifted by their noise."""
        spread = float(np.nanstd(values[1:], ddof=1)) if values.size > 2 else float("nan")
        ends = normal_interval(float(values[0]), spread, confidence_level=self.confidence_level)
        return {name: values[0], f"{name}_low": ends[0], f"{name}_high": ends[1]}

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: what each weighting removes of the plain average's error, and the verdict."""
        names = {
            "mae": "error",
            "mae_aoa": "of aoa",
            "reduction": "removed",
            "reduction_low": "removed_low",
            "reduction_high": "removed_high",
            "if_unbiased": "if unbiased",
            "tau_b": "order (tau)",
            "tau_b_aoa": "of aoa's",
        }
        formats = dict.fromkeys(("error", "of aoa"), ".4f")
        formats |= dict.fromkeys(("removed", "if unbiased"), "z.0%")
        formats |= dict.fromkeys(("order (tau)", "of aoa's"), f".{digits}f")
        parts: list[Part] = [
            Table.of(
                part.sort_values("reduction", ascending=False)[["propensity", "estimator", *names]].rename(
                    columns=names
                ),
                str(metric),
                formats=formats,
                n_keys=2,
            )
            for metric, part in self.summary.groupby("metric", sort=False)
        ]
        sizes = {"recommender": self.n_models, "split": self.n_splits, "user": self.n_users}
        counts = [counted(number, noun) for noun, number in sizes.items()]
        level = f"{self.confidence_level * 100:g}% intervals in brackets"
        dropped = counted(round(self.n_random_dropped), "random-exposure positive")
        return Tables(
            (" · ".join([*counts, level]),),
            tuple(parts),
            title=f"Validation on {self.name}",
            warnings=self.notes,
            verdict=(
                Remark("Verdict", _verdicts(self.summary, self.confidence_level)),
                Remark("Data", (f"Left out as training pairs: {dropped}.",)),
            ),
            hint="More: .explain()",
            appendix=(
                Heading("How it was made"),
                Notes((f"{', '.join(counts)}.", *self._how())),
                Table.of(self.summary, "Every criterion", intervals=False, folded=True),
                Table.of(self.frame, "Every estimate", intervals=False, folded=True),
            )
            if page
            else (),
        )

    def _how(self) -> tuple[str, ...]:
        return (
            f"Pooled averages are over the {counted(self.n_exposed, 'user')} with random exposure. Averages "
            f"over users are over {self.n_compared:,.0f} of them, with held-out and random positives.",
            f"{self.n_random_dropped:,.0f} random-exposure positives are training pairs and left out.",
            "Error is the mean distance of the recommenders' estimates from random exposure. Removed is the "
            f"share of the plain average's error that is gone, with its {self.confidence_level:.0%} interval "
            f"({self.n_resamples:,} resamples of users).",
            "If unbiased: the share that an unbiased estimate of the same noise would remove. Order (tau): "
            "Kendall's tau-b of the recommenders against random exposure.",
            "random-sample is the plain average over random positives of other users, to compare with.",
        )

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Return axes with the reductions and their intervals, of one metric and estimator or of all."""
        from ipseval.reporting.plots import plot_validation

        asked = {"metric": metric, "estimator": estimator}
        frame = self.summary
        for name, value in asked.items():
            if value is not None:
                check_choice(name, value, dict.fromkeys(frame[name]))
                frame = frame[frame[name] == value]
        return plot_validation(frame, ax=ax)


def _verdicts(summary: pd.DataFrame, level: float) -> tuple[str, ...]:
    """Return the verdict by each metric."""
    metrics = summary.groupby("metric", sort=False)
    one = len(metrics) == 1
    return tuple(_verdict(part, "" if one else f"By {metric}, ", level) for metric, part in metrics)


def _verdict(rows: pd.DataFrame, before: str, level: float) -> str:
    """Return which weights come nearest by one metric, whether bias is left, and the order."""
    weighted = rows[rows["propensity"] != RANDOM_SAMPLE]
    if weighted["reduction"].isna().all():
        return f"{before}no weighted estimate is defined."
    best: dict[Any, Any] = weighted.sort_values("reduction", kind="stable").to_dict("records")[-1]
    if best["if_unbiased"] <= 0:
        return f"{before}the plain average's error is within noise: there is no bias to remove."
    if best["reduction"] <= ROUNDING:
        return f"{before}no weights come nearer to random exposure than the plain average does."
    name, share = f"{best['propensity']} with {best['estimator']}", f"{best['reduction']:z.0%}"
    if not pd.isna(best["reduction_low"]):
        share += f" [{best['reduction_low']:z.0%}, {best['reduction_high']:z.0%}]"
    tried = f", the best of {len(weighted)} tried" if len(weighted) > 1 else ""
    nearest = f"comes nearest to random exposure{tried}: it removes {share} of the plain"
    texts = [f"{name} {nearest} average's error."]
    if best["tau_change_high"] < 0:
        texts.insert(0, "no weights to decide with: the order is worse than the plain one.")
    elif best["reduction_low"] <= 0:
        texts.insert(0, "no weights are shown to help.")
    return before + " ".join([*texts, *_left(best, level), *_order(best)])


def _left(row: Mapping[Any, Any], level: float) -> list[str]:
    """Return whether bias is left, and how much would have been found; nothing if unknown."""
    if pd.isna(row["falls_short"]):
        return []
    unbiased = f"an unbiased estimate would remove {row['if_unbiased']:.0%}"
    if row["falls_short"]:
        return [f"Bias is left: {unbiased}."]
    # The interval ends z standard errors above the share; a shortfall of z + z_power is found so often.
    z = ndtri((1 + level) / 2)
    smallest = (row["reduction_high"] - row["reduction"]) * (1 + ndtri(POWER) / z)
    found = f"Bias of {smallest:.0%} of that error would have been found in {POWER:.0%} of samples."
    return [f"No bias is found in what is left: {unbiased}.", found]


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
