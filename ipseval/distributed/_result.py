"""The result of a distributed evaluation: the same table as `evaluate`, from merged moments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd

from ipseval._checks import counted
from ipseval._evaluation import diagnostics_frame
from ipseval._tables import evaluation_tables
from ipseval._types import BoolArray, FloatArray, IntArray
from ipseval.distributed._moments import Block, Moments
from ipseval.distributed._partition import Plan
from ipseval.errors import InputError
from ipseval.estimators import Estimator, claim, notes
from ipseval.evaluation import FRAME_COLUMNS
from ipseval.inference import (
    Correction,
    Family,
    WeightDiagnostics,
    effective_sample_size,
    normal_interval,
    pareto_k,
)
from ipseval.inference._comparisons import Key, compare_measured
from ipseval.inference._trust import joined, too_wide
from ipseval.inference._weights import RARE_POPULARITY, product_flag
from ipseval.metrics import Metric
from ipseval.ranking._missing import list_notes, warn_about_lists
from ipseval.report import Reported, Tables


@dataclass(frozen=True, eq=False, repr=False)
class DistributedEvaluation(Reported):
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

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report as a value: one leaderboard per metric, claims, notes; see `ipseval.report`."""
        propensity, counts = self.plan.propensity, self.moments.positives_per_user[1:]
        positives = counted(self.moments.n_positives, "held-out positive")
        size = (
            f"{counted(len(self.models), 'recommender')}, {positives} of {counted(int(counts.sum()), 'user')}"
        )
        return evaluation_tables(
            self.frame,
            diagnostics_frame(self.weights),
            self.compare() if len(self.models) > 1 else None,
            summary=[size] + ([] if propensity is None else [f"propensity: {propensity.model}"]),
            digits=digits,
            title="Evaluation of recommenders" if page else "",
        )

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per model, metric and estimator: the columns of `Evaluation.frame`."""
        rows = []
        for number, model in enumerate(self.models):
            for metric in self.plan.metrics:
                of_lists = list_notes(self.moments.list_counts[model], metric.cutoff)
                for estimator in self.plan.estimators:
                    block = self.moments.blocks[metric.label, estimator.label]
                    weights = self.weights[estimator.label]
                    value, error, trust = self._trusted(number, metric, estimator.label)
                    low, high = normal_interval(value, error, confidence_level=self.confidence_level)
                    stated = claim(
                        metric,
                        estimator,
                        is_probability=self._is_probability,
                        n_relevant=self._n_relevant_kind,
                    )
                    said = [*self._notes(estimator, block), *of_lists, trust, *weights.cautions]
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
                            "; ".join(filter(None, said)),
                        )
                    )
        return pd.DataFrame(rows, columns=list(FRAME_COLUMNS))

    @cached_property
    def weights(self) -> dict[str, WeightDiagnostics]:
        """Estimator label -> diagnostics of its weights."""
        found = {one.label: self._weights(weighted=one.weighted) for one in self.plan.estimators}
        for one in self.plan.estimators:
            if (one.label,) in self.moments.own_weights:
                found[one.label] = found[one.label].of_estimator(one, self.moments.own_weights[one.label,])
        return found

    def compare(
        self,
        reference: str | None = None,
        *,
        correction: Correction = "holm",
        family: Family = "cell",
        power: float = 0.8,
        difference: float | None = None,
    ) -> pd.DataFrame:
        """Return paired differences of recommenders on the same users: the table of `Evaluation.compare`."""
        known = {
            (model, metric.label, one.label): self._trusted(number, metric, one.label)
            for number, model in enumerate(self.models)
            for metric in self.plan.metrics
            for one in self.plan.estimators
        }

        def measured(first: Key, second: Key) -> tuple[float, float, int]:
            block = self.moments.blocks[first[1:]]
            one, other = self.models.index(first[0]), self.models.index(second[0])
            gap = known[first][0] - known[second][0]
            return gap, block.difference_error(one, other), block.n

        return compare_measured(
            [(model, *cell) for model in self.models for cell in self.moments.blocks],
            measured,
            trust=lambda first, second: joined(known[first][2], known[second][2]),
            reference=reference,
            correction=correction,
            family=family,
            confidence_level=self.confidence_level,
            power=power,
            difference=difference,
        )

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
        """Return the diagnostics that `weight_diagnostics` gives of all positives, from counts per item."""
        propensity, counts = self.plan.propensity, self.moments.positives_per_item
        seen = counts > 0
        counts = counts[seen].astype(np.float64)
        rare = clipped = float("nan")
        weights: FloatArray = np.ones(counts.size)
        if propensity is not None and propensity.item is not None:
            if weighted:
                weights = 1.0 / propensity.item[seen]
            if propensity.popularity is not None:
                rare = _share(counts * weights, propensity.popularity[seen] <= RARE_POPULARITY)
            if weighted and propensity.unclipped is not None and propensity.unclipped.item is not None:
                whole = counts / propensity.unclipped.item[seen]
                clipped = float(np.maximum(whole - counts * weights, 0).sum() / whole.sum())
        totals = counts * weights
        return WeightDiagnostics(
            ess=float(totals.sum() ** 2 / (counts * weights**2).sum()),
            ess_items=effective_sample_size(totals),
            max_weight_share=float(weights.max() / totals.sum()),
            n_positives=self.moments.n_positives,
            n_items=int(counts.size),
            median_positives=_median(self.moments.positives_per_user),
            rare_share=rare,
            pareto_k=pareto_k(totals),
            clipped_share=0.0 if np.isnan(clipped) else clipped,
            weighted=weighted,
        )

    def _trusted(self, number: int, metric: Metric, estimator: str) -> tuple[float, float, str]:
        """Return value and standard error of a recommender, and why not to trust them: as `evaluate` does."""
        block = self.moments.blocks[metric.label, estimator]
        value, error = block.value(number), block.standard_error(number)
        products = self.moments.own_weights.get((metric.label, estimator))
        n_users = int(self.moments.positives_per_user[1:].sum())
        product = "" if products is None else product_flag(products, n_users)
        wide = too_wide(metric, error)
        flag = joined(self.weights[estimator].flag, product, wide)
        return (float("nan"), float("nan"), f"suppressed: {flag}") if wide else (value, error, flag)

    def _notes(self, estimator: Estimator, block: Block) -> tuple[str, ...]:
        return notes(
            estimator,
            one_positive_each=self.moments.positives_per_user.size == 2,
            n_relevant=self._n_relevant_kind,
            n_undefined=block.n_undefined,
            n_without_propensity=self.moments.n_without_propensity,
            n_users=block.n,
            defined=not np.isnan(block.value(0)),
        )


def _share(totals: FloatArray, chosen: BoolArray) -> float:
    return float(totals[chosen].sum() / totals.sum())


def _median(counts: IntArray) -> float:
    """Return the median of a whole number that takes the value i `counts[i]` times."""
    below, n = np.cumsum(counts), int(counts.sum())
    middle = [int(np.searchsorted(below, place, side="right")) for place in ((n - 1) // 2, n // 2)]
    return sum(middle) / 2


def finish(
    models: list[str], moments: Moments, plan: Plan, *, confidence_level: float
) -> DistributedEvaluation:
    """Return the result, after the checks that need all partitions."""
    if not moments.n_positives:
        raise InputError("there is no test positive with a propensity in any partition.")
    warn_about_lists(moments.list_counts, stacklevel=4)  # the caller of evaluate_dask or evaluate_spark
    return DistributedEvaluation(models, moments, plan, confidence_level)
