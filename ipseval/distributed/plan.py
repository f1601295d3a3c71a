"""The work of the driver: decide once before the workers start, and build the evaluation from their sums."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import pandas as pd

from ipseval.distributed.partition import (
    Factors,
    Model,
    Plan,
    PlannedGroups,
    Seen,
    find_absent_users,
    reduce_users,
)
from ipseval.distributed.sorted_pairs import Rows
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import ESTIMATORS, Estimator
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.reduction import Reduction, build_evaluation, merge_reductions
from ipseval.evaluation.request import (
    DEFAULT_METRICS,
    CommonOptions,
    Request,
    check_options,
    resolve_estimators,
    resolve_propensity,
)
from ipseval.evaluation.segments.build import build_evaluation_segments
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.utils.checks import check_choice, check_models, check_type
from ipseval.utils.compute import quiet_tqdm
from ipseval.utils.ids import to_id_array
from ipseval.utils.types import AnyArray, IntArray

DELAY = 2.0  # seconds before a progress bar appears


class PartitionOptions(CommonOptions, total=False):
    """Options that the distributed functions share; `evaluate_dask` describes them."""

    users: Any
    propensity: Any
    metrics: Iterable[str | Metric]
    estimators: Iterable[str | Estimator] | None
    per_user: bool
    seen: Seen
    by: Any


def progress_bar(parts: Iterable[object], progress: bool | None, total: int | None = None) -> Any:
    """Return the parts with a progress bar; progress None: only on a terminal."""
    is_disabled = None if progress is None else not progress
    return quiet_tqdm()(parts, desc="evaluating", unit="part", delay=DELAY, disable=is_disabled, total=total)


def make_plan(
    items: AnyArray,
    popularity: IntArray,
    count_users: Callable[[], pd.DataFrame],
    *,
    users: object = None,
    propensity: object = None,
    metrics: Iterable[str | Metric] = DEFAULT_METRICS,
    estimators: Iterable[str | Estimator] | None = None,
    per_user: bool = False,
    seen: Seen = "exclude",
    by: object = None,
    **options: Unpack[CommonOptions],
) -> Plan:
    """Return the plan, with the propensity fitted to the counts of all training interactions.

    `count_users` reads the frames for the training rows of each user, `trained`, where groups need them.
    """
    check_options(options, PartitionOptions)
    check_type("per_user", per_user, (bool, np.bool_))
    if np.ndim(options.get("n_relevant")):  # type: ignore[arg-type]  # None and text have no dimension
        raise InputError(
            "n_relevant must be one number, 'estimated' or None here; got an array. Numbers for each user "
            "need ipseval.evaluate."
        )
    fitted = _fit_propensity(propensity, popularity)
    requested = resolve_estimators(estimators, fitted)
    _check_separable(requested)
    user_ids = None if users is None else to_id_array(users, "users")
    check_choice("seen", seen, ("exclude", "include"))
    return Plan(
        request=Request.from_arguments(metrics, requested, fitted, **options),
        items=items,
        users=user_ids,
        per_user=per_user,
        seen=seen,
        planned_groups=PlannedGroups.from_request(by, items, popularity, user_ids, count_users),
    )


def _check_separable(estimators: Iterable[Estimator]) -> None:
    """Raise `InputError` for estimators that cannot be computed user by user."""
    inseparable = []
    for estimator in estimators:
        if not estimator.separable:
            inseparable.append(estimator.label)

    if inseparable:
        separable = []
        for label in ESTIMATORS:
            if ESTIMATORS[label].separable:
                separable.append(label)

        raise InputError(
            f"{', '.join(inseparable)} read all users at once and cannot be computed in partitions; "
            f"use {', '.join(separable)}."
        )


def finish_evaluation(parts: list[Reduction | None], models: Mapping[str, object], plan: Plan) -> Evaluation:
    """Return the evaluation of all partitions, with the users of the population that have no row in any."""
    reduction = merge_reductions(parts)
    if reduction is None:
        raise InputError("train and test have no rows.")
    absent_users = find_absent_users(reduction.size.n_population, reduction.user_ids, plan)
    if absent_users.size:
        reduction = reduction.merge(_reduce_absent_users(absent_users, models, plan))

    user_ids = plan.users
    if plan.per_user:
        if user_ids is None:
            user_ids = np.sort(reduction.user_ids)
        reduction = reduction.ordered(user_ids)
    if user_ids is None:
        user_ids = np.zeros(0, dtype=np.int64)
    evaluation = build_evaluation(reduction, plan.request, user_ids)
    segments = {}
    for sums in reduction.segments:
        segments[sums.groups.name] = build_evaluation_segments(evaluation, sums)

    return replace(evaluation, segments=segments)


def _reduce_absent_users(users: AnyArray, models: Mapping[str, object], plan: Plan) -> Reduction:
    """Return the sums of users without a row in any frame."""
    no_rows = Rows(pd.DataFrame({"user": [], "item": []}), plan.catalogue)
    empty_models: dict[str, Model] = {}
    for name, model in models.items():
        empty_models[name] = model if isinstance(model, Factors) else no_rows
    return reduce_users(users, no_rows, no_rows, empty_models, plan)


def _fit_propensity(propensity: object, popularity: IntArray) -> Propensity | None:
    """Return a propensity per item, fitted to the popularity where a model is given."""

    def fit_to_counts(model: object) -> Propensity:
        error = PropensityError(
            f"{type(model).__name__} cannot be fitted to item counts alone; fit it first and pass the "
            "Propensity."
        )
        fit = getattr(model, "fit", None)
        if fit is None or "popularity" not in inspect.signature(fit).parameters:
            raise error
        try:
            propensity: Propensity = fit(popularity=popularity)
        except AttributeError:  # the model reads the training log, which is None here
            raise error from None
        return propensity

    resolved = resolve_propensity(propensity, fit_to_counts)
    if resolved is not None and resolved.item is None:
        raise PropensityError("a propensity per user-item pair is not supported here; use one per item.")
    return resolved


def split_models(
    models: Any, users: AnyArray | None, n_items: int
) -> tuple[dict[str, Any], dict[str, Factors]]:
    """Return the models that are frames or files, and the models that are factors."""
    check_models(models, "models", "lists")
    frames = {}
    factors = {}
    for name, model in models.items():
        if isinstance(model, tuple):
            factors[name] = _check_factors(name, model, users, n_items)
        else:
            frames[name] = model
    return frames, factors


def _check_factors(name: str, model: tuple[Any, ...], users: AnyArray | None, n_items: int) -> Factors:
    """Return the factors of a model, or raise `InputError` where their sizes do not fit."""
    if users is None:
        raise InputError(f"{name} is given by factors; pass users=, the ids of their rows.")
    if len(model) not in (2, 3):
        raise InputError(
            f"{name} is a tuple of {len(model)}; expected (user_factors, item_factors[, item_bias])."
        )
    factors = Factors(*model)
    n_users_found = len(factors.user_factors)
    n_items_found = len(factors.item_factors)
    if n_users_found != len(users) or n_items_found != n_items:
        raise InputError(
            f"{name} has factors of {n_users_found} users and {n_items_found} items; expected "
            f"{len(users)} as in users= and {n_items} as in items=."
        )
    return factors
