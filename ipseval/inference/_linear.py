"""Estimates that are linear in contributions, in groups that share coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ipseval.errors import InputError
from ipseval.estimators import Estimator, LinearForm, Sample
from ipseval.inference.intervals import Key
from ipseval.metrics import Metric
from ipseval.utils.types import FloatArray


@dataclass(frozen=True, eq=False)
class Stack:
    """Contributions of recommenders × metrics on the same positives, the same whatever the weights."""

    columns: tuple[tuple[str, Metric], ...]  # (recommender, metric)
    values: FloatArray  # (n_pos, n_columns)


@dataclass(frozen=True, eq=False)
class LinearGroup:
    """Estimates that share a form: one column of contributions for each recommender and metric."""

    form: LinearForm
    keys: tuple[Key, ...]
    contributions: FloatArray


Stacks = tuple[list[Stack], list[tuple[str, Metric]]]
Groups = tuple[list[LinearGroup], list[tuple[str, Metric, Estimator]]]


def keys_of(
    samples: Mapping[str, Sample], metrics: Sequence[Metric], estimators: Sequence[Estimator]
) -> list[Key]:
    """Return (recommender, metric, estimator) of every estimate, in the order of tables."""
    return [(model, m.label, e.label) for model in samples for m in metrics for e in estimators]


def weights_or_ones(sample: Sample) -> FloatArray:
    """Return 1/P of each positive, (n_pos,); 1 where there is no propensity."""
    return sample.weights if sample.propensity is not None else np.ones(len(sample.ranked))


def stacks(samples: Mapping[str, Sample], metrics: Sequence[Metric]) -> Stacks:
    """Return the contributions of all recommenders and metrics, and those that have none (or undefined)."""
    by_kind: dict[bool, list[tuple[tuple[str, Metric], FloatArray]]] = {False: [], True: []}
    rest = []
    for model, sample in samples.items():
        for metric in metrics:
            found = sample.contributions(metric)
            if found is None:
                rest.append((model, metric))
            else:
                by_kind[metric.kind == "sum"].append(((model, metric), found))
    columns = (zip(*one, strict=True) for one in by_kind.values() if one)
    return [Stack(names, np.column_stack(values)) for names, values in columns], rest


def groups(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    found: Stacks | None = None,
) -> Groups:
    """Return the estimates that are linear, in groups, and those that are not, from stacks made before."""
    for name, asked in (("samples", samples), ("metrics", metrics), ("estimators", estimators)):
        if not len(asked):
            raise InputError(f"{name} must not be empty.")
    parts, rest = stacks(samples, metrics) if found is None else found
    sample = next(iter(samples.values()))
    linear, others = [], [(model, metric, one) for model, metric in rest for one in estimators]
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
                chosen = (stack.columns[place] for place in places)
                keys = tuple((model, metric.label, estimator.label) for model, metric in chosen)
                whole = len(places) == len(stack.columns)
                values = stack.values if whole else stack.values[:, places]
                linear.append(LinearGroup(form, keys, values))
    return linear, others
