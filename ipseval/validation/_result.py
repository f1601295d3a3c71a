"""Validation: results as a tidy frame, a summary and a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval.inference.intervals import compute_normal_interval
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.reporting.tables import EXPLAIN_HINT, Heading, Notes, Part, Remark, Table
from ipseval.utils.checks import check_choice, format_count
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray
from ipseval.validation._criteria import CRITERIA

MAE = CRITERIA.index("mae")
TAU = CRITERIA.index("tau_b")
POWER = 0.8  # of the smallest bias that a verdict names
RANDOM_SAMPLE = "random-sample"  # the unweighted average over random positives of other users
ROUNDING = 1e-12  # relative reductions of an error up to this size are rounding errors
# Columns of the summary in a report, with their headers.
REPORT_COLUMNS = {
    "propensity": "propensity",
    "estimator": "estimator",
    "mae": "error",
    "mae_aoa": "AOA error",
    "reduction": "reduction",
    "reduction_low": "reduction_low",
    "reduction_high": "reduction_high",
    "if_unbiased": "if unbiased",
    "tau_b": "tau",
    "tau_b_aoa": "AOA tau",
}


@dataclass(frozen=True, eq=False)
class Cell:
    """One metric × propensity × estimator, averaged over splits: criteria of the estimator and of AOA."""

    estimator: FloatArray  # (1 + n_resamples, 6): the value itself, then the bootstrap over users
    baseline: FloatArray  # the same for AOA
    noise: float  # mean absolute error of an unbiased estimator with the same variance


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Validation(Result):
    """Bias of every estimator against random exposure.

    Parameters
    ----------
    frame : DataFrame
        One row per split, model, metric, propensity and estimator: reference and estimate with standard
        errors, bias = estimate − reference with the standard error of the difference, the factor Λ by which
        weights must be wrong to reach the reference (and to reach it within noise), counts, and weight
        diagnostics. `target` is the average that the estimator estimates, and so its reference ("user" or
        "pooled"); `reference_pooled` is the pooled reference in every row. Rows of the propensity
        `random-sample` have a `fold`: their reference is of the users in the fold, and the estimate is from
        all other users.
    cells : dict
        (metric, propensity, estimator) -> criteria over models, with bootstrap.
    name : str
        Name of the study.
    n_splits : int
        Splits of the biased positives.
    n_resamples : int
        Bootstrap resamples of users; 0: no intervals of the error reduction.
    n_users : int
        Users of the study.
    n_exposed : int
        Users with random exposure, over whom pooled averages are compared.
    n_compared : float
        Users with held-out and random positives, over whom averages over users are compared; mean over
        splits, 0 where no estimator is such an average.
    n_models : int
        Number of recommenders.
    n_random_dropped : float
        Random-exposure positives left out because they are training pairs, mean over splits.
    notes : tuple of str
        Warnings of the propensity models, once each.
    confidence_level : float, default 0.95
        Level of all intervals.

    See Also
    --------
    validate : Measure the bias of estimators against random exposure.

    Examples
    --------
    >>> from ipseval import baselines, simulation
    >>> world = simulation.World(n_users=300, n_items=60, mean_relevant=12, rng=0)
    >>> models = {"popular": baselines.popularity, "kNN": baselines.item_knn}
    >>> from ipseval import PowerLawPropensity, validate
    >>> validation = validate(
    ...     models,
    ...     world.study(rng=2),
    ...     propensities={"gamma = 0": PowerLawPropensity(gamma=0, unseen="smooth")},
    ...     metrics=["recall@5"],
    ...     n_resamples=100,
    ...     rng=0,
    ... )
    >>> columns = ["model", "estimator", "reference", "estimate", "bias"]
    >>> validation.frame.loc[validation.frame["propensity"] == "gamma = 0", columns].round(2)
          model     estimator  reference  estimate  bias
    8   popular  snips-global       0.22      0.32  0.10
    9       kNN  snips-global       0.17      0.20  0.03
    10  popular  snips-pooled       0.23      0.33  0.10
    11      kNN  snips-pooled       0.17      0.21  0.04
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
        """One row per metric, propensity and estimator: errors of values and of the ranking.

        mae: mean over models (and splits) of |estimate − reference|; mae_aoa: the same for AOA on the same
        positives; reduction = 1 − mae/mae_aoa with a bootstrap interval over users; if_unbiased: the
        reduction that an unbiased estimator with the same variance would have, as reference and estimate are
        noisy; falls_short: whether the interval lies below if_unbiased, so that bias remains which noise does
        not explain (NA without resamples). Rows of `random-sample` are means over folds: the estimate is from
        users outside a fold, the reference from users within it. tau_b, src, ipc (inverted pairs), or1 (the
        best model is found), regret: ranking of the models compared with the reference, and `…_aoa` for AOA;
        tau_change = tau_b − tau_b_aoa.
        """
        rows = []
        for (metric, propensity, estimator), cell in self.cells.items():
            errors = cell.estimator[:, MAE]
            aoa_errors = cell.baseline[:, MAE]
            row: dict[str, Any] = {"metric": metric, "propensity": propensity, "estimator": estimator}
            row["mae"] = errors[0]
            row["mae_aoa"] = aoa_errors[0]
            row.update(self._compute_interval("reduction", 1 - errors / aoa_errors))
            if_unbiased = 1 - cell.noise / aoa_errors[0]
            row["if_unbiased"] = if_unbiased
            row["falls_short"] = None
            if not np.isnan(row["reduction_high"]):
                row["falls_short"] = bool(row["reduction_high"] < if_unbiased)
            row.update(self._compute_interval("tau_change", cell.estimator[:, TAU] - cell.baseline[:, TAU]))
            for suffix, values in (("", cell.estimator[0]), ("_aoa", cell.baseline[0])):
                for criterion, value in zip(CRITERIA, values, strict=True):
                    if criterion != "mae":
                        row[f"{criterion}{suffix}"] = value
            rows.append(row)
        return pd.DataFrame(rows).astype({"falls_short": "boolean"})

    def _compute_interval(self, name: str, values: FloatArray) -> dict[str, float]:
        """Return value ∓ z · sd of the resamples; a percentile interval would be shifted by their noise."""
        std_error = float(np.nanstd(values[1:], ddof=1)) if values.size > 2 else float("nan")
        low, high = compute_normal_interval(
            float(values[0]), std_error, confidence_level=self.confidence_level
        )
        return {name: values[0], f"{name}_low": low, f"{name}_high": high}

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: the error reduction of each weighting compared with AOA, and the verdict.

        Parameters
        ----------
        digits : int, default 2
            Number of decimal places of Kendall's tau-b.
        page : bool, default False
            Whether to add the appendix of an HTML page.

        Returns
        -------
        Tables
            A table per metric with the largest reduction first, warnings of the propensities and the verdict.
        """
        formats = {
            "error": ".4f",
            "AOA error": ".4f",
            "reduction": "z.0%",
            "if unbiased": "z.0%",
            "tau": f".{digits}f",
            "AOA tau": f".{digits}f",
        }
        parts: list[Part] = []
        for metric, rows in self.summary.groupby("metric", sort=False):
            ordered = rows.sort_values("reduction", ascending=False)
            columns = ordered[list(REPORT_COLUMNS)].rename(columns=REPORT_COLUMNS)
            parts.append(Table.from_frame(columns, str(metric), formats=formats, n_keys=2))
        level = f"{self.confidence_level * 100:g}% intervals in brackets"
        n_dropped = format_count(round(self.n_random_dropped), "random-exposure positive")
        return Tables(
            (" · ".join([*self._list_sizes(), level]),),
            tuple(parts),
            title=f"Validation on {self.name}",
            warnings=self.notes,
            remarks=(
                Remark("Verdict", _describe_verdicts(self.summary, self.confidence_level)),
                Remark("Data", (f"Left out as training pairs: {n_dropped}.",)),
            ),
            hint=EXPLAIN_HINT,
            appendix=self._build_appendix() if page else (),
        )

    def _list_sizes(self) -> list[str]:
        """Return the numbers of recommenders, splits and users as text."""
        return [
            format_count(self.n_models, "recommender"),
            format_count(self.n_splits, "split"),
            format_count(self.n_users, "user"),
        ]

    def _build_appendix(self) -> tuple[Part, ...]:
        """Return the method and the full tables, for a page."""
        return (
            Heading("How it was made"),
            Notes((f"{', '.join(self._list_sizes())}.", *self._describe_method())),
            Table.from_frame(self.summary, "Every criterion", intervals=False, folded=True),
            Table.from_frame(self.frame, "Every estimate", intervals=False, folded=True),
        )

    def _describe_method(self) -> tuple[str, ...]:
        """Return the sentences that explain populations, columns and rows of the report."""
        return (
            f"Pooled averages are over the {format_count(self.n_exposed, 'user')} with random exposure. Averages "
            f"over users are over {self.n_compared:,.0f} of them, with held-out and random positives.",
            f"{self.n_random_dropped:,.0f} random-exposure positives are training pairs and left out.",
            "Error is the mean absolute difference of the recommenders' estimates from random exposure. "
            f"Reduction is the relative reduction of the error of AOA, with its {self.confidence_level:.0%} "
            f"interval ({self.n_resamples:,} resamples of users).",
            "If unbiased: the reduction by an unbiased estimate with the same noise. Tau: Kendall's tau-b of "
            "the ranking of recommenders against random exposure.",
            "random-sample is the unweighted average over random positives of other users, for comparison.",
        )

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Plot the error reductions and their intervals.

        Parameters
        ----------
        metric : str, optional
            Label of the metric. Default: all metrics.
        estimator : str, optional
            Label of the estimator. Default: all estimators.
        ax : matplotlib axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib axes
            Axes with the plot, for further changes.
        """
        from ipseval.reporting.plots import plot_validation

        frame = self.summary
        for column, value in (("metric", metric), ("estimator", estimator)):
            if value is not None:
                check_choice(column, value, dict.fromkeys(frame[column]))
                frame = frame[frame[column] == value]
        return plot_validation(frame, ax=ax)


def _describe_verdicts(summary: pd.DataFrame, level: float) -> tuple[str, ...]:
    """Return the verdict by each metric."""
    metrics = summary.groupby("metric", sort=False)
    verdicts = []
    for metric, rows in metrics:
        prefix = f"By {metric}, " if len(metrics) > 1 else ""
        verdicts.append(prefix + describe_verdict(rows, level))
    return tuple(verdicts)


def describe_verdict(rows: pd.DataFrame, level: float) -> str:
    """Return the weights that come nearest by one metric, whether bias remains, and the ranking."""
    weighted = rows[rows["propensity"] != RANDOM_SAMPLE]
    if weighted["reduction"].isna().all():
        return "no weighted estimate is defined."
    best: dict[Any, Any] = weighted.sort_values("reduction", kind="stable").to_dict("records")[-1]
    if best["if_unbiased"] <= 0:
        return "the error of AOA is within noise: there is no bias to remove."
    if best["reduction"] <= ROUNDING:
        return "no weights come nearer to random exposure than AOA does."
    sentences = []
    if best["tau_change_high"] < 0:
        sentences.append("do not decide by weights: their ranking is worse than the ranking by AOA.")
    elif best["reduction_low"] <= 0:
        sentences.append("no weights are shown to help.")
    sentences.append(_describe_best(best, n_tried=len(weighted)))
    sentences.extend(_describe_remaining_bias(best, level))
    sentences.extend(_describe_ranking(best))
    return " ".join(sentences)


def _describe_best(row: Mapping[Any, Any], n_tried: int) -> str:
    """Return the weights with the largest reduction and the reduction, as a sentence."""
    reduction = f"{row['reduction']:z.0%}"
    if not pd.isna(row["reduction_low"]):
        reduction += f" [{row['reduction_low']:z.0%}, {row['reduction_high']:z.0%}]"
    choice = f", the best of {n_tried} tried" if n_tried > 1 else ""
    return (
        f"{row['propensity']} with {row['estimator']} comes nearest to random exposure{choice}: it removes "
        f"{reduction} of the error of AOA."
    )


def _describe_remaining_bias(row: Mapping[Any, Any], level: float) -> list[str]:
    """Return whether bias remains, and how much would have been found; nothing if unknown."""
    if pd.isna(row["falls_short"]):
        return []
    unbiased = f"an unbiased estimate would remove {row['if_unbiased']:.0%}"
    if row["falls_short"]:
        return [f"Bias remains: {unbiased}."]
    # The interval ends z standard errors above the reduction, so a difference of z + z_power standard errors
    # is found with this power.
    z = ndtri((1 + level) / 2)
    smallest = (row["reduction_high"] - row["reduction"]) * (1 + ndtri(POWER) / z)
    return [
        f"No remaining bias is found: {unbiased}.",
        f"Bias of {smallest:.0%} of that error would have been found in {POWER:.0%} of samples.",
    ]


def _describe_ranking(row: Mapping[Any, Any]) -> list[str]:
    """Return whether the ranking of recommenders is better than by AOA; nothing if unknown."""
    if pd.isna(row["tau_b"]) or pd.isna(row["tau_b_aoa"]):
        return []
    values = f"(tau {row['tau_b']:.2f}, AOA {row['tau_b_aoa']:.2f})"
    if row["tau_change_low"] > 0:
        return [f"Its ranking of recommenders is better than the ranking by AOA {values}."]
    if row["tau_change_high"] < 0:
        return [f"Its ranking of recommenders is worse than the ranking by AOA {values}."]
    return [f"Its ranking of recommenders is not clearly better or worse {values}."]
