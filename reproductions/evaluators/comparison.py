"""Comparisons of evaluators: who has the smallest error on each log, and whether logs agree on the ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from reproductions.evaluators.registry import NEEDS, Needs
from reproductions.evaluators.scores import (
    BASELINES,
    EvaluatorScores,
    Score,
    compute_kendall_w,
    summarize,
)

ScoresByLog = Mapping[str, Mapping[str, EvaluatorScores]]
# Data at hand -> what evaluators may need. Measured propensities are asked for separately.
GROUPS: dict[str, tuple[Needs, ...]] = {
    "the log": ("log",),
    "the log and 100 users": ("log", "100 users"),
    "the log and half of the users": NEEDS,
}


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The evaluator with the smallest relative error, and those that are not significantly worse."""

    name: str
    relative_error: tuple[float, float, float]
    ties: tuple[str, ...]
    n_compared: int


def select_candidates(scores: Mapping[str, EvaluatorScores], needs: Sequence[Needs]) -> list[str]:
    """Return the evaluators that need no more than this, and that have point estimates of every metric."""
    names = []
    for name, score in scores.items():
        if score.evaluator.needs in needs and not np.isnan(score.relative_error.value).any():
            names.append(name)
    return names


def find_winner(scores: Mapping[str, EvaluatorScores], needs: Sequence[Needs], position: int) -> Winner:
    """Return the winner by one metric; ties are evaluators whose 95% interval of the difference contains 0."""
    candidates = select_candidates(scores, needs)
    errors = [scores[name].relative_error.value[position] for name in candidates]
    winner = candidates[int(np.argmin(errors))]
    best = scores[winner].relative_error
    ties = []
    for name in candidates:
        if name == winner:
            continue
        error = scores[name].relative_error
        difference = error.value[position] - best.value[position]
        _, low, _ = summarize(difference, error.replicates[:, position] - best.replicates[:, position])
        if low <= 0:
            ties.append(name)
    return Winner(
        name=winner,
        relative_error=best.take(position),
        ties=tuple(ties),
        n_compared=len(candidates),
    )


def compare_errors(scores: Mapping[str, EvaluatorScores], name: str, baseline: str) -> Score:
    """Return the relative error of one evaluator less that of another, with paired replicates."""
    error = scores[name].relative_error
    baseline_error = scores[baseline].relative_error
    return Score(
        value=error.value - baseline_error.value,
        replicates=error.replicates - baseline_error.replicates,
    )


def compare_tau(
    scores: Mapping[str, EvaluatorScores], name: str, baseline_name: str | None = None
) -> tuple[float, float, float]:
    """Return the mean over metrics of τ less that of another evaluator, with its 95% interval.

    The other evaluator is AOA of the same mean, unless it is named.
    """
    score = scores[name]
    baseline = scores[baseline_name or BASELINES[score.evaluator.estimand]]
    difference = score.tau.value - baseline.tau.value
    has_value = ~np.isnan(difference)
    if not has_value.any():
        return np.nan, np.nan, np.nan
    replicates = score.tau.replicates - baseline.tau.replicates
    return summarize(difference[has_value].mean(), replicates[:, has_value].mean(axis=1))


def rank_evaluators(scores: ScoresByLog) -> pd.DataFrame:
    """Return the ranks by mean relative error, one row per evaluator with estimates on all logs.

    `position` is the rank of the mean rank; `lowest` and `highest` are its range when one log is left out.
    """
    names = common_evaluators(scores)
    ranks = {}
    for log, by_name in scores.items():
        ranks[log] = rankdata([by_name[name].relative_error.value.mean() for name in names])
    frame = pd.DataFrame(ranks, index=pd.Index(names, name="evaluator"))
    logs = list(scores)
    positions = [rankdata(frame[left_in].mean(axis=1)) for left_in in leave_one_out(logs)]
    frame["position"] = rankdata(frame[logs].mean(axis=1))
    frame["lowest"] = np.min(positions, axis=0)
    frame["highest"] = np.max(positions, axis=0)
    return frame.sort_values(["position", "evaluator"])


def common_evaluators(scores: ScoresByLog) -> list[str]:
    """Return the evaluators that have point estimates of every metric on all logs."""
    common: list[str] | None = None
    for by_name in scores.values():
        names = select_candidates(by_name, NEEDS)
        if common is None:
            common = names
        common = [name for name in common if name in names]
    return common or []


def leave_one_out(logs: list[str]) -> list[list[str]]:
    """Return the lists of logs without each of them; all logs if there are fewer than three."""
    if len(logs) < 3:
        return [logs]
    return [[log for log in logs if log != left_out] for left_out in logs]


def measure_agreement(scores: ScoresByLog) -> dict[str, float]:
    """Return Kendall's W of the ranks of evaluators over all logs, and without each of them."""
    names = common_evaluators(scores)
    errors = {}
    for log, by_name in scores.items():
        errors[log] = [by_name[name].relative_error.value.mean() for name in names]
    logs = list(scores)
    agreement = {"all logs": compute_kendall_w(np.array([errors[log] for log in logs]))}
    if len(logs) < 3:
        return agreement
    for left_out in logs:
        rows = [errors[log] for log in logs if log != left_out]
        agreement[f"without {left_out}"] = compute_kendall_w(np.array(rows))
    return agreement
