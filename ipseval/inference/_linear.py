"""Estimates that are linear in contributions, in groups that share coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ipseval._types import FloatArray
from ipseval.estimators import Estimator, LinearForm, Sample
from ipseval.inference._bootstrap import Key
from ipseval.metrics import Metric


@dataclass(frozen=True, eq=False)
class Stack:
    """Contributions of recommenders × metrics on the same positives, the same whatever the weights.

    Attributes
    ----------
    columns : tuple of (recommender, metric)
    values : (n_pos, n_columns) float array
    """

    columns: tuple[tuple[str, Metric], ...]
    values: FloatArray


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
            found = sample.contributions(metric)
            if found is None:
                rest.append((model, metric))
            else:
                columns[metric.kind == "sum"].append((model, metric))
                values[metric.kind == "sum"].append(found)
    made = [Stack(tuple(columns[kind]), np.column_stack(values[kind])) for kind in values if values[kind]]
    return made, rest


def groups(
    parts: Sequence[Stack], estimators: Sequence[Estimator], sample: Sample
) -> tuple[list[LinearGroup], list[tuple[str, Metric, Estimator]]]:
    """Return the linear estimates in groups, and what is not linear; `sample` gives users and scale."""
    linear, others = [], []
    for estimator in estimators:
        for stack in parts:
            by_form: dict[LinearForm, list[int]] = {}
            for place, (model, metric) in enumerate(stack.columns):
                form = estimator.linear_form(metric, sample.ranked, is_probability=sample.is_probability)
                if form is None:
                    others.append((model, metric, estimator))
                else:
                    by_form.setdefault(form, []).append(place)
            for form, places in by_form.items():
                keys = tuple(
                    (stack.columns[k][0], stack.columns[k][1].label, estimator.label) for k in places
                )
                whole = len(places) == len(stack.columns)
                values = stack.values if whole else stack.values[:, places]
                linear.append(LinearGroup(form, keys, values))
    return linear, others
