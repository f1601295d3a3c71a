"""Scores of evaluators: error of the level, order, sign errors, coverage and width, with intervals.

Intervals come from one bootstrap over the users of the truth and over splits: a replicate draws splits with
replacement and takes, in every drawn split, the truth of the same resampled users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from reproductions.evaluators.cells import TRUTH, read_cells
from reproductions.evaluators.context import Estimand
from reproductions.evaluators.registry import EVALUATORS, WARNED, Evaluator
from reproductions.evaluators.truth import ESTIMANDS

Z = 1.959963984540054
SPLIT_SEED = 66
DIGITS = 12  # values that differ by less are tied: no order depends on rounding
BASELINES: dict[Estimand, str] = {"interactions": "AOA", "users": "AOA per user"}


@dataclass(frozen=True, eq=False, kw_only=True)
class TruthArrays:
    """Truth of one estimand over the splits of one log.

    Attributes
    ----------
    value, error : (n_splits, n_models, n_metrics) arrays
        Values and their standard errors.
    difference_error : (n_splits, n_pairs, n_metrics) array
        Standard errors of the differences of pairs of models.
    tau_of_halves : (n_splits, n_metrics) array
        Agreement of the orders of two halves of the users.
    replicates : (n_splits, n_replicates, n_models, n_metrics) array
        Values of resampled users.
    """

    value: np.ndarray
    error: np.ndarray
    difference_error: np.ndarray
    tau_of_halves: np.ndarray
    replicates: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class LogResults:
    """All cells of one log.

    Attributes
    ----------
    estimates : mapping of name to (3, n_splits, n_models, n_metrics) array
        Estimate, lower and upper limit of each evaluator; NaN where it gives none.
    refusals : mapping of name to str
        Reason of evaluators that gave nothing on any split.
    warnings : mapping of name to (n_warned, n_splits)
        Splits on which an evaluator warned that its model does not fit the log, and splits with estimates; of
        evaluators that can warn.
    """

    log: str
    splits: tuple[int, ...]
    models: tuple[str, ...]
    metrics: tuple[str, ...]
    truth: dict[Estimand, TruthArrays]
    estimates: dict[str, np.ndarray]
    refusals: dict[str, str]
    warnings: dict[str, tuple[int, int]]
    counts: dict[str, float]
    seconds: float

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of models, by position."""
        return list(combinations(range(len(self.models)), 2))


def read_log(cache: Path, log: str, splits: Sequence[int], evaluators: Sequence[str]) -> LogResults:
    """Return the results of one log from the files of its splits."""
    files = [read_cells(cache / f"{log}-{number}.jsonl") for number in splits]
    truths = [cells[TRUTH]["truth"] for cells in files]
    models = truths[0]["models"]
    metrics = truths[0]["metrics"]
    shape = (len(models), len(metrics))
    estimates = {}
    refusals = {}
    warnings = {}
    for name in evaluators:
        parts = [read_estimates(cells[name], shape) for cells in files]
        estimates[name] = np.stack(parts, axis=1)
        reasons = [cells[name]["refused"] for cells in files if "refused" in cells[name]]
        if len(reasons) == len(files):
            refusals[name] = reasons[0]
        warned = [cells[name][WARNED] for cells in files if WARNED in cells[name]]
        if warned:
            warnings[name] = (sum(warned), len(warned))
    seconds = sum(cell["seconds"] for cells in files for cell in cells.values())
    return LogResults(
        log=log,
        splits=tuple(splits),
        models=tuple(models),
        metrics=tuple(metrics),
        truth={estimand: stack_truth([truth[estimand] for truth in truths]) for estimand in ESTIMANDS},
        estimates=estimates,
        refusals=refusals,
        warnings=warnings,
        counts=average_counts(truths),
        seconds=seconds,
    )


def read_estimates(cell: dict[str, Any], shape: tuple[int, int]) -> np.ndarray:
    """Return estimate, low and high of one cell, (3, n_models, n_metrics); NaN if it was refused."""
    if "refused" in cell:
        return np.full((3, *shape), np.nan)
    return np.array([cell[column] for column in ("estimate", "low", "high")], dtype=float)


def stack_truth(parts: list[dict[str, Any]]) -> TruthArrays:
    """Return the truth of all splits in arrays."""
    stacked = {}
    for name in ("value", "error", "difference_error", "tau_of_halves", "replicates"):
        stacked[name] = np.array([part[name] for part in parts], dtype=float)
    return TruthArrays(**stacked)


def average_counts(truths: list[dict[str, Any]]) -> dict[str, float]:
    """Return the mean sizes of the parts of the splits."""
    counts = {}
    for name in ("n_training", "n_held_out", "n_liked_by_seen_users", "n_seen_users"):
        counts[name] = float(np.mean([truth[name] for truth in truths]))
    counts["n_truth_users"] = float(np.mean([truth["interactions"]["n_users"] for truth in truths]))
    counts["n_truth_liked"] = float(np.mean([truth["interactions"]["total"] for truth in truths]))
    return counts


# --- Measures -----------------------------------------------------------------------------------------------


def compute_squared_error(estimates: np.ndarray, truth: np.ndarray, truth_variance: np.ndarray) -> np.ndarray:
    """Return the mean over models of (estimate − truth)² less the variance of the truth, (…, n_metrics).

    The last two axes are models and metrics. The noise of the truth adds its variance to the expectation of
    the square, so the result is unbiased, and may be negative by chance.
    """
    return np.asarray(((estimates - truth) ** 2 - truth_variance).mean(axis=-2))


def compute_signs(values: np.ndarray) -> np.ndarray:
    """Return the signs of the differences of pairs of models, (…, n_pairs, n_metrics)."""
    rounded = np.round(values, DIGITS)
    signs = []
    for first, second in combinations(range(values.shape[-2]), 2):
        signs.append(np.sign(rounded[..., first, :] - rounded[..., second, :]))
    return np.stack(signs, axis=-2)


def compute_tau(signs: np.ndarray, truth_signs: np.ndarray) -> np.ndarray:
    """Return Kendall's τ from signs of pairs: concordant less discordant pairs, over all pairs."""
    return np.asarray((signs * truth_signs).mean(axis=-2))


def compute_sign_errors(
    signs: np.ndarray, truth_differences: np.ndarray, difference_error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of wrong signs and of pairs whose true difference is significant, (…, n_metrics).

    A pair whose estimates are equal counts as half a wrong sign.
    """
    is_significant = np.abs(truth_differences) > Z * difference_error
    wrongness = (1 - signs * np.sign(truth_differences)) / 2
    wrong = np.where(is_significant, wrongness, 0).sum(axis=-2)
    wrong = np.where(np.isnan(signs).any(axis=-2), np.nan, wrong)
    return wrong, np.asarray(is_significant.sum(axis=-2))


def compute_differences(values: np.ndarray) -> np.ndarray:
    """Return the differences of pairs of models, (…, n_pairs, n_metrics)."""
    differences = []
    for first, second in combinations(range(values.shape[-2]), 2):
        differences.append(values[..., first, :] - values[..., second, :])
    return np.stack(differences, axis=-2)


def compute_coverage(low: np.ndarray, high: np.ndarray, truth: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return the share of intervals that cover the truth, (n_metrics,); the error of the truth is added."""
    middle = (low + high) / 2
    half_width = np.hypot((high - low) / 2, Z * error)
    is_covered = np.where(np.isnan(middle), np.nan, np.abs(middle - truth) <= half_width)
    return np.asarray(is_covered.mean(axis=(0, 1)))


def compute_tau_ceiling(tau_of_halves: float) -> float:
    """Return the expected τ of a perfect evaluator with the noisy truth, from the τ of its two halves.

    τ is turned into a correlation by sin(π τ/2), as for normal variables; the reliability of the whole truth
    follows from that of its halves by Spearman and Brown, and its square root is the correlation of the truth
    with its expectation.
    """
    correlation = max(np.sin(np.pi * tau_of_halves / 2), 0.0)
    reliability = 2 * correlation / (1 + correlation)
    return float(2 / np.pi * np.arcsin(np.sqrt(reliability)))


def compute_kendall_w(values: np.ndarray) -> float:
    """Return Kendall's W of the ranks that judges (rows) give to objects (columns), with tied ranks."""
    ranks = np.apply_along_axis(rankdata, 1, values)
    n_judges, n_objects = ranks.shape
    totals = ranks.sum(axis=0)
    spread = ((totals - totals.mean()) ** 2).sum()
    ties = 0.0
    for row in ranks:
        _, counts = np.unique(row, return_counts=True)
        ties += (counts**3 - counts).sum()
    return float(12 * spread / (n_judges**2 * (n_objects**3 - n_objects) - n_judges * ties))


# --- Scores of a log ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Score:
    """One measure of one evaluator on one log: a value per metric, and bootstrap replicates.

    Attributes
    ----------
    value : (n_metrics,) array
    replicates : (n_replicates, n_metrics) array
    """

    value: np.ndarray
    replicates: np.ndarray

    def average(self) -> tuple[float, float, float]:
        """Return the mean over metrics that have a value, and its 95% interval."""
        has_value = ~np.isnan(self.value)
        if not has_value.any():
            return np.nan, np.nan, np.nan
        return summarize(self.value[has_value].mean(), self.replicates[:, has_value].mean(axis=1))

    def take(self, position: int) -> tuple[float, float, float]:
        """Return the value of one metric and its 95% interval."""
        return summarize(self.value[position], self.replicates[:, position])


def summarize(value: float, replicates: np.ndarray) -> tuple[float, float, float]:
    """Return a value and its 95% interval, from the standard deviation of its replicates."""
    defined = replicates[np.isfinite(replicates)]
    if defined.size < 2:
        return float(value), np.nan, np.nan
    half_width = Z * float(np.std(defined, ddof=1))
    return float(value), float(value - half_width), float(value + half_width)


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluatorScores:
    """Scores of one evaluator on one log.

    Attributes
    ----------
    relative_error : Score
        Error divided by that of AOA of the same mean.
    mean_truth : (n_metrics,) array
        Mean truth over splits and models, of the mean that the evaluator estimates.
    """

    evaluator: Evaluator
    error: Score
    relative_error: Score
    tau: Score
    sign_errors: Score
    coverage: np.ndarray
    half_width: np.ndarray
    mean_truth: np.ndarray

    @property
    def error_of_truth(self) -> np.ndarray:
        """Error as a share of the mean truth, (n_metrics,)."""
        return np.asarray(self.error.value / self.mean_truth)


def score_log(results: LogResults) -> dict[str, EvaluatorScores]:
    """Return the scores of every evaluator on one log."""
    n_splits = len(results.splits)
    n_replicates = results.truth["interactions"].replicates.shape[1]
    drawn = np.random.default_rng(SPLIT_SEED).integers(n_splits, size=(n_replicates, n_splits))
    errors = {name: score_error(results, name, drawn) for name in results.estimates}
    scores = {}
    for name in results.estimates:
        evaluator = EVALUATORS[name]
        baseline = errors[BASELINES[evaluator.estimand]]
        relative_error = Score(
            value=errors[name].value / baseline.value,
            replicates=errors[name].replicates / baseline.replicates,
        )
        truth = results.truth[evaluator.estimand]
        _, low, high = results.estimates[name]
        coverage = compute_coverage(low, high, truth.value, truth.error)
        half_width = ((high - low) / 2).mean(axis=(0, 1))
        if not evaluator.has_level:
            coverage = np.full(coverage.shape, np.nan)
            half_width = np.full(half_width.shape, np.nan)
        tau, sign_errors = score_order(results, name, drawn)
        scores[name] = EvaluatorScores(
            evaluator=evaluator,
            error=errors[name],
            relative_error=relative_error,
            tau=tau,
            sign_errors=sign_errors,
            coverage=coverage,
            half_width=half_width,
            mean_truth=abs(truth.value).mean(axis=(0, 1)),
        )
    return scores


def resample_splits(by_split: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return means over drawn splits: (n_splits, n_replicates, …) and (n_replicates, n_splits)."""
    replicate = np.arange(drawn.shape[0])[:, None]
    return np.asarray(by_split[drawn, replicate].mean(axis=1))


def score_error(results: LogResults, name: str, drawn: np.ndarray) -> Score:
    """Return the root mean squared error over models and splits, without the noise of the truth."""
    evaluator = EVALUATORS[name]
    truth = results.truth[evaluator.estimand]
    estimates = results.estimates[name][0]
    if not evaluator.has_level:
        estimates = np.full(estimates.shape, np.nan)
    variance = truth.error**2
    squares = compute_squared_error(estimates, truth.value, variance).mean(axis=0)
    # Resampled users add the variance of the truth once more.
    resampled = compute_squared_error(estimates[:, None], truth.replicates, 2 * variance[:, None])
    replicates = resample_splits(resampled, drawn)
    return Score(value=to_root(squares), replicates=to_root(replicates))


def to_root(squares: np.ndarray) -> np.ndarray:
    """Return square roots; 0 for squares that are negative by chance."""
    return np.asarray(np.sqrt(np.maximum(squares, 0)))


def score_order(results: LogResults, name: str, drawn: np.ndarray) -> tuple[Score, Score]:
    """Return Kendall's τ with the truth, and the share of wrong signs among significant pairs."""
    truth = results.truth[EVALUATORS[name].estimand]
    signs = compute_signs(results.estimates[name][0])
    tau = compute_tau(signs, compute_signs(truth.value)).mean(axis=0)
    resampled_tau = compute_tau(signs[:, None], compute_signs(truth.replicates))

    wrong, counted = compute_sign_errors(signs, compute_differences(truth.value), truth.difference_error)
    resampled_wrong, resampled_counted = compute_sign_errors(
        signs[:, None], compute_differences(truth.replicates), truth.difference_error[:, None]
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        share = wrong.sum(axis=0) / counted.sum(axis=0)
        replicates = resample_splits(resampled_wrong, drawn) / resample_splits(resampled_counted, drawn)
    return (
        Score(value=tau, replicates=resample_splits(resampled_tau, drawn)),
        Score(value=share, replicates=replicates),
    )


def list_scores(scores: dict[str, dict[str, EvaluatorScores]], metrics: Sequence[str]) -> pd.DataFrame:
    """Return one row per log, evaluator and metric with all scores and their intervals."""
    rows = []
    for log, by_name in scores.items():
        for name, score in by_name.items():
            for position, label in enumerate(metrics):
                row: dict[str, object] = {"log": log, "evaluator": name, "metric": label}
                for measure in ("error", "relative_error", "tau", "sign_errors"):
                    value, low, high = getattr(score, measure).take(position)
                    row |= {measure: value, f"{measure}_low": low, f"{measure}_high": high}
                row |= {
                    "coverage": score.coverage[position],
                    "half_width": score.half_width[position],
                    "mean_truth": score.mean_truth[position],
                }
                rows.append(row)
    return pd.DataFrame(rows)
