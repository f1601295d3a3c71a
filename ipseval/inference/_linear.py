"""Estimates that are linear in contributions: weights enter the same way for every metric and recommender.

R = Σ_p v_p c_p with coefficients v that depend on weights, users and estimator only. One pass over v serves
all recommenders and metrics, which makes grids of γ and refitted bootstraps cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ipseval._types import BoolArray, FloatArray
from ipseval.estimators import Estimator, Sample, UserSums
from ipseval.inference._bootstrap import Key
from ipseval.metrics import Metric
from ipseval.ranking import RankedPositives

# Estimators that normalise within each user, and those with one normaliser for all users.
PER_USER = ("aoa", "snips")
GLOBAL = ("aoa-pooled", "snips-global", "snips-pooled")


@dataclass(frozen=True, eq=False)
class LinearForm:
    """How an estimator combines contributions c and weights w.

    Per user: N_u = f_u Σwc/Σw, D_u = 1. Global: N_u = Σ b w c, D_u = Σ b w, times the mean of V_u.

    Attributes
    ----------
    per_user, weighted : bool
        Which of the two; whether w is the inverse propensity or 1.
    factor : (n_users,) float array
        f_u of per-user forms: |S*_u| for sum metrics, otherwise 1.
    base : (n_pos,) float array
        b of global forms.
    volume : (n_users,) float array or None
        V_u of global forms of sum metrics.
    """

    ranked: RankedPositives
    per_user: bool
    weighted: bool
    factor: FloatArray
    base: FloatArray
    volume: FloatArray | None = None

    def sums(self, contributions: FloatArray, weights: FloatArray) -> UserSums:
        """Return the per-user sums with these weights, (n_pos,); they equal those of the estimator."""
        ranked = self.ranked
        w = self._weights(weights)
        if self.per_user:
            mean = ranked.sum_by_user(w * contributions) / ranked.sum_by_user(w)
            return UserSums.of(ranked.users, self.factor * mean)
        bw = self.base * w
        numerator = ranked.sum_by_user(bw * contributions)
        return UserSums.of(ranked.users, numerator, ranked.sum_by_user(bw), self.volume)

    def coefficients(self, weights: FloatArray, times: FloatArray | None = None) -> FloatArray:
        """Return v (n_pos,) with R = Σ v c when user u counts `times[u]` times (of those with positives)."""
        ranked = self.ranked
        t = np.ones(ranked.users.size) if times is None else times
        w = self._weights(weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.per_user:
                by_user = t * self.factor / (ranked.sum_by_user(w) * t.sum())
                return np.asarray(w * by_user[ranked.segment])
            v = self.base * w * t[ranked.segment]
            scale = 1.0 if self.volume is None else (t @ self.volume) / t.sum()
            return np.asarray(v * (scale / v.sum()))

    def _weights(self, weights: FloatArray) -> FloatArray:
        return weights if self.weighted else self._ones

    @cached_property
    def _ones(self) -> FloatArray:
        return np.ones(len(self.ranked))


@dataclass(frozen=True, eq=False)
class Stack:
    """Contributions of recommenders × metrics on the same positives, the same whatever the weights.

    Attributes
    ----------
    is_sum : bool
        Metrics that sum over positives, or that average.
    columns : tuple of (recommender, metric)
    values : (n_pos, n_columns) float array
    """

    is_sum: bool
    columns: tuple[tuple[str, Metric], ...]
    values: FloatArray

    @property
    def from_rank_alone(self) -> bool:
        """Whether no contribution changes when other positives leave: those of auc do."""
        return all(metric.kind in ("mean", "sum") for _, metric in self.columns)

    def select(self, keep: BoolArray) -> Stack:
        """Return the contributions of some of the positives."""
        return replace(self, values=self.values[keep])


@dataclass(frozen=True, eq=False)
class LinearGroup:
    """Estimates that share a form: one column of contributions for each recommender and metric."""

    form: LinearForm
    keys: tuple[Key, ...]
    contributions: FloatArray


def stacks(
    samples: Mapping[str, Sample], metrics: Sequence[Metric]
) -> tuple[list[Stack], list[tuple[str, Metric]]]:
    """Return the contributions of all recommenders and metrics, and those that have none (or undefined)."""
    columns: dict[bool, list[tuple[str, Metric]]] = {False: [], True: []}
    values: dict[bool, list[FloatArray]] = {False: [], True: []}
    rest = []
    for model, sample in samples.items():
        for metric in metrics:
            found = contributions(metric, sample)
            if found is None:
                rest.append((model, metric))
            else:
                columns[metric.kind == "sum"].append((model, metric))
                values[metric.kind == "sum"].append(found)
    made = [
        Stack(kind, tuple(columns[kind]), np.column_stack(values[kind])) for kind in values if values[kind]
    ]
    return made, rest


def contributions(metric: Metric, sample: Sample) -> FloatArray | None:
    """Return c (n_pos,) whose weighted mean, or sum, over a user's positives is the metric; or None."""
    of_positives = getattr(metric, "contributions", None)
    if of_positives is None:
        return None
    values: FloatArray = of_positives(sample.ranked, ties=sample.ties)
    return None if np.isnan(values).any() else values


def groups(
    parts: Sequence[Stack], estimators: Sequence[Estimator], sample: Sample
) -> tuple[list[LinearGroup], list[tuple[str, Metric, Estimator]]]:
    """Return the linear estimates in groups, and what is not linear; `sample` gives users and scale."""
    linear, others = [], []
    for estimator in estimators:
        for stack in parts:
            form = linear_form(estimator, stack.is_sum, sample.ranked)
            fits = [
                form is not None and not _is_pair_ratio(metric, estimator, sample)
                for _, metric in stack.columns
            ]
            others += [
                (*column, estimator) for column, fit in zip(stack.columns, fits, strict=True) if not fit
            ]
            if form is not None and any(fits):
                keys = tuple(
                    (model, metric.label, estimator.label)
                    for (model, metric), fit in zip(stack.columns, fits, strict=True)
                    if fit
                )
                values = stack.values if all(fits) else stack.values[:, fits]
                linear.append(LinearGroup(form, keys, values))
    return linear, others


def linear_form(estimator: Estimator, is_sum: bool, ranked: RankedPositives) -> LinearForm | None:
    """Return the form of an estimator for metrics that average or sum over positives; None: not linear."""
    label = estimator.label
    if label not in PER_USER + GLOBAL:
        return None
    counts = ranked.counts.astype(np.float64)
    ones = np.ones(len(ranked))
    if label in PER_USER or (label == "aoa-pooled" and is_sum):
        factor = counts if is_sum else np.ones(counts.size)
        return LinearForm(ranked, True, estimator.weighted, factor, ones)
    base = (1 / counts)[ranked.segment] if label == "snips-global" and not is_sum else ones
    volume = counts if is_sum else None
    return LinearForm(ranked, False, estimator.weighted, np.ones(counts.size), base, volume)


def _is_pair_ratio(metric: Metric, estimator: Estimator, sample: Sample) -> bool:
    """Return whether the estimate is the ratio of won pairs, which is quadratic in the weights."""
    return metric.label == "auc" and estimator.label == "snips-pooled" and sample.is_probability
