"""What the driver does: decide once before the workers start, and finish what they send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import pandas as pd

from ipseval.distributed.partition import (
    Factors,
    Grouped,
    Plan,
    Seen,
    absent_users,
    reduce_users,
)
from ipseval.distributed.sorted_pairs import Rows
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import ESTIMATORS, Estimator
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.pipeline import finished
from ipseval.evaluation.reduction import Reduction, merge_all
from ipseval.evaluation.request import (
    DEFAULT_METRICS,
    CommonOptions,
    Request,
    check_options,
    fitted_propensity,
    requested_estimators,
)
from ipseval.evaluation.segments.build import build_evaluation_segments
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.utils.checks import check_choice, check_models, check_type
from ipseval.utils.compute import quiet_tqdm
from ipseval.utils.ids import to_id_array
from ipseval.utils.types import AnyArray, IntArray

DELAY = 2.0  # seconds before a bar appears


class PartitionOptions(CommonOptions, total=False):
    """Options of `make_plan`, which every door to partitions takes; `evaluate_dask` describes them."""

    users: Any
    propensity: Any
    metrics: Iterable[str | Metric]
    estimators: Iterable[str | Estimator] | None
    per_user: bool
    seen: Seen
    by: Any


def bar(parts: Any, progress: bool | None, total: int | None = None) -> Any:
    """Return a bar over parts; progress None: only on a terminal."""
    hidden = None if progress is None else not progress
    return quiet_tqdm()(parts, desc="evaluating", unit="part", delay=DELAY, disable=hidden, total=total)


def make_plan(
    items: AnyArray,
    popularity: IntArray,
    count: Callable[[], pd.DataFrame],
    *,
    users: Any | None = None,
    propensity: Any = None,
    metrics: Iterable[str | Metric] = DEFAULT_METRICS,
    estimators: Iterable[str | Estimator] | None = None,
    per_user: bool = False,
    seen: Seen = "exclude",
    by: Any = None,
    **options: Unpack[CommonOptions],
) -> Plan:
    """Return the plan, with the propensity fitted to the counts of all training interactions.

    `count` goes through the frames for the training rows of each user, `trained`, where groups need them.
    """
    check_options(options, PartitionOptions)
    check_type("per_user", per_user, (bool, np.bool_))
    if np.ndim(options.get("n_relevant")):  # type: ignore[arg-type]  # None and text have no dimension
        raise InputError(
            "n_relevant must be one number, 'estimated' or None here; got an array. Numbers for each user "
            "need ipseval.evaluate."
        )
    fitted = _fitted(propensity, popularity)
    chosen = requested_estimators(estimators, fitted)
    others = [one.label for one in chosen if not one.separable]
    if others:
        raise InputError(
            f"{', '.join(others)} read all users at once and cannot be computed in partitions; "
            f"use {', '.join(one for one in ESTIMATORS if ESTIMATORS[one].separable)}."
        )
    ids = None if users is None else to_id_array(users, "users")
    check_choice("seen", seen, ("exclude", "include"))
    request = Request.of(metrics, chosen, fitted, **options)
    grouped = Grouped.of(by, items, popularity, ids, count)
    return Plan(request, items, ids, per_user, seen, grouped)


def finish(parts: list[Reduction | None], models: Mapping[str, Any], plan: Plan) -> Evaluation:
    """Return the evaluation of all partitions, with the users of the population that have no row in any."""
    merged = merge_all(parts)
    if merged is None:
        raise InputError("train and test have no rows.")
    absent = absent_users(merged.extent.n_population, merged.user_ids, plan)
    if absent.size:
        none = Rows(pd.DataFrame({"user": [], "item": []}), plan.catalogue)
        unlisted = {name: one if isinstance(one, Factors) else none for name, one in models.items()}
        merged = merged.merge(reduce_users(absent, none, none, unlisted, plan))
    ids = plan.users
    if plan.per_user:
        ids = np.sort(merged.user_ids) if ids is None else ids
        merged = merged.ordered(ids)
    evaluation = finished(merged, plan.request, np.zeros(0, dtype=np.int64) if ids is None else ids)
    segments = {one.groups.name: build_evaluation_segments(evaluation, one) for one in merged.segments}
    return replace(evaluation, segments=segments)


def _fitted(propensity: Any, popularity: IntArray) -> Propensity | None:
    def fit(model: Any) -> Propensity:
        try:
            fitted: Propensity = model.fit(popularity=popularity)
        except (TypeError, AttributeError):
            raise PropensityError(
                f"{type(model).__name__} cannot be fitted to item counts alone; fit it first and pass "
                "the Propensity."
            ) from None
        return fitted

    found = fitted_propensity(propensity, fit)
    if found is not None and found.item is None:
        raise PropensityError("a propensity per user-item pair is not supported here; use one per item.")
    return found


def split_models(models: Any, users: Any | None, n_items: int) -> tuple[dict[str, Any], dict[str, Factors]]:
    """Return the models given as frames and those given as factors."""
    check_models(models, "models", "lists")
    frames, factors = {}, {}
    for name, model in models.items():
        if not isinstance(model, tuple):
            frames[name] = model
            continue
        if users is None:
            raise InputError(f"{name} is given by factors; pass users=, the ids of their rows.")
        if len(model) not in (2, 3):
            raise InputError(
                f"{name} is a tuple of {len(model)}; expected (user_factors, item_factors[, item_bias])."
            )
        user_factors, item_factors, *_ = model
        if len(user_factors) != len(users) or len(item_factors) != n_items:
            raise InputError(
                f"{name} has factors of {len(user_factors)} users and {len(item_factors)} items; expected "
                f"{len(users)} as in users= and {n_items} as in items=."
            )
        factors[name] = Factors(*model)
    return frames, factors
