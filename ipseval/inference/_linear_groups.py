"""Estimates that are linear in contributions, in groups that share coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ipseval.errors import InputError
from ipseval.estimators import Estimator, LinearForm, Sample
from ipseval.inference.intervals import Key
from ipseval.metrics import Metric
from ipseval.utils.types import FloatArray


@dataclass(frozen=True, eq=False)
class Stack:
    """Contributions of recommenders × metrics on the same positives, which do not depend on the weights."""

    columns: tuple[tuple[str, Metric], ...]  # (recommender, metric)
    values: FloatArray  # (n_pos, n_columns)


@dataclass(frozen=True, eq=False)
class LinearGroup:
    """Estimates that share a form: one column of contributions for each recommender and metric."""

    form: LinearForm
    keys: tuple[Key, ...]
    contributions: FloatArray


@dataclass(frozen=True, eq=False)
class ContributionStacks:
    """The contributions of all recommenders and metrics, and the pairs that have none.

    Metrics of mean type and of sum type have a stack each. A pair has no contributions where its metric
    defines none, or where they are undefined.
    """

    stacks: list[Stack]
    without_contributions: list[tuple[str, Metric]]  # (recommender, metric)

    @classmethod
    def from_samples(cls, samples: Mapping[str, Sample], metrics: Sequence[Metric]) -> ContributionStacks:
        """Compute the contributions of every recommender and metric."""
        columns: dict[bool, list[tuple[str, Metric]]] = {False: [], True: []}
        values: dict[bool, list[FloatArray]] = {False: [], True: []}
        without_contributions = []
        for model, sample in samples.items():
            for metric in metrics:
                contributions = sample.contributions(metric)
                if contributions is None:
                    without_contributions.append((model, metric))
                    continue
                is_sum = metric.kind == "sum"
                columns[is_sum].append((model, metric))
                values[is_sum].append(contributions)

        stacks = []
        for kind, kind_columns in columns.items():
            if kind_columns:
                kind_values = np.column_stack(values[kind])
                stacks.append(Stack(tuple(kind_columns), kind_values))

        return cls(stacks, without_contributions)


LinearGroups = tuple[list[LinearGroup], list[tuple[str, Metric, Estimator]]]


def list_keys(
    samples: Mapping[str, Sample], metrics: Sequence[Metric], estimators: Sequence[Estimator]
) -> list[Key]:
    """Return (recommender, metric, estimator) of every estimate, in the order of tables."""
    combinations = product(samples, metrics, estimators)
    keys: list[Key] = []
    for model, metric, estimator in combinations:
        keys.append((model, metric.label, estimator.label))

    return keys


def weights_or_ones(sample: Sample) -> FloatArray:
    """Return 1/P of each positive, (n_pos,); 1 where there is no propensity."""
    if sample.propensity is None:
        return np.ones(len(sample.ranked))
    return sample.weights


def group_estimates(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    contributions: ContributionStacks | None = None,
) -> LinearGroups:
    """Return the linear estimates in groups, and the (recommender, metric, estimator) of nonlinear estimates.

    `contributions` are computed from the samples unless they are passed.
    """
    _check_not_empty("samples", samples)
    _check_not_empty("metrics", metrics)
    _check_not_empty("estimators", estimators)
    if contributions is None:
        contributions = ContributionStacks.from_samples(samples, metrics)

    nonlinear: list[tuple[str, Metric, Estimator]] = []
    for model, metric in contributions.without_contributions:
        nonlinear.extend((model, metric, estimator) for estimator in estimators)

    sample = next(iter(samples.values()))
    linear: list[LinearGroup] = []
    for estimator in estimators:
        for stack in contributions.stacks:
            columns_by_form: dict[LinearForm, list[int]] = {}
            for column, (model, metric) in enumerate(stack.columns):
                form = estimator.linear_form(metric, sample.ranked, is_probability=sample.is_probability)
                if form is None:
                    nonlinear.append((model, metric, estimator))
                else:
                    columns_by_form.setdefault(form, []).append(column)
            for form, columns in columns_by_form.items():
                linear.append(_select_group(stack, form, columns, estimator))
    return linear, nonlinear


def _check_not_empty(name: str, values: Mapping[str, Sample] | Sequence[object]) -> None:
    """Raise `InputError` for an empty argument."""
    if not len(values):
        raise InputError(f"{name} must not be empty.")


def _select_group(
    stack: Stack, form: LinearForm, columns: Sequence[int], estimator: Estimator
) -> LinearGroup:
    """Return the group of the columns of a stack that share a form."""
    keys = []
    for column in columns:
        model, metric = stack.columns[column]
        keys.append((model, metric.label, estimator.label))
    values = stack.values
    if len(columns) < len(stack.columns):
        values = values[:, columns]
    return LinearGroup(form, tuple(keys), values)
