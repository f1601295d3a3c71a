"""The result of a distributed evaluation: the same table as `evaluate`, from merged moments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import ndtr

from ipseval._checks import check_choice
from ipseval.distributed._moments import Block, Moments
from ipseval.distributed._partition import Plan
from ipseval.errors import InputError
from ipseval.evaluation import FRAME_COLUMNS
from ipseval.inference import WeightDiagnostics, normal_interval
from ipseval.metrics import claim


@dataclass(frozen=True, eq=False)
class DistributedEvaluation:
    """Estimates of an evaluation that ran on partitions of users.

    Attributes
    ----------
    models : list of str
    moments : Moments
        Merged over all users.
    plan : Plan
        Metrics, estimators, propensity and options.
    confidence_level : float
    """

    models: list[str]
    moments: Moments
    plan: Plan
    confidence_level: float = 0.95

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per model, metric and estimator: the columns of `Evaluation.frame`."""
        rows = []
        for number, model in enumerate(self.models):
            for metric in self.plan.metrics:
                for estimator in self.plan.estimators:
                    block = self.moments.blocks[metric.label, estimator.label]
                    weights = self._weights(weighted=estimator.weighted)
                    value, error = block.value(number), block.standard_error(number)
                    low, high = normal_interval(value, error, confidence_level=self.confidence_level)
                    stated = claim(
                        metric,
                        estimator.label,
                        is_probability=self._is_probability,
                        n_relevant=self._n_relevant_kind,
                    )
                    notes = [note for note in (*self._notes(estimator.label, block), weights.flag) if note]
                    rows.append(
                        (
                            model,
                            metric.label,
                            estimator.label,
                            value,
                            error,
                            low,
                            high,
                            block.n,
                            self.moments.n_positives,
                            weights.ess,
                            weights.max_weight_share,
                            str(stated),
                            "; ".join(notes),
                        )
                    )
        return pd.DataFrame(rows, columns=list(FRAME_COLUMNS))

    def compare(self, reference: str | None = None) -> pd.DataFrame:
        """Return each model's difference to `reference` (default: the first), paired by user.

        Columns model, reference, metric, estimator, difference, std_error, ci_low, ci_high, p_value
        (two-sided, normal, not adjusted for the number of comparisons).
        """
        chosen = self.models[0] if reference is None else reference
        check_choice("reference", chosen, self.models)
        base, rows = self.models.index(chosen), []
        for number, model in enumerate(self.models):
            if number == base:
                continue
            for (metric, estimator), block in self.moments.blocks.items():
                difference = block.value(number) - block.value(base)
                error = block.difference_error(number, base)
                low, high = normal_interval(difference, error, confidence_level=self.confidence_level)
                p_value = float(2 * ndtr(-abs(difference) / error)) if error > 0 else float("nan")
                rows.append((model, chosen, metric, estimator, difference, error, low, high, p_value))
        names = ["model", "reference", "metric", "estimator", "difference", "std_error", "ci_low", "ci_high"]
        return pd.DataFrame(rows, columns=[*names, "p_value"])

    @cached_property
    def per_user(self) -> pd.DataFrame:
        """Each user's own value: columns user, model, metric, estimator, value (with `per_user=True`)."""
        if not self.plan.per_user:
            raise InputError("per-user values were not kept; evaluate with per_user=True.")
        return pd.concat(self.moments.per_user, ignore_index=True)

    @property
    def _is_probability(self) -> bool:
        return self.plan.propensity is not None and self.plan.propensity.is_probability

    @property
    def _n_relevant_kind(self) -> Literal["known", "estimated", "absent"]:
        if self.plan.n_relevant is None:
            return "absent"
        return "estimated" if self.plan.n_relevant == "estimated" else "known"

    def _weights(self, *, weighted: bool) -> WeightDiagnostics:
        n = self.moments.n_positives
        total, squares, largest = self.moments.weight_sums if weighted else (float(n), float(n), 1.0)
        if total == 0:
            return WeightDiagnostics(0.0, 0.0, float("nan"), n)
        ess = total**2 / squares
        return WeightDiagnostics(ess, ess, largest / total, n)

    def _notes(self, estimator: str, block: Block) -> list[str]:
        notes, counts = [], self.moments.positives_per_user
        if estimator == "snips" and counts.size == 2:
            notes.append("snips is identical to aoa here: every user has one positive")
        if block.n_undefined:
            notes.append(f"{block.n_undefined:,} users left out: the metric is undefined for them")
        if self.moments.n_without_propensity:
            notes.append(f"{self.moments.n_without_propensity:,} positives without a propensity left out")
        if estimator == "ips" and self._n_relevant_kind == "estimated":
            notes.append("s_u estimated by Σ1/P of each user")
        if np.isnan(block.value(0)):
            notes.append("undefined: no user has a defined value")
        elif block.n == 1:
            notes.append("one user: no standard error")
        return notes


def finish(
    models: list[str], moments: Moments, plan: Plan, *, confidence_level: float
) -> DistributedEvaluation:
    """Return the result, after the checks that need all partitions."""
    if not moments.n_positives:
        raise InputError("there is no test positive with a propensity in any partition.")
    short = {name: length for name, length in moments.list_lengths.items() if length < plan.depth}
    if short:
        raise InputError(
            f"the metrics read the first {plan.depth} ranks, but the lists of {', '.join(short)} end at rank "
            f"{min(short.values())}; use a smaller cutoff, or longer lists."
        )
    return DistributedEvaluation(models, moments, plan, confidence_level)
